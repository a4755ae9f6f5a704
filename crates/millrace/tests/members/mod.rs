//! Members of a cluster, each a process of its own, from one file at ports that nobody used when it was written.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

use rustix::process::Pid;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(120);
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

pub fn millrace(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().expect("the program")
}

/// Ports that nobody uses at this moment.
pub fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    sockets.iter().map(|socket| socket.local_addr().expect("an address").port()).collect()
}

pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(last) => assert!(begun.elapsed() < PATIENCE, "waited for {what}: {last}"),
        }
        std::thread::yield_now();
    }
}

/// A process that is killed in the end.
pub struct Process(Child);

impl Process {
    pub fn start(program: &str, words: &[&str]) -> Option<Process> {
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.ok().map(Process)
    }

    pub fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub fn kill(mut self) {
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

/// etcd of some members, each with its URL.
pub fn etcd(folder: &Path, members: usize) -> Option<Vec<(Process, String, Vec<String>)>> {
    let ports = free_ports(2 * members);
    let peer = |at: usize| format!("http://127.0.0.1:{}", ports[2 * at]);
    let all: Vec<String> = (0..members).map(|at| format!("m{at}={}", peer(at))).collect();
    let started = (0..members).map(|at| {
        let (name, url, data) = (
            format!("m{at}"),
            format!("http://127.0.0.1:{}", ports[2 * at + 1]),
            format!("{}/etcd{at}", folder.display()),
        );
        let words = [
            ["--name", &name],
            ["--data-dir", &data],
            ["--listen-client-urls", &url],
            ["--advertise-client-urls", &url],
            ["--listen-peer-urls", &peer(at)],
            ["--initial-advertise-peer-urls", &peer(at)],
            ["--initial-cluster", &all.join(",")],
            ["--heartbeat-interval", "50"],
            ["--election-timeout", "500"],
        ];
        let words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
        let process = Process::start("etcd", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        Some((process, url, words))
    });
    let started: Option<Vec<_>> = started.collect();
    if started.is_none() {
        let required = std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "MILLRACE_REQUIRE_PEERS is set, and there is no etcd");
        eprintln!("SKIPPED: etcd is not installed (Debian: etcd-server)");
    }
    started
}

/// The name of a file in a folder.
pub fn within(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_owned()
}

/// A part of the file, at free ports.
pub struct Text {
    pub ports: std::vec::IntoIter<u16>,
    pub text: String,
}

impl Text {
    pub fn new() -> Text {
        Text { ports: free_ports(32).into_iter(), text: "[cluster]\nkey = \"cluster.key\"\n".to_owned() }
    }

    pub fn at(&mut self) -> String {
        format!("127.0.0.1:{}", self.ports.next().expect("there are enough"))
    }

    /// Two boxes, a home and a controller.
    pub fn rack(mut self) -> Text {
        for head in ["[[box]]\nid = 1", "[[box]]\nid = 2", "[[home]]\nid = 1\nbox = 2", "[[controller]]"] {
            let (address, admin) = (self.at(), self.at());
            self.text += &format!("{head}\naddress = \"{address}\"\nadmin = \"{admin}\"\n");
        }
        self
    }

    /// The home of a rack has a memcached listener, for values that are too long for a packet.
    pub fn streaming(mut self) -> Text {
        let at = self.at();
        self.text = self.text.replace("box = 2\n", &format!("box = 2\nstream = \"{at}\"\n"));
        self
    }

    /// Chain 7, with its registry's line.
    pub fn chain(mut self, replicas: usize, controllers: usize, registry: &str) -> Text {
        self.text += &format!("[[chain]]\nnumber = 7\n{registry}\n");
        for id in 1..=replicas {
            let (address, peers) = (self.at(), self.at());
            self.text += &format!(
                "[[chain.replica]]\nid = {id}\naddress = \"tcp:{address}\"\npeers = \"tcp:{peers}\"\ndata = \"data{id}\"\n"
            );
        }
        for _ in 0..controllers {
            let (address, admin) = (self.at(), self.at());
            self.text += &format!("[[chain.controller]]\naddress = \"tcp:{address}\"\nadmin = \"{admin}\"\n");
        }
        self.text += "[chain.registers]\nchain.lease = 600000\n";
        self
    }
}

/// A cluster's file in a folder.
pub struct Cluster {
    folder: TempDir,
    pub file: String,
}

impl Cluster {
    pub fn of(folder: TempDir, text: &Text) -> Cluster {
        let file = within(&folder, "cluster.toml");
        std::fs::write(&file, &text.text).expect("a file");
        assert!(millrace(&["key", "new", &within(&folder, "cluster.key")]).status.success());
        Cluster { folder, file }
    }

    /// The name of a file beside it.
    pub fn within(&self, name: &str) -> String {
        within(&self.folder, name)
    }

    /// Starts a member. It hears SIGHUP, though who runs the tests does not (`nohup`): a process that is started so leaves the signal ignored.
    pub fn start(&self, words: &[&str]) -> Process {
        let words = [&["--default-signal=HUP", PROGRAM], words, &["--cluster", &self.file]].concat();
        Process::start("env", &words).expect("GNU env")
    }

    pub fn replica(&self, id: &str) -> Process {
        self.start(&["chain", "replica", "--id", id, "--log-size", "8m", "--data-size", "8m"])
    }

    pub fn controller(&self, number: usize) -> Process {
        self.start(&["chain", "controller", "--number", &number.to_string()])
    }

    /// Two boxes, the home, the controller.
    pub fn rack(&self) -> Vec<Process> {
        let home = ["up", "-s", &self.within("node"), "-m", "64", "--home-first"];
        let words: [&[&str]; 4] =
            [&["box", "1", "--first"], &["box", "2", "--first"], &home, &["controller", "0"]];
        words.map(|words| self.start(words)).into()
    }

    /// `millrace cluster VERB FILE …`: what it says, or why not.
    pub fn change(&self, words: &[&str]) -> Result<String, String> {
        let output = millrace(&[&["cluster", words[0], &self.file], &words[1..]].concat());
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    pub fn is_refused(&self, words: &[&str], why: &str) {
        let said = self.change(words).expect_err("it is refused");
        assert!(said.contains(why), "{why:?} in {said:?}");
    }
}
