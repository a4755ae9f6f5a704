//! The same in the binary protocol: frames are compared field by field, versions by their order of appearance; and conversations by hand, of what is
//! wrong, each over a connection of its own up to its end.

use super::Drawn;
use super::memcached::Memcached;
use super::proxied::Proxied;
use super::served::{PATIENCE, Served};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use protocol::memcache::binary::{HEADER_LEN, REPLY_MAGIC, REQUEST_MAGIC, opcode};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: usize = 4;

/// Which version a request has.
#[derive(Clone, Copy, Debug)]
enum Cas {
    None,
    /// The last that a reply about its key had.
    Last,
    /// One that never was.
    Never,
}

/// A request about key `key` of its conversation; without one where there is none.
#[derive(Clone, Debug)]
struct Request {
    opcode: u8,
    key: Option<usize>,
    extras: Vec<u8>,
    value: Vec<u8>,
    cas: Cas,
}

/// A request as it travels.
pub fn frame(opcode: u8, key: &[u8], extras: &[u8], value: &[u8], opaque: u32, cas: u64) -> Vec<u8> {
    let mut bytes = vec![REQUEST_MAGIC, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(((key.len() + extras.len() + value.len()) as u32).to_be_bytes());
    bytes.extend(opaque.to_be_bytes());
    bytes.extend(cas.to_be_bytes());
    [&bytes[..], extras, key, value].concat()
}

fn key() -> impl Strategy<Value = Option<usize>> {
    (0..KEYS).prop_map(Some)
}

fn exptime() -> impl Strategy<Value = u32> {
    // The last but one has passed, and all ones are a moment far away, but for counters.
    select(vec![0, 0, 0, 100, 5000, 2_592_001, u32::MAX])
}

fn cas() -> impl Strategy<Value = Cas> {
    prop_oneof![5 => Just(Cas::None), 3 => Just(Cas::Last), 1 => Just(Cas::Never)]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-f]{0,12}".prop_map(String::into_bytes),
        4 => (0u64..1000).prop_map(|n| n.to_string().into_bytes()),
        2 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| [&b"x"[..], &bytes].concat()),
        1 => select(vec![2000usize, 17_000, 50_000]).prop_map(|n| vec![b'd'; n]),
    ]
}

fn request(small_only: bool) -> impl Strategy<Value = Request> {
    use opcode::*;
    let get = (select(vec![GET, GETQ, GETK, GETKQ]), key()).prop_map(|(opcode, key)| Request {
        opcode,
        key,
        extras: Vec::new(),
        value: Vec::new(),
        cas: Cas::None,
    });
    let touch =
        (select(vec![TOUCH, GAT, GATQ, GATK, GATKQ]), key(), exptime()).prop_map(|(opcode, key, exptime)| {
            Request { opcode, key, extras: exptime.to_be_bytes().into(), value: Vec::new(), cas: Cas::None }
        });
    let stores = vec![SET, SET, SETQ, ADD, ADDQ, REPLACE, REPLACEQ];
    let store = (select(stores), key(), (any::<u32>(), exptime()), value(), cas()).prop_map(
        |(opcode, key, (flags, exptime), value, cas)| Request {
            opcode,
            key,
            extras: [flags.to_be_bytes(), exptime.to_be_bytes()].concat(),
            value,
            cas,
        },
    );
    let join = (select(vec![APPEND, APPENDQ, PREPEND, PREPENDQ]), key(), value(), cas()).prop_map(
        |(opcode, key, value, cas)| {
            // Digits could make a number with leading zeros, which a home of boxes does not keep.
            let value = if value.iter().all(u8::is_ascii_digit) { b"g".to_vec() } else { value };
            Request { opcode, key, extras: Vec::new(), value, cas }
        },
    );
    let delete = (select(vec![DELETE, DELETEQ]), key(), cas()).prop_map(|(opcode, key, cas)| Request {
        opcode,
        key,
        extras: Vec::new(),
        value: Vec::new(),
        cas,
    });
    let counts = vec![INCREMENT, INCREMENTQ, DECREMENT, DECREMENTQ];
    let count = (select(counts), key(), (0u64..200, 0u64..2000), exptime(), cas()).prop_map(
        |(opcode, key, (delta, initial), exptime, cas)| Request {
            opcode,
            key,
            extras: [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat(),
            value: Vec::new(),
            cas,
        },
    );
    let keyless = select(vec![(NOOP, 0), (FLUSH, 0), (FLUSH, 4), (FLUSHQ, 0), (0x1b, 0), (0x7f, 0)])
        .prop_map(|(opcode, extras)| Request {
            opcode,
            key: None,
            extras: vec![0; extras],
            value: Vec::new(),
            cas: Cas::None,
        });
    let request =
        prop_oneof![40 => get, 15 => touch, 50 => store, 20 => join, 15 => delete, 30 => count, 6 => keyless];
    request.prop_map(move |mut request| {
        if small_only {
            request.value.truncate(1000);
        }
        request
    })
}

/// One server's side of a conversation.
struct Side {
    stream: TcpStream,
    versions: HashMap<u64, usize>,
    last: [u64; KEYS],
}

impl Side {
    fn new(address: SocketAddr) -> Side {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Side { stream, versions: HashMap::new(), last: [0; KEYS] }
    }

    /// What it answers, up to the reply to a `noop` behind it.
    fn ask(&mut self, request: &Request, run: u64) -> Vec<String> {
        const END: u32 = 0xe4d;
        let key = request.key.map_or(String::new(), |key| format!("binary{key}.{run}"));
        let cas = match (request.cas, request.key) {
            (Cas::Last, Some(key)) => self.last[key],
            (Cas::Never, _) => 999_999_999,
            _ => 0,
        };
        let asked = frame(request.opcode, key.as_bytes(), &request.extras, &request.value, 7, cas);
        let asked = [asked, frame(opcode::NOOP, b"", b"", b"", END, 0)].concat();
        self.stream.write_all(&asked).expect("it reads");
        let mut said = Vec::new();
        loop {
            let mut header = [0; HEADER_LEN];
            self.stream.read_exact(&mut header).expect("it answers");
            let len = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes")) as usize;
            let mut body = vec![0; len];
            self.stream.read_exact(&mut body).expect("it answers");
            if header[12..16] == END.to_be_bytes() {
                return said;
            }
            said.push(self.shown(&header, &body));
            let cas = u64::from_be_bytes(header[16..].try_into().expect("8 bytes"));
            if let Some(key) = request.key.filter(|_| cas != 0) {
                self.last[key] = cas;
            }
        }
    }

    /// A reply with its version by order of appearance.
    fn shown(&mut self, header: &[u8; HEADER_LEN], body: &[u8]) -> String {
        let cas = u64::from_be_bytes(header[16..].try_into().expect("8 bytes"));
        let next = self.versions.len() + 1;
        let cas = if cas == 0 { 0 } else { *self.versions.entry(cas).or_insert(next) };
        format!("{:02x?} #{cas} {}", &header[..16], body.escape_ascii())
    }
}

/// Holds so many conversations, unless the environment says how many. False where there is no memcached to hold them with.
fn hold(ours: SocketAddr, cases: u64, small_only: bool) -> bool {
    let Some(memcached) = Memcached::start(&["-o", "no_lru_crawler,no_lru_maintainer"]) else { return false };
    let Drawn { mut runner, cases, seed } = Drawn::of(cases, 2000);
    let runs = AtomicU64::new(0);
    let conversation = proptest::collection::vec(request(small_only), 1..60);
    let outcome = runner.run(&conversation, |requests| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let (mut theirs, mut ours) = (Side::new(memcached.address()), Side::new(ours));
        for request in &requests {
            let (wanted, got) = (theirs.ask(request, run), ours.ask(request, run));
            if wanted != got {
                let why = format!("{request:02x?}\n  memcached: {wanted:?}\n  millrace:  {got:?}");
                return Err(TestCaseError::fail(why));
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|why| panic!("MILLRACE_SEED={seed} MILLRACE_CONVERSATIONS={cases}\n{why}"));
    true
}

#[test]
fn random_binary_conversations_read_the_same() {
    let served = Served::with(&[("edge.threads", "2"), ("store.memory", "256m")]);
    if hold(served.address(), 300, false) {
        served.still_sound();
    }
}

#[test]
fn random_binary_conversations_read_the_same_through_the_proxy() {
    let proxied = Proxied::behind_three_boxes();
    if hold(proxied.address(), 60, true) {
        proxied.end_with_all_boxes_used();
    }
}

/// All that a connection is answered that sends this and no more, in frames; what is no frame as it is.
pub fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<String> {
    let mut side = Side::new(address);
    // It may close before it has read everything; what it said until then counts.
    let _ = side.stream.write_all(bytes);
    let _ = side.stream.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = side.stream.read_to_end(&mut said);
    let (mut rest, mut frames) = (&said[..], Vec::new());
    while let Some((header, body)) = rest.split_first_chunk::<HEADER_LEN>() {
        assert_eq!(header[0], REPLY_MAGIC, "{}", said.escape_ascii());
        let len = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes")) as usize;
        frames.push(side.shown(header, &body[..len]));
        rest = &body[len..];
    }
    assert!(rest.is_empty(), "{}", said.escape_ascii());
    frames
}

/// Requests that are wrong in some way, or whose effect is on the connection, each with a `noop` behind it.
fn by_hand() -> Vec<Vec<u8>> {
    use opcode::*;
    let set = |key: &[u8], value: &[u8]| frame(SET, key, &[0; 8], value, 1, 0);
    let lengths = |opcode: u8, key: u16, extras: u8, body: u32| {
        let mut bytes = frame(opcode, b"", b"", b"", 3, 0);
        bytes[2..4].copy_from_slice(&key.to_be_bytes());
        bytes[4] = extras;
        bytes[8..12].copy_from_slice(&body.to_be_bytes());
        bytes
    };
    let mut all = vec![
        frame(QUIT, b"", b"", b"", 2, 0),
        frame(QUITQ, b"", b"", b"", 2, 0),
        frame(QUIT, b"k", b"", b"", 2, 0),
        // Longest key, and one too long.
        [set(&[b'l'; 250], b"v"), frame(GETK, &[b'l'; 250], b"", b"", 2, 0)].concat(),
        set(&[b'k'; 251], b"v"),
        frame(GETKQ, &[b'k'; 300], b"", b"", 2, 0),
        // More key and extras than body.
        [lengths(GET, 5, 0, 3), b"abcde".to_vec()].concat(),
        [lengths(SET, 1, 8, 8), vec![0; 9]].concat(),
        // Extras and bodies that do not belong there.
        frame(GET, b"k", &[0; 4], b"", 2, 0),
        frame(GET, b"", b"", b"", 2, 0),
        frame(GET, b"k", b"", b"value", 2, 0),
        frame(SET, b"k", &[0; 4], b"v", 2, 0),
        frame(SET, b"", &[0; 8], b"v", 2, 0),
        frame(APPEND, b"k", &[0; 8], b"v", 2, 0),
        frame(DELETE, b"k", &[0; 4], b"", 2, 0),
        frame(DELETEQ, b"k", b"", b"v", 2, 0),
        frame(INCREMENT, b"k", &[0; 16], b"", 2, 0),
        frame(DECREMENT, b"k", &[0; 20], b"v", 2, 0),
        frame(FLUSH, b"k", b"", b"", 2, 0),
        frame(FLUSH, b"", &[0; 8], b"", 2, 0),
        frame(NOOP, b"", b"", b"v", 2, 0),
        frame(VERSION, b"k", b"", b"", 2, 0),
        frame(STAT, b"", &[0; 4], b"", 2, 0),
        frame(TOUCH, b"k", b"", b"", 2, 0),
        frame(GAT, b"", &[0; 4], b"", 2, 0),
        // Statistics without figures.
        frame(STAT, b"reset", b"", b"", 2, 0),
        frame(STAT, b"nonsense", b"", b"", 2, 0),
        frame(STAT, b"conns", b"", b"", 2, 0),
        frame(STAT, b"detail nothing", b"", b"", 2, 0),
        frame(STAT, b"detail on", b"", b"", 2, 0),
        frame(STAT, b"detail off", b"", b"", 2, 0),
        // Without SASL there is none.
        frame(SASL_LIST, b"", b"", b"", 2, 0),
        frame(SASL_AUTH, b"PLAIN", b"", b"\0user\0password", 2, 0),
        frame(SASL_STEP, b"PLAIN", b"", b"x", 2, 0),
        // No such request, with and without a value.
        frame(0x1b, b"", b"", b"", 2, 0),
        frame(0xff, b"", b"", b"value", 2, 0),
        // No request begins so.
        vec![0x81; 24],
        b"version\r\nversion\r\nversion\r\n".to_vec(),
    ];
    // Too large: swallowed; a set takes the old value with it.
    for opcode in [SET, SETQ, ADD, REPLACE, APPEND, PREPENDQ] {
        let extras: &[u8] = if matches!(opcode, APPEND | PREPENDQ) { b"" } else { &[0; 8] };
        let large = frame(opcode, b"large", extras, &vec![b'x'; 2 << 20], 2, 0);
        all.push([set(b"large", b"v"), large, frame(GET, b"large", b"", b"", 3, 0)].concat());
    }
    // First something, so that what follows is in a conversation in binary.
    let noop = |opaque| frame(NOOP, b"", b"", b"", opaque, 0);
    all.into_iter().map(|bytes| [noop(8), bytes, noop(9)].concat()).collect()
}

#[test]
fn what_is_wrong_in_binary_is_answered_the_same() {
    let Some(memcached) = Memcached::start(&[]) else { return };
    let served = Served::with(&[]);
    let wrong: Vec<String> = by_hand()
        .iter()
        .filter_map(|bytes| {
            let (theirs, ours) = (answer(memcached.address(), bytes), answer(served.address(), bytes));
            let asked = bytes[HEADER_LEN..bytes.len().min(100)].escape_ascii();
            (theirs != ours).then(|| format!("{asked}\n  memcached {theirs:?}\n  millrace  {ours:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    served.still_sound();
}
