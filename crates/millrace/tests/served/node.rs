//! A node in a process of its own.

use super::Client;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

/// A running node; killed when dropped.
pub struct Node {
    process: Child,
    errors: BufReader<ChildStderr>,
    /// What it has said so far.
    pub said: String,
    pub address: String,
}

impl Node {
    /// Starts one and waits until it is ready, or has ended. Before it is ready a signal ends it at once.
    pub fn start(words: &[&str]) -> Node {
        Node::of(Command::new(env!("CARGO_BIN_EXE_millrace")).args(words))
    }

    /// The same of any command that becomes one.
    pub fn of(command: &mut Command) -> Node {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut errors = BufReader::new(process.stderr.take().expect("piped"));
        let (mut said, mut address) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if errors.read_line(&mut line).expect("text") == 0 {
                break;
            }
            said.push_str(&line);
            if let Some((_, rest)) = line.split_once("clients on ") {
                address = rest.trim().to_owned();
            }
            // Said when all is served, by TLS or without.
            if line.contains("registers on http") {
                break;
            }
        }
        Node { process, errors, said, address }
    }

    pub fn client(&self) -> Client {
        Client::to(self.address.parse().unwrap_or_else(|e| panic!("{e}: it said {}", self.said)))
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("a child of ours");
    }

    /// Everything it said until it ended, and how.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let mut said = std::mem::take(&mut self.said);
        self.errors.read_to_string(&mut said).expect("text");
        (self.process.wait().expect("a child of ours"), said)
    }

    /// Stops it as an operator does.
    pub fn stop(self) -> String {
        self.signal(rustix::process::Signal::TERM);
        let (status, said) = self.ended();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
