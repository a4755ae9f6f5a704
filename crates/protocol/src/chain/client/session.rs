//! A client's session: which numbers are under way, and which may be next.

use crate::chain::SessionId;
use crate::chain::message::RequestId;
use std::collections::BTreeSet;

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session {
    id: SessionId,
    window: u64,
    next: u64,
    under_way: BTreeSet<u64>,
}

impl Session {
    /// With `window` numbers that may be under way.
    pub(super) fn new(id: SessionId, window: u64) -> Session {
        Session { id, window: window.max(1), next: 1, under_way: BTreeSet::new() }
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// The next request, under way from now on; none as long as the window is full.
    pub(super) fn next_id(&mut self) -> Option<RequestId> {
        let oldest = self.under_way.first().copied().unwrap_or(self.next);
        if self.next - oldest >= self.window {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        self.under_way.insert(sequence);
        Some(RequestId { session: self.id, sequence })
    }

    /// A request is under way no more, if it was of this session.
    pub(super) fn ended(&mut self, id: RequestId) {
        if id.session == self.id {
            self.under_way.remove(&id.sequence);
        }
    }
}
