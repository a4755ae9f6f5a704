//! One direction of a link: frames go in, and come out when they are due.
//!
//! A frame first waits for its turn on a line of so many bits per second, then travels. Everything but what is reordered comes out in the
//! order in which it went in.
//!
//! Bounds: [`Faults::queue`] frames and [`MAX_BYTES`]; what comes then is dropped, as a switch's last place in the queue is (drop-tail).
//! Invariant: `bytes` is the sum of what waits.

use super::Faults;
use base::{Nanos, Prng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes that wait in one direction.
pub const MAX_BYTES: usize = 16 << 20;
/// A frame that is to be overtaken is held back for this, or for the delay where that is longer.
const HELD_BACK: Nanos = Nanos::from_millis(1);

/// What happened to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came in.
    pub entered: u64,
    /// Of these, lost on purpose.
    pub lost: u64,
    /// Came a second time.
    pub doubled: u64,
    /// Held back.
    pub held_back: u64,
    /// Found no room.
    pub dropped: u64,
    /// Went out.
    pub left: u64,
}

/// The queue. Frames are bytes to it.
#[derive(Debug)]
pub struct Queue {
    faults: Faults,
    random: Prng,
    /// By time, then in the order in which they came.
    waiting: BinaryHeap<Reverse<(Nanos, u64, Vec<u8>)>>,
    bytes: usize,
    /// The line is taken until then.
    busy: Nanos,
    /// When the last one that keeps its place is due.
    last: Nanos,
    number: u64,
    counts: Counts,
}

impl Queue {
    /// Empty. What is drawn is drawn from `random`.
    pub fn new(faults: Faults, random: Prng) -> Queue {
        let (zero, waiting) = (Nanos(0), BinaryHeap::new());
        Queue {
            faults,
            random,
            waiting,
            bytes: 0,
            busy: zero,
            last: zero,
            number: 0,
            counts: Counts::default(),
        }
    }

    /// A frame comes in.
    pub fn push(&mut self, now: Nanos, frame: &[u8]) {
        self.counts.entered += 1;
        // All are drawn for each frame, so that one setting does not change what another does.
        let is_lost = self.faults.loss.strikes(&mut self.random);
        let is_doubled = self.faults.duplicate.strikes(&mut self.random);
        let is_held = self.faults.reorder.strikes(&mut self.random);
        let jitter = Nanos(self.random.below(self.faults.jitter.0.saturating_add(1)));
        if is_lost {
            self.counts.lost += 1;
            return;
        }
        self.counts.doubled += u64::from(is_doubled);
        self.counts.held_back += u64::from(is_held);
        for _ in 0..=u32::from(is_doubled) {
            self.enter(now, jitter, is_held, frame);
        }
    }

    fn enter(&mut self, now: Nanos, jitter: Nanos, is_held: bool, frame: &[u8]) {
        if self.waiting.len() as u64 >= self.faults.queue || self.bytes + frame.len() > MAX_BYTES {
            self.counts.dropped += 1;
            return;
        }
        if self.faults.rate > 0 {
            let bits = 8 * frame.len() as u128;
            let takes = Nanos((bits * 1_000_000_000 / u128::from(self.faults.rate)) as u64);
            self.busy = self.busy.max(now).plus(takes);
        }
        let mut due = now.max(self.busy).plus(self.faults.delay).plus(jitter);
        if is_held {
            due = due.plus(self.faults.delay.max(HELD_BACK));
        } else {
            due = due.max(self.last);
            self.last = due;
        }
        self.bytes += frame.len();
        self.number += 1;
        self.waiting.push(Reverse((due, self.number, frame.into())));
    }

    /// A frame that is due.
    pub fn pop(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if self.next_deadline() > now {
            return None;
        }
        let Reverse((_, _, frame)) = self.waiting.pop()?;
        self.bytes -= frame.len();
        self.counts.left += 1;
        Some(frame)
    }

    /// When the next is due; [`Nanos::MAX`] where none waits.
    pub fn next_deadline(&self) -> Nanos {
        self.waiting.peek().map_or(Nanos::MAX, |Reverse((due, _, _))| *due)
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue(faults: &str) -> Queue {
        Queue::new(faults.parse().expect("faults"), Prng::new(1))
    }

    fn drain(queue: &mut Queue, now: Nanos) -> Vec<u8> {
        std::iter::from_fn(|| queue.pop(now)).map(|frame| frame[0]).collect()
    }

    #[test]
    fn frames_are_late_and_in_order() {
        let mut queue = queue("delay=100us,jitter=50us");
        for number in 0..50 {
            queue.push(Nanos::from_micros(number), &[number as u8]);
        }
        assert!(drain(&mut queue, Nanos::from_micros(99)).is_empty());
        assert!(queue.next_deadline() >= Nanos::from_micros(100));
        assert_eq!(drain(&mut queue, Nanos::from_micros(199)), (0..50).collect::<Vec<_>>());
        assert_eq!((queue.next_deadline(), queue.bytes), (Nanos::MAX, 0));
    }

    #[test]
    fn shares_are_what_they_say() {
        let mut queue = queue("loss=0.1,duplicate=0.05,queue=1m");
        for number in 0..20_000 {
            queue.push(Nanos(number), &[0; 100]);
        }
        let counts = queue.counts();
        assert!((1800..2200).contains(&counts.lost) && (800..1100).contains(&counts.doubled), "{counts:?}");
        let left = drain(&mut queue, Nanos(20_000)).len() as u64;
        assert_eq!(left, counts.entered - counts.lost + counts.doubled);
        assert_eq!(queue.counts().left, left);
    }

    #[test]
    fn what_is_held_back_is_overtaken() {
        let mut queue = queue("reorder=0.2");
        (0..100).for_each(|number| queue.push(Nanos(number), &[number as u8]));
        let mut all = drain(&mut queue, Nanos(100));
        let held = queue.counts().held_back as usize;
        assert!(held > 5 && all.len() == 100 - held && all.is_sorted());
        let late = drain(&mut queue, HELD_BACK.plus(Nanos(100)));
        assert_eq!(late.len(), held);
        all.extend(late);
        all.sort();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_has_a_rate_and_a_queue_an_end() {
        // 1000 bytes at 8 Mbit/s are a millisecond.
        let mut slow = queue("rate=8m,queue=3");
        (0..5).for_each(|number| slow.push(Nanos(0), &[number; 1000]));
        assert_eq!(slow.counts().dropped, 2);
        assert_eq!(slow.next_deadline(), Nanos::from_millis(1));
        assert_eq!(drain(&mut slow, Nanos::from_millis(2)), [0, 1]);
        slow.push(Nanos::from_millis(10), &[9; 1000]);
        assert_eq!(drain(&mut slow, Nanos::from_millis(10)), [2]);
        assert_eq!(slow.next_deadline(), Nanos::from_millis(11), "the line was idle");
        let mut wide = queue("delay=1s,queue=1m");
        (0..300).for_each(|_| wide.push(Nanos(0), &[0; 65_536]));
        assert_eq!((wide.counts().dropped, wide.bytes), (300 - 256, MAX_BYTES));
    }

    proptest! {
        /// Nothing is made or forgotten, and nothing comes before its time.
        #[test]
        fn frames_are_accounted_for(seed: u64, steps in prop::collection::vec((0u64..200, 1usize..2000), 1..200)) {
            let faults = "delay=50us,jitter=80us,loss=0.1,duplicate=0.2,reorder=0.2,rate=1g,queue=20";
            let mut queue = Queue::new(faults.parse().expect("faults"), Prng::new(seed));
            let mut now = Nanos(0);
            for (step, len) in steps {
                now = now.plus(Nanos::from_micros(step));
                queue.push(now, &vec![1; len]);
                while let Some(frame) = queue.pop(now) {
                    prop_assert!(!frame.is_empty());
                }
                prop_assert!(queue.next_deadline() > now && queue.waiting.len() <= 20);
                let counts = queue.counts();
                let kept = counts.entered - counts.lost + counts.doubled - counts.dropped;
                prop_assert_eq!(kept, counts.left + queue.waiting.len() as u64);
                prop_assert_eq!(queue.bytes, queue.waiting.iter().map(|Reverse(w)| w.2.len()).sum::<usize>());
            }
        }
    }
}
