//! Random conversations with a node that keeps rights, beside one that has none and is asked only for what is allowed.

use super::served::{Client, PATIENCE, Served, config};
use super::{NO_READ, NO_WRITE, frame, rights};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use protocol::memcache::binary::{HEADER_LEN, opcode};
use serve::kv::Server;
use serve::memcached::guest::{Checks, Planted};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use tempfile::TempDir;

/// Keys of random conversations: those that may be written, read, or neither.
const KEYS: [&str; 6] = ["w:1", "w:2", "r:1", "r:2", "x:1", "x:2"];

/// A command of a random conversation, with what it does to its key.
#[derive(Clone, Copy, Debug)]
struct Said {
    what: usize,
    key: &'static str,
    other: &'static str,
}

/// A request for a key, and perhaps another.
type Request = fn(&str, &str) -> String;

/// What each may be: it is given key and another, and whether it reads and writes the first.
const TEXTS: [(Request, bool, bool); 17] = [
    (|k, _| format!("get {k}\r\n"), true, false),
    (|k, _| format!("mg {k} v f t\r\n"), true, false),
    (|k, _| format!("gat 0 {k}\r\n"), true, true),
    (|k, _| format!("mg {k} T90 v\r\n"), true, true),
    (|k, _| format!("mg {k} N60 v\r\n"), true, true),
    (|k, _| format!("set {k} 0 0 7\r\nget x:1\r\n"), false, true),
    (|k, _| format!("ms {k} 2\r\nmn\r\n"), false, true),
    (|k, _| format!("append {k} 0 0 1\r\n+\r\n"), false, true),
    (|k, _| format!("add {k} 0 0 3\r\nadd\r\n"), false, true),
    (|k, _| format!("delete {k}\r\n"), false, true),
    (|k, _| format!("md {k} I T30\r\n"), false, true),
    (|k, _| format!("incr {k} 1\r\n"), true, true),
    (|k, _| format!("ma {k} N0 J5 v\r\n"), true, true),
    (|k, _| format!("touch {k} 100\r\n"), false, true),
    (|k, _| format!("delete {k} noreply\r\n"), false, true),
    (|k, o| format!("get {k} {o}\r\n"), true, false),
    (|k, _| format!("set {k} 0 0 2000000\r\n{}\r\n", "v".repeat(2_000_000)), false, true),
];

/// Of them, the retrieval of two keys.
const TWO_KEYS: usize = 15;

/// The same in binary: opcode, bytes of extras, value.
const BINARIES: [(u8, usize, &[u8], bool, bool); 11] = [
    (opcode::GET, 0, b"", true, false),
    (opcode::GETKQ, 0, b"", true, false),
    (opcode::GAT, 4, b"", true, true),
    (opcode::TOUCH, 4, b"", false, true),
    (opcode::SET, 8, b"new", false, true),
    (opcode::SETQ, 8, b"new", false, true),
    (opcode::ADD, 8, b"new", false, true),
    (opcode::APPENDQ, 0, b"+", false, true),
    (opcode::DELETE, 0, b"", false, true),
    (opcode::INCREMENT, 20, b"", true, true),
    (opcode::DECREMENTQ, 20, b"", true, true),
];

/// Two nodes whose items are alike: one keeps rights of anybody, and knows this process's user to whom everything is allowed.
struct Pair {
    kept: Served,
    free: Served,
    folder: TempDir,
}

impl Pair {
    fn new(text: Option<&str>, checks: Checks) -> Pair {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let mut config = config(&[]);
        config.listen.unix = Some(folder.path().join("unix"));
        (config.rights, config.checks) = (text.map(|text| rights(text).of(None)), checks);
        let kept = Served { node: Server::start(&config).expect("a node"), config };
        Pair { kept, free: Served::with(&[]), folder }
    }

    /// What all keys have, by somebody who may see it.
    fn items(&self) -> [Vec<u8>; 2] {
        let request: String =
            KEYS.iter().map(|key| format!("mg {key} k v f\r\n")).collect::<String>() + "mn\r\n";
        let mut unix = UnixStream::connect(self.folder.path().join("unix")).expect("it listens");
        unix.set_read_timeout(Some(PATIENCE)).expect("a socket");
        unix.write_all(request.as_bytes()).expect("it reads");
        let (mut kept, mut byte) = (Vec::new(), [0]);
        while !kept.ends_with(b"MN\r\n") {
            unix.read_exact(&mut byte).expect("an answer");
            kept.push(byte[0]);
        }
        let mut client = self.free.client();
        client.send(request);
        [kept, text_reply(&mut client)]
    }

    /// Both nodes anew, with items that say whose they are.
    fn begin(&self) {
        let request: String =
            KEYS.iter().map(|key| format!("set {key} 7 0 10\r\nsecret-{key}\r\n")).collect::<String>()
                + "mn\r\n";
        let wanted = "STORED\r\n".repeat(KEYS.len()) + "MN\r\n";
        let mut unix = UnixStream::connect(self.folder.path().join("unix")).expect("it listens");
        unix.set_read_timeout(Some(PATIENCE)).expect("a socket");
        unix.write_all(request.as_bytes()).expect("it reads");
        let mut heard = vec![0; wanted.len()];
        unix.read_exact(&mut heard).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&heard), wanted);
        self.free.client().ask(request, wanted);
    }
}

/// What comes up to `MN`.
fn text_reply(client: &mut Client) -> Vec<u8> {
    let mut reply = Vec::new();
    while !reply.ends_with(b"MN\r\n") {
        reply.extend(client.bytes(1));
    }
    reply
}

/// What comes up to the frame of a `noop`, without versions.
fn binary_reply(client: &mut Client) -> Vec<u8> {
    let mut reply = Vec::new();
    loop {
        let mut header = client.bytes(HEADER_LEN);
        if header[1] == opcode::NOOP {
            return reply;
        }
        header[16..].fill(0);
        let len = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes")) as usize;
        reply.extend(header);
        reply.extend(client.bytes(len));
    }
}

fn may(key: &str, reads: bool, writes: bool) -> bool {
    (!reads || key.starts_with(['r', 'w'])) && (!writes || key.starts_with('w'))
}

fn refusal(key: &str, reads: bool) -> &'static str {
    if reads && !may(key, true, false) { NO_READ } else { NO_WRITE }
}

fn in_text(pair: &Pair, all: &[Said]) -> TestCaseResult {
    pair.begin();
    let (mut kept, mut free) = (pair.kept.client(), pair.free.client());
    for said in all {
        let (text, reads, writes) = TEXTS[said.what % TEXTS.len()];
        let request = text(said.key, said.other) + "mn\r\n";
        let is_two = said.what % TEXTS.len() == TWO_KEYS;
        kept.send(&request);
        let heard = text_reply(&mut kept);
        let wanted = if !may(said.key, reads, writes) {
            let silent = request.contains("noreply");
            (if silent { "" } else { refusal(said.key, reads) }.to_owned() + "MN\r\n").into_bytes()
        } else if is_two && !may(said.other, true, false) {
            free.send(format!("get {}\r\nmn\r\n", said.key));
            let found = text_reply(&mut free);
            [found.strip_suffix(b"END\r\nMN\r\n").expect("an end"), NO_READ.as_bytes(), b"MN\r\n"].concat()
        } else {
            free.send(&request);
            text_reply(&mut free)
        };
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        prop_assert_eq!(shown(&heard), shown(&wanted), "to {:?}", &request[..request.len().min(60)]);
    }
    let [kept, free] = pair.items();
    prop_assert_eq!(String::from_utf8_lossy(&kept), String::from_utf8_lossy(&free));
    Ok(())
}

fn in_binary(pair: &Pair, all: &[Said]) -> TestCaseResult {
    pair.begin();
    let (mut kept, mut free) = (pair.kept.client(), pair.free.client());
    let noop = frame(opcode::NOOP, b"", b"", b"");
    for said in all {
        let (opcode, extras, value, reads, writes) = BINARIES[said.what % BINARIES.len()];
        let request = [frame(opcode, &vec![0; extras], said.key.as_bytes(), value), noop.clone()].concat();
        kept.send(&request);
        let heard = binary_reply(&mut kept);
        let wanted = if may(said.key, reads, writes) {
            free.send(&request);
            binary_reply(&mut free)
        } else {
            let text = refusal(said.key, reads).trim_start_matches("CLIENT_ERROR n").trim_end();
            let text = format!("N{text}");
            let mut header = vec![0; HEADER_LEN];
            (header[0], header[1], header[7], header[11]) = (0x81, opcode, 0x20, text.len() as u8);
            [header, text.into_bytes()].concat()
        };
        prop_assert_eq!(
            String::from_utf8_lossy(&heard),
            String::from_utf8_lossy(&wanted),
            "to {:#x} {}",
            opcode,
            said.key
        );
    }
    let [kept, free] = pair.items();
    prop_assert_eq!(String::from_utf8_lossy(&kept), String::from_utf8_lossy(&free));
    Ok(())
}

fn conversations() -> impl Strategy<Value = Vec<Said>> {
    let key = || prop::sample::select(&KEYS[..]);
    let said = (0..1000usize, key(), key()).prop_map(|(what, key, other)| Said { what, key, other });
    prop::collection::vec(said, 1..24)
}

fn hold(pair: &Pair, check: fn(&Pair, &[Said]) -> TestCaseResult) -> Result<(), String> {
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() });
    runner.run(&conversations(), |all| check(pair, &all)).map_err(|error| error.to_string())
}

/// Who may read `r:` and `w:`, and write `w:`.
fn some_rights() -> String {
    let me = rustix::process::getuid().as_raw();
    format!(
        "[[allow]]\nwho = 'anybody'\nread = ['r:', 'w:']\nwrite = 'w:'\n[[allow]]\nwho = 'uid:{me}'\nread = ''\nwrite = ''\n"
    )
}

#[test]
fn nothing_beyond_a_prefix_is_read_or_written_in_text() {
    hold(&Pair::new(Some(&some_rights()), Checks::default()), in_text).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn nothing_beyond_a_prefix_is_read_or_written_in_binary() {
    hold(&Pair::new(Some(&some_rights()), Checks::default()), in_binary)
        .unwrap_or_else(|why| panic!("{why}"));
}

/// The checker finds a node that looks at no rights.
#[test]
fn a_node_without_rights_is_found() {
    let pair = Pair::new(None, Checks::default());
    assert!(hold(&pair, in_text).expect_err("it shows everything").contains("no right to"));
    assert!(hold(&pair, in_binary).expect_err("it shows everything").contains("o right to"));
}

/// And one that is wrong about some commands of the binary protocol alone.
#[test]
fn mistakes_with_binary_commands_are_found() {
    for planted in [Planted::BinaryChangeUnasked, Planted::BinaryQuietUnasked] {
        let pair = Pair::new(Some(&some_rights()), Checks::with_bugs(Some(planted)));
        let found = hold(&pair, in_binary).expect_err("it is wrong");
        assert!(found.contains("o right to"), "{planted:?}: {found}");
        hold(&pair, in_text).unwrap_or_else(|why| panic!("{planted:?} is of the binary protocol: {why}"));
    }
}
