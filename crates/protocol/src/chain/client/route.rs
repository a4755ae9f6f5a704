//! Whom a client asks: what it knows of the chain's order, learned from answers.

use crate::chain::ReplicaId;

/// Who answers what only reads. Every replica that answers tells the truth; what differs is who has the work, and how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reads {
    /// The tail, which never has to ask another.
    #[default]
    Tail,
    /// All in turn.
    Spread,
    /// This one; another if it does not answer.
    At(ReplicaId),
}

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Route {
    replicas: Vec<ReplicaId>,
    /// Taken for the head.
    pub(super) head: ReplicaId,
    /// Taken for the tail.
    tail: ReplicaId,
    pub(super) reads: Reads,
    turn: usize,
}

impl Route {
    /// The first is taken for the head, the last for the tail.
    pub(super) fn new(replicas: &[ReplicaId]) -> Route {
        let (Some(&head), Some(&tail)) = (replicas.first(), replicas.last()) else {
            panic!("a client needs a replica to ask");
        };
        Route { replicas: replicas.to_vec(), head, tail, reads: Reads::default(), turn: 0 }
    }

    /// The chain has these by now, from head to tail.
    pub(super) fn know(&mut self, replicas: &[ReplicaId]) {
        if replicas.is_empty() {
            return;
        }
        self.replicas = replicas.to_vec();
        self.turn = 0;
        for known in [&mut self.head, &mut self.tail] {
            if !replicas.contains(known) {
                *known = replicas[0];
            }
        }
    }

    /// Whom to ask first for what only reads.
    pub(super) fn reader(&mut self) -> ReplicaId {
        match self.reads {
            Reads::Tail => self.tail,
            Reads::At(replica) => replica,
            Reads::Spread => {
                self.turn = (self.turn + 1) % self.replicas.len();
                self.replicas[self.turn]
            }
        }
    }

    /// Whom to ask now that this one does not answer. If others have found somebody else meanwhile, that one.
    pub(super) fn instead_of(&mut self, silent: ReplicaId, only_reads: bool) -> ReplicaId {
        let next = self.after(silent);
        let known = if only_reads { &mut self.tail } else { &mut self.head };
        if *known == silent {
            *known = next;
        }
        // What one of several was chosen for goes round; the rest meets again at the one that is known.
        if only_reads && self.reads != Reads::Tail { next } else { *known }
    }

    /// A replica named this one, or it answered.
    pub(super) fn learn(&mut self, replica: ReplicaId, only_reads: bool) {
        *(if only_reads { &mut self.tail } else { &mut self.head }) = replica;
    }

    /// The next in the list; the first after one that is not in it.
    fn after(&self, replica: ReplicaId) -> ReplicaId {
        let place = self.replicas.iter().position(|other| *other == replica);
        self.replicas[place.map_or(0, |place| (place + 1) % self.replicas.len())]
    }
}
