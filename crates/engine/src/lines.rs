//! Lines of tasks that must not overtake one another: one line per bucket of a fixed table, those of one key in the same bucket.
//!
//! Shape: doubly linked lists through arrays beside the slots; the head of a line holds it, the others wait.
//! ```text
//!   bucket of key a ──▶ slot 7 (holds) ──▶ slot 2 ──▶ slot 9
//!   bucket of key b ──▶ slot 4 (holds)
//! ```
//! Invariants
//! 1. A slot stands in one line at most, once.
//! 2. A slot that joins a line comes behind all that stand in it; whoever leaves keeps the order of the others.
//!
//! Why buckets and no keys: two keys of one bucket wait for each other without need, which costs a little overlap (with four
//! times as many buckets as slots, one task in eight at most) and never order. So the table is bounded and allocates nothing.

use crate::inflight::Slot;

const NOBODY: u16 = u16::MAX;

/// Keeps what must not overlap in order. A parameter of the task host so that tests can plant one that does not.
pub(crate) trait Lines: Send + 'static {
    /// `buckets` lines (a power of two) for `slots` slots.
    fn new(buckets: usize, slots: usize) -> Self;
    /// Puts `slot` at the end of a line; whether it holds the line now.
    fn join(&mut self, bucket: u32, slot: Slot) -> bool;
    /// Takes `slot` out of its line; who holds the line from now on, if that is somebody else than before.
    fn leave(&mut self, bucket: u32, slot: Slot) -> Option<Slot>;
}

/// The table.
pub(crate) struct Table {
    head: Box<[u16]>,
    tail: Box<[u16]>,
    next: Box<[u16]>,
    before: Box<[u16]>,
}

impl Lines for Table {
    fn new(buckets: usize, slots: usize) -> Table {
        let nobody = |n: usize| vec![NOBODY; n].into_boxed_slice();
        Table { head: nobody(buckets), tail: nobody(buckets), next: nobody(slots), before: nobody(slots) }
    }

    #[inline]
    fn join(&mut self, bucket: u32, slot: Slot) -> bool {
        let (bucket, at) = (bucket as usize, slot.index());
        let last = std::mem::replace(&mut self.tail[bucket], at as u16);
        self.next[at] = NOBODY;
        self.before[at] = last;
        if last == NOBODY {
            self.head[bucket] = at as u16;
            return true;
        }
        self.next[usize::from(last)] = at as u16;
        false
    }

    #[inline]
    fn leave(&mut self, bucket: u32, slot: Slot) -> Option<Slot> {
        let (bucket, at) = (bucket as usize, slot.index());
        let (before, next) = (self.before[at], self.next[at]);
        match next {
            NOBODY => self.tail[bucket] = before,
            next => self.before[usize::from(next)] = before,
        }
        if before != NOBODY {
            self.next[usize::from(before)] = next;
            return None;
        }
        self.head[bucket] = next;
        (next != NOBODY).then(|| Slot::new(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn it_agrees_with_queues(steps in proptest::collection::vec((0u32..4, 0u16..12), 0..200)) {
            let mut table = Table::new(4, 12);
            let mut model: [VecDeque<u16>; 4] = Default::default();
            for (bucket, at) in steps {
                let slot = Slot::new(at);
                if let Some(bucket) = model.iter().position(|line| line.contains(&at)) {
                    let line = &mut model[bucket];
                    let held = line.front() == Some(&at);
                    line.retain(|&other| other != at);
                    let expected = line.front().filter(|_| held).map(|&next| Slot::new(next));
                    prop_assert_eq!(table.leave(bucket as u32, slot), expected);
                } else {
                    let line = &mut model[bucket as usize];
                    prop_assert_eq!(table.join(bucket, slot), line.is_empty());
                    line.push_back(at);
                }
            }
        }
    }
}
