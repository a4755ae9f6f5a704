//! Which chain a key is in, where there are several: a key has a *slot*, a chain has slots, and no slot is two chains'.
//!
//! ```text
//!  key ─▶ what is between its braces, or all of it ─▶ CRC-16 ─▶ slot, of 16,384 ─▶ the chain whose it is
//! ```
//! Slots are those of Redis Cluster, so what its users know holds: keys with the same `{tag}` are in one chain, whatever else they have.
//!
//! Keys that begin with a zero byte are no items: what lies beside an item ([`super::attributes`]) is where the item is; what a chain notes of itself (the
//! key of one zero byte, or two of them and more) has no slot, and is each chain's own.
//!
//! There is no agreement between chains. So a transaction has keys of one alone, and [`Map::route`] refuses others before anything is sent.
//!
//! Bounds: a set of slots has [`MAX_RANGES`] ranges. Errors: [`BadSlots`], [`BadMap`], [`Across`], in words that say what to write. Tests: at the end; vectors
//! for other languages, `docs/slot-vectors.jsonl`; fuzz target `chain_slots`.

use super::Transaction;
use super::attributes::RESERVED;
use super::transaction::Malformed;
use std::fmt;
use std::str::FromStr;

/// How many there are: 0 to 16,383.
pub const SLOTS: u16 = 1 << 14;
/// Ranges of one set.
pub const MAX_RANGES: usize = 256;

/// The slot of a key; none for what is each chain's own.
pub fn slot(key: &[u8]) -> Option<u16> {
    let item = key.strip_prefix(&[RESERVED]).unwrap_or(key);
    // The empty key is none, and a refusal of it is any chain's.
    let is_own = item.is_empty() || item[0] == RESERVED;
    (!is_own).then(|| crc16(tag(item)) % SLOTS)
}

/// What of a key counts: what is between its first brace and the next one that closes, if anything is.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| sum << 8 ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut sum, mut bit) = ((at as u16) << 8, 0);
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
};

/// Slots of a chain. Ranges rise, and there is a gap between them; so equal sets are equal values. By default all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slots(Vec<(u16, u16)>);

/// Why there is no such set of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSlots {
    /// It is not written as ranges are.
    Text,
    /// The range falls, or ends behind the last slot.
    Range(u16, u16),
    /// A slot is in two ranges.
    Twice(u16),
    /// There are more than [`MAX_RANGES`].
    TooMany,
}

impl fmt::Display for BadSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = SLOTS - 1;
        match self {
            BadSlots::Text => f.write_str("write ranges of slots, as \"0-8191\" or \"0-99, 200, 300-399\""),
            BadSlots::Range(from, to) => write!(f, "{from}-{to}: a range rises, and slots are 0 to {last}"),
            BadSlots::Twice(slot) => write!(f, "slot {slot} is there twice"),
            BadSlots::TooMany => write!(f, "at most {MAX_RANGES} ranges"),
        }
    }
}

impl std::error::Error for BadSlots {}

impl Default for Slots {
    fn default() -> Slots {
        Slots(vec![(0, SLOTS - 1)])
    }
}

impl Slots {
    /// These ranges, the first and the last slot of each.
    ///
    /// # Errors
    /// See [`BadSlots`].
    pub fn new(mut ranges: Vec<(u16, u16)>) -> Result<Slots, BadSlots> {
        if ranges.is_empty() {
            return Err(BadSlots::Text);
        }
        if let Some((from, to)) = ranges.iter().copied().find(|(from, to)| from > to || *to >= SLOTS) {
            return Err(BadSlots::Range(from, to));
        }
        ranges.sort_unstable();
        let mut whole: Vec<(u16, u16)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match whole.last_mut() {
                Some((_, before)) if *before >= from => return Err(BadSlots::Twice(from)),
                Some((_, before)) if *before + 1 == from => *before = to,
                _ => whole.push((from, to)),
            }
        }
        if whole.len() > MAX_RANGES { Err(BadSlots::TooMany) } else { Ok(Slots(whole)) }
    }

    /// Share `at` of all slots, from 0, where each of `of` has as many as another, or one more.
    ///
    /// # Panics
    /// There is no such share.
    pub fn share(at: usize, of: usize) -> Slots {
        assert!(at < of && of <= usize::from(SLOTS), "share {at} of {of} parts of {SLOTS} slots");
        let first = |at: usize| (at * usize::from(SLOTS) / of) as u16;
        Slots(vec![(first(at), first(at + 1) - 1)])
    }

    /// The first and the last slot of each range.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// Whether they are all there are.
    pub fn is_all(&self) -> bool {
        self.0 == [(0, SLOTS - 1)]
    }

    /// Whether a slot is among them.
    pub fn has(&self, slot: u16) -> bool {
        let at = self.0.partition_point(|(_, to)| *to < slot);
        self.0.get(at).is_some_and(|(from, _)| *from <= slot)
    }

    /// Whether a transaction may be done in a chain that has these: the slots of its keys are among them, if they have any.
    ///
    /// # Errors
    /// A key whose is not.
    pub fn check(&self, transaction: &Transaction) -> Result<(), Malformed> {
        if self.is_all() {
            return Ok(());
        }
        let is_other = |key: &&[u8]| slot(key).is_some_and(|slot| !self.has(slot));
        match transaction.keys().into_iter().find(is_other) {
            Some(key) => Err(Malformed::OtherChain(key.to_vec())),
            None => Ok(()),
        }
    }
}

/// What [`Slots::from_str`] reads.
impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (from, to)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            if from == to { write!(f, "{from}")? } else { write!(f, "{from}-{to}")? }
        }
        Ok(())
    }
}

impl FromStr for Slots {
    type Err = BadSlots;

    fn from_str(text: &str) -> Result<Slots, BadSlots> {
        let number = |text: &str| {
            let text = text.trim();
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse().ok()).flatten().ok_or(BadSlots::Text)
        };
        let range = |text: &str| match text.split_once('-') {
            Some((from, to)) => Ok((number(from)?, number(to)?)),
            None => number(text).map(|slot| (slot, slot)),
        };
        Slots::new(text.split(',').map(range).collect::<Result<_, _>>()?)
    }
}

/// Which of several chains has which slots. Chains are named by their places in the list that it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// First and last slot, and whose they are; without gaps, from slot 0 to the last.
    ranges: Vec<(u16, u16, usize)>,
    chains: usize,
}

/// Why there is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadMap {
    /// This slot is that of both of these.
    Both(u16, usize, usize),
    /// These are nobody's.
    Nobody(u16, u16),
}

/// A transaction has keys of two chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Across {
    /// A key, and the place of its chain.
    pub one: (Vec<u8>, usize),
    /// Another, and another.
    pub other: (Vec<u8>, usize),
}

impl Map {
    /// Of chains that have these slots.
    ///
    /// # Errors
    /// A slot is of two, or of none.
    pub fn new(all: &[Slots]) -> Result<Map, BadMap> {
        let of = |(at, slots): (usize, &Slots)| {
            slots.0.iter().map(move |(from, to)| (*from, *to, at)).collect::<Vec<_>>()
        };
        let mut ranges: Vec<_> = all.iter().enumerate().flat_map(of).collect();
        ranges.sort_unstable();
        let mut next = 0;
        for (at, (from, to, who)) in ranges.iter().copied().enumerate() {
            if from < next {
                return Err(BadMap::Both(from, ranges[at - 1].2, who));
            }
            if from > next {
                return Err(BadMap::Nobody(next, from - 1));
            }
            next = to + 1;
        }
        if next < SLOTS {
            Err(BadMap::Nobody(next, SLOTS - 1))
        } else {
            Ok(Map { ranges, chains: all.len() })
        }
    }

    /// Of one chain.
    pub fn alone() -> Map {
        Map { ranges: vec![(0, SLOTS - 1, 0)], chains: 1 }
    }

    /// How many chains there are.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// Whose a slot is.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn of(&self, slot: u16) -> usize {
        let at = self.ranges.partition_point(|(_, to, _)| *to < slot);
        self.ranges[at].2
    }

    /// Where a transaction is done; none if it names nothing but what is each chain's own.
    ///
    /// # Errors
    /// Its keys are in two chains.
    pub fn route(&self, transaction: &Transaction) -> Result<Option<usize>, Across> {
        if self.chains == 1 {
            return Ok(Some(0));
        }

        let mut found: Option<(&[u8], usize)> = None;
        for key in transaction.keys() {
            let Some(chain) = slot(key).map(|slot| self.of(slot)) else { continue };
            match found {
                Some((one, at)) if at != chain => {
                    return Err(Across { one: (one.to_vec(), at), other: (key.to_vec(), chain) });
                }
                _ => found = Some((key, chain)),
            }
        }
        Ok(found.map(|(_, chain)| chain))
    }
}

#[cfg(test)]
mod tests;
