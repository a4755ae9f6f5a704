//! A channel of the fabric as what is driven: calls kept under way, outcomes counted, latencies recorded.
//!
//! A call carries the time it was meant to start as its `user` word, so nothing is kept per call.
//!
//! Cost: two clock reads per poll, not per call; a histogram entry per `sample` calls.

use super::{Driven, Lost, Start};
use crate::tally::{Merge, Tally};
use base::{Clock, Nanos};
use fabric::channel::{Channel, Event, StartError, What};
use fabric::status::Status;
use ring::wait::WaitPolicy;

/// Without an event for this long a thread that may sleep does not poll by itself any more, but waits.
const POLL_BEFORE_WAIT: Nanos = Nanos::from_micros(2);

/// What starts calls and checks replies.
pub trait Caller {
    /// What it counts besides latencies.
    type Counts: Merge;

    /// Starts a call.
    ///
    /// # Errors
    /// It was not started.
    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError>;

    /// Looks at a reply.
    ///
    /// # Errors
    /// It is wrong.
    fn check(&mut self, event: &mut Event<'_>, counts: &mut Self::Counts) -> Result<(), Status>;
}

/// See the file's head.
pub struct Calls<'c, C> {
    channel: &'c mut Channel,
    caller: C,
    /// Calls under way at most.
    window: usize,
    under_way: usize,
    /// Calls that may still be started.
    pub left: u64,
    /// Of how many calls one is timed.
    sample: u32,
    /// Until the next one is timed.
    untimed: u32,
    /// Never sleeps.
    pub spin: bool,
    last_event: Nanos,
}

impl<'c, C: Caller> Calls<'c, C> {
    /// At most `window` calls under way, of `sample` of which one is timed.
    pub fn new(channel: &'c mut Channel, caller: C, window: usize, sample: u32) -> Calls<'c, C> {
        Calls {
            channel,
            caller,
            window,
            under_way: 0,
            left: u64::MAX,
            sample,
            untimed: sample,
            spin: false,
            last_event: Nanos::ZERO,
        }
    }
}

#[cold]
fn fail<C: Merge>(tally: &mut Tally<C>, status: &Status) {
    tally.fail(status.code().name(), 1, || status.to_string());
}

impl<C: Caller> Driven for Calls<'_, C> {
    type Counts = C::Counts;

    fn under_way(&self) -> usize {
        self.under_way
    }

    #[inline]
    fn start(&mut self, meant: Nanos, tally: &mut Tally<C::Counts>) -> Result<Start, Lost> {
        if self.under_way >= self.window {
            return Ok(Start::Full);
        }
        if self.left == 0 {
            return Ok(Start::Exhausted);
        }
        Ok(match self.caller.start(self.channel, meant.0) {
            Ok(()) => {
                self.under_way += 1;
                self.left -= 1;
                Start::Started
            }
            Err(StartError::Full) => Start::Full,
            Err(error) => {
                fail(tally, &error.into());
                Start::Refused
            }
        })
    }

    fn has_room(&self) -> bool {
        self.under_way < self.window
    }

    #[inline]
    fn wait(&mut self, now: Nanos, until: Nanos, _is_open: bool) -> Result<(), Lost> {
        if !self.spin && now.since(self.last_event) > POLL_BEFORE_WAIT {
            self.channel.wait(WaitPolicy::default(), Some(until.since(now).into()));
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, now: Nanos, tally: &mut Tally<C::Counts>) -> Result<usize, Lost> {
        let clock = Clock::shared();
        let mut arrived = None;
        let Calls { channel, caller, window, under_way, sample, untimed, .. } = self;
        let count = channel.poll((*window).max(64), |mut event| {
            let at = *arrived.get_or_insert_with(|| clock.now());
            *under_way -= 1;
            let outcome = match &event.what {
                What::Failed(status) => Err(status.clone()),
                _ => caller.check(&mut event, &mut tally.counts),
            };
            if let Err(status) = outcome {
                return fail(tally, &status);
            }
            *untimed -= 1;
            if *untimed > 0 {
                tally.untimed += 1;
                return;
            }
            *untimed = *sample;
            tally.record((), Nanos(event.user), at);
        });
        if count > 0 {
            self.last_event = now;
        }
        Ok(count)
    }

    fn abandon(&mut self) -> u64 {
        std::mem::take(&mut self.under_way) as u64
    }
}
