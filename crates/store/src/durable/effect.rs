//! What a command did, as bytes: the payload of a record of the log, and an item of a snapshot.
//!
//! ```text
//!  0      1       2         3   4       8        12          16        24
//!  │ kind │ marks │ key_len │ 0 │ flags │ expiry │ value_len │ version │ key │ value │
//! ```
//! Little-endian. Whatever a kind does not say is zero there. Effects are whole states and no differences, so doing one again changes nothing, and
//! what follows puts right whatever one met that was newer than itself.
//!
//! Errors: bytes that no effect has are none. Tests: at the end; fuzz target `durable`.

use crate::key::MAX_KEY;
use crate::ops::peek::Peek;

/// Bytes before the key.
pub(super) const HEAD: usize = 24;

const PUT: u8 = 1;
const CHANGED: u8 = 2;
const DELETED: u8 = 3;
const FLUSHED: u8 = 4;
const FLUSH_AT: u8 = 5;

const STALE: u8 = 1;
const WIN_SENT: u8 = 2;

/// What is kept of an item beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The version.
    pub version: u64,
    /// When it expires; 0 is never.
    pub expiry: u32,
    /// The client's flags.
    pub flags: u32,
    /// It is marked stale.
    pub stale: bool,
    /// Somebody was told to refill it.
    pub win_sent: bool,
}

impl State {
    /// Of an item that is there.
    pub fn of(item: &Peek<'_>) -> State {
        let Peek { version, expiry, flags, stale, win_sent, .. } = *item;
        State { version, expiry, flags, stale, win_sent }
    }
}

/// What a command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'b> {
    /// The item of this key is this.
    Put {
        /// The key.
        key: &'b [u8],
        /// The value.
        value: &'b [u8],
        /// All else.
        state: State,
    },
    /// The item of this key is this, its value what it was.
    Changed {
        /// The key.
        key: &'b [u8],
        /// All but the value.
        state: State,
    },
    /// There is none of this key.
    Deleted {
        /// The key.
        key: &'b [u8],
    },
    /// Nothing is left of all that was before.
    Flushed,
    /// The same from that second on, if no other flush comes first.
    FlushAt(u32),
}

impl<'b> Effect<'b> {
    /// That an item is as it is.
    pub fn put(item: &Peek<'b>) -> Effect<'b> {
        Effect::Put { key: item.key, value: item.value, state: State::of(item) }
    }

    /// The key and the value that it has; empty where it has none.
    pub(super) fn key_and_value(&self) -> (&'b [u8], &'b [u8]) {
        match *self {
            Effect::Put { key, value, .. } => (key, value),
            Effect::Changed { key, .. } | Effect::Deleted { key } => (key, &[]),
            Effect::Flushed | Effect::FlushAt(_) => (&[], &[]),
        }
    }

    /// The bytes before them.
    pub(super) fn head(&self) -> [u8; HEAD] {
        let none = State::default();
        let (kind, state) = match *self {
            Effect::Put { state, .. } => (PUT, state),
            Effect::Changed { state, .. } => (CHANGED, state),
            Effect::Deleted { .. } => (DELETED, none),
            Effect::Flushed => (FLUSHED, none),
            Effect::FlushAt(expiry) => (FLUSH_AT, State { expiry, ..none }),
        };
        let (key, value) = self.key_and_value();
        let marks = if state.stale { STALE } else { 0 } | if state.win_sent { WIN_SENT } else { 0 };
        let mut head = [0; HEAD];
        head[..3].copy_from_slice(&[kind, marks, key.len() as u8]);
        for (at, word) in [(4, state.flags), (8, state.expiry), (12, value.len() as u32)] {
            head[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        head[16..].copy_from_slice(&state.version.to_le_bytes());
        head
    }

    /// Adds its bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (key, value) = self.key_and_value();
        [&self.head()[..], key, value].iter().for_each(|part| out.extend_from_slice(part));
    }

    /// The effect at the front of these bytes, and what is behind it.
    pub fn parse(bytes: &'b [u8]) -> Option<(Effect<'b>, &'b [u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [kind, marks, key_len, zero, ..] = *head;
        let (key_len, value_len) = (usize::from(key_len), word(12) as usize);
        let version = u64::from(word(16)) | u64::from(word(20)) << 32;
        let (stale, win_sent) = (marks & STALE != 0, marks & WIN_SENT != 0);
        let state = State { version, expiry: word(8), flags: word(4), stale, win_sent };
        if zero != 0 || marks & !(STALE | WIN_SENT) != 0 || key_len > MAX_KEY {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        let (has_key, has_value) = (key_len > 0, value_len > 0);
        let is_bare = state == State { expiry: state.expiry, ..State::default() } && !has_value;
        let effect = match kind {
            PUT if has_key => Effect::Put { key, value, state },
            CHANGED if has_key && !has_value => Effect::Changed { key, state },
            DELETED if has_key && is_bare && state.expiry == 0 => Effect::Deleted { key },
            FLUSHED if !has_key && is_bare && state.expiry == 0 => Effect::Flushed,
            FLUSH_AT if !has_key && is_bare => Effect::FlushAt(state.expiry),
            _ => return None,
        };
        Some((effect, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_read_as_they_were_written_and_shorter_ones_are_none() {
        let state = State { version: u64::MAX - 5, expiry: 7, flags: 9, stale: true, win_sent: false };
        let other = State { win_sent: true, stale: false, ..state };
        let effects = [
            Effect::Put { key: b"key", value: b"value", state },
            Effect::Put { key: &[7; 250], value: b"", state: other },
            Effect::Changed { key: b"k", state: other },
            Effect::Deleted { key: b"gone" },
            Effect::Flushed,
            Effect::FlushAt(12345),
        ];
        let mut bytes = Vec::new();
        effects.iter().for_each(|effect| effect.emit(&mut bytes));
        let mut rest = &bytes[..];
        for effect in effects {
            let (read, behind) = Effect::parse(rest).expect("it was written");
            assert_eq!(read, effect);
            let whole = rest.len() - behind.len();
            assert!((0..whole).all(|len| Effect::parse(&rest[..len]).is_none()));
            rest = behind;
        }
        assert!(rest.is_empty());
        for (at, byte) in [(0, 0), (0, 6), (1, 4), (2, 251), (3, 1)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert!(Effect::parse(&wrong).is_none(), "{at}");
        }
    }
}
