//! A message of a pair: in the slot itself, or in the arena with the slot saying where.

use super::wire::{SendError, Violation, Wire};
use crate::Plain;
use crate::arena::Claim;

/// Bytes of a message that fit the slot itself.
pub const INLINE: usize = 52;

/// What travels in a slot.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Envelope {
    len: u32,
    bytes: [u8; INLINE],
}

// SAFETY: integers only, without padding.
unsafe impl Plain for Envelope {}

impl Envelope {
    /// Puts a message where the peer will find it; the envelope goes into a slot.
    pub(super) fn seal(wire: &mut Wire, message: &[u8]) -> Result<Envelope, SendError> {
        if message.len() > wire.max_message as usize {
            return Err(SendError::TooLarge);
        }
        let mut bytes = [0; INLINE];
        if message.len() <= INLINE {
            bytes[..message.len()].copy_from_slice(message);
        } else {
            let claim = wire.out.push(message);
            wire.starved = claim.is_none();
            let claim = claim.ok_or(SendError::Full)?;
            bytes[..8].copy_from_slice(&claim.position.to_le_bytes());
        }
        Ok(Envelope { len: message.len() as u32, bytes })
    }

    /// Hands over the message, from memory that is this process's own: `private` where it was in the arena.
    pub(super) fn open<R>(
        &self,
        wire: &mut Wire,
        private: &mut Vec<u8>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Violation> {
        let len = self.len as usize;
        if len <= INLINE {
            return Ok(read(&self.bytes[..len]));
        }
        if self.len > wire.max_message {
            return Err(Violation::Length);
        }
        let position = u64::from_le_bytes(*self.bytes.first_chunk().expect("52 is more than 8"));
        private.clear();
        if !wire.inn.take(Claim { position, len: self.len }, private) {
            return Err(Violation::Span);
        }
        Ok(read(private))
    }
}
