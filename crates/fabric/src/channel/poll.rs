//! The completion queue: frames, deadlines and what else ends a call, handed out as events.

use super::core::{Core, Phase};
use super::event::{Event, Happened, Scratch, What};
use super::{Channel, Time};
use crate::connection::switch::{Received, Side};
use crate::link::Frames;
use crate::status::{Code, Status};
use base::units::Nanos;

/// Frames that are taken from a link in one go.
const BATCH: usize = 256;

impl Channel {
    /// Publishes what was started, unless frames arrived and it waits for company in a ring ([`batch`](crate::batch); whoever polls no
    /// further calls [`Channel::flush`]), takes what arrived, and hands out up to `max` events; how many. Events of one call come in
    /// order; its last one says so ([`What::is_terminal`]).
    #[inline]
    pub fn poll(&mut self, max: usize, each: impl FnMut(Event<'_>)) -> usize {
        self.poll_now(self.time.now(), max, each)
    }

    /// As [`Channel::poll`], with the time; from then on the channel reads no clock. For simulations, and for loops that know the time anyway.
    pub fn poll_at(&mut self, now: Nanos, max: usize, each: impl FnMut(Event<'_>)) -> usize {
        self.time = Time::Given(now);
        self.poll_now(now, max, each)
    }

    #[inline]
    fn poll_now(&mut self, now: Nanos, max: usize, mut each: impl FnMut(Event<'_>)) -> usize {
        let mut count = 0;
        while count < max
            && let Some(kept) = self.backlog.pop_front()
        {
            if !kept.happened().what.is_terminal() {
                self.core.handed_out(kept.call);
            }
            each(Event::new(kept.happened(), &mut self.scratch));
            count += 1;
        }
        count
            + self.turn::<true>(now, max - count, |happened, scratch| {
                each(Event::new(happened, scratch));
            })
    }

    /// One turn. `CREDIT`: items that are handed out are credited at once, for they reach whoever reads.
    #[inline]
    pub(super) fn turn<const CREDIT: bool>(
        &mut self,
        now: Nanos,
        max: usize,
        mut each: impl FnMut(Happened<'_>, &mut Scratch),
    ) -> usize {
        self.follow();
        let Channel { core, frames, from, scratch, .. } = self;
        if core.must_publish(now) {
            core.publish(now);
        }
        if frames.is_empty() && core.ready.is_empty() {
            core.receive(now, frames, from);
            if core.unflushed.polled(frames.len()) {
                core.publish(now);
            }
        }
        let mut count = 0;
        while count < max {
            if !core.ready.is_empty() {
                let Some(kept) = core.next_ready() else { continue };
                if CREDIT {
                    core.handed_out(kept.call);
                }
                each(kept.happened(), scratch);
                count += 1;
                continue;
            }
            let Some(bytes) = frames.pop() else { break };
            match core.handle(bytes, *from) {
                Ok(None) => {}
                Ok(Some(happened)) => {
                    if CREDIT && matches!(happened.what, What::Item(_)) {
                        core.handed_out(happened.call);
                    }
                    each(happened, scratch);
                    count += 1;
                }
                Err(violation) => {
                    core.violated(violation);
                    frames.clear();
                }
            }
        }
        count += core.conclude(now, max - count, frames, |happened| each(happened, scratch));
        if core.owes() {
            core.publish(now);
        }
        count
    }

    /// Whether a turn would find something, as far as is known without looking at the links.
    pub(super) fn has_something(&self) -> bool {
        !self.frames.is_empty() || self.core.has_events()
    }

    /// Looks at the links; whether a turn would find something.
    pub(super) fn look(&mut self, now: Nanos) -> bool {
        if !self.has_something() {
            self.core.receive(now, &mut self.frames, &mut self.from);
        }
        self.has_something()
    }
}

impl Core {
    /// Takes frames from a link into `frames`, which is empty.
    #[inline]
    fn receive(&mut self, now: Nanos, frames: &mut Frames, from: &mut Side) {
        frames.clear();
        if self.switching.is_busy()
            && let Some(early) = self.join(now)
        {
            (*frames, *from) = (early, Side::Current);
            if !frames.is_empty() {
                return;
            }
        }
        let Some(links) = &mut self.links else { return };
        match links.recv(now, BATCH, frames) {
            Ok(Received::Frames(_, side)) => {
                *from = side;
                if let Some(watched) = &mut self.watched {
                    watched.received(frames, now);
                }
            }
            Ok(Received::OldLost(lost)) => self.old_lost(lost),
            Err(lost) => self.end(&lost.to_string()),
        }
    }

    /// Hands out what ends calls without a frame: deadlines, cancels, the end of the connection (once all that arrived was handled).
    #[inline]
    fn conclude(
        &mut self,
        now: Nanos,
        max: usize,
        frames: &Frames,
        mut each: impl FnMut(Happened<'_>),
    ) -> usize {
        let mut count = 0;
        while count < max
            && let Some(kept) = self.outcomes.pop_front()
        {
            each(kept.happened());
            count += 1;
        }
        while count < max
            && let Some((call, user)) = self.expired(now)
        {
            each(failed(call, user, Status::new(Code::DeadlineExceeded, "the deadline has passed")));
            count += 1;
        }
        let drained = frames.is_empty() && self.ready.is_empty();
        while count < max
            && drained
            && let Some((call, user, status)) = self.sweep()
        {
            each(failed(call, user, status));
            count += 1;
        }
        count
    }

    /// Whether a turn would hand out something though no frame arrived and no time passed.
    pub(super) fn has_events(&self) -> bool {
        let over = matches!(self.phase, Phase::Over { .. }) && self.calls.in_flight() > 0;
        over || !self.ready.is_empty() || !self.outcomes.is_empty()
    }
}

fn failed(call: super::CallId, user: u64, status: Status) -> Happened<'static> {
    Happened { call, user, what: What::Failed(status), metadata: &[] }
}
