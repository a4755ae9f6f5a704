//! Forgetting: the end of the log, all of it, or its beginning.

use super::error::{Broken, Doing};
use super::log::Log;
use super::media::Media;

impl<M: Media> Log<M> {
    /// Forgets everything after `lsn`, for good once it returns. Waits for what is under way first.
    ///
    /// # Errors
    /// [`Broken`]: whether anything was forgotten is not known.
    ///
    /// # Panics
    /// If `lsn` is not between what is before the first record and the last one.
    pub fn cut(&mut self, lsn: u64) -> Result<(), Broken> {
        assert!((self.before.0..=self.last()).contains(&lsn), "{lsn} is not in the log");
        self.end_sync()?;
        if lsn == self.last() {
            return Ok(());
        }
        let end = self.position_after(lsn);
        let kept = end.saturating_sub(self.buffer_at());
        self.buffer.truncate(kept as usize);
        self.end = end;
        self.places.truncate((lsn - self.before.0) as usize);
        self.holes.retain(|hole| hole.first <= lsn);
        self.holes.iter_mut().for_each(|hole| hole.keep(..=lsn));
        if lsn >= self.durable {
            return Ok(());
        }
        self.durable = lsn;
        self.begin_generation(lsn)
    }

    /// Forgets everything; the next record is the one after `lsn`, and that had `epoch`. For good once it returns.
    ///
    /// # Errors
    /// [`Broken`]: whether anything was forgotten is not known.
    pub fn restart(&mut self, lsn: u64, epoch: u64) -> Result<(), Broken> {
        self.end_sync()?;
        // Positions go on behind everything that was written.
        self.end = self.buffer_at();
        self.buffer.clear();
        self.places.clear();
        self.holes.clear();
        self.before = (lsn, epoch);
        self.durable = lsn;
        self.begin_generation(lsn)
    }

    /// Records before `lsn` may go, as far as they are durable. There is room in their place when both superblocks say so, which takes two more
    /// syncs ([`Log::needs_sync`]). Until then, and where they are damaged with neighbours that stay, opening the log finds them again.
    pub fn release(&mut self, lsn: u64) {
        let first = lsn.min(self.durable + 1);
        let Some(gone) = first.checked_sub(self.first()).filter(|gone| *gone > 0) else { return };
        let epoch = self.epoch(first - 1).expect("a record that is here");
        self.places.drain(..gone as usize);
        self.before = (first - 1, epoch);
        self.holes.retain(|hole| hole.last >= first);
        self.holes.iter_mut().for_each(|hole| hole.keep(first..));
    }

    /// From now on records have a new generation, and those after `lsn` of earlier ones are void. Written to both superblocks, one after the other.
    pub(super) fn begin_generation(&mut self, lsn: u64) -> Result<(), Broken> {
        self.generation += 1;
        self.void_after = lsn;
        for _ in 0..2 {
            let (place, begin, range) = self.write_superblock()?;
            self.persist(Doing::Marking, &[range])?;
            self.freed[place] = begin;
        }
        Ok(())
    }
}
