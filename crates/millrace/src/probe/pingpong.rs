//! One short sample of a cache-line ping-pong between two cores: each side writes its own line and spins on the other's.
//!
//! Why short: a virtual machine's cores move between physical ones many times a second, and the round trip with them
//! (51, 125 or 500 ns on one machine). A sample of milliseconds mostly sees one placement; many samples show them all.
//!
//! Ordering: [P1] release store of `ping`, acquired by the echo side; [P2] release store of `pong`, acquired by the
//! timing side.

use base::{Clock, Nanos};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter on a pair of lines of its own, since the hardware fetches lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// What the two sides share.
#[derive(Default)]
struct Table {
    ping: Line,
    pong: Line,
    /// One side has left or never came.
    over: AtomicBool,
}

/// The mean round trip over about `duration`, or `None` where a core cannot be had.
pub fn sample(core_a: usize, core_b: usize, duration: Nanos) -> Option<Nanos> {
    let table = Table::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if base::cpu::pin_to(core_b).is_ok() {
                echo(&table);
            }
            table.over.store(true, Ordering::Relaxed);
        });
        let timing = scope.spawn(|| {
            let mean = base::cpu::pin_to(core_a).ok().and_then(|()| time(&table, duration));
            table.over.store(true, Ordering::Relaxed);
            mean
        });
        timing.join().expect("the timing side does not panic")
    })
}

fn echo(table: &Table) {
    let mut last = 0;
    while !table.over.load(Ordering::Relaxed) {
        let seen = table.ping.0.load(Ordering::Acquire); // [P1]
        if seen != last {
            last = seen;
            table.pong.0.store(seen, Ordering::Release); // [P2]
        } else {
            std::hint::spin_loop();
        }
    }
}

fn time(table: &Table, duration: Nanos) -> Option<Nanos> {
    let clock = Clock::shared();
    let trip = |number| {
        table.ping.0.store(number, Ordering::Release); // [P1]
        while table.pong.0.load(Ordering::Acquire) != number {
            // [P2]
            std::hint::spin_loop();
            if table.over.load(Ordering::Relaxed) {
                return false;
            }
        }
        true
    };
    if !trip(1) {
        return None; // The first trip waits for the other thread to start, and is not counted.
    }
    let start = clock.now();
    let mut trips = 0;
    loop {
        trips += 1;
        if !trip(trips + 1) {
            return None;
        }
        if trips.is_multiple_of(64) && clock.now().since(start) >= duration {
            return Some(Nanos(clock.now().since(start).0 / trips));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_answer_and_an_impossible_one_is_none() {
        let cores = base::cpu::allowed_cores();
        if let [a, b, ..] = cores[..] {
            assert!(sample(a, b, Nanos::from_micros(100)).is_some_and(|rtt| rtt > Nanos::ZERO));
        } else {
            eprintln!("skipped: one core only");
        }
        assert_eq!(sample(cores[0], usize::MAX, Nanos::from_micros(100)), None);
        assert_eq!(sample(usize::MAX, cores[0], Nanos::from_micros(100)), None);
    }
}
