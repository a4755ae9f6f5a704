//! Forgetting: the end of the log, all of it, or its beginning.

use super::error::Broken;
use super::log::{Beginning, Log};
use super::media::Media;

impl<M: Media> Log<M> {
    /// Forgets everything after `lsn`. That is durable before anything that is appended from now on ([`Log::is_settled`]).
    ///
    /// # Errors
    /// [`Broken`].
    ///
    /// # Panics
    /// If `lsn` is not between what is before the first record and the last one.
    pub fn cut(&mut self, lsn: u64) -> Result<(), Broken> {
        assert!((self.before.0..=self.last()).contains(&lsn), "{lsn} is not in the log");
        self.usable()?;
        if lsn == self.last() {
            return Ok(());
        }
        let written = self.written();
        let end = self.position_after(lsn);
        let kept = end.saturating_sub(self.buffer_at());
        self.buffer.truncate(kept as usize);
        self.end = end;
        self.places.truncate((lsn - self.before.0) as usize);
        self.holes.retain(|hole| hole.first <= lsn);
        self.holes.iter_mut().for_each(|hole| hole.keep(..=lsn));
        if lsn < written {
            self.durable = self.durable.min(lsn);
            self.limit_under_way(lsn);
            self.begin_generation(lsn);
        }
        Ok(())
    }

    /// Forgets everything; the next record is the one after `lsn`, and that had `epoch`. Durable as [`Log::cut`] is.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn restart(&mut self, lsn: u64, epoch: u64) -> Result<(), Broken> {
        self.usable()?;
        // Positions go on behind everything that was written.
        self.end = self.buffer_at();
        self.buffer.clear();
        self.places.clear();
        self.holes.clear();
        self.before = (lsn, epoch);
        self.durable = lsn;
        self.limit_under_way(lsn);
        self.begin_generation(lsn);
        Ok(())
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

    /// From now on records have a new generation, and those after `lsn` of earlier ones are void. [`Log::begin_sync`] writes it to both
    /// superblocks, one after the other, before any record of it.
    pub(super) fn begin_generation(&mut self, lsn: u64) {
        self.generation += 1;
        self.void_after = lsn;
        self.beginning = Some(Beginning { due: 2, begin: self.position_after(self.before.0) });
    }
}
