//! However the bytes of a connection are split, the parser sees the same commands; and no bytes make it panic, stand
//! still, or hold more than it says.

mod trace;

use proptest::prelude::*;
use protocol::memcache::{Command, Exptime, Get, KEY_MAX, LINE_MAX, Parser, Step, Store, StoreVerb};
use trace::{holds_in_pieces, trace};

const MAX_VALUE: usize = 64;

fn whole(bytes: &[u8]) -> Vec<String> {
    trace(bytes, MAX_VALUE, || usize::MAX)
}

/// Keys of every length up to one too many.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-zA-Z0-9:_]{1,20}", 1 => "[a-z]{248,252}", 1 => "[!-~]{1,40}"]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0u64..200).prop_map(|n| n.to_string()),
        2 => any::<u64>().prop_map(|n| n.to_string()),
        2 => any::<i64>().prop_map(|n| n.to_string()),
        1 => "[+0-9x-]{0,12}",
    ]
}

fn meta_flags() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        6 => "[bcfhklqstuvIPLx]",
        3 => ("[TNRFCEDJ]", number()).prop_map(|(flag, n)| flag + &n),
        2 => "O[a-z0-9]{0,33}",
        2 => "M[SEAPRID+-]",
        1 => "[!-~]{1,3}",
    ];
    proptest::collection::vec(one, 0..8).prop_map(|flags| flags.join(" "))
}

fn noreply() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just(" noreply"), 1 => Just(" 0")]
}

fn line_end() -> impl Strategy<Value = &'static str> {
    prop_oneof![5 => Just("\r\n"), 1 => Just("\n")]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..MAX_VALUE + 10)
}

/// One request as a client might send it, mostly right.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let retrieval = ("(get|gets|gat 10|gats 0|bget)", proptest::collection::vec(key(), 0..6), line_end())
        .prop_map(|(verb, keys, end)| format!("{verb} {}{end}", keys.join(" ")).into_bytes());
    let store = (
        "(set|add|replace|append|prepend)",
        key(),
        number(),
        number(),
        value(),
        noreply(),
        prop_oneof![9 => Just("\r\n"), 1 => Just("\n"), 1 => Just("xx")],
    )
        .prop_map(|(verb, key, flags, exptime, value, noreply, end)| {
            let head = format!("{verb} {key} {flags} {exptime} {}{noreply}\r\n", value.len());
            [head.as_bytes(), &value, end.as_bytes()].concat()
        });
    let cas = (key(), number(), value()).prop_map(|(key, cas, value)| {
        [format!("cas {key} 1 0 {} {cas}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
    });
    let meta_set = (key(), meta_flags(), value()).prop_map(|(key, flags, value)| {
        [format!("ms {key} {} {flags}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
    });
    let meta = ("(mg|md|ma|me)", key(), meta_flags(), line_end())
        .prop_map(|(verb, key, flags, end)| format!("{verb} {key} {flags}{end}").into_bytes());
    let small = ("(delete|incr|decr|touch)", key(), number(), noreply(), line_end())
        .prop_map(|(verb, key, n, noreply, end)| format!("{verb} {key} {n}{noreply}{end}").into_bytes());
    let fixed = prop_oneof![
        Just("mn\r\n"),
        Just("version\r\n"),
        Just("flush_all\r\n"),
        Just("flush_all 5 noreply\r\n"),
        Just("stats items\r\n"),
        Just("verbosity 1\r\n"),
        Just("quit\r\n"),
        Just("lru_crawler metadump all\r\n"),
        Just("\r\n"),
        Just("  \n"),
        Just("nonsense\r\n"),
        Just("shutdown graceful\r\n"),
        Just("cache_memlimit 64\r\n"),
        Just("stats cachedump 1 1\n"),
    ]
    .prop_map(|line| line.as_bytes().to_vec());
    prop_oneof![3 => retrieval, 3 => store, 1 => cas, 2 => meta_set, 3 => meta, 2 => small, 1 => fixed]
}

/// A binary request whose body is so long; it has a key of the first bytes behind extras.
fn binary(opcode: u8, key: usize, extras: usize, body: &[u8]) -> Vec<u8> {
    let mut header = [0; 24];
    (header[0], header[1]) = (0x80, opcode);
    header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
    header[4] = extras as u8;
    header[8..12].copy_from_slice(&(body.len() as u32).to_be_bytes());
    header[12..16].copy_from_slice(b"abcd");
    [&header[..], body].concat()
}

/// Binary requests, most of them with lengths that memcached takes.
fn binary_stream() -> impl Strategy<Value = Vec<u8>> {
    let extras = |opcode| match opcode {
        1..=3 | 0x11..=0x13 => 8,
        5 | 6 | 0x15 | 0x16 => 20,
        0x1c..=0x1e | 0x23 | 0x24 => 4,
        _ => 0,
    };
    let body = proptest::collection::vec(any::<u8>(), 0..MAX_VALUE + 40);
    let right = (0u8..0x26, 0usize..20, body.clone()).prop_map(move |(opcode, key, body)| {
        let extras = extras(opcode);
        let value = if matches!(opcode, 1..=3 | 0x0e | 0x0f | 0x11..=0x13) { body.len() } else { 0 };
        let body: Vec<u8> = body.into_iter().chain([b'k'; 40]).take(key + extras + value).collect();
        (opcode, key, extras, body)
    });
    let any = (any::<u8>(), 0usize..300, 0usize..30, body);
    let one = prop_oneof![12 => right, 1 => any]
        .prop_map(|(opcode, key, extras, body)| binary(opcode, key, extras, &body));
    proptest::collection::vec(one, 1..8).prop_map(|requests| requests.concat())
}

/// Requests, or bytes that look a little like them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(
        prop_oneof![3 => any::<u8>(), 2 => Just(b' '), 1 => Just(b'\n'), 1 => Just(b'\r')],
        0..200,
    );
    let long = ("(get|gat 1|gats x|set|) *", "[a-c ]{1,60}", 1usize..80)
        .prop_map(|(verb, keys, times)| format!("{verb} {}\r\n", keys.repeat(times)).into_bytes());
    proptest::collection::vec(prop_oneof![8 => request(), 1 => noise, 1 => long], 1..6)
        .prop_map(|parts| parts.concat())
}

/// A request and, as text, the command it must turn out to be.
fn meant() -> impl Strategy<Value = (Vec<u8>, String)> {
    let key = "[a-zA-Z0-9:_/-]{1,250}";
    let verb = proptest::sample::select(vec![
        ("set", StoreVerb::Set),
        ("add", StoreVerb::Add),
        ("replace", StoreVerb::Replace),
        ("append", StoreVerb::Append),
        ("prepend", StoreVerb::Prepend),
        ("cas", StoreVerb::Cas),
    ]);
    let value = proptest::collection::vec(any::<u8>(), 0..=MAX_VALUE);
    let numbers = (any::<u32>(), any::<u32>(), any::<u64>());
    let store = (key, verb, numbers, any::<bool>(), value).prop_map(
        |(key, (word, verb), (flags, exptime, cas), noreply, value)| {
            let cas = if verb == StoreVerb::Cas { cas } else { 0 };
            let cas_word = if verb == StoreVerb::Cas { format!(" {cas}") } else { String::new() };
            let tail = if noreply { " noreply" } else { "" };
            let head = format!("{word} {key} {flags} {exptime} {}{cas_word}{tail}\r\n", value.len());
            let (key, exptime) = (key.as_bytes(), Exptime::new(exptime));
            let command = Command::Store(Store { verb, noreply, flags, exptime, cas, key, value: &value });
            ([head.as_bytes(), &value, b"\r\n"].concat(), format!("{command:?}"))
        },
    );
    let small =
        (key, any::<u64>(), any::<u32>(), any::<bool>(), 0..5).prop_map(|(key, delta, time, flag, which)| {
            let tail = if flag { " noreply" } else { "" };
            let exptime = Exptime::new(time);
            let (text, command) = match which {
                0 => (format!("delete {key}{tail}"), Command::Delete { key: key.as_bytes(), noreply: flag }),
                1 => (
                    format!("{} {key} {delta}", if flag { "decr" } else { "incr" }),
                    Command::Arith { key: key.as_bytes(), delta, decrement: flag, noreply: false },
                ),
                2 => (
                    format!("touch {key} {time}{tail}"),
                    Command::Touch { key: key.as_bytes(), exptime, noreply: flag },
                ),
                3 => (
                    format!("{} {key}", if flag { "gets" } else { "get" }),
                    Command::Get(Get { key: key.as_bytes(), touch: None, with_cas: flag, last: true }),
                ),
                _ => (
                    format!("{} {time} {key}", if flag { "gats" } else { "gat" }),
                    Command::Get(Get {
                        key: key.as_bytes(),
                        touch: Some(exptime),
                        with_cas: flag,
                        last: true,
                    }),
                ),
            };
            (format!("{text}\r\n").into_bytes(), format!("{command:?}"))
        });
    prop_oneof![store, small]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn random_splits_change_nothing(bytes in stream(), pieces in proptest::collection::vec(1u8..90, 1..20)) {
        holds_in_pieces(&bytes, MAX_VALUE, &pieces);
    }

    #[test]
    fn byte_by_byte_changes_nothing(bytes in stream()) {
        prop_assert_eq!(trace(&bytes, MAX_VALUE, || 1), whole(&bytes));
    }

    #[test]
    fn splits_of_binary_requests_change_nothing(
        bytes in binary_stream(), pieces in proptest::collection::vec(1u8..60, 1..20),
    ) {
        let want = holds_in_pieces(&bytes, MAX_VALUE, &pieces);
        prop_assert_eq!(&trace(&bytes, MAX_VALUE, || 1), &want);
    }

    #[test]
    fn arbitrary_bytes_in_binary_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1usize..90) {
        let bytes = [vec![0x80], bytes].concat();
        prop_assert_eq!(trace(&bytes, MAX_VALUE, || piece), whole(&bytes));
    }

    #[test]
    fn a_split_at_every_byte_changes_nothing(bytes in request()) {
        let want = whole(&bytes);
        for at in 1..bytes.len() {
            let mut first = Some(at);
            prop_assert_eq!(&trace(&bytes, MAX_VALUE, || first.take().unwrap_or(usize::MAX)), &want, "split at {}", at);
        }
    }

    #[test]
    fn what_was_meant_is_what_is_read(requests in proptest::collection::vec(meant(), 1..5), piece in 1usize..400) {
        let (bytes, want): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let bytes = bytes.concat();
        prop_assert_eq!(&whole(&bytes), &want);
        prop_assert_eq!(&trace(&bytes, MAX_VALUE, || piece), &want);
        prop_assert_eq!(&trace(&bytes, MAX_VALUE, || 1), &want);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..6000), piece in 1usize..3000) {
        prop_assert_eq!(trace(&bytes, MAX_VALUE, || piece), whole(&bytes));
    }
}

#[test]
fn long_retrievals_are_handed_out_key_by_key_in_bounded_memory() {
    let keys: Vec<String> = (0..50_000).map(|i| format!("key{i}")).collect();
    let bytes = format!("gets {}  \r\nmn\r\n", keys.join(" ")).into_bytes();
    for piece in [1, 7, 300, 4096, usize::MAX] {
        let events = trace(&bytes, MAX_VALUE, || piece);
        assert_eq!(events.len(), keys.len() + 2);
        assert!(events[keys.len()] == "GetEnd" && events[keys.len() + 1] == "MetaNoop");
    }
}

#[test]
fn one_bad_key_ends_a_retrieval_once() {
    let long = "k".repeat(KEY_MAX + 1);
    for (line, before) in [
        (format!("get {long}\r\n"), 0),
        (format!("get a {long} b\r\n"), 0),
        (format!("get {}{long} b\r\n", "a ".repeat(LINE_MAX)), LINE_MAX),
        (format!("get {}{}\r\n", "a ".repeat(LINE_MAX), "k".repeat(5000)), LINE_MAX),
    ] {
        let events = trace(format!("{line}mn\r\n").as_bytes(), MAX_VALUE, || 13);
        assert_eq!(events.len(), before + 2, "{line:.20}");
        assert_eq!(events[before], "Malformed { line: BadFormat, noreply: false }");
        assert_eq!(events[before + 1], "MetaNoop");
    }
    let longest = "k".repeat(KEY_MAX);
    assert_eq!(whole(format!("get {longest}\r\nget a {longest}\r\n").as_bytes()).len(), 3);
    let streamed = format!("get {}{longest}\r\n", "a ".repeat(LINE_MAX));
    assert_eq!(whole(streamed.as_bytes()).len(), LINE_MAX + 2);
}

#[test]
fn endless_lines_close_the_connection() {
    for start in ["", "set ", "mg key ", "gat ", "gat 1", "version "] {
        let bytes = format!("{start}{}", "1".repeat(LINE_MAX));
        assert_eq!(whole(bytes.as_bytes()), ["LineTooLong"], "{start}");
        assert_eq!(trace(bytes.as_bytes(), MAX_VALUE, || 100), ["LineTooLong"], "{start}");
    }
    // The newline may still be the last byte that counts.
    let longest = format!("version {}\n", "x".repeat(LINE_MAX - 9));
    assert_eq!(whole(longest.as_bytes()), ["Version"]);
    let spaces = " ".repeat(10_000) + "version\r\n";
    assert_eq!(trace(spaces.as_bytes(), MAX_VALUE, || 1000), ["Version"]);
}

#[test]
fn refused_values_are_swallowed_without_a_buffer() {
    let mut bytes = b"set big 0 0 1000000\r\n".to_vec();
    bytes.resize(bytes.len() + 1_000_000, b'x');
    bytes.extend_from_slice(b"\r\nms big 500000 q\r\n");
    bytes.resize(bytes.len() + 500_000, b'\n');
    bytes.extend_from_slice(b"\r\nms big 3 !\r\nget\r\nmn\r\n");
    let events = trace(&bytes, MAX_VALUE, || 777);
    assert_eq!(events.len(), 4);
    assert!(events[0].starts_with("TooLarge") && events[1].starts_with("TooLarge"));
    assert!(events[2].contains("InvalidFlag") && events[3] == "MetaNoop");
}

#[test]
fn a_pipeline_of_a_hundred_thousand_commands() {
    let mut bytes = Vec::new();
    for i in 0..50_000 {
        bytes.extend_from_slice(format!("set key{i} {i} 0 5 noreply\r\nvalue\r\nget key{i}\r\n").as_bytes());
    }
    let mut parser = Parser::new(MAX_VALUE);
    let (mut at, mut commands) = (0, 0u32);
    while let Step::Command { command, consumed } = parser.next(&bytes[at..]) {
        let i = commands / 2;
        match command {
            Command::Store(s) => {
                assert!(commands % 2 == 0 && s.flags == i && s.value == b"value" && s.noreply)
            }
            Command::Get(g) => assert!(commands % 2 == 1 && g.last && g.key == format!("key{i}").as_bytes()),
            other => panic!("{other:?}"),
        }
        commands += 1;
        at += consumed;
    }
    assert_eq!((commands, at), (100_000, bytes.len()));
}

#[test]
fn the_first_byte_of_a_connection_says_which_protocol_it_speaks() {
    assert!(whole(b"\x80\0\0\0").is_empty());
    assert_eq!(whole(&[binary(0x0b, 0, 0, b""), b"mn\r\n".to_vec()].concat()).last().unwrap(), "NotBinary");
    assert_eq!(whole(b"mn\r\n\x80\r\n").len(), 2);
    assert_eq!(whole(b"GET / HTTP/1.1\r\nHost: x\r\n"), ["Http"]);
}

#[test]
fn nothing_and_half_a_request_mean_nothing_yet() {
    assert!(whole(b"").is_empty() && whole(b"get a").is_empty() && whole(b"set a 0 0 1\r\nx\r").is_empty());
}
