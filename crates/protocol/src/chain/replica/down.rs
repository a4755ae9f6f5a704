//! What a replica knows of its successor, in this epoch.

use super::backoff::Backoff;
use super::copy::Sending;
use crate::chain::{Config, Durability, Epoch, Lsn, Member, Part, ReplicaId};
use base::Nanos;
use std::collections::VecDeque;

/// A successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Down {
    pub(super) replica: ReplicaId,
    pub(super) part: Part,
    /// The last entry that it said it has, and which has not been looked at yet.
    pub(super) asked: Option<(Lsn, Epoch)>,
    /// What it was answered: entries follow.
    pub(super) resume: Option<Resume>,
    /// It was sent everything up to here.
    pub(super) sent: Lsn,
    pub(super) received: Lsn,
    /// By its last word it has less than where it was to resume: it did not hear that.
    pub(super) is_unaware: bool,
    pub(super) committed: Lsn,
    pub(super) durability: Durability,
    /// 0 until it said something.
    pub(super) copies: u8,
    /// Messages on their way: the last entry of each, and its bytes.
    flight: VecDeque<(Lsn, usize)>,
    flight_bytes: usize,
    pub(super) timer: Backoff,
    pub(super) copy: Option<Sending>,
    pub(super) joining: Joining,
}

/// The answer to `Connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Resume {
    pub(super) from: Lsn,
    pub(super) from_epoch: Epoch,
    pub(super) image: Option<u64>,
}

/// How far a syncing successor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Joining {
    /// It must first make this durable.
    Behind(Lsn),
    /// It is waited for; what was committed before must become durable there.
    WaitedFor(Lsn),
    /// It has everything that was ever committed, and it is waited for.
    Joined,
}

impl Down {
    pub(super) fn new(member: Member) -> Down {
        Down {
            replica: member.replica,
            part: member.part,
            asked: None,
            resume: None,
            sent: Lsn::ZERO,
            received: Lsn::ZERO,
            is_unaware: false,
            committed: Lsn::ZERO,
            durability: Durability::default(),
            copies: 0,
            flight: VecDeque::new(),
            flight_bytes: 0,
            timer: Backoff::default(),
            copy: None,
            joining: Joining::Behind(Lsn::ZERO),
        }
    }

    /// It goes on from where both agree.
    pub(super) fn resume_at(&mut self, resume: Resume, last: Lsn) {
        let image = resume.image.map(|_| Sending::default());
        *self = Down {
            resume: Some(resume),
            sent: resume.from,
            received: resume.from,
            copy: image,
            joining: Joining::Behind(last),
            ..Down::new(Member { replica: self.replica, incarnation: Default::default(), part: self.part })
        };
    }

    /// Whether what it has not made durable is not committed, though it syncs.
    pub(super) fn is_waited_for(&self) -> bool {
        matches!(self.joining, Joining::WaitedFor(_) | Joining::Joined)
    }

    /// Whether it has not acknowledged everything that it was sent.
    pub(super) fn is_owing(&self) -> bool {
        self.resume.is_some() && self.received.min(self.committed) < self.sent
    }

    /// Whether more may be on its way.
    pub(super) fn has_room(&self, config: &Config) -> bool {
        let entries = self.sent.0.saturating_sub(self.received.0);
        entries < config.window as u64 && self.flight_bytes < config.window_bytes
    }

    pub(super) fn copy_deadline(&self) -> Nanos {
        self.copy.as_ref().map_or(Nanos::MAX, Sending::deadline)
    }

    /// A message with entries up to `last` is on its way.
    pub(super) fn send(&mut self, last: Lsn, bytes: usize) {
        self.sent = last;
        self.flight.push_back((last, bytes));
        self.flight_bytes += bytes;
    }

    /// What it says it has.
    pub(super) fn acknowledge(&mut self, received: Lsn, committed: Lsn) {
        self.received = self.received.max(received);
        self.committed = self.committed.max(committed);
        self.sent = self.sent.max(self.received);
        while let Some((last, bytes)) = self.flight.front()
            && *last <= self.received
        {
            self.flight_bytes -= bytes;
            self.flight.pop_front();
        }
    }

    /// What is on its way is taken for lost.
    pub(super) fn go_back(&mut self) {
        self.sent = self.received;
        self.flight.clear();
        self.flight_bytes = 0;
    }
}
