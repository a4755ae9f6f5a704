//! `millrace rpc` as its users run it: the program against a server that is the program.
//!
//! Each test has a server of its own in a folder of its own, that ends when the test lets go of its standard input.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// A running `millrace rpc serve`.
struct Serving {
    process: Child,
    address: String,
    folder: TempDir,
}

impl Serving {
    fn start() -> Serving {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let address = format!("shm:{}", folder.path().join("s").display());
        let mut process = Command::new(PROGRAM)
            .args(["rpc", "serve", "--until-eof", "--listen", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("its address");
        assert_eq!(line.trim(), address);
        Serving { process, address, folder }
    }

    fn rpc(&self, command: &str, arguments: &[&str]) -> Output {
        run(&[&["rpc", command, &self.address], arguments].concat(), "")
    }

    /// Standard output of a command that works.
    fn ok(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.rpc(command, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Standard error and exit status of a command that does not.
    fn fails(&self, command: &str, arguments: &[&str]) -> (String, i32) {
        let output = self.rpc(command, arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", stdout(&output));
        (stderr(&output), output.status.code().expect("it was not killed"))
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

fn run(arguments: &[&str], input: &str) -> Output {
    let mut process = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    // A command that reads nothing closes its input early.
    let _ = process.stdin.take().expect("piped").write_all(input.as_bytes());
    process.wait_with_output().expect("it ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[test]
fn list_shows_services_and_methods_and_describes_them() {
    let server = Serving::start();
    let list = server.ok("list", &[]);
    for line in [
        "demo.Echo  schema ",
        "  demo.Echo/Say  key text, cacheable for 60 s\n",
        "  demo.Echo/Count  server stream\n",
        "  demo.Echo/Chat  streams both ways\n",
    ] {
        assert!(list.contains(line), "{line:?} in\n{list}");
    }
    let one = server.ok("list", &["Echo"]);
    assert!(one.starts_with("demo.Echo") && !one.contains("millrace.Reflection"), "{one}");

    let listed: serde_json::Value =
        serde_json::from_str(&server.ok("list", &["Echo", "--json"])).expect("JSON");
    assert_eq!(listed[0]["service"], "demo.Echo", "{listed}");
    let methods = listed[0]["methods"].as_array().expect("methods");
    let say = methods.iter().find(|method| method["name"] == "Say").expect("it has one");
    assert_eq!(say["says"], serde_json::json!(["key text", "cacheable for 60 s"]), "{listed}");

    // What it describes can be used as a .proto file.
    let described = server.ok("list", &["demo.Echo", "--describe"]);
    assert!(described.contains("rpc Sum(stream Number) returns (Number);"), "{described}");
    assert!(described.contains("option (millrace.key) = \"text\";"), "{described}");
    let file = server.folder.path().join("again.proto");
    std::fs::write(&file, described).expect("a file");
    let reply =
        server.ok("call", &["Echo/Say", "-d", "{\"text\":\"x\"}", "--proto", file.to_str().expect("text")]);
    assert_eq!(serde_json::from_str::<Value>(&reply).expect("JSON"), json!({"text": "x"}));

    let (words, code) = server.fails("list", &["demo.Ecko"]);
    assert!(code == 1 && words.contains("no service demo.Ecko; did you mean demo.Echo?"), "{words}");
}

#[test]
fn call_takes_json_and_prints_json() {
    let server = Serving::start();
    let reply = server.ok("call", &["demo.Echo/Say", "--data", r#"{"text": "héllo"}"#]);
    assert_eq!(reply, "{\n  \"text\": \"héllo\"\n}\n");
    let reply = server.ok("call", &["Say", "--compact", "--defaults"]);
    assert_eq!(reply, "{\"text\":\"\"}\n");

    let file = server.folder.path().join("request.json");
    std::fs::write(&file, r#"{"text":"from a file"}"#).expect("a file");
    let reply = server.ok("call", &["Say", "-d", &format!("@{}", file.display()), "--compact"]);
    assert_eq!(reply, "{\"text\":\"from a file\"}\n");
}

#[test]
fn streams_are_a_line_per_message() {
    let server = Serving::start();
    assert_eq!(
        server.ok("call", &["Count", "-d", r#"{"to":3}"#]),
        "{\"value\":\"1\"}\n{\"value\":\"2\"}\n{\"value\":\"3\"}\n"
    );
    let many: String = (1..=500).map(|value| format!("{{\"value\":{value}}}\n")).collect();
    let sum = run(&["rpc", "call", &server.address, "Sum", "-d", "@-", "--compact"], &many);
    assert_eq!(stdout(&sum), "{\"value\":\"125250\"}\n", "{}", stderr(&sum));
    let chat = run(&["rpc", "call", &server.address, "Chat", "-d", "@-"], r#"{"text":"a"} {"text":"b"}"#);
    assert_eq!(stdout(&chat), "{\"text\":\"a\"}\n{\"text\":\"b\"}\n", "{}", stderr(&chat));
}

#[test]
fn the_exit_status_is_the_calls() {
    let server = Serving::start();
    let (words, code) = server.fails("call", &["Fail", "-d", r#"{"code":5,"message":"no such thing"}"#]);
    assert_eq!((words.as_str(), code), ("millrace: NOT_FOUND: no such thing\n", 64 + 5));
    let slow = ["Wait", "-d", r#"{"milliseconds":60000}"#, "--timeout", "20ms"];
    let (words, code) = server.fails("call", &slow);
    assert!(code == 64 + 4 && words.contains("DEADLINE_EXCEEDED"), "{words}");
    let reply = server.ok("call", &["Wait", "-d", r#"{"milliseconds":1,"text":"there"}"#, "--compact"]);
    assert_eq!(reply, "{\"text\":\"there\"}\n");
}

#[test]
fn what_is_wrong_is_said_and_what_to_do_about_it() {
    let server = Serving::start();
    for (arguments, wanted) in [
        (&["demo.Echo/Sya"][..], "no method demo.Echo/Sya; did you mean demo.Echo/Say"),
        (&["Say", "-d", "{\"txt\":\"\"}"], "no demo.SayRequest in JSON"),
        (&["Say", "-d", "{\"text\":\"a\"} {}"], "demo.Echo/Say takes one message"),
        (&["Say", "-d", "@/no/such/file"], "/no/such/file: "),
        (&["Say", "-H", "no colon"], "write key:value"),
        (&["Say", "--proto", "/no/such.proto"], "/no/such.proto"),
    ] {
        let (words, code) = server.fails("call", arguments);
        assert!(code == 1 && words.contains(wanted), "{arguments:?}: {words}");
    }
    let nobody = format!("shm:{}", server.folder.path().join("nobody").display());
    let output = run(&["rpc", "list", &nobody], "");
    assert!(stderr(&output).contains("millrace rpc serve --listen"), "{}", stderr(&output));
}

#[test]
fn metadata_goes_along() {
    let server = Serving::start();
    server.ok("call", &["Say", "-H", "tenant: blue", "-H", "Trace-Id:7"]);
}

#[test]
fn bench_loads_a_server() {
    let server = Serving::start();
    let page = server.folder.path().join("report.html");
    let arguments = ["--duration", "100ms", "--warmup", "10ms", "--window", "4", "--threads", "2", "--json"];
    let text = server.ok("bench", &[&arguments[..], &["--report", page.to_str().expect("text")]].concat());
    let result: Value = serde_json::from_str(&text).expect("JSON");
    assert!(result["replies"].as_u64().expect("a count") > 0, "{result}");
    assert!(result["failed"].as_object().expect("a map").is_empty(), "{result}");
    assert!(std::fs::read_to_string(page).expect("a page").contains("<svg"));

    let other = ["--method", "Wait", "--data", "{\"milliseconds\":1}", "--duration", "50ms", "--calls", "5"];
    let text = server.ok("bench", &[&other[..], &["--rate", "1000", "--window", "100"]].concat());
    assert!(text.contains("/demo.Echo/Wait"), "{text}");

    let failing = ["--method", "Fail", "--data", "{\"code\":9}", "--duration", "50ms"];
    let (words, _) = server.fails("bench", &failing);
    assert!(words.contains("FAILED_PRECONDITION"), "{words}");
}

#[test]
fn bench_measures_a_matrix_against_servers_of_its_own() {
    if base::cpu::allowed_cores().len() < 2 {
        eprintln!("SKIPPED: a matrix needs two cores");
        return;
    }
    let arguments = [
        "rpc",
        "bench",
        "--transports",
        "memory,shm",
        "--windows",
        "1,8",
        "--rounds",
        "1",
        "--slice",
        "5ms",
        "--json",
    ];
    let output = run(&arguments, "");
    assert!(output.status.success(), "{}", stderr(&output));
    let result: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let cells = result["cells"].as_array().expect("cells");
    assert_eq!(cells.len() % 4, 0, "{result}");
    assert!(cells.iter().any(|cell| cell["transport"] == "memory" && cell["window"] == 8), "{result}");

    let output = run(&["rpc", "bench", "--transports", "pigeon"], "");
    assert!(stderr(&output).contains("no transport pigeon; there are memory, shm"), "{}", stderr(&output));
}

#[test]
fn soak_changes_everything_and_loses_nothing() {
    let output =
        run(&["rpc", "soak", "--seconds", "2", "--every", "5ms", "--switch", "--seed", "4", "--json"], "");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let result: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let count = |of: &Value| of.as_u64().expect("a count");
    let calls = &result["calls"];
    assert!(count(&calls["started"]) > 0 && count(&result["changes"]) > 0, "{result}");
    assert_eq!(count(&calls["started"]), count(&calls["replies"]));
    assert!(count(&calls["switches"]) > 0, "{result}");
}
