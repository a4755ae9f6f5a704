//! Where a replica stands in a configuration.

use crate::chain::{Configuration, Incarnation, Member, Part, ReplicaId};

/// A place between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    pub(super) part: Part,
    /// The predecessor.
    pub(super) before: Option<ReplicaId>,
    /// The successor, serving or syncing.
    pub(super) after: Option<Member>,
    /// Members behind it.
    pub(super) behind: usize,
}

impl Seat {
    /// The place of this life of a replica.
    pub(super) fn of(configuration: &Configuration, id: ReplicaId, incarnation: Incarnation) -> Option<Seat> {
        let place = configuration.position(id)?;
        let me = configuration.members[place];
        let before = place.checked_sub(1).map(|before| configuration.members[before].replica);
        let after = configuration.members.get(place + 1).copied();
        let behind = configuration.members.len() - place - 1;
        (me.incarnation == incarnation).then_some(Seat { part: me.part, before, after, behind })
    }

    pub(super) fn is_serving(&self) -> bool {
        self.part == Part::Serving
    }

    pub(super) fn is_head(&self) -> bool {
        self.is_serving() && self.before.is_none()
    }

    pub(super) fn is_tail(&self) -> bool {
        self.is_serving() && self.after.is_none_or(|after| after.part == Part::Syncing)
    }
}
