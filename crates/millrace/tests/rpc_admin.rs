//! The admin port of `millrace rpc serve`: what it says of calls that were made, and what it changes. What every server has there: `admin.rs`.

mod served;

use serde_json::Value;
use served::http::http;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// A running `millrace rpc serve --admin`.
struct Serving {
    process: Child,
    address: String,
    admin: String,
    token: String,
    _folder: TempDir,
}

impl Serving {
    fn start() -> Serving {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let address = format!("unix:{}", folder.path().join("s").display());
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
        Serving { process, address, admin, token, _folder: folder }
    }

    /// A call of demo.Echo; whether it succeeded.
    fn call(&self, method: &str, more: &[&str]) -> bool {
        let arguments = [&["rpc", "call", &self.address, method], more].concat();
        Command::new(PROGRAM).args(arguments).output().expect("the program").status.success()
    }

    fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let answer =
            http(&self.admin, &[("Authorization", &format!("Bearer {}", self.token))], (method, path, body));
        (answer.status, answer.body)
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
    let server = Serving::start();
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
    let server = Serving::start();
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
