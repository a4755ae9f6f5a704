//! TLS handshakes that are under way at a thread: bounded in number, in time, and in what they cost a turn.
//!
//! Why: a signature costs as much as a hundred requests, and whoever asks for one need not be a client. Handshakes beyond
//! [`STEPS_PER_TURN`] wait in their sockets for the next turn, so that requests of others are served between; of too many the oldest makes room,
//! which a client that only waits for the network is not.

use base::Nanos;
use std::collections::VecDeque;

/// Reads from connections that are in their handshake, between two turns.
const STEPS_PER_TURN: usize = 4;

/// Those under way, from the oldest on.
#[derive(Default)]
pub struct Handshakes {
    under_way: VecDeque<(u32, Nanos)>,
    steps: usize,
}

impl Handshakes {
    /// A turn is over.
    pub fn begin_turn(&mut self) {
        self.steps = STEPS_PER_TURN;
    }

    /// Whether there may be a step of one before the next turn.
    pub fn take_step(&mut self) -> bool {
        let may = self.steps > 0;
        self.steps -= usize::from(may);
        may
    }

    /// It is over, or the connection is.
    pub fn forget(&mut self, id: u32) {
        if !self.under_way.is_empty() {
            self.under_way.retain(|&(other, _)| other != id);
        }
    }

    /// It has begun.
    pub fn begin(&mut self, id: u32, now: Nanos) {
        self.under_way.push_back((id, now));
    }

    /// One that is to be ended: the oldest, if there are more than `most`, or if it has taken longer than `limit`. It is forgotten then.
    pub fn pop_excess(&mut self, most: usize, limit: Nanos, now: Nanos) -> Option<u32> {
        let &(id, begun) = self.under_way.front()?;
        let is_one = self.under_way.len() > most || now.since(begun) > limit;
        is_one.then(|| self.under_way.pop_front()).flatten().map(|_| id)
    }
}
