//! What people call a feature, and its row: a dictionary for each table, or feature hashing where there is none.
//!
//! A server needs the dictionary anyway, so it is where a memo plan's new ids belong: [`Dictionary::rename`] writes them into it once, and remapping at serving
//! time is free.
//!
//! ```text
//!  feature ──hash──▶ slots: [upper half of the hash │ entry + 1]  ──▶ entries: [start, length, id] ──▶ text
//!                    open addressing, at most half full                                              compared
//! ```
//! The hash is [`base::hash`] with the wire's seed: the same everywhere and always, so rows that training gave to hashed features are found again.
//! A feature that is
//! hashed gets row `hash · rows / 2^64`, the upper half of the product: as even as a remainder, without a division.
//!
//! Bounds: [`Dictionary::read`] takes at most so many bytes of features as it is told; 12 bytes for each and at most 32 bytes of slots come on top.
//!
//! Cost: a miss of the cache for the slot, one for the entry, one for the text.

#[cfg(test)]
mod tests;

use base::hash::{Hasher64, WIRE_SEED};
use std::fmt;
use std::io::{self, BufRead};

const HASHER: Hasher64 = Hasher64::new(WIRE_SEED);

/// What becomes of a feature that the dictionary does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// It counts for nothing.
    Skip,
    /// It gets this row.
    Row(u32),
    /// It gets the row of its hash.
    #[default]
    Hash,
}

/// Why a text is no dictionary for a table. Lines count from 1.
#[derive(Debug)]
pub enum DictionaryError {
    /// Reading failed.
    Io(io::Error),
    /// What stands behind the tabulator of this line is no row of the table, which has so many.
    Id(usize, u32),
    /// The feature of this line was there before.
    Twice(usize, String),
    /// Features have more bytes than this.
    TooLong(usize),
    /// Unknown features are to get this row, but the table has so many.
    Unknown(u32, u32),
}

impl fmt::Display for DictionaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DictionaryError::Io(error) => write!(f, "dictionary: {error}"),
            DictionaryError::Id(line, rows) => write!(
                f,
                "dictionary, line {line}: expected a feature, a tabulator and its row, less than {rows}; without a row it is the line's number"
            ),
            DictionaryError::Twice(line, feature) => {
                write!(
                    f,
                    "dictionary, line {line}: feature {feature:?} was there before; leave one of them out"
                )
            }
            DictionaryError::TooLong(most) => {
                write!(f, "dictionary: more than {most} bytes of features; allow more")
            }
            DictionaryError::Unknown(row, rows) => {
                write!(
                    f,
                    "dictionary: row {row} for unknown features, but the table has rows 0 to {}",
                    rows - 1
                )
            }
        }
    }
}

impl std::error::Error for DictionaryError {}

struct Entry {
    start: u32,
    len: u32,
    id: u32,
}

/// Features of one table and their rows.
pub struct Dictionary {
    rows: u32,
    unknown: Unknown,
    /// A power of two; 0 is free.
    slots: Vec<u64>,
    entries: Vec<Entry>,
    text: String,
    /// New names of rows, for features that are hashed.
    remap: Vec<u32>,
}

impl Dictionary {
    /// No features: all are hashed.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn hashing(rows: u32) -> Dictionary {
        assert!(rows > 0, "a table has rows");
        Dictionary {
            rows,
            unknown: Unknown::Hash,
            slots: vec![0; 2],
            entries: Vec::new(),
            text: String::new(),
            remap: Vec::new(),
        }
    }

    /// The dictionary in a text for a table of `rows` rows: a line for each feature, with a tabulator and its row behind it, or without: then it is the line's
    /// number from 0. Empty lines have no feature, but count. At most `most` bytes of features are taken, and never more than 4 GiB.
    ///
    /// # Errors
    /// Reading fails; a row that the table has not; a feature twice; too many bytes.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn read(
        source: impl BufRead,
        rows: u32,
        unknown: Unknown,
        most: usize,
    ) -> Result<Dictionary, DictionaryError> {
        if let Unknown::Row(row) = unknown
            && row >= rows
        {
            return Err(DictionaryError::Unknown(row, rows));
        }
        let most = most.min(u32::MAX as usize);
        let mut dictionary = Dictionary { unknown, ..Dictionary::hashing(rows) };
        // A line that never ends must not be read to its end. What is longer than this has too many bytes, whatever its row.
        let mut source = source;
        let mut line = String::new();
        for number in 0.. {
            line.clear();
            let room = (most - dictionary.text.len()) as u64 + 32;
            let read = io::Read::take(&mut source, room).read_line(&mut line).map_err(DictionaryError::Io)?;
            if read == 0 {
                break;
            }
            if read as u64 == room && !line.ends_with('\n') {
                return Err(DictionaryError::TooLong(most));
            }
            let line = line.trim_end_matches(['\n', '\r']);
            let (feature, id) = match line.rsplit_once('\t') {
                Some((feature, id)) => (feature, id.parse().ok()),
                None => (line, u32::try_from(number).ok()),
            };
            if feature.is_empty() && id == u32::try_from(number).ok() {
                continue;
            }
            let id = id.filter(|&id| id < rows).ok_or(DictionaryError::Id(number + 1, rows))?;
            if dictionary.text.len() + feature.len() > most {
                return Err(DictionaryError::TooLong(most));
            }
            if !dictionary.insert(feature, id) {
                return Err(DictionaryError::Twice(number + 1, feature.to_owned()));
            }
        }
        Ok(dictionary)
    }

    /// How many features it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none, so that all are unknown.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The row of `feature`; none if it is unknown and counts for nothing.
    pub fn id(&self, feature: &str) -> Option<u32> {
        let hash = HASHER.hash(feature.as_bytes());
        if let Ok(slot) = self.find(hash, feature) {
            return Some(self.entries[(slot as u32 - 1) as usize].id);
        }
        let row = match self.unknown {
            Unknown::Skip => return None,
            Unknown::Row(row) => row,
            Unknown::Hash => ((u128::from(hash) * u128::from(self.rows)) >> 64) as u32,
        };
        Some(self.remap.get(row as usize).map_or(row, |&new| new))
    }

    /// Rows by the names that a memo plan gives them: `remap` is [`crate::memo::Plan::remap`]. Once.
    ///
    /// # Panics
    /// If there are not as many names as rows, or rows have new names already.
    pub fn rename(&mut self, remap: &[u32]) {
        assert_eq!(remap.len(), self.rows as usize, "a name for each row");
        assert!(self.remap.is_empty(), "rows are renamed once");
        self.entries.iter_mut().for_each(|entry| entry.id = remap[entry.id as usize]);
        if self.unknown != Unknown::Skip {
            self.remap = remap.to_vec();
        }
    }

    /// The slot of `feature`, or where it would go.
    fn find(&self, hash: u64, feature: &str) -> Result<u64, usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            if slot >> 32 == hash >> 32 {
                let entry = &self.entries[(slot as u32 - 1) as usize];
                if self.text.as_bytes()[entry.start as usize..][..entry.len as usize] == *feature.as_bytes() {
                    return Ok(slot);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether it was new.
    fn insert(&mut self, feature: &str, id: u32) -> bool {
        if (self.entries.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let hash = HASHER.hash(feature.as_bytes());
        let Err(at) = self.find(hash, feature) else { return false };
        self.entries.push(Entry { start: self.text.len() as u32, len: feature.len() as u32, id });
        self.text.push_str(feature);
        self.slots[at] = hash >> 32 << 32 | self.entries.len() as u64;
        true
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0u64; mask + 1];
        for (entry, number) in self.entries.iter().zip(1u64..) {
            let feature = &self.text.as_bytes()[entry.start as usize..][..entry.len as usize];
            let hash = HASHER.hash(feature);
            let mut at = hash as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = hash >> 32 << 32 | number;
        }
        self.slots = slots;
    }
}
