//! Fingerprints of keys that were evicted on probation: whoever comes back soon goes to the main queue at once.
//!
//! Shape: sets of 16 fingerprints of 32 bits, one cache line each; the set is chosen by the low hash bits, the fingerprint
//! is the high half. A set is a FIFO: a new one pushes the oldest out. A false match (about 16 / 2³²) only puts one cold
//! item in the main queue.

use crate::warm::ground::{Ground, Part};
use base::pages::{PageKind, Region};
use std::io;

const WAYS: usize = 16;

#[derive(Debug)]
pub(crate) struct Ghosts {
    region: Region,
    mask: u64,
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
        Ok(Ghosts { region, mask: (bytes / 64 - 1) as u64 })
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
        ghosts.clear();
        assert!((0..20).all(|n| !ghosts.take(hash(n))));
    }
}
