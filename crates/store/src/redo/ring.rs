//! Where positions lie on the medium, and reading along them.

use super::media::Media;
use std::io;
use std::ops::Range;

/// Bytes before the ring: two superblocks, each in a page of its own.
pub(super) const START: u64 = 8192;

/// Bytes that a medium has at least.
pub const MIN_MEDIUM: u64 = START + 4096;

/// Bytes that are read at once when the log is read from end to end.
const CHUNK: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ring {
    pub(super) capacity: u64,
}

impl Ring {
    /// Of a medium of `len` bytes, if that is enough.
    pub(super) fn new(len: u64) -> Option<Ring> {
        (len >= MIN_MEDIUM).then(|| Ring { capacity: (len - START) & !7 })
    }

    /// The one or two ranges of the medium in which `len` bytes from `position` lie. The second is empty, but where the ring ends between.
    pub(super) fn ranges(self, position: u64, len: u64) -> [Range<u64>; 2] {
        debug_assert!(len <= self.capacity);
        let at = position % self.capacity;
        let first = len.min(self.capacity - at);
        [START + at..START + at + first, START..START + len - first]
    }

    pub(super) fn read(self, media: &impl Media, position: u64, out: &mut [u8]) -> io::Result<()> {
        let [first, second] = self.ranges(position, out.len() as u64);
        let (head, rest) = out.split_at_mut((first.end - first.start) as usize);
        media.read_at(first.start, head)?;
        if rest.is_empty() { Ok(()) } else { media.read_at(second.start, rest) }
    }

    /// Writes, and says where.
    pub(super) fn write(
        self,
        media: &mut impl Media,
        position: u64,
        bytes: &[u8],
    ) -> io::Result<[Range<u64>; 2]> {
        let ranges = self.ranges(position, bytes.len() as u64);
        let (head, rest) = bytes.split_at((ranges[0].end - ranges[0].start) as usize);
        media.write_at(ranges[0].start, head)?;
        if !rest.is_empty() {
            media.write_at(ranges[1].start, rest)?;
        }
        Ok(ranges)
    }
}

/// Reads along positions, a large piece at a time.
pub(super) struct Reader<'a, M> {
    media: &'a M,
    ring: Ring,
    /// Nothing is read from here on.
    end: u64,
    at: u64,
    piece: Vec<u8>,
}

impl<'a, M: Media> Reader<'a, M> {
    pub(super) fn new(media: &'a M, ring: Ring, end: u64) -> Reader<'a, M> {
        Reader { media, ring, end, at: 0, piece: Vec::new() }
    }

    /// `len` bytes at a position; `None` beyond the end.
    pub(super) fn bytes(&mut self, position: u64, len: u64) -> io::Result<Option<&[u8]>> {
        let Some(end) = position.checked_add(len).filter(|end| *end <= self.end) else { return Ok(None) };
        if position < self.at || end > self.at + self.piece.len() as u64 {
            let want = len.max(CHUNK).min(self.end - position).min(self.ring.capacity);
            self.at = position;
            self.piece.resize(want as usize, 0);
            self.ring.read(self.media, position, &mut self.piece)?;
        }
        let from = (position - self.at) as usize;
        Ok(Some(&self.piece[from..from + len as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redo::media::Memory;

    #[test]
    fn what_is_written_across_the_end_is_read_again() {
        let mut media = Memory::new(MIN_MEDIUM as usize);
        let ring = Ring::new(media.len()).expect("just enough");
        assert_eq!((ring.capacity, Ring::new(MIN_MEDIUM - 1)), (4096, None));
        let bytes: Vec<u8> = (0..200).collect();
        let ranges = ring.write(&mut media, 3 * 4096 - 50, &bytes).expect("inside");
        assert_eq!(ranges, [START + 4046..START + 4096, START..START + 150]);
        let mut reader = Reader::new(&media, ring, 3 * 4096 + 150);
        assert_eq!(reader.bytes(3 * 4096 - 50, 200).expect("inside"), Some(&bytes[..]));
        assert_eq!(reader.bytes(3 * 4096 + 100, 50).expect("inside"), Some(&bytes[150..]));
        assert_eq!(reader.bytes(3 * 4096 + 101, 50).expect("inside"), None);
    }
}
