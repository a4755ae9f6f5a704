//! What a journal wants of its log: effects appended in order, made durable together, forgotten from the front.
//!
//! Two there are: [`Log`], on a medium of its own, into which effects are copied; and [`RingLog`](super::rings::RingLog), the rings in which requests
//! came, where an effect of which a request has the bytes stays where it is.

use super::effect::{Effect, HEAD};
use crate::redo::{Broken, Counters, HEADER, Log, Media, Refused};

/// Nobody reads epochs of this log.
const EPOCH: u64 = 1;

/// See the head of the file. Positions are numbers of records, without gaps.
pub trait Records {
    /// Appends the effect after [`Records::last`].
    ///
    /// # Errors
    /// [`Refused`]; then nothing was appended.
    fn append(&mut self, position: u64, effect: &Effect<'_>) -> Result<(), Refused>;

    /// Whether an effect with so many bytes of key and value can be appended, and `reserve` bytes are left then, or that part of all.
    fn has_room(&self, len: usize, reserve: u64, part: u64) -> bool;

    /// Bytes that are left where the fewest are.
    fn room(&self) -> u64;

    /// Bytes that there are altogether.
    fn capacity(&self) -> u64;

    /// The first that is here; one more than the last if there is none.
    fn first(&self) -> u64;

    /// The last.
    fn last(&self) -> u64;

    /// Everything up to here survives.
    fn durable(&self) -> u64;

    /// An effect's bytes, of those that were found at the start. None where it is damaged.
    fn payload(&self, position: u64) -> Option<Vec<u8>>;

    /// What is before `position` is no longer needed, as far as it is durable.
    fn release(&mut self, position: u64);

    /// Whether [`Records::begin_sync`] has something to do, or something is under way.
    fn needs_sync(&self) -> bool;

    /// Begins to make durable what is not, if nothing is under way. Whether something is under way now.
    ///
    /// # Errors
    /// [`Broken`], for good.
    fn begin_sync(&mut self) -> Result<bool, Broken>;

    /// Whether something is.
    fn is_under_way(&self) -> bool;

    /// Whether [`Records::end_sync`] would not wait.
    fn sync_is_done(&mut self) -> bool;

    /// Waits until what is under way is durable, and says up to where everything is.
    ///
    /// # Errors
    /// [`Broken`], for good.
    fn end_sync(&mut self) -> Result<u64, Broken>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// [`Broken`], for good.
    fn sync(&mut self) -> Result<u64, Broken>;

    /// Has the next sync say what is durable, elsewhere than where effects are, if the log can.
    fn mark(&mut self);

    /// What was said to be durable so, or is durable where the log cannot say it.
    fn marked(&self) -> u64;

    /// What went wrong, if anything did.
    fn broken(&self) -> Option<&Broken>;

    /// What was done since the start.
    fn counters(&self) -> Counters;
}

impl<M: Media> Records for Log<M> {
    fn append(&mut self, position: u64, effect: &Effect<'_>) -> Result<(), Refused> {
        let (key, value) = effect.key_and_value();
        Log::append(self, position, EPOCH, &[&effect.head(), key, value])
    }

    fn has_room(&self, len: usize, reserve: u64, part: u64) -> bool {
        let record = (HEADER + HEAD + len).next_multiple_of(8) as u64;
        Log::room(self) >= record + reserve.min(Log::capacity(self) / part)
    }

    fn room(&self) -> u64 {
        Log::room(self)
    }

    fn capacity(&self) -> u64 {
        Log::capacity(self)
    }

    fn first(&self) -> u64 {
        Log::first(self)
    }

    fn last(&self) -> u64 {
        Log::last(self)
    }

    fn durable(&self) -> u64 {
        Log::durable(self)
    }

    fn payload(&self, position: u64) -> Option<Vec<u8>> {
        self.read(position).map(|record| record.payload)
    }

    fn release(&mut self, position: u64) {
        Log::release(self, position);
    }

    fn needs_sync(&self) -> bool {
        Log::needs_sync(self)
    }

    fn begin_sync(&mut self) -> Result<bool, Broken> {
        Log::begin_sync(self)
    }

    fn is_under_way(&self) -> bool {
        Log::is_under_way(self)
    }

    fn sync_is_done(&mut self) -> bool {
        Log::sync_is_done(self)
    }

    fn end_sync(&mut self) -> Result<u64, Broken> {
        Log::end_sync(self)
    }

    fn sync(&mut self) -> Result<u64, Broken> {
        Log::sync(self)
    }

    fn mark(&mut self) {
        Log::mark(self);
    }

    fn marked(&self) -> u64 {
        Log::marked(self)
    }

    fn broken(&self) -> Option<&Broken> {
        Log::broken(self)
    }

    fn counters(&self) -> Counters {
        Log::counters(self)
    }
}
