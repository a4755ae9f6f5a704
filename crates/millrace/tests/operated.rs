//! What an operator has of a node in a process of its own: why connections ended, metrics and spans at a collector, listeners that the service manager opened.
//!
//! `MILLRACE_PYTHON` names a Python with opentelemetry-proto, which has OTLP's own schema; without it that is not held, visibly, and
//! `MILLRACE_REQUIRE_PEERS=1` makes it a failure.

mod served;

use serde_json::Value;
use served::http::take;
use served::{Client, skip};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// A node that logs JSON; killed when dropped.
struct Logging {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
}

impl Logging {
    fn start(command: &mut Command) -> Logging {
        let process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = process.expect("the program");
        let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        Logging { process, lines }
    }

    /// The next line that is so.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("it goes on saying").expect("text");
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Where it serves memcached clients.
    fn address(&mut self) -> SocketAddr {
        let line =
            self.until(|line| line["message"].as_str().is_some_and(|text| text.starts_with("serving ")));
        line["address"].as_str().and_then(|address| address.parse().ok()).expect("an address")
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_connection_that_ends_has_a_reason_and_a_peer() {
    let mut node = Command::new(PROGRAM);
    node.args(["up", "-p", "0", "-m", "64", "--log-format", "json", "--log-level", "info,connections=trace"]);
    let mut node = Logging::start(&mut node);
    let address = node.address();
    let closed = |node: &mut Logging, client: SocketAddr, reason: &str| {
        let line = node.until(|line| line["target"] == "connections" && line["peer"] == client.to_string());
        assert_eq!((&line["reason"], &line["protocol"]), (&reason.into(), &"kv".into()), "{line}");
        line
    };
    let mut polite = Client::to(address);
    polite.still_works();
    polite.send("quit\r\n");
    let name = polite.stream.local_addr().expect("it is connected");
    assert_eq!(polite.rest(), b"");
    assert_eq!(closed(&mut node, name, "client")["level"], "trace");

    let mut browser = Client::to(address);
    let name = browser.stream.local_addr().expect("it is connected");
    browser.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n");
    browser.rest();
    let line = closed(&mut node, name, "protocol");
    assert_eq!((&line["level"], &line["detail"]), (&"debug".into(), &"an HTTP request".into()), "{line}");

    let mut long = Client::to(address);
    let name = long.stream.local_addr().expect("it is connected");
    long.send(vec![b'x'; 100_000]);
    long.rest();
    assert_eq!(closed(&mut node, name, "protocol")["detail"], "a line that is too long");
}

#[test]
fn a_connection_that_is_one_too_many_is_told_why() {
    let mut node = Command::new(PROGRAM);
    node.args(["up", "-p", "0", "-m", "64", "-c", "1", "--log-format", "json"]);
    let mut node = Logging::start(node.env("MILLRACE_LOG", "info,connections=debug"));
    let address = node.address();
    let mut first = Client::to(address);
    first.still_works();
    let mut second = Client::to(address);
    let name = second.stream.local_addr().expect("it is connected");
    assert_eq!(second.rest(), b"ERROR Too many open connections\r\n");
    let line = node.until(|line| line["target"] == "connections");
    assert_eq!((&line["reason"], &line["peer"]), (&"limit".into(), &name.to_string().into()), "{line}");
    first.still_works();
}

/// Whether OTLP's own schema has all that is in a request, where there is one.
fn hold_to_schema(path: &str, body: &str) {
    let python = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = "import sys; from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as Metrics
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces
if len(sys.argv) > 1: json_format.Parse(open(sys.argv[2]).read(), Metrics() if 'metrics' in sys.argv[1] else Traces())";
    let there = Command::new(&python).args(["-c", script]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return skip("MILLRACE_PYTHON names no Python with opentelemetry-proto");
    }
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("request.json");
    std::fs::write(&file, body).expect("a file");
    let output = Command::new(&python).args(["-c", script, path]).arg(&file).output().expect("it was found");
    assert!(output.status.success(), "{path}: {}\n{body}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn metrics_and_spans_reach_a_collector() {
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", collector.local_addr().expect("it is bound"));
    let mut node = Command::new(PROGRAM);
    node.args([
        "up",
        "-p",
        "0",
        "-m",
        "64",
        "--set",
        "trace.sample=1",
        "--log-format",
        "json",
        "--otlp",
        &url,
    ]);
    node.env("OTEL_METRIC_EXPORT_INTERVAL", "100")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    let mut node = Logging::start(&mut node);
    let mut client = Client::to(node.address());
    client.set("a", "1");
    assert_eq!(client.get("a").as_deref(), Some(&b"1"[..]));
    let next = |wanted: &str| loop {
        let (path, body) = take(&collector);
        if path == wanted {
            return (serde_json::from_str::<Value>(&body).expect("JSON"), body);
        }
    };
    let (spans, text) = next("/v1/traces");
    hold_to_schema("/v1/traces", &text);
    let of_service = &spans["resourceSpans"][0];
    let about = of_service["resource"]["attributes"].to_string();
    assert!(about.contains("deployment.environment") && about.contains("service.name"), "{about}");
    let spans = of_service["scopeSpans"][0]["spans"].as_array().expect("a list");
    assert!(spans.iter().any(|span| span["name"] == "set"), "{spans:#?}");
    let (metrics, text) = next("/v1/metrics");
    hold_to_schema("/v1/metrics", &text);
    let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("a list");
    let items = metrics.iter().find(|metric| metric["name"] == "millrace_kv_items").expect("it is there");
    assert_eq!(items["gauge"]["dataPoints"][0]["asInt"], "1");
    assert!(
        metrics.iter().any(|metric| metric["name"] == "millrace_otlp_requests"),
        "it counts what it sends"
    );
}

/// As systemd starts a service: listeners are descriptors from 3 on, for the process of this number.
fn handed_over(listener: TcpListener, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    // The shell becomes the program, so that the number is that of both.
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&0 0</dev/null; exec \"$@\"";
    command.args(["-c", script, "sh", PROGRAM]).args(words).stdin(OwnedFd::from(listener));
    command
}

#[test]
fn a_listener_of_the_service_manager_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    // Before there is a node: it waits.
    let mut early = Client::to(address);
    early.send("mn\r\n");
    let port = address.port().to_string();
    let words = ["up", "-l", "127.0.0.1", "-p", &port, "-m", "64", "--log-format", "json"];
    let mut node = Logging::start(&mut handed_over(listener, &words));
    assert_eq!(node.address(), address);
    early.expect("MN\r\n");
    Client::to(address).still_works();
}

#[test]
fn a_listener_that_nothing_uses_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let output = handed_over(listener, &["up", "-p", "0", "-m", "64"]).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address.to_string()) && said.contains("ListenStream="), "{said}");
}
