//! One ring of requests on its medium: where entries may lie, which of them are kept, what is stamped and not durable.
//!
//! ```text
//!            freed                        head
//!              ▼                           ▼
//!  │ free      │ entry │ entry │ … │ entry │ free … │ skipped │      a circle of `capacity` bytes, positions only grow
//! ```
//! An entry never wraps: where the rest of the circle is too short it is skipped, by whoever writes.

use super::entry::STAMP;
use crate::redo::media::Media;
use std::collections::VecDeque;
use std::ops::Range;

/// Where an entry of `len` bytes begins, if there is room.
fn place((head, freed): (u64, u64), capacity: u64, len: u64) -> Option<u64> {
    let rest = capacity - head % capacity;
    let position = if len <= rest { head } else { head + rest };
    (len <= capacity && position + len - freed <= capacity).then_some(position)
}

/// Where the entry after one that ends at `end` may begin.
fn next(end: u64) -> u64 {
    end.next_multiple_of(STAMP as u64)
}

/// The writing end of a lane, as its client keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    capacity: u64,
    head: u64,
    freed: u64,
}

impl Writer {
    /// Of a lane of `capacity` bytes, in which `begin` ([`super::RingLog::begin`]) is the first place.
    pub fn new(capacity: u64, begin: u64) -> Writer {
        Writer { capacity, head: begin, freed: begin }
    }

    /// The server says that everything before `freed` may be written again.
    pub fn heard(&mut self, freed: u64) {
        self.freed = self.freed.max(freed.min(self.head));
    }

    /// Where an entry for a request of `len` bytes begins; the request is to lie [`STAMP`] bytes behind that. None while there is no room.
    pub fn place(&mut self, len: usize) -> Option<u64> {
        let len = (STAMP + len) as u64;
        let position = place((self.head, self.freed), self.capacity, len)?;
        self.head = next(position + len);
        Some(position)
    }

    /// Where on the medium `position` is.
    pub fn offset(&self, position: u64) -> u64 {
        position % self.capacity
    }
}

#[derive(Debug)]
pub(super) struct Lane<M> {
    pub(super) medium: M,
    pub(super) capacity: u64,
    /// The next entry begins here or later.
    pub(super) head: u64,
    /// What is before is free.
    pub(super) freed: u64,
    /// By end of entry: the effect that it has; 0: none.
    pub(super) held: VecDeque<(u64, u64)>,
    /// On the medium; stamped since the last sync began.
    stamped: Vec<Range<u64>>,
    under_way: Vec<Range<u64>>,
}

impl<M: Media> Lane<M> {
    pub(super) fn new(medium: M) -> Lane<M> {
        let capacity = medium.len() / STAMP as u64 * STAMP as u64;
        Lane {
            medium,
            capacity,
            head: 0,
            freed: 0,
            held: VecDeque::new(),
            stamped: Vec::new(),
            under_way: Vec::new(),
        }
    }

    /// Where the server's own entry of `len` bytes begins.
    pub(super) fn place(&self, len: u64) -> Option<u64> {
        place((self.head, self.freed), self.capacity, len)
    }

    /// Whether a client may have written an entry of `len` bytes there.
    pub(super) fn admits(&self, position: u64, len: u64) -> bool {
        position.is_multiple_of(STAMP as u64)
            && position >= self.head
            && position < u64::MAX >> 1
            && len <= self.capacity - position % self.capacity
            && position + len - self.freed <= self.capacity
    }

    /// Bytes that are left.
    pub(super) fn room(&self) -> u64 {
        self.capacity - (self.head - self.freed)
    }

    /// An entry has effect `lsn`, or none (0), and ends at `end`.
    pub(super) fn hold(&mut self, lsn: u64, end: u64) {
        self.head = next(end);
        self.held.push_back((lsn, self.head));
        self.free(0);
    }

    /// Effects before `lsn` are no longer needed.
    pub(super) fn free(&mut self, lsn: u64) {
        while let Some((_, end)) = self.held.front().copied().filter(|(of, _)| *of < lsn || *of == 0) {
            self.freed = end;
            self.held.pop_front();
        }
    }

    /// What is to be made durable, whole lines; neighbours as one.
    pub(super) fn stamp(&mut self, position: u64, len: u64) {
        let start = position % self.capacity;
        let end = next(start + len);
        match self.stamped.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.stamped.push(start..end),
        }
    }

    pub(super) fn is_stamped(&self) -> bool {
        !self.stamped.is_empty()
    }

    /// Begins to make durable what is stamped.
    pub(super) fn start(&mut self) -> std::io::Result<()> {
        self.under_way.clear();
        std::mem::swap(&mut self.under_way, &mut self.stamped);
        if self.under_way.is_empty() { Ok(()) } else { self.medium.start(&self.under_way) }
    }

    pub(super) fn is_done(&mut self) -> bool {
        self.under_way.is_empty() || self.medium.is_done()
    }

    /// Waits for that. Whether there was anything.
    pub(super) fn finish(&mut self) -> std::io::Result<bool> {
        let any = !self.under_way.is_empty();
        if any {
            self.medium.persist(&self.under_way)?;
            self.under_way.clear();
        }
        Ok(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redo::media::Memory;

    #[test]
    fn a_writer_and_its_lane_agree_on_what_is_free() {
        let (mut lane, mut writer) = (Lane::new(Memory::new(1024)), Writer::new(1024, 0));
        let mut prng = base::Prng::new(1);
        let mut lsn = 0;
        for _ in 0..2000 {
            let len = prng.below(400) as usize;
            if let Some(position) = writer.place(len) {
                assert!(lane.admits(position, (STAMP + len) as u64), "{position} {len}: {lane:?}");
                lsn += 1;
                lane.hold(if prng.below(3) == 0 { 0 } else { lsn }, position + (STAMP + len) as u64);
            } else {
                lane.free(lsn + 1 - prng.below(2).min(lsn));
                writer.heard(lane.freed);
            }
        }
        assert!(writer.head > 100 * 1024, "many turns");
    }

    #[test]
    fn what_no_honest_client_writes_is_not_admitted() {
        let mut lane = Lane::new(Memory::new(1024));
        lane.hold(1, 512);
        assert!(lane.admits(512, 512) && lane.admits(576, 448));
        for (position, len) in [(448, 64), (520, 64), (512, 513), (960, 128), (1024, 64), (!63, 64)] {
            assert!(!lane.admits(position, len), "{position} {len}");
        }
        lane.free(2);
        assert!(lane.admits(1024, 512));
    }
}
