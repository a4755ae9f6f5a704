//! Admin ports: what every server has there; and of `millrace rpc serve` what it says of calls that were made, and what it changes.

#[allow(dead_code)] // Its own tests run with `serve`.
#[path = "../../serve/src/metrics/lint.rs"]
mod lint;

use serde_json::Value;
use serve::inc::registers::Registers;
use serve::inc::topology::{Shape, Topology};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// How long a server may take until it is ready.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Status and body of an HTTP request.
fn http(admin: &str, token: &str, (method, path, body): (&str, &str, &str)) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).expect("the port");
    let len = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// A running `millrace rpc serve --admin`.
struct Serving {
    process: Child,
    address: String,
    admin: String,
    token: String,
    folder: PathBuf,
}

impl Serving {
    fn start(test: &str) -> Serving {
        let folder = std::env::temp_dir().join(format!("millrace-rpc-admin-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let address = format!("unix:{}", folder.join("s").display());
        let mut process = Command::new(PROGRAM)
            .args(["rpc", "serve", "--until-eof", "--admin", "127.0.0.1:0", "--listen", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        assert_eq!(line(), address);
        let admin = line().strip_prefix("http://").expect("the admin port").to_owned();
        let file = line().strip_prefix("token ").expect("the token's file").to_owned();
        let token = std::fs::read_to_string(file).expect("a token").trim().to_owned();
        Serving { process, address, admin, token, folder }
    }

    /// A call of demo.Echo; whether it succeeded.
    fn call(&self, method: &str, more: &[&str]) -> bool {
        let arguments = [&["rpc", "call", &self.address, method], more].concat();
        Command::new(PROGRAM).args(arguments).output().expect("the program").status.success()
    }

    fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        http(&self.admin, &self.token, (method, path, body))
    }

    fn get(&self, path: &str) -> String {
        let (status, body) = self.http("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).expect("JSON")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let status = self.process.wait().expect("it is ours");
        let _ = std::fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            assert!(status.success(), "the server ended with {status}");
        }
    }
}

/// The number of the sample whose name and labels begin so.
fn sample(metrics: &str, beginning: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("{beginning} in\n{metrics}"));
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn what_was_called_is_what_it_says() {
    let server = Serving::start("calls");
    assert_eq!(server.http("PUT", "/registers/trace.sample", "1").0, 200);
    for _ in 0..3 {
        assert!(server.call("demo.Echo/Say", &["-d", r#"{"text":"x"}"#]));
    }
    assert!(!server.call("demo.Echo/Nothing", &[]), "there is no such method");

    let metrics = server.get("/metrics");
    let say = r#"side="server",method="/demo.Echo/Say""#;
    let started = sample(&metrics, &format!("millrace_rpc_calls_started_total{{{say}}}"));
    let ok = sample(&metrics, &format!("millrace_rpc_calls_ended_total{{{say},code=\"OK\"}}"));
    assert_eq!((started, ok), (3, 3));
    assert_eq!(sample(&metrics, r#"millrace_register{name="trace.sample""#), 1);

    let stats = server.json("/stats.json");
    let calls = stats["calls"].as_array().expect("a list");
    let all: u64 = calls.iter().map(|calls| calls["started"].as_u64().expect("a number")).sum();
    assert_eq!(stats["traffic"][0]["transport"], "unix");
    assert_eq!(stats["traffic"][0]["opened"], 4, "a connection for each command");
    assert!(stats["traffic"][0]["frames_received"].as_u64() >= Some(all), "a frame for each call at least");

    let trace = server.json("/trace");
    let events = trace["traceEvents"].as_array().expect("a list");
    let said = events.iter().filter(|event| event["name"] == "/demo.Echo/Say").count();
    assert_eq!(said, 3, "each call left a span");
    assert!(server.json("/connections").is_array());
}

#[test]
fn registers_are_set_within_their_ranges() {
    let server = Serving::start("registers");
    assert_eq!(server.json("/registers/monitor.sample")["number"], 64);
    let (status, body) = server.http("PUT", "/registers/monitor.sample", "8");
    assert!(status == 200 && body.contains("\"number\":8"), "{body}");
    assert_eq!(server.http("PUT", "/registers/monitor.sample", "often").0, 400);
    assert_eq!(server.http("GET", "/registers/monitor.simple", "").0, 404);
    let listed = Command::new(PROGRAM).args(["registers", "--rpc"]).output().expect("the program");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let all = server.json("/registers");
    for register in all.as_array().expect("a list") {
        let name = register["name"].as_str().expect("text");
        assert!(listed.contains(name), "{name} in\n{listed}");
    }
}

/// A server of any kind with an admin port; ended with the test.
struct Any {
    name: &'static str,
    process: Child,
    admin: String,
}

impl Any {
    /// Starts it, and waits for the line of standard output or error that has the port after `before`.
    fn start(name: &'static str, words: &[&str], before: &str) -> Any {
        let mut process = Command::new(PROGRAM)
            .args(words)
            .args(["--admin", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let (tell, told) = std::sync::mpsc::channel();
        let (out, err) = (process.stdout.take().expect("piped"), process.stderr.take().expect("piped"));
        for stream in [Box::new(out) as Box<dyn Read + Send>, Box::new(err)] {
            let tell = tell.clone();
            std::thread::spawn(move || {
                // Read to the end: a server that cannot write is another one.
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
            });
        }
        drop(tell);
        let mut said = Vec::new();
        let admin = told.iter().find_map(|line| {
            let address = line.split_once(before).map(|(_, rest)| rest.to_owned());
            said.push(line);
            address
        });
        let admin = admin.unwrap_or_else(|| panic!("{name} says nowhere {before:?}: {said:?}"));
        let admin = admin.split(['/', '"']).next().expect("an address").to_owned();
        Any { name, process, admin }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let port = self.admin.rsplit(':').next().expect("a port");
        let address = format!("127.0.0.1:{port}").parse().expect("an address");
        let token = std::fs::read_to_string(serve::admin::token_file(address)).unwrap_or_default();
        http(&self.admin, token.trim(), (method, path, body))
    }

    /// What every port does.
    fn hold(&self) {
        let name = self.name;
        let begun = std::time::Instant::now();
        loop {
            let (status, why) = self.ask("GET", "/readyz", "");
            match status {
                200 => break,
                503 if begun.elapsed() < PATIENCE => std::thread::sleep(std::time::Duration::from_millis(20)),
                _ => panic!("{name} is not ready: {status} {why}"),
            }
        }
        assert_eq!(self.ask("GET", "/healthz", ""), (200, "ok\n".to_owned()), "{name}");
        let (_, list) = self.ask("GET", "/", "");
        for route in ["GET /metrics", "PUT /registers/NAME", "GET /healthz", "GET /readyz"] {
            assert!(list.contains(route), "{name}: {route} in\n{list}");
        }
        let (status, metrics) = self.ask("GET", "/metrics", "");
        assert_eq!(status, 200, "{name}: {metrics}");
        lint::hold(&metrics);
        for family in ["process_cpu_seconds_total ", "process_open_fds ", "millrace_build_info{version="] {
            assert!(metrics.contains(family), "{name}: {family} in\n{metrics}");
        }
        assert!(metrics.contains(&format!("\nmillrace_{name}_")), "{name}'s own in\n{metrics}");
        let (_, registers) = self.ask("GET", "/registers", "");
        let registers: Value = serde_json::from_str(&registers).expect("JSON");
        let registers = registers.as_array().expect("a list");
        let of = |live: bool| registers.iter().find(|register| register["live"] == live);
        if let Some(fixed) = of(false) {
            let path = format!("/registers/{}", fixed["name"].as_str().expect("text"));
            let (status, why) = self.ask("PUT", &path, fixed["value"].as_str().expect("text"));
            assert!(status == 409 && why.contains("restart"), "{name}: {path}: {why}");
        }
        if let Some(live) = of(true) {
            let path = format!("/registers/{}", live["name"].as_str().expect("text"));
            assert_eq!(
                self.ask("PUT", &path, live["value"].as_str().expect("text")).0,
                200,
                "{name}: {path}"
            );
        }
        assert!(!registers.is_empty() && self.ask("GET", "/registers/no.such", "").0 == 404, "{name}");
    }
}

impl Drop for Any {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_server_has_the_same_port() {
    let folder = std::env::temp_dir().join(format!("millrace-ports-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).display().to_string();
    let http = "http://";
    Any::start("kv", &["up", "-p", "0", "-m", "64"], "registers on http://").hold();
    let dedicated = ["up", "-p", "0", "-m", "64", "--set", "engine.mode=dedicated"];
    Any::start("kv", &dedicated, "registers on http://").hold();

    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 1 };
    // Bound and given back: whoever takes one meanwhile makes this test fail, and none of ours does.
    let ports: Vec<_> =
        shape.nodes().iter().map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let at = |node| {
        let index = shape.nodes().iter().position(|known| *known == node).expect("a node");
        ports[index].local_addr().expect("bound")
    };
    let topology = Topology::two_levels(&shape, at, &Registers::default()).expect("it fits");
    topology.write(&folder.join("rack.toml")).expect("a file");
    drop(ports);
    let (rack, listen) = (path("rack.toml"), "127.0.0.1:0");
    let nodes = ["inc", "run", "--all", "--first", "--until-eof", "--topology", &rack];
    let inc = Any::start("inc", &nodes, "metrics at http://");
    inc.hold();
    Any::start("proxy", &["proxy", "--topology", &rack, "--listen", listen], "metrics at http://").hold();
    drop(inc);

    let (clients, peer, state) = (path("clients"), path("peer"), path("state"));
    let controller_at = format!("unix:{}", path("controller"));
    let controller =
        ["chain", "controller", "--replicas", "1", "--state", &state, "--listen", &controller_at, "--no-key"];
    let controller = Any::start("chain_controller", &controller, "metrics at http://");
    controller.hold();
    let (listen_at, peers) = (format!("unix:{clients}"), format!("1=unix:{peer}"));
    let small = ["--log-size", "8m", "--data-size", "8m", "--media", "memory", "--no-key"];
    let words = ["chain", "replica", "--id", "1", "--peers", &peers, "--controllers", &controller_at];
    let words = [&words[..], &["--listen", &listen_at], &small].concat();
    Any::start("chain", &words, "metrics at http://").hold();
    drop(controller);

    let model = ["rec", "serve", "--tables", "2", "--rows", "100", "--dim", "8", "--http", listen];
    Any::start("rec", &[&model[..], &["-l", "tcp:127.0.0.1:0"]].concat(), "registers on http://").hold();
    let address = format!("unix:{}", path("rpc"));
    let server = Any::start("rpc", &["rpc", "serve", "--listen", &address], http);
    server.hold();
    Any::start("gateway", &["rpc", "gateway", "--listen", listen, &address], "metrics at http://").hold();
    drop(server);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// Lines for people are as ever; lines for programs are JSON, all of them.
#[test]
fn a_server_logs_json() {
    let words = ["up", "-p", "0", "-m", "64", "--log-format", "json", "-v", "--admin", "0"];
    let mut process = Command::new(PROGRAM).args(words).stderr(Stdio::piped()).spawn().expect("the program");
    let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
    let mut said = Vec::new();
    for line in lines.map_while(Result::ok) {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(line["service"] == "kv" && line["time"].is_string() && line["level"].is_string(), "{line}");
        said.push(line);
        if said.iter().any(|line| line["level"] == "debug") {
            break;
        }
    }
    process.kill().expect("it runs");
    process.wait().expect("it is ours");
    let serving =
        said.iter().find(|line| line["message"].as_str().is_some_and(|text| text.starts_with("serving ")));
    assert!(serving.is_some_and(|line| line["address"].is_string()), "{said:?}");
}
