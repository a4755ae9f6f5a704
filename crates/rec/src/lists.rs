//! Query lists: which rows each query of a log sums, and how often it was asked.
//!
//! Why: a memo plan is grown from a log and judged on another part of it. The log is kept as it is read, without sorting and with ids that
//! repeat, because that is what a server is asked; whoever needs sets takes [`Lists::set`].
//!
//! Shape: CSR. `ids[offsets[i]..offsets[i + 1]]` are the ids of query `i`, counted from 0; `weights[i]` says how often it was asked.
//! `text` reads and writes the text formats: see [`Style`].
//!
//! Invariants: (1) every id is less than `features`; (2) no query is empty, no weight is 0; (3) ids of all queries together are at most
//! [`MAX_PINS`] and features at most [`MAX_FEATURES`]. [`Lists::push`] is the only way in and asserts none of it: it refuses.
//!
//! Sources: the format of SNU-ARC/MERCI, which is PaToH's input with weighted nets.

mod text;

pub use text::{MAX_LINE_BYTES, Style};

use base::prng::mix64;
use std::collections::HashSet;
use std::fmt;

/// Most rows that lists may speak of: names of clusters must fit beside them in 32 bits.
pub const MAX_FEATURES: u32 = 1 << 30;

/// Most ids in all queries together.
pub const MAX_PINS: usize = u32::MAX as usize;

/// The queries of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    features: u32,
    weights: Vec<u32>,
    offsets: Vec<usize>,
    ids: Vec<u32>,
}

/// Why something is no list of queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListsError {
    /// The line, counted from 1; 0 if it is not a matter of a line.
    pub line: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first line is none of the two headers.
    Header,
    /// So many features are too many, or none.
    Features(u64),
    /// The field at this place, counted from 1, is no number of 32 bits.
    Number(usize),
    /// A weight of 0.
    Weight,
    /// A weight and no id.
    Empty,
    /// An id, as it is written, that is none of so many features.
    Id(u32, u32),
    /// A line longer than [`MAX_LINE_BYTES`].
    Long,
    /// The header says so many queries or ids (the first), the file has so many (the second).
    Count(u64, u64),
    /// More ids than [`MAX_PINS`].
    Pins,
    /// The file cannot be read.
    Read(String),
}

impl fmt::Display for ListsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        match &self.fault {
            Fault::Header => f.write_str(
                "expected the header \"1 FEATURES QUERIES IDS 2\" or \"# FEATURES\"; lists without header and weights are read as plain ones",
            ),
            Fault::Features(count) => write!(f, "{count} features; there must be 1 to {MAX_FEATURES}"),
            Fault::Number(field) => write!(f, "field {field} is not a number from 0 to {}", u32::MAX),
            Fault::Weight => f.write_str("the weight is 0; leave the line out or give it a weight of at least 1"),
            Fault::Empty => f.write_str("there is a weight and no id; leave the line out"),
            Fault::Id(id, features) => write!(f, "id {id} is none of 1 to {features}"),
            Fault::Long => write!(f, "the line is longer than {MAX_LINE_BYTES} bytes"),
            Fault::Count(said, found) => {
                write!(f, "the header announces {said} but there are {found}; the file may be cut short")
            }
            Fault::Pins => write!(f, "more than {MAX_PINS} ids in all; take a part of the log"),
            Fault::Read(cause) => f.write_str(cause),
        }
    }
}

impl std::error::Error for ListsError {}

impl From<Fault> for ListsError {
    fn from(fault: Fault) -> ListsError {
        ListsError { line: 0, fault }
    }
}

impl Lists {
    /// No queries yet, over so many rows.
    ///
    /// # Errors
    /// [`Fault::Features`].
    pub fn new(features: u32) -> Result<Lists, Fault> {
        if features == 0 || features > MAX_FEATURES {
            return Err(Fault::Features(features.into()));
        }
        Ok(Lists { features, weights: Vec::new(), offsets: vec![0], ids: Vec::new() })
    }

    /// Adds a query that was asked `weight` times; ids count from 0.
    ///
    /// # Errors
    /// A weight of 0, no id, an id that is none (told as it is written, from 1), too many ids in all; nothing is added then.
    pub fn push(&mut self, weight: u32, ids: &[u32]) -> Result<(), Fault> {
        if weight == 0 {
            return Err(Fault::Weight);
        }
        if ids.is_empty() {
            return Err(Fault::Empty);
        }
        if let Some(&id) = ids.iter().find(|&&id| id >= self.features) {
            return Err(Fault::Id(id.saturating_add(1), self.features));
        }
        if ids.len() > MAX_PINS - self.ids.len() {
            return Err(Fault::Pins);
        }
        self.weights.push(weight);
        self.ids.extend_from_slice(ids);
        self.offsets.push(self.ids.len());
        Ok(())
    }

    /// Rows that ids may name.
    pub fn features(&self) -> u32 {
        self.features
    }

    /// The same queries over at least so many rows: a table may have more than its log names.
    ///
    /// # Errors
    /// [`Fault::Features`].
    pub fn over(self, rows: u32) -> Result<Lists, Fault> {
        let features = Lists::new(rows.max(self.features))?.features;
        Ok(Lists { features, ..self })
    }

    /// How many queries there are, each once.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Ids of all queries together.
    pub fn pins(&self) -> usize {
        self.ids.len()
    }

    /// How often query `at` was asked.
    pub fn weight(&self, at: usize) -> u32 {
        self.weights[at]
    }

    /// Ids of query `at` as they were given.
    pub fn query(&self, at: usize) -> &[u32] {
        &self.ids[self.offsets[at]..self.offsets[at + 1]]
    }

    /// Each query: its weight and its ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        (0..self.len()).map(|at| (self.weight(at), self.query(at)))
    }

    /// Ids of query `at`, ascending, each once.
    pub fn set(&self, at: usize) -> Vec<u32> {
        let mut ids = self.query(at).to_vec();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Splits by query: about `held_out` of all go to the second lists. A query goes where the hash of its set with `seed` says, so that the same set
    /// never is in both, in whatever order its ids are and however often it comes.
    pub fn split(&self, held_out: f64, seed: u64) -> (Lists, Lists) {
        let mut parts = [(); 2].map(|()| Lists::new(self.features).expect("as many as here"));
        for (at, (weight, ids)) in self.iter().enumerate() {
            // 53 bits, so that the number is exact.
            let place = (set_hash(&self.set(at), seed) >> 11) as f64 / (1u64 << 53) as f64;
            parts[usize::from(place < held_out)].push(weight, ids).expect("it was a query here");
        }
        parts.into()
    }

    /// How many of these queries have the same set of ids as one of `others`. Sets are compared by 64 bits of hash.
    pub fn repeats(&self, others: &Lists) -> usize {
        let known: HashSet<u64> = (0..others.len()).map(|at| set_hash(&others.set(at), 0)).collect();
        (0..self.len()).filter(|&at| known.contains(&set_hash(&self.set(at), 0))).count()
    }

    /// Leaves out ids that are asked fewer than `least` times, weights counted, and numbers the others anew in their old order. Queries that lose all ids
    /// go. Gives the lists and for each new id its old one; `None` if no id is left.
    pub fn dense(&self, least: u64) -> Option<(Lists, Vec<u32>)> {
        let mut counts = vec![0u64; self.features as usize];
        for (weight, ids) in self.iter() {
            ids.iter().for_each(|&id| counts[id as usize] += u64::from(weight));
        }
        let kept = |id: &u32| counts[*id as usize] >= least.max(1);
        let old: Vec<u32> = (0..self.features).filter(kept).collect();
        let mut new = vec![0u32; self.features as usize];
        old.iter().zip(0..).for_each(|(&old, at)| new[old as usize] = at);
        let mut lists = Lists::new(old.len() as u32).ok()?;
        let mut row = Vec::new();
        for (weight, ids) in self.iter() {
            row.clear();
            row.extend(ids.iter().filter(|id| kept(id)).map(|&id| new[id as usize]));
            if !row.is_empty() {
                lists.push(weight, &row).expect("ids are new ones, and fewer");
            }
        }
        Some((lists, old))
    }
}

/// A hash of the ascending `ids`: the same in every release, because it decides how logs are split.
fn set_hash(ids: &[u32], seed: u64) -> u64 {
    ids.iter().fold(mix64(seed), |hash, &id| mix64(hash ^ u64::from(id)))
}

#[cfg(test)]
mod tests;
