//! `millrace place` at a node that runs: it moves what it is told to, says so, leaves the node as it is, and its log plays again.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn millrace(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().expect("millrace runs")
}

fn refused(words: &[&str]) -> String {
    let output = millrace(words);
    assert!(!output.status.success(), "{words:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// A process that is gone in the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A node with a key-value and an RPC service, and its admin port.
fn node(folder: &TempDir) -> (Process, String) {
    let config = folder.path().join("node.toml");
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[services.cache]\nkind = \"kv\"\n[services.demo]\nkind = \"rpc\"\n\
        [[listen]]\nservice = \"cache\"\naddress = \"tcp:127.0.0.1:0\"\n\
        [[listen]]\nservice = \"demo\"\naddress = \"tcp:127.0.0.1:0\"\n";
    std::fs::write(&config, text).expect("a file");
    let mut command = Command::new(PROGRAM);
    let process = command.args(["up", "--config"]).arg(&config).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = process.spawn().expect("the program");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let admin =
        lines.find_map(|line| line.strip_prefix("admin: ").map(str::to_owned)).expect("its admin port");
    std::thread::spawn(move || lines.for_each(drop));
    (Process(process), admin)
}

#[test]
fn a_service_goes_where_it_is_wanted_and_the_log_plays_again() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (_node, admin) = node(&folder);
    let log = folder.path().join("place.log");
    let log = log.to_str().expect("text");
    let wanted = "fixed:cache.engine.mode=dedicated";
    let words = [
        "place",
        &admin,
        "--policy",
        wanted,
        "--every",
        "100ms",
        "--json",
        "--log",
        log,
        "--service",
        "cache",
    ];
    let placer = Command::new(PROGRAM).args(words).stdout(Stdio::piped()).spawn().expect("the program");
    let mut placer = Process(placer);
    let mut lines = BufReader::new(placer.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let line = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
    let decision = lines.by_ref().map(line).find(|line| line["line"] == "decision").expect("it decides");
    assert_eq!(decision["settings"][0]["register"], "engine.mode", "{decision}");
    // One that is told to end says where it leaves the node.
    let id = Pid::from_raw(placer.0.id() as i32).expect("a number");
    kill_process(id, Signal::INT).expect("it is ours");
    let left = lines.map(line).find(|line| line["left"].is_object()).expect("it says so");
    assert_eq!(left["left"]["cache.engine.mode"], "dedicated", "{left}");
    assert!(placer.0.wait().expect("it ends").success());

    // The platform is in it, whole.
    let first = std::fs::read_to_string(log).expect("it is there").lines().next().map(str::to_owned);
    assert!(first.is_some_and(|line| line.contains("[kernel]") && line.contains("wake_call")));
    let output = millrace(&["place", "--replay", log]);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains(" 1 decisions played again: the same"),
        "{said}{errors}"
    );
    let changed = std::fs::read_to_string(log)
        .expect("it is there")
        .replace("\"budget_left\":11", "\"budget_left\":12");
    std::fs::write(log, changed).expect("a file");
    assert!(refused(&["place", "--replay", log]).contains("and now it would be"));

    let said = refused(&["place", &admin, "--service", "nothing"]);
    assert!(said.contains("it has cache, demo"), "{said}");
}

#[test]
fn what_cannot_be_done_is_said_at_once() {
    // A port that nobody has, since it was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    assert!(refused(&["place", &port.to_string()]).contains("no admin port answers"));
    assert!(refused(&["place", "127.0.0.1:1", "--slo", "mean=1ms"]).contains("p99 alone"));
    // What it would predict by is looked at before anybody is asked.
    let on = |platform| refused(&["place", "127.0.0.1:1", "-p", platform]);
    assert!(on("bluefield2-ib").contains("nodes run on a host") && on("nothing").contains("this-host"));
    assert!(refused(&["place"]).contains("ADMIN"));
    assert!(refused(&["place", "--replay", "/nothing/there"]).contains("/nothing/there"));
}
