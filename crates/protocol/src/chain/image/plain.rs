//! The smallest [`Image`]: slots of one size, found by looking at all of them. For tests, simulations and models, where its bytes are few
//! and its state is nothing but bytes; a replica that serves has `store::image`.
//!
//! ```text
//!  slot:  0        1      2        3          5             13
//!         ├────────┼──────┼────────┼──────────┼─────────────┼───────────┬─────────────┬──────────
//!         │ state  │ kind │ u8 key │ u16 value│ u64 version │ key bytes │ value bytes │ as it was
//! ```
//!
//! A deleted item keeps its key and version, so that [`Image::keys`] sees what an entry deletes. State 0 is free, 1 deleted (free as well), 2 an item.
//!
//! Invariants: 1. a key has one item; 2. a slot of an entry that is under way is in `taken`, and no other entry is given it.
//!
//! Bounds: the slots it was made with. Cost: each call looks at all slots.

use super::{BadTuple, Image, Item, Key, NoRoom, Space};
use crate::chain::{Lsn, Tuple};
use base::hash::Hasher64;
use std::collections::BTreeSet;
use std::ops::Range;

const HEADER: usize = 13;
const FREE: u8 = 0;
const DELETED: u8 = 1;
const ITEM: u8 = 2;

/// An image of slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plain {
    bytes: Vec<u8>,
    slot_bytes: usize,
    applied: Lsn,
    /// Slots that an entry writes which is not applied.
    taken: BTreeSet<usize>,
}

/// What a slot says.
struct Slot<'a> {
    state: u8,
    space: Space,
    key: &'a [u8],
    item: Item<'a>,
}

/// Reads a slot that is not free; `None` if these bytes are none.
fn parse(bytes: &[u8]) -> Option<Slot<'_>> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let state = header[0];
    let space = Space::ALL.into_iter().find(|space| space.code() == header[1])?;
    let (key, rest) = rest.split_at_checked(usize::from(header[2]))?;
    let value = rest.get(..usize::from(u16::from_le_bytes([header[3], header[4]])))?;
    let version = Lsn(u64::from_le_bytes(header[5..].try_into().expect("eight bytes")));
    matches!(state, DELETED | ITEM).then_some(Slot { state, space, key, item: Item { version, value } })
}

impl Plain {
    /// Empty, with `slots` items of `slot_bytes` bytes each: 13, the key and the value.
    ///
    /// # Panics
    /// If a slot has no room for a key of one byte.
    pub fn new(slots: usize, slot_bytes: usize) -> Plain {
        assert!(slot_bytes > HEADER, "a slot needs more than {HEADER} bytes");
        Plain { bytes: vec![0; slots * slot_bytes], slot_bytes, applied: Lsn::ZERO, taken: BTreeSet::new() }
    }

    fn slots(&self) -> impl DoubleEndedIterator<Item = (usize, Slot<'_>)> {
        self.bytes.chunks(self.slot_bytes).enumerate().filter_map(|(i, bytes)| Some((i, parse(bytes)?)))
    }

    fn find(&self, key: &Key) -> Option<(usize, Slot<'_>)> {
        let is_it = |slot: &Slot<'_>| (slot.state, slot.space, slot.key) == (ITEM, key.space, &key.bytes[..]);
        self.slots().find(|(_, slot)| is_it(slot))
    }

    /// The first slot at or after `from` that has no item and is given to nobody.
    fn free_slot(&self, from: usize) -> Option<usize> {
        let states = self.bytes.chunks(self.slot_bytes).map(|slot| slot[0]).enumerate().skip(from);
        states.filter(|(i, state)| *state != ITEM && !self.taken.contains(i)).map(|(i, _)| i).next()
    }

    /// The bytes that a tuple may write, if it is one of ours.
    fn range(&self, tuple: &Tuple) -> Result<Range<usize>, BadTuple> {
        let bad = BadTuple { offset: tuple.offset };
        let at = usize::try_from(tuple.offset).map_err(|_| bad)?;
        let fits = at < self.bytes.len() && at % self.slot_bytes == 0 && tuple.data.len() <= self.slot_bytes;
        if fits && parse(&tuple.data).is_some() { Ok(at..at + tuple.data.len()) } else { Err(bad) }
    }

    fn slot_of(&self, tuple: &Tuple) -> usize {
        usize::try_from(tuple.offset).unwrap_or(usize::MAX) / self.slot_bytes
    }
}

impl Image for Plain {
    fn read(&self, key: &Key) -> Option<Item<'_>> {
        self.find(key).map(|(_, slot)| slot.item)
    }

    fn place(
        &mut self,
        lsn: Lsn,
        writes: &[(&Key, Option<&[u8]>)],
        tuples: &mut Vec<Tuple>,
    ) -> Result<(), NoRoom> {
        let mut placed = Vec::new();
        let mut next_free = 0;
        for (key, value) in writes {
            let old = self.find(key).map(|(i, _)| i);
            let (state, value) = value.map_or((DELETED, &[][..]), |value| (ITEM, value));
            if old.is_none() && state == DELETED {
                continue;
            }
            let slot = old.or_else(|| self.free_slot(next_free)).ok_or(NoRoom)?;
            if old.is_none() {
                next_free = slot + 1;
            }
            let (Ok(key_len), Ok(value_len)) = (u8::try_from(key.bytes.len()), u16::try_from(value.len()))
            else {
                return Err(NoRoom);
            };
            let mut data = vec![state, key.space.code(), key_len];
            data.extend_from_slice(&value_len.to_le_bytes());
            data.extend_from_slice(&lsn.0.to_le_bytes());
            data.extend_from_slice(&key.bytes);
            data.extend_from_slice(value);
            if data.len() > self.slot_bytes {
                return Err(NoRoom);
            }
            placed.push(Tuple { offset: (slot * self.slot_bytes) as u64, data });
        }
        self.reserve(&placed);
        tuples.append(&mut placed);
        Ok(())
    }

    fn items(&self, space: Space, each: &mut dyn FnMut(&[u8], Item<'_>)) {
        let items = self.slots().filter(|(_, slot)| slot.state == ITEM && slot.space == space);
        items.for_each(|(_, slot)| each(slot.key, slot.item));
    }

    fn reserve(&mut self, tuples: &[Tuple]) {
        let slots: Vec<usize> = tuples.iter().map(|tuple| self.slot_of(tuple)).collect();
        self.taken.extend(slots);
    }

    fn release(&mut self, tuples: &[Tuple]) {
        for tuple in tuples {
            self.taken.remove(&self.slot_of(tuple));
        }
    }

    fn keys(&self, tuples: &[Tuple]) -> Vec<Key> {
        let slots = tuples.iter().filter_map(|tuple| parse(&tuple.data));
        slots.map(|slot| Key { space: slot.space, bytes: slot.key.to_vec() }).collect()
    }

    fn apply(&mut self, lsn: Lsn, tuples: &[Tuple]) -> Result<(), BadTuple> {
        let ranges = tuples.iter().map(|tuple| self.range(tuple)).collect::<Result<Vec<_>, _>>()?;
        for (range, tuple) in ranges.into_iter().zip(tuples) {
            self.bytes[range].copy_from_slice(&tuple.data);
        }
        self.release(tuples);
        self.applied = self.applied.max(lsn);
        Ok(())
    }

    fn applied(&self) -> Lsn {
        self.applied
    }

    fn extent(&self) -> u64 {
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        used.next_multiple_of(self.slot_bytes) as u64
    }

    fn chunk(&self, offset: u64, len: usize) -> &[u8] {
        let end = self.extent() as usize;
        let from = usize::try_from(offset).map_or(end, |offset| offset.min(end));
        &self.bytes[from..from.saturating_add(len).min(end)]
    }

    fn clear(&mut self) {
        self.bytes.fill(0);
        self.taken.clear();
        self.applied = Lsn::ZERO;
    }

    fn load(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BadTuple> {
        let from = usize::try_from(offset).map_err(|_| BadTuple { offset })?;
        let to = from.checked_add(bytes.len()).and_then(|end| self.bytes.get_mut(from..end));
        to.ok_or(BadTuple { offset })?.copy_from_slice(bytes);
        Ok(())
    }

    fn index(&mut self, applied: Lsn) -> Result<(), BadTuple> {
        let mut keys = BTreeSet::new();
        for (i, bytes) in self.bytes.chunks(self.slot_bytes).enumerate() {
            let bad = BadTuple { offset: (i * self.slot_bytes) as u64 };
            if bytes[0] == FREE {
                continue;
            }
            let slot = parse(bytes).ok_or(bad)?;
            if slot.state == ITEM && !keys.insert((slot.space, slot.key)) {
                return Err(bad);
            }
        }
        self.taken.clear();
        self.applied = applied;
        Ok(())
    }

    fn digest(&self) -> u64 {
        Hasher64::new(0).hash(&self.bytes[..self.extent() as usize])
    }
}

#[cfg(test)]
mod tests;
