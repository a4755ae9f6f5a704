//! Arbitrary text as what an admin port answers to `GET /metrics` and `GET /registers`: read or refused, and what two of them say is an observation
//! whose figures are numbers or have a fault.
//!
//! The reader's files are part of this target, since the crate that has them brings servers with it.
//!
//! `cargo +nightly fuzz run placer_page`
#![no_main]
#![allow(dead_code)]

// So that the reader finds `serve::metrics::read` here.
extern crate self as serve;

#[path = "../../crates/serve/src/metrics"]
mod metrics {
    pub mod read;
}

#[path = "../../crates/plan/src/observed"]
mod observed {
    mod caches;
    mod difference;
    mod load;
    mod observation;
    mod reading;

    /// Reads two answers, the second a while after the first.
    pub fn look(answers: [(&str, &str); 2], gap_us: u64) {
        let mut difference = difference::Difference::default();
        for (at_us, (metrics, registers)) in [1, gap_us.saturating_add(1)].into_iter().zip(answers) {
            let Ok(reading) = reading::Reading::of(at_us, metrics, registers) else { continue };
            let Some(seen) = difference.add(reading, 4.0) else { continue };
            let is_sound = seen.fault().is_none();
            assert!(!is_sound || (0.0..=5.0).contains(&seen.cores_used.0));
            for service in &seen.services {
                let is_sound = service.fault().is_none();
                assert!(!is_sound || service.rate.0.is_finite());
                assert!(!is_sound || service.load.methods.iter().all(|method| method.rate.0 >= 0.0));
            }
        }
    }
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &str, &str, u32)| {
    let (first, first_registers, second, second_registers, gap_us) = input;
    observed::look([(first, first_registers), (second, second_registers)], u64::from(gap_us));
    // With what every page has, more is read of the rest.
    let whole = |page: &str| format!("process_cpu_seconds_total 1\nprocess_start_time_seconds 1\n{page}");
    let registers = "[{\"name\":\"a.engine.mode\",\"number\":0,\"range\":[0,1],\"choices\":[\"shared\",\"dedicated\"],\"live\":true},\
        {\"name\":\"b.place.handlers\",\"number\":0,\"range\":[0,3],\"choices\":[\"auto\",\"edge\",\"host\",\"engine\"],\"live\":true},\
        {\"name\":\"place.rec.preprocess\",\"number\":0,\"range\":[0,2],\"choices\":[\"edge\",\"engine\",\"host\"],\"live\":true}]";
    observed::look([(&whole(first), registers), (&whole(second), registers)], u64::from(gap_us));
});
