//! `millrace up --boxes` as its users run it: a node that is the home of two boxes, each a process of its own; a memcached client at the node,
//! `millrace inc` at the boxes. What is at stake in detail: `serve/src/kv/home/tests.rs`.
//!
//! Ports are those that nobody used when the topology was printed; the node's own socket is a path. Nothing waits for a certain time.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_string()
}

/// A process that is killed in the end.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Process {
        Process(Command::new(PROGRAM).args(arguments).stdout(Stdio::piped()).spawn().expect("the program"))
    }

    /// Until it has said a line.
    fn ready(mut self) -> Process {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.contains(" at 127.0.0.1:"), "{line}");
        self
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it is ours");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn millrace(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("the program")
}

/// The memcached client.
struct Memcached(BufReader<UnixStream>);

impl Memcached {
    fn to(path: &str) -> Memcached {
        let begun = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(path) {
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                return Memcached(BufReader::new(stream));
            }
            assert!(begun.elapsed() < PATIENCE, "nobody listens at {path}");
            std::thread::yield_now();
        }
    }

    fn ask(&mut self, text: &str, answer: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("it is read");
        let mut heard = vec![0; answer.len()];
        self.0.read_exact(&mut heard).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&heard), answer, "to {text:?}");
    }
}

#[test]
fn a_node_is_the_home_of_two_boxes() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let printed = millrace(&[
        "inc",
        "topology",
        "--free-ports",
        "--roots",
        "0",
        "--controllers",
        "0",
        "--set",
        "coherence.patience=60000000",
        "--set",
        "coherence.worth=0",
        "--set",
        "coherence.bypass=0",
    ]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let (rack, socket) = (path(&folder, "rack.toml"), path(&folder, "node"));
    std::fs::write(&rack, &printed.stdout).expect("a file");
    let run = |node| Process::start(&["inc", "run", "--first", "--topology", &rack, "--node", node]).ready();
    let (one, _two) = (run("box:1"), run("box:2"));
    let up = ["up", "-s", &socket, "-m", "64", "--boxes", &rack, "--home-first"];
    let node = Process::start(&up);
    let mut memcached = Memcached::to(&socket);

    let ask = |arguments: &[&str]| millrace(&[&["inc"], arguments, &["--topology", &rack]].concat());
    let inc = |arguments: &[&str]| {
        let output = ask(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    memcached.ask("set colour 7 0 4\r\nblue\r\n", "STORED\r\n");
    for tor in ["1", "2", "1", "2"] {
        assert_eq!(inc(&["get", "colour", "--tor", tor]), "blue\n");
    }
    memcached
        .ask("set colour 7 0 3\r\nred\r\nget colour\r\n", "STORED\r\nVALUE colour 7 3\r\nred\r\nEND\r\n");
    assert_eq!(inc(&["get", "colour", "--tor", "1"]), "red\n");
    inc(&["set", "colour", "green", "--tor", "2"]);
    memcached.ask("get colour\r\n", "VALUE colour 0 5\r\ngreen\r\nEND\r\n");
    assert_eq!(inc(&["incr", "n", "--initial", "5"]), "5\n");
    memcached.ask("incr n 4\r\ntouch n 0\r\nmg n v\r\n", "9\r\nTOUCHED\r\nVA 1\r\n9\r\n");
    assert_eq!(inc(&["decr", "n", "2"]), "7\n");
    // One box dies with a copy: its lease is waited for, no longer.
    assert_eq!(inc(&["get", "colour", "--tor", "1"]), "green\n");
    one.kill();
    memcached
        .ask("set colour 0 0 5\r\nblack\r\nget colour\r\n", "STORED\r\nVALUE colour 0 5\r\nblack\r\nEND\r\n");
    assert_eq!(inc(&["get", "colour", "--tor", "2"]), "black\n");
    memcached.ask("flush_all\r\nget colour n\r\n", "OK\r\nEND\r\n");
    assert_eq!(ask(&["get", "colour", "--tor", "2"]).status.code(), Some(3), "it is gone");
    node.kill();
}

#[test]
fn what_cannot_be_a_home_says_why() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let fails = |arguments: &[&str], words: &str| {
        let output = millrace(&[&["up", "-p", "0"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    };
    let rack = path(&folder, "rack.toml");
    let printed = millrace(&["inc", "topology", "--free-ports", "--homes", "2"]);
    std::fs::write(&rack, &printed.stdout).expect("a file");
    fails(&["--boxes", &rack], "has the homes 1, 2; say which this is (--home)");
    fails(&["--boxes", &rack, "--home", "3"], "home:3");
    fails(&["--boxes", Path::new(&rack).with_extension("none").to_str().expect("text")], "rack.none");
    fails(&["--home", "1"], "--boxes");
}
