//! `millrace inc` as its users run it: processes that have a topology file in common.
//!
//! Ports are those that nobody used when the topology was printed; nodes end when the test lets go of their standard input.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn inc(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("inc").args(arguments).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("text").to_string()
}

/// `millrace inc run`.
struct Nodes {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Nodes {
    fn start(file: &str, arguments: &[&str]) -> Nodes {
        let mut process = Command::new(PROGRAM)
            .args(["inc", "run", "--until-eof", "--topology", file])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Nodes { process, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    /// Lets it end; what it says then.
    fn end(mut self) -> String {
        drop(self.process.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert!(self.process.wait().expect("it is ours").success());
        rest
    }
}

/// `--json`, where `colour` is red.
fn answers_are_objects(ask: impl Fn(&[&str]) -> Output) {
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&ask(words).stdout).expect("an object, whatever was answered")
    };
    let found = json(&["get", "colour", "--json", "--no-cache"]);
    assert_eq!(
        (&found["status"], &found["value"], &found["by"]),
        (&"OK".into(), &"red".into(), &"home".into())
    );
    assert!(found["version"].as_u64() > Some(0) && found["seconds"].is_number(), "{found}");
    assert_eq!(json(&["get", "nothing", "--json"])["status"], "MISS");
}

#[test]
fn nodes_and_clients_by_hand() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let printed = inc(&["topology", "--free-ports", "--set", "coherence.patience=30000000"]);
    let file = write(&folder, "rack.toml", &stdout(&printed));
    let mut boxes =
        Nodes::start(&file, &["--first", "--node", "box:1", "--node", "box:2", "--node", "box:3"]);
    let mut home = Nodes::start(&file, &["--first", "--node", "home:1"]);
    let mut controller = Nodes::start(&file, &["--node", "controller:0"]);
    for id in 1..=3 {
        let line = boxes.line();
        assert!(
            line.starts_with(&format!("box:{id} at 127.0.0.1:")) && line.contains("incarnation"),
            "{line}"
        );
    }
    assert!(home.line().starts_with("home:1 at 127.0.0.1:"));
    assert!(controller.line().starts_with("controller:0 at "));

    let ask = |arguments: &[&str]| inc(&[arguments, &["--topology", &file]].concat());
    let ok = |arguments: &[&str]| {
        let output = ask(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let output = ask(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    };
    let (said, beside) = ok(&["set", "colour", "blue"]);
    assert!(
        said == "OK\n" && beside.starts_with("version ") && beside.contains("by the home in"),
        "{beside}"
    );
    let version = beside.trim_start_matches("version ").split(',').next().expect("a number");
    for tor in ["1", "2"] {
        assert_eq!(ok(&["get", "colour", "--tor", tor]).0, "blue\n");
    }
    assert_eq!(ok(&["get", "colour", "--no-cache"]).0, "blue\n");
    ok(&["cas", "colour", "red", "--if-version", version]);
    fails(&["cas", "colour", "green", "--if-version", version], 4, "EXISTS");
    fails(&["get", "nothing"], 3, "MISS");
    answers_are_objects(ask);
    fails(&["add", "colour", "x"], 4, "EXISTS");
    assert_eq!(ok(&["incr", "n", "--initial", "5"]).0, "5\n");
    assert_eq!(ok(&["incr", "n", "3"]).0, "8\n");
    assert_eq!(ok(&["decr", "n"]).0, "7\n");
    assert_eq!(ok(&["cond-put", "n", "9"]).0, "OK\n");
    fails(&["cond-put", "n", "9"], 4, "NOT_STORED");
    assert_eq!(ok(&["max", "n", "12", "--tor", "2"]).0, "12\n");
    fails(&["incr", "colour"], 1, "NOT_NUMBER");
    ok(&["append", "colour", "dish"]);
    ok(&["touch", "colour", "1h"]);
    assert_eq!(ok(&["get", "colour", "--tor", "2"]).0, "reddish\n");
    ok(&["delete", "colour"]);
    fails(&["delete", "colour"], 3, "MISS");
    ok(&["flush"]);
    fails(&["get", "n"], 3, "MISS");
    fails(&["get", "n", "--tor", "9"], 1, "its boxes are 1, 2, 3");

    let taken = inc(&["run", "--topology", &file, "--node", "home:1"]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(stderr(&taken).contains("is it running already?"), "{}", stderr(&taken));
    let counted = home.end();
    assert!(counted.starts_with("home:1:") && counted.contains(" applied "), "{counted}");
    let counted = boxes.end();
    assert!(counted.contains("box:1:") && counted.contains("box:3:"), "{counted}");
    assert!(controller.end().contains("live boxes"));
}

#[test]
fn nobody_answers_with_an_exit_status_of_its_own() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let printed = inc(&["topology", "--free-ports", "--set", "coherence.patience=50000"]);
    let file = write(&folder, "rack.toml", &stdout(&printed));
    for arguments in [&["get", "k"][..], &["set", "k", "v"]] {
        let output = inc(&[arguments, &["--topology", &file]].concat());
        assert_eq!(output.status.code(), Some(5));
        assert!(stderr(&output).contains("are the nodes of the topology running?"), "{}", stderr(&output));
    }
}

#[test]
fn topologies_are_printed_and_errors_say_what_to_do() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let printed =
        stdout(&inc(&["topology", "--tors", "4", "--roots", "2", "--homes", "2", "--port", "9000"]));
    assert_eq!(printed.matches("[[box]]").count(), 6);
    assert!(
        printed.contains("address = \"127.0.0.1:9008\"") && printed.contains("above = [5, 6]"),
        "{printed}"
    );
    let none = folder.path().join("none.toml");
    let broken = write(&folder, "broken.toml", &printed.replace("id = 6", "id = \"six\""));
    let twice = write(&folder, "twice.toml", &printed.replace(":9001", ":9000"));
    for (file, words) in [
        (none.as_path(), "`millrace inc topology > "),
        (Path::new(&broken), "broken.toml:32: id cannot be \"six\""),
        (Path::new(&twice), "twice.toml:12: box:1 and box:2 have the same address"),
    ] {
        let file = file.to_str().expect("text");
        for command in [&["run", "--all"][..], &["get", "k"]] {
            let output = inc(&[command, &["--topology", file]].concat());
            assert_eq!(output.status.code(), Some(1));
            assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
        }
    }
    for (arguments, words) in [
        (&["topology", "--port", "65533"][..], "choose a lower --port"),
        (&["topology", "--set", "coherence.lease"], "write for example coherence.lease=200000"),
        (&["topology", "--set", "coherence.lase=1"], "millrace registers --inc"),
        (&["run", "--topology", "x", "--node", "tor:1"], "write box:1, home:1 or controller:0"),
        (&["run", "--topology", "x"], "--node"),
    ] {
        let output = inc(arguments);
        assert!(!output.status.success() && stderr(&output).contains(words), "{words}: {}", stderr(&output));
    }
}

#[test]
fn help_names_what_there_is() {
    let help = stdout(&inc(&["--help"]));
    for command in ["topology", "run", "get", "set", "delete", "incr", "cond-put", "Exit status"] {
        assert!(help.contains(command), "{command}: {help}");
    }
    let registers = Command::new(PROGRAM).args(["registers", "--inc"]).output().expect("the program");
    assert!(stdout(&registers).contains("coherence.lease = 500000"));
}
