//! How a port's entries become known to the core, and how large its rings are.

use ring::spsc::MAX_CAPACITY;

/// The three ways across, as Dagger has them between processor and NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// (A) The whole entry is stored at once and seen by its own sequence word.
    Inline,
    /// (B) The core looks at a doorbell, which is rung once per so many entries (at least one), and on every flush.
    Doorbell {
        /// Entries per ring of the doorbell.
        batch: u32,
    },
    /// (C) A phase word per entry; what was sent between two flushes appears as one burst.
    Coherent,
}

impl Mode {
    /// As registers write it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Inline => "inline",
            Mode::Doorbell { .. } => "doorbell",
            Mode::Coherent => "coherent",
        }
    }
}

/// What is chosen when a port is opened or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// How the core learns of entries. Towards the application it is always bursts of entries with phase words: Dagger's device, too,
    /// writes to the host in one way whatever the mode (item 22).
    pub mode: Mode,
    /// Entries in each direction; rounded up to a power of two.
    pub entries: u32,
    /// Bytes beyond the slots that may be on their way in each direction. One longer packet alone passes nevertheless.
    pub boxed_bytes: usize,
}

impl Default for PortOptions {
    fn default() -> PortOptions {
        PortOptions { mode: Mode::Coherent, entries: 256, boxed_bytes: 1 << 20 }
    }
}

impl PortOptions {
    pub(super) fn capacity(&self) -> u32 {
        self.entries.clamp(1, MAX_CAPACITY).next_power_of_two()
    }
}
