//! MAINTAIN: what an idle core may do for the store, in bounded steps; and changing the memory limit.

use crate::config::{ConfigError, MIN_MEMORY, Mode};
use crate::store::Store;

impl Store {
    /// Walks up to about `bytes` of segments that have expired or been flushed, or that a lowered limit asks back. True while
    /// there is more to do.
    pub fn maintain(&mut self, now: u32, bytes: usize) -> bool {
        self.advance(now);
        if self.budget.is_over() {
            self.release_wanted = self.budget.spent() - self.budget.limit;
            return self.clean(now, bytes) > 0;
        }
        self.clean_expired(now, bytes) >= bytes
    }

    /// Sets the limit to `bytes`. A cache that uses more gives back step by step with the operations that follow.
    ///
    /// # Errors
    /// [`ConfigError`]: too little, above the ceiling of the configuration, more than the file system of its files has, or in store
    /// mode below what is in use.
    pub fn set_memory_limit(&mut self, bytes: usize) -> Result<(), ConfigError> {
        if bytes > self.config.memory_ceiling {
            return Err(ConfigError::AboveCeiling { asked: bytes, ceiling: self.config.memory_ceiling });
        }
        if bytes < MIN_MEMORY {
            return Err(ConfigError::MemoryTooSmall { asked: bytes });
        }
        if self.config.max_value > bytes / 4 {
            return Err(ConfigError::ValueBeyondMemory { asked: self.config.max_value, memory: bytes });
        }
        let floor = self.budget.spent() + 2 * self.log.segment_bytes();
        if self.config.mode == Mode::Store && bytes < floor {
            return Err(ConfigError::BelowUse { asked: bytes, floor });
        }
        let before = std::mem::replace(&mut self.budget.limit, bytes);
        if let Err(why) = self.log.hold(&self.budget) {
            self.budget.limit = before;
            self.log.give_up(&self.budget, 0);
            return Err(ConfigError::NoRoom(why.to_string()));
        }
        self.log.give_up(&self.budget, 0);
        self.config.memory = bytes;
        self.release_wanted = self.budget.spent().saturating_sub(bytes);
        Ok(())
    }
}
