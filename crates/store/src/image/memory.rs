//! Zeroed memory on large pages, as bytes and as words: all that an image and its index stand on.

use base::pages::{PageKind, Region};
use std::io;

/// So many bytes, zero at first; used page by page when first written.
#[derive(Debug)]
pub(super) struct Memory {
    region: Region,
    len: usize,
}

impl Memory {
    pub(super) fn new(len: usize) -> io::Result<Memory> {
        Ok(Memory { region: Region::map(len, PageKind::Transparent)?, len })
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the region has at least `len` bytes, all written (zero), and lives as long as self; whoever writes has &mut self.
        unsafe { std::slice::from_raw_parts(self.region.start(), self.len) }
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and &mut self means that nobody else reads.
        unsafe { std::slice::from_raw_parts_mut(self.region.start(), self.len) }
    }

    #[inline(always)]
    pub(super) fn words(&self) -> &[u64] {
        // SAFETY: as for bytes; a region begins at a page, so its words are aligned, and any bits are a u64.
        unsafe { std::slice::from_raw_parts(self.region.start().cast(), self.len / 8) }
    }

    #[inline(always)]
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and &mut self means that nobody else reads.
        unsafe { std::slice::from_raw_parts_mut(self.region.start().cast(), self.len / 8) }
    }

    /// Everything is zero again. The system takes the memory back, where it can.
    pub(super) fn clear(&mut self) {
        let whole = self.region.len();
        if self.region.release(0..whole).is_err() {
            self.bytes_mut().fill(0);
        }
    }
}
