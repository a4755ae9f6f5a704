//! The event queue: events come out by (time, source, sequence), whatever order they went in.
//!
//! Why this order: time alone leaves ties to chance; the source (the number of the entity that the event is for, or whatever a world
//! chooses) makes ties independent of the order in which other entities were handled; the sequence, counted by the queue, settles
//! the rest.
//!
//! Shape: keys (24 bytes) travel apart from payloads, which stay in their slot. Since nothing is pushed into the past, a *radix
//! heap* does: a key waits in the bucket of the highest hexadecimal digit in which its time differs from `last`, so the
//! nearest times are in the lowest bucket.
//! ```text
//!   front: a sorted run, and a heap of what came later; times ≤ front_last     pop takes from here only
//!   level 0   digits 0..15   ─┐
//!   level 1   digits 0..15    ├ buckets, unsorted: a time's level is the highest digit in which it differs from `last`,
//!   …  level 15              ─┘ and its place there the value of that digit; each a list of chunks of 64 keys
//! ```
//! When the front is empty the lowest bucket that is not becomes the front, if it is one chunk, else its keys are spread over the
//! levels below it. When too much is pushed into the front it is spread likewise.
//!
//! Invariants
//! 1. `now ≤` every pending time. (Asserted by `push`.)
//! 2. Times in the front are `≤ front_last <` times in buckets.
//! 3. `last ≤ front_last`, and both agree with each bucket's times in all digits above its level.
//!
//! Cost: a key moves down at most 16 levels in its life, and about log₁₆ of the number pending. Payloads that are due soon are
//! prefetched. No allocation once everything has grown to the most that was pending. `benches/queue.rs` measures it.
//!
//! Bounds: 2³² events pending, 2⁶⁴ in all; what may be pending is the world's to bound. Memory: for each event its payload and some 30
//! bytes, and a chunk (1.5 KiB) for each of at most 256 buckets.
//!
//! Source: Ahuja, Mehlhorn, Orlin & Tarjan, "Faster algorithms for the shortest path problem" (1990), for radix heaps.
//!
//! Tests: against a sorted set, with ties, bursts and far times.

use base::Picos;
use base::touch::{LINE, prefetch_span};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::mem;

/// Keys in a chunk.
const CHUNK: usize = 64;
/// A front to which this much was pushed is spread.
const LARGE: usize = 512;
/// Hexadecimal digits of a time.
const LEVELS: usize = 16;
const DIGITS: usize = 16;
/// Payloads that are prefetched lie this far ahead.
const AHEAD: usize = 8;
/// No chunk.
const NONE: u32 = u32::MAX;

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<E> {
    /// When.
    pub at: Picos,
    /// The source it was pushed with.
    pub source: u32,
    /// The how-manieth push it was, from 0.
    pub sequence: u64,
    /// What.
    pub what: E,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Key {
    at: u64,
    sequence: u64,
    source: u32,
    slot: u32,
}

impl Ord for Key {
    /// Reversed: the next is the greatest, which is the top of a heap and the end of a sorted run.
    fn cmp(&self, other: &Key) -> Ordering {
        (other.at, other.source, other.sequence).cmp(&(self.at, self.source, self.sequence))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Part of a bucket.
#[derive(Clone)]
struct Chunk {
    keys: [Key; CHUNK],
    len: u32,
    /// The next of the same bucket, or of those that are free.
    next: u32,
}

/// Pending events, and the time of the latest that was popped.
#[derive(Clone)]
pub struct Queue<E> {
    now: u64,
    sequence: u64,
    len: usize,
    /// Sorted, the next at the end.
    run: Vec<Key>,
    /// What was pushed into the front since the run was sorted.
    late: BinaryHeap<Key>,
    front_last: u64,
    last: u64,
    /// The first chunk of each.
    buckets: [u32; LEVELS * DIGITS],
    /// Which levels have a bucket that is not empty, and which digits of each.
    levels: u16,
    digits: [u16; LEVELS],
    chunks: Vec<Chunk>,
    free_chunk: u32,
    slots: Vec<Option<E>>,
    free_slots: Vec<u32>,
}

impl<E> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue::new()
    }
}

impl<E> Queue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Queue<E> {
        Queue {
            now: 0,
            sequence: 0,
            len: 0,
            run: Vec::new(),
            late: BinaryHeap::new(),
            front_last: 0,
            last: 0,
            buckets: [NONE; LEVELS * DIGITS],
            levels: 0,
            digits: [0; LEVELS],
            chunks: Vec::new(),
            free_chunk: NONE,
            slots: Vec::new(),
            free_slots: Vec::new(),
        }
    }

    /// The time of the event that was popped last.
    pub fn now(&self) -> Picos {
        Picos(self.now)
    }

    /// How many are pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds what is to happen at `at`, which must not be in the past, and returns its sequence number.
    pub fn push(&mut self, at: Picos, source: u32, what: E) -> u64 {
        assert!(at.0 >= self.now, "an event at {} ps, which is before now, {} ps", at.0, self.now);
        let sequence = self.sequence;
        self.sequence += 1;
        self.len += 1;
        let slot = self.store(what);
        let key = Key { at: at.0, sequence, source, slot };
        if at.0 > self.front_last {
            self.place(key);
            return sequence;
        }
        self.late.push(key);
        if self.late.len() > LARGE {
            self.spread_front();
        }
        sequence
    }

    /// When the next event is due.
    pub fn next_at(&mut self) -> Option<Picos> {
        self.fill_front();
        self.run.last().max(self.late.peek()).map(|key| Picos(key.at))
    }

    /// Takes the next event; [`Queue::now`] becomes its time.
    pub fn pop(&mut self) -> Option<Event<E>> {
        self.fill_front();
        let key = if self.late.peek() > self.run.last() { self.late.pop()? } else { self.pop_run()? };
        self.now = key.at;
        self.len -= 1;
        let what = self.slots[key.slot as usize].take().expect("a pending event has a payload");
        self.free_slots.push(key.slot);
        Some(Event { at: Picos(key.at), source: key.source, sequence: key.sequence, what })
    }

    /// Takes the next event if it is due at `until` or before.
    pub fn pop_until(&mut self, until: Picos) -> Option<Event<E>> {
        if self.next_at()? <= until { self.pop() } else { None }
    }

    #[inline]
    fn pop_run(&mut self) -> Option<Key> {
        let key = self.run.pop()?;
        if let Some(ahead) = self.run.len().checked_sub(AHEAD) {
            let slot: *const Option<E> = &self.slots[self.run[ahead].slot as usize];
            prefetch_span(slot.cast(), size_of::<E>().min(2 * LINE));
        }
        Some(key)
    }

    fn store(&mut self, what: E) -> u32 {
        if let Some(slot) = self.free_slots.pop() {
            self.slots[slot as usize] = Some(what);
            return slot;
        }
        self.slots.push(Some(what));
        u32::try_from(self.slots.len() - 1).expect("no world has 2³² events pending")
    }

    /// Into the bucket of a time beyond the front.
    #[inline]
    fn place(&mut self, key: Key) {
        debug_assert!(key.at > self.front_last && self.front_last >= self.last);
        let level = (key.at ^ self.last).ilog2() as usize / 4;
        let digit = (key.at >> (4 * level)) as usize % DIGITS;
        self.levels |= 1 << level;
        self.digits[level] |= 1 << digit;
        let index = level * DIGITS + digit;
        let mut first = self.buckets[index];
        if first == NONE || self.chunks[first as usize].len as usize == CHUNK {
            first = self.chunk_before(first);
            self.buckets[index] = first;
        }
        let chunk = &mut self.chunks[first as usize];
        chunk.keys[chunk.len as usize] = key;
        chunk.len += 1;
    }

    /// An empty chunk, with `next` behind it.
    fn chunk_before(&mut self, next: u32) -> u32 {
        if self.free_chunk == NONE {
            self.chunks.push(Chunk { keys: [Key::default(); CHUNK], len: 0, next });
            return u32::try_from(self.chunks.len() - 1).expect("there are fewer chunks than events");
        }
        let chunk = self.free_chunk;
        self.free_chunk = mem::replace(&mut self.chunks[chunk as usize].next, next);
        self.chunks[chunk as usize].len = 0;
        chunk
    }

    /// Makes the front hold the next event, if there is one.
    #[inline]
    fn fill_front(&mut self) {
        while self.run.is_empty() && self.late.is_empty() && self.levels != 0 {
            self.open_lowest_bucket();
        }
    }

    fn open_lowest_bucket(&mut self) {
        let level = self.levels.trailing_zeros() as usize;
        let digit = self.digits[level].trailing_zeros() as usize;
        self.digits[level] &= !(1 << digit);
        if self.digits[level] == 0 {
            self.levels &= !(1 << level);
        }
        let first = mem::replace(&mut self.buckets[level * DIGITS + digit], NONE);
        if self.chunks[first as usize].next == NONE || level == 0 {
            // All times from `digit` followed by zeros to `digit` followed by ones.
            let below = (1u64 << (4 * level)) - 1;
            let above = !below << 4;
            self.last = (self.last & above) | (digit as u64) << (4 * level);
            self.front_last = self.last | below;
        } else {
            let earliest = self.earliest_of(first);
            (self.last, self.front_last) = (earliest, earliest);
        }
        self.spread_chunks(first);
        self.run.sort_unstable();
    }

    fn earliest_of(&self, first: u32) -> u64 {
        let (mut earliest, mut at) = (u64::MAX, first);
        while at != NONE {
            let chunk = &self.chunks[at as usize];
            earliest = chunk.keys[..chunk.len as usize].iter().fold(earliest, |least, key| least.min(key.at));
            at = chunk.next;
        }
        earliest
    }

    /// The keys of these chunks into the run, as far as they belong to the front, and else into buckets. The chunks are free then.
    fn spread_chunks(&mut self, first: u32) {
        let mut at = first;
        while at != NONE {
            let Chunk { keys, len, next } = self.chunks[at as usize].clone();
            self.chunks[at as usize].next = mem::replace(&mut self.free_chunk, at);
            for key in &keys[..len as usize] {
                if key.at <= self.front_last { self.run.push(*key) } else { self.place(*key) }
            }
            at = next;
        }
    }

    /// Leaves in the front only what is due at once.
    fn spread_front(&mut self) {
        let until = self.now.max(self.last);
        if until == self.front_last {
            return;
        }
        (self.last, self.front_last) = (until, until);
        let mut run = mem::take(&mut self.run);
        // The run ends with what is due next.
        let keep = run.partition_point(|key| key.at > until);
        run.drain(..keep).for_each(|key| self.place(key));
        self.run = run;
        let mut late = mem::take(&mut self.late).into_vec();
        late.retain(|&key| {
            let stays = key.at <= until;
            if !stays {
                self.place(key);
            }
            stays
        });
        self.late = BinaryHeap::from(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Do {
        /// After this many picoseconds, for this source.
        Push(u64, u32),
        Burst(u64, u16),
        Pop(u16),
        Peek,
    }

    fn step() -> impl Strategy<Value = Do> {
        // Times of every magnitude, and many ties.
        let after = prop_oneof![Just(0), 0u64..20, (0u32..63).prop_map(|bits| 1 << bits), any::<u64>()];
        prop_oneof![
            4 => (after.clone(), 0u32..4).prop_map(|(after, source)| Do::Push(after, source)),
            1 => (after, 1u16..700).prop_map(|(after, count)| Do::Burst(after, count)),
            3 => (1u16..500).prop_map(Do::Pop),
            1 => Just(Do::Peek),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn it_is_a_sorted_set(steps in prop::collection::vec(step(), 1..60)) {
            let mut queue = Queue::new();
            let mut model = BTreeSet::new();
            let mut prng = Prng::new(1);
            let mut now = 0u64;
            for step in steps {
                match step {
                    Do::Push(after, source) => {
                        let at = now.saturating_add(after);
                        let sequence = queue.push(Picos(at), source, (at, source));
                        prop_assert!(model.insert((at, source, sequence)));
                    }
                    Do::Burst(spread, count) => for _ in 0..count {
                        let at = now.saturating_add(prng.below(spread.max(1)));
                        let source = prng.below(3) as u32;
                        let sequence = queue.push(Picos(at), source, (at, source));
                        prop_assert!(model.insert((at, source, sequence)));
                    },
                    Do::Pop(count) => for _ in 0..count {
                        let popped = queue.pop();
                        let want = model.pop_first();
                        prop_assert_eq!(popped.map(|e| (e.at.0, e.source, e.sequence)), want);
                        if let Some(event) = popped {
                            prop_assert_eq!(event.what, (event.at.0, event.source));
                            now = event.at.0;
                        }
                    },
                    Do::Peek => {
                        prop_assert_eq!(queue.next_at().map(|at| at.0), model.first().map(|key| key.0));
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.now().0, now);
            }
        }
    }

    #[test]
    fn nothing_grows_in_steady_state() {
        let mut queue = Queue::new();
        let mut prng = Prng::new(2);
        for i in 0..2_000 {
            queue.push(Picos(prng.below(1 << 30)), i % 7, ());
        }
        let mut hold = |rounds| {
            for _ in 0..rounds {
                let event = queue.pop().expect("it holds as many as before");
                queue.push(event.at.plus(Picos(prng.below(1 << 30))), event.source, ());
            }
            [
                queue.slots.len(),
                queue.chunks.len(),
                queue.free_slots.capacity(),
                queue.run.capacity(),
                queue.late.capacity(),
            ]
        };
        let room = hold(100_000);
        assert_eq!(hold(200_000), room);
    }

    #[test]
    fn it_pops_up_to_a_time() {
        let mut queue = Queue::new();
        queue.push(Picos(5), 0, 'a');
        queue.push(Picos(9), 0, 'b');
        assert_eq!(queue.pop_until(Picos(8)).map(|e| e.what), Some('a'));
        assert_eq!(queue.pop_until(Picos(8)), None);
        // What was looked at does not bar what is pushed before it.
        queue.push(Picos(6), 0, 'c');
        assert_eq!(queue.pop_until(Picos(9)).map(|e| e.what), Some('c'));
    }

    #[test]
    #[should_panic(expected = "before now")]
    fn the_past_is_refused() {
        let mut queue = Queue::new();
        queue.push(Picos(5), 0, ());
        queue.pop();
        queue.push(Picos(4), 0, ());
    }
}
