//! The deadlines of a channel's calls: a hierarchical timing wheel over the call table's slots.
//!
//! Shape: nine levels of 64 lists. A deadline lies in the level of the highest digit (base 64) in which its tick differs from
//! the wheel's own; as the wheel turns into a list of a higher level, that list is dealt out to the lower ones.
//!
//! Invariants: a slot is in one list at most; `occupied` has the bit of exactly the lists that are not empty; no list of a level
//! lies at or before the wheel's own digit there (level 0 apart, whose list of this very tick is due).
//!
//! Bounds: a node of 24 bytes for each slot, made once. Deadlines end up to one tick ([`TICK`], 16 µs) late, never early.
//!
//! Cost: add and remove O(1); each deadline that is not removed is moved at most once for each level. An empty wheel costs nothing.
//!
//! Sources: Varghese and Lauck, "Hashed and hierarchical timing wheels" (1987).

use base::units::Nanos;

/// Nanoseconds of a tick, as a power of two.
const TICK: u32 = 14;
const DIGIT: u32 = 6;
const LISTS: usize = 1 << DIGIT;
/// Enough for all 64 − 14 bits of a tick.
const LEVELS: usize = 9;
const NONE: u32 = u32::MAX;
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Node {
    tick: u64,
    next: u32,
    before: u32,
    /// Level × 64 + list, or [`NOWHERE`].
    list: u16,
}

/// Deadlines by slot.
pub(super) struct Wheel {
    heads: [[u32; LISTS]; LEVELS],
    occupied: [u64; LEVELS],
    nodes: Box<[Node]>,
    at: u64,
    count: usize,
}

impl Wheel {
    /// For slots below `slots`.
    pub(super) fn new(slots: usize) -> Wheel {
        let empty = Node { tick: 0, next: NONE, before: NONE, list: NOWHERE };
        Wheel {
            heads: [[NONE; LISTS]; LEVELS],
            occupied: [0; LEVELS],
            nodes: vec![empty; slots].into_boxed_slice(),
            at: 0,
            count: 0,
        }
    }

    /// Adds a slot that is not in it. What is due already is due in the next tick.
    pub(super) fn add(&mut self, slot: u32, deadline: Nanos, now: Nanos) {
        if self.count == 0 {
            self.at = self.at.max(now.0 >> TICK);
        }
        // Rounded up: never early.
        let tick = (deadline.0 >> TICK) + u64::from(deadline.0 & ((1 << TICK) - 1) != 0);
        self.nodes[slot as usize].tick = tick.clamp(self.at, u64::MAX >> TICK);
        self.count += 1;
        self.link(slot);
    }

    /// Takes a slot out, if it is in.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        if self.nodes[slot as usize].list != NOWHERE {
            self.unlink(slot);
            self.count -= 1;
        }
    }

    /// Takes out a slot whose deadline has come.
    pub(super) fn due(&mut self, now: Nanos) -> Option<u32> {
        let now = now.0 >> TICK;
        while self.count > 0 {
            let (level, list) = self.first();
            let start = self.start_of(level, list);
            if start > now {
                break;
            }
            self.at = self.at.max(start);
            let slot = self.heads[level][list];
            if level == 0 {
                self.unlink(slot);
                self.count -= 1;
                return Some(slot);
            }
            self.deal(level, list);
        }
        None
    }

    /// Deals a list out to the levels below: all of it at once, since what stayed would lie behind them.
    fn deal(&mut self, level: usize, list: usize) {
        let mut slot = self.heads[level][list];
        while slot != NONE {
            let next = self.nodes[slot as usize].next;
            self.unlink(slot);
            self.link(slot);
            slot = next;
        }
    }

    /// When [`Wheel::due`] must be asked again at the latest; never later than the earliest deadline.
    pub(super) fn next(&self) -> Nanos {
        if self.count == 0 {
            return Nanos::MAX;
        }
        let (level, list) = self.first();
        Nanos(self.start_of(level, list) << TICK)
    }

    /// The list that comes first: those of lower levels lie before those of higher ones.
    fn first(&self) -> (usize, usize) {
        let level = self.occupied.iter().position(|&lists| lists != 0).expect("a deadline is in some list");
        (level, self.occupied[level].trailing_zeros() as usize)
    }

    /// The first tick of a list.
    fn start_of(&self, level: usize, list: usize) -> u64 {
        let shift = DIGIT * level as u32;
        let above = self.at >> (shift + DIGIT) << (shift + DIGIT);
        above | (list as u64) << shift
    }

    fn link(&mut self, slot: u32) {
        let tick = self.nodes[slot as usize].tick;
        let level = ((63 - ((tick ^ self.at) | 1).leading_zeros()) / DIGIT) as usize;
        let list = (tick >> (DIGIT * level as u32)) as usize % LISTS;
        let head = self.heads[level][list];
        let node = &mut self.nodes[slot as usize];
        (node.next, node.before, node.list) = (head, NONE, (level * LISTS + list) as u16);
        if head != NONE {
            self.nodes[head as usize].before = slot;
        }
        self.heads[level][list] = slot;
        self.occupied[level] |= 1 << list;
    }

    fn unlink(&mut self, slot: u32) {
        let Node { next, before, list, .. } = self.nodes[slot as usize];
        let (level, list) = (usize::from(list) / LISTS, usize::from(list) % LISTS);
        match before {
            NONE => self.heads[level][list] = next,
            before => self.nodes[before as usize].next = next,
        }
        if next != NONE {
            self.nodes[next as usize].before = before;
        }
        if self.heads[level][list] == NONE {
            self.occupied[level] &= !(1 << list);
        }
        self.nodes[slot as usize].list = NOWHERE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map from slot to deadline.
        #[test]
        fn each_deadline_comes_once_and_in_its_tick(
            steps in proptest::collection::vec((0..4u8, 0..16u32, 0..50u32, any::<u64>()), 1..200),
        ) {
            let mut wheel = Wheel::new(16);
            let mut model = BTreeMap::new();
            let mut now = 0u64;
            for (what, slot, bits, random) in steps {
                let span = random & ((1 << bits) - 1);
                match what {
                    0 | 1 if !model.contains_key(&slot) => {
                        let deadline = now.saturating_add(span);
                        wheel.add(slot, Nanos(deadline), Nanos(now));
                        model.insert(slot, deadline);
                    }
                    2 => {
                        wheel.remove(slot);
                        model.remove(&slot);
                    }
                    _ => {
                        let earliest = model.values().min().map_or(u64::MAX, |&first| first);
                        prop_assert!(wheel.next().0 <= earliest.saturating_add(1 << TICK));
                        now = now.saturating_add(span);
                        while let Some(slot) = wheel.due(Nanos(now)) {
                            let deadline = model.remove(&slot);
                            prop_assert!(deadline.is_some_and(|deadline| deadline <= now), "early, or twice");
                        }
                        let late = now.saturating_sub(1 << TICK);
                        prop_assert!(model.values().all(|&deadline| deadline > late), "late by more than a tick");
                    }
                }
            }
        }
    }
}
