//! A `flush_all` that is still to come, at a home of boxes: a store would do it at its moment without a word, and boxes would answer what is gone.
//!
//! Where there is no log, which would have its second, it is kept here; it is begun when its moment has come, waits for boxes as any flush, and is over when
//! everything is flushed after that moment, by whatever. Memory that is left to the next process has it, as a store's own.
//!
//! Tests: `store` for memory without boxes; `kv::home::tests` for a home's.

use super::commands::Commands;

/// What is known of it.
#[derive(Debug, Default)]
pub struct PutOff {
    /// Flushes are put off here.
    is_here: bool,
    /// The second at which everything is to be flushed.
    at: Option<u32>,
    /// The home was asked for a flush whose moment has come, and waits for boxes.
    pub waits: bool,
    /// A mistake on purpose: it is not left with the memory.
    pub(super) stays_behind: bool,
}

impl PutOff {
    /// Whether flushes are put off here.
    pub fn is_here(&self) -> bool {
        self.is_here
    }
}

impl Commands {
    /// From now on no flush is done without the home; one that memory of an earlier life has is put off here, too.
    pub(super) fn put_off_flushes(&mut self, stays_behind: bool) {
        self.put_off = PutOff { is_here: true, at: self.store.take_flush(), waits: false, stays_behind };
    }

    /// A flush is to come at this second; it replaces one that was.
    pub(super) fn put_off_to(&mut self, second: u32) {
        (self.put_off.at, self.put_off.waits) = (Some(second), false);
    }

    /// Everything is flushed, and so is what was to be flushed by now. One that was put off since stays.
    pub(super) fn is_flushed(&mut self) {
        if self.put_off.at.is_some_and(|at| at <= self.now) {
            (self.put_off.at, self.put_off.waits) = (None, false);
        }
    }

    /// A flush that is done at once replaces one that was put off.
    pub(super) fn put_off_no_more(&mut self) {
        (self.put_off.at, self.put_off.waits) = (None, false);
        if let Some(durable) = &mut self.durable {
            durable.journal_mut().flush_no_more();
        }
    }

    /// Whether the moment of a flush has come and the home was not asked for it yet.
    pub(super) fn is_flush_to_be_begun(&mut self) -> bool {
        let is_due = self.is_logged_flush_due() || self.put_off.at.is_some_and(|at| at <= self.now);
        self.put_off.waits &= is_due;
        is_due && !self.put_off.waits
    }

    /// Before memory is left to the next process: the second of the flush that this owes. It may have begun: boxes are to be asked all the same, by the next.
    pub(super) fn owed_flush(&mut self) -> Option<u32> {
        self.put_off.at.take().filter(|_| !self.put_off.stays_behind)
    }
}
