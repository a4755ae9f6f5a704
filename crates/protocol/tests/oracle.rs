//! Whole conversations, held once with the real memcached and once with a small server made of our parser and replies,
//! must read the same. Skipped, visibly, where no memcached is installed.
//!
//! Versions are compared by the order in which they first appear, times to live within two seconds.
//! `docs/memcached-differences.md` lists what differs on purpose; `DIFFERENCES` below proves each entry.

mod server;

use server::Server;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Memcached {
    process: Child,
    port: u16,
}

impl Memcached {
    /// Starts the installed memcached on a free loopback port.
    fn start() -> Option<Memcached> {
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
            let mut command = Command::new("memcached");
            command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-t", "1", "-u", "nobody"]);
            let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
            let deadline = Instant::now() + Duration::from_secs(10);
            while Instant::now() < deadline && matches!(process.try_wait(), Ok(None)) {
                if answers(port) {
                    return Some(Memcached { process, port });
                }
                std::thread::yield_now();
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        None
    }

    /// Sends `requests`, then the end of the stream, and reads to the end.
    fn converse(&self, requests: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("memcached listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        // memcached may close before it has read everything; what it said until then counts.
        let _ = stream.write_all(requests);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// True if memcached speaks on `port`. A connection alone proves nothing: one to a free port of the range that clients
/// are given theirs from can meet itself, take the port from memcached, and then reads what it wrote.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut said = [0; 8];
    let patience = stream.set_read_timeout(Some(Duration::from_secs(10)));
    patience
        .and_then(|()| stream.write_all(b"version\r\n"))
        .and_then(|()| stream.read_exact(&mut said))
        .is_ok()
        && said == *b"VERSION "
}

/// Replies in words, with versions numbered by first appearance.
fn normalise(answer: &[u8]) -> Vec<String> {
    let text: String = answer.iter().map(|&b| char::from(b)).collect();
    let mut versions = HashMap::new();
    let mut number = |version: &str| {
        let next = versions.len() + 1;
        if version == "0" { 0 } else { *versions.entry(version.to_string()).or_insert(next) }
    };
    let mut words = Vec::new();
    for line in text.split_inclusive('\n') {
        let status = line.split(' ').next().unwrap_or("").trim_end();
        for (i, word) in line.split_inclusive([' ', '\n']).enumerate() {
            let bare = word.trim_end_matches([' ', '\r', '\n']);
            let meta = matches!(status, "HD" | "VA" | "NS" | "EX" | "NF");
            let version = match (status, i) {
                ("VALUE", 4) => Some(("", bare)),
                ("ME", _) => bare.strip_prefix("cas=").map(|v| ("cas=", v)),
                _ if meta && i > 0 => bare.strip_prefix('c').map(|v| ("c", v)),
                _ => None,
            };
            match version {
                Some((prefix, version))
                    if version.bytes().all(|b| b.is_ascii_digit()) && !version.is_empty() =>
                {
                    let end = &word[bare.len()..];
                    words.push(format!("{prefix}#{}{end}", number(version)));
                }
                // Memory classes and sizes of an item are the allocator's affair.
                _ if status == "ME" && (bare.starts_with("cls=") || bare.starts_with("size=")) => {}
                _ => words.push(word.to_string()),
            }
        }
    }
    words
}

/// True for the same word, or for two times that differ by what a slow machine may add.
fn agree(ours: &str, theirs: &str) -> bool {
    let time = |word: &str| {
        let word = word.trim_end();
        let digits = word.strip_prefix("t").or(word.strip_prefix("l")).or(word.strip_prefix("exp=-"))?;
        digits.parse::<u32>().ok()
    };
    ours == theirs || matches!((time(ours), time(theirs)), (Some(a), Some(b)) if a.abs_diff(b) <= 2)
}

fn same(ours: &[u8], theirs: &[u8]) -> bool {
    let (ours, theirs) = (normalise(ours), normalise(theirs));
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| agree(a, b))
}

fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as u32
}

/// `$K` stands for a key that is too long, `$L` for the longest that is not, `$B` for a value that is too large.
fn expand(text: &str) -> Vec<u8> {
    let text = text.replace("$K", &"k".repeat(251)).replace("$L", &"l".repeat(250));
    let text = text.replace("$B", &"x".repeat(2_000_000)).replace("$O32", &"o".repeat(32));
    text.replace("$O31", &"o".repeat(31)).into_bytes()
}

#[test]
fn conversations_read_the_same() {
    let Some(memcached) = Memcached::start() else {
        eprintln!(
            "SKIPPED: memcached is not installed or does not start; install it to compare with the original"
        );
        return;
    };
    let mut wrong = Vec::new();
    for text in conversations() {
        let requests = [b"flush_all noreply\r\n", &expand(&text)[..]].concat();
        let theirs = memcached.converse(&requests);
        let ours = Server::new(now()).converse(&requests).bytes;
        if !same(&ours, &theirs) {
            let show = |bytes: &[u8]| bytes[..bytes.len().min(600)].escape_ascii().to_string();
            wrong.push(format!("{text:?}\n  memcached {}\n  millrace  {}", show(&theirs), show(&ours)));
        }
    }
    assert!(wrong.is_empty(), "{} conversations differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn deliberate_differences_are_still_differences() {
    let Some(memcached) = Memcached::start() else {
        eprintln!("SKIPPED: memcached is not installed or does not start");
        return;
    };
    for (text, ours) in DIFFERENCES {
        let requests = [b"flush_all noreply\r\n", &expand(text)[..]].concat();
        let answer = Server::new(now()).converse(&requests).bytes;
        assert!(answer.starts_with(ours.as_bytes()), "{text:?}: {}", answer.escape_ascii());
        let theirs = memcached.converse(&requests);
        assert!(!same(&answer, &theirs), "{text:?} no longer differs: {}", theirs.escape_ascii());
    }
}

/// Each row of `docs/memcached-differences.md`: a request and how our answer begins.
const DIFFERENCES: &[(&str, &str)] = &[
    ("get a\0b\r\nset a\0b 0 0 1\r\nx\r\nget a\0b\r\n", "END\r\nSTORED\r\nVALUE a\0b 0 1\r\nx\r\n"),
    ("set a 0 0 4294967297\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a 4294967296 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a 0 4000000000 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\n"),
    ("set a 0 4294967296 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a 1\tx 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("mg Zm9v! b k\r\n", "CLIENT_ERROR error decoding key\r\n"),
    ("mg Zh== b k\r\n", "CLIENT_ERROR error decoding key\r\n"),
    ("ms foo 1\r\nx\r\nmg Zm9v b k\r\n", "HD\r\nHD kZm9v b\r\n"),
    ("ms foo 1 E77\r\nx\r\n", "HD\r\n"),
    ("ms foo 1 s\r\nx\r\n", "HD s1\r\n"),
    ("ms foo 1 MA N0\r\nx\r\n", "HD\r\n"),
    ("ms foo 1 Me\r\nx\r\n", "HD\r\n"),
    ("ms foo 1 F5\r\nx\r\nmd foo x\r\nmg foo v f\r\n", "HD\r\nHD\r\nVA 0 f0\r\n\r\n"),
    ("delete z\r\nget $K\r\n", "NOT_FOUND\r\nCLIENT_ERROR bad command line format\r\n"),
    ("mg n N-1 t\r\n", "HD t0 W\r\n"),
    ("watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n"),
    ("slabs reassign 1 2\r\n", "CLIENT_ERROR slab reassignment disabled\r\n"),
    ("extstore item_size 1\r\n", "ERROR\r\n"),
    ("refresh_certs\r\n", "ERROR\r\n"),
    ("lru_crawler mgdump all\r\n", "END\r\n"),
];

/// One conversation a line; `|` stands for the line end, `\n` for a bare newline.
fn conversations() -> Vec<String> {
    let lines = include_str!("conversations.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.replace('|', "\r\n").replace("\\n", "\n").replace("\\t", "\t")).collect()
}
