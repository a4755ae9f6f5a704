//! How a frame is published to the other side: Dagger's interface modes (A) to (C), as the kind of ring behind a link.
//!
//! The default is the one that is fastest while few calls are in flight, and within 16 % of the fastest between processes at
//! 64; doorbells are the fastest from 32 on (`docs/measurements/links.md`).

use ring::spsc::Variant;

/// How frames become visible to the other side of a memory or shm link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// (A) Each frame is stored whole and seen at once, by the sequence word in its slot.
    #[default]
    Inline,
    /// (B) One published tail for all frames of a flush.
    Doorbell,
    /// (C) A phase word per frame; those of a flush appear as one burst, published by the first one's word.
    Coherent,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Inline, Mode::Doorbell, Mode::Coherent];

    /// As registers and measurements write it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Inline => "inline",
            Mode::Doorbell => "doorbell",
            Mode::Coherent => "coherent",
        }
    }

    /// The ring that does it.
    pub fn ring(self) -> Variant {
        match self {
            Mode::Inline => Variant::InSlot,
            Mode::Doorbell => Variant::Index,
            Mode::Coherent => Variant::Hybrid,
        }
    }
}
