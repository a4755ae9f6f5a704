//! The server's half: take requests in order, answer them in any order.

use super::{Reply, Tag};
use crate::spsc::{Consume, Hybrid, Kind, Produce};

/// The half that answers. See the module for the rules.
pub struct Server<Req: Send, Rep: Send, K: Kind = Hybrid> {
    requests: K::Consumer<Req>,
    replies: K::Producer<Reply<Rep>>,
    received: u32,
    replied: u32,
}

impl<Req: Send, Rep: Send, K: Kind> Server<Req, Rep, K> {
    pub(super) fn over(requests: K::Consumer<Req>, replies: K::Producer<Reply<Rep>>) -> Self {
        Server { requests, replies, received: 0, replied: 0 }
    }

    /// The next request.
    #[inline(always)]
    pub fn try_recv(&mut self) -> Option<(Tag, Req)> {
        // A client across shared memory that issues beyond its credits waits here like everybody.
        if self.owed() >= self.entries() {
            return None;
        }
        let request = self.requests.try_pop()?;
        let tag = Tag(self.received);
        self.received = self.received.wrapping_add(1);
        Some((tag, request))
    }

    /// Hands at most `max` requests to `each`, oldest first, and returns how many.
    #[inline(always)]
    pub fn drain(&mut self, max: usize, mut each: impl FnMut(Tag, Req)) -> usize {
        let max = max.min((self.entries() - self.owed()) as usize);
        let received = &mut self.received;
        self.requests.drain(max, |request| {
            let tag = Tag(*received);
            *received = received.wrapping_add(1);
            each(tag, request);
        })
    }

    /// Takes at most `max` requests and answers each at once, the replies leaving as one burst; returns how many.
    #[inline(always)]
    pub fn answer(&mut self, max: usize, mut answer: impl FnMut(Tag, Req) -> Rep) -> usize {
        let max = max.min((self.entries() - self.owed()) as usize);
        let (received, replied, replies) = (&mut self.received, &mut self.replied, &mut self.replies);
        let taken = self.requests.drain(max, |request| {
            let tag = *received;
            *received = received.wrapping_add(1);
            let body = answer(Tag(tag), request);
            // SAFETY: invariant 2 of the module: this request was just taken and is answered once.
            unsafe { replies.push_granted(Reply { tag, body }) };
            *replied = replied.wrapping_add(1);
        });
        if taken > 0 {
            self.replies.publish();
        }
        taken
    }

    /// Answers the request `tag`; the reply is on its way at the latest after [`Server::flush`].
    ///
    /// # Panics
    /// When more replies are given than requests were received: each request is answered once.
    #[inline(always)]
    pub fn reply(&mut self, tag: Tag, body: Rep) {
        assert!(self.owed() > 0, "a reply to {tag:?} without a request that waits for one");
        // SAFETY: invariant 2 of the module: replied < received, so the response slot is free.
        unsafe { self.replies.push_granted(Reply { tag: tag.0, body }) };
        self.replied = self.replied.wrapping_add(1);
    }

    /// Sends the replies given so far on their way, as one burst.
    #[inline(always)]
    pub fn flush(&mut self) {
        self.replies.publish();
    }

    /// Whether a request waits.
    #[inline(always)]
    pub fn is_ready(&mut self) -> bool {
        self.owed() < self.entries() && self.requests.is_ready()
    }

    /// Requests received and not answered.
    #[inline(always)]
    pub fn owed(&self) -> u32 {
        self.received.wrapping_sub(self.replied)
    }

    /// The word that changes when the next request comes: what a monitored wait watches.
    #[cfg(not(loom))]
    pub fn next_word(&self) -> &std::sync::atomic::AtomicU32 {
        self.requests.next_word()
    }

    /// Requests that may be in flight at once.
    #[inline(always)]
    pub fn entries(&self) -> u32 {
        self.replies.capacity()
    }

    /// True when the client's half of a pair on the heap is gone. Requests it sent before can still be received.
    pub fn is_abandoned(&self) -> bool {
        self.requests.is_abandoned()
    }
}
