//! The copies: written here, read by the XDP program, without a system call.
//!
//! Shape: buckets of four ways by the hash's low bits; a bucket's four *tags* (hashes) lie in one place, the entries in another,
//! so that a key that is not here costs one cache line: the tags are the key-hit filter, exact but for keys of one hash, and a bitmap or
//! Bloom filter before them would cost a line of its own. A tag is a hint; the entry decides.
//!
//! Invariants
//! 1. One writer of each bucket: [`Entries`] is written through `&mut` only, and a [`Tier`](crate::Tier) has one, or one for each core of the box
//!    ([`Entries::split`]), which has the buckets of its hashes.
//! 2. A key is in one entry at most, of its hash's bucket: [`Entries::put`] looks before it writes.
//! 3. An entry has no key (length 0) or all of its fields belong together, whenever its `seq` says that nobody writes.
//! 4. What is lent is written by the program alone, until it is taken back; nothing else takes its place.
//!
//! Ordering: **write**: `seq` says that this process writes (W1, compare and swap), a release fence keeps the stores that follow behind it, the fields are
//! stored, `seq` is the next one with release (W2). The program reads `seq` (E1), the fields (E2), and `seq` again (E3): the same number, by which
//! nobody writes, before and after means no store of W1–W2 came between. x86 keeps both orders by itself. The program writes what is lent in the same way
//! (L1, L2 in `bpf/own.h`); W1 waits for it: it is done in a microsecond, and nothing that this process does keeps it from that.
//! **remove**: ends with a full fence. A store may wait in this CPU's buffer after the instruction is done; only when it has left it does
//! [`Entries::remove`] return, and what the caller then sends can arrive nowhere before it. So no lookup that begins after
//! the return can hit; one whose E3 was before it took effect earlier than the removal (see `bpf/box.c`).
//!
//! Bounds: fixed at start; an entry takes 1408 bytes, a tag 8, a hit counter 8.
//!
//! Hits: one plain number for each entry that all CPUs add to without a lock. Some get lost when two add at once; they say which
//! of four entries is worth more, nothing else.

mod lent;

use crate::layout::{
    Bucket, Entry, MAX_VALUE, OwnedKey, PRESENT, PROGRAM_WRITES, SEQ_STEP, USER_WRITES, WAYS,
};
use crate::region::Region;
use base::Nanos;
use lent::Slots;
use protocol::coherence::boxes::shards::Shard;
use protocol::coherence::compute::number;
use protocol::wire::{KeyHash, Kind, MAX_KEY, Version, extend, key_hash, padded, power};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

/// A copy as the user tier has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// At most [`MAX_VALUE`] bytes.
    pub value: &'a [u8],
    /// Of the item.
    pub version: Version,
    /// A memcached client's flags.
    pub item_flags: u32,
    /// Of value.
    pub kind: Kind,
    /// Until then it may be used, on the clock of [`now`](crate::now).
    pub lease_end: Nanos,
    /// Until then the item lives; [`Nanos::MAX`]: for ever.
    pub expires: Nanos,
}

/// An entry read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are an Item's")]
pub struct Held {
    pub value: Vec<u8>,
    pub version: Version,
    pub item_flags: u32,
    pub kind: Kind,
    pub lease_end: Nanos,
    pub expires: Nanos,
}

/// Who had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    key: [u8; MAX_KEY],
    key_len: u8,
    /// What was counted for it.
    pub hits: u64,
}

impl Evicted {
    /// Of the entry.
    pub fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key_len)]
    }
}

/// A value longer than [`MAX_VALUE`]; the user tier answers for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge(pub usize);

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a value of {} bytes is kept by the user tier: the XDP tier keeps {MAX_VALUE}", self.0)
    }
}

impl std::error::Error for TooLarge {}

/// The table.
pub struct Entries {
    buckets: Arc<Region<Bucket>>,
    entries: Arc<Region<Entry>>,
    hits: Arc<Region<AtomicU64>>,
    /// Whose hashes are here.
    shard: Shard,
    /// Of these, those that [`Entries::age`] has told.
    told: Vec<u64>,
    slots: Slots,
}

impl Entries {
    /// A table that no program reads, for `capacity` (rounded up to a power of two, at least 4).
    pub fn private(capacity: usize) -> Entries {
        let buckets = buckets_for(capacity);
        Entries {
            buckets: Arc::new(Region::private(buckets)),
            entries: Arc::new(Region::private(buckets * WAYS)),
            hits: Arc::new(Region::private(buckets * WAYS)),
            shard: Shard::WHOLE,
            told: vec![0; buckets * WAYS],
            slots: Slots::new(Region::private(16)),
        }
    }

    pub(crate) fn of(
        buckets: Region<Bucket>,
        entries: Region<Entry>,
        hits: Region<AtomicU64>,
        owned: Region<OwnedKey>,
    ) -> Entries {
        assert!(
            buckets.len().is_power_of_two() && entries.len() == buckets.len() * WAYS,
            "the maps are one table"
        );
        let told = hits.iter().map(|hits| hits.load(Relaxed)).collect();
        let (buckets, entries, hits) = (Arc::new(buckets), Arc::new(entries), Arc::new(hits));
        Entries { buckets, entries, hits, shard: Shard::WHOLE, told, slots: Slots::new(owned) }
    }

    /// Divides it among the cores of a box: what is here from now on is the first's, what is returned the others'. Each looks at, and writes, the
    /// buckets of its own hashes alone.
    ///
    /// # Panics
    /// If something is here, or there are fewer buckets than groups of hashes: [`Entries::DIVISIBLE`].
    pub fn split(&mut self, of: u8) -> Vec<Entries> {
        assert!(
            of == 1 || self.capacity() >= Entries::DIVISIBLE,
            "each group of hashes has buckets of its own"
        );
        assert!(self.is_empty() && self.shard == Shard::WHOLE, "what is divided is whole and empty");
        let mut shards = Shard::all(of);
        let slots = self.slots.split(of);
        self.shard = shards.next().expect("there is one");
        let others = shards.zip(slots).map(|(shard, slots)| Entries {
            buckets: Arc::clone(&self.buckets),
            entries: Arc::clone(&self.entries),
            hits: Arc::clone(&self.hits),
            shard,
            told: self.told.clone(),
            slots,
        });
        others.collect()
    }

    /// The least [`Entries::capacity`] that can be divided.
    pub const DIVISIBLE: usize = Shard::GROUPS as usize * WAYS;

    /// Entries that fit, those of other cores included.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Keeps a copy, in the place of an older one of this key, or a free one, or that of another entry of the bucket: one that is over at
    /// `now`, else the one with the fewest hits.
    ///
    /// Whoever puts must know that no invalidation of this copy came before: the box machine does, by its tokens.
    ///
    /// # Errors
    /// [`TooLarge`]; an older copy of the key is then gone.
    ///
    /// # Panics
    /// Where the key is not of 1 to 250 bytes.
    pub fn put(&mut self, item: &Item<'_>, now: Nanos) -> Result<Option<Evicted>, TooLarge> {
        assert!((1..=MAX_KEY).contains(&item.key.len()), "a key of {} bytes", item.key.len());
        if item.value.len() > MAX_VALUE {
            self.remove(item.key);
            return Err(TooLarge(item.value.len()));
        }
        let hash = key_hash(item.key).0;
        if let Some(index) = self.index_of(hash, item.key) {
            // The owner's word goes before a copy's.
            if !self.slots.has_index(index) {
                self.write(index, hash, item, 0);
            }
            return Ok(None);
        }
        // Where all of the bucket is lent the user tier answers.
        let Some(index) = self.place(self.bucket(hash), now) else { return Ok(None) };
        let evicted = self.evicted(index);
        self.occupy(index, hash, item, 0);
        Ok(evicted)
    }

    /// Forgets a key; true if it was here. When this returns, no lookup that begins later can hit.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let found = self.index_of(key_hash(key).0, key).filter(|index| !self.slots.has_index(*index));
        if let Some(index) = found {
            self.vacate(index);
        }
        fence(SeqCst);
        found.is_some()
    }

    /// Forgets all keys of a hash, in the same sense; says how many there were. An invalidation may name no more than that.
    pub fn remove_hash(&mut self, hash: KeyHash) -> usize {
        let bucket = self.bucket(hash.0);
        let removed = self.vacate_where(bucket * WAYS..(bucket + 1) * WAYS, |held| held == hash);
        fence(SeqCst);
        removed
    }

    /// Forgets the keys of a hash that are not to be kept, in the same sense.
    pub fn retain_of(&mut self, hash: KeyHash, keep: impl Fn(&[u8]) -> bool) {
        let bucket = self.bucket(hash.0);
        for index in bucket * WAYS..(bucket + 1) * WAYS {
            if self.buckets[bucket].tag[index % WAYS].load(Relaxed) == PRESENT | u64::from(hash.0)
                && !self.slots.has_index(index)
                && self.evicted(index).is_some_and(|held| !keep(held.key()))
            {
                self.vacate(index);
            }
        }
        fence(SeqCst);
    }

    /// Forgets all keys of these hashes, in the same sense; says how many there were: a home's, when it is flushed or lost. Looks at all tags.
    pub fn remove_where(&mut self, which: impl Fn(KeyHash) -> bool) -> usize {
        let removed = self.vacate_where(0..self.entries.len(), which);
        fence(SeqCst);
        removed
    }

    /// Forgets everything but what is lent, in the same sense.
    pub fn clear(&mut self) {
        self.repair();
        self.remove_where(|_| true);
    }

    /// Forgets what a writer left that died in the middle of a write: for a table that was another process's.
    pub(crate) fn repair(&mut self) {
        let shard = self.shard;
        for index in (0..self.entries.len()).filter(|index| shard.has_group(index / WAYS)) {
            let entry = &self.entries[index];
            let tag = self.buckets[index / WAYS].tag[index % WAYS].load(Relaxed);
            let says = match entry.key_len.load(Relaxed) {
                0 => 0,
                _ => PRESENT | u64::from(entry.hash.load(Relaxed)),
            };
            // What an earlier process lent nobody can take back: it is gone, as it would be with the box.
            let was_lent = entry.owned.load(Relaxed) != 0 && !self.slots.has_index(index);
            if entry.seq.load(Acquire) & USER_WRITES != 0 || tag != says || was_lent {
                self.vacate(index);
            }
        }
        fence(SeqCst);
    }

    /// A key's copy, whether or not its time is over.
    pub fn find(&self, key: &[u8]) -> Option<Held> {
        let entry = &self.entries[self.index_of(key_hash(key).0, key)?];
        let mut value = Vec::new();
        unpack(&entry.value, entry.value_len.load(Relaxed) as usize, &mut value);
        Some(Held {
            value,
            version: Version(entry.version.load(Relaxed)),
            item_flags: entry.item_flags.load(Relaxed),
            kind: Kind::from_code(entry.kind.load(Relaxed)).expect("only kinds are written"),
            lease_end: Nanos(entry.lease_end.load(Relaxed)),
            expires: Nanos(entry.expires.load(Relaxed)),
        })
    }

    /// Hits counted for a key since it came, or since halved.
    pub fn hits(&self, key: &[u8]) -> Option<u64> {
        Some(self.hits[self.index_of(key_hash(key).0, key)?].load(Relaxed))
    }

    /// Says which keys were hit since this was last asked, by their hashes, and how often; then halves all hits, so that what was asked for long
    /// ago counts less. Hits that are counted meanwhile may get lost.
    pub fn age(&mut self, mut fresh: impl FnMut(KeyHash, u64)) {
        let shard = self.shard;
        let all = self.hits.iter().enumerate();
        for (index, hits) in all.filter(|(index, _)| shard.has_group(index / WAYS)) {
            let count = hits.load(Relaxed);
            let tag = self.buckets[index / WAYS].tag[index % WAYS].load(Relaxed);
            if tag != 0 && count > self.told[index] {
                fresh(KeyHash(tag as u32), count - self.told[index]);
            }
            hits.store(count / 2, Relaxed);
            self.told[index] = count / 2;
        }
    }

    /// Keys that are here.
    pub fn len(&self) -> usize {
        let buckets = self.buckets.iter().enumerate().filter(|(index, _)| self.shard.has_group(*index));
        buckets.flat_map(|(_, bucket)| &bucket.tag).filter(|tag| tag.load(Relaxed) != 0).count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves a key's entry as a writer would that stopped half way: for tests of what a reader then does.
    #[doc(hidden)]
    pub fn tear(&mut self, key: &[u8]) {
        let index = self.index_of(key_hash(key).0, key).expect("the key is here");
        self.entries[index].seq.fetch_add(1, SeqCst);
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn index_of(&self, hash: u32, key: &[u8]) -> Option<usize> {
        let bucket = self.bucket(hash);
        let tags = &self.buckets[bucket].tag;
        (0..WAYS)
            .filter(|&way| tags[way].load(Relaxed) == PRESENT | u64::from(hash))
            .map(|way| bucket * WAYS + way)
            .find(|&index| has_key(&self.entries[index], key))
    }

    /// A free way of the bucket, else the one that is worth least; none where all are lent.
    fn place(&self, bucket: usize, now: Nanos) -> Option<usize> {
        let worth = |index: &usize| {
            let entry = &self.entries[*index];
            let end = entry.lease_end.load(Relaxed).min(entry.expires.load(Relaxed));
            match self.buckets[bucket].tag[index % WAYS].load(Relaxed) {
                0 => (0, 0),
                _ if end <= now.0 => (1, 0),
                _ => (2, self.hits[*index].load(Relaxed)),
            }
        };
        let ways = bucket * WAYS..(bucket + 1) * WAYS;
        ways.filter(|index| !self.slots.has_index(*index)).min_by_key(worth)
    }

    fn evicted(&self, index: usize) -> Option<Evicted> {
        let entry = &self.entries[index];
        let len = entry.key_len.load(Relaxed);
        if len == 0 {
            return None;
        }
        let mut bytes = Vec::with_capacity(MAX_KEY);
        unpack(&entry.key, usize::from(len), &mut bytes);
        let mut key = [0; MAX_KEY];
        key[..bytes.len()].copy_from_slice(&bytes);
        Some(Evicted { key, key_len: len, hits: self.hits[index].load(Relaxed) })
    }

    /// Writes an entry that has no hits yet.
    fn occupy(&mut self, index: usize, hash: u32, item: &Item<'_>, owned: u64) {
        self.write(index, hash, item, owned);
        self.hits[index].store(0, Relaxed);
        self.told[index] = 0;
        self.buckets[index / WAYS].tag[index % WAYS].store(PRESENT | u64::from(hash), Release);
    }

    fn write(&mut self, index: usize, hash: u32, item: &Item<'_>, owned: u64) {
        let entry = &self.entries[index];
        let number = number(item.value);
        let (key_words, value_words) = (padded(item.key.len()) / 4, padded(item.value.len()) / 4);
        write(entry, || {
            pack(item.key, &entry.key);
            pack(item.value, &entry.value);
            let key_sum = sum(0, &entry.key[..key_words / 2]);
            entry.version.store(item.version.0, Relaxed);
            entry.lease_end.store(item.lease_end.0, Relaxed);
            entry.expires.store(item.expires.0, Relaxed);
            entry.sum.store(sum(key_sum, &entry.value[..value_words / 2]), Relaxed);
            entry.power.store(power(key_words + value_words), Relaxed);
            entry.key_sum.store(key_sum, Relaxed);
            entry.key_power.store(power(key_words), Relaxed);
            entry.hash.store(hash, Relaxed);
            entry.item_flags.store(item.item_flags, Relaxed);
            entry.value_len.store(item.value.len() as u32, Relaxed);
            entry.number.store(number.unwrap_or(0), Relaxed);
            entry.is_number.store(u64::from(number.is_some()), Relaxed);
            entry.owned.store(owned, Relaxed);
            entry.key_len.store(item.key.len() as u8, Relaxed);
            entry.kind.store(item.kind.code(), Relaxed);
        });
    }

    fn vacate_where(&mut self, indices: std::ops::Range<usize>, which: impl Fn(KeyHash) -> bool) -> usize {
        let mut vacated = 0;
        for index in indices {
            let tag = self.buckets[index / WAYS].tag[index % WAYS].load(Relaxed);
            let is_mine = self.shard.has_group(index / WAYS);
            if is_mine && tag != 0 && which(KeyHash(tag as u32)) && !self.slots.has_index(index) {
                self.vacate(index);
                vacated += 1;
            }
        }
        vacated
    }

    fn vacate(&mut self, index: usize) {
        let entry = &self.entries[index];
        write(entry, || {
            entry.key_len.store(0, Relaxed);
            entry.lease_end.store(0, Relaxed);
            entry.owned.store(0, Relaxed);
        });
        self.buckets[index / WAYS].tag[index % WAYS].store(0, Relaxed);
    }
}

/// Buckets for so many entries.
pub(crate) fn buckets_for(capacity: usize) -> usize {
    capacity.div_ceil(WAYS).next_power_of_two()
}

fn write(entry: &Entry, fields: impl FnOnce()) {
    let locked = lock(entry);
    fields();
    unlock(entry, locked);
}

/// W1: nobody else writes it from here on. What it returns is for [`unlock`].
fn lock(entry: &Entry) -> u64 {
    loop {
        // That this process writes is what a writer left that died: its write is replaced by this one.
        let seq = entry.seq.load(Relaxed);
        let locked = seq | USER_WRITES;
        if seq & PROGRAM_WRITES == 0 && entry.seq.compare_exchange(seq, locked, SeqCst, Relaxed).is_ok() {
            fence(Release);
            return locked;
        }
        std::hint::spin_loop();
    }
}

/// W2.
fn unlock(entry: &Entry, locked: u64) {
    entry.seq.store(locked.wrapping_add(SEQ_STEP - USER_WRITES), Release);
}

fn has_key(entry: &Entry, key: &[u8]) -> bool {
    usize::from(entry.key_len.load(Acquire)) == key.len()
        && words(key).zip(&entry.key).all(|(word, held)| held.load(Relaxed) == word)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

fn pack(bytes: &[u8], into: &[AtomicU64]) {
    for (word, place) in words(bytes).zip(into) {
        place.store(word, Relaxed);
    }
}

fn unpack(words: &[AtomicU64], len: usize, into: &mut Vec<u8>) {
    into.extend(words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).take(len));
}

/// The checksum's polynomial over stored words.
fn sum(before: u64, words: &[AtomicU64]) -> u64 {
    words.iter().fold(before, |sum, word| extend(sum, &word.load(Relaxed).to_le_bytes()))
}

#[cfg(test)]
mod tests;
