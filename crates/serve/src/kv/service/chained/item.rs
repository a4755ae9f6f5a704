//! A memcached item as a chain has it: the value at its key, [all else](protocol::chain::attributes) at the key beside it, both written in one transaction.
//!
//! Tests: `tests.rs`.

use super::Planted;
use protocol::chain::attributes::{Attributes, FLUSHED, beside};
use protocol::chain::transaction::{Change, Condition, Found};
use protocol::chain::{Outcome, Transaction};
use protocol::planted::Bugs;
use store::Peek;
use store::durable::State;

fn attributes_of(state: &State) -> Attributes {
    let State { flags, expiry, stale, win_sent, .. } = *state;
    Attributes { flags, expiry, stale, win_sent, of: None, seen: None }
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
            ..attributes_of(state)
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
        Transaction { conditions: conditions.unwrap_or_default(), writes, ..Transaction::default() }
    }
}
