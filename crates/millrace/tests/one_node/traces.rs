//! One trace of a request through edge, engine and host, of services of three kinds, all from one `GET /trace`.

use super::{Node, PATIENCE, PROGRAM, QUERY, channel, http_with, millrace, write};
use base::trace::Context;
use fabric::channel::CallOptions;
use fabric::frame::push_metadata;
use serde_json::Value;
use serve::rpc::demo::proto::demo::EchoClient;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

const CONFIG: &str = r#"
[admin]
listen = 0

[services.cache]
kind = "kv"
store.memory = "16m"
engine.mode = "dedicated"
trace.sample = 1

[services.demo]
kind = "rpc"

[services.rank]
kind = "rec"
tables = 2
rows = 100
dim = 8
dense = 2
bottom = 8
top = 8
place.rec.preprocess = "host"

[[listen]]
service = "cache"
address = "tcp:127.0.0.1:0"

[[listen]]
service = "demo"
address = "tcp:127.0.0.1:0"

[[listen]]
service = "rank"
protocol = "http"
address = "127.0.0.1:0"
"#;

/// A span of `GET /trace`.
#[derive(Clone, Debug)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    service: String,
    place: String,
    outcome: String,
    begin: u64,
    end: u64,
}

/// All that the node has kept.
fn spans(node: &Node) -> Vec<Span> {
    let (status, text) = node.get("/trace");
    assert_eq!(status, 200);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let nanos = |value: &Value| (value.as_f64().expect("a number") * 1e3).round() as u64;
    let service = |process: &Value| {
        let name = events.iter().find(|event| event["name"] == "process_name" && event["pid"] == *process);
        text(&name.expect("it has a name")["args"]["name"])
    };
    let spans = events.iter().filter(|event| event["ph"] == "X").map(|event| Span {
        trace: text(&event["args"]["trace"]),
        id: text(&event["args"]["span"]),
        parent: text(&event["args"]["parent"]),
        name: text(&event["name"]),
        service: service(&event["pid"]),
        place: text(&event["args"]["place"]),
        outcome: text(&event["args"]["outcome"]),
        begin: nanos(&event["ts"]),
        end: nanos(&event["ts"]) + nanos(&event["dur"]),
    });
    spans.collect()
}

/// The trace of the request of that name and caller, once all of it is there: the request's own span is the last.
fn trace_of(node: &Node, name: &str, caller: Option<Context>) -> Vec<Span> {
    let begun = Instant::now();
    loop {
        let all = spans(node);
        let parent = format!("{:016x}", caller.map_or(0, |caller| caller.span));
        if let Some(request) = all.iter().rfind(|span| span.name == name && span.parent == parent) {
            return all.iter().filter(|span| span.trace == request.trace).cloned().collect();
        }
        assert!(begun.elapsed() < PATIENCE, "{name}: {all:?}");
        std::thread::yield_now();
    }
}

/// Each span lies in its parent; all but the first have one, and all ended well. Name and place of each.
fn checked(spans: &[Span], service: &str) -> Vec<(String, String)> {
    let mut tops = 0;
    for span in spans {
        assert_eq!((&*span.service, &*span.outcome), (service, "OK"), "{span:?}");
        let Some(parent) = spans.iter().find(|other| other.id == span.parent) else {
            tops += 1;
            continue;
        };
        assert!(parent.begin <= span.begin && span.end <= parent.end, "{span:?} in {parent:?}");
    }
    assert_eq!(tops, 1, "{spans:?}");
    let mut seen: Vec<_> = spans.iter().map(|span| (span.name.clone(), span.place.clone())).collect();
    seen.sort();
    seen
}

fn as_pairs(seen: &[(String, String)]) -> Vec<(&str, &str)> {
    seen.iter().map(|(name, place)| (&**name, &**place)).collect()
}

fn caller(number: u64) -> Context {
    Context { trace: u128::from(number) << 64 | 7, span: number, sampled: true }
}

/// Calls `Say` with this context, with handlers at that place.
fn say(node: &Node, place: &str, context: Context) -> Vec<Span> {
    node.set("demo.place.handlers", place);
    let (mut channel, mut metadata) = (channel(node), Vec::new());
    let echo = EchoClient::new(&channel).expect("it is served");
    assert!(push_metadata(&mut metadata, "traceparent", context.emit().as_bytes()));
    let options = CallOptions { metadata: &metadata, ..CallOptions::within(PATIENCE) };
    let reply = echo.say(&mut channel, &options, |request| request.set_text("traced"));
    assert_eq!(reply.expect("answered").view().text(), "traced");
    trace_of(node, "/demo.Echo/Say", Some(context))
}

#[test]
fn one_trace_follows_a_request_through_edge_engine_and_host() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let node = Node::start(&write(&folder, "node.toml", CONFIG));
    node.until("/readyz", |status, _| status == 200);

    // Recommendation over HTTP, preprocessed on a host thread.
    let asked = caller(1);
    let headers = format!("traceparent: {}\r\n", asked.emit());
    let path = "/v2/models/synthetic/infer";
    let answer = http_with(&node.at("rank", "http://"), "POST", path, &headers, QUERY).read_whole();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let own = answer.lines().find_map(|line| line.strip_prefix("traceparent: ")).expect("it says its own");
    let own = Context::parse(own.as_bytes()).expect("a context");
    let spans = trace_of(&node, "infer", Some(asked));
    assert!(spans.iter().all(|span| span.trace == format!("{:032x}", asked.trace)));
    assert!(spans.iter().any(|span| span.name == "infer" && span.id == format!("{:016x}", own.span)));
    assert_eq!(
        as_pairs(&checked(&spans, "rank")),
        [
            ("answer", "edge"),
            ("batch wait", "engine"),
            ("compute", "engine"),
            ("host", "engine"),
            ("infer", "edge"),
            ("preprocess", "host"),
            ("queue", "engine"),
            ("read", "edge"),
            ("running", "host"),
            ("task", "engine"),
            ("waiting", "host"),
        ]
    );

    // A call, at each place.
    let stages = [("/demo.Echo/Say", "edge"), ("handle", "edge"), ("queue", "edge"), ("reply", "edge")];
    for (number, place, there) in [
        (2, "edge", vec![]),
        (3, "engine", vec![("execute", "engine"), ("queue", "engine")]),
        (4, "host", vec![("running", "host"), ("waiting", "host")]),
    ] {
        let spans = say(&node, place, caller(number));
        let mut wanted = [&stages[..], &there].concat();
        wanted.sort_unstable();
        assert_eq!(as_pairs(&checked(&spans, "demo")), wanted, "{place}");
    }

    // A GET, executed on the engine's own thread.
    let mut memcached = TcpStream::connect(node.at("cache", "tcp:")).expect("it listens");
    memcached.write_all(b"get a\r\n").expect("sent");
    let mut end = [0; 5];
    memcached.read_exact(&mut end).expect("answered");
    let spans = trace_of(&node, "get", None);
    assert_eq!(
        as_pairs(&checked(&spans, "cache")),
        [("execute", "engine"), ("get", "edge"), ("queue", "engine"), ("read", "edge"), ("write", "edge")]
    );
    what_operators_see(&node, &folder);
}

/// The other ways to the same spans.
fn what_operators_see(node: &Node, folder: &TempDir) {
    let (status, own) = node.get("/services/rank/trace");
    assert!(status == 200 && own.contains("\"infer\"") && !own.contains("/demo.Echo/Say"), "{own}");
    let (status, otlp) = node.get("/trace.otlp");
    let otlp: Value = serde_json::from_str(&otlp).expect("JSON");
    assert_eq!((status, otlp["resourceSpans"].as_array().map(Vec::len)), (200, Some(3)));
    let (_, metrics) = node.get("/metrics");
    let recorded = super::sample(&metrics, "millrace_trace_spans_total").expect("it counts");
    assert_eq!((recorded, spans(node).len()), (11.0 + 4.0 + 6.0 + 6.0 + 5.0, 32));

    let admin = node.at("admin", "http://");
    let shown = millrace(&["trace", &admin]);
    for wanted in ["      running  ", "    preprocess   host ", "rank/host-0", "cache/engine", "#####"] {
        assert!(shown.contains(wanted), "{wanted} in\n{shown}");
    }
    assert_eq!(shown.matches("trace 0000").count(), 4, "one for each caller:\n{shown}");
    let slowest: Value =
        serde_json::from_str(&millrace(&["trace", &admin, "--slowest", "2", "--json"])).expect("JSON");
    let times: Vec<u64> =
        slowest.as_array().expect("a list").iter().filter_map(|t| t["spent_ns"].as_u64()).collect();
    assert!(times.len() == 2 && times[0] >= times[1], "{slowest}");
    let file = folder.path().join("trace.json");
    millrace(&["trace", &admin, "--service", "demo", "--chrome", file.to_str().expect("text")]);
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("written")).expect("JSON");
    assert!(written["traceEvents"].as_array().is_some_and(|events| events.len() > 12));
}

#[test]
fn without_traces_it_is_said_what_to_do() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let node = Node::start(&write(&folder, "node.toml", &CONFIG.replace("trace.sample = 1\n", "")));
    node.until("/readyz", |status, _| status == 200);
    let mut memcached = TcpStream::connect(node.at("cache", "tcp:")).expect("it listens");
    memcached.write_all(b"get a\r\n").expect("sent");
    memcached.read_exact(&mut [0; 5]).expect("answered");
    let told = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).arg("trace").args(arguments).output().expect("the program");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let admin = node.at("admin", "http://");
    let why = told(&[&admin]);
    assert!(why.contains("sampling is off (cache.trace.sample") && why.contains("curl -X PUT"), "{why}");
    let why = told(&[&admin, "--service", "cahce"]);
    assert!(why.contains("has no /services/cahce/trace"), "{why}");
    let why = told(&[&node.at("cache", "tcp:")]);
    assert!(why.contains("is no admin port") || why.contains("no admin port answers"), "{why}");
}
