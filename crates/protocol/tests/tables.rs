//! Every command and every refusal, one row each: the line and what it means, without a memcached to compare with.

mod server;

use protocol::memcache::emit::{MetaDebug, MetaHit, SMALL_BOUND, meta_bound, stat_bound, value_bound};
use protocol::memcache::{Command, KEY_MAX, Line, Parser, Reply, Step};
use server::Server;

/// The first command of `bytes`.
fn first(bytes: &[u8]) -> Command<'_> {
    match Parser::new(100).next(bytes) {
        Step::Command { command, .. } => command,
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

#[test]
fn lines_mean_what_they_say() {
    for (bytes, want) in [
        ("get a\r\n", "Get(Get { key: [97], touch: None, with_cas: false, last: true })"),
        ("gets a b\r\n", "Get(Get { key: [97], touch: None, with_cas: true, last: false })"),
        ("gat 10 a\n", "Get(Get { key: [97], touch: Some(Exptime(10)), with_cas: false, last: true })"),
        (
            "gats -1 a\r\n",
            "Get(Get { key: [97], touch: Some(Exptime(4294967295)), with_cas: true, last: true })",
        ),
        ("gat 10\r\n", "GetEnd"),
        (
            "cas a 1 2 1 3 noreply\r\nb\r\n",
            "Store(Store { verb: Cas, noreply: true, flags: 1, exptime: Exptime(2), cas: 3, key: [97], value: [98] })",
        ),
        (
            "prepend a 1 2 0\r\n\r\n",
            "Store(Store { verb: Prepend, noreply: false, flags: 1, exptime: Exptime(2), cas: 0, key: [97], value: [] })",
        ),
        ("set a 0 0 1\r\nbxx", "Malformed { line: BadDataChunk, noreply: false }"),
        ("delete a 0 noreply\r\n", "Delete { key: [97], noreply: true }"),
        ("decr a 5\r\n", "Arith { key: [97], delta: 5, decrement: true, noreply: false }"),
        ("touch a 5 noreply\r\n", "Touch { key: [97], exptime: Exptime(5), noreply: true }"),
        ("flush_all 7\r\n", "FlushAll { delay: Exptime(7), noreply: false, header: [] }"),
        ("verbosity 3 noreply\r\n", "Verbosity { level: 3, noreply: true }"),
        ("cache_memlimit 64\r\n", "CacheMemlimit { mib: 64, noreply: false }"),
        ("lru_crawler metadump all\r\n", "Dump(Dump { classes: [97, 108, 108], as_meta_get: false })"),
        ("stats\r\n", "Stats(General)"),
        ("stats conns\r\n", "Stats(Conns)"),
        ("stats detail dump\r\n", "Stats(DetailDump)"),
        ("stats cachedump 3 10\r\n", "Stats(Cachedump { class: 3, limit: 10 })"),
        ("stats a\r\n", "Stats(Other([97]))"),
        ("shutdown graceful\r\n", "Shutdown(Graceful)"),
        ("lru mode flat noreply\r\n", "Answered { line: Ok, noreply: true }"),
        ("quit\r\n", "Quit"),
        ("mn\r\n", "MetaNoop"),
    ] {
        assert_eq!(format!("{:?}", first(bytes.as_bytes())), want, "{bytes:?}");
    }
}

#[test]
fn meta_numbers_are_there_when_asked_for() {
    let Command::MetaGet(get) = first(b"mg a v T1 N2 R-1 E4\r\n") else { panic!("mg") };
    let times = (get.ttl(), get.vivify(), get.recache());
    assert_eq!(format!("{times:?}"), "(Some(Exptime(1)), Some(Exptime(2)), Some(Exptime(4294967295)))");
    assert_eq!((get.version(), get.meta.flags_text), (Some(4), &b"v T1 N2 R-1 E4"[..]));
    let Command::MetaGet(bare) = first(b"mg a\r\n") else { panic!("mg") };
    assert_eq!((bare.ttl(), bare.vivify(), bare.recache(), bare.version()), (None, None, None, None));

    let Command::MetaSet(set) = first(b"ms a 1 C0 F7 MA\r\nx\r\n") else { panic!("ms") };
    assert_eq!((set.compare(), set.client_flags, set.value), (Some(0), 7, &b"x"[..]));
    let Command::MetaArith(arith) = first(b"ma a MD D5 J6 N0\r\n") else { panic!("ma") };
    assert!(arith.decrement && arith.delta == 5 && arith.initial == 6 && arith.vivify().is_some());
    let Command::MetaDelete(delete) = first(b"md a C9 I x\r\n") else { panic!("md") };
    assert_eq!(
        (delete.compare(), delete.meta.flags.has(b'I'), delete.meta.flags.has(b'x')),
        (Some(9), true, true)
    );
}

#[test]
fn binary_keys_are_decoded_where_the_caller_wants_them() {
    let Command::MetaGet(get) = first(b"mg AP8K b k\r\n") else { panic!("mg") };
    let (mut scratch, mut slot) = ([0; KEY_MAX], [9; 5]);
    assert_eq!(get.meta.key(&mut scratch), [0, 255, 10]);
    assert_eq!((get.meta.write_key(&mut slot), slot), (3, [0, 255, 10, 9, 9]));
    assert_eq!((get.meta.key_len(), get.meta.key_text), (3, &b"AP8K"[..]));
}

#[test]
fn refusals_say_what_memcached_says() {
    for (bytes, line) in [
        ("\r\n", Line::Error),
        ("get\r\n", Line::Error),
        ("set a 0 0\r\n", Line::Error),
        ("set a 0 0 1 noreply x\r\n", Line::Error),
        ("set a b 0 1\r\n", Line::BadFormat),
        ("set a 0 0 -1\r\n", Line::BadFormat),
        ("set a 0 0 2147483646\r\n", Line::BadFormat),
        ("delete a 1\r\n", Line::BadDelete),
        ("incr a x\r\n", Line::InvalidDelta),
        ("touch a x\r\n", Line::InvalidExptime),
        ("gat x a\r\n", Line::InvalidExptime),
        ("flush_all x\r\n", Line::InvalidExptime),
        ("verbosity x\r\n", Line::BadFormat),
        ("cache_memlimit 7\r\n", Line::MemlimitTooSmall),
        ("stats detail\r\n", Line::StatsDetailUsage),
        ("stats cachedump 64 1\r\n", Line::IllegalSlab),
        ("lru_crawler sleep 1000001\r\n", Line::SleepTooLong),
        ("mg a v v\r\n", Line::DuplicateFlag),
        ("mg a \u{80}\r\n", Line::DuplicateFlag),
        ("mg a !\r\n", Line::InvalidFlag),
        ("mg a x\r\n", Line::InvalidFlag),
        ("mg a Tx\r\n", Line::BadToken),
        ("mg a Fx\r\n", Line::BadFormat),
        ("mg a b\r\n", Line::BadBase64),
        ("mg a MXX\r\n", Line::ModeLength),
        ("mg a Jx\r\n", Line::InvalidInitial),
        ("mg a Dx\r\n", Line::InvalidMetaDelta),
        ("ms a\r\n", Line::BadFormat),
        ("ms a 1 MZ\r\n", Line::SetMode),
        ("ma a MZ\r\n", Line::ArithMode),
        ("md a v v\r\n", Line::InvalidOrDuplicateFlag),
        ("ma a !\r\n", Line::InvalidOrDuplicateFlag),
        ("me a b\r\n", Line::BadFormat),
        ("mg a a b c d e f g h i j k l m n o p q r\r\n", Line::FlagsAreTooLong),
        ("md a a b c d e f g h i j k l m n o p q r\r\n", Line::FlagsTooLong),
        ("mg a O01234567890123456789012345678901\r\n", Line::OpaqueTooLong),
    ] {
        assert_eq!(first(bytes.as_bytes()), Command::Malformed { line, noreply: false }, "{bytes:?}");
    }
    let quiet = Command::Malformed { line: Line::BadFormat, noreply: true };
    assert_eq!(first(b"set a b 0 1 noreply\r\n"), quiet);
    assert!(matches!(first(b"set a 0 0 101\r\n"), Command::TooLarge(refused) if refused.drop_old));
    assert!(matches!(first(b"add a 0 0 101 noreply\r\n"), Command::TooLarge(refused) if !refused.drop_old));
}

#[test]
fn a_conversation_of_every_command_to_the_letter() {
    let requests = "set a 5 0 1\r\nx\r\nget a b\r\nappend a 0 0 1\r\ny\r\nmg a v s f k O1\r\nmg zz k\r\nmg zz q\r\n\
        ms n 1 c\r\n5\r\nma n v D3\r\nincr n 2\r\nmd a I\r\nmg a v\r\nmg a\r\nmd a q\r\nmd a k O2\r\nmn\r\n\
        delete n noreply\r\ntouch n 5\r\nms Zm9v 1 b k\r\nz\r\nmg Zm9v b k v\r\nget foo\r\nversion\r\nquit\r\nmn\r\n";
    let replies = "STORED\r\nVALUE a 5 1\r\nx\r\nEND\r\nSTORED\r\nVA 2 s2 f5 ka O1\r\nxy\r\nEN kzz\r\n\
        HD c103\r\nVA 1\r\n8\r\n10\r\nHD\r\nVA 2 X W\r\nxy\r\nHD Z X\r\nNF ka O2\r\nMN\r\n\
        NOT_FOUND\r\nHD kZm9v b\r\nVA 1 kZm9v b\r\nz\r\nVALUE foo 0 1\r\nz\r\nEND\r\nVERSION 1.6.18\r\n";
    let answer = Server::new(1_800_000_000).converse(requests.as_bytes());
    assert_eq!(String::from_utf8_lossy(&answer.bytes), replies);
    assert!(answer.closed);
}

#[test]
fn bounds_hold_for_the_longest_replies() {
    let key = [b'k'; KEY_MAX];
    let mut room = vec![0; 4096];
    let mut reply = Reply::new(&mut room);
    reply.value(&key, u32::MAX, Some(u64::MAX), b"value");
    reply.line(Line::End);
    // The bound allows ten digits for the length, of which this value needs one.
    assert_eq!(reply.len(), value_bound(KEY_MAX, 5) - 9);

    let request = format!("mg {} s t c f l h k v b O{}\r\n", "AAAA".repeat(62), "o".repeat(31));
    let Command::MetaGet(get) = first(request.as_bytes()) else { panic!("mg") };
    let most = u32::MAX;
    let hit = MetaHit {
        client_flags: most,
        version: u64::MAX,
        ttl: Some(most),
        ttl_before: Some(most),
        idle_s: most,
        fetched: true,
        won: true,
        stale: true,
        win_sent: true,
    };
    let mut reply = Reply::new(&mut room);
    reply.meta_hit(&get.meta, &hit, b"value");
    let slack = meta_bound(248, 5) - reply.len();
    assert_eq!(slack, 18, "two lengths of nine spare digits");
    assert!(reply.len() <= SMALL_BOUND);

    let mut reply = Reply::new(&mut room);
    let item = MetaDebug {
        ttl: Some(most),
        idle_s: most,
        version: u64::MAX,
        fetched: true,
        class: most,
        size: u64::MAX,
    };
    reply.meta_debug(&get.meta, &item);
    assert!(reply.len() <= meta_bound(248, 0));

    let mut reply = Reply::new(&mut room);
    reply.stat_number("name", u64::MAX);
    assert_eq!(reply.len(), stat_bound(4, 0));
}

#[test]
#[should_panic(expected = "a reply outgrew the room reserved for it")]
fn writing_past_the_room_is_our_own_mistake() {
    Reply::new(&mut [0; 3]).line(Line::Ok);
}
