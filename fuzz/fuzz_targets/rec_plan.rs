//! Arbitrary bytes as a memo plan, their checksum made right: refused, or a plan whose keys are rows of its arena and which is saved as it was.
//!
//! `cargo +nightly fuzz run rec_plan`
#![no_main]

use libfuzzer_sys::fuzz_target;
use rec::Plan;

fuzz_target!(|bytes: &[u8]| {
    let mut file = bytes.to_vec();
    // What it says of itself, so that the other checks are reached.
    let word =
        |at: usize| file.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight")));
    let (hash, rows) = (word(8), word(16) as u32);
    file.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
    if let Ok(plan) = Plan::load(&file, rows, hash) {
        assert_eq!(plan.save(hash), file);
        let ids: Vec<u32> = (0..plan.rows()).rev().collect();
        let (mut scratch, mut keys) = (Vec::new(), Vec::new());
        plan.keys(&ids, &mut scratch, &mut keys);
        plan.singles(&ids, &mut keys);
        assert!(keys.iter().all(|&row| row < plan.arena_rows()));
    }
});
