//! Fingerprints of keys that were evicted on probation: whoever comes back soon goes to the main queue at once.
//!
//! Shape: sets of 16 fingerprints of 32 bits, one cache line each; the set is chosen by the low hash bits, the fingerprint
//! is the high half. A set is a FIFO: a new one pushes the oldest out. A false match (about 16 / 2³²) only puts one cold
//! item in the main queue.
//!
//! A get that misses looks here as well, and how recent the eviction was is counted by quarters of a set: in the first are keys that a cache with a quarter
//! of the ghosts' items more would still have had. So a store says what more memory would bring (Cliffhanger, NSDI 2016, has shadow queues for it). What
//! main evicts is not remembered, so it says rather too little. Cost: a cache line for each get that misses.

use crate::warm::ground::{Ground, Part};
use base::pages::{PageKind, Region};
use std::io;

const WAYS: usize = 16;
/// Parts of a set, by how recent evictions are, that misses are counted in.
pub const GHOST_QUARTERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Ghosts {
    region: Region,
    mask: u64,
    /// Gets that missed a key which is remembered, the latest evictions first.
    missed: [u64; GHOST_QUARTERS],
}

impl Ghosts {
    /// A table of about `bytes`, rounded down to a power of two, at least 4 KiB.
    ///
    /// What a file holds of the same size is taken over as it is: whatever its bits are, they only say where a new item begins.
    pub(crate) fn new(bytes: usize, kind: PageKind, ground: &Ground<'_>) -> io::Result<Ghosts> {
        let bytes = Ghosts::rounded(bytes);
        let kind = if bytes >= base::pages::HUGE_PAGE { kind } else { PageKind::Base };
        let mut region = ground.region(Part::Ghosts, bytes, kind)?;
        region.hold(0..bytes)?;
        Ok(Ghosts { region, mask: (bytes / 64 - 1) as u64, missed: [0; GHOST_QUARTERS] })
    }

    fn rounded(bytes: usize) -> usize {
        if bytes < 4096 { 4096 } else { 1 << bytes.ilog2() }
    }

    /// Bytes of those of a store with so much memory.
    pub(crate) fn bytes_in(memory: usize) -> usize {
        Ghosts::rounded(memory / 64)
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.mask as usize + 1) * 64
    }

    fn set(&mut self, hash: u64) -> &mut [u32; WAYS] {
        let at = (hash & self.mask) as usize;
        // SAFETY: `at` is below the number of 64-byte sets in the region, zeroed memory is a valid set, and &mut self
        // makes the reference unique.
        unsafe { &mut *self.region.start().cast::<[u32; WAYS]>().add(at) }
    }

    fn fingerprint(hash: u64) -> u32 {
        ((hash >> 32) as u32).max(1)
    }

    /// Remembers that the key of `hash` was evicted.
    pub(crate) fn remember(&mut self, hash: u64) {
        let set = self.set(hash);
        set.copy_within(0..WAYS - 1, 1);
        set[0] = Ghosts::fingerprint(hash);
    }

    /// Whether the key of `hash` was evicted lately; it is forgotten by this.
    pub(crate) fn take(&mut self, hash: u64) -> bool {
        let wanted = Ghosts::fingerprint(hash);
        let set = self.set(hash);
        let Some(at) = set.iter().position(|&f| f == wanted) else { return false };
        set.copy_within(at + 1.., at);
        set[WAYS - 1] = 0;
        true
    }

    /// A get missed the key of `hash`.
    pub(crate) fn note_miss(&mut self, hash: u64) {
        let wanted = Ghosts::fingerprint(hash);
        if let Some(at) = self.set(hash).iter().position(|&f| f == wanted) {
            self.missed[at * GHOST_QUARTERS / WAYS] += 1;
        }
    }

    /// Gets that missed a key which is remembered, by how recently it was evicted.
    pub(crate) fn missed(&self) -> [u64; GHOST_QUARTERS] {
        self.missed
    }

    /// Keys that are remembered at most.
    pub(crate) fn room(&self) -> usize {
        self.bytes() / size_of::<u32>()
    }

    pub(crate) fn clear(&mut self) {
        for at in 0..=self.mask {
            *self.set(at) = [0; WAYS];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_fifo_and_taking_forgets() {
        let mut ghosts = Ghosts::new(4096, PageKind::Base, &Ground::Anonymous).expect("4 KiB");
        let hash = |n: u64| (n + 1) << 32;
        for n in 0..20 {
            ghosts.remember(hash(n));
        }
        assert!(!ghosts.take(hash(3)), "pushed out by the sixteen after it");
        assert!(ghosts.take(hash(4)) && !ghosts.take(hash(4)));
        assert!(ghosts.take(hash(19)));
        assert_eq!(ghosts.missed(), [0; 4]);
        // The four latest are in the first quarter, and missing forgets nothing.
        for n in [18, 17, 14, 13, 13, 3] {
            ghosts.note_miss(hash(n));
        }
        assert_eq!((ghosts.missed(), ghosts.room()), ([2, 3, 0, 0], 1024));
        ghosts.clear();
        assert!((0..20).all(|n| !ghosts.take(hash(n))));
    }
}
