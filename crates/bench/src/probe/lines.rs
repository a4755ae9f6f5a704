//! Lines that one core writes and another reads, in order: what a stream of messages between two cores costs at least.
//!
//! Shape: a circle of cache lines. The writer fills a batch of them, the first one last; the reader waits for the first and reads them all.
//! After every quarter of the circle the reader says how far it is, in a line of its own, and the writer never laps it.
//!
//! Ordering: (L1) release store of a batch's first line, acquired by the reader: the others are there. (L2) release store of `read`, acquired by the
//! writer: the lines may be written again.
//!
//! Why beside the ping-pong: a round trip pays for every line in full, a stream has many of them under way.

use super::cores;
use base::{Clock, Nanos};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lines of the circle.
const LINES: u64 = 1024;
/// Between two readings of the clock.
const STRETCH: u64 = 2048;

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line {
    words: [AtomicU64; 7],
    count: AtomicU64,
}

impl Line {
    /// A whole line, as a message is: the count last, and so the rest is there with it.
    #[inline(always)]
    fn write(&self, count: u64, order: Ordering) {
        self.words.iter().for_each(|word| word.store(count, Ordering::Relaxed));
        self.count.store(count, order);
    }

    /// The same back.
    #[inline(always)]
    fn read(&self) -> u64 {
        self.words.iter().fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Apart<T>(T);

/// Nanoseconds per line that `cores.0` writes in such batches and `cores.1` reads, a sample per 2048 lines, for so long. Nothing where a
/// core cannot be had.
pub fn stream(at: (usize, usize), batch: u64, span: Nanos) -> Vec<f64> {
    assert!(batch.is_power_of_two() && batch <= LINES / 4, "{batch} lines");
    let lines: Vec<Line> = (0..LINES).map(|_| Line::default()).collect();
    let (read, over) = (Apart(AtomicU64::new(0)), Apart(AtomicBool::new(false)));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| cores::on(at.0, || write(&lines, &read.0, &over.0, batch)));
        let samples = cores::on(at.1, || read_all(&lines, &read.0, batch, span));
        over.0.store(true, Ordering::Relaxed);
        let wrote = writing.join().expect("writing does not panic");
        if wrote.is_ok() { samples.unwrap_or_default() } else { Vec::new() }
    })
}

fn write(lines: &[Line], read: &AtomicU64, over: &AtomicBool, batch: u64) {
    let mut seen = 0;
    for first in (0u64..).step_by(batch as usize) {
        while first + batch - seen > LINES {
            seen = read.load(Ordering::Acquire); // (L2)
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
        let place = |at: u64| &lines[(at % LINES) as usize];
        (first + 1..first + batch).for_each(|at| place(at).write(at + 1, Ordering::Relaxed));
        place(first).write(first + 1, Ordering::Release); // (L1)
    }
}

fn read_all(lines: &[Line], read: &AtomicU64, batch: u64, span: Nanos) -> Vec<f64> {
    let clock = Clock::shared();
    let (start, mut samples) = (clock.now(), Vec::new());
    let (mut last, mut at) = (start, 0u64);
    loop {
        for _ in 0..STRETCH / batch {
            let place = |at: u64| &lines[(at % LINES) as usize];
            let mut looks = 0u32;
            while place(at).count.load(Ordering::Acquire) != at + 1 {
                // (L1)
                looks += 1;
                if looks.is_multiple_of(1 << 16) && clock.now().since(start) > Nanos(span.0 * 20) {
                    return samples; // The writer has not run for long.
                }
                spin_loop_seldom(looks);
            }
            for one in at..at + batch {
                std::hint::black_box(place(one).read());
            }
            at += batch;
            if at.is_multiple_of(LINES / 4) {
                read.store(at, Ordering::Release); // (L2)
            }
        }
        let now = clock.now();
        samples.push(now.since(last).0 as f64 / STRETCH as f64);
        last = now;
        if samples.len() >= 3 && now.since(start) >= span {
            return samples;
        }
    }
}

/// A pause would add to what is measured; who waits long is polite.
fn spin_loop_seldom(looks: u32) {
    if looks > 1_000 {
        spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_in_both_forms() {
        let cores = base::cpu::allowed_cores();
        if let [a, b, ..] = cores[..] {
            for batch in [1, 32] {
                // On a busy machine the other thread may not get to run: then there are few samples, none of them wrong.
                let samples = stream((a, b), batch, Nanos::from_millis(2));
                assert!(samples.iter().all(|ns| *ns > 0.0));
            }
        }
        assert!(stream((0, usize::MAX), 1, Nanos::from_millis(1)).is_empty());
    }
}
