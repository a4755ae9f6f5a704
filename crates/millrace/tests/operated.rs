//! What an operator has of a node in a process of its own: why connections ended, listeners that the service manager opened, what is deployed.

mod served;

use serde_json::Value;
use served::Client;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// A node that logs JSON; killed when dropped.
struct Logging {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
}

impl Logging {
    fn start(command: &mut Command) -> Logging {
        let process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = process.expect("the program");
        let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        Logging { process, lines }
    }

    /// The next line that is so.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("it goes on saying").expect("text");
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Where it serves memcached clients.
    fn address(&mut self) -> SocketAddr {
        let line =
            self.until(|line| line["message"].as_str().is_some_and(|text| text.starts_with("serving ")));
        line["address"].as_str().and_then(|address| address.parse().ok()).expect("an address")
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_connection_that_ends_has_a_reason_and_a_peer() {
    let mut node = Command::new(PROGRAM);
    node.args(["up", "-p", "0", "-m", "64", "--log-format", "json", "--log-level", "info,connections=trace"]);
    let mut node = Logging::start(&mut node);
    let address = node.address();
    let closed = |node: &mut Logging, client: SocketAddr, reason: &str| {
        let line = node.until(|line| line["target"] == "connections" && line["peer"] == client.to_string());
        assert_eq!((&line["reason"], &line["protocol"]), (&reason.into(), &"kv".into()), "{line}");
        line
    };
    let mut polite = Client::to(address);
    polite.still_works();
    polite.send("quit\r\n");
    let name = polite.stream.local_addr().expect("it is connected");
    assert_eq!(polite.rest(), b"");
    assert_eq!(closed(&mut node, name, "client")["level"], "trace");

    let mut browser = Client::to(address);
    let name = browser.stream.local_addr().expect("it is connected");
    browser.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n");
    browser.rest();
    let line = closed(&mut node, name, "protocol");
    assert_eq!((&line["level"], &line["detail"]), (&"debug".into(), &"an HTTP request".into()), "{line}");

    let mut long = Client::to(address);
    let name = long.stream.local_addr().expect("it is connected");
    long.send(vec![b'x'; 100_000]);
    long.rest();
    assert_eq!(closed(&mut node, name, "protocol")["detail"], "a line that is too long");
}

/// As systemd starts a service: listeners are descriptors from 3 on, for the process of this number.
fn handed_over(listener: TcpListener, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    // The shell becomes the program, so that the number is that of both.
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&0 0</dev/null; exec \"$@\"";
    command.args(["-c", script, "sh", PROGRAM]).args(words).stdin(OwnedFd::from(listener));
    command
}

#[test]
fn a_listener_of_the_service_manager_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    // Before there is a node: it waits.
    let mut early = Client::to(address);
    early.send("mn\r\n");
    let port = address.port().to_string();
    let words = ["up", "-l", "127.0.0.1", "-p", &port, "-m", "64", "--log-format", "json"];
    let mut node = Logging::start(&mut handed_over(listener, &words));
    assert_eq!(node.address(), address);
    early.expect("MN\r\n");
    Client::to(address).still_works();
}

#[test]
fn a_listener_that_nothing_uses_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let output = handed_over(listener, &["up", "-p", "0", "-m", "64"]).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address.to_string()) && said.contains("ListenStream="), "{said}");
}
