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
//! A value without time, threads or messages (`P` and `S` are whatever is decoded and sent): the model below plays every order.

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
}

impl<H, P, S> Default for Queue<H, P, S> {
    fn default() -> Self {
        Queue { entries: VecDeque::new(), first: 0, handled: 0 }
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
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.handled -= 1;
        let reply = match entry.stage {
            Stage::Done(frame) => Some(frame),
            _ => None,
        };
        Some((entry.head, reply))
    }

    /// The accelerator has died: what it had gets `reply`, and all that was not handled counts as that.
    pub(super) fn fail(&mut self, reply: impl Fn(&H) -> Vec<u8>) {
        for entry in &mut self.entries {
            if !matches!(entry.stage, Stage::Done(_) | Stage::Deferred) {
                entry.stage = Stage::Done(reply(&entry.head));
            }
        }
        self.handled = self.entries.len();
    }

    /// All that is known of the requests in it.
    pub(super) fn heads(&self) -> impl Iterator<Item = &H> {
        self.entries.iter().map(|entry| &entry.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lanes and serialisers in any order: handled and answered in the order of coming, each once.
    fn play(choices: &[u8]) {
        let mut queue = Queue::<u64, u64, u64>::default();
        let (mut decoding, mut sending) = (Vec::new(), Vec::new());
        let (mut came, mut handled, mut left) = (0, 0, 0);
        let mut step = |choice: u8, more: bool| {
            match choice % 8 {
                0 | 1 if more => {
                    let number = queue.put(came, Stage::Decoding);
                    decoding.push(number);
                    came += 1;
                }
                2 if more => {
                    queue.put(came, Stage::Whole);
                    came += 1;
                }
                3 if !decoding.is_empty() => {
                    let number = decoding.swap_remove(usize::from(choice / 8) % decoding.len());
                    queue.set(number, Stage::Decoded(number));
                }
                4 if !sending.is_empty() => {
                    let number: u64 = sending.swap_remove(usize::from(choice / 8) % sending.len());
                    queue.set(number, Stage::Done(number.to_le_bytes().to_vec()));
                }
                5 => {
                    if let Some((number, reply)) = queue.unsent() {
                        assert_eq!(number, reply);
                        queue.set(number, Stage::Sending);
                        sending.push(number);
                    }
                }
                6 => {
                    if let Some((number, stage)) = queue.next() {
                        assert_eq!(number, handled, "handled in the order of coming");
                        assert!(!matches!(stage, Stage::Decoded(of) if of != number));
                        handled += 1;
                        match number % 3 {
                            0 => queue.set(number, Stage::Unsent(number)),
                            1 => {
                                queue.set(number, Stage::Sending);
                                sending.push(number);
                            }
                            _ => queue.set(number, Stage::Deferred),
                        }
                    }
                }
                _ => {
                    if let Some((head, reply)) = queue.leave() {
                        assert_eq!(head, left, "answered in the order of coming");
                        assert_eq!(reply, (head % 3 != 2).then(|| head.to_le_bytes().to_vec()));
                        left += 1;
                    }
                }
            }
            (came, left)
        };
        choices.iter().for_each(|&choice| _ = step(choice, true));
        // Everything comes to its end.
        for round in 0..came_at_most(choices) {
            for choice in 3..8 {
                step(choice + 8 * (round as u8 % 4), false);
            }
        }
        let (came, left) = step(7, false);
        assert_eq!(came, left);
        assert!(queue.is_empty());
    }

    fn came_at_most(choices: &[u8]) -> usize {
        4 * choices.len() + 4
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn requests_are_handled_and_answered_in_their_order(choices in prop::collection::vec(any::<u8>(), 0..200)) {
            play(&choices);
        }
    }

    #[test]
    fn a_dead_accelerators_requests_are_answered_once_and_in_order() {
        let mut queue = Queue::<u64, u64, u64>::default();
        queue.put(0, Stage::Whole);
        queue.put(1, Stage::Decoding);
        queue.put(2, Stage::Decoded(2));
        let (number, _) = queue.next().expect("the first is whole");
        queue.set(number, Stage::Done(b"reply".to_vec()));
        queue.fail(|_| b"failed".to_vec());
        let replies: Vec<_> = std::iter::from_fn(|| queue.leave()).map(|(_, reply)| reply).collect();
        assert_eq!(replies, [Some(b"reply".to_vec()), Some(b"failed".to_vec()), Some(b"failed".to_vec())]);
    }
}
