//! Sequential reads: bytes per second of one core and of two together.

use crate::probe::cores;
use crate::probe::session::{Session, Unit};
use crate::probe::timing::gigabytes_per_sec;
use base::pages::Region;
use base::{Clock, Nanos};
use std::hint::black_box;
use std::sync::Barrier;

/// Bytes read for one sample.
const CHUNK: usize = 8 << 20;

/// One core, then two at once on separate halves.
pub fn measure(session: &mut Session, region: &Region) {
    session.step("sequential reads");
    // SAFETY: the region is written by nobody while it is shared here, and every byte of it is initialised (zeroed).
    let words = unsafe { std::slice::from_raw_parts(region.start().cast::<u64>(), region.len() / 8) };
    let span = session.span(Nanos::from_millis(300));
    let one = rates(words, span);
    let method = "sum of all words";
    session.record(
        "read_one_core",
        "sequential read, one core",
        &one,
        Unit::GigabytesPerSec,
        method,
        "scans, large values and tables",
    );
    let Some((a, b)) = session.two_cores() else {
        return session.skip("sequential read, two cores", "this process may run on one core only");
    };
    let (low, high) = words.split_at(words.len() / 2);
    let start = Barrier::new(2);
    let together = |core, words| {
        let start = &start;
        cores::on(core, move || {
            start.wait();
            rates(words, span)
        })
    };
    let both = std::thread::scope(|scope| {
        let second = scope.spawn(|| together(b, high));
        let first = together(a, low);
        first.and_then(|first| second.join().expect("reading does not panic").map(|second| (first, second)))
    });
    match both {
        Ok((first, second)) => {
            let sums: Vec<f64> = first.iter().zip(&second).map(|(x, y)| x + y).collect();
            session.record(
                "read_two_cores",
                "sequential read, two cores",
                &sums,
                Unit::GigabytesPerSec,
                method,
                "what the memory gives this machine together",
            );
        }
        Err(e) => session.skip("sequential read, two cores", e),
    }
}

fn rates(words: &[u64], span: Nanos) -> Vec<f64> {
    let clock = Clock::shared();
    let (start, mut samples) = (clock.now(), Vec::new());
    for chunk in words.chunks(CHUNK / 8).cycle() {
        let from = clock.now();
        black_box(sum(chunk));
        samples.push(gigabytes_per_sec(size_of_val(chunk), clock.now().since(from).0 as f64));
        if samples.len() >= 3 && clock.now().since(start) >= span {
            break;
        }
    }
    samples
}

/// Sixteen sums at once, so that the reads and not the additions are what takes time.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; 16];
    for line in words.chunks_exact(16) {
        for (sum, word) in sums.iter_mut().zip(line) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}
