//! One thread's load on one channel: calls kept under way, outcomes counted, latencies recorded.
//!
//! A call carries the time it was meant to start as its `user` word, so nothing is kept per call. In a closed loop that is the time
//! of the poll before it; in an open one the time that the rate gives, whether or not there was room, so that a slow server
//! cannot hide what it does to those who wait.
//!
//! Cost: two clock reads per poll, not per call; a histogram entry per `sample` calls.

use base::prng::Prng;
use base::{Clock, Nanos};
use fabric::channel::{Channel, Event, StartError, What};
use fabric::status::Status;
use hdrhistogram::Histogram;
use ring::wait::WaitPolicy;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Without an event for this long a thread that may sleep does not poll by itself any more, but waits.
const PATIENCE: Nanos = Nanos::from_micros(2);

/// Longer latencies count as this long.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// How one channel is loaded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Calls under way at most.
    pub window: usize,
    /// How long calls are started.
    pub length: Nanos,
    /// Calls per second, if not as many as can be.
    pub rate: Option<f64>,
    /// Of how many calls one is timed.
    pub sample: u32,
    /// Never sleeps.
    pub spin: bool,
    /// Of the random gaps of an open loop.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Calls that ended with a reply.
    pub replies: u64,
    /// Calls that ended otherwise, by the name of the status' code.
    pub failed: BTreeMap<&'static str, u64>,
    /// The first failure.
    pub example: Option<String>,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// From the first start to the last outcome.
    pub span: Nanos,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            replies: 0,
            failed: BTreeMap::new(),
            example: None,
            latency: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are good"),
            span: Nanos::ZERO,
        }
    }
}

impl Tally {
    /// Replies per second.
    pub fn rate(&self) -> f64 {
        self.replies as f64 / self.span.as_secs_f64().max(1e-9)
    }

    /// Calls that ended without a reply.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Both as one; they ran at the same time.
    pub fn join(&mut self, other: &Tally) {
        self.replies += other.replies;
        for (&code, count) in &other.failed {
            *self.failed.entry(code).or_default() += count;
        }
        self.example = self.example.take().or_else(|| other.example.clone());
        self.latency.add(&other.latency).expect("same bounds");
        self.span = self.span.max(other.span);
    }

    #[cold]
    fn fail(&mut self, status: &Status) {
        *self.failed.entry(status.code().name()).or_default() += 1;
        self.example.get_or_insert_with(|| status.to_string());
    }
}

/// What starts calls and checks replies.
pub trait Caller {
    /// Starts a call.
    ///
    /// # Errors
    /// It was not started.
    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError>;

    /// Looks at a reply.
    ///
    /// # Errors
    /// It is wrong.
    fn check(&self, event: &mut Event<'_>) -> Result<(), Status>;
}

/// When the next call is meant to start.
struct Pace {
    gap: Option<f64>,
    next: f64,
    random: Prng,
}

impl Pace {
    fn new(plan: &Plan, now: Nanos) -> Pace {
        Pace { gap: plan.rate.map(|rate| 1e9 / rate), next: now.0 as f64, random: Prng::new(plan.seed) }
    }

    /// The meant start of a call that may start now.
    #[inline]
    fn due(&self, now: Nanos) -> Option<Nanos> {
        match self.gap {
            None => Some(now),
            Some(_) if self.next <= now.0 as f64 => Some(Nanos(self.next as u64)),
            Some(_) => None,
        }
    }

    #[inline]
    fn started(&mut self) {
        if let Some(gap) = self.gap {
            // Arrivals that know nothing of each other.
            self.next += -(1.0 - self.random.unit_f64()).ln() * gap;
        }
    }
}

/// Loads a channel until the plan's end, or until `stop`; then waits for what is under way. `done` counts for a progress bar.
pub fn drive(
    channel: &mut Channel,
    caller: &mut impl Caller,
    plan: &Plan,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Tally {
    let clock = Clock::shared();
    let begin = clock.now();
    let until = begin.plus(plan.length);
    let mut tally = Tally::default();
    let mut pace = Pace::new(plan, begin);
    let (mut under_way, mut untimed) = (0usize, plan.sample);
    let (mut now, mut last) = (begin, begin);
    loop {
        let mut open = now < until && !stop.load(Ordering::Relaxed);
        while open && under_way < plan.window {
            let Some(user) = pace.due(now) else { break };
            match caller.start(channel, user.0) {
                Ok(()) => {
                    under_way += 1;
                    pace.started();
                }
                Err(StartError::Full) => break,
                Err(error) => {
                    tally.fail(&error.into());
                    open = false;
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        if under_way == 0 && !open {
            tally.span = now.since(begin);
            return tally;
        }
        let mut arrived = None;
        let count = channel.poll(plan.window.max(64), |mut event| {
            let at = *arrived.get_or_insert_with(|| clock.now());
            under_way -= 1;
            let outcome = match &event.what {
                What::Failed(status) => Err(status.clone()),
                _ => caller.check(&mut event),
            };
            if let Err(status) = outcome {
                return tally.fail(&status);
            }
            tally.replies += 1;
            untimed -= 1;
            if untimed == 0 {
                untimed = plan.sample;
                tally.latency.saturating_record(at.since(Nanos(event.user)).0.max(1));
            }
        });
        if count > 0 {
            done.fetch_add(count as u64, Ordering::Relaxed);
            last = now;
        } else if !plan.spin && now.since(last) > PATIENCE {
            let pause =
                if pace.gap.is_some() { Duration::from_micros(50) } else { Duration::from_millis(10) };
            channel.wait(WaitPolicy::default(), Some(pause));
        }
        now = clock.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rate: Option<f64>) -> Plan {
        Plan { window: 4, length: Nanos::from_secs(1), rate, sample: 1, spin: true, seed: 1 }
    }

    #[test]
    fn an_open_loop_keeps_its_rate_whatever_the_server_does() {
        let mut pace = Pace::new(&plan(Some(1000.0)), Nanos(0));
        let mut last = Nanos(0);
        for _ in 0..10_000 {
            let meant = pace.due(Nanos(u64::MAX)).expect("always due at the end of time");
            assert!(meant >= last);
            last = meant;
            pace.started();
        }
        let seconds = last.as_secs_f64();
        assert!((9.5..10.5).contains(&seconds), "10 000 calls at 1000 per second took {seconds} s");
        assert_eq!(pace.due(Nanos(0)), None);
    }

    #[test]
    fn tallies_join() {
        let mut a = Tally { replies: 3, span: Nanos(5), ..Tally::default() };
        a.fail(&Status::new(fabric::status::Code::NotFound, "one"));
        let mut b = Tally { replies: 4, span: Nanos(7), ..Tally::default() };
        b.fail(&Status::new(fabric::status::Code::NotFound, "two"));
        a.join(&b);
        assert_eq!((a.replies, a.failures(), a.span), (7, 2, Nanos(7)));
        assert_eq!(a.example.as_deref(), Some("NOT_FOUND: one"));
    }
}
