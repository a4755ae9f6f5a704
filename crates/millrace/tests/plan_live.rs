//! `millrace plan` of a node that runs, and of what it recorded: a child of this test serves, another thread asks it until the test is over.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn millrace(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().expect("millrace runs")
}

fn stdout(words: &[&str]) -> String {
    let output = millrace(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(words: &[&str]) -> String {
    let output = millrace(words);
    assert!(!output.status.success(), "{words:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// A process that is gone in the end.
struct Process(Child);

impl Process {
    /// Tells it to end, and waits until it has.
    fn end(mut self) {
        let id = Pid::from_raw(self.0.id() as i32).expect("a number");
        kill_process(id, Signal::TERM).expect("it is ours");
        assert!(self.0.wait().expect("it ends").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn file(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a plain path").to_owned()
}

/// A node with a key-value and an RPC service that records; where its admin port and its memcached clients' port are.
fn node(folder: &TempDir, more: &[&str]) -> (Process, String, String) {
    let config = file(folder, "node.toml");
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[services.cache]\nkind = \"kv\"\n[services.demo]\nkind = \"rpc\"\n\
        [[listen]]\nservice = \"cache\"\naddress = \"tcp:127.0.0.1:0\"\n\
        [[listen]]\nservice = \"demo\"\naddress = \"tcp:127.0.0.1:0\"\n";
    std::fs::write(&config, text).expect("a file");
    let mut command = Command::new(PROGRAM);
    command.args(["up", "--config", &config]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().expect("the program"));
    let errors = BufReader::new(process.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in errors {
            if let Some(at) = line.split("serving memcached clients on ").nth(1) {
                let _ = told.send(at.trim().to_owned());
            }
        }
    });
    let mut lines = BufReader::new(process.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let admin =
        lines.find_map(|line| line.strip_prefix("admin: ").map(str::to_owned)).expect("its admin port");
    std::thread::spawn(move || lines.for_each(drop));
    let clients = heard.recv().expect("it says where it serves");
    (process, admin, clients)
}

/// Asks for keys until it is told to stop: three gets to a set of 200 bytes, the first of a hundred keys in every other request.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Load {
    fn on(address: &str) -> Load {
        let mut stream = TcpStream::connect(address).expect("it serves");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let run = move || {
            let mut asked = 0u64;
            let value = "v".repeat(200);
            let mut reply = [0u8; 4096];
            while !told.load(Ordering::Relaxed) {
                let key = if asked.is_multiple_of(2) { 0 } else { asked / 2 % 100 };
                let request = match asked % 4 {
                    3 => format!("set key-{key} 0 0 200\r\n{value}\r\n"),
                    _ => format!("get key-{key}\r\n"),
                };
                stream.write_all(request.as_bytes()).expect("it takes requests");
                let mut filled = 0;
                loop {
                    filled += stream.read(&mut reply[filled..]).expect("it answers");
                    let text = &reply[..filled];
                    if text.ends_with(b"END\r\n") || text.ends_with(b"STORED\r\n") {
                        break;
                    }
                }
                asked += 1;
            }
            asked
        };
        Load { stop, thread: Some(std::thread::spawn(run)) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it was answered")
    }
}

#[test]
fn a_node_that_runs_is_planned_and_its_recording_too() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let recording = file(&folder, "requests.rec");
    let (node, admin, clients) = node(&folder, &["--record", &recording, "--record-sample", "1/1"]);
    let load = Load::on(&clients);
    let workload = file(&folder, "live.toml");
    let text = stdout(&[
        "plan",
        "--live",
        &admin,
        "--service",
        "cache",
        "--window",
        "1s",
        "-o",
        &workload,
        "--top",
        "1",
    ]);
    for part in ["get", "set", "1 sockets", "edge, TCP", "measured: ", "predicted on this-host", "advice: "] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    // What was written is a workload as any other.
    let written = std::fs::read_to_string(&workload).expect("it was written");
    assert!(written.contains("name = \"live\"") && written.contains("[[class]]"), "{written}");
    assert!(stdout(&["plan", "-w", &workload, "-p", "connectx6", "--top", "1"]).contains("advice: "));

    let text = stdout(&[
        "plan",
        "--live",
        &admin,
        "--service",
        "cache",
        "--window",
        "1s",
        "--top",
        "1",
        "--json",
        "--what-if",
        "machine = connectx6",
        "--what-if",
        "cores.clock=2GHz",
    ]);
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let names: Vec<_> =
        whole["platforms"].as_array().expect("rows").iter().map(|row| row["platform"].as_str()).collect();
    assert_eq!(names, [Some("this-host"), Some("machine = connectx6"), Some("cores.clock=2GHz")]);
    assert!(whole["live"]["measured"]["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{text}");
    assert!(whole["live"]["predicted"]["p99"].as_f64().is_some_and(|p99| p99 > 0.0), "{text}");

    let shown = millrace_admin(&admin, "/record");
    assert!(shown.contains("\"one_of\":1") && shown.contains("\"ended\":null"), "{shown}");
    let asked = load.end();
    node.end();
    assert_recorded(&recording, asked);
}

/// Every request of the load is in it, and it can be planned.
fn assert_recorded(recording: &str, asked: u64) {
    let text = std::fs::read_to_string(recording).expect("it was written");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let requests: Vec<&Value> = lines.iter().filter(|line| line["line"] == "request").collect();
    assert_eq!(requests.len() as u64, asked);
    let of = |method: &str| requests.iter().filter(|request| request["method"] == method).count() as u64;
    assert_eq!((of("get"), of("set")), (asked - asked / 4, asked / 4));
    let set = requests.iter().find(|request| request["method"] == "set").expect("there are some");
    assert!((221..=222).contains(&set["request"].as_u64().expect("bytes")), "{set}");
    assert_eq!((&set["reply"], &set["place"], &set["service"]), (&8.into(), &"edge".into(), &"cache".into()));
    assert!(requests.iter().all(|request| request["took_us"].as_f64().is_some_and(|took| took > 0.0)));
    let keys: std::collections::BTreeSet<_> =
        requests.iter().map(|request| request["key"].as_str()).collect();
    assert_eq!(keys.len() as u64, 100.min(asked / 2 + 1));
    let last = lines.last().expect("lines");
    assert_eq!((&last["line"], &last["why"]), (&"end".into(), &"stopped".into()));
    let planned = stdout(&["plan", "--trace", recording, "-p", "this-host", "--top", "1"]);
    for part in ["one key of 1", "Zipf's theta", "measured: ", "advice: "] {
        assert!(planned.contains(part), "no {part:?} in\n{planned}");
    }
    let said = refused(&["plan", "--trace", recording, "-p", "this-host", "--service", "rank"]);
    assert!(said.contains("no requests of \"rank\"; it has cache"), "{said}");
}

/// The body of what an admin port answers.
fn millrace_admin(admin: &str, path: &str) -> String {
    let at = admin.trim_start_matches("http://");
    let mut stream = TcpStream::connect(at).expect("it is there");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").expect("it takes it");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

/// Whoever answers with text that is no node's, or with counters that cannot be.
#[test]
fn a_port_that_is_no_nodes_is_refused() {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").to_string();
    let live = |at: &str, more: &[&str]| refused(&[&["plan", "--live", at, "--window", "1s"], more].concat());
    assert!(live(&port, &[]).contains("no admin port answers"));
    let liar = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = liar.local_addr().expect("it has one").to_string();
    std::thread::spawn(move || {
        for stream in liar.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0u8; 1024];
            let _ = stream.read(&mut head);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    let said = live(&at, &[]);
    assert!(said.contains("no admin port of this version of millrace"), "{said}");
    assert!(refused(&["plan", "--live", &at, "-w", "key-value-cache"]).contains("cannot be used with"));
    let said =
        refused(&["plan", "-w", "key-value-cache", "-p", "this-host", "--what-if", "nic = bluefield2-ib"]);
    assert!(said.contains("cannot be put into a machine by itself; there are machines"), "{said}");
    let said = refused(&["up", "-p", "0", "--record", "/nowhere/at/all"]);
    assert!(said.contains("--record /nowhere/at/all"), "{said}");
    assert!(!Path::new("/nowhere/at/all").exists());
}
