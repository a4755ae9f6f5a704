//! Keys that a box owns and lends to the program: an entry each, and a slot with sessions and records.
//!
//! The program changes what is lent, on any CPU, under the entry's lock; this process looks at it only when it has taken the key back: by the same lock, after
//! which the key is here no more. So at any moment one of the two has the truth of it.
//!
//! Bounds: as many slots as it is made for, 6 kB each. What finds none, or no place in its bucket, is not lent.

use super::{Entries, Item, lock, unlock, unpack};
use crate::layout::{OwnedKey, RECORDS};
use crate::region::Region;
use base::Nanos;
use protocol::coherence::boxes::lent::Loan;
use protocol::coherence::compute::number;
use protocol::coherence::ownership::{Answer, MOST_SESSIONS, Record};
use protocol::wire::{KeyHash, Kind, OpNumber, Round, Status, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

/// Who has which slot.
pub(super) struct Slots {
    slots: Arc<Region<OwnedKey>>,
    free: Vec<usize>,
    /// By hash, for the owner has one key of a hash.
    lent: BTreeMap<KeyHash, Lent>,
    /// Their entries.
    indices: BTreeSet<usize>,
}

struct Lent {
    index: usize,
    slot: usize,
    loan: Loan,
}

impl Slots {
    pub fn new(slots: Region<OwnedKey>) -> Slots {
        Slots {
            free: (0..slots.len()).rev().collect(),
            slots: Arc::new(slots),
            lent: BTreeMap::new(),
            indices: BTreeSet::new(),
        }
    }

    /// Leaves the first of so many cores its share, and returns those of the others.
    pub fn split(&mut self, of: u8) -> Vec<Slots> {
        assert!(self.lent.is_empty(), "what is divided is empty");
        let share = |at| self.free.iter().copied().filter(move |slot| slot % usize::from(of) == at);
        let other = |at: u8| Slots {
            slots: Arc::clone(&self.slots),
            free: share(usize::from(at)).collect(),
            lent: BTreeMap::new(),
            indices: BTreeSet::new(),
        };
        let others = (1..of).map(other).collect();
        self.free = share(0).collect();
        others
    }

    /// Whether an entry is that of a lent key.
    pub fn has_index(&self, index: usize) -> bool {
        self.indices.contains(&index)
    }
}

impl Entries {
    /// Lends a key until `lease_end`, by the clock of [`now`](crate::now); its item lives until `expires`. False where it is no number, or there is no
    /// room.
    ///
    /// # Panics
    /// If a key of this hash is lent.
    pub fn lend(&mut self, loan: &Loan, (lease_end, expires): (Nanos, Nanos), now: Nanos) -> bool {
        let hash = loan.kept.hash;
        assert!(!self.slots.lent.contains_key(&hash), "an owner has one key of a hash");
        let fits = loan.room > 0 && loan.told.len() <= MOST_SESSIONS && number(&loan.kept.value).is_some();
        let place = self.index_of(hash.0, &loan.kept.key).or_else(|| self.place(self.bucket(hash.0), now));
        let (true, Some(index), Some(slot)) = (fits, place, self.slots.free.pop()) else { return false };
        write_slot(&self.slots.slots[slot], loan);
        let kept = &loan.kept;
        let item = Item {
            key: &kept.key,
            value: &kept.value,
            version: kept.version,
            item_flags: kept.flags,
            kind: kept.kind,
            lease_end,
            expires,
        };
        self.occupy(index, hash.0, &item, 1 + slot as u64);
        self.slots.indices.insert(index);
        self.slots.lent.insert(hash, Lent { index, slot, loan: loan.clone() });
        true
    }

    /// Takes a key back: what is there now, and what was done. When this returns, no lookup that begins later finds it.
    ///
    /// # Panics
    /// If no key of this hash is lent.
    pub fn take_back(&mut self, hash: KeyHash) -> Loan {
        let Lent { index, slot, mut loan } =
            self.slots.lent.remove(&hash).expect("what is taken back was lent");
        let entry = &self.entries[index];
        let locked = lock(entry);
        let kept = &mut loan.kept;
        kept.value.clear();
        unpack(&entry.value, entry.value_len.load(Relaxed) as usize, &mut kept.value);
        kept.version = Version(entry.version.load(Relaxed));
        kept.kind = Kind::from_code(entry.kind.load(Relaxed)).expect("only kinds are written");
        entry.key_len.store(0, Relaxed);
        entry.lease_end.store(0, Relaxed);
        entry.owned.store(0, Relaxed);
        read_slot(&self.slots.slots[slot], &mut loan);
        unlock(entry, locked);
        self.vacate(index);
        fence(SeqCst);
        self.slots.indices.remove(&index);
        self.slots.free.push(slot);
        loan
    }

    /// Keys that are lent.
    pub fn lent(&self) -> usize {
        self.slots.lent.len()
    }
}

fn write_slot(slot: &OwnedKey, loan: &Loan) {
    slot.next.store(loan.next.0, Relaxed);
    slot.count.store(0, Relaxed);
    slot.room.store(loan.room.min(RECORDS) as u64, Relaxed);
    slot.sessions.store(loan.told.len() as u64, Relaxed);
    for (place, told) in slot.told.iter().zip(&loan.told) {
        place.session.store(told.session.0, Relaxed);
        place.client.store(told.client.0, Relaxed);
        place.highest.store(told.highest.0, Relaxed);
        place.begun.store(told.begun, Relaxed);
    }
}

fn read_slot(slot: &OwnedKey, loan: &mut Loan) {
    loan.next = Version(slot.next.load(Relaxed));
    let count = usize::try_from(slot.count.load(Relaxed)).map_or(RECORDS, |count| count.min(RECORDS));
    loan.room -= count.min(loan.room);
    loan.done.extend(slot.record[..count].iter().map(|record| {
        let status = u8::try_from(record.status.load(Relaxed)).ok().and_then(Status::from_code);
        let status = status.expect("the program writes two of them");
        let version = Version(record.version.load(Relaxed));
        let answer = Answer { status, version, number: record.number.load(Relaxed) };
        Record {
            session: Round(record.session.load(Relaxed)),
            operation: OpNumber(record.operation.load(Relaxed)),
            answer,
        }
    }));
    for (place, told) in slot.told.iter().zip(&mut loan.told) {
        told.highest = OpNumber(place.highest.load(Relaxed));
        told.begun = place.begun.load(Relaxed);
    }
}
