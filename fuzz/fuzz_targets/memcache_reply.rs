//! Arbitrary bytes as a memcached server's replies: read the same however they are cut, within bounds, or refused.
//!
//! `cargo +nightly fuzz run memcache_reply`
#![no_main]

mod dress;

use dress::Input;
use libfuzzer_sys::fuzz_target;
use protocol::memcache::client::{Expect, Progress, ReplyReader};

const MAX_VALUE: usize = 1000;

fn expects(input: &mut Input) -> Vec<Expect> {
    let expect = |kind: u8| match kind % 6 {
        0 => Expect::Nothing,
        1 => Expect::Line,
        2 => Expect::Values,
        3 => Expect::Stats,
        4 => Expect::Meta,
        _ => Expect::MetaUntilNoop,
    };
    (0..input.byte() % 8).map(|_| expect(input.byte())).collect()
}

/// All replies as text, and how it ended; bytes come `at_once` at a time.
fn read(expects: &[Expect], bytes: &[u8], at_once: usize) -> (Vec<String>, String) {
    let mut reader = ReplyReader::new(MAX_VALUE);
    expects.iter().for_each(|expect| reader.expect(*expect));
    let (mut from, mut upto, mut said) = (0, 0, Vec::new());
    loop {
        match reader.next(&bytes[from..upto]) {
            Ok(Progress::Reply { reply, used, last }) => {
                said.push(format!("{reply:?} {last}"));
                assert!(used <= upto - from);
                from += used;
                // What takes no bytes comes once for each that is owed.
                assert!(said.len() <= bytes.len() + expects.len());
            }
            Ok(Progress::Incomplete { need }) => {
                assert!(need > upto - from, "{need} are here");
                if upto == bytes.len() {
                    return (said, format!("{} left", bytes.len() - from));
                }
                upto = (upto + at_once).min(bytes.len());
            }
            Err(why) => return (said, format!("{why:?}")),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (expects, at_once) = (expects(&mut input), 1 + usize::from(input.byte()));
    let (whole, ended) = read(&expects, input.0, input.0.len().max(1));
    let (pieces, pieces_ended) = read(&expects, input.0, at_once);
    assert_eq!(whole, pieces);
    // Where it breaks off may be seen earlier when more is there.
    if ended == pieces_ended {
        return;
    }
    assert!(!ended.ends_with("left") || !pieces_ended.ends_with("left"), "{ended}, {pieces_ended}");
});
