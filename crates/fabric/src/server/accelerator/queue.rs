//! The requests of one connection on their way through the accelerator, in the order in which they came.
//!
//! ```text
//!   coming ──▶ handled? no: the next is handled when it is decoded     yes: replies leave from the front, as they are there
//!   │ Decoding │ Decoded │ Whole │                                     │ Sending │ Unsent │ Done │
//! ```
//! Why: the server's own thread handles and answers a connection's requests in their order. Lanes finish messages in any order, so what
//! is early waits here.
//!
//! Invariants: (1) requests are handled in the order in which they were put, each once; (2) replies leave in that order, too; (3) every request
//! leaves once: with a reply, or deferred.
//!
//! A value without time, threads or messages (`P` and `S` are whatever is decoded and sent): the model below plays every order, ends of connections and
//! of the accelerator among them, and finds each bug of `Planted`.

use std::collections::VecDeque;

/// How far a request is.
pub(super) enum Stage<P, S> {
    /// A lane has it.
    Decoding,
    /// Its turn comes when those before it were handled.
    Decoded(P),
    /// As the last, decoded by its handler.
    Whole,
    /// Handled; the accelerator could not take the reply yet.
    Unsent(S),
    /// Handled; the accelerator is serialising the reply.
    Sending,
    /// The reply.
    Done(Vec<u8>),
    /// The handler deferred: the reply does not come this way.
    Deferred,
    /// In the hands of whoever works on it.
    Taken,
}

struct Entry<H, P, S> {
    head: H,
    stage: Stage<P, S>,
}

/// See the head of the file; `H` is what is known of a request.
pub(super) struct Queue<H, P, S> {
    entries: VecDeque<Entry<H, P, S>>,
    /// The number of the first entry.
    first: u64,
    /// How many of the entries were handled.
    handled: usize,
    #[cfg(test)]
    planted: Option<tests::Planted>,
}

impl<H, P, S> Default for Queue<H, P, S> {
    fn default() -> Self {
        Queue {
            entries: VecDeque::new(),
            first: 0,
            handled: 0,
            #[cfg(test)]
            planted: None,
        }
    }
}

impl<H, P, S> Queue<H, P, S> {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A request came; its number.
    pub(super) fn put(&mut self, head: H, stage: Stage<P, S>) -> u64 {
        self.entries.push_back(Entry { head, stage });
        self.first + self.entries.len() as u64 - 1
    }

    /// A request gets to another stage.
    pub(super) fn set(&mut self, number: u64, stage: Stage<P, S>) {
        self.entries[(number - self.first) as usize].stage = stage;
    }

    /// What is known of a request.
    pub(super) fn head(&self, number: u64) -> &H {
        &self.entries[(number - self.first) as usize].head
    }

    /// The request that is to be handled next, if it can be. It is handled then; `set` says how that ended.
    pub(super) fn next(&mut self) -> Option<(u64, Stage<P, S>)> {
        #[cfg(test)]
        tests::before_handling(self);
        let entry = self.entries.get_mut(self.handled)?;
        if !matches!(entry.stage, Stage::Decoded(_) | Stage::Whole) {
            return None;
        }
        self.handled += 1;
        Some((self.first + self.handled as u64 - 1, std::mem::replace(&mut entry.stage, Stage::Taken)))
    }

    /// The first reply that was not taken by the accelerator yet.
    pub(super) fn unsent(&mut self) -> Option<(u64, S)> {
        let handled = self.entries.iter_mut().take(self.handled).enumerate();
        let (at, entry) = handled.into_iter().find(|(_, entry)| matches!(entry.stage, Stage::Unsent(_)))?;
        match std::mem::replace(&mut entry.stage, Stage::Taken) {
            Stage::Unsent(reply) => Some((self.first + at as u64, reply)),
            _ => unreachable!("it was looked at"),
        }
    }

    /// The request at the front, if it can leave: what is known of it, and its reply if it has one.
    pub(super) fn leave(&mut self) -> Option<(H, Option<Vec<u8>>)> {
        if !matches!(self.entries.front()?.stage, Stage::Done(_) | Stage::Deferred) {
            return None;
        }
        #[cfg(test)]
        tests::before_leaving(self);
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.handled -= 1;
        let reply = match entry.stage {
            Stage::Done(frame) => Some(frame),
            _ => None,
        };
        #[cfg(test)]
        tests::after_leaving(self, reply.as_deref());
        Some((entry.head, reply))
    }

    /// The accelerator has died: what it had gets `reply`, and all that was not handled counts as that.
    pub(super) fn fail(&mut self, reply: impl Fn(&H) -> Vec<u8>) {
        for entry in &mut self.entries {
            #[cfg(test)]
            if self.planted == Some(tests::Planted::FailForgetsSending)
                && matches!(entry.stage, Stage::Sending)
            {
                continue;
            }
            if !matches!(entry.stage, Stage::Done(_) | Stage::Deferred) {
                entry.stage = Stage::Done(reply(&entry.head));
            }
        }
        self.handled = self.entries.len();
    }

    /// All that is known of the requests in it.
    pub(super) fn heads(&self) -> impl Iterator<Item = &H> {
        #[cfg_attr(not(test), expect(unused_mut, reason = "tests plant a bug"))]
        let mut from = 0;
        #[cfg(test)]
        if self.planted == Some(tests::Planted::HeadsOfUnhandledOnly) {
            from = self.handled;
        }
        self.entries.range(from..).map(|entry| &entry.head)
    }
}

#[cfg(test)]
mod tests;
