//! The client's half: issue within the credits, collect replies.

use super::{Reply, Tag};
use crate::spsc::{Consume, Full, Hybrid, Kind, Produce};

/// The half that sends requests. See the module for the rules.
pub struct Client<Req: Send, Rep: Send, K: Kind = Hybrid> {
    requests: K::Producer<Req>,
    replies: K::Consumer<Reply<Rep>>,
    issued: u32,
    completed: u32,
}

impl<Req: Send, Rep: Send, K: Kind> Client<Req, Rep, K> {
    pub(super) fn over(requests: K::Producer<Req>, replies: K::Consumer<Reply<Rep>>) -> Self {
        Client { requests, replies, issued: 0, completed: 0 }
    }

    /// Issues a request; it is on its way at the latest after [`Client::flush`].
    ///
    /// # Errors
    /// [`Full`] with the request when as many are in flight as the pair has entries. What was issued before is flushed then.
    #[inline(always)]
    pub fn try_send(&mut self, request: Req) -> Result<Tag, Full<Req>> {
        if self.free() == 0 {
            self.requests.publish();
            return Err(Full(request));
        }
        let tag = Tag(self.issued);
        // SAFETY: invariant 1 of the module: fewer than `entries` are in flight, so this slot was taken by the server,
        // and we have seen a reply published after that.
        unsafe { self.requests.push_granted(request) };
        self.issued = self.issued.wrapping_add(1);
        Ok(tag)
    }

    /// Sends what was issued on its way, as one burst.
    #[inline(always)]
    pub fn flush(&mut self) {
        self.requests.publish();
    }

    /// The next reply.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<(Tag, Rep)> {
        // A peer across shared memory may send more replies than it got requests: those stay where they are.
        if self.in_flight() == 0 {
            return None;
        }
        let Reply { tag, body } = self.replies.try_pop()?;
        self.completed = self.completed.wrapping_add(1);
        Some((Tag(tag), body))
    }

    /// Hands at most `max` replies to `each` and returns how many.
    #[inline(always)]
    pub fn drain(&mut self, max: usize, mut each: impl FnMut(Tag, Rep)) -> usize {
        let max = max.min(self.in_flight() as usize);
        let completed = &mut self.completed;
        self.replies.drain(max, |Reply { tag, body }| {
            *completed = completed.wrapping_add(1);
            each(Tag(tag), body);
        })
    }

    /// Whether a reply waits.
    #[inline(always)]
    pub fn is_ready(&mut self) -> bool {
        self.in_flight() != 0 && self.replies.is_ready()
    }

    /// Requests that may be issued now.
    #[inline(always)]
    pub fn free(&self) -> u32 {
        self.entries() - self.in_flight()
    }

    /// Requests without a reply.
    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
        self.issued.wrapping_sub(self.completed)
    }

    /// The word that changes when the next reply comes: what a monitored wait watches.
    #[cfg(not(loom))]
    pub fn next_word(&self) -> &std::sync::atomic::AtomicU32 {
        self.replies.next_word()
    }

    /// Requests that may be in flight at once.
    #[inline(always)]
    pub fn entries(&self) -> u32 {
        self.requests.capacity()
    }

    /// True when the server's half of a pair on the heap is gone. Replies it sent before can still be polled.
    pub fn is_abandoned(&self) -> bool {
        self.replies.is_abandoned()
    }
}
