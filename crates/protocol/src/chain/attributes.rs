//! What lies beside a memcached item's value in a chain, so that memcached's clients and transactions act on the same keys.
//!
//! ```text
//!  key        ─▶ value                                     the version that memcached's clients see is this one's
//!  0x00 ‖ key ─▶ attributes: flags, life, marks, of, seen  they count only if they are of that value
//!  0x00       ─▶ nothing, but its version: the last flush
//!
//!  attributes:  0      1       2        6         10    18
//!               │ 1    │ marks │ flags  │ expiry  │ of  │ seen │  little-endian, 26 bytes; marks: 1 stale, 2 win sent, 4 has of, 8 has seen
//! ```
//! **Of.** Attributes that were written with a value have its version themselves. Those that were changed alone (touch, a lease) name the version of their
//! value. Whatever wrote the value since, a transaction of anybody, left attributes behind that are of no value: the item has flags 0, no end, and no marks.
//!
//! **Seen.** A flush is one key, and to name it in every transaction would make all of them wait for each other. So whoever makes an item of what was there
//! says which flush it had seen: a later one has flushed that item, too, as if it had come after. Whoever stores whatever was there names none: its version
//! says whether it came before the flush.
//!
//! Errors: bytes that no attributes have are none. Tests: at the end; fuzz target `chain_attributes`.

/// Where a flush is noted: beside the empty key, which no item has.
pub const FLUSHED: &[u8] = &[RESERVED];
/// What keys begin with that are beside those of items.
pub const RESERVED: u8 = 0;

/// Bytes of attributes.
pub const BYTES: usize = 26;
const FORMAT: u8 = 1;
const STALE: u8 = 1;
const WIN_SENT: u8 = 2;
const HAS_OF: u8 = 4;
const HAS_SEEN: u8 = 8;

/// The key beside `key`.
pub fn beside(key: &[u8]) -> Vec<u8> {
    let mut beside = Vec::with_capacity(key.len() + 1);
    beside.push(RESERVED);
    beside.extend_from_slice(key);
    beside
}

/// What a chain has of an item beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The client's flags.
    pub flags: u32,
    /// When it expires, in seconds since 1970; 0 is never.
    pub expiry: u32,
    /// It is marked stale.
    pub stale: bool,
    /// Somebody was told to refill it.
    pub win_sent: bool,
    /// The version of the value that they are of; none: they were written together.
    pub of: Option<u64>,
    /// The last flush that whoever made the item had seen; none: that does not matter.
    pub seen: Option<u64>,
}

impl Attributes {
    /// As a chain has them.
    pub fn to_bytes(self) -> Vec<u8> {
        let marks = [(self.stale, STALE), (self.win_sent, WIN_SENT)];
        let marks = marks.into_iter().chain([(self.of.is_some(), HAS_OF), (self.seen.is_some(), HAS_SEEN)]);
        let marks = marks.filter(|(is_set, _)| *is_set).fold(0, |marks, (_, mark)| marks | mark);
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&[FORMAT, marks]);
        [self.flags, self.expiry].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        [self.of, self.seen]
            .iter()
            .for_each(|long| bytes.extend_from_slice(&long.unwrap_or(0).to_le_bytes()));
        bytes
    }

    /// What these bytes say, if they are attributes.
    pub fn parse(bytes: &[u8]) -> Option<Attributes> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let marks = bytes[1];
        let optional = |mark: u8, long: u64| (marks & mark != 0).then_some(long);
        let attributes = Attributes {
            flags: word(2),
            expiry: word(6),
            stale: marks & STALE != 0,
            win_sent: marks & WIN_SENT != 0,
            of: optional(HAS_OF, long(10)),
            seen: optional(HAS_SEEN, long(18)),
        };
        (attributes.to_bytes() == bytes).then_some(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written_and_nothing_else_is() {
        let all = Attributes { flags: 7, expiry: 9, stale: true, win_sent: true, of: Some(3), seen: Some(5) };
        for attributes in [Attributes::default(), all, Attributes { of: None, stale: false, ..all }] {
            let bytes = attributes.to_bytes();
            assert_eq!((bytes.len(), Attributes::parse(&bytes)), (BYTES, Some(attributes)));
            assert!((0..BYTES).all(|len| Attributes::parse(&bytes[..len]).is_none()));
            assert_eq!(Attributes::parse(&[&bytes[..], &[0]].concat()), None);
        }
        for (at, byte) in [(0, 0), (0, 2), (1, 16), (1, 8), (1, 4)] {
            let mut wrong = all.to_bytes();
            wrong[at] = byte;
            assert_eq!(Attributes::parse(&wrong), None, "byte {at} as {byte}");
        }
    }
}
