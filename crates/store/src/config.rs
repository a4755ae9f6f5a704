//! What a store is told when it is made, and why it may refuse.

use base::pages::PageKind;
use std::fmt;

/// What happens when the memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Old and unused items make room (S3-FIFO); a write fails only when nothing can be evicted.
    Cache,
    /// Nothing that was acknowledged is ever dropped; a write that has no room gets
    /// [`OutOfMemory`](crate::SetError::OutOfMemory).
    Store,
}

/// The settings of one store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Cache or store.
    pub mode: Mode,
    /// Bytes for everything together: index, segments, large values, ghosts. Never exceeded.
    pub memory: usize,
    /// The most `memory` may be raised to later; address space for it is reserved now. At least `memory` is used.
    pub memory_ceiling: usize,
    /// The longest value, at most [`MAX_VALUE`].
    pub max_value: usize,
    /// Items to size the index for at the start; it grows by itself beyond.
    pub expected_items: usize,
    /// Pages to ask for. The index asks for transparent ones at most: it is too dynamic for reserved ones.
    pub pages: PageKind,
    /// Seed of the key hash. Draw it at random where strangers choose the keys.
    pub hash_seed: u64,
}

/// The longest value any store takes.
pub const MAX_VALUE: usize = 128 << 20;

/// The least memory a store works with.
pub const MIN_MEMORY: usize = 1 << 20;

impl Config {
    /// Defaults for `memory` bytes in `mode`: 1 MiB values, transparent huge pages, hash seed 0.
    pub fn new(mode: Mode, memory: usize) -> Config {
        Config {
            mode,
            memory,
            memory_ceiling: memory,
            max_value: (1 << 20).min(memory / 4),
            expected_items: 0,
            pages: PageKind::Transparent,
            hash_seed: base::hash::WIRE_SEED,
        }
    }

    pub(crate) fn checked(&self) -> Result<(), ConfigError> {
        if self.memory < MIN_MEMORY {
            return Err(ConfigError::MemoryTooSmall { asked: self.memory });
        }
        if self.max_value > MAX_VALUE {
            return Err(ConfigError::ValueTooLong { asked: self.max_value });
        }
        // A large value needs itself, the segments beside it, and on overwriting its predecessor.
        if self.max_value > self.memory / 4 {
            return Err(ConfigError::ValueBeyondMemory { asked: self.max_value, memory: self.memory });
        }
        let index = self.expected_items.saturating_mul(64) / crate::index::TARGET_PER_BUCKET_X2 * 2;
        if index > self.memory / 2 {
            return Err(ConfigError::TooManyExpected { asked: self.expected_items, memory: self.memory });
        }
        Ok(())
    }
}

/// Why a store could not be made; the text says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Below [`MIN_MEMORY`].
    MemoryTooSmall {
        /// Bytes asked for.
        asked: usize,
    },
    /// Beyond [`MAX_VALUE`].
    ValueTooLong {
        /// Bytes asked for.
        asked: usize,
    },
    /// One value could take more than a quarter of the memory.
    ValueBeyondMemory {
        /// Bytes asked for.
        asked: usize,
        /// The memory it was asked for with.
        memory: usize,
    },
    /// The index for that many items would take more than half of the memory.
    TooManyExpected {
        /// Items asked for.
        asked: usize,
        /// The memory it was asked for with.
        memory: usize,
    },
    /// A limit above the ceiling that the store was made with.
    AboveCeiling {
        /// Bytes asked for.
        asked: usize,
        /// The ceiling.
        ceiling: usize,
    },
    /// A store-mode limit below what is in use.
    BelowUse {
        /// Bytes asked for.
        asked: usize,
        /// The least that would do now.
        floor: usize,
    },
    /// The file system that its memory lies on has no more room.
    NoRoom(String),
    /// The system gave no address space.
    System(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: usize| base::Bytes(n as u64);
        match self {
            ConfigError::MemoryTooSmall { asked } => {
                write!(f, "{} of memory is too little; give at least {}", bytes(*asked), bytes(MIN_MEMORY))
            }
            ConfigError::ValueTooLong { asked } => {
                write!(f, "values of {} are too long; allow at most {}", bytes(*asked), bytes(MAX_VALUE))
            }
            ConfigError::ValueBeyondMemory { asked, memory } => write!(
                f,
                "values to {} need at least {} of memory, not {}; raise the memory or lower the longest value",
                bytes(*asked),
                bytes(asked.saturating_mul(4)),
                bytes(*memory)
            ),
            ConfigError::TooManyExpected { asked, memory } => write!(
                f,
                "an index for {asked} items takes more than half of {}; expect fewer items or give more memory",
                bytes(*memory)
            ),
            ConfigError::AboveCeiling { asked, ceiling } => write!(
                f,
                "{} is above the ceiling of {} that was reserved at the start; restart with a higher ceiling",
                bytes(*asked),
                bytes(*ceiling)
            ),
            ConfigError::BelowUse { asked, floor } => write!(
                f,
                "{} is less than the {} in use; delete something first, a store drops nothing by itself",
                bytes(*asked),
                bytes(*floor)
            ),
            ConfigError::NoRoom(why) => {
                write!(f, "the memory cannot grow: {why}; make room there, or leave the limit")
            }
            ConfigError::System(why) => write!(f, "the system gave no address space: {why}"),
        }
    }
}

impl std::error::Error for ConfigError {}
