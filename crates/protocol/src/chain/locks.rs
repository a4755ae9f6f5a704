//! The concurrency-control table of a head: one transaction at a time touches a key, all others wait in the order in which they came.
//!
//! A transaction takes a place in the queues of all its keys in one step, and runs when it is first in all of them. So whoever waits, waits
//! for one that came earlier: nobody waits in a circle, and the earliest that has not ended always runs.
//!
//! Queues are found by a 64-bit hash of the key. Two keys with one hash would share a queue: their transactions would wait for each other
//! without need, and nothing else.
//!
//! Invariants: 1. of the runnable, no two have a key in common; 2. a queue is in the order of tickets, and is not empty.
//!
//! Bounds: the caller's, who says which tickets there are. Cost: one look into an ordered map for each key, at both ends.
//!
//! Source: ORCA, section IV-B (concurrency control unit: a hash table by key, one outstanding transaction each, others queued as they arrive).

use super::Planted;
use super::image::Key;
use crate::planted::{Bugs, NoBugs};
use base::hash::Hasher64;
use std::collections::{BTreeMap, VecDeque};

const HASHER: Hasher64 = Hasher64::new(0);

/// How many keys [`Locks::hottest`] names.
pub const HOTTEST: usize = 8;

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Locks<B = NoBugs> {
    queues: BTreeMap<u64, Queue>,
    tickets: BTreeMap<u64, Ticket>,
    bugs: B,
}

/// Those that want a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queue {
    key: Key,
    /// The first one has it.
    tickets: VecDeque<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ticket {
    /// Hashes of its keys, each once.
    keys: Vec<u64>,
    /// In so many queues it is not the first.
    behind: usize,
}

fn hash_of(key: &Key) -> u64 {
    HASHER.hash(&key.bytes) ^ u64::from(key.space.code())
}

impl<B: Bugs<Planted>> Locks<B> {
    /// Nobody has anything.
    pub fn new(bugs: B) -> Locks<B> {
        Locks { queues: BTreeMap::new(), tickets: BTreeMap::new(), bugs }
    }

    /// Takes a place in the queues of all these keys, and says whether it may run at once. Without a key it may. Tickets grow.
    ///
    /// # Panics
    /// If there is a ticket that is not less.
    pub fn enqueue(&mut self, ticket: u64, keys: &[Key]) -> bool {
        let last = self.tickets.last_key_value().map(|(last, _)| *last);
        assert!(last < Some(ticket), "tickets grow, but {ticket} came after {last:?}");
        let mut hashes = Vec::with_capacity(keys.len());
        let mut behind = 0;
        for key in keys.iter().filter(|_| !self.bugs.has(Planted::IgnoreLocks)) {
            let hash = hash_of(key);
            let queue = self.queues.entry(hash);
            let queue = queue.or_insert_with(|| Queue { key: key.clone(), tickets: VecDeque::new() });
            if queue.tickets.back() == Some(&ticket) {
                continue;
            }
            behind += usize::from(!queue.tickets.is_empty());
            queue.tickets.push_back(ticket);
            hashes.push(hash);
        }
        self.tickets.insert(ticket, Ticket { keys: hashes, behind });
        behind == 0
    }

    /// Leaves all queues, whether it ran or waited. Those that may run now, in the order of their tickets. An unknown ticket changes nothing.
    pub fn release(&mut self, ticket: u64) -> Vec<u64> {
        let mut runnable = Vec::new();
        let Some(gone) = self.tickets.remove(&ticket) else { return runnable };
        for hash in gone.keys {
            let tickets = &mut self.queues.get_mut(&hash).expect("a ticket's queues are there").tickets;
            if tickets.front() != Some(&ticket) {
                tickets.retain(|other| *other != ticket);
                continue;
            }
            tickets.pop_front();
            let Some(first) = tickets.front() else {
                self.queues.remove(&hash);
                continue;
            };
            let next = self.tickets.get_mut(first).expect("who is in a queue has a ticket");
            next.behind -= 1;
            if next.behind == 0 {
                runnable.push(*first);
            }
        }
        runnable.sort_unstable();
        runnable
    }

    /// Whether this one is first wherever it stands.
    pub fn is_runnable(&self, ticket: u64) -> bool {
        self.tickets.get(&ticket).is_some_and(|ticket| ticket.behind == 0)
    }

    /// Tickets that have or want keys.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// How many have or want this key.
    pub fn depth(&self, key: &Key) -> usize {
        self.queues.get(&hash_of(key)).map_or(0, |queue| queue.tickets.len())
    }

    /// The keys that most have or want, at most [`HOTTEST`], with how many those are; the most wanted first. Looks at all queues.
    pub fn hottest(&self) -> Vec<(&Key, usize)> {
        let mut keys: Vec<_> = self.queues.values().map(|queue| (&queue.key, queue.tickets.len())).collect();
        keys.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        keys.truncate(HOTTEST);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Space;
    use proptest::prelude::*;

    fn key(byte: u8) -> Key {
        Key { space: Space::User, bytes: vec![byte] }
    }

    fn keys(bytes: &[u8]) -> Vec<Key> {
        bytes.iter().map(|byte| key(*byte)).collect()
    }

    fn locks(planted: Option<Planted>) -> Locks<Option<Planted>> {
        Locks::new(planted)
    }

    #[test]
    fn others_wait_in_the_order_in_which_they_came() {
        let mut locks = locks(None);
        assert!(locks.enqueue(1, &keys(b"ab")));
        assert!(!locks.enqueue(2, &keys(b"bc")));
        assert!(!locks.enqueue(3, &keys(b"c")), "2 has no c yet, but came first");
        assert!(locks.enqueue(4, &keys(b"d")));
        assert_eq!((locks.depth(&key(b'b')), locks.depth(&key(b'd')), locks.depth(&key(b'x'))), (2, 1, 0));
        assert_eq!(locks.release(4), []);
        assert_eq!(locks.release(1), [2]);
        assert_eq!(locks.release(2), [3]);
        assert_eq!(locks.release(3), []);
        assert!(locks.is_empty() && locks.queues.is_empty());
    }

    #[test]
    fn one_that_waits_may_leave() {
        let mut locks = locks(None);
        assert!(locks.enqueue(1, &keys(b"a")));
        assert!(!locks.enqueue(2, &keys(b"ab")));
        assert!(!locks.enqueue(3, &keys(b"b")));
        assert_eq!(locks.release(2), [3]);
        assert_eq!(locks.release(2), [], "an unknown ticket changes nothing");
        assert_eq!(locks.release(1), []);
    }

    #[test]
    fn a_key_that_is_named_twice_is_one_place_and_no_key_is_none() {
        let mut locks = locks(None);
        assert!(locks.enqueue(1, &keys(b"aa")));
        assert!(locks.enqueue(2, &[]));
        assert!(!locks.enqueue(3, &keys(b"aba")));
        assert_eq!((locks.depth(&key(b'a')), locks.len()), (2, 3));
        assert_eq!((locks.release(1), locks.is_runnable(3)), (vec![3], true));
    }

    #[test]
    fn spaces_have_queues_of_their_own() {
        let mut locks = locks(None);
        assert!(locks.enqueue(1, &keys(b"a")));
        assert!(locks.enqueue(2, &[Key { space: Space::Reply, bytes: b"a".to_vec() }]));
    }

    #[test]
    fn the_hottest_keys_come_first() {
        let mut locks = locks(None);
        for ticket in 0..20 {
            locks.enqueue(ticket, &keys(&[b'a' + (ticket % 10) as u8, b'z', b'a']));
        }
        let hottest = locks.hottest();
        assert_eq!((hottest.len(), hottest[0]), (HOTTEST, (&key(b'a'), 20)));
        assert_eq!((hottest[1], hottest[2]), ((&key(b'z'), 20), (&key(b'b'), 2)));
    }

    #[test]
    fn the_mistake_lets_all_run() {
        let mut locks = locks(Some(Planted::IgnoreLocks));
        assert!(locks.enqueue(1, &keys(b"a")) && locks.enqueue(2, &keys(b"a")));
        assert_eq!(locks.release(1), []);
    }

    /// Runnable is whoever has no key that one before it has as well.
    fn runnable(waiting: &BTreeMap<u64, Vec<Key>>) -> Vec<u64> {
        let clashes = |ticket: &u64, keys: &[Key]| {
            waiting.range(..ticket).any(|(_, others)| others.iter().any(|key| keys.contains(key)))
        };
        waiting.iter().filter(|(ticket, keys)| !clashes(ticket, keys)).map(|(ticket, _)| *ticket).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn is_the_naive_table(steps in prop::collection::vec((prop::collection::vec(0u8..6, 0..4), any::<u16>()), 1..60)) {
            let mut locks = locks(None);
            let mut waiting = BTreeMap::new();
            let mut now = Vec::new();
            for (i, (bytes, choice)) in steps.into_iter().enumerate() {
                // One of three steps ends somebody: mostly one that runs, at times one that waits.
                if choice % 3 == 0 && !waiting.is_empty() {
                    let all: Vec<u64> = waiting.keys().copied().collect();
                    let of = if choice % 4 == 0 { &all } else { &now };
                    let ticket = of[usize::from(choice) / 12 % of.len()];
                    waiting.remove(&ticket);
                    let before: Vec<u64> = now.iter().copied().filter(|other| *other != ticket).collect();
                    now = runnable(&waiting);
                    let new: Vec<u64> = now.iter().copied().filter(|other| !before.contains(other)).collect();
                    prop_assert_eq!(locks.release(ticket), new);
                } else {
                    let ticket = i as u64;
                    let keys = keys(&bytes);
                    waiting.insert(ticket, keys.clone());
                    now = runnable(&waiting);
                    prop_assert_eq!(locks.enqueue(ticket, &keys), now.contains(&ticket));
                }
                prop_assert!(waiting.keys().all(|ticket| locks.is_runnable(*ticket) == now.contains(ticket)));
                prop_assert_eq!(locks.len(), waiting.len());
            }
            // However the runnable end, all get their turn.
            while let Some(first) = now.pop() {
                now.extend(locks.release(first));
            }
            prop_assert!(locks.is_empty() && locks.queues.is_empty());
        }
    }
}
