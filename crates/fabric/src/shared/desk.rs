//! What the dispatcher keeps for each member: requests that wait for room in the channel, outcomes that wait for room in the port.
//!
//! Bounds: a member has as many calls open as its port has entries. Each of them waits in one of the two lists at most, or in the
//! channel, so there are never more. (Bytes: as many as those calls have.)

use super::call::Promise;
use crate::channel::CallId;
use crate::port::{Packet, PortId};
use base::units::Nanos;
use std::collections::VecDeque;

/// Whose call it is.
pub(super) enum Owner {
    /// A member's, by its port and its own number.
    Member(PortId, u32),
    Future(Promise),
}

impl Owner {
    /// The tag of its packets.
    pub(super) fn tag(&self) -> u32 {
        match self {
            Owner::Member(_, tag) => *tag,
            Owner::Future(_) => 0,
        }
    }

    pub(super) fn is_member(&self, port: PortId, tag: u32) -> bool {
        matches!(self, Owner::Member(own, number) if *own == port && *number == tag)
    }
}

/// A request, and until when its outcome is waited for ([`Nanos::MAX`]: without end).
pub(super) struct Order {
    pub(super) owner: Owner,
    pub(super) request: Packet,
    pub(super) deadline: Nanos,
}

/// A member, as the dispatcher knows it.
pub(super) struct Desk {
    pub(super) port: PortId,
    /// The channel's call for each of the member's slots, in use or not.
    pub(super) calls: Box<[Option<CallId>]>,
    pub(super) waiting: VecDeque<Order>,
    /// What the port had no room for.
    pub(super) outcomes: VecDeque<Packet>,
}

impl Desk {
    pub(super) fn new(port: PortId, entries: usize) -> Desk {
        let calls = vec![None; entries].into_boxed_slice();
        Desk { port, calls, waiting: VecDeque::new(), outcomes: VecDeque::new() }
    }
}

/// The slot of a member's own number.
#[inline]
pub(super) fn slot(tag: u32) -> usize {
    CallId(tag).slot() as usize
}
