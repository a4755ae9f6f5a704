//! Requests that came to a home's store by another protocol: admitted here, done by the store.
//!
//! ```text
//!  admit ──▶ Now: whoever asks does it, at once
//!        ├─▶ Later ── queue of its key, behind packets and tickets ──▶ `Items::run`, in its turn
//!        └─▶ Busy, NotHome: it is not to be done
//! ```
//!
//! | | waits |
//! |---|---|
//! | a read | for a key that a box owns; for copies of a key that is not there (an item may be evicted while boxes have it) |
//! | a write | for a key that a box owns; for copies; behind whatever waits for its key |
//! | a flush | for all copies and owned keys |
//! | all of them | until the home serves, after a restart |
//!
//! A read does not wait for writes that wait: they have not taken effect. There are no sessions for tickets: whoever gives one gives it
//! once. What a ticket asks for is known to the store alone, so a home cannot do half of it.
//!
//! Bounds: those of packets, `queue` and `queue_per_key`. A ticket that waits is run or refused once.

use super::super::{Out, Planted};
use super::items::{Items, Tree, access_of};
use super::{Home, Waiting};
use crate::planted::Bugs;
use crate::wire::{Message, Status, key_hash};
use base::Nanos;

/// A request by another protocol, as its store names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What a request wants of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'k> {
    /// To see the item of this key, changing nothing of it.
    Read(&'k [u8]),
    /// To see and change it.
    Write(&'k [u8]),
    /// To remove everything.
    Flush,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is to be done before anything else is asked of the home; at a store that takes time, to be handed on.
    Now,
    /// [`Items::run`] will be called for it, or [`Items::refuse`].
    Later,
    /// There is no room to wait. It is not to be done.
    Busy,
    /// The key is another home's. It is not to be done.
    NotHome,
}

/// A ticket that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub(super) ticket: Ticket,
    /// Empty for a flush.
    key: Vec<u8>,
    reads: bool,
}

impl Claim {
    fn new(ticket: Ticket, access: Access<'_>) -> Claim {
        let (key, reads) = match access {
            Access::Read(key) => (key, true),
            Access::Write(key) => (key, false),
            Access::Flush => (&[][..], false),
        };
        Claim { ticket, key: key.to_vec(), reads }
    }

    pub(super) fn access(&self) -> Access<'_> {
        match (self.key.as_slice(), self.reads) {
            ([], _) => Access::Flush,
            (key, true) => Access::Read(key),
            (key, false) => Access::Write(key),
        }
    }
}

impl<I: Items, B: Bugs<Planted>> Home<I, B> {
    /// Whether a request by another protocol may be done, and when.
    pub fn admit(&mut self, now: Nanos, access: Access<'_>, ticket: Ticket, out: &mut Out) -> Admitted {
        self.tick(now, out);
        if super::runs(self.serves_from, now) && !self.planted.has(Planted::TicketTooEarly) {
            if self.queued >= self.config.queue {
                return self.busy();
            }
            self.queued += 1;
            self.early.push_back(Claim::new(ticket, access));
            return Admitted::Later;
        }
        self.admit_served(now, access, ticket, out)
    }

    fn admit_served(&mut self, now: Nanos, access: Access<'_>, ticket: Ticket, out: &mut Out) -> Admitted {
        let (key, reads) = match access {
            Access::Read(key) => (key, true),
            Access::Write(key) => (key, false),
            Access::Flush => return self.admit_flush(now, ticket, out),
        };
        let hash = key_hash(key);
        if self.layout.home_of(hash) != self.id {
            return Admitted::NotHome;
        }
        let claim = || Waiting::Ticket(Claim::new(ticket, access));
        if self.owners.of(hash).is_some() {
            if reads && self.planted.has(Planted::TicketReadsOwned) {
                return Admitted::Now;
            }
            return if self.wait_for_owner(now, hash, claim(), out) { Admitted::Later } else { self.busy() };
        }
        self.owners.disturb(hash, None);
        if self.is_free(now, key, reads) {
            self.goes_on(access);
            return Admitted::Now;
        }
        if !self.has_room_to_wait(hash) {
            return self.busy();
        }
        self.wait_for_copies(now, key, claim(), out);
        Admitted::Later
    }

    /// Whether a key that is here may be read, or written, at once.
    fn is_free(&mut self, now: Nanos, key: &[u8], reads: bool) -> bool {
        let hash = key_hash(key);
        let held = !self.holders.of(hash, now).0.is_empty();
        if reads {
            // A store that takes time forgets nothing by itself.
            return !held
                || self.items.takes_time()
                || self.items.has(key, now)
                || self.planted.has(Planted::MissWhileHeld);
        }
        if self.writes.contains_key(&hash) {
            return self.planted.has(Planted::TicketOvertakes);
        }
        !held || self.planted.has(Planted::TicketSkipsBoxes)
    }

    fn admit_flush(&mut self, now: Nanos, ticket: Ticket, out: &mut Out) -> Admitted {
        let held = !self.holders.of_all(now).0.is_empty();
        if self.flushes.is_empty() && (!held || self.planted.has(Planted::FlushSkipsBoxes)) {
            self.goes_on(Access::Flush);
            return Admitted::Now;
        }
        if !self.has_room_for_flush() {
            return self.busy();
        }
        self.wait_for_all(now, Waiting::Ticket(Claim::new(ticket, Access::Flush)), out);
        Admitted::Later
    }

    fn busy(&mut self) -> Admitted {
        self.stats.busy += 1;
        Admitted::Busy
    }

    /// What waited comes as if it had come just now.
    pub(super) fn resume(&mut self, now: Nanos, claim: Claim, out: &mut Out) {
        match self.admit_served(now, claim.access(), claim.ticket, out) {
            Admitted::Now => self.items.run(claim.ticket, now),
            Admitted::Later => {}
            Admitted::Busy | Admitted::NotHome => self.items.refuse(claim.ticket),
        }
    }

    /// The home serves: what came before comes now.
    pub(super) fn serve_early(&mut self, now: Nanos, out: &mut Out) {
        if super::runs(self.serves_from, now) {
            return;
        }
        while let Some(claim) = self.early.pop_front() {
            self.queued -= 1;
            self.resume(now, claim, out);
        }
    }
}

impl<B: Bugs<Planted>> Home<Tree, B> {
    /// A client of another protocol asks for this, at the home itself; [`Tree::poll_reply`] has the answer, BUSY and NOT_HOME too.
    pub fn ask(&mut self, now: Nanos, request: Message, out: &mut Out) -> Ticket {
        let ticket = self.items.leave(request.clone());
        match self.admit(now, access_of(&request), ticket, out) {
            Admitted::Now => self.items.run(ticket, now),
            Admitted::Later => {}
            Admitted::Busy => self.items.refuse(ticket),
            Admitted::NotHome => self.items.reply(ticket, |_, request| request.reply(Status::NotHome)),
        }
        ticket
    }
}
