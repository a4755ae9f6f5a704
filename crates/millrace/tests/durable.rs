//! `millrace up --durability log` as its users run it, killed at any moment: what was acknowledged is there afterwards, and what could not be written is not
//! acknowledged. What is at stake in detail: `store/src/durable/tests.rs`, `serve/src/kv/durable/tests.rs`.
//!
//! Moments are numbers of replies, from a seed; nothing waits for a certain time.

mod served;

use base::Prng;
use served::node::Node;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::with_prefix("millrace-").expect("a folder"))
    }

    fn words(&self) -> Vec<String> {
        let data = self.0.path().join("data").to_str().expect("text").to_owned();
        let words = ["up", "-p", "0", "-m", "64", "--admin", "0", "--durability", "log", "--data-dir", &data];
        let words = words.iter().chain(&["--set", "log.size=8m", "-t", "2"]);
        words.map(|word| (*word).to_owned()).collect()
    }

    fn node(&self) -> Node {
        let words = self.words();
        Node::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// One that may not write behind so many KiB of any file, and is told so instead of being killed.
    fn limited(&self, kib: u64) -> Node {
        let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"");
        Node::of(Command::new("bash").args(["-c", &script, PROGRAM]).args(self.words()))
    }
}

/// What a client knows of its keys: the last that was acknowledged, and the last that was sent.
#[derive(Default)]
struct Known {
    keys: BTreeMap<String, (u64, u64)>,
}

/// Sets and counts until the node is gone. Each key has numbers that rise.
fn load(address: &str, client: u64, known: &mut Known, replies: &AtomicU64, prng: &mut Prng) {
    let Ok(stream) = TcpStream::connect(address) else { return };
    let mut reader = BufReader::new(stream);
    loop {
        let mut batch = Vec::new();
        let mut text = String::new();
        for _ in 0..=prng.below(32) {
            let number = prng.below(40);
            let is_count = prng.below(3) == 0;
            let key = format!("{}{client}-{number}", if is_count { "n" } else { "k" });
            let (_, sent) = known.keys.entry(key.clone()).or_insert((0, 0));
            *sent += 1;
            if is_count {
                text.push_str(&format!("ma {key} N0 J1 v\r\n"));
            } else {
                let value = format!("{sent} {}", "v".repeat((*sent % 700) as usize));
                text.push_str(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
            }
            batch.push((key, *sent, is_count));
        }
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
        for (key, sent, is_count) in batch {
            let Some(mut line) = next(&mut reader) else { return };
            if line.starts_with("SERVER_ERROR") {
                continue;
            }
            if is_count {
                let Some(number) = next(&mut reader) else { return };
                line = number;
            }
            let acknowledged = if is_count { line.trim().parse().expect("a number") } else { sent };
            known.keys.get_mut(&key).expect("it was sent").0 = acknowledged;
            replies.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A whole line, if the node is there.
fn next(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let is_whole = matches!(reader.read_line(&mut line), Ok(1..)) && line.ends_with("\r\n");
    is_whole.then_some(line)
}

/// Every key is between what was acknowledged and what was sent; that is what clients go on from.
fn check(node: &Node, known: &mut Known) {
    let mut client = node.client();
    for (key, (acknowledged, sent)) in &mut known.keys {
        let found = client.get(key).map_or(0, |value| {
            let text = String::from_utf8(value).expect("text");
            text.split(' ').next().and_then(|number| number.parse().ok()).expect("it begins with a number")
        });
        assert!(
            (*acknowledged..=*sent).contains(&found),
            "{key} is {found}, {acknowledged} was acknowledged and {sent} sent"
        );
        (*acknowledged, *sent) = (found, found);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_every_kill() {
    let folder = Folder::new();
    let mut prng = Prng::new(19);
    let mut all: Vec<Known> = (0..4).map(|_| Known::default()).collect();
    let mut snapshots = false;
    for round in 0..6 {
        let node = folder.node();
        assert!(node.said.contains("durable: "), "{}", node.said);
        snapshots |= node.said.contains("a snapshot of ");
        all.iter_mut().for_each(|known| check(&node, known));
        let (replies, until) =
            (AtomicU64::new(0), 1 + prng.below(2000) + if round == 0 { 0 } else { prng.below(25_000) });
        let mut seeds: Vec<Prng> = all.iter().map(|_| Prng::new(prng.next_u64())).collect();
        std::thread::scope(|scope| {
            for ((client, known), prng) in (0..).zip(&mut all).zip(&mut seeds) {
                let (address, replies) = (&node.address, &replies);
                scope.spawn(move || load(address, client, known, replies, prng));
            }
            while replies.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            node.signal(rustix::process::Signal::KILL);
        });
        let (status, said) = node.ended();
        assert!(!status.success(), "{said}");
    }
    let node = folder.node();
    all.iter_mut().for_each(|known| check(&node, known));
    assert!(snapshots || node.said.contains("a snapshot of "), "the log came round: {}", node.said);
    let said = node.stop();
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_disk_that_is_full_refuses_writes_and_loses_none() {
    let folder = Folder::new();
    drop(folder.node());
    // The log is there; snapshots of more than this cannot be.
    let node = folder.limited(9 << 10);
    let value = "v".repeat(4000);
    let mut client = node.client();
    let mut stored = 0;
    let refused = (0..15_000).find_map(|key| {
        client.send(format!("set k{key} 0 0 4000\r\n{value}\r\n"));
        let line = client.line();
        stored += u64::from(line.starts_with("STORED"));
        (!line.starts_with("STORED")).then_some(line)
    });
    let refused = refused.expect("the log is full in the end");
    assert!(refused.starts_with("SERVER_ERROR the log is full until a snapshot is made"), "{refused}");
    assert_eq!(client.get("k0").as_deref(), Some(value.as_bytes()), "what is there is served");
    node.signal(rustix::process::Signal::KILL);
    let (_, said) = node.ended();
    assert!(said.contains("a snapshot failed"), "{said}");

    // With room again it goes on.
    let node = folder.node();
    let mut client = node.client();
    for key in 0..stored {
        assert!(client.get(&format!("k{key}")).is_some(), "k{key} of {stored} was stored");
    }
    for key in 0..3000 {
        let mut refused = true;
        while refused {
            client.send(format!("set k{key} 0 0 4000\r\n{value}\r\n"));
            refused = !client.line().starts_with("STORED");
        }
    }
    node.stop();
}

#[test]
fn a_log_that_cannot_be_written_ends_the_server_without_a_lie() {
    let folder = Folder::new();
    drop(folder.node());
    let node = folder.limited(1 << 10);
    let value = "v".repeat(4000);
    let mut stream = BufReader::new(TcpStream::connect(&node.address).expect("a node"));
    let mut stored = 0;
    for key in 0..1000 {
        let text = format!("set k{key} 0 0 4000\r\n{value}\r\n");
        let mut line = String::new();
        let is_sent = stream.get_mut().write_all(text.as_bytes()).is_ok();
        if !is_sent || !matches!(stream.read_line(&mut line), Ok(1..)) {
            break;
        }
        assert_eq!(line, "STORED\r\n");
        stored += 1;
    }
    assert!((10..1000).contains(&stored), "{stored}");
    let (status, said) = node.ended();
    assert!(
        !status.success() && said.contains("the redo log") && said.contains("failed"),
        "{status}: {said}"
    );
    let node = folder.node();
    let mut client = node.client();
    for key in 0..stored {
        assert_eq!(client.get(&format!("k{key}")).as_deref(), Some(value.as_bytes()));
    }
    node.stop();
}

#[test]
fn a_second_process_and_contradictions_are_refused() {
    let folder = Folder::new();
    let node = folder.node();
    let run = |more: &[&str], folder: &Folder| {
        let output = Command::new(PROGRAM).args(folder.words()).args(more).output().expect("the program");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(&[], &folder).contains("another process has the data directory"));
    assert!(run(&["-e", "/nowhere"], &folder).contains("leave one of them out"));
    node.stop();
    assert!(run(&["-I", "8m"], &folder).contains("too short for values of up to"));
}
