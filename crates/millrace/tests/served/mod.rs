//! What every suite here needs: a node in this process on a free port, a plain blocking client, and an observer that goes on
//! working beside whatever the test does to the node.
//!
//! Nothing here waits for time to pass. Reads have a limit of [`PATIENCE`], which only a failure reaches.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

pub mod http;
pub mod node;

use rustix::net::sockopt;
use serve::kv::Server;
use serve::kv::config::Config;
use serve::kv::shared::Report;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The same of what comes from a registry that not every machine reaches: `MILLRACE_WITHOUT` names those (`go,java`) that are not wanted.
pub fn skip_without(registry: &str, why: &str) {
    let without = std::env::var("MILLRACE_WITHOUT").unwrap_or_default();
    match without.split(',').any(|one| one == registry) {
        true => eprintln!("SKIPPED: {why}"),
        false => skip(why),
    }
}

/// Says that something is not tested here, or fails where `MILLRACE_REQUIRE_PEERS=1` wants everything tested.
pub fn skip(why: &str) {
    let required = std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(!required, "MILLRACE_REQUIRE_PEERS is set, and {why}");
    eprintln!("SKIPPED: {why}");
}

/// Settings for a node on a free loopback port, with these registers.
pub fn config(registers: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    config.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address")];
    for (name, value) in registers {
        config.registers.set(name, value).expect("a register of this name with such a value");
    }
    config
}

/// A running node.
pub struct Served {
    pub node: Server,
    pub config: Config,
}

impl Served {
    /// A node with these registers.
    pub fn with(registers: &[(&str, &str)]) -> Served {
        let config = config(registers);
        let node = Server::start(&config).expect("a node on a free port");
        Served { node, config }
    }

    pub fn address(&self) -> SocketAddr {
        self.node.tcp()[0]
    }

    pub fn client(&self) -> Client {
        Client::to(self.address())
    }

    pub fn report(&self) -> Report {
        self.node.report()
    }

    /// Changes a register as the admin port does.
    pub fn turn(&self, name: &str, value: &str) {
        self.config.registers.set_live(name, value).expect("a live register");
        self.node.shared().register_changed(name);
    }

    /// Waits until `condition` holds for what the node reports.
    pub fn until(&self, what: &str, mut condition: impl FnMut(&Report) -> bool) -> Report {
        let begun = Instant::now();
        loop {
            let report = self.report();
            if condition(&report) {
                return report;
            }
            assert!(begun.elapsed() < PATIENCE, "never seen: {what}; the node reports {report:#?}");
            std::thread::yield_now();
        }
    }

    /// The node still serves, and lost no request on the way.
    pub fn still_sound(&self) {
        self.client().still_works();
        let report = self.report();
        assert_eq!(report.engine.executed + report.engine.expired, report.net.requests);
    }

    /// Nothing is left behind: `connections` are open, all of them idle, and nothing is buffered for anybody.
    pub fn until_quiet(&self, connections: u64) -> Report {
        self.until("quiet", |r| r.net.curr_connections == connections && r.buffered_bytes == 0)
    }
}

/// A blocking client.
pub struct Client {
    pub stream: TcpStream,
    unread: Vec<u8>,
    at: usize,
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).expect("a listening node"))
    }

    pub fn over(stream: TcpStream) -> Client {
        stream.set_nodelay(true).expect("an open socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("an open socket");
        Client { stream, unread: Vec::new(), at: 0 }
    }

    /// The same connection for another thread: one sends, the other reads.
    pub fn twin(&self) -> Client {
        assert!(self.buffered().is_empty(), "what was read belongs to one of the two");
        Client::over(self.stream.try_clone().expect("an open socket"))
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the node reads what is sent to it");
    }

    fn buffered(&self) -> &[u8] {
        &self.unread[self.at..]
    }

    /// Reads more. False at the end of the stream.
    fn more(&mut self) -> bool {
        self.unread.drain(..self.at);
        self.at = 0;
        let old = self.unread.len();
        self.unread.resize(old + (64 << 10), 0);
        let n = match self.stream.read(&mut self.unread[old..]) {
            Ok(n) => n,
            // Closed by the node with bytes of ours unread.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => 0,
            Err(e) => panic!("no answer: {e}"),
        };
        self.unread.truncate(old + n);
        n > 0
    }

    /// The next line, without its end.
    pub fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffered().iter().position(|&b| b == b'\n') {
                let line =
                    String::from_utf8_lossy(&self.buffered()[..end]).trim_end_matches('\r').to_string();
                self.at += end + 1;
                return line;
            }
            let more = self.more();
            assert!(more, "closed in the middle of {:?}", String::from_utf8_lossy(self.buffered()));
        }
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        while self.buffered().len() < n {
            let more = self.more();
            assert!(more, "closed after {} of {n} bytes", self.buffered().len());
        }
        self.at += n;
        self.unread[self.at - n..self.at].to_vec()
    }

    /// Reads as many bytes as `wanted` has and compares.
    pub fn expect(&mut self, wanted: impl AsRef<[u8]>) {
        let wanted = wanted.as_ref();
        let got = self.bytes(wanted.len());
        if got != wanted {
            let at = got.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(0);
            let from = at.saturating_sub(40);
            panic!(
                "at byte {at}: got {:?}, wanted {:?}",
                String::from_utf8_lossy(&got[from..(at + 80).min(got.len())]),
                String::from_utf8_lossy(&wanted[from..(at + 80).min(wanted.len())])
            );
        }
    }

    /// Sends `request` and compares the reply.
    pub fn ask(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        self.send(request);
        self.expect(reply);
    }

    /// Sends `request` and returns the first line of the reply.
    pub fn line_of(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send(request);
        self.line()
    }

    pub fn set(&mut self, key: &str, value: impl AsRef<[u8]>) {
        self.ask(set_request(key, value.as_ref()), "STORED\r\n");
    }

    /// The value of `key`, if there is one.
    pub fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let line = self.line_of(format!("get {key}\r\n"));
        if line == "END" {
            return None;
        }
        let value = self.value_after(&line);
        assert_eq!(self.line(), "END");
        Some(value)
    }

    /// Value and version of `key`.
    pub fn gets(&mut self, key: &str) -> (Vec<u8>, u64) {
        let line = self.line_of(format!("gets {key}\r\n"));
        let cas = line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a hit with a version");
        let value = self.value_after(&line);
        assert_eq!(self.line(), "END");
        (value, cas)
    }

    /// The value whose `VALUE` line is `line`.
    pub fn value_after(&mut self, line: &str) -> Vec<u8> {
        let len = line.strip_prefix("VALUE ").and_then(|rest| rest.split(' ').nth(2)?.parse().ok());
        let value = self.bytes(len.unwrap_or_else(|| panic!("not a VALUE line: {line:?}")));
        self.expect("\r\n");
        value
    }

    /// A number out of `stats`.
    pub fn stat(&mut self, name: &str) -> u64 {
        self.send("stats\r\n");
        let mut found = None;
        loop {
            let line = self.line();
            if line == "END" {
                return found.unwrap_or_else(|| panic!("no number called {name} in stats"));
            }
            if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
                found = value.parse().ok();
            }
        }
    }

    /// Says that nothing more is coming.
    pub fn end(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("an open socket");
    }

    /// Everything up to the end of the stream.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        self.at = 0;
        std::mem::take(&mut self.unread)
    }

    /// Goes away the hard way: with a reset, and without reading what is on its way.
    pub fn vanish(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("an open socket");
    }

    /// The connection is in step: the next thing it reads is the answer to what it sends now.
    pub fn still_works(&mut self) {
        self.ask("mn\r\n", "MN\r\n");
    }
}

pub fn set_request(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// What `get key` is answered when it holds `value`.
pub fn get_reply(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("VALUE {key} 0 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"].concat()
}

/// A value that says which it is at every place, so that mixed-up or torn ones are seen.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let word = base::prng::mix64(seed).to_le_bytes();
    (0..len).map(|i| word[i % 8].wrapping_add((i / 8) as u8)).collect()
}

/// A connection that keeps writing and reading its own keys, each time checking that it gets what it wrote.
pub struct Observer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Observer {
    pub fn of(served: &Served) -> Observer {
        let mut client = served.client();
        // It is served before the trouble starts.
        client.set("observer-first", "1");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut round = 0u64;
            while !seen.load(Ordering::Relaxed) || round < 3 {
                let key = format!("observer-{}", round % 5);
                let value = pattern(round, 10 + (round % 7) as usize * 30);
                client.set(&key, &value);
                assert_eq!(client.get(&key).as_deref(), Some(&value[..]), "round {round}");
                round += 1;
            }
            assert_eq!(client.get("observer-first").as_deref(), Some(&b"1"[..]), "nothing lost");
            round
        });
        Observer { stop, thread }
    }

    /// Ends it, and says how often it was served.
    pub fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the observer was undisturbed")
    }
}
