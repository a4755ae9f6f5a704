//! Arbitrary bytes as a recording of requests: read or refused with a line that there is, and what was read has no more requests than lines; how skewed it is
//! is a number.
//!
//! The reader's files are part of this target, since the crate that has them brings servers with it.
//!
//! `cargo +nightly fuzz run recording`
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/plan/src/planner/recording"]
mod recording {
    pub mod read;
    pub mod skew;
}

use libfuzzer_sys::fuzz_target;
use recording::{read, skew};

fuzz_target!(|input: (&[u8], bool)| {
    let (bytes, begins) = input;
    let head: &[u8] = b"{\"line\":\"begin\",\"millrace_recording\":1,\"one_of\":4}\n";
    let whole = if begins { [head, bytes].concat() } else { bytes.to_vec() };
    let lines = whole.iter().filter(|byte| **byte == b'\n').count() + 1;
    match read::read(&whole[..]) {
        Err((line, why)) => assert!((1..=lines).contains(&line) && !why.is_empty()),
        Ok(recorded) => {
            let count: u64 = recorded.services.values().flat_map(|one| one.methods.values()).map(|one| one.count).sum();
            assert!(count < lines as u64);
            for service in recorded.services.values() {
                let keys: Vec<[u32; 2]> = service.keys.values().copied().collect();
                assert!(skew::theta(&keys).is_none_or(|theta| (0.0..=5.0).contains(&theta)));
            }
        }
    }
});
