//! One loop that drives a load, whatever the protocol: closed or open, for a time, on one thread.
//!
//! | file | what it is |
//! |---|---|
//! | `pace` | closed loop, or the due times of an open one |
//! | `channel` | a channel of the fabric as what is driven |
//! | `one` | a client that asks, waits for the answer and asks again: HTTP, transactions of others, a polite client |
//! | `threads` | several loops at once, a thread each |
//!
//! What is driven implements [`Driven`]: a channel, a session, a connection, or a set of connections that share a thread (`load::worker`).
//!
//! Closed loop: what is driven fills its free places itself, since it knows which of them became free. Open loop: each operation has a time at
//! which it should start; while no place is free the schedule stands still, so the operation starts late and its latency, counted from the
//! intended time, contains the wait (no coordinated omission, no queue to bound).
//!
//! Cost: generic over what is driven, so nothing is called through a pointer and nothing allocated for an operation. One clock read and one look at
//! `stop` in each turn, however many operations it starts and ends.
//!
//! Drivers that do not run on it, and why: `prove::soak` and `prove::lab::run` tell what they do before they do it, since a judge reads it.

mod channel;
mod one;
mod pace;
mod threads;

pub use channel::{Caller, Calls};
pub use one::{Ask, OneByOne};
pub use pace::{Pace, Schedule};
pub use threads::{settle, together};

use crate::tally::{Merge, Tally};
use base::cpu::thread_time;
use base::{Clock, Nanos, Prng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So that a stop is noticed.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(50);

/// What a loop does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long operations are started.
    pub length: Nanos,
    /// When they start. What is driven sees to the pauses of a closed loop.
    pub pace: Pace,
    /// Which of how many loops this is that share the rate.
    pub share: (u64, u64),
    /// Of the gaps of an open loop.
    pub random: Prng,
    /// Intervals of a series over time, if one is wanted.
    pub interval: Option<Nanos>,
}

impl Plan {
    /// As fast as answers come, for so long.
    pub fn full(length: Nanos) -> Plan {
        Plan { length, pace: Pace::FULL, share: (0, 1), random: Prng::new(0), interval: None }
    }

    /// This loop's share of a schedule, if the loop is open.
    fn schedule(&self, start: Nanos) -> Option<Schedule> {
        let Pace::Open { rate, poisson } = self.pace else { return None };
        Some(Schedule::new(start, rate, poisson, self.share.0, self.share.1, self.random.clone()))
    }
}

/// What came of an attempt to start an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It is under way.
    Started,
    /// No place is free.
    Full,
    /// There is nothing more to do.
    Exhausted,
    /// It cannot be started, nor can others, which the tally says: the run is over for all who share `stop`.
    Refused,
}

/// Why a loop cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What operations under way are counted as.
    pub failure: &'static str,
    /// In words.
    pub why: String,
}

/// See the file's head. A tally gets what ended, and what failed.
pub trait Driven {
    /// What it counts besides latencies.
    type Counts: Merge;

    /// Whether the delay of an open loop's starts is recorded, for one clock read each.
    const RECORDS_LAG: bool = false;

    /// Operations under way.
    fn under_way(&self) -> usize;

    /// Starts an operation whose latency counts from `meant`.
    ///
    /// # Errors
    /// The connection is lost.
    fn start(&mut self, meant: Nanos, tally: &mut Tally<Self::Counts>) -> Result<Start, Lost>;

    /// Closed loop: starts operations in free places; anything but [`Start::Started`].
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    fn refill(&mut self, now: Nanos, tally: &mut Tally<Self::Counts>) -> Result<Start, Lost> {
        loop {
            match self.start(now, tally)? {
                Start::Started => {}
                other => return Ok(other),
            }
        }
    }

    /// Sends what an open loop started.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    fn flush(&mut self, _tally: &mut Tally<Self::Counts>) -> Result<(), Lost> {
        Ok(())
    }

    /// Whether an open loop can start another operation.
    fn has_room(&self) -> bool;

    /// Sleeps, if it likes to, until something may have come; `until` at the latest. `is_open` says whether operations are still started.
    ///
    /// # Errors
    /// The system's.
    fn wait(&mut self, now: Nanos, until: Nanos, is_open: bool) -> Result<(), Lost>;

    /// Takes what has come; how many operations ended. Asked in every turn, with the turn's time.
    ///
    /// # Errors
    /// The connection is lost, or silent for too long.
    fn receive(&mut self, now: Nanos, tally: &mut Tally<Self::Counts>) -> Result<usize, Lost>;

    /// Gives up what is under way; how many operations that were.
    fn abandon(&mut self) -> u64;
}

/// Drives until the plan's end, until `stop`, or until there is nothing more to do; then waits for what is under way. `done` counts for a
/// progress bar.
pub fn drive<D: Driven>(
    driven: &mut D,
    plan: &Plan,
    start: Nanos,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Tally<D::Counts> {
    let clock = Clock::shared();
    let mut tally = Tally::default();
    if let Some(interval) = plan.interval {
        tally = Tally::new(start, interval);
    }
    while clock.now() < start {
        std::hint::spin_loop();
    }
    let cpu = thread_time();
    let mut turns = Turns { until: start.plus(plan.length), schedule: plan.schedule(start), is_open: true };
    if let Err(Lost { failure, why }) = turns.run(driven, &mut tally, stop, done) {
        let lost = driven.abandon();
        tally.fail(failure, lost.max(1), || why.clone());
        tally.fatal = Some(why);
    }
    tally.elapsed = clock.now().since(start);
    tally.client_cpu = thread_time().since(cpu);
    tally
}

struct Turns {
    until: Nanos,
    schedule: Option<Schedule>,
    /// Operations are still started.
    is_open: bool,
}

impl Turns {
    #[inline]
    fn run<D: Driven>(
        &mut self,
        driven: &mut D,
        tally: &mut Tally<D::Counts>,
        stop: &AtomicBool,
        done: &AtomicU64,
    ) -> Result<(), Lost> {
        let clock = Clock::shared();
        loop {
            let now = clock.now();
            if self.is_open && (now >= self.until || stop.load(Ordering::Relaxed)) {
                self.is_open = false;
                self.close(now.min(self.until), driven, tally)?;
            } else if self.is_open {
                let started = match self.schedule {
                    None => driven.refill(now, tally)?,
                    Some(_) => self.start_due(now, driven, tally)?,
                };
                if started == Start::Refused {
                    stop.store(true, Ordering::Relaxed);
                }
                self.is_open = started == Start::Full;
            }
            if !self.is_open && driven.under_way() == 0 {
                return Ok(());
            }
            let wake = self.next_start(driven).min(now.plus(LONGEST_SLEEP));
            driven.wait(now, wake, self.is_open)?;
            let ended = driven.receive(now, tally)?;
            if ended > 0 {
                done.fetch_add(ended as u64, Ordering::Relaxed);
            }
        }
    }

    /// Open loop: starts every operation due by `by`; [`Start::Full`] means that more are to come.
    fn start_due<D: Driven>(
        &mut self,
        by: Nanos,
        driven: &mut D,
        tally: &mut Tally<D::Counts>,
    ) -> Result<Start, Lost> {
        let Some(schedule) = &mut self.schedule else { return Ok(Start::Full) };
        let (mut started, mut last) = (false, Start::Full);
        while schedule.due() <= by {
            last = driven.start(schedule.due(), tally)?;
            if last != Start::Started {
                break;
            }
            started = true;
            if D::RECORDS_LAG {
                tally.record_lag(schedule.due(), Clock::shared().now());
            }
            schedule.advance();
        }
        if started {
            driven.flush(tally)?;
        }
        Ok(if last == Start::Started { Start::Full } else { last })
    }

    /// The end of an open loop: what was due by then is started, as far as there is room, and the rest counted.
    fn close<D: Driven>(
        &mut self,
        by: Nanos,
        driven: &mut D,
        tally: &mut Tally<D::Counts>,
    ) -> Result<(), Lost> {
        self.start_due(by, driven, tally)?;
        tally.unsent = self.schedule.take().map_or(0, |schedule| schedule.behind(by));
        Ok(())
    }

    /// When the next operation is to be started although nothing comes.
    #[inline]
    fn next_start<D: Driven>(&self, driven: &D) -> Nanos {
        match &self.schedule {
            _ if !self.is_open => Nanos::MAX,
            // With every place taken, only an answer lets the schedule go on.
            Some(schedule) if driven.has_room() => schedule.due().min(self.until),
            _ => self.until,
        }
    }
}

#[cfg(test)]
mod tests;
