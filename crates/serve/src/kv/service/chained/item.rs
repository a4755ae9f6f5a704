//! A memcached item as a chain has it: the value at its key, everything else at the key beside it, both written in one transaction.
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
//! **Seen.** A flush is one key, and to name it in every transaction would make all of them wait for each other. So whoever makes an item of what was there says
//! which flush it had seen: a later one has flushed that item, too, as if it had come after. Whoever stores whatever was there names none: its version says
//! whether it came before the flush.
//!
//! Errors: bytes that no attributes have are none. Tests: here, `tests.rs`.

use super::Planted;
use protocol::chain::transaction::{Change, Condition, Found};
use protocol::chain::{Outcome, Transaction};
use protocol::planted::Bugs;
use store::Peek;
use store::durable::State;

/// Where a flush is noted: beside the empty key, which no item has.
pub const FLUSHED: &[u8] = &[RESERVED];
/// What keys begin with that are beside those of items.
pub const RESERVED: u8 = 0;

/// Bytes of attributes.
const BYTES: usize = 26;
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

    fn of_state(state: &State) -> Attributes {
        let State { flags, expiry, stale, win_sent, .. } = *state;
        Attributes { flags, expiry, stale, win_sent, of: None, seen: None }
    }
}

/// An item: its value, and all else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value.
    pub value: Vec<u8>,
    /// All else. The version is the chain's.
    pub state: State,
}

/// What a chain had of an item at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The item, if it is there and not flushed. It may have expired.
    pub item: Option<Item>,
    /// Versions of key and of the key beside it; 0: absent.
    versions: [u64; 2],
    /// That of the last flush; 0: there was none.
    flushed: u64,
}

/// What is read of an item.
pub fn read(key: &[u8]) -> Transaction {
    Transaction { reads: vec![key.to_vec(), beside(key), FLUSHED.to_vec()], ..Transaction::default() }
}

impl Seen {
    /// What the outcome of [`read`] says; none if it is one of something else.
    pub fn of(outcome: Outcome, bugs: &impl Bugs<Planted>) -> Option<Seen> {
        let [value, attributes, flushed]: [Option<Found>; 3] = outcome.reads.try_into().ok()?;
        let version = |found: &Option<Found>| found.as_ref().map_or(0, |found| found.version.0);
        let (versions, flushed) = ([version(&value), version(&attributes)], version(&flushed));
        let item = value.and_then(|Found { version, value }| {
            let are_of = |attributes: &Attributes| attributes.of.unwrap_or(versions[1]) == version.0;
            let attributes = attributes
                .and_then(|found| Attributes::parse(&found.value))
                .filter(|attributes| are_of(attributes) || bugs.has(Planted::TrustAttributes))
                .unwrap_or_default();
            let is_flushed = match attributes.seen {
                Some(seen) => seen < flushed,
                None => version.0 < flushed,
            };
            let Attributes { flags, expiry, stale, win_sent, .. } = attributes;
            let state = State { version: version.0, expiry, flags, stale, win_sent };
            (!is_flushed).then_some(Item { value, state })
        });
        Some(Seen { item, versions, flushed })
    }

    /// Whether the chain has anything of it.
    pub fn is_anything(&self) -> bool {
        self.versions != [0, 0]
    }
}

/// What a command does to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// The item is this one; its version is the transaction's.
    Put(Item),
    /// The value stays, and its version; all else is this.
    Change(State),
    /// There is none.
    Delete,
}

impl Effect {
    /// What made `after` of `before`. Another version is another value, though its bytes may be the same.
    pub fn between(before: Option<&Item>, after: Option<&Peek<'_>>) -> Effect {
        let Some(after) = after else {
            return before.map_or(Effect::Nothing, |_| Effect::Delete);
        };
        let state = State::of(after);
        match before {
            Some(before) if before.state == state => Effect::Nothing,
            Some(before) if before.state.version == state.version => Effect::Change(state),
            _ => Effect::Put(Item { value: after.value.to_vec(), state }),
        }
    }

    /// The transaction that does this to `key`, if it is still as it was `seen`; whatever is there, if nobody looked.
    pub fn transaction(self, key: &[u8], seen: Option<&Seen>, bugs: &impl Bugs<Planted>) -> Transaction {
        let (key, beside) = (key.to_vec(), beside(key));
        let attributes = |state: &State, of: Option<u64>| Attributes {
            of,
            seen: seen.map(|seen| seen.flushed),
            ..Attributes::of_state(state)
        };
        let change = |attributes: Attributes| match attributes {
            // What is not there is the same.
            none if none == Attributes::default() => Change::Delete,
            some => Change::Put(some.to_bytes()),
        };
        let conditions = seen.filter(|_| !bugs.has(Planted::ForgetConditions)).map(|seen| {
            let [value, attributes] = seen.versions.map(Condition::Version);
            vec![(key.clone(), value), (beside.clone(), attributes)]
        });
        let writes = match self {
            Effect::Nothing => vec![],
            Effect::Put(Item { value, state }) => {
                vec![(key, Change::Put(value)), (beside, change(attributes(&state, None)))]
            }
            Effect::Change(state) => vec![(beside, change(attributes(&state, Some(state.version))))],
            Effect::Delete => vec![(key, Change::Delete), (beside, Change::Delete)],
        };
        Transaction { conditions: conditions.unwrap_or_default(), reads: vec![], writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written_and_nothing_else_is() {
        let all = Attributes { flags: 7, expiry: 9, stale: true, win_sent: true, of: Some(3), seen: Some(0) };
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
