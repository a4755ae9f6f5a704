//! Headers at the edges of what memcached takes, and the frames that answer them. Random ones: `tests/splits.rs`; beside memcached: `tests/differential` of
//! `millrace`.

use super::super::emit::{MetaCounted, MetaDeleted, MetaHit, MetaStored, Reply, SMALL_BOUND};
use super::super::parse::{CloseReason, Parser, Step};
use super::super::{Command, Exptime, KEY_MAX, TooLarge};
use super::opcode::*;
use super::*;

const MAX_VALUE: usize = 64;
const OPAQUE: [u8; 4] = *b"opaq";

/// A request with these lengths in its header, whatever follows it.
fn request(opcode: u8, (key, extras, len): (usize, usize, usize), body: &[u8], cas: u64) -> Vec<u8> {
    let mut header = [0; HEADER_LEN];
    (header[0], header[1]) = (REQUEST_MAGIC, opcode);
    header[2..4].copy_from_slice(&u16::try_from(key).expect("it fits a header").to_be_bytes());
    header[4] = u8::try_from(extras).expect("it fits a header");
    header[8..12].copy_from_slice(&u32::try_from(len).expect("it fits a header").to_be_bytes());
    header[12..16].copy_from_slice(&OPAQUE);
    header[16..].copy_from_slice(&cas.to_be_bytes());
    [&header[..], body].concat()
}

/// A request whose header is true.
fn whole(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = [extras, key, value].concat();
    request(opcode, (key.len(), extras.len(), body.len()), &body, cas)
}

/// What the parser makes of `bytes` as they arrive one by one: each command, and after how many bytes it was known; and why it closed.
fn byte_by_byte(bytes: &[u8]) -> (Vec<(String, usize)>, Option<CloseReason>) {
    let (mut parser, mut commands) = (Parser::new(MAX_VALUE), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match parser.next(&bytes[start..end]) {
            Step::Command { command, consumed } => {
                commands.push((format!("{command:?}"), end));
                start += consumed;
            }
            Step::Skip { consumed } => start += consumed,
            Step::Login { .. } => unreachable!("nobody logs in here"),
            Step::Close { reason } => return (commands, Some(reason)),
            Step::Incomplete { wants } => {
                assert!(wants > end - start && wants <= parser.buffer_bound(), "{wants}");
                if end == bytes.len() {
                    return (commands, None);
                }
                end += 1;
            }
        }
    }
}

/// The command that is the whole of `bytes`.
fn only(bytes: &[u8]) -> Command<'_> {
    match Parser::new(MAX_VALUE).next(bytes) {
        Step::Command { command, consumed } if consumed == bytes.len() => command,
        other => panic!("{other:?}"),
    }
}

/// Asserts that a request with these lengths is refused with `line` as soon as its header is there, and the connection closes.
fn refused(opcode: u8, lengths: (usize, usize, usize), line: Line) {
    let bytes = request(opcode, lengths, &[b'k'; 400], 0);
    let mut parser = Parser::new(MAX_VALUE);
    assert_eq!(parser.next(&bytes[..HEADER_LEN - 1]), Step::Incomplete { wants: HEADER_LEN });
    let Step::Command { command: Command::Binary(binary), consumed } = parser.next(&bytes[..HEADER_LEN])
    else {
        panic!("{opcode:#x} {lengths:?} is not refused");
    };
    assert_eq!((binary.asks, consumed), (Asks::Refused(line), HEADER_LEN), "{opcode:#x} {lengths:?}");
    assert_eq!(parser.closed(), Some(CloseReason::Refused));
    assert_eq!(parser.next(&bytes[HEADER_LEN..]), Step::Close { reason: CloseReason::Refused });
}

#[test]
fn a_body_shorter_than_its_key_and_extras_is_refused_at_its_header() {
    for opcode in 0..=u8::MAX {
        for lengths in [(1, 0, 0), (5, 0, 4), (1, 8, 8), (0, 4, 3), (usize::from(u16::MAX), 255, 65_789)] {
            refused(opcode, lengths, Line::Error);
        }
    }
}

#[test]
fn lengths_that_an_opcode_does_not_have_are_refused_at_its_header() {
    let with_key = [
        (vec![GET, GETQ, GETK, GETKQ, DELETE, DELETEQ], 0),
        (vec![TOUCH, GAT, GATQ, GATK, GATKQ], 4),
        (vec![SET, SETQ, ADD, ADDQ, REPLACE, REPLACEQ], 8),
        (vec![APPEND, APPENDQ, PREPEND, PREPENDQ], 0),
        (vec![INCREMENT, INCREMENTQ, DECREMENT, DECREMENTQ], 20),
    ];
    for (opcodes, extras) in with_key {
        for opcode in opcodes {
            refused(opcode, (0, extras, extras), Line::BadFormat);
            refused(opcode, (KEY_MAX + 1, extras, KEY_MAX + 1 + extras), Line::BadFormat);
            refused(opcode, (3, extras + 1, extras + 4), Line::BadFormat);
            if extras > 0 {
                refused(opcode, (3, extras - 1, extras + 2), Line::BadFormat);
            }
        }
    }
    for opcode in [GET, GETKQ, DELETE, INCREMENT, DECREMENTQ] {
        let extras = if matches!(opcode, INCREMENT | DECREMENTQ) { 20 } else { 0 };
        refused(opcode, (3, extras, extras + 4), Line::BadFormat);
    }
    for opcode in [NOOP, VERSION, QUIT, QUITQ, SASL_LIST] {
        for lengths in [(1, 0, 1), (0, 1, 1), (0, 0, 1)] {
            refused(opcode, lengths, Line::BadFormat);
        }
    }
    for lengths in [(1, 0, 1), (0, 8, 8), (0, 0, 1), (0, 4, 5)] {
        refused(FLUSH, lengths, Line::BadFormat);
        refused(FLUSHQ, lengths, Line::BadFormat);
    }
    refused(STAT, (0, 4, 4), Line::BadFormat);
    refused(SASL_AUTH, (0, 0, 4), Line::BadFormat);
}

#[test]
fn every_request_is_known_with_its_last_byte_and_the_next_begins_behind_it() {
    let (exptime, flags_and_exptime, count) = ([0, 0, 0, 9], [0, 0, 0, 7, 0, 0, 0, 9], [1; 20]);
    let longest = [b'k'; KEY_MAX];
    for opcode in 0..=0x24 {
        let (extras, key, value): (&[u8], &[u8], &[u8]) = match opcode {
            GET | GETQ | GETK | GETKQ | DELETE | DELETEQ => (b"", &longest, b""),
            TOUCH | GAT | GATQ | GATK | GATKQ => (&exptime, b"k", b""),
            SET | SETQ | ADD | ADDQ | REPLACE | REPLACEQ => {
                (&flags_and_exptime, &longest, &[b'v'; MAX_VALUE])
            }
            APPEND | APPENDQ | PREPEND | PREPENDQ => (b"", b"\0 \r\n", b"\r\n"),
            INCREMENT | INCREMENTQ | DECREMENT | DECREMENTQ => (&count, b"k", b""),
            FLUSH | FLUSHQ => (&exptime, b"", b""),
            STAT => (b"", b"items", b""),
            SASL_AUTH | SASL_STEP | QUIT | QUITQ => continue,
            _ => (b"", b"", b""),
        };
        let one = whole(opcode, extras, key, value, 5);
        let (commands, closed) = byte_by_byte(&[&one[..], &one].concat());
        let known: Vec<usize> = commands.iter().map(|(_, end)| *end).collect();
        assert_eq!((known, closed), (vec![one.len(), 2 * one.len()], None), "{opcode:#x}");
        assert_eq!(commands[0].0, commands[1].0, "{opcode:#x}");
        assert_eq!(only(&one).asked(), Some(Asked { opcode, opaque: OPAQUE }));
    }
}

#[test]
fn what_nobody_wants_of_a_request_is_swallowed() {
    let noop = whole(NOOP, b"", b"", b"", 0);
    let unwanted = [b'x'; MAX_VALUE + 1];
    let cases = [
        // How many bytes there must be until it is answered, and the request.
        (HEADER_LEN + 9, whole(SET, &[0; 8], b"k", &unwanted, 0)),
        (HEADER_LEN + 9, whole(ADDQ, &[0; 8], b"k", &unwanted, 0)),
        (HEADER_LEN + 1, whole(APPEND, b"", b"k", &unwanted, 0)),
        (HEADER_LEN + 5, whole(TOUCH, &[0; 4], b"k", &unwanted, 0)),
        (HEADER_LEN + 5, whole(GAT, &[0; 4], b"k", &unwanted, 0)),
        (HEADER_LEN + 5, whole(STAT, b"", b"items", &unwanted, 0)),
        (HEADER_LEN, whole(SASL_AUTH, b"", b"PLAIN", &unwanted, 0)),
        (HEADER_LEN, whole(0x7f, &[0; 3], b"k", &unwanted, 0)),
    ];
    for (answered, bytes) in cases {
        let (commands, closed) = byte_by_byte(&[&bytes[..], &noop].concat());
        let known: Vec<usize> = commands.iter().map(|(_, end)| *end).collect();
        assert_eq!((known, closed), (vec![answered, bytes.len() + HEADER_LEN], None), "{}", bytes[1]);
        assert!(commands[1].0.contains("Noop"), "{}", commands[1].0);
    }
    for (opcode, drops) in [(SET, true), (SETQ, true), (ADD, false), (REPLACE, false)] {
        let bytes = whole(opcode, &[0; 8], b"key", &unwanted, 0);
        match Parser::new(MAX_VALUE).next(&bytes) {
            Step::Command { command: Command::TooLarge(TooLarge { meta, drop_old, noreply }), .. } => {
                assert_eq!((meta.key_text, drop_old, noreply), (&b"key"[..], drops, false));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_longest_body_of_a_header_needs_no_more_memory_than_its_key() {
    let bytes = request(SET, (3, 8, u32::MAX as usize), b"\0\0\0\0\0\0\0\0key", 0);
    let mut parser = Parser::new(MAX_VALUE);
    assert!(matches!(parser.next(&bytes), Step::Command { command: Command::TooLarge(_), .. }));
    let mut left = u64::from(u32::MAX) - 11;
    let chunk = vec![b'x'; 1 << 20];
    while left > 0 {
        let len = left.min(chunk.len() as u64);
        assert_eq!(parser.next(&chunk[..len as usize]), Step::Skip { consumed: len as usize });
        left -= len;
    }
    assert!(parser.is_between_requests());
}

#[test]
fn numbers_of_extras_are_what_a_command_says() {
    let set = whole(SET, &[0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 9], b"k", b"", 0);
    let Command::MetaSet(set) = only(&set) else { panic!("a set") };
    assert_eq!((set.client_flags, set.ttl(), set.compare()), (0xdead_beef, Some(Exptime::new(9)), None));
    assert!(set.value.is_empty());
    let cas = whole(ADD, &[0; 8], b"k", b"v", u64::MAX);
    let Command::MetaSet(cas) = only(&cas) else { panic!("a set") };
    // With a version there must be an item: it is no `add` any more.
    assert_eq!((cas.mode, cas.compare()), (super::super::SetMode::Set, Some(u64::MAX)));
    let extras =
        |exptime: u32| [&7u64.to_be_bytes()[..], &8u64.to_be_bytes(), &exptime.to_be_bytes()].concat();
    let count = whole(DECREMENT, &extras(9), b"k", b"", 0);
    let Command::MetaArith(count) = only(&count) else { panic!("a count") };
    assert_eq!((count.delta, count.initial, count.decrement), (7, 8, true));
    assert_eq!(count.birth(), Some(Exptime::new(9)));
    let count = whole(INCREMENT, &extras(u32::MAX), b"k", b"", 0);
    let Command::MetaArith(count) = only(&count) else { panic!("a count") };
    assert_eq!((count.birth(), count.decrement), (None, false), "all ones make no item");
    // For others all ones are a moment, and not the past.
    let touch = whole(TOUCH, &[0xff; 4], b"k", b"", 0);
    let Command::MetaGet(touch) = only(&touch) else { panic!("a touch") };
    assert_eq!((touch.ttl(), touch.meta.flags.has(b'v')), (Some(Exptime::new(u32::MAX - 1)), false));
}

#[test]
fn quit_closes_after_its_command_and_text_in_between_closes_at_once() {
    for opcode in [QUIT, QUITQ] {
        let mut parser = Parser::new(MAX_VALUE);
        let bytes = whole(opcode, b"", b"", b"", 0);
        assert!(matches!(
            parser.next(&bytes),
            Step::Command { command: Command::Binary(_), consumed: HEADER_LEN }
        ));
        assert_eq!(parser.closed(), Some(CloseReason::Quit));
        assert_eq!(parser.next(&bytes), Step::Close { reason: CloseReason::Quit });
    }
    let noop = whole(NOOP, b"", b"", b"", 0);
    let (commands, closed) = byte_by_byte(&[&noop[..], b"get k\r\n"].concat());
    assert_eq!((commands.len(), closed), (1, Some(CloseReason::NotBinary)));
}

/// Status, extras, key, value and version.
type Frame = (u16, Vec<u8>, Vec<u8>, Vec<u8>, u64);

/// The frame that `write` writes to a request with this opcode.
fn frame(opcode: u8, write: impl FnOnce(&mut Reply<'_>)) -> Option<Frame> {
    let mut room = [0; SMALL_BOUND];
    let mut reply = Reply::to(&mut room, Some(Asked { opcode, opaque: OPAQUE }));
    write(&mut reply);
    let (header, body) = reply.written().split_first_chunk::<HEADER_LEN>()?;
    assert_eq!((header[0], header[1], header[5]), (REPLY_MAGIC, opcode, 0));
    assert_eq!(header[12..16], OPAQUE);
    assert_eq!(header[8..12], u32::try_from(body.len()).expect("short").to_be_bytes());
    let (extras, rest) = body.split_at(usize::from(header[4]));
    let (key, value) = rest.split_at(usize::from(u16::from_be_bytes([header[2], header[3]])));
    let cas = u64::from_be_bytes(header[16..].try_into().expect("8 bytes"));
    Some((u16::from_be_bytes([header[6], header[7]]), extras.into(), key.into(), value.into(), cas))
}

#[test]
fn hits_and_misses_have_the_key_where_it_was_asked_for() {
    let key = [b'k'; KEY_MAX];
    let hit = MetaHit { client_flags: 0x0102_0304, version: 77, ..MetaHit::default() };
    for (opcode, has_key, has_value, is_quiet) in [
        (GET, false, true, false),
        (GETQ, false, true, true),
        (GETK, true, true, false),
        (GETKQ, true, true, true),
        (TOUCH, false, false, false),
        (GAT, false, true, false),
        (GATQ, false, true, true),
        (GATK, true, true, false),
        (GATKQ, true, true, true),
    ] {
        let extras: &[u8] = if opcode < TOUCH { b"" } else { &[0; 4] };
        let bytes = whole(opcode, extras, &key, b"", 0);
        let Command::MetaGet(get) = only(&bytes) else { panic!("a retrieval") };
        let shown = if has_key { key.to_vec() } else { Vec::new() };
        let value = if has_value { b"value".to_vec() } else { Vec::new() };
        let wanted = (0, vec![1, 2, 3, 4], shown.clone(), value, 77);
        assert_eq!(
            frame(opcode, |reply| reply.meta_hit(&get.meta, &hit, b"value")),
            Some(wanted),
            "{opcode:#x}"
        );
        let text = if has_key { Vec::new() } else { b"Not found".to_vec() };
        let wanted = (!is_quiet).then_some((1, Vec::new(), shown, text, 0));
        assert_eq!(frame(opcode, |reply| reply.meta_miss(&get.meta)), wanted, "{opcode:#x}");
    }
}

#[test]
fn quiet_requests_are_told_of_what_is_not_as_expected_only() {
    let status = |opcode, write: &dyn Fn(&mut Reply<'_>)| frame(opcode, write).map(|frame| frame.0);
    let bytes = whole(SETQ, &[0; 8], b"k", b"v", 0);
    let Command::MetaSet(set) = only(&bytes) else { panic!("a set") };
    let meta = &set.meta;
    let counted =
        MetaCounted::Counted { number: 258, version: 6, ttl: None, ttl_before: None, created: true };
    for (loud, quiet, not_stored) in
        [(SET, SETQ, 5), (ADD, ADDQ, 2), (REPLACE, REPLACEQ, 1), (APPEND, APPENDQ, 5), (PREPEND, PREPENDQ, 5)]
    {
        let stored = |reply: &mut Reply<'_>| reply.meta_stored(meta, MetaStored::Stored { version: 6 }, 1);
        assert_eq!(frame(loud, stored), Some((0, Vec::new(), Vec::new(), Vec::new(), 6)));
        assert_eq!(frame(quiet, stored), None);
        for opcode in [loud, quiet] {
            assert_eq!(
                status(opcode, &|reply| reply.meta_stored(meta, MetaStored::NotStored, 1)),
                Some(not_stored)
            );
            assert_eq!(status(opcode, &|reply| reply.meta_stored(meta, MetaStored::Exists, 1)), Some(2));
            assert_eq!(status(opcode, &|reply| reply.meta_stored(meta, MetaStored::NotFound, 1)), Some(1));
        }
    }
    assert_eq!(status(DELETE, &|reply| reply.meta_deleted(meta, MetaDeleted::Deleted)), Some(0));
    assert_eq!(status(DELETEQ, &|reply| reply.meta_deleted(meta, MetaDeleted::Deleted)), None);
    assert_eq!(status(DELETEQ, &|reply| reply.meta_deleted(meta, MetaDeleted::NotFound)), Some(1));
    assert_eq!(status(DELETEQ, &|reply| reply.meta_deleted(meta, MetaDeleted::Exists)), Some(2));
    let number = Some((0, Vec::new(), Vec::new(), 258u64.to_be_bytes().to_vec(), 6));
    assert_eq!(frame(INCREMENT, |reply| reply.meta_counted(meta, counted)), number);
    assert_eq!(frame(INCREMENTQ, |reply| reply.meta_counted(meta, counted)), None);
    assert_eq!(status(DECREMENTQ, &|reply| reply.meta_counted(meta, MetaCounted::NotFound)), Some(1));
}

/// Whatever line a server says, it has a frame that fits where the line fits; only those that say "as expected" have status 0.
#[test]
fn every_line_has_a_frame() {
    let expected =
        [Line::Stored, Line::Deleted, Line::Touched, Line::Ok, Line::End, Line::Reset, Line::MetaNoop];
    for &line in Line::ALL {
        let (status, extras, key, text, cas) = frame(NOOP, |reply| reply.line(line)).expect("it is loud");
        assert_eq!(status == 0, expected.contains(&line), "{line:?} has status {status}");
        assert_eq!(status == 0, text.is_empty(), "{line:?}");
        assert!(extras.is_empty() && key.is_empty() && cas == 0 && !text.ends_with(b"\n"));
    }
}
