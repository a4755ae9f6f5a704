//! Arbitrary text as slots of a chain: refused, or written and read again as they were.
//!
//! `cargo +nightly fuzz run chain_slots`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::chain::slots::{MAX_RANGES, Slots};

fuzz_target!(|text: &str| {
    if let Ok(slots) = text.parse::<Slots>() {
        assert!((1..=MAX_RANGES).contains(&slots.ranges().len()));
        assert!(slots.ranges().iter().all(|(from, to)| slots.has(*from) && slots.has(*to)));
        assert_eq!(slots.to_string().parse(), Ok(slots));
    }
});
