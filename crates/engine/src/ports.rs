//! The ports of one service: which have something, whose turn it is, and which wait for room.
//!
//! Shape
//! ```text
//!             bell rung            ring found empty
//!   idle ───────────────▶ listed ───────────────────▶ idle
//!                          │  ▲
//!       no room for a reply│  │its oldest request was answered
//!                          ▼  │
//!                         blocked
//! ```
//! Invariants
//! 1. `turns` holds exactly the listed ports, each once; `blocked` exactly the blocked ones (but while one is retried).
//! 2. A port's requests leave in the order in which they came: `returned`, then `backlog`, then the ring.
//! 3. Between two turns of a listed port every other port has at most one turn, of at most a quantum. A turn that a full
//!    queue cut short goes on in the next pass.
//!
//! Why a doorbell only lists its port, and what it counts is not used: a port is looked at until its ring is found empty, so a
//! bell that promised too much costs a look, and one that promised too little loses nothing.
//!
//! Bounds: `returned` and `backlog` together hold at most as many requests as the port's ring has entries.
//!
//! Cost: a pass costs nothing for ports that are idle, beyond the scan of their doorbells.

use crate::port::{EnginePort, Stamped};
use crate::service::Messages;
use ring::pair::Tag;
use std::collections::VecDeque;

/// A request taken from its ring.
pub(crate) struct Admitted<S: Messages> {
    pub(crate) port: u32,
    pub(crate) tag: Tag,
    /// The service panicked over it, and it is to be answered so.
    pub(crate) failed: bool,
    /// Its stamp may be marked ([`crate::traced`]).
    pub(crate) request: Stamped<S::Request>,
}

/// A port and where it stands.
pub(crate) struct Attached<S: Messages> {
    pub(crate) port: EnginePort<S>,
    listed: bool,
    pub(crate) blocked: bool,
    dirty: bool,
    /// What it has had of its quantum in this turn.
    taken: usize,
    /// Given back in this pass.
    returned: VecDeque<Admitted<S>>,
    /// Given back in earlier passes.
    backlog: VecDeque<Admitted<S>>,
}

/// All ports of one engine.
pub(crate) struct Ports<S: Messages> {
    /// By number of their doorbells, which the engine's other services share.
    attached: Vec<Option<Attached<S>>>,
    turns: VecDeque<u32>,
    blocked: VecDeque<u32>,
    /// Ports that may have replies which are not flushed.
    dirty: Vec<u32>,
}

impl<S: Messages> Ports<S> {
    pub(crate) fn new() -> Ports<S> {
        Ports { attached: Vec::new(), turns: VecDeque::new(), blocked: VecDeque::new(), dirty: Vec::new() }
    }

    pub(crate) fn attach(&mut self, port: EnginePort<S>) {
        let at = port.index();
        if self.attached.len() <= at {
            self.attached.resize_with(at + 1, || None);
        }
        assert!(self.attached[at].is_none(), "two ports with doorbell {at}");
        self.attached[at] = Some(Attached {
            port,
            listed: false,
            blocked: false,
            dirty: false,
            taken: 0,
            returned: VecDeque::new(),
            backlog: VecDeque::new(),
        });
        // A bell rung before now was heard by nobody.
        self.list(at as u32);
    }

    /// Drops the port and all its requests that are not in the engine's queue.
    pub(crate) fn close(&mut self, at: u32) {
        self.attached[at as usize] = None;
        self.turns.retain(|&other| other != at);
        self.blocked.retain(|&other| other != at);
        self.dirty.retain(|&other| other != at);
    }

    /// Drops a port that owes nothing and whose edge is gone; true if there is none at that doorbell now.
    pub(crate) fn detach(&mut self, at: u32) -> bool {
        let is_over = self.find(at).is_none_or(Attached::is_over);
        if is_over {
            self.close(at);
        }
        is_over
    }

    /// The port that a request came from.
    #[inline]
    pub(crate) fn of(&mut self, at: u32) -> &mut Attached<S> {
        self.attached[at as usize].as_mut().expect("requests come from attached ports")
    }

    /// Ports that wait for room.
    pub(crate) fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Whether some port may have requests that the last pass had no place for.
    pub(crate) fn has_more(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The doorbell of port `at` was rung, if there is such a port.
    #[inline]
    pub(crate) fn announced(&mut self, at: u32) {
        if let Some(Some(port)) = self.attached.get_mut(at as usize) {
            port.list(at, &mut self.turns);
        }
    }

    /// The port has no turns: its requests are taken out of turn.
    pub(crate) fn unlist(&mut self, at: u32) {
        self.of(at).listed = false;
        self.turns.retain(|&other| other != at);
    }

    /// The port, unless it was closed.
    #[inline]
    pub(crate) fn find(&mut self, at: u32) -> Option<&mut Attached<S>> {
        self.attached.get_mut(at as usize)?.as_mut()
    }

    /// Takes at most `wanted` requests of one port out of its turn.
    pub(crate) fn take_from(&mut self, at: u32, wanted: usize, queue: &mut VecDeque<Admitted<S>>) -> usize {
        self.find(at).map_or(0, |port| port.take(at, wanted, queue))
    }

    /// Takes nothing more of the port until [`Ports::resume`]: there is no room for its replies.
    #[cold]
    pub(crate) fn pause(&mut self, at: u32) {
        let port = self.of(at);
        port.blocked = true;
        if std::mem::take(&mut port.listed) {
            self.turns.retain(|&other| other != at);
        }
    }

    /// There was room for all of the port's replies.
    pub(crate) fn resume(&mut self, at: u32) {
        self.of(at).blocked = false;
        self.unblock(at);
    }

    /// The port has a reply to be flushed.
    #[inline]
    pub(crate) fn replied(&mut self, at: u32) {
        let Some(Some(port)) = self.attached.get_mut(at as usize) else { return };
        if !std::mem::replace(&mut port.dirty, true) {
            self.dirty.push(at);
        }
    }

    fn list(&mut self, at: u32) {
        let port = self.attached[at as usize].as_mut().expect("an attached port");
        port.list(at, &mut self.turns);
    }

    /// Fills `queue` up to `capacity`, a quantum from each listed port in turn.
    pub(crate) fn admit(&mut self, queue: &mut VecDeque<Admitted<S>>, capacity: usize, quantum: usize) {
        while queue.len() < capacity
            && let Some(&at) = self.turns.front()
        {
            let port = self.attached[at as usize].as_mut().expect("only attached ports are listed");
            let wanted = quantum.saturating_sub(port.taken).min(capacity - queue.len());
            let got = port.take(at, wanted, queue);
            port.taken += got;
            if got > 0 && !std::mem::replace(&mut port.dirty, true) {
                self.dirty.push(at);
            }
            if got < wanted {
                port.taken = 0;
                port.listed = false;
                self.turns.pop_front();
            } else if port.taken >= quantum {
                port.taken = 0;
                self.turns.rotate_left(1);
            }
        }
    }

    /// Gives back a request whose port is blocked, or is from now on: then true.
    #[cold]
    pub(crate) fn give_back(&mut self, request: Admitted<S>) -> bool {
        let at = request.port;
        let port = self.of(at);
        port.returned.push_back(request);
        let newly = !std::mem::replace(&mut port.blocked, true);
        let listed = std::mem::take(&mut port.listed);
        if newly {
            self.blocked.push_back(at);
        }
        if listed {
            self.turns.retain(|&other| other != at);
        }
        newly
    }

    /// The oldest request of the port that was blocked first. It comes back through [`Ports::unblock`] or
    /// [`Ports::still_blocked`]; until then the port is not blocked.
    pub(crate) fn retry(&mut self) -> Option<Admitted<S>> {
        let at = self.blocked.pop_front()?;
        let port = self.of(at);
        port.blocked = false;
        if !port.returned.is_empty() {
            port.returned.append(&mut port.backlog);
            std::mem::swap(&mut port.returned, &mut port.backlog);
        }
        Some(port.backlog.pop_front().expect("a blocked port has a request that waits"))
    }

    /// The port's oldest request was answered: it takes its turns again.
    pub(crate) fn unblock(&mut self, at: u32) {
        let port = self.of(at);
        port.taken = 0;
        if !std::mem::replace(&mut port.dirty, true) {
            self.dirty.push(at);
        }
        self.list(at);
    }

    /// There is still no room.
    pub(crate) fn still_blocked(&mut self, request: Admitted<S>) {
        let at = request.port;
        let port = self.of(at);
        port.blocked = true;
        port.backlog.push_front(request);
        self.blocked.push_back(at);
    }

    /// Sends all replies on their way, one burst per port.
    #[inline]
    pub(crate) fn flush(&mut self) {
        while let Some(at) = self.dirty.pop() {
            let port = self.of(at);
            port.dirty = false;
            port.port.flush();
        }
    }
}

impl<S: Messages> Attached<S> {
    #[inline]
    fn list(&mut self, at: u32, turns: &mut VecDeque<u32>) {
        // A blocked port is listed when there is room again.
        if !self.blocked && !std::mem::replace(&mut self.listed, true) {
            turns.push_back(at);
        }
    }

    /// Whether its edge is gone, and all that it had submitted was taken. A blocked port's never is: nobody makes room any more.
    fn is_over(&mut self) -> bool {
        // In this order: what was published before the edge went is seen.
        let is_drained = self.port.is_deserted()
            && self.returned.is_empty()
            && self.backlog.is_empty()
            && !self.port.is_ready();
        is_drained || (self.blocked && self.port.is_deserted())
    }

    /// Moves at most `wanted` requests to `queue` and returns how many.
    #[inline]
    fn take(&mut self, at: u32, wanted: usize, queue: &mut VecDeque<Admitted<S>>) -> usize {
        let old = wanted.min(self.backlog.len());
        queue.extend(self.backlog.drain(..old));
        old + self.port.drain(wanted - old, |tag, request| {
            queue.push_back(Admitted { port: at, tag, failed: false, request })
        })
    }
}
