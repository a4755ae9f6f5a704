//! One client, as the server sees it: its links, what it is owed, and what is open.
//!
//! Shape:
//! ```text
//!  a link ──Hello──▶ Open ──drain──▶ Draining ──▶ over
//!     └──── Hello with a token: it becomes the second link of that token's connection
//! ```
//! What frames mean is in [`take`](super::take), the handshake in [`greet`](super::greet).
//!
//! Invariants:
//! 1. While a frame waits for room in the link, or stream items weigh more than allowed, nothing is taken from this connection.
//! 2. For each Request that was taken there is one Reply: handed to the link, waiting, or owed by an open call.
//!
//! Bounds: the frames that wait are one of the frame being taken, and one for each call that was open. A batch that could not be
//! taken to its end stays here, [`Frames::ENOUGH`] bytes and a frame.

use super::Core;
use super::calls::{Calls, Kind};
use super::watched::Traffic;
use crate::batch::{Batch as Publication, Policy};
use crate::connection::handshake::Token;
use crate::connection::switch::{Links, Side};
use crate::frame::{self, HEADER, Header};
use crate::link::{Frames, Lost, SendError, Transport};
use crate::service::{Held, Outgoing, Pumped};
use crate::status::{Code, Status};
use base::rights::Peer;
use base::units::Nanos;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its link did.
    Lost(Lost),
    /// The client broke the protocol.
    Violation(&'static str),
    /// It had no room for its replies for too long.
    Stuck,
    /// No frame for too long.
    Idle,
    /// [`Server::close`](super::Server::close).
    Closed,
    /// Everything was answered, and no more was taken.
    Drained,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Lost(lost) => lost.fmt(f),
            End::Violation(what) => write!(f, "the client broke the protocol: {what}"),
            End::Stuck => f.write_str("the client took no replies for too long"),
            End::Idle => f.write_str("the client was silent for too long"),
            End::Closed => f.write_str("the server closed it"),
            End::Drained => f.write_str("the server is shutting down"),
        }
    }
}

/// What a connection did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came.
    pub frames_in: u64,
    /// Frames that the link took.
    pub frames_out: u64,
    /// Bytes of them.
    pub bytes_in: u64,
    /// Bytes of them.
    pub bytes_out: u64,
    /// Requests that were taken.
    pub requests: u64,
    /// Replies to them, handed to the link or waiting for it.
    pub replies: u64,
    /// Replies that were no success.
    pub failed: u64,
    /// Cancels that found their call open.
    pub cancelled: u64,
    /// Times that the link had no room.
    pub full: u64,
}

impl Counters {
    /// Adds what another connection did.
    pub fn add(&mut self, other: &Counters) {
        self.frames_in += other.frames_in;
        self.frames_out += other.frames_out;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.requests += other.requests;
        self.replies += other.replies;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.full += other.full;
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Goodbye was said; `since` when, and whether the Ping behind it was answered.
    Draining {
        since: Nanos,
        answered: bool,
    },
}

/// Frames that were received and not taken yet.
pub(super) struct Batch {
    pub(super) frames: Frames,
    pub(super) side: Side,
    pub(super) arrived: Nanos,
}

pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) links: Links,
    /// Who calls, where not everybody may call everything.
    pub(super) peer: Option<Box<Peer>>,
    pub(super) phase: Phase,
    pub(super) token: Token,
    pub(super) max_calls: usize,
    pub(super) window: u32,
    pub(super) calls: Calls,
    /// Whole frames that found no room.
    waiting: VecDeque<Vec<u8>>,
    /// Streams that have more to send.
    stalled: VecDeque<u32>,
    /// Since when something has found no room.
    blocked_since: Option<Nanos>,
    pub(super) kept: Batch,
    /// A Request that there was no room for where it is to run.
    pub(super) refused: Option<(Vec<u8>, Nanos)>,
    pub(super) held: Arc<Held>,
    /// Something was sent that was not published.
    pub(super) dirty: bool,
    publication: Publication,
    /// Enough was sent to publish it in the middle of a turn.
    is_due: bool,
    /// Frames that this turn took.
    pub(super) taken: usize,
    pub(super) opened: Nanos,
    pub(super) heard: Nanos,
    /// When something was last sent, or it was taken up.
    pub(super) stirred: Nanos,
    /// While it is calm: when its link has something to do though nothing happens.
    pub(super) calm_until: Option<Nanos>,
    pub(super) counters: Counters,
    /// What the monitor was told of them.
    pub(super) traffic: Option<Traffic>,
    pub(super) over: Option<End>,
}

impl Connection {
    pub(super) fn new(
        number: u64,
        links: Links,
        token: Token,
        calls: u32,
        window: u32,
        now: Nanos,
    ) -> Connection {
        Connection {
            number,
            links,
            peer: None,
            phase: Phase::Open,
            token,
            max_calls: calls as usize,
            window,
            calls: Calls::default(),
            waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            blocked_since: None,
            kept: Batch { frames: Frames::default(), side: Side::Current, arrived: now },
            refused: None,
            held: Arc::default(),
            dirty: false,
            publication: Publication::new(Policy::default()),
            is_due: false,
            taken: 0,
            opened: now,
            heard: now,
            stirred: now,
            calm_until: None,
            counters: Counters::default(),
            traffic: None,
            over: None,
        }
    }

    pub(super) fn transport(&self) -> Transport {
        self.links.transport()
    }

    /// Ends the connection; the server sees to the rest after this turn.
    pub(super) fn end(&mut self, why: End) {
        self.over.get_or_insert(why);
    }

    /// Sends a frame, or keeps it until there is room; false then.
    #[inline]
    pub(super) fn send(&mut self, head: &[u8], body: &[u8], now: Nanos) -> bool {
        if self.waiting.is_empty() {
            match self.try_send(head, body) {
                Ok(()) => {
                    self.publish_if_due(now);
                    return true;
                }
                // `recv` says why.
                Err(SendError::Gone) => return true,
                Err(SendError::Full) => {}
                Err(SendError::TooLarge) => unreachable!("a frame is bounded where it is made"),
            }
        }
        self.wait_for_room([head, body].concat(), now);
        false
    }

    #[inline]
    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        self.links.send(head, body)?;
        self.dirty = true;
        self.is_due |= self.publication.put(self.publication.peak());
        self.counters.frames_out += 1;
        self.counters.bytes_out += (head.len() + body.len()) as u64;
        Ok(())
    }

    #[inline]
    fn publish_if_due(&mut self, now: Nanos) {
        if std::mem::take(&mut self.is_due) {
            self.links.flush(now);
            self.dirty = self.publication.waiting() > 0;
        }
    }

    #[cold]
    fn wait_for_room(&mut self, frame: Vec<u8>, now: Nanos) {
        self.counters.full += 1;
        self.blocked_since.get_or_insert(now);
        self.waiting.push_back(frame);
    }

    /// Sends a header alone.
    pub(super) fn send_header(&mut self, header: Header, now: Nanos) -> bool {
        self.send(&header.emit(), &[], now)
    }

    /// Sends a Reply that was made elsewhere.
    pub(super) fn reply(&mut self, frame: &[u8], now: Nanos) -> bool {
        self.counters.replies += 1;
        self.counters.failed += u64::from(frame[2..4] != [0, 0]);
        self.send(&frame[..HEADER], &frame[HEADER..], now)
    }

    /// Whether something waits for room.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since.is_some()
    }

    /// Whether frames may be taken, after what waits was offered again.
    #[inline]
    pub(super) fn may_take(&mut self, core: &mut Core, now: Nanos) -> bool {
        if self.is_blocked() {
            self.offer_again(core, now);
        }
        self.waiting.is_empty() && !self.held.exceeds(core.options.held_bytes)
    }

    /// Whether frames may not be taken though there are some.
    pub(super) fn must_wait(&self, core: &Core) -> bool {
        let held = self.held.exceeds(core.options.held_bytes);
        held || !self.waiting.is_empty() || self.refused.is_some()
    }

    #[cold]
    fn offer_again(&mut self, core: &mut Core, now: Nanos) {
        let mut progress = false;
        while let Some(frame) = self.waiting.pop_front() {
            match self.try_send(&frame[..HEADER], &frame[HEADER..]) {
                Ok(()) | Err(SendError::Gone) => progress = true,
                Err(_) => {
                    self.waiting.push_front(frame);
                    break;
                }
            }
        }
        let streams = if self.waiting.is_empty() { self.stalled.len() } else { 0 };
        for _ in 0..streams {
            let Some(call) = self.stalled.pop_front() else { break };
            if let Some(Kind::Stream { stalled, .. }) = self.calls.get(call).map(|open| &mut open.kind) {
                *stalled = false;
                let before = self.counters.frames_out;
                self.pump(core, call, now);
                progress |= self.counters.frames_out != before;
            }
        }
        let blocked = !self.waiting.is_empty() || !self.stalled.is_empty();
        match (blocked, progress) {
            (false, _) => self.blocked_since = None,
            (true, true) => self.blocked_since = Some(now),
            (true, false) => {}
        }
    }

    /// Sends what a stream has to send.
    pub(super) fn pump(&mut self, core: &mut Core, call: u32, now: Nanos) {
        let Some(Kind::Stream { shared, stalled, .. }) = self.calls.get(call).map(|open| &mut open.kind)
        else {
            return;
        };
        if *stalled {
            return;
        }
        let shared = Arc::clone(shared);
        let free = self.waiting.is_empty();
        let mut code = Code::Ok;
        let offer = |what: Outgoing<'_>| {
            if let Outgoing::Reply(_, Err(status)) = &what {
                code = status.code();
            }
            free && self.send_of(call, what)
        };
        match shared.pump(offer) {
            Pumped::Dry => {}
            Pumped::Over => {
                shared.abandon();
                self.watch_end_of(core, call, code);
                self.close_call(core, call);
            }
            Pumped::Full => {
                self.counters.full += 1;
                self.blocked_since.get_or_insert(now);
                self.stalled.push_back(call);
                if let Some(Kind::Stream { stalled, .. }) = self.calls.get(call).map(|open| &mut open.kind) {
                    *stalled = true;
                }
            }
        }
        self.publish_if_due(now);
    }

    /// Sends what a stream offers; false when there is no room.
    fn send_of(&mut self, call: u32, what: Outgoing<'_>) -> bool {
        let header = |kind, aux| Header { aux, ..Header::new(kind, call) };
        let sent = match what {
            Outgoing::Credit(items) => self.try_send(&header(frame::Kind::Credit, items).emit(), &[]),
            Outgoing::Item(number, body) => self.try_send(&header(frame::Kind::Item, number).emit(), body),
            Outgoing::Reply(items, Ok(body)) => {
                let header = Header { flags: frame::END, ..header(frame::Kind::Reply, items) };
                self.try_send(&header.emit(), body.unwrap_or_default())
            }
            Outgoing::Reply(items, Err(status)) => {
                let frame = super::failure(call, items, status);
                let sent = self.try_send(&frame[..HEADER], &frame[HEADER..]);
                self.counters.failed += u64::from(sent.is_ok());
                sent
            }
        };
        let took = sent != Err(SendError::Full);
        self.counters.replies += u64::from(took && matches!(what, Outgoing::Reply(..)));
        took
    }

    /// Ends a stream for a reason that is not its handler's.
    pub(super) fn end_stream(&mut self, core: &mut Core, call: u32, status: &Status, now: Nanos) {
        if let Some(Kind::Stream { shared, .. }) = self.calls.get(call).map(|open| &open.kind) {
            let items = shared.abandon();
            self.watch_end_of(core, call, status.code());
            self.close_call(core, call);
            self.reply(&super::failure(call, items, status), now);
        }
    }

    /// Forgets a call, whose Reply is on its way.
    pub(super) fn close_call(&mut self, core: &mut Core, call: u32) {
        if let Some(open) = self.calls.remove(call) {
            core.forget_timer(open.deadline, self.number, call);
            if let Kind::Stream { task, .. } = open.kind {
                core.tasks.remove(task);
            }
        }
    }

    /// The time of an open call is over.
    pub(super) fn expire(&mut self, core: &mut Core, call: u32, now: Nanos) {
        match self.calls.get(call).map(|open| &open.kind) {
            Some(Kind::Deferred { state, .. }) => state.iter().for_each(|state| state.cancel()),
            Some(Kind::Stream { .. }) => {
                self.end_stream(
                    core,
                    call,
                    &Status::new(Code::DeadlineExceeded, "the call's time is over"),
                    now,
                );
            }
            None => {}
        }
    }

    /// The client is gone, or is to be: whoever works for it is told.
    pub(super) fn abandon_calls(&mut self, core: &mut Core) {
        for (call, open) in self.calls.drain() {
            core.forget_timer(open.deadline, self.number, call);
            core.watch_end(open.watch, Code::Cancelled);
            match open.kind {
                Kind::Deferred { state, .. } => state.iter().for_each(|state| state.cancel()),
                Kind::Stream { shared, task, .. } => {
                    shared.abandon();
                    core.tasks.remove(task);
                }
            }
        }
    }

    /// After a turn: publishes what has waited for enough company, and does what time asks for.
    #[inline]
    pub(super) fn end_turn(&mut self, policy: Policy, now: Nanos) {
        let taken = std::mem::take(&mut self.taken);
        let transport = self.links.transport();
        let due = self.publication.polled(taken);
        self.publication.set(policy.over(transport));
        if self.dirty && (due || !transport.is_ring() || self.publication.waiting() == 0)
            || self.links.is_switching()
            || self.links.next_deadline() <= now
        {
            self.flush(now);
        }
    }

    /// Publishes what was sent.
    pub(super) fn flush(&mut self, now: Nanos) {
        self.publication.take();
        (self.dirty, self.is_due) = (false, false);
        self.stirred = now;
        self.watch_traffic();
        self.links.flush(now);
    }

    /// Before sleeping: nothing may wait.
    pub(super) fn flush_rest(&mut self, now: Nanos) {
        if self.dirty {
            self.flush(now);
        }
    }

    /// Whether it has nothing to do for the client any more.
    fn is_quiet(&self) -> bool {
        let nothing_taken = self.kept.frames.is_empty() && self.refused.is_none();
        nothing_taken && self.calls.len() == 0 && self.waiting.is_empty() && self.links.is_drained()
    }

    /// When it sent its last frame, if it is open and has no calls.
    pub(super) fn silent_since(&self) -> Option<Nanos> {
        (self.phase == Phase::Open && self.calls.len() == 0).then_some(self.heard)
    }

    /// When something is to be done though nothing happens.
    pub(super) fn next_deadline(&self, core: &Core) -> Nanos {
        self.links.next_deadline().min(self.limit(core).0)
    }

    /// When it is to be ended, and why.
    pub(super) fn limit(&self, core: &Core) -> (Nanos, End) {
        let options = &core.options;
        let mut limit = (Nanos::MAX, End::Closed);
        let mut at = |at: Nanos, end: End| {
            if at < limit.0 {
                limit = (at, end);
            }
        };
        if let Some(since) = self.blocked_since {
            at(since.plus(options.stuck_limit), End::Stuck);
        }
        match self.phase {
            Phase::Open if self.calls.len() == 0 => at(self.heard.plus(options.idle_limit), End::Idle),
            Phase::Open => {}
            Phase::Draining { answered: true, .. } if self.is_quiet() => at(Nanos::ZERO, End::Drained),
            Phase::Draining { since, .. } => at(since.plus(options.drain_limit), End::Drained),
        }
        limit
    }

    /// Ends it if it is time.
    #[inline]
    pub(super) fn check_limits(&mut self, core: &Core, now: Nanos) {
        let (at, end) = self.limit(core);
        if at <= now {
            self.end(end);
        }
    }
}
