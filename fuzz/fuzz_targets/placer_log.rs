//! Arbitrary text as a placer's log: refused with its line, or played again without a panic, whatever options, observations and times it has.
//!
//! The brain's files are part of this target, since the crate that has them brings servers with it.
//!
//! `cargo +nightly fuzz run placer_log`
#![no_main]
#![allow(dead_code)]

// So that what is observed finds `serve::metrics::read` here.
extern crate self as serve;

#[path = "../../crates/plan/src/observed"]
mod observed {
    mod caches;
    mod difference;
    mod load;
    mod observation;
    mod reading;

    pub use caches::{Cache, MEMORY, QUARTERS};
    pub use observation::*;
}

#[path = "../../crates/serve/src/metrics"]
mod metrics {
    pub mod read;
}

#[path = "../../crates/plan/src/placer"]
mod placer {
    pub mod brain;
    mod budget;
    pub mod choice;
    mod correct;
    mod of_model;
    pub mod log;
    mod marginal;
    pub mod options;
    pub mod planted;
    pub mod predict;
    pub mod verdict;
}

use libfuzzer_sys::fuzz_target;
use placer::log::{Line, ReplayError, replay};

fuzz_target!(|text: &str| {
    match replay(text) {
        Ok(_) => {}
        Err(ReplayError::NoLine(line, _) | ReplayError::NoPlatform(line, _) | ReplayError::NoSetup(line) | ReplayError::Differs { line, .. }) => {
            assert!((1..=text.lines().count()).contains(&line));
        }
    }
    // Only what goes in, so that more of it is played.
    let inputs = text.lines().filter(|line| serde_json::from_str::<Line>(line).is_ok_and(|line| line.goes_in()));
    let inputs: String = inputs.map(|line| format!("{line}\n")).collect();
    let _ = replay(&inputs);
});
