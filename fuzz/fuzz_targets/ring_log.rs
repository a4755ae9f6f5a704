//! Arbitrary lanes of a ring log, and stamps that are right but for what they say: what is found is found again; never a panic.
//!
//! `cargo +nightly fuzz run ring_log`; `crates/store/src/durable/rings` flips every bit of a stamp in `cargo test`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((stamps, rest)) = input.split_first() else { return };
    let (planted, bytes) = rest.split_at(rest.len().min(24 * usize::from(*stamps)));
    store::durable::rings::probe(bytes, planted);
});
