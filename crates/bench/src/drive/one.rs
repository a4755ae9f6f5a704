//! A client that asks, waits for the answer, pauses if it is told to, and asks again.

use super::{Driven, Lost, Start};
use crate::tally::{Merge, Tally};
use base::{Clock, Nanos};

/// Such a client's protocol.
pub trait Ask {
    /// What it counts besides latencies.
    type Counts: Merge;

    /// Asks, waits for the answer, and checks it: the tally gets an operation that began at `meant` and ended when the answer was here, or a failure.
    ///
    /// # Errors
    /// It cannot go on.
    fn ask(&mut self, meant: Nanos, tally: &mut Tally<Self::Counts>) -> Result<(), Lost>;
}

/// See the file's head.
#[derive(Debug)]
pub struct OneByOne<A> {
    /// Who asks.
    pub asker: A,
    /// Between an answer and the next question.
    pub pause: Nanos,
    next: Option<Nanos>,
    rested_at: Nanos,
}

impl<A: Ask> OneByOne<A> {
    /// Without pauses.
    pub fn new(asker: A) -> OneByOne<A> {
        OneByOne { asker, pause: Nanos::ZERO, next: None, rested_at: Nanos::ZERO }
    }
}

impl<A: Ask> Driven for OneByOne<A> {
    type Counts = A::Counts;

    fn under_way(&self) -> usize {
        usize::from(self.next.is_some())
    }

    fn start(&mut self, meant: Nanos, _tally: &mut Tally<A::Counts>) -> Result<Start, Lost> {
        if self.next.is_some() || meant < self.rested_at {
            return Ok(Start::Full);
        }
        self.next = Some(meant);
        Ok(Start::Started)
    }

    fn has_room(&self) -> bool {
        self.next.is_none()
    }

    fn wait(&mut self, _now: Nanos, until: Nanos, _is_open: bool) -> Result<(), Lost> {
        if self.next.is_none() {
            let wake = if self.pause == Nanos::ZERO { until } else { until.min(self.rested_at) };
            std::thread::sleep(wake.since(Clock::shared().now()).into());
        }
        Ok(())
    }

    fn receive(&mut self, _now: Nanos, tally: &mut Tally<A::Counts>) -> Result<usize, Lost> {
        let Some(meant) = self.next.take() else { return Ok(0) };
        self.asker.ask(meant, tally)?;
        if self.pause > Nanos::ZERO {
            self.rested_at = Clock::shared().now().plus(self.pause);
        }
        Ok(1)
    }

    fn abandon(&mut self) -> u64 {
        self.next = None;
        0
    }
}
