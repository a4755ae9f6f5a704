//! Arbitrary bytes as what logs and images keep, the payload of an entry and an outcome: refused, or read and written back as they were.
//!
//! `cargo +nightly fuzz run chain_entry`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::chain::{Entry, Epoch, Lsn, Outcome};

fuzz_target!(|bytes: &[u8]| {
    if let Some(entry) = Entry::parse_payload(Lsn(1), Epoch(1), bytes) {
        let mut again = Vec::new();
        entry.emit_payload(&mut again);
        assert_eq!(again, bytes);
        assert_eq!(entry.payload_bytes(), bytes.len());
    }
    if let Some(outcome) = Outcome::parse(bytes) {
        let mut again = Vec::new();
        outcome.emit(&mut again);
        assert_eq!(again, bytes);
        assert_eq!(outcome.bytes(), bytes.len());
    }
});
