//! What a sample is, the same for every system: a closed loop over a time, payloads that are compared, and processor time.
//!
//! A client keeps `window` calls in flight and starts one for each reply. The figures are taken when the time is over; what is
//! in flight then is waited for, checked, and not counted. With one call in flight every round trip is timed, from reply to reply:
//! the caller's own work of checking and starting is part of it.

use base::{Clock, Nanos, Prng};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// How the loop went.
pub struct Sample {
    /// Calls answered within the time.
    pub calls: u64,
    /// How long it took.
    pub wall: Nanos,
    /// Processor time of the client's thread.
    pub client_cpu: Nanos,
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
    cpu_start: Nanos,
    calls: u64,
    looks: u32,
    last: Nanos,
    round_trips: Option<Histogram<u64>>,
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
            cpu_start: thread_cpu(),
            calls: 0,
            looks: 0,
            last: start,
            round_trips,
        }
    }

    /// A reply came and was right.
    #[inline]
    pub fn count(&mut self) {
        self.calls += 1;
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

    /// Replies that were counted elsewhere.
    pub fn count_many(&mut self, calls: u64) {
        self.calls += calls;
    }

    /// The figures up to now.
    pub fn stop(self) -> Sample {
        Sample {
            calls: self.calls,
            wall: self.clock.now().since(self.start),
            client_cpu: thread_cpu().since(self.cpu_start),
            round_trips: self.round_trips,
        }
    }
}

/// Processor time that the calling thread has taken, in the kernel's work for it too.
pub fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
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
