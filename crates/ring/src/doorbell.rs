//! One u32 tail per ring, contiguous: a scan of a few cache lines finds all new work on many rings.
//!
//! Why: an engine that serves 256 connections would read 256 slots to find the three that have something. Their tails fit 16
//! lines (ORCA's pointer buffer and ring tracker, items 24-34).
//!
//! Shape:
//! ```text
//! table    │ t0 t1 … t15 │ t16 … t31 │ …       16 tails a line; each has one writer, its ring's producer
//! tracker  │ last seen of each │ capacity of each │
//! ```
//! Invariants:
//! 1. A tail only grows, by what was pushed, modulo 2³²; `new = tail - last`. Two rings between scans count once, as their sum.
//! 2. A tail is a hint. What it promises beyond the ring's capacity is cut to that, and a ring's own words decide what is
//!    there: a lying or torn tail costs a look, never a wrong message.
//! 3. An entry is given again only after its last [`Doorbell`] is gone, so an entry never has two writers.
//!
//! Ordering: **tail**: the ringer's store (Release), after its ring was published, pairs with the scan's load (Acquire):
//! whoever learns of n new messages finds n.
//!
//! Bounds: a fixed maximum of rings; attaching and detaching while others ring is free for them.
//!
//! Cost: one load per entry and one branch per 16 entries when nothing is new.

use crate::Mapping;
use crate::memory::Aligned;
use crate::sync::{AtomicU32, Ordering};
use std::ptr::NonNull;
use std::sync::Arc;

const PER_LINE: usize = 16;

/// Who keeps the tails alive.
#[derive(Clone)]
enum Keep {
    Heap(#[allow(dead_code)] Arc<Aligned<AtomicU32>>),
    Mapping(#[allow(dead_code)] Arc<Mapping>),
}

/// The end that rings: one per ring, beside its producer.
pub struct Doorbell {
    entry: NonNull<AtomicU32>,
    tail: u32,
    _keep: Keep,
    /// Tells the tracker that this entry still has a writer.
    _held: Option<Arc<()>>,
}

// SAFETY: the entry is an atomic in memory that `keep` keeps.
unsafe impl Send for Doorbell {}

impl Doorbell {
    /// The doorbell at `index` of a table at `offset` of a mapping; the caller is that entry's only writer.
    ///
    /// # Panics
    /// When the entry leaves the mapping.
    #[cfg(not(loom))]
    pub fn mapped(memory: &Arc<Mapping>, offset: usize, index: usize) -> Doorbell {
        let entry = memory.at::<AtomicU32>(offset + index * size_of::<AtomicU32>(), 1);
        Doorbell::over(entry, Keep::Mapping(memory.clone()), None)
    }

    fn over(entry: NonNull<AtomicU32>, keep: Keep, held: Option<Arc<()>>) -> Doorbell {
        // SAFETY: the entry lives as long as `keep`.
        let tail = unsafe { entry.as_ref() }.load(Ordering::Relaxed);
        Doorbell { entry, tail, _keep: keep, _held: held }
    }

    /// Says that `n` more messages were published.
    #[inline(always)]
    pub fn ring(&mut self, n: u32) {
        self.tail = self.tail.wrapping_add(n);
        // SAFETY: the entry lives as long as `keep`.
        unsafe { self.entry.as_ref() }.store(self.tail, Ordering::Release); // label: tail
    }
}

/// The end that scans: one per table.
pub struct Tracker {
    tails: NonNull<AtomicU32>,
    /// Whole lines, as many as the table has.
    last: Vec<u32>,
    /// What a ring can hold; 0 for an entry that is not attached.
    capacity: Vec<u32>,
    held: Vec<Option<Arc<()>>>,
    /// Entries below which all attached ones lie, in whole lines.
    used: usize,
    max: usize,
    keep: Keep,
}

// SAFETY: the tails are atomics in memory that `keep` keeps.
unsafe impl Send for Tracker {}

impl Tracker {
    /// A table on the heap for at most `max` rings.
    pub fn heap(max: usize) -> Tracker {
        let tails = Arc::new(Aligned::new(entries(max), || AtomicU32::new(0)));
        Tracker::over(tails.start(), max, Keep::Heap(tails))
    }

    /// A table at `offset` (a multiple of 64) of a mapping, for at most `max` rings.
    ///
    /// # Panics
    /// When the table leaves the mapping.
    #[cfg(not(loom))]
    pub fn mapped(memory: &Arc<Mapping>, offset: usize, max: usize) -> Tracker {
        Tracker::over(memory.at(offset, entries(max)), max, Keep::Mapping(memory.clone()))
    }

    /// Bytes that a table for `max` rings needs in a mapping.
    pub fn mapped_bytes(max: usize) -> usize {
        (entries(max) * size_of::<u32>()).next_multiple_of(crate::memory::SPACING)
    }

    fn over(tails: NonNull<AtomicU32>, max: usize, keep: Keep) -> Tracker {
        let n = entries(max);
        Tracker { tails, last: vec![0; n], capacity: vec![0; n], held: vec![None; n], used: 0, max, keep }
    }

    #[inline(always)]
    fn tail(&self, index: usize) -> &AtomicU32 {
        debug_assert!(index < self.last.len());
        // SAFETY: indices come from loops over `last`, which is as long as the table.
        unsafe { self.tails.add(index).as_ref() }
    }

    /// Attaches a ring that holds at most `capacity` messages, at the lowest free entry. `None` when all are taken.
    ///
    /// The doorbell is for a producer in this process; one in another makes its own with [`Doorbell::mapped`].
    pub fn attach(&mut self, capacity: u32) -> Option<(usize, Doorbell)> {
        let is_free = |held: &Option<Arc<()>>| held.as_ref().is_none_or(|held| Arc::strong_count(held) == 1);
        let index = (0..self.max).find(|&i| self.capacity[i] == 0 && is_free(&self.held[i]))?;
        let held = Arc::new(());
        self.held[index] = Some(held.clone());
        self.capacity[index] = capacity;
        self.last[index] = self.tail(index).load(Ordering::Relaxed);
        self.used = self.used.max((index + 1).next_multiple_of(PER_LINE));
        let entry = NonNull::from(self.tail(index));
        Some((index, Doorbell::over(entry, self.keep.clone(), Some(held))))
    }

    /// Whether the entry is attached and its [`Doorbell`] is gone: nothing will be announced there any more.
    pub fn is_deserted(&self, index: usize) -> bool {
        self.capacity[index] > 0 && self.held[index].as_ref().is_some_and(|held| Arc::strong_count(held) == 1)
    }

    /// Forgets a ring; later rings of its doorbell are not reported.
    pub fn detach(&mut self, index: usize) {
        self.capacity[index] = 0;
        let attached = self.capacity.iter().rposition(|&capacity| capacity > 0);
        self.used = attached.map_or(0, |last| (last + 1).next_multiple_of(PER_LINE));
    }

    /// Attaches a ring again whose doorbell was kept, though it was detached: for users that make doorbells beforehand. What was rung
    /// meanwhile may be reported or not, so look into the ring once.
    pub fn attach_again(&mut self, index: usize, capacity: u32) {
        self.capacity[index] = capacity;
        self.used = self.used.max((index + 1).next_multiple_of(PER_LINE));
    }

    /// Rings attached.
    pub fn attached(&self) -> usize {
        self.capacity.iter().filter(|&&capacity| capacity > 0).count()
    }

    /// Whether the next scan would report something.
    #[inline]
    pub fn has_news(&self) -> bool {
        (0..self.used).any(|i| self.capacity[i] > 0 && self.tail(i).load(Ordering::Relaxed) != self.last[i])
    }

    /// Reports every ring that has new messages, with how many are new since the last scan (at most its capacity), and returns
    /// how many rings that were. What a caller leaves in a ring is not reported again.
    #[inline]
    pub fn scan(&mut self, mut each: impl FnMut(usize, u32)) -> usize {
        let mut found = 0;
        for line in (0..self.used).step_by(PER_LINE) {
            let changed = (line..line + PER_LINE)
                .fold(0, |changed, i| changed | (self.tail(i).load(Ordering::Relaxed) ^ self.last[i]));
            if changed != 0 {
                found += self.scan_line(line, &mut each);
            }
        }
        found
    }

    fn scan_line(&mut self, line: usize, each: &mut impl FnMut(usize, u32)) -> usize {
        let mut found = 0;
        for i in line..line + PER_LINE {
            let tail = self.tail(i).load(Ordering::Acquire); // label: tail
            let new = tail.wrapping_sub(self.last[i]).min(self.capacity[i]);
            self.last[i] = tail;
            if new > 0 {
                found += 1;
                each(i, new);
            }
        }
        found
    }
}

fn entries(max: usize) -> usize {
    max.max(1).next_multiple_of(PER_LINE)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mapping::tests::anonymous;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn news(tracker: &mut Tracker) -> Vec<(usize, u32)> {
        let mut news = Vec::new();
        let has_news = tracker.has_news();
        let found = tracker.scan(|ring, n| news.push((ring, n)));
        assert_eq!((found, found > 0), (news.len(), has_news));
        assert!(!tracker.has_news());
        news
    }

    fn conforms(mut tracker: Tracker) {
        let mut bells: Vec<_> = (0..40).map(|_| tracker.attach(100).expect("there is room").1).collect();
        assert!(tracker.attach(100).is_none(), "the maximum is fixed");
        assert_eq!(news(&mut tracker), []);
        bells[3].ring(2);
        bells[39].ring(1);
        bells[3].ring(5);
        assert_eq!(news(&mut tracker), [(3, 7), (39, 1)]);
        assert_eq!(news(&mut tracker), []);
        // Across the wrap, and beyond what the ring can hold.
        bells[0].ring(u32::MAX);
        assert_eq!(news(&mut tracker), [(0, 100)]);
        bells[0].ring(3);
        assert_eq!(news(&mut tracker), [(0, 3)]);
        // Detached while ringing, and given again only when its doorbell is gone.
        assert!(!tracker.is_deserted(39));
        tracker.detach(39);
        bells[39].ring(9);
        assert_eq!(news(&mut tracker), []);
        assert!(tracker.attach(100).is_none());
        tracker.attach_again(39, 100);
        bells[39].ring(1);
        assert_eq!(news(&mut tracker), [(39, 1)]);
        drop(bells.pop());
        assert!(tracker.is_deserted(39));
        tracker.detach(39);
        assert!(!tracker.is_deserted(39), "it is attached no more");
        let (ring, mut bell) = tracker.attach(50).expect("free again");
        assert_eq!((ring, tracker.attached()), (39, 40));
        assert_eq!(news(&mut tracker), []);
        bell.ring(4);
        assert_eq!(news(&mut tracker), [(39, 4)]);
    }

    #[test]
    fn tables_on_the_heap_and_in_a_mapping_conform() {
        conforms(Tracker::heap(40));
        if !cfg!(miri) {
            let memory = anonymous(Tracker::mapped_bytes(40) + 64);
            conforms(Tracker::mapped(&memory, 64, 40));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn a_doorbell_made_elsewhere_is_heard_and_a_liar_only_costs_a_look() {
        let memory = anonymous(Tracker::mapped_bytes(16));
        let mut tracker = Tracker::mapped(&memory, 0, 16);
        let (ring, _) = tracker.attach(8).expect("there is room");
        let mut bell = Doorbell::mapped(&memory, 0, ring);
        bell.ring(2);
        assert_eq!(news(&mut tracker), [(ring, 2)]);
        // SAFETY: inside the mapping; this is the lie.
        unsafe { memory.at::<u32>(ring * 4, 1).write_volatile(0xDEAD_BEEF) };
        assert_eq!(news(&mut tracker), [(ring, 8)]);
        bell.ring(1);
        assert_eq!(news(&mut tracker), [(ring, 8)]);
        bell.ring(1);
        assert_eq!(news(&mut tracker), [(ring, 1)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn scans_report_sums(steps in proptest::collection::vec((0u8..6, 0usize..20, 1u32..9), 0..200)) {
            let mut tracker = Tracker::heap(20);
            let (mut bells, mut owed) = (BTreeMap::new(), BTreeMap::<usize, u32>::new());
            for (step, ring, n) in steps {
                match step {
                    0 | 1 => if let Some((ring, bell)) = tracker.attach(1000) {
                        prop_assert!(bells.insert(ring, bell).is_none());
                    },
                    2 => if bells.remove(&ring).is_some() {
                        tracker.detach(ring);
                        owed.remove(&ring);
                    },
                    3 | 4 => if let Some(bell) = bells.get_mut(&ring) {
                        bell.ring(n);
                        *owed.entry(ring).or_default() += n;
                    },
                    _ => {
                        let expected: Vec<_> = std::mem::take(&mut owed).into_iter().collect();
                        prop_assert_eq!(news(&mut tracker), expected);
                    }
                }
            }
        }
    }
}
