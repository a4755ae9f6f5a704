//! The call machine: calls, streams and deadlines over the links of a connection. It never reads a clock.
//!
//! [`Channel`](super::Channel) is this with buffers for frames, a clock, and the typed level. What the application does is here
//! (`open`, `send`, `finish`, `cancel`, `grant`), what the server's frames mean in `receive`, switching in `switching`.
//!
//! Bounds: control frames that found no room are marks on their call's slot, and at most [`PONGS`] answers.

use super::calls::{CallId, Calls, State};
use super::error::StartError;
use super::event::Waiting;
use super::stream::Stream;
use super::switching::{Switch, Switching};
use super::watched::Watched;
use super::wheel::Wheel;
use super::{CallOptions, Method};
use crate::batch::{Batch, Policy};
use crate::connection::switch::Links;
use crate::frame::{HEADER, Header, Kind, MAX_MESSAGE, MAX_METADATA, Violation};
use crate::link::SendError;
use crate::monitor::Stamp;
use crate::status::{Code, Status};
use base::units::Nanos;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Answers to pings that may wait for room.
pub(super) const PONGS: usize = 16;

/// Bytes of memory that are kept for joining metadata and body.
const JOINED: usize = 64 << 10;

/// Whether calls may be started, and if not, why.
pub(super) enum Phase {
    Open,
    /// The server said Goodbye.
    Draining,
    /// The connection is over: what to tell the calls that are open, and how many slots were told.
    Over {
        why: Arc<str>,
        swept: u32,
    },
}

pub(super) struct Core {
    /// None when the connection is over.
    pub(super) links: Option<Links>,
    pub(super) calls: Calls,
    pub(super) wheel: Wheel,
    pub(super) phase: Phase,
    /// Items of a stream that each side may send before credit comes.
    pub(super) window: u32,
    /// Calls with a timeout that was not counted from any time yet.
    fresh: Vec<(CallId, Duration)>,
    /// When frames are published, on rings.
    pub(super) batching: Policy,
    /// Frames taken by the link since it was flushed.
    pub(super) unflushed: Batch,
    /// Slots that owe a Cancel or a Credit.
    pub(super) owing: VecDeque<u32>,
    pub(super) pongs: VecDeque<u32>,
    /// A Ping that is to be sent.
    pub(super) ping: Option<u32>,
    /// What the last Pong answered.
    pub(super) pong: Option<u32>,
    /// Streams that have something to hand out.
    pub(super) ready: VecDeque<CallId>,
    /// Outcomes that this side gave between polls.
    pub(super) outcomes: VecDeque<Waiting>,
    pub(super) switching: Switching,
    pub(super) watched: Option<Box<Watched>>,
    /// For metadata and body together, when the metadata is too long for a frame's head.
    joined: Vec<u8>,
    #[cfg(test)]
    pub(super) planted: Option<super::simulation::Planted>,
}

impl Core {
    pub(super) fn new(
        links: Links,
        calls: usize,
        window: u32,
        (switching, batching): (Switching, Policy),
    ) -> Core {
        Core {
            batching,
            unflushed: Batch::new(batching.over(links.transport())),
            links: Some(links),
            calls: Calls::new(calls),
            wheel: Wheel::new(calls),
            phase: Phase::Open,
            window,
            fresh: Vec::new(),
            owing: VecDeque::new(),
            pongs: VecDeque::new(),
            ping: None,
            pong: None,
            ready: VecDeque::new(),
            outcomes: VecDeque::new(),
            switching,
            watched: None,
            joined: Vec::new(),
            #[cfg(test)]
            planted: None,
        }
    }

    /// Starts a call; true if it should be published at once.
    #[inline]
    pub(super) fn open(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        body: &[u8],
    ) -> Result<(CallId, bool), StartError> {
        if !matches!(self.phase, Phase::Open) {
            return Err(self.refusal());
        }
        let id = self.calls.next().ok_or(StartError::Full)?;
        let mut header = Header::new(Kind::Request, id.number());
        header.method = method.number;
        header.aux = options.timeout.map_or(0, micros);
        let stream = if method.is_unary() { None } else { Some(self.stream_of(method, options, body)?) };
        let (epoch, stamp) = match self.watched {
            None => (self.send_with(header, options.metadata, body)?, Stamp::NONE),
            Some(_) => self.send_watched(header, options, body)?,
        };
        self.calls.open(user, method.number, epoch, stream);
        self.calls.slot(id.slot()).stamp = stamp;
        if let Some(timeout) = options.timeout {
            self.fresh.push((id, timeout));
        }
        let in_flight = self.calls.in_flight();
        // Asked first: a lone call counts too.
        let enough = self.unflushed.put(in_flight as u32);
        Ok((id, enough || in_flight == 1))
    }

    /// Sends a Request, and tells the monitor.
    #[inline]
    fn send_watched(
        &mut self,
        header: Header,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<(u8, Stamp), StartError> {
        let mut watched = self.watched.take().expect("asked before");
        let stamp = watched.look(options);
        let replaced = if stamp.is_sampled() { watched.metadata(stamp, options.metadata) } else { None };
        let metadata = replaced.unwrap_or(options.metadata);
        let len = HEADER + metadata.len() + body.len();
        let sent = self.send_with(header, metadata, body);
        match sent {
            Ok(_) => {
                watched.started(stamp, header.method);
                watched.sent(len);
            }
            Err(StartError::Full) => watched.full(),
            Err(_) => {}
        }
        self.watched = Some(watched);
        sent.map(|epoch| (epoch, stamp))
    }

    #[cold]
    fn refusal(&self) -> StartError {
        if matches!(self.phase, Phase::Draining) { StartError::Draining } else { StartError::Gone }
    }

    #[inline(never)]
    fn stream_of(
        &self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<Box<Stream>, StartError> {
        if method.client_streaming && !body.is_empty() {
            return Err(StartError::Shape);
        }
        let (incoming, outgoing) = (method.server_streaming, method.client_streaming);
        #[cfg_attr(not(test), expect(unused_mut, reason = "tests plant a bug"))]
        let mut stream = Stream::new(incoming, outgoing, options.explicit_credit, self.window);
        #[cfg(test)]
        {
            stream.hasty = self.planted == Some(super::simulation::Planted::ItemsAsTheyCome);
        }
        Ok(Box::new(stream))
    }

    /// Sends a frame with metadata; the epoch of the link that took it.
    #[inline]
    fn send_with(&mut self, mut header: Header, metadata: &[u8], body: &[u8]) -> Result<u8, StartError> {
        let links = self.links.as_mut().ok_or(StartError::Gone)?;
        if body.len() > MAX_MESSAGE || metadata.len() > MAX_METADATA {
            return Err(StartError::TooLarge);
        }
        if metadata.is_empty() {
            links.send(&header.emit(), body).map_err(refused)?;
            return Ok(links.epoch());
        }
        header.metadata = metadata.len() as u32;
        self.joined.clear();
        self.joined.extend_from_slice(metadata);
        self.joined.extend_from_slice(body);
        links.send(&header.emit(), &self.joined).map_err(refused)?;
        if self.joined.capacity() > JOINED {
            self.joined = Vec::new();
        }
        Ok(links.epoch())
    }

    /// Sends a further message of a client's stream; true if it should be published at once.
    pub(super) fn send(&mut self, call: CallId, body: &[u8]) -> Result<bool, StartError> {
        if body.len() > MAX_MESSAGE {
            return Err(StartError::TooLarge);
        }
        let stream = outgoing(&mut self.calls, call)?;
        if !stream.may_send() {
            return Err(StartError::Full);
        }
        let header = Header { aux: stream.sent, ..Header::new(Kind::Item, call.number()) };
        let links = self.links.as_mut().ok_or(StartError::Gone)?;
        links.send(&header.emit(), body).map_err(refused)?;
        stream.sent = stream.sent.wrapping_add(1);
        self.count_sent(HEADER + body.len());
        // As many are out there as the window lets be.
        Ok(self.unflushed.put(self.window))
    }

    /// Ends a client's stream.
    pub(super) fn finish(&mut self, call: CallId) -> Result<(), StartError> {
        let stream = outgoing(&mut self.calls, call)?;
        let header = Header { aux: stream.sent, ..Header::new(Kind::Finish, call.number()) };
        let links = self.links.as_mut().ok_or(StartError::Gone)?;
        links.send(&header.emit(), &[]).map_err(refused)?;
        stream.finished = true;
        self.unflushed.put(0);
        self.count_sent(HEADER);
        Ok(())
    }

    /// Allows more items of a server's stream.
    pub(super) fn grant(&mut self, call: CallId, items: u32) {
        if let Some(stream) = self.calls.find_waiting(call).and_then(|slot| slot.stream.as_mut()) {
            stream.grant(items);
            self.owe(call.slot());
        }
    }

    /// An item was handed out.
    pub(super) fn handed_out(&mut self, call: CallId) {
        let stream = self.calls.find_waiting(call).and_then(|slot| slot.stream.as_mut());
        if stream.is_some_and(|stream| stream.handed_out()) {
            self.owe(call.slot());
        }
    }

    /// Ends a call from this side; false if it has its outcome already.
    pub(super) fn cancel(&mut self, call: CallId) -> bool {
        let Some(slot) = self.calls.find_waiting(call) else { return false };
        let status = Status::new(Code::Cancelled, "cancelled by the caller");
        self.outcomes.push_back(Waiting::ending(call, slot.user, Some(status), Box::default()));
        self.count_given_up(call.slot(), Code::Cancelled);
        self.abandon(call.slot());
        true
    }

    /// A call's deadline has come; it fails now.
    pub(super) fn expired(&mut self, now: Nanos) -> Option<(CallId, u64)> {
        let slot = self.wheel.due(now)?;
        let at = self.calls.slot(slot);
        at.timed = false;
        assert!(at.state == State::Waiting, "only calls without an outcome have a deadline");
        let user = at.user;
        let call = self.calls.id_of(slot);
        self.count_given_up(slot, Code::DeadlineExceeded);
        self.abandon(slot);
        Some((call, user))
    }

    /// The call has its outcome; its slot waits for the Reply, which the server is asked to hurry.
    pub(super) fn abandon(&mut self, slot: u32) {
        self.untime(slot);
        #[cfg(test)]
        if self.planted == Some(super::simulation::Planted::ZombieForgotten) {
            self.calls.close(slot);
            return;
        }
        let at = self.calls.slot(slot);
        at.state = State::Zombie;
        let (complete, replied) = match &mut at.stream {
            Some(stream) => {
                stream.forget();
                (stream.is_complete(), stream.is_replied())
            }
            None => (false, false),
        };
        if complete {
            self.calls.close(slot);
        } else if !replied {
            at.owes_cancel = true;
            self.owe(slot);
        }
    }

    /// Takes a slot's deadline away.
    #[inline]
    pub(super) fn untime(&mut self, slot: u32) {
        if std::mem::take(&mut self.calls.slot(slot).timed) {
            self.wheel.remove(slot);
        }
    }

    /// Publishes what was started. Timeouts count from now.
    pub(super) fn publish(&mut self, now: Nanos) {
        for (call, timeout) in self.fresh.drain(..) {
            if let Some(slot) = self.calls.find_waiting(call) {
                slot.timed = true;
                self.wheel.add(call.slot(), now.plus(Nanos::from(timeout)), now);
            }
        }
        if !self.owing.is_empty() || !self.pongs.is_empty() || self.ping.is_some() {
            self.settle();
        }
        self.unflushed.take();
        if let Some(links) = &mut self.links {
            if let Some(watched) = &mut self.watched {
                watched.published(links, now);
            }
            links.flush(now);
            self.unflushed.set(self.batching.over(links.transport()));
        }
    }

    /// Whether something must be published now: all but frames that wait in a ring for company.
    #[inline]
    pub(super) fn must_publish(&self, now: Nanos) -> bool {
        let of_links = |links: &Links| {
            let waits = self.unflushed.waiting() > 0 && !links.transport().is_ring();
            waits || links.next_deadline() <= now
        };
        self.owes() || self.links.as_ref().is_some_and(of_links)
    }

    /// Whether there is more to publishing than showing frames: control frames, timeouts that begin, a switch.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        let frames = !self.owing.is_empty() || !self.pongs.is_empty() || self.ping.is_some();
        frames || !self.fresh.is_empty() || self.links.as_ref().is_some_and(Links::is_switching)
    }

    /// The connection is over: every call that is open is to be told why.
    pub(super) fn end(&mut self, why: &str) {
        if !matches!(self.phase, Phase::Over { .. }) {
            self.phase = Phase::Over { why: why.into(), swept: 0 };
            self.links = None;
            self.switching.stop();
            self.owing.clear();
            self.pongs.clear();
            self.ping = None;
        }
    }

    /// After the end: the next call that is open, closed.
    pub(super) fn sweep(&mut self) -> Option<(CallId, u64, Status)> {
        let Phase::Over { why, swept } = &mut self.phase else { return None };
        while (*swept as usize) < self.calls.len() {
            let slot = *swept;
            *swept += 1;
            let call = self.calls.id_of(slot);
            let at = self.calls.slot(slot);
            let (state, user) = (at.state, at.user);
            let was_timed = std::mem::take(&mut at.timed);
            if let (State::Waiting, Some(watched)) = (state, &mut self.watched) {
                watched.given_up(at, Code::Unavailable);
            }
            if was_timed {
                self.wheel.remove(slot);
            }
            if state != State::Free {
                self.calls.close(slot);
            }
            #[cfg(test)]
            let state = match self.planted {
                Some(super::simulation::Planted::OutcomeTwice) if state == State::Zombie => State::Waiting,
                _ => state,
            };
            if state == State::Waiting {
                return Some((call, user, Status::lost(&**why)));
            }
        }
        None
    }

    /// Notes a violation of the server's.
    #[cold]
    pub(super) fn violated(&mut self, violation: Violation) {
        self.end(&format!("the server broke the protocol: {}", violation.0));
    }

    /// Plants a bug.
    #[cfg(test)]
    pub(super) fn plant(&mut self, planted: Option<super::simulation::Planted>) {
        use super::simulation::Planted;
        self.planted = planted;
        self.calls.forgiving = planted == Some(Planted::AnyGeneration);
        let links = self.links.as_mut().expect("just connected");
        links.miscounts = planted == Some(Planted::LastMiscounted);
    }

    /// How much waits in queues that are no part of a call's slot.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.fresh.len() + self.owing.len() + self.pongs.len() + self.ready.len() + self.outcomes.len()
    }

    /// When [`Channel::poll`](super::Channel::poll) is to be called though nothing arrives.
    pub(super) fn next_deadline(&self) -> Nanos {
        let switches = self.switching.is_waiting() && self.switch_state() == Switch::Joining;
        if self.has_events() || !self.fresh.is_empty() || switches {
            return Nanos::ZERO;
        }
        let links = self.links.as_ref().map_or(Nanos::MAX, Links::next_deadline);
        links.min(self.switching.next_deadline()).min(self.wheel.next())
    }
}

fn outgoing(calls: &mut Calls, call: CallId) -> Result<&mut Stream, StartError> {
    let slot = calls.find_waiting(call).ok_or(StartError::Ended)?;
    let stream = slot.stream.as_mut().ok_or(StartError::Shape)?;
    match (stream.outgoing, stream.finished || stream.is_replied()) {
        (false, _) => Err(StartError::Shape),
        (true, true) => Err(StartError::Ended),
        (true, false) => Ok(stream),
    }
}

fn refused(error: SendError) -> StartError {
    match error {
        SendError::Full => StartError::Full,
        SendError::TooLarge => StartError::TooLarge,
        SendError::Gone => StartError::Gone,
    }
}

/// As a Request says it: at least 1; 0, without end, where it does not fit.
fn micros(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_micros().max(1)).unwrap_or(0)
}
