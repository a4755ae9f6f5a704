//! Arbitrary text as a platform file, of a family or of parts: refused with a line and a reason, or a platform whose numbers are sound.
//!
//! `cargo +nightly fuzz run platform_file`
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::platform::{LoadError, Platform};

fuzz_target!(|text: &str| match Platform::parse(text, "fuzzed.toml") {
    Ok(platform) => {
        for (name, number) in platform.numbers() {
            let (low, high) = number.range;
            assert!(low <= number.value && number.value <= high, "{name}: {number:?}");
            assert!(platform.number(name).is_ok_and(|found| found.base().is_finite()));
        }
    }
    Err(error) => {
        assert!(!error.to_string().is_empty());
        if let LoadError::File { line, .. } = error {
            assert!(line <= 1 + text.matches('\n').count(), "line {line}");
        }
    }
});
