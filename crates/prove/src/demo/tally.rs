//! What clients of the demonstration saw.

use crate::lab::run::record::now;
use base::Nanos;
use bench::tally::histogram;
use hdrhistogram::Histogram;

/// Failures and findings that are kept in words.
const EXAMPLES: usize = 3;

/// What one request came to.
#[derive(Debug)]
pub struct Exchange {
    /// From before it was sent until its reply was read.
    pub took: Nanos,
    /// Bytes of the message.
    pub sent: usize,
    /// Bytes of the reply.
    pub received: usize,
    /// The cache answered; of pictures, a compute unit did the work.
    pub from_box: bool,
    /// What was read is what was written.
    pub verdict: Result<(), String>,
}

/// What a client did.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Of all that were answered.
    pub latency: Histogram<u64>,
    /// When each was answered.
    pub ends: Vec<Nanos>,
    /// Answered by the cache; of pictures, packed by a compute unit.
    pub from_box: u64,
    /// Bytes of messages, without what transports add.
    pub sent: u64,
    /// The same of replies.
    pub received: u64,
    /// Values that cannot have been there.
    pub wrong: Vec<String>,
    /// How many there were of these.
    pub wrongs: u64,
    /// Requests that had no answer.
    pub failures: Vec<String>,
    /// How many there were of these.
    pub failed: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            latency: histogram(),
            ends: Vec::new(),
            from_box: 0,
            sent: 0,
            received: 0,
            wrong: Vec::new(),
            wrongs: 0,
            failures: Vec::new(),
            failed: 0,
        }
    }
}

impl Tally {
    /// One more.
    pub fn record(&mut self, outcome: Result<Exchange, String>) {
        let keep = |examples: &mut Vec<String>, count: &mut u64, what: String| {
            *count += 1;
            if examples.len() < EXAMPLES {
                examples.push(what);
            }
        };
        match outcome {
            Ok(seen) => {
                self.latency.saturating_record(seen.took.0);
                self.ends.push(now());
                self.from_box += u64::from(seen.from_box);
                self.sent += seen.sent as u64;
                self.received += seen.received as u64;
                if let Err(why) = seen.verdict {
                    keep(&mut self.wrong, &mut self.wrongs, why);
                }
            }
            Err(why) => keep(&mut self.failures, &mut self.failed, why),
        }
    }

    /// With another's.
    pub fn add(&mut self, other: &Tally) {
        self.latency.add(&other.latency).expect("both have the same bounds");
        self.ends.extend(&other.ends);
        self.ends.sort_unstable();
        self.from_box += other.from_box;
        self.sent += other.sent;
        self.received += other.received;
        self.wrongs += other.wrongs;
        self.failed += other.failed;
        self.wrong.extend(other.wrong.iter().cloned());
        self.failures.extend(other.failures.iter().cloned());
    }

    /// What came since an earlier reading of the same.
    pub fn since(&self, before: &Tally) -> Tally {
        let mut since = self.clone();
        since.latency.subtract(&before.latency).expect("an earlier reading has no more");
        since.ends.drain(..before.ends.len());
        since.from_box -= before.from_box;
        since.sent -= before.sent;
        since.received -= before.received;
        since.wrongs -= before.wrongs;
        since.failed -= before.failed;
        since.wrong.drain(..before.wrong.len());
        since.failures.drain(..before.failures.len());
        since
    }

    /// The longest time between two answers in a stretch of time.
    pub fn longest_gap(&self, from: Nanos, to: Nanos) -> Nanos {
        let inside = self.ends.iter().copied().filter(|end| (from..to).contains(end));
        let mut last = from;
        let mut longest = Nanos(0);
        for end in inside.chain([to]) {
            longest = longest.max(end.since(last));
            last = end;
        }
        longest
    }
}
