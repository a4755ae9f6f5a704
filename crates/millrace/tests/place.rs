//! `millrace place` at a node that runs: it moves what it is told to, says so, leaves the node as it is, and its log plays again.

mod served;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use serve::admin::token_file;
use served::PATIENCE;
use served::http::http;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
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

/// What is set at the placer's own port goes into the log as what it is told otherwise.
#[test]
fn its_registers_are_set_at_its_port_and_the_log_plays_again() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (_node, node) = node(&folder);
    let node = node.trim_start_matches("http://").trim_end_matches('/');
    let log = folder.path().join("place.log");
    let log = log.to_str().expect("text");
    let words = ["place", node, "--policy", "leave", "--every", "100ms", "--log", log, "--admin", "0"];
    let mut command = Command::new(PROGRAM);
    command.args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut placer = Process(command.spawn().expect("the program"));
    let mut lines = BufReader::new(placer.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let said = lines.find_map(|line| Some(line.split_once("http://")?.1.to_owned())).expect("its port");
    let admin = said.split('/').next().expect("an address").to_owned();
    let token = std::fs::read_to_string(token_file(admin.parse().expect("an address"))).expect("its token");
    let bearer = format!("Bearer {}", token.trim());
    let ask = |method, path: &str, body| {
        let answer = http(&admin, &[("Authorization", &bearer)], (method, path, body));
        (answer.status, answer.body)
    };
    let until = |wanted: &str| {
        let begun = Instant::now();
        loop {
            let (status, page) = ask("GET", "/metrics", "");
            if status == 200 && page.lines().any(|line| line == wanted) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{wanted} in\n{page}");
            std::thread::yield_now();
        }
    };
    until(&format!("millrace_place_moves_left{{node=\"{node}\"}} 12"));
    assert_eq!(ask("PUT", "/registers/placer.frozen", "on").0, 200);
    assert_eq!(ask("PUT", "/registers/placer.budget", "3").0, 200);
    assert_eq!(ask("PUT", "/registers/placer.budget", "many").0, 400);
    until("millrace_place_frozen 1");
    until(&format!("millrace_place_moves_left{{node=\"{node}\"}} 3"));
    let id = Pid::from_raw(placer.0.id() as i32).expect("a number");
    kill_process(id, Signal::TERM).expect("it is ours");
    assert!(placer.0.wait().expect("it ends").success());
    let text = std::fs::read_to_string(log).expect("it is there");
    assert!(text.contains("\"line\":\"frozen\"") && text.contains("\"moves_per_minute\":3"), "{text}");
    let output = millrace(&["place", "--replay", log]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Nodes of a cluster's file: one that serves, one that does not answer.
#[test]
fn a_file_of_a_cluster_says_which_nodes() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (_node, node) = node(&folder);
    let node = node.trim_start_matches("http://").trim_end_matches('/');
    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let file = folder.path().join("cluster.toml");
    let path = file.to_str().expect("text");
    let place = |box_admin: &str, home_admin: &str| {
        let text = format!(
            "[[box]]\nid = 1\naddress = \"127.0.0.1:7101\"\nabove = []\n{box_admin}[[home]]\nid = 1\naddress = \"127.0.0.1:7102\"\nbox = 1\n{home_admin}"
        );
        std::fs::write(&file, text).expect("a file");
        millrace(&[
            "place",
            "--cluster",
            path,
            "--policy",
            "leave",
            "--every",
            "100ms",
            "--duration",
            "300ms",
        ])
    };
    let at = |address: &str| format!("admin = \"{address}\"\n");
    let output = place(&at(&nobody.to_string()), &at(node));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert!(
        errors.contains("box:1: no admin port answers") && errors.contains("again and again"),
        "{errors}"
    );
    assert!(said.contains(&format!("the node at {node} is left as it is")), "{said}");
    let errors = String::from_utf8_lossy(&place("", "").stderr).into_owned();
    assert!(errors.contains("no member of") && errors.contains("admin = "), "{errors}");
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
