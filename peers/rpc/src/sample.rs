//! What a sample is, the same for every system: a closed loop over a time, payloads that are compared, and processor time.
//!
//! A client keeps `window` calls in flight and starts one for each reply. The figures are taken when the time is over; what is
//! in flight then is waited for, checked, and not counted. With one call in flight every round trip is timed, from reply to reply:
//! the caller's own work of checking and starting is part of it.
//!
//! The rate is that of the median stretch: so many calls that they take [`STRETCH`] or more, one stretch after the other. So a time in which
//! the host or another program took a core away is one slow stretch among many, for a system that polls and one that sleeps alike.

use base::{Clock, Nanos, Prng};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::spread::Spread;

/// How the loop went.
pub struct Sample {
    /// Calls answered within the time.
    pub calls: u64,
    /// How long that took.
    pub wall: Nanos,
    /// Time per call in the median stretch, ns.
    pub ns_per_call: f64,
    /// What the client's thread got of its core.
    pub client: Usage,
    /// Round trips in ns, where one call at a time was made.
    pub round_trips: Option<Histogram<u64>>,
}

/// A client's connection to a server, ready for calls.
pub trait Client {
    /// Keeps `window` calls in flight for `time`.
    fn run(&mut self, window: usize, time: Nanos) -> Result<Sample, String>;
}

/// Counts a closed loop's replies until its time is over.
pub struct Watch {
    clock: Clock,
    start: Nanos,
    until: Nanos,
    usage_start: Usage,
    calls: u64,
    looks: u32,
    stretch: Stretch,
    last: Nanos,
    round_trips: Option<Histogram<u64>>,
}

/// The calls since the last look at the clock.
struct Stretch {
    start: Nanos,
    calls: u64,
    /// Calls that make it full.
    full: u64,
    /// Of those that were full: time per call, ns.
    ns_per_call: Vec<f64>,
}

/// A stretch takes so long, or the next ones are of twice as many calls.
const STRETCH: Nanos = Nanos::from_micros(100);

impl Stretch {
    #[cold]
    fn end(&mut self, now: Nanos) {
        let took = now.since(self.start);
        if took < STRETCH {
            self.full *= 2;
            self.ns_per_call.clear();
        } else {
            self.ns_per_call.push(took.0 as f64 / self.calls as f64);
        }
        (self.start, self.calls) = (now, 0);
    }
}

/// So many looks at the watch pass between two at the clock: reading it costs as much as a tenth of a fast call.
const LOOKS: u32 = 64;

impl Watch {
    /// The loop begins now.
    pub fn start(window: usize, time: Nanos) -> Watch {
        // Three digits up to ten seconds; a longer round trip counts as ten seconds.
        let round_trips = (window == 1)
            .then(|| Histogram::new_with_max(10_000_000_000, 3).expect("three digits and a range above one"));
        let clock = Clock::shared();
        let start = clock.now();
        Watch {
            clock,
            start,
            until: start.plus(time),
            usage_start: Usage::now(),
            calls: 0,
            looks: 0,
            stretch: Stretch { start, calls: 0, full: window as u64, ns_per_call: Vec::new() },
            last: start,
            round_trips,
        }
    }

    /// A reply came and was right.
    #[inline]
    pub fn count(&mut self) {
        self.calls += 1;
        self.stretch.calls += 1;
        if self.stretch.calls == self.stretch.full {
            self.stretch.end(self.clock.now());
        }
        if let Some(round_trips) = &mut self.round_trips {
            let now = self.clock.now();
            round_trips.saturating_record(now.since(self.last).0);
            self.last = now;
        }
    }

    /// Whether the time is over; ask at every turn of the loop.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(LOOKS) && self.clock.now() >= self.until
    }

    /// The same for loops that sleep and so turn rarely: looks at the clock.
    pub fn is_over_now(&self) -> bool {
        self.clock.now() >= self.until
    }

    /// The figures up to now.
    pub fn stop(&mut self) -> Sample {
        let wall = self.clock.now().since(self.start);
        let mean = wall.0 as f64 / self.calls.max(1) as f64;
        Sample {
            calls: self.calls,
            wall,
            // Too few calls for a stretch: their mean.
            ns_per_call: Spread::of(self.stretch.ns_per_call.drain(..)).map_or(mean, |all| all.median),
            client: Usage::now().since(self.usage_start),
            round_trips: self.round_trips.take(),
        }
    }
}

/// What a thread got of its core.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time, the kernel's work for it included.
    pub cpu: Nanos,
    /// Time in which it could have run, but the core was another thread's.
    pub starved: Nanos,
}

impl Usage {
    /// The calling thread's, since it began.
    pub fn now() -> Usage {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = Nanos(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64);
        // "time on the core, time waiting for it, turns"; a kernel without this file says nothing of others.
        let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let starved =
            counts.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).map_or(Nanos::ZERO, Nanos);
        Usage { cpu, starved }
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage { cpu: self.cpu.since(earlier.cpu), starved: self.starved.since(earlier.starved) }
    }
}

/// The payloads of the calls in flight: random bytes behind a number that goes up with every call.
pub struct Payloads {
    bytes: Vec<u8>,
    each_bytes: usize,
}

impl Payloads {
    /// One payload of `each_bytes` (at least 8) per call of the window; the same for the same `seed`.
    pub fn new(window: usize, each_bytes: usize, seed: u64) -> Payloads {
        let mut bytes = vec![0; window * each_bytes];
        Prng::new(seed).fill(&mut bytes);
        Payloads { bytes, each_bytes }
    }

    /// What the call of this place carries.
    #[inline]
    pub fn of(&self, place: usize) -> &[u8] {
        &self.bytes[place * self.each_bytes..][..self.each_bytes]
    }

    /// Compares a reply with its request, then makes the next request of this place.
    ///
    /// # Errors
    /// A sentence when they differ.
    #[inline]
    pub fn check(&mut self, place: usize, reply: &[u8]) -> Result<(), String> {
        let payload = &mut self.bytes[place * self.each_bytes..][..self.each_bytes];
        if payload != reply {
            return Err(different(payload, reply));
        }
        let number = payload.first_chunk_mut::<8>().expect("a payload has eight bytes or more");
        *number = u64::from_le_bytes(*number).wrapping_add(1).to_le_bytes();
        Ok(())
    }
}

#[cold]
fn different(request: &[u8], reply: &[u8]) -> String {
    let (sent, came) = (request.len(), reply.len());
    match request.iter().zip(reply).position(|(a, b)| a != b) {
        Some(at) => format!("a reply differs from its request of {sent} bytes at byte {at}"),
        None => format!("a request of {sent} bytes was answered with {came}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_stretch_is_one_among_many() {
        let start = Nanos::ZERO;
        let mut stretch = Stretch { start, calls: 0, full: 8, ns_per_call: Vec::new() };
        let mut now = start;
        for calls in [8, 16, 16, 16, 16] {
            // 10 us each, and once the core was away for 10 ms.
            now = now.plus(Nanos::from_micros(if now.0 == 240_000 { 10_000 } else { 10 * calls }));
            stretch.calls = calls;
            stretch.end(now);
        }
        assert_eq!(stretch.full, 16, "80 us were too short");
        assert_eq!(Spread::of(stretch.ns_per_call).map(|all| all.median), Some(10_000.0));
    }

    #[test]
    fn a_reply_is_right_once() {
        let mut payloads = Payloads::new(2, 12, 1);
        let first = payloads.of(1).to_vec();
        assert_ne!(payloads.of(0), first);
        assert!(payloads.check(0, &first).is_err());
        assert_eq!(payloads.check(1, &first), Ok(()));
        assert_eq!(
            payloads.check(1, &first),
            Err("a reply differs from its request of 12 bytes at byte 0".into())
        );
        let next = payloads.of(1).to_vec();
        assert_eq!(payloads.check(1, &next[..8]), Err("a request of 12 bytes was answered with 8".into()));
    }
}
