//! The segment log: the heap that holds the items, cut into segments that are filled by appending.
//!
//! Why a log: no size classes that starve each other, no free lists, items of one age and lifetime lie together, and memory
//! comes back a segment at a time.
//!
//! Shape: two queues of segments. In cache mode *small* is S3-FIFO's probation and *main* its main queue; in store mode
//! small takes what clients write and main what the cleaner moved. In each queue one segment per lifetime class is open.
//! ```text
//!  Unbacked ──open──▶ Open ──full──▶ Sealed ──chosen──▶ Victim ──cleaned──▶ Free ──open──▶ …
//!      ▲                                                             │
//!      └───────────────────────── released ◀─────────────────────────┘
//! ```
//! Invariants: (1) `used` bytes of a segment are whole items, end to end; (2) `dead` is the sum of footprints of its DEAD
//! items, `large` that of the large values its live stubs own (asserted by `check`); (3) memory of a segment that is not
//! Unbacked is in the budget; (4) nobody but the cleaner opens the last available segment, so that it can always finish.

mod warm;

pub(crate) use warm::{Geometry, Kept};

use crate::budget::{Budget, Use};
use crate::warm::ground::{Ground, Part};
use base::pages::{HUGE_PAGE, PageKind, Region};
use std::collections::VecDeque;
use std::io;

/// Lifetime classes at most: powers of four seconds, then never.
const CLASSES: usize = 9;

const NONE: u32 = u32::MAX;

/// "Never" as a latest expiry.
pub(crate) const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Small,
    Main,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unbacked,
    Free,
    Open,
    Sealed,
    Victim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) state: State,
    pub(crate) queue: Queue,
    pub(crate) class: u8,
    /// Flush epoch of its newest item.
    pub(crate) epoch: u16,
    /// Bytes appended.
    pub(crate) used: u32,
    /// Bytes of them in dead items.
    pub(crate) dead: u32,
    /// Latest expiry of its items; [`NEVER`] if one has none.
    pub(crate) latest: u32,
    /// Bytes outside the log that its live stubs own.
    pub(crate) large: u64,
}

const EMPTY: Segment = Segment {
    state: State::Unbacked,
    queue: Queue::Small,
    class: 0,
    epoch: 0,
    used: 0,
    dead: 0,
    latest: 0,
    large: 0,
};

pub(crate) struct Log {
    heap: Region,
    shift: u32,
    pub(crate) segments: Vec<Segment>,
    free: Vec<u32>,
    /// Those that a budget suffices for.
    unbacked: Vec<u32>,
    /// Those that would need room in the file first ([`Log::hold`]); of anonymous memory none.
    bare: Vec<u32>,
    /// The second in which the file system last had no room.
    refused_at: Option<u32>,
    queues: [VecDeque<u32>; 2],
    /// Bytes of items and large values by queue.
    weight: [u64; 2],
    open: [[u32; CLASSES]; 2],
    classes: usize,
    /// Footprints of the items that are not dead.
    pub(crate) live: u64,
    /// Footprints of those that are, in segments not yet cleaned.
    pub(crate) dead: u64,
}

/// Bytes per segment for `memory` bytes altogether.
fn segment_size(memory: usize) -> usize {
    let usual = (memory / 128).clamp(16 << 10, HUGE_PAGE);
    // The choice of a victim looks at every segment: keep their number bounded on very large machines.
    1 << usual.max(memory / 8192).ilog2()
}

impl Log {
    pub(crate) fn new(
        memory: usize,
        ceiling: usize,
        pages: PageKind,
        ground: &Ground<'_>,
    ) -> io::Result<Log> {
        let size = segment_size(memory);
        // On huge pages the first byte written takes 2 MiB at once, so smaller segments would take more than accounted.
        let pages = if size < HUGE_PAGE { PageKind::Base } else { pages };
        let heap = ground.region(Part::Heap, ceiling - ceiling % size, pages)?;
        let classes = (memory / size / 16).clamp(1, CLASSES);
        Ok(Log::empty(heap, size.ilog2(), classes, ceiling / size))
    }

    /// `count` empty segments of 2^`shift` bytes in `heap`.
    fn empty(heap: Region, shift: u32, classes: usize, count: usize) -> Log {
        let all = (0..count as u32).rev().collect();
        let (unbacked, bare) = if heap.is_in_file() { (Vec::new(), all) } else { (all, Vec::new()) };
        Log {
            heap,
            shift,
            segments: vec![EMPTY; count],
            free: Vec::with_capacity(count),
            unbacked,
            bare,
            refused_at: None,
            queues: [VecDeque::with_capacity(count), VecDeque::with_capacity(count)],
            weight: [0; 2],
            open: [[NONE; CLASSES]; 2],
            classes,
            live: 0,
            dead: 0,
        }
    }

    /// First byte of the heap.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.heap.start()
    }

    pub(crate) fn kind(&self) -> PageKind {
        self.heap.kind()
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        1 << self.shift
    }

    /// Items of more bytes than this are kept outside.
    pub(crate) fn inline_limit(&self) -> usize {
        self.segment_bytes() / 8
    }

    pub(crate) fn segment_of(&self, offset: usize) -> usize {
        offset >> self.shift
    }

    pub(crate) fn start_of(&self, segment: usize) -> usize {
        segment << self.shift
    }

    /// Segments that could be opened now.
    pub(crate) fn available(&self, budget: &Budget) -> usize {
        self.available_with(budget.left())
    }

    fn available_with(&self, left: usize) -> usize {
        self.free.len() + self.unbacked.len().min(left >> self.shift)
    }

    /// Whether `bytes` can be taken from the budget so that two segments are still available: one to write to, and the
    /// cleaner's.
    pub(crate) fn can_spare(&self, budget: &Budget, bytes: usize) -> bool {
        budget.left() >= bytes && self.available_with(budget.left() - bytes) >= 2
    }

    /// Segments in the most that the budget allows at this moment.
    pub(crate) fn reachable(&self, budget: &Budget) -> usize {
        let backed = self.segments.len() - self.unbacked_segments();
        backed + self.unbacked_segments().min(budget.left() >> self.shift)
    }

    /// The class of what expires at `expiry`: things of one class die at about the same time.
    pub(crate) fn class_of(&self, expiry: u32, now: u32) -> usize {
        let never = self.classes - 1;
        if expiry == 0 || never == 0 {
            return never;
        }
        let seconds = expiry.saturating_sub(now).max(1);
        // 4 s, 16 s, … 4^8 s = 18 h; with fewer classes the first ones are wider.
        let power = (seconds.ilog2() / 2) as usize;
        (power * never / (CLASSES - 1)).min(never - 1)
    }

    /// Room for `size` bytes in `queue`, or `None`. Leaves at least `keep` segments available.
    pub(crate) fn allot(
        &mut self,
        queue: Queue,
        class: usize,
        size: usize,
        keep: usize,
        budget: &mut Budget,
    ) -> Option<usize> {
        let open = self.open[queue as usize][class];
        let segment = if open != NONE && self.fits(open, size) {
            open
        } else if self.available(budget) > keep {
            self.open_segment(queue, class, budget)
        } else {
            // Better a segment of another class than none. The cleaner may take any; others keep out of main, where the
            // cleaner counts on the room of what it has opened.
            let queues = if keep == 0 { &self.open[..] } else { &self.open[queue as usize..=queue as usize] };
            queues.iter().flatten().copied().find(|&s| s != NONE && self.fits(s, size))?
        };
        let s = &mut self.segments[segment as usize];
        let offset = ((segment as usize) << self.shift) + s.used as usize;
        s.used += size as u32;
        Some(offset)
    }

    fn fits(&self, segment: u32, size: usize) -> bool {
        self.segments[segment as usize].used as usize + size <= self.segment_bytes()
    }

    fn open_segment(&mut self, queue: Queue, class: usize, budget: &mut Budget) -> u32 {
        let segment = match self.free.pop() {
            Some(segment) => segment,
            None => {
                budget.take(Use::Segments, self.segment_bytes());
                self.unbacked.pop().expect("available() counted a segment")
            }
        };
        let before = std::mem::replace(&mut self.open[queue as usize][class], segment);
        if before != NONE {
            self.segments[before as usize].state = State::Sealed;
        }
        self.segments[segment as usize] = Segment { state: State::Open, queue, class: class as u8, ..EMPTY };
        self.queues[queue as usize].push_back(segment);
        segment
    }

    /// Counts a new live item at `offset`.
    pub(crate) fn born(&mut self, offset: usize, size: usize, large: usize, expiry: u32, epoch: u16) {
        let segment = self.segment_of(offset);
        let s = &mut self.segments[segment];
        s.large += large as u64;
        s.epoch = epoch;
        self.live += size as u64;
        self.weight[s.queue as usize] += (size + large) as u64;
        self.extend(offset, expiry);
    }

    /// The item at `offset` now lives to `expiry`.
    #[inline]
    pub(crate) fn extend(&mut self, offset: usize, expiry: u32) {
        let segment = self.segment_of(offset);
        let s = &mut self.segments[segment];
        s.latest = s.latest.max(if expiry == 0 { NEVER } else { expiry });
    }

    /// Counts the item at `offset` as dead.
    pub(crate) fn died(&mut self, offset: usize, size: usize, large: usize) {
        let segment = self.segment_of(offset);
        let s = &mut self.segments[segment];
        s.dead += size as u32;
        s.large -= large as u64;
        self.live -= size as u64;
        self.dead += size as u64;
        self.weight[s.queue as usize] -= (size + large) as u64;
    }

    pub(crate) fn queue_of(&self, offset: usize) -> Queue {
        self.segments[self.segment_of(offset)].queue
    }

    /// The oldest segment of `queue`.
    pub(crate) fn oldest(&self, queue: Queue) -> Option<usize> {
        self.queues[queue as usize].front().map(|&s| s as usize)
    }

    /// Whether probation holds more than its tenth of all bytes.
    pub(crate) fn small_is_long(&self) -> bool {
        self.weight[0] * 10 > self.weight[0] + self.weight[1]
    }

    pub(crate) fn weight(&self, queue: Queue) -> u64 {
        self.weight[queue as usize]
    }

    /// Takes `segment` out of its queue to be cleaned.
    pub(crate) fn make_victim(&mut self, segment: usize) {
        let Segment { queue, class, state, .. } = self.segments[segment];
        if state == State::Open {
            self.open[queue as usize][class as usize] = NONE;
        }
        let queue = &mut self.queues[queue as usize];
        let at = queue.iter().position(|&s| s as usize == segment).expect("a victim is in its queue");
        queue.remove(at);
        self.segments[segment].state = State::Victim;
    }

    /// A cleaned victim becomes free.
    pub(crate) fn recycle(&mut self, segment: usize) {
        let s = &self.segments[segment];
        assert!(
            s.state == State::Victim && s.dead == s.used,
            "a live item would be lost with segment {segment}"
        );
        self.dead -= u64::from(s.dead);
        self.segments[segment] = Segment { state: State::Free, ..EMPTY };
        self.free.push(segment as u32);
    }

    /// Gives one free segment's memory back to the system; false if there is none, or on pages that cannot be given back.
    pub(crate) fn release_one(&mut self, budget: &mut Budget) -> bool {
        let Some(segment) = self.free.pop() else { return false };
        let start = (segment as usize) << self.shift;
        if self.heap.release(start..start + self.segment_bytes()).is_err() {
            self.free.push(segment);
            return false;
        }
        self.segments[segment as usize] = EMPTY;
        if self.heap.is_in_file() { &mut self.bare } else { &mut self.unbacked }.push(segment);
        budget.give(Use::Segments, self.segment_bytes());
        true
    }

    pub(crate) fn free_segments(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn unbacked_segments(&self) -> usize {
        self.unbacked.len() + self.bare.len()
    }

    /// Every segment empty, its memory given back.
    pub(crate) fn clear(&mut self, budget: &mut Budget) {
        self.open = [[NONE; CLASSES]; 2];
        self.weight = [0; 2];
        self.live = 0;
        self.dead = 0;
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.free.clear();
        for segment in (0..self.segments.len()).rev() {
            if self.segments[segment].state != State::Unbacked {
                self.segments[segment] = Segment { state: State::Free, ..EMPTY };
                self.free.push(segment as u32);
            }
        }
        while self.release_one(budget) {}
        self.unbacked.sort_unstable_by(|a, b| b.cmp(a));
        self.bare.sort_unstable_by(|a, b| b.cmp(a));
    }
}
