//! Latencies, summed up.

/// Percentiles of a run, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Summary {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    /// The share of requests that found no room at first.
    pub late: f64,
}

impl Summary {
    pub fn of(mut latencies_ns: Vec<u64>, late: f64) -> Summary {
        latencies_ns.sort_unstable();
        let last = latencies_ns.len() - 1;
        let at = |share: f64| latencies_ns[((share * last as f64).round() as usize).min(last)];
        Summary { p50_ns: at(0.5), p99_ns: at(0.99), p999_ns: at(0.999), late }
    }

    /// More came than could be served: the percentiles say how long the run was, nothing else.
    pub fn is_overloaded(&self) -> bool {
        self.late > 0.01
    }
}

/// Microseconds in three digits.
pub fn micros(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    if us < 10.0 {
        format!("{us:.2}")
    } else if us < 100.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}
