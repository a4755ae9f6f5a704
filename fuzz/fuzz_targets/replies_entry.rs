//! Arbitrary bytes as what an item of a kept reply holds: none, or the same when it is written again.
//!
//! `cargo +nightly fuzz run replies_entry`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::replies::Entry;

fuzz_target!(|bytes: &[u8]| {
    if let Some(entry) = Entry::parse(bytes) {
        assert_eq!(entry.to_bytes(), bytes);
    }
});
