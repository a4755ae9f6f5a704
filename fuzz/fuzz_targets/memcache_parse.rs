//! Arbitrary bytes, arbitrarily split, mean the same commands as in one piece; and none makes the parser panic, stand
//! still or ask for more than its bound. The first bytes of the input choose the splits.
//!
//! `cargo +nightly fuzz run memcache_parse`; `crates/protocol/tests/splits.rs` checks the same property in `cargo test`.
#![no_main]

#[path = "../../crates/protocol/tests/trace/mod.rs"]
mod trace;

use libfuzzer_sys::fuzz_target;
use trace::trace;

const MAX_VALUE: usize = 64;
const SPLITS: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((splits, bytes)) = input.split_first_chunk::<SPLITS>() else { return };
    let whole = trace(bytes, MAX_VALUE, || usize::MAX);
    let mut pieces = splits.iter().cycle();
    let split = trace(bytes, MAX_VALUE, || pieces.next().map_or(1, |&n| usize::from(n)));
    assert_eq!(split, whole);
});
