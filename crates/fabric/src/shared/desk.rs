//! What the dispatcher keeps for each member: its open calls, requests that wait for room in the channel, outcomes that are on their way to
//! its mailbox.
//!
//! Bounds: a member has [`SharedOptions::calls`](super::SharedOptions::calls) calls open, and
//! [`SharedOptions::bytes`](super::SharedOptions::bytes) of requests waiting, or one request.

use super::call::Promise;
use super::letters::Letters;
use super::mailbox::Mailbox;
use crate::channel::CallId;
use crate::port::Packet;
use base::units::Nanos;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stands for a future where a member's key stands.
pub(super) const FUTURE: u32 = u32::MAX;
/// Members that can be there at once: a key is its place (16 bits) and the place's generation.
pub(super) const MOST_MEMBERS: usize = (1 << 16) - 1;

/// The place of a member's key.
#[inline]
pub(super) fn place(key: u32) -> usize {
    (key & 0xffff) as usize
}

/// The slot of a member's own number of a call.
#[inline]
pub(super) fn slot(tag: u32) -> usize {
    CallId(tag).slot() as usize
}

/// Whose call it is.
pub(super) enum Owner {
    /// A member's, by its key and its own number.
    Member(u32, u32),
    Future(Promise),
}

/// A request, and until when its outcome is waited for ([`Nanos::MAX`]: without end).
pub(super) struct Order {
    pub(super) owner: Owner,
    pub(super) request: Packet,
    pub(super) deadline: Nanos,
}

/// A member, as the dispatcher knows it.
pub(super) struct Desk {
    pub(super) key: u32,
    pub(super) mailbox: Arc<Mailbox>,
    /// The channel's call for each of the member's slots, while it has no outcome.
    pub(super) calls: Box<[Option<CallId>]>,
    pub(super) waiting: VecDeque<Order>,
    /// Outcomes of this turn.
    pub(super) outcomes: Letters,
}

impl Desk {
    pub(super) fn new(key: u32, mailbox: Arc<Mailbox>, calls: usize) -> Desk {
        let calls = vec![None; calls].into_boxed_slice();
        Desk { key, mailbox, calls, waiting: VecDeque::new(), outcomes: Letters::default() }
    }

    /// So many bytes of its requests wait no longer.
    pub(super) fn started(&self, bytes: usize) {
        self.mailbox.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// So many more wait.
    pub(super) fn waits(&self, bytes: usize) {
        self.mailbox.waiting.fetch_add(bytes, Ordering::Relaxed);
    }
}
