//! The key of a request: what an object-level balancer sends to one worker.
//!
//! Errors: bytes that do not parse, or have no such field, have no key; the handler will find out what is wrong with them.

use base::hash::{Hasher64, WIRE_SEED};
use base::prng::mix64;
use codec::wire;
use std::fmt;
use std::sync::Arc;

/// Gives the hash of a message's key.
pub type KeyFunction = Arc<dyn Fn(&[u8]) -> Option<u64> + Send + Sync>;

/// Finds the key in a request's message. One per service.
#[derive(Clone)]
pub enum Key {
    /// The top-level field of this number; of several, the last counts, as for a decoder.
    Field(u32),
    /// Any function of the message's bytes.
    Function(KeyFunction),
}

impl Key {
    /// The hash of the message's key, if it has one.
    pub fn of(&self, message: &[u8]) -> Option<u64> {
        match self {
            Key::Field(number) => field(message, *number),
            Key::Function(function) => function(message),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Field(number) => write!(f, "field {number}"),
            Key::Function(_) => f.write_str("a function"),
        }
    }
}

fn field(message: &[u8], wanted: u32) -> Option<u64> {
    let (mut at, mut key) = (0, None);
    while at < message.len() {
        let (number, wire_type) = wire::read_tag(message, &mut at).ok()?;
        if number == wanted {
            key = Some(value(message, &mut at, number, wire_type)?);
        } else {
            wire::skip(message, &mut at, number, wire_type).ok()?;
        }
    }
    key
}

fn value(message: &[u8], at: &mut usize, number: u32, wire_type: u32) -> Option<u64> {
    Some(match wire_type {
        0 => mix64(wire::read_varint(message, at).ok()?),
        1 => mix64(wire::read_fixed64(message, at).ok()?),
        2 => Hasher64::new(WIRE_SEED).hash(wire::read_bytes(message, at).ok()?),
        5 => mix64(u64::from(wire::read_fixed32(message, at).ok()?)),
        _ => {
            let start = *at;
            wire::skip(message, at, number, wire_type).ok()?;
            Hasher64::new(WIRE_SEED).hash(&message[start..*at])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_field_is_found_wherever_it_stands() {
        // 2: "user", 1: 150, then 2: "other".
        let message =
            [0x12, 4, b'u', b's', b'e', b'r', 0x08, 0x96, 0x01, 0x12, 5, b'o', b't', b'h', b'e', b'r'];
        let hash = |bytes| Some(Hasher64::new(WIRE_SEED).hash(bytes));
        assert_eq!(Key::Field(2).of(&message[..9]), hash(b"user"));
        assert_eq!(Key::Field(2).of(&message), hash(b"other"), "the last counts");
        assert_eq!(Key::Field(1).of(&message), Some(mix64(150)));
        assert_eq!((Key::Field(3).of(&message), Key::Field(1).of(&[])), (None, None));
        assert_eq!(Key::Field(2).of(&message[..4]), None, "cut off");
        let first = Key::Function(Arc::new(|message| message.first().map(|&byte| u64::from(byte))));
        assert_eq!(first.of(&message), Some(0x12));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_bytes_have_a_key_or_none(message in proptest::collection::vec(any::<u8>(), 0..64), number in 0u32..20) {
            let key = Key::Field(number).of(&message);
            prop_assert_eq!(key, Key::Field(number).of(&message));
        }
    }
}
