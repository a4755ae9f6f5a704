//! What lies where on a checkpoint's medium.
//!
//! ```text
//!  ├ header ┼ header ┼ map ───┼ map ───┼ blocks ──────────────┼ blocks ──────────────┤
//!    4 KiB    4 KiB    8 bytes a block   a copy of each block   another of each
//!
//!  header, 64 B: "ckpt0001" │ number │ bytes │ page u32 │ CRC of the map u32 │ redo_from │ floor │ extent │ 0 u32 │ CRC u32
//!  map entry:    CRC32C of the block u32 │ 0 for a block of zeros, 1 or 2 for the copy that counts u32
//! ```
//! Checkpoint `number` has its header and map in place `number mod 2`, and writes each block that changed over the copy that the one
//! before does not use.

use crate::image::{BLOCK, Config};
use std::ops::Range;

/// Bytes that a header has to itself, so that writing one does not touch the other.
const PLACE: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"ckpt0001");
pub(super) const HEADER: usize = 64;

/// A checkpoint's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) page: u32,
    pub(super) map_crc: u32,
    pub(super) redo_from: u64,
    pub(super) floor: u64,
    pub(super) extent: u64,
}

impl Header {
    pub(super) fn emit(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        let words = [
            (0, MAGIC),
            (8, self.number),
            (16, self.bytes),
            (32, self.redo_from),
            (40, self.floor),
            (48, self.extent),
        ];
        for (at, word) in words {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        out[24..28].copy_from_slice(&self.page.to_le_bytes());
        out[28..32].copy_from_slice(&self.map_crc.to_le_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn parse(bytes: &[u8; HEADER]) -> Option<Header> {
        let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        let holds = word(0) == MAGIC && half(60) == crc32c::crc32c(&bytes[..60]);
        holds.then(|| Header {
            number: word(8),
            bytes: word(16),
            page: half(24),
            map_crc: half(28),
            redo_from: word(32),
            floor: word(40),
            extent: word(48),
        })
    }
}

/// Which of two copies of a block counts, and what its checksum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// 0 for neither: the block is zero.
    pub(super) copy: u32,
    pub(super) crc: u32,
}

impl Known {
    /// Where the next one of this block goes.
    pub(super) fn other_copy(self) -> u32 {
        if self.copy == 1 { 2 } else { 1 }
    }
}

pub(super) fn emit_map(map: &[Known]) -> Vec<u8> {
    let words = map.iter().map(|known| u64::from(known.crc) << 32 | u64::from(known.copy));
    words.flat_map(u64::to_le_bytes).collect()
}

pub(super) fn parse_map(bytes: &[u8]) -> Vec<Known> {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    words.map(|word| Known { copy: word as u32, crc: (word >> 32) as u32 }).collect()
}

/// Where things are for an image of so many blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) blocks: usize,
}

impl Layout {
    pub(super) fn of(config: &Config) -> Layout {
        Layout { blocks: (config.bytes / BLOCK as u64) as usize }
    }

    pub(super) fn header(self, number: u64) -> Range<u64> {
        let start = number % 2 * PLACE;
        start..start + HEADER as u64
    }

    pub(super) fn map(self, number: u64) -> Range<u64> {
        let len = self.blocks as u64 * 8;
        let start = 2 * PLACE + number % 2 * len.next_multiple_of(PLACE);
        start..start + len
    }

    /// Where a copy (1 or 2) of a run of blocks is.
    pub(super) fn blocks(self, copy: u32, blocks: Range<usize>) -> Range<u64> {
        let maps = (self.blocks as u64 * 8).next_multiple_of(PLACE);
        let start = 2 * PLACE + 2 * maps + u64::from(copy - 1) * (self.blocks * BLOCK) as u64;
        start + (blocks.start * BLOCK) as u64..start + (blocks.end * BLOCK) as u64
    }

    pub(super) fn len(self) -> u64 {
        self.blocks(2, 0..self.blocks).end
    }
}
