//! The key of a request, found in its bytes: what balancers, order and caches go by.
//!
//! A key reads as the decoder would have the field: the last of several counts, also over sub-messages that come in pieces; a field of
//! another wire type is none; what is absent is zero or empty; a number is cut to its type.
//!
//! Errors: bytes that are no message have no key; the handler will find out what is wrong with them.
//!
//! Cost: one walk over the tags of the message.

use base::hash::{Hasher64, WIRE_SEED};
use base::prng::mix64;
use codec::table::Kind;
use codec::wire::{self, WireError};

/// Where a request has its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Field numbers: those of sub-messages on the way, and last the key's own.
    pub fields: &'static [u32],
    /// What it is: an integer, bool, enum, string or bytes.
    pub kind: Kind,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyValue<'m> {
    /// Of an integer, bool or enum: negative ones in two's complement of 64 bits.
    Number(u64),
    /// Of a string or bytes.
    Bytes(&'m [u8]),
}

impl KeyValue<'_> {
    /// Its hash, the same everywhere.
    pub fn hash(&self) -> u64 {
        match self {
            KeyValue::Number(number) => mix64(*number),
            KeyValue::Bytes(bytes) => Hasher64::new(WIRE_SEED).hash(bytes),
        }
    }
}

impl Key {
    /// The key in a request's message.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn of<'m>(&self, message: &'m [u8]) -> Result<KeyValue<'m>, WireError> {
        key_at(message, self.fields, self.kind)
    }

    /// The hash of the key, if the bytes are a message.
    #[inline]
    pub fn hash(&self, message: &[u8]) -> Option<u64> {
        self.of(message).ok().map(|key| key.hash())
    }
}

/// As [`Key::of`], where fields and kind are known from a schema only.
///
/// # Errors
/// The bytes are no message.
pub fn key_at<'m>(message: &'m [u8], fields: &[u32], kind: Kind) -> Result<KeyValue<'m>, WireError> {
    let absent = match kind {
        Kind::String | Kind::Bytes => KeyValue::Bytes(&[]),
        _ => KeyValue::Number(0),
    };
    let mut found = None;
    find(message, fields, kind, &mut found)?;
    Ok(found.unwrap_or(absent))
}

fn find<'m>(
    message: &'m [u8],
    fields: &[u32],
    kind: Kind,
    found: &mut Option<KeyValue<'m>>,
) -> Result<(), WireError> {
    let Some((&wanted, rest)) = fields.split_first() else { return Ok(()) };
    let mut at = 0;
    while at < message.len() {
        let (number, wire_type) = wire::read_tag(message, &mut at)?;
        if number != wanted {
            wire::skip(message, &mut at, number, wire_type)?;
        } else if rest.is_empty() && wire_type == kind.wire_type() {
            *found = Some(value(message, &mut at, kind)?);
        } else if !rest.is_empty() && wire_type == 2 {
            find(wire::read_bytes(message, &mut at)?, rest, kind, found)?;
        } else {
            wire::skip(message, &mut at, number, wire_type)?;
        }
    }
    Ok(())
}

fn value<'m>(message: &'m [u8], at: &mut usize, kind: Kind) -> Result<KeyValue<'m>, WireError> {
    let signed = |number: i32| i64::from(number) as u64;
    let zigzag = |n: u64| (n >> 1) ^ (n & 1).wrapping_neg();
    Ok(KeyValue::Number(match kind {
        Kind::String | Kind::Bytes => return Ok(KeyValue::Bytes(wire::read_bytes(message, at)?)),
        Kind::Bool => u64::from(wire::read_varint(message, at)? != 0),
        Kind::Int32 | Kind::Enum => signed(wire::read_varint(message, at)? as i32),
        Kind::Uint32 => u64::from(wire::read_varint(message, at)? as u32),
        Kind::Sint32 => signed(zigzag(u64::from(wire::read_varint(message, at)? as u32)) as i32),
        Kind::Sint64 => zigzag(wire::read_varint(message, at)?),
        Kind::Fixed32 => u64::from(wire::read_fixed32(message, at)?),
        Kind::Sfixed32 => signed(wire::read_fixed32(message, at)? as i32),
        Kind::Fixed64 | Kind::Sfixed64 => wire::read_fixed64(message, at)?,
        _ => wire::read_varint(message, at)?,
    }))
}

#[cfg(test)]
mod tests;
