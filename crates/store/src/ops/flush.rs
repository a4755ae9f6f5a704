//! FLUSH: everything stored before a moment is dead from that moment.
//!
//! A flush starts a new epoch; items carry the epoch they were written in, and one of another epoch is gone for every
//! operation from then on. The memory comes back when the cleaner meets them, whole segments first.
//!
//! Why not compare versions: a client may give a version of its own, lower than the flush's.

use crate::store::Store;

impl Store {
    /// Flushes at `at`; at once where that is not after `now`. A later call replaces a flush that is still to come.
    pub fn flush_all(&mut self, now: u32, at: u32) {
        self.advance(now);
        if at <= now {
            self.flush_now();
        } else {
            self.flush_at = at;
        }
    }

    /// Takes away the flush that is still to come, or is due and not done yet, and says at which second: whoever takes it has to do it.
    pub fn take_flush(&mut self) -> Option<u32> {
        let at = std::mem::replace(&mut self.flush_at, u32::MAX);
        (at != u32::MAX).then_some(at)
    }

    #[cold]
    pub(crate) fn flush_now(&mut self) {
        self.flush_at = u32::MAX;
        if self.epoch == u16::MAX {
            // Epochs would repeat while old items may still lie about: clear them out, once in 65,536 flushes.
            self.clear();
            self.epoch = 0;
        } else {
            self.epoch += 1;
        }
    }
}
