//! What both edges share: the way to the preprocessing core, and what they say of the model.

use super::counters::{Counters, add};
use super::held::{Held, Hold};
use super::job::{Input, Job, Reply};
use super::refusal::Refusal;
use super::rings::Door;
use super::shelf::Shelf;
use crate::rec::registers::{Id, Registers};
use base::Clock;
use std::sync::{Arc, Mutex, PoisonError};

/// One edge. Its door has one user at a time, the edge's thread; the lock is never waited for.
pub struct Edge {
    door: Mutex<Door<Job>>,
    /// Bytes of requests.
    pub held: Arc<Held>,
    clock: Clock,
    /// The model.
    pub shelf: Arc<Shelf>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// What is tuned.
    pub registers: Arc<Registers>,
}

impl Edge {
    /// An edge in front of `door`.
    pub fn new(
        door: Door<Job>,
        held: &Arc<Held>,
        shelf: &Arc<Shelf>,
        counters: &Arc<Counters>,
        registers: &Arc<Registers>,
    ) -> Edge {
        Edge {
            door: Mutex::new(door),
            held: Arc::clone(held),
            clock: Clock::shared(),
            shelf: Arc::clone(shelf),
            counters: Arc::clone(counters),
            registers: Arc::clone(registers),
        }
    }

    /// Nothing of `rec.held` yet: for a request that comes piece by piece.
    pub fn hold(&self) -> Hold {
        self.held.hold(self.registers.size(Id::Held))
    }

    /// Hands a request over, or refuses it. `hold` has what came of it already; the rest is taken here.
    pub fn submit(&self, input: Input, reply: Reply, mut hold: Hold) {
        let bytes = match &input {
            Input::Message(body) => body.len(),
            Input::Http { body, .. } => body.len(),
        };
        if let Err(full) = self.held.take(&mut hold, bytes) {
            return self.refuse(reply, &full);
        }
        let job = Job { arrived: self.clock.now(), input, reply, hold };
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(job) = door.push(job) {
            let why = match door.is_abandoned() {
                true => Refusal::Internal("preprocessing is gone"),
                false => Refusal::Busy("rec.ring requests that wait"),
            };
            drop(door);
            self.refuse(job.reply, &why);
        }
    }

    #[cold]
    fn refuse(&self, reply: Reply, why: &Refusal) {
        add(&self.counters.refused, 1);
        reply.refuse(why);
    }
}
