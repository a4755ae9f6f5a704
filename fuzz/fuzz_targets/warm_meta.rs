//! Arbitrary bytes as what a store leaves beside its memory for the next process: refused, or the same when they are written again; never a panic, and
//! no more memory than they are long.
//!
//! `cargo +nightly fuzz run warm_meta`; `crates/store/src/warm` flips every bit of real ones in `cargo test`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| store::warm::probe(bytes));
