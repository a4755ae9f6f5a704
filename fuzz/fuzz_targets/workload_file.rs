//! Arbitrary text as a workload file: refused with a line and a reason, or a workload whose calls end, and come to so many requests.
//!
//! `cargo +nightly fuzz run workload_file`
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::platform::LoadError;
use model::workload::{Workload, calls};

fuzz_target!(|text: &str| match Workload::parse(text, "fuzzed.toml") {
    Ok(workload) => {
        let rates = calls::rates(&workload);
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0), "{rates:?}");
        assert!(rates.iter().sum::<f64>() >= 1.0 - 1e-6, "{rates:?}");
        assert!(!calls::are_there(&calls::flat(&workload)));
    }
    Err(error) => {
        assert!(!error.to_string().is_empty());
        if let LoadError::File { line, .. } = error {
            assert!(line <= 1 + text.matches('\n').count(), "line {line}");
        }
    }
});
