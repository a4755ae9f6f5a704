//! What travels in a slot of a lane: written by one side, and taken by the other, which believes nothing of it.
//!
//! ```text
//!  word u32: kind in the upper 2 bits, length │ 120 bytes: the message, or where it is in the arena
//! ```
//! Apart from the lanes because every access to a slot is here: one packet at a time, by its address.

use super::{INLINE, KEEP};
use crate::arena::Claim;
use crate::shm::wire::{Violation, Wire};
use crate::{Plain, plain};

/// Bytes of a slot's item that lie in the line of its word: a shorter message moves one line.
const FIRST_LINE: usize = 56;

/// What travels in a slot.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Packet {
    word: u32,
    bytes: [u8; INLINE],
}

// SAFETY: integers only, without padding.
unsafe impl Plain for Packet {}

/// A packet that fills 128 bytes where the ring has no word of its own beside it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Padded {
    packet: Packet,
    _unused: u32,
}

// SAFETY: as Packet.
unsafe impl Plain for Padded {}

/// What a packet says about its message.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Content {
    /// Its bytes.
    Inline = 0,
    /// Where it is.
    InArena = 1,
    /// Where its next piece is.
    Piece = 2,
    /// Where its last piece is.
    LastPiece = 3,
}

const KIND_SHIFT: u32 = 30;
const LEN_MASK: u32 = (1 << KIND_SHIFT) - 1;

impl Content {
    #[inline(always)]
    pub(super) fn word(self, len: usize) -> u32 {
        (self as u32) << KIND_SHIFT | len as u32
    }

    fn of(word: u32) -> Content {
        match word >> KIND_SHIFT {
            0 => Content::Inline,
            1 => Content::InArena,
            2 => Content::Piece,
            _ => Content::LastPiece,
        }
    }
}

/// # Safety
/// `place` may be written for a packet, and what `head` and `body` have together fits it.
#[inline(always)]
pub(super) unsafe fn write_inline(place: *mut Packet, head: &[u8], body: &[u8]) {
    let word = Content::Inline.word(head.len() + body.len());
    // SAFETY: by the caller's promise.
    unsafe { write_packet(place, word, head, body) }
}

/// # Safety
/// As [`write_inline`].
#[inline(always)]
pub(super) unsafe fn write_packet(place: *mut Packet, word: u32, head: &[u8], body: &[u8]) {
    debug_assert!(head.len() + body.len() <= INLINE);
    // SAFETY: by the caller's promise; no reference is made.
    unsafe { (&raw mut (*place).word).write(word) };
    // SAFETY: as above.
    let bytes = unsafe { &raw mut (*place).bytes }.cast::<u8>();
    if let Ok(header) = <&[u8; 16]>::try_from(head) {
        // Nearly every head is a header alone, made just now as two words, and loaded as those.
        // SAFETY: the packet has room for both.
        unsafe { bytes.cast::<u128>().write_unaligned(u128::from_ne_bytes(*header)) };
    } else {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), bytes, head.len()) };
    }
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), bytes.add(head.len()), body.len()) };
}

/// Takes what a packet says into memory of our own; whether that completed a message.
///
/// # Safety
/// `place` is readable for a packet. Its producer may be writing to it.
#[inline(always)]
pub(super) unsafe fn take(
    place: *const Packet,
    wire: &mut Wire,
    partial: &mut Vec<u8>,
    into: &mut Vec<u8>,
) -> Result<bool, Violation> {
    // SAFETY: by the caller's promise; read once, so that what is checked is what is used.
    let word = unsafe { (&raw const (*place).word).read_volatile() };
    // SAFETY: as above.
    let bytes = unsafe { &raw const (*place).bytes }.cast::<u8>();
    if word > INLINE as u32 {
        // SAFETY: as above.
        let position = u64::from_le_bytes(unsafe { plain::read_once(bytes.cast::<[u8; 8]>()) });
        return take_span(word, position, wire, partial, into);
    }
    let (start, len) = (into.len(), word as usize);
    into.reserve(INLINE);
    // SAFETY: `reserve` made room behind `start`.
    let to = unsafe { into.as_mut_ptr().add(start) };
    // Copies of known length; what is beyond `len` is never looked at.
    // SAFETY: both have room for FIRST_LINE bytes.
    unsafe { plain::copy_block_once::<FIRST_LINE>(bytes, to) };
    if len > FIRST_LINE {
        const REST: usize = INLINE - FIRST_LINE;
        // SAFETY: both have room for INLINE bytes.
        unsafe { plain::copy_block_once::<REST>(bytes.add(FIRST_LINE), to.add(FIRST_LINE)) };
    }
    // SAFETY: `len` is at most INLINE, and as many were written.
    unsafe { into.set_len(start + len) };
    Ok(true)
}

#[cold]
fn take_span(
    word: u32,
    position: u64,
    wire: &mut Wire,
    partial: &mut Vec<u8>,
    into: &mut Vec<u8>,
) -> Result<bool, Violation> {
    let (content, len) = (Content::of(word), word & LEN_MASK);
    let before = if content == Content::InArena { 0 } else { partial.len() };
    if content == Content::Inline || before + len as usize > wire.max_message as usize {
        return Err(Violation::Length);
    }
    let to = if content == Content::InArena { &mut *into } else { &mut *partial };
    if !wire.inn.take(Claim { position, len }, to) {
        return Err(Violation::Span);
    }
    if content == Content::LastPiece {
        into.extend_from_slice(partial);
        partial.clear();
        partial.shrink_to(KEEP);
    }
    Ok(content != Content::Piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fills_its_slot() {
        assert_eq!((size_of::<Packet>() + 4, size_of::<Padded>()), (128, 128));
        assert_eq!(std::mem::offset_of!(Packet, bytes) + 4 + FIRST_LINE, 64);
    }
}
