//! Arbitrary bytes as a record of a key-value store's log, and as a snapshot: refused, or the same when they are written again; never a panic, and no more
//! memory than they
//! are long.
//!
//! `cargo +nightly fuzz run durable`; `crates/store/src/durable` flips every byte of real ones in `cargo test`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| store::durable::probe(bytes));
