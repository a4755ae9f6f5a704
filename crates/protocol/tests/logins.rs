//! Connections whose clients log in: what is handed out before they have, and that splits make no difference.

mod trace;

use proptest::prelude::*;
use proptest::sample::select;
use protocol::memcache::binary::{HEADER_LEN, REQUEST_MAGIC, opcode};
use protocol::memcache::{Entry, LOGIN_FAILURES_MAX, LOGIN_MAX, Parser, Protocol, Step};
use trace::{holds_behind, is_sound_before_login, trace_by};

const MAX_VALUE: usize = 64;

fn locked(protocol: Protocol) -> Entry {
    Entry { protocol, has_login: true }
}

fn events(protocol: Protocol, bytes: &[u8]) -> Vec<String> {
    trace_by(Parser::entered(locked(protocol), MAX_VALUE), bytes, || usize::MAX)
}

/// A binary request.
fn frame(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_LEN];
    (header[0], header[1]) = (REQUEST_MAGIC, opcode);
    header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    header[8..12].copy_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
    [&header[..], key, value].concat()
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let login = ("[ab ]{0,8}", select(vec!["\r\n", "\n", "xx"]), select(vec!["", " noreply", " 1 2"]));
    let login = login.prop_map(|(login, end, more)| {
        format!("set x 0 0 {}{more}\r\n{login}{end}", login.len()).into_bytes()
    });
    let large = (LOGIN_MAX - 2..LOGIN_MAX + 3)
        .prop_map(|len| format!("set x 0 0 {len}\r\na {}\r\n", "a".repeat(len - 2)).into_bytes());
    let other =
        select(vec!["get k\r\n", "set\r\n", "quit\r\n", "\r\n", "mn\r\n", "set x 0 0 -1\r\n", "stats\r\n"]);
    prop_oneof![6 => login, 1 => large, 4 => other.prop_map(|line| line.as_bytes().to_vec())]
}

fn binary() -> impl Strategy<Value = Vec<u8>> {
    use opcode::*;
    let plain = prop_oneof![
        4 => select(vec![&b"\0a\0a"[..], b"\0a\0b", b"a\0a\0a", b"b\0a\0a", b"", b"\0\0", b"\0a\0a\0"]).prop_map(Vec::from),
        1 => proptest::collection::vec(any::<u8>(), LOGIN_MAX - 1..LOGIN_MAX + 3),
    ];
    let mechanism = select(vec!["PLAIN", "plain", "PLAIN", "CRAM-MD5", "x"]);
    let login = (select(vec![SASL_AUTH, SASL_AUTH, SASL_STEP]), mechanism, plain)
        .prop_map(|(opcode, mechanism, plain)| frame(opcode, mechanism.as_bytes(), &plain));
    let other = (select(vec![SASL_LIST, VERSION, NOOP, GET, 0x7f]), select(vec![&b""[..], b"k"]))
        .prop_map(|(opcode, key)| frame(opcode, key, b""));
    prop_oneof![5 => login, 1 => other]
}

proptest! {
    #[test]
    fn splits_make_no_difference(
        texts in proptest::collection::vec(text(), 0..12),
        frames in proptest::collection::vec(binary(), 0..12),
        pieces in proptest::collection::vec(1u8..60, 1..5),
    ) {
        for (protocol, bytes) in [
            (Protocol::Any, texts.concat()),
            (Protocol::Text, texts.concat()),
            (Protocol::Any, frames.concat()),
            (Protocol::Binary, frames.concat()),
            (Protocol::Text, frames.concat()),
            (Protocol::Binary, texts.concat()),
        ] {
            is_sound_before_login(&holds_behind(locked(protocol), &bytes, MAX_VALUE, &pieces));
        }
    }
}

#[test]
fn a_text_client_is_let_in_by_its_first_set() {
    let said =
        events(Protocol::Any, b"get k\r\nset x 0 0 3\r\na b\r\nset x 9 9 3 noreply\r\na a\r\nget k\r\n");
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(said[0].contains("Unauthenticated") && said[1].contains("LoginFailed"), "{said:#?}");
    assert!(said[2].contains("Stored") && said[3].starts_with("Get("), "{said:#?}");
    // Another protocol than it began with is not spoken.
    let said = events(Protocol::Text, &frame(opcode::SASL_AUTH, b"PLAIN", b"\0a\0a"));
    assert!(said.is_empty(), "a line without an end: {said:?}");
}

#[test]
fn a_binary_client_is_let_in_by_plain_and_out_again() {
    let auth = |value: &[u8]| frame(opcode::SASL_AUTH, b"PLAIN", value);
    let get = frame(opcode::GET, b"k", b"");
    let said = events(Protocol::Any, &[auth(b"\0a\0b"), auth(b"\0a\0a"), get.clone()].concat());
    assert!(said[0].contains("LoginFailed") && said[1].contains("Authenticated"), "{said:#?}");
    assert!(said[2].starts_with("MetaGet("), "{said:#?}");
    let two_steps = [auth(b""), frame(opcode::SASL_STEP, b"PLAIN", b"\0a\0a"), get.clone()].concat();
    let said = events(Protocol::Binary, &two_steps);
    assert!(said[0].contains("Continues") && said[2].starts_with("MetaGet("), "{said:#?}");
    for out in [auth(b""), auth(b"\0a\0b"), frame(opcode::SASL_STEP, b"PLAIN", b"\0a\0a")] {
        let said = events(Protocol::Binary, &[auth(b"\0a\0a"), out, get.clone(), get.clone()].concat());
        assert!(said[2].contains("Unauthenticated") && said[3] == "Refused" && said.len() == 4, "{said:#?}");
    }
}

#[test]
fn too_many_logins_that_fail_are_the_last() {
    let tries = LOGIN_FAILURES_MAX as usize + 1;
    for (protocol, login) in [
        (Protocol::Text, b"set x 0 0 3\r\na b\r\n".to_vec()),
        (Protocol::Binary, frame(opcode::SASL_AUTH, b"PLAIN", b"\0a\0b")),
        (Protocol::Binary, frame(opcode::SASL_AUTH, b"PLAIN", &[b'x'; LOGIN_MAX + 1])),
    ] {
        let said = events(protocol, &login.repeat(tries));
        assert_eq!((said.len(), said.last().map(String::as_str)), (tries, Some("LoginsFailed")), "{said:#?}");
    }
}

#[test]
fn what_waits_for_a_login_needs_little_memory() {
    let mut parser = Parser::entered(locked(Protocol::Any), 1 << 20);
    let head = format!("set x 0 0 {}\r\n", u32::MAX);
    assert!(matches!(parser.next(head.as_bytes()), Step::Command { consumed, .. } if consumed == head.len()));
    // Its bytes are dropped as they come.
    assert_eq!(parser.next(&[b'x'; 100]), Step::Skip { consumed: 100 });
    let mut parser = Parser::entered(locked(Protocol::Any), 1 << 20);
    let set = frame(opcode::SET, b"k", &vec![b'x'; 1 << 20]);
    assert!(matches!(parser.next(&set[..HEADER_LEN]), Step::Command { consumed: HEADER_LEN, .. }));
    assert!(matches!(parser.next(&set[HEADER_LEN..]), Step::Close { .. }));
}
