//! Which packets arrived: what the acknowledgements say, and which packet is a duplicate.
//!
//! Invariants: the ranges are ascending, disjoint and do not touch; all are at or above `floor`.
//!
//! Bounds: [`MAX_RANGES`]. With more holes the lowest range is forgotten; what is forgotten or below the floor counts
//! as a duplicate. That loses nothing: the sender does not wait for packets below its floor, and sends what is never
//! acknowledged again in another packet.
//!
//! Cost: a packet in order extends the last range.

use super::wire::{Acks, MAX_RUNS};
use base::units::Nanos;

/// Ranges remembered.
const MAX_RANGES: usize = 64;

/// The packets received.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// Half-open.
    ranges: Vec<(u64, u64)>,
    floor: u64,
    newest_at: Nanos,
    /// Numbered packets that no acknowledgement has gone out for.
    pub(super) waiting: u32,
    /// When they must be acknowledged; [`Nanos::MAX`] for never.
    pub(super) due: Nanos,
}

impl Received {
    pub(super) fn new() -> Received {
        Received { due: Nanos::MAX, ..Received::default() }
    }

    /// Notes packet `number`; false where it was there before. The second of two packets, one out of order and a
    /// duplicate are acknowledged at once, others within `max_delay`.
    pub(super) fn note(&mut self, now: Nanos, number: u64, max_delay: Nanos) -> bool {
        let newest = self.ranges.last().map_or(self.floor, |r| r.1);
        let new = self.insert(number);
        if new && number >= newest {
            self.newest_at = now;
        }
        self.waiting += 1;
        let at_once = self.waiting >= 2 || !new || number != newest;
        self.due = if at_once { now } else { self.due.min(now.plus(max_delay)) };
        new
    }

    fn insert(&mut self, number: u64) -> bool {
        if number < self.floor {
            return false;
        }
        // The first range that ends at or after the number; nearly always the last one or none.
        let mut i = self.ranges.len();
        while i > 0 && self.ranges[i - 1].1 >= number {
            i -= 1;
        }
        let Some(&(start, end)) = self.ranges.get(i) else {
            self.ranges.push((number, number + 1));
            self.bound();
            return true;
        };
        if (start..end).contains(&number) {
            return false;
        }
        if end == number {
            self.ranges[i].1 += 1;
            if self.ranges.get(i + 1).is_some_and(|r| r.0 == number + 1) {
                self.ranges[i].1 = self.ranges.remove(i + 1).1;
            }
        } else if start == number + 1 {
            self.ranges[i].0 = number;
        } else {
            self.ranges.insert(i, (number, number + 1));
            self.bound();
        }
        true
    }

    fn bound(&mut self) {
        if self.ranges.len() > MAX_RANGES {
            let forgotten = self.ranges.remove(0);
            self.floor = self.floor.max(forgotten.1);
        }
    }

    /// The sender waits for no acknowledgement below `floor`.
    pub(super) fn raise_floor(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        let keep = self.ranges.iter().position(|r| r.1 > floor).unwrap_or(self.ranges.len());
        self.ranges.drain(..keep);
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(floor);
        }
    }

    /// What an acknowledgement says now, and how long the newest packet has waited for it.
    pub(super) fn acks(&self, now: Nanos) -> (Acks, Nanos) {
        let Some(last) = self.ranges.last() else { return (Acks::default(), Nanos::ZERO) };
        let mut acks = Acks::below(last.1);
        for i in (self.ranges.len().saturating_sub(MAX_RUNS)..self.ranges.len()).rev() {
            let (start, end) = self.ranges[i];
            let below = i.checked_sub(1).map_or(start, |i| self.ranges[i].1);
            let (Ok(received), Ok(missing)) = (u16::try_from(end - start), u16::try_from(start - below))
            else {
                // The top of a range too long to name; what lies below waits for the floor to rise.
                acks.push(u16::try_from(end - start).unwrap_or(u16::MAX), 0);
                break;
            };
            acks.push(received, missing);
        }
        (acks, now.since(self.newest_at))
    }

    /// An acknowledgement has gone out.
    pub(super) fn told(&mut self) {
        self.waiting = 0;
        self.due = Nanos::MAX;
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const DELAY: Nanos = Nanos(500);

    fn told(received: &Received) -> BTreeSet<u64> {
        received.acks(Nanos(0)).0.ranges().flat_map(|(start, end)| start..end).collect()
    }

    #[test]
    fn the_second_packet_is_acknowledged_at_once() {
        let mut received = Received::new();
        assert!(received.note(Nanos(10), 0, DELAY));
        assert_eq!(received.due, Nanos(510));
        assert!(received.note(Nanos(20), 1, DELAY));
        assert_eq!(received.due, Nanos(20));
        received.told();
        assert!(received.note(Nanos(30), 3, DELAY), "out of order");
        assert_eq!(received.due, Nanos(30));
        received.told();
        assert!(!received.note(Nanos(40), 0, DELAY), "a duplicate");
        assert_eq!((received.due, told(&received)), (Nanos(40), BTreeSet::from([0, 1, 3])));
    }

    #[test]
    fn a_range_too_long_to_name_is_named_at_its_top() {
        let mut received = Received::new();
        for number in 0..100_000 {
            received.note(Nanos(0), number, DELAY);
        }
        assert_eq!(told(&received), (100_000 - 65_535..100_000).collect());
        received.raise_floor(99_999);
        assert_eq!(told(&received), BTreeSet::from([99_999]));
    }

    proptest! {
        #[test]
        fn packets_are_new_once_and_no_other_is_acknowledged(
            numbers in proptest::collection::vec(0u64..300, 1..300),
            floors in proptest::collection::vec(0u64..200, 4),
        ) {
            let mut received = Received::new();
            let mut model = BTreeSet::new();
            for (i, &number) in numbers.iter().enumerate() {
                let new = received.note(Nanos(0), number, DELAY);
                prop_assert!(!new || model.insert(number), "new twice");
                model.insert(number);
                if i % 75 == 74 {
                    received.raise_floor(floors[i / 75]);
                }
                prop_assert!(told(&received).is_subset(&model));
                prop_assert!(received.ranges.len() <= MAX_RANGES);
                prop_assert!(received.ranges.windows(2).all(|w| w[0].1 < w[1].0));
            }
        }

        #[test]
        fn in_a_small_window_everything_is_acknowledged(numbers in proptest::collection::vec(0u64..15, 1..60)) {
            let mut received = Received::new();
            let mut model = BTreeSet::new();
            for &number in &numbers {
                prop_assert_eq!(received.note(Nanos(0), number, DELAY), model.insert(number));
            }
            prop_assert_eq!(told(&received), model);
        }
    }
}
