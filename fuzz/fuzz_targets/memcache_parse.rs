//! Arbitrary bytes, arbitrarily split, mean the same commands as in one piece; and none makes the parser panic, stand
//! still or ask for more than its bound. The first bytes of the input choose the splits.
//!
//! `cargo +nightly fuzz run memcache_parse`; `crates/protocol/tests/splits.rs` checks the same property in `cargo test`.
#![no_main]

#[path = "../../crates/protocol/tests/trace/mod.rs"]
mod trace;

use libfuzzer_sys::fuzz_target;
use trace::holds_in_pieces;

const MAX_VALUE: usize = 64;
const SPLITS: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((splits, bytes)) = input.split_first_chunk::<SPLITS>() else { return };
    holds_in_pieces(bytes, MAX_VALUE, splits);
});
