//! The log in a file: room that is held in advance, and what another process needs to go on with it.
//!
//! ```text
//!  segment   with items │ free │ unbacked: held │ bare: a hole
//!            ◀── in the budget ─▶◀─ may be opened ─▶◀─ hold() first ─▶
//! ```
//! Invariants: (1) what of the file is held is what the budget counts for segments, and what it leaves for them: held bytes and all
//! others together stay within the limit, for those who share the file system; (2) `unbacked` segments of a log in a file are held, so
//! that opening one cannot fail: the cleaner counts on it.

use super::{CLASSES, EMPTY, Log, NEVER, NONE, Queue, Segment, State};
use crate::budget::Budget;
use base::pages::Region;
use std::collections::VecDeque;
use std::io;

/// What the layout of the heap depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// A segment has 2^`shift` bytes.
    pub(crate) shift: u32,
    /// Lifetime classes.
    pub(crate) classes: usize,
}

/// What a log knows beside its heap, as far as it cannot be found out there: of segments their state, queue, class and `used`, and
/// the queues' order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Up to the last one that has memory.
    pub(crate) segments: Vec<Segment>,
    pub(crate) queues: [Vec<u32>; 2],
}

impl Segment {
    pub(crate) fn in_state(state: State, queue: Queue) -> Segment {
        Segment { state, queue, ..EMPTY }
    }
}

impl Log {
    /// Whether there are segments that need room in the file before they can be opened.
    #[inline(always)]
    pub(crate) fn lacks_room_in_file(&self) -> bool {
        !self.bare.is_empty()
    }

    /// Holds room for every segment that the budget leaves something for.
    pub(crate) fn hold(&mut self, budget: &Budget) -> io::Result<()> {
        let segments = (budget.left() >> self.shift).saturating_sub(self.unbacked.len()).min(self.bare.len());
        self.heap.expect_room(segments << self.shift)?;
        while self.hold_one(budget)? {}
        Ok(())
    }

    /// Holds room until `wanted` segments are available, if the budget and the file system have it. After a refusal not again within
    /// the same second.
    pub(crate) fn hold_some(&mut self, budget: &Budget, now: u32, wanted: usize) {
        if self.refused_at == Some(now) {
            return;
        }
        while self.available(budget) < wanted {
            match self.hold_one(budget) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.refused_at = Some(now),
            }
        }
    }

    fn hold_one(&mut self, budget: &Budget) -> io::Result<bool> {
        let Some(&segment) = self.bare.last() else { return Ok(false) };
        if (self.unbacked.len() + 1) << self.shift > budget.left() {
            return Ok(false);
        }
        let start = self.start_of(segment as usize);
        self.heap.hold(start..start + self.segment_bytes())?;
        self.bare.pop();
        self.unbacked.insert(0, segment);
        Ok(true)
    }

    /// Gives held room back to the file system, as far as the budget would not have it once `bytes` are taken for something else.
    pub(crate) fn give_up(&mut self, budget: &Budget, bytes: usize) {
        if !self.heap.is_in_file() {
            return;
        }
        while !self.unbacked.is_empty() && (self.unbacked.len() << self.shift) + bytes > budget.left() {
            let segment = self.unbacked.remove(0);
            let start = self.start_of(segment as usize);
            // Refused, it is held a while longer.
            let _ = self.heap.release(start..start + self.segment_bytes());
            self.bare.push(segment);
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        Geometry { shift: self.shift, classes: self.classes }
    }

    /// What the next process needs.
    pub(crate) fn kept(&self) -> Kept {
        let last = self.segments.iter().rposition(|s| s.state != State::Unbacked);
        let segments = self.segments[..last.map_or(0, |last| last + 1)].to_vec();
        Kept { segments, queues: self.queues.clone().map(Vec::from) }
    }

    /// The log that `kept` says lies in `heap`, of `count` segments or as many as it has; its segments are empty but for `used`, until
    /// [`Log::recount`]. `None` where it contradicts itself.
    pub(crate) fn resumed(heap: Region, geometry: Geometry, kept: &Kept, count: usize) -> Option<Log> {
        let Geometry { shift, classes } = geometry;
        let count = count.max(kept.segments.len());
        if !(12..40).contains(&shift) || !(1..=CLASSES).contains(&classes) || count << shift > heap.len() {
            return None;
        }
        let mut log = Log::empty(heap, shift, classes, count);
        log.bare.retain(|&s| kept.segments.get(s as usize).is_none_or(|s| s.state == State::Unbacked));
        for (number, s) in kept.segments.iter().enumerate() {
            let is_filled = matches!(s.state, State::Open | State::Sealed);
            if s.used as usize > log.segment_bytes()
                || usize::from(s.class) >= classes
                || s.used > 0 && !is_filled
            {
                return None;
            }
            if s.state == State::Free {
                log.free.push(number as u32);
            }
            if s.state == State::Open {
                let open = &mut log.open[s.queue as usize][usize::from(s.class)];
                if std::mem::replace(open, number as u32) != NONE {
                    return None;
                }
            }
            let kept = if is_filled { *s } else { Segment { state: s.state, ..EMPTY } };
            log.segments[number] = Segment { epoch: 0, dead: 0, latest: 0, large: 0, ..kept };
        }
        let mut queued = vec![false; count];
        for (queue, numbers) in [Queue::Small, Queue::Main].into_iter().zip(&kept.queues) {
            for &number in numbers {
                let s = log.segments.get(number as usize)?;
                let is_filled = matches!(s.state, State::Open | State::Sealed);
                if s.queue != queue || !is_filled || std::mem::replace(&mut queued[number as usize], true) {
                    return None;
                }
            }
            log.queues[queue as usize] = VecDeque::from(numbers.clone());
        }
        let filled = log.segments.iter().map(|s| matches!(s.state, State::Open | State::Sealed));
        filled.eq(queued).then_some(log)
    }

    /// Bytes of items and of large values in segment `number`, as a walk found them.
    pub(crate) fn recount(&mut self, number: usize, found: Segment) {
        let s = &mut self.segments[number];
        (s.dead, s.large, s.latest, s.epoch) = (found.dead, found.large, found.latest, found.epoch);
        let live = u64::from(s.used - s.dead);
        self.live += live;
        self.dead += u64::from(s.dead);
        self.weight[s.queue as usize] += live + s.large;
    }

    /// The lives of all items end `seconds` earlier.
    pub(crate) fn shorten(&mut self, seconds: u32) {
        for s in self.segments.iter_mut().filter(|s| s.latest != NEVER) {
            s.latest = s.latest.saturating_sub(seconds);
        }
    }
}
