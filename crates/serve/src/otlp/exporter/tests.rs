//! The exporter against a small collector, that takes or refuses as it is told.

use super::*;
use crate::admin::Routes;
use base::Nanos;
use base::trace::{OK, Open, Options, Place, Tracer};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::SyncSender;

/// A request that came.
#[derive(Debug)]
struct Came {
    path: String,
    head: String,
    body: Value,
}

/// Answers each request of `path` with the next of these, and the last of them for ever; says what came.
fn collector(answers: &'static [(&'static str, &'static [&'static str])]) -> (SocketAddr, Receiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = std::sync::mpsc::sync_channel(1000);
    std::thread::spawn(move || {
        let mut counts = vec![0; answers.len()];
        for stream in listener.incoming() {
            // It ends with the test, which hears nothing any more.
            if serve(stream.expect("a client"), answers, &mut counts, &tell).is_none() {
                return;
            }
        }
    });
    (address, told)
}

fn serve(
    stream: std::net::TcpStream,
    answers: &[(&str, &[&'static str])],
    counts: &mut [usize],
    tell: &SyncSender<Came>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return Some(());
        }
    }
    let lower = head.to_lowercase();
    let length =
        lower.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let mut body = vec![0; length.expect("its length is said")];
    reader.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    let at = answers.iter().position(|(known, _)| *known == path).expect("it is asked at a path of OTLP");
    let answer = answers[at].1[counts[at].min(answers[at].1.len() - 1)];
    counts[at] += 1;
    let (status, text) = answer.split_once('|').unwrap_or((answer, "{}"));
    let length = text.len();
    let stream = reader.get_mut();
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{text}")
        .ok()?;
    let body = serde_json::from_slice(&body).expect("JSON");
    tell.send(Came { path, head: lower, body }).ok()
}

fn target(address: SocketAddr) -> Target {
    let said = format!("http://{address}");
    let variables = |name: &str| match name {
        "OTEL_METRIC_EXPORT_INTERVAL" => Some("100".to_owned()),
        "OTEL_EXPORTER_OTLP_HEADERS" => Some("x-tenant=a".to_owned()),
        _ => None,
    };
    Target::of(Some(&said), variables).expect("good").expect("there is one")
}

fn span(tracer: &Tracer, name: &'static str) {
    Open::begin(tracer, None, Nanos(1)).end(name, Place::Edge, Nanos(2), OK);
}

/// Names of the spans of a request.
fn names(came: &Came) -> Vec<&str> {
    let spans = came.body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("a list");
    spans.iter().map(|span| span["name"].as_str().expect("text")).collect()
}

fn next<'a>(told: &'a Receiver<Came>, path: &'a str) -> Came {
    told.iter().find(|came| came.path == path).expect("it goes on sending")
}

crate::families! { "millrace_pump_";
    LITRES counter "litres" count [] "Litres pumped.";
}

/// What a collector cannot take now it gets again, and what comes meanwhile behind it; what it refuses, and what is too old by then, is counted as dropped.
#[test]
fn spans_and_metrics_reach_a_collector_that_comes_and_goes() {
    let dropped = || COUNTERS.spans_dropped.load(Ordering::Relaxed);
    let (address, told) = collector(&[
        (
            "/v1/traces",
            &[
                "503 Service Unavailable",
                "200 OK",
                "400 Bad Request",
                "200 OK|{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"too long\"}}",
                "200 OK",
            ],
        ),
        ("/v1/metrics", &["200 OK"]),
    ]);
    let tracer = Tracer::new(Options { spans: 3, seed: 1 }).of("cache");
    let routes = Routes::default().metrics(|page| page.add(LITRES, &[], 7u64)).traces(&tracer);
    let before = dropped();
    // The ring has room for three.
    ["old", "older", "first", "second", "third"].iter().for_each(|name| span(&tracer, name));
    let exporter = Exporter::start(target(address), routes.into_shown()).expect("a thread");

    let metrics = next(&told, "/v1/metrics");
    assert!(
        metrics.head.contains("x-tenant: a") && metrics.head.contains("application/json"),
        "{}",
        metrics.head
    );
    let all = metrics.body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("a list");
    let litres = all.iter().find(|metric| metric["name"] == "millrace_pump_litres").expect("it is there");
    assert_eq!(litres["sum"]["dataPoints"][0]["asInt"], "7");
    assert!(all.iter().any(|metric| metric["name"] == "process_cpu" && metric["unit"] == "s"));

    let (refused, again) = (next(&told, "/v1/traces"), next(&told, "/v1/traces"));
    let first = ["first", "second", "third"];
    assert_eq!((names(&refused), names(&again)), (first.to_vec(), first.to_vec()));
    let id = |came: &Came| came.body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"].clone();
    assert_eq!(id(&refused), id(&again), "the same again");
    span(&tracer, "refused");
    assert_eq!(names(&next(&told, "/v1/traces")), ["refused"]);
    span(&tracer, "rejected");
    assert_eq!(names(&next(&told, "/v1/traces")), ["rejected"]);
    span(&tracer, "last");
    drop(exporter);
    assert_eq!(names(&next(&told, "/v1/traces")), ["last"]);
    assert_eq!(dropped() - before, 2 + 1 + 1, "too old, refused, rejected");
    let mut page = Page::default();
    collect(&mut page);
    let text = page.text();
    assert!(
        text.contains("millrace_otlp_requests_total{signal=\"traces\",outcome=\"failed\"} 1\n"),
        "{text}"
    );
    assert!(
        text.contains("millrace_otlp_requests_total{signal=\"traces\",outcome=\"refused\"} 1\n"),
        "{text}"
    );
}

#[test]
fn answers_say_what_became_of_a_request() {
    for (status, text, outcome) in [
        ("200 OK", "", Outcome::Taken { rejected: 0 }),
        ("200 OK", "{}", Outcome::Taken { rejected: 0 }),
        ("202 Accepted", "{\"partialSuccess\":{\"rejectedDataPoints\":3}}", Outcome::Taken { rejected: 3 }),
        ("200 OK", "{\"partialSuccess\":{\"rejectedSpans\":\"many\"}}", Outcome::Taken { rejected: 0 }),
        ("429 Too Many Requests", "", Outcome::Failed),
        ("503 Service Unavailable", "{}", Outcome::Failed),
        ("400 Bad Request", "{}", Outcome::Refused),
        ("404 Not Found", "", Outcome::Refused),
        ("", "", Outcome::Refused),
    ] {
        assert_eq!(outcome_of(status, text), outcome, "{status} {text}");
    }
}
