//! Timing of short calls: many calls between two readings of the clock, many such samples.

use super::session::Session;
use base::{Clock, Nanos};
use std::hint::black_box;

/// How long one sample lasts: far above the clock's own cost, far below the time between two interruptions.
const SAMPLE: Nanos = Nanos::from_micros(20);

/// Nanoseconds per call of `call`, one per sample, over 100 ms (10 in a quick run).
pub fn per_call<T>(session: &Session, call: impl FnMut() -> T) -> Vec<f64> {
    samples_of(session.span(Nanos::from_millis(100)), call)
}

/// Nanoseconds per call of `call`, one per sample, for as long as `span` and for at least three samples.
pub fn samples_of<T>(span: Nanos, mut call: impl FnMut() -> T) -> Vec<f64> {
    let clock = Clock::shared();
    let calls = calls_per_sample(clock, &mut call);
    let (start, mut samples) = (clock.now(), Vec::new());
    while samples.len() < 3 || clock.now().since(start) < span {
        let from = clock.now();
        for _ in 0..calls {
            black_box(call());
        }
        samples.push(clock.now().since(from).0 as f64 / calls as f64);
    }
    samples
}

/// Doubles the number of calls until they last as long as a sample should.
fn calls_per_sample<T>(clock: Clock, call: &mut impl FnMut() -> T) -> u64 {
    let mut calls = 1;
    loop {
        let from = clock.now();
        for _ in 0..calls {
            black_box(call());
        }
        if clock.now().since(from) >= SAMPLE || calls >= 1 << 20 {
            return calls;
        }
        calls *= 2;
    }
}

/// Gigabytes (10⁹) per second from nanoseconds for `bytes`.
pub fn gigabytes_per_sec(bytes: usize, nanos: f64) -> f64 {
    bytes as f64 / nanos.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_a_positive_time_and_every_call_happens() {
        let mut calls = 0u64;
        let samples = samples_of(Nanos::ZERO, || calls += 1);
        assert!(samples.len() >= 3 && samples.iter().all(|&s| s >= 0.0));
        assert!(calls >= 3);
        assert_eq!(gigabytes_per_sec(64, 2.0), 32.0);
    }
}
