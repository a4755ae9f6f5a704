//! A medium that can lose power at any operation, and fail: for tests and simulations.
//!
//! What was written and not persisted is kept apart in lines of 64 bytes, every version of each. A power cut leaves of each line any of its
//! versions or the durable one, and sometimes a mixture of two, word by word: that is what caches, and drives with several queues, may do.
//! After an error of persisting the lines count as clean, as a page cache has it: they are read back, persisting them "again" succeeds and does
//! nothing, and a power cut may undo them. Only writing them anew helps.
//!
//! Everything follows from calls and a [`Prng`].

use super::{Class, Media, within};
use base::Prng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Bytes that are kept or lost together.
const LINE: usize = 64;

/// What goes wrong at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// It says that it failed. A write may have been done in part.
    Error,
    /// There is no room: nothing is written.
    Full,
    /// Power fails during it. Every later operation fails too.
    PowerCut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Line {
    /// What it was after each write that is not durable.
    versions: Vec<[u8; LINE]>,
    /// Persisting it failed: nobody will try again.
    given_up: bool,
}

/// A medium of which anything that is not durable can get lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Crashing {
    durable: Vec<u8>,
    lines: BTreeMap<usize, Line>,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    off: bool,
    class: Class,
}

impl Crashing {
    /// `len` zeros, all durable; rounded up to a line.
    pub fn new(len: usize) -> Crashing {
        Crashing {
            durable: vec![0; len.next_multiple_of(LINE)],
            lines: BTreeMap::new(),
            operations: 0,
            faults: BTreeMap::new(),
            off: false,
            class: Class::PowerLoss,
        }
    }

    /// These bytes, all durable.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Crashing {
        bytes.resize(bytes.len().next_multiple_of(LINE), 0);
        Crashing { durable: bytes, ..Crashing::new(0) }
    }

    /// It says that it survives no more than this. What becomes of it then is the caller's business.
    #[must_use]
    pub fn with_class(self, class: Class) -> Crashing {
        Crashing { class, ..self }
    }

    /// Writes and persists so far, those that failed too.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Operation `number` (the first is 0) shall go wrong.
    pub fn inject(&mut self, number: u64, fault: Fault) {
        self.faults.insert(number, fault);
    }

    /// Whatever was to go wrong does not.
    pub fn heal(&mut self) {
        self.faults.clear();
    }

    /// Power failed at an operation.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// Lines that a power cut could take or leave.
    pub fn undecided(&self) -> usize {
        self.lines.len()
    }

    /// Power fails, and comes back: of what was not durable anything may be there. Faults are forgotten, counting begins anew.
    pub fn crash(self, prng: &mut Prng) -> Crashing {
        let mut durable = self.durable;
        for (number, line) in self.lines {
            let at = number * LINE..(number + 1) * LINE;
            let mut old = [0; LINE];
            old.copy_from_slice(&durable[at.clone()]);
            durable[at].copy_from_slice(&survivor(old, &line.versions, prng));
        }
        Crashing { durable, class: self.class, ..Crashing::new(0) }
    }

    /// Flips bits of a byte, as a medium does that decays.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn corrupt(&mut self, offset: u64, flipped: u8) {
        let at = offset as usize;
        self.durable[at] ^= flipped;
        if let Some(line) = self.lines.get_mut(&(at / LINE)) {
            line.versions.iter_mut().for_each(|version| version[at % LINE] ^= flipped);
        }
    }

    /// Counts an operation and says what goes wrong with it.
    fn operation(&mut self) -> Option<Fault> {
        let fault = self.faults.remove(&self.operations);
        self.operations += 1;
        self.off |= fault == Some(Fault::PowerCut);
        if self.off { Some(Fault::PowerCut) } else { fault }
    }

    /// The bytes of a line as they read now.
    fn line(&self, number: usize) -> [u8; LINE] {
        let newest = self.lines.get(&number).and_then(|line| line.versions.last().copied());
        newest.unwrap_or_else(|| {
            let mut bytes = [0; LINE];
            bytes.copy_from_slice(&self.durable[number * LINE..(number + 1) * LINE]);
            bytes
        })
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        for (number, part) in parts(offset..offset + bytes.len()) {
            let mut version = self.line(number);
            let from = number * LINE + part.start - offset;
            version[part.clone()].copy_from_slice(&bytes[from..from + part.len()]);
            let line = self.lines.entry(number).or_insert(Line { versions: Vec::new(), given_up: false });
            line.versions.push(version);
            line.given_up = false;
        }
    }
}

/// What becomes of a line: one of its versions or what was durable; one time in four some words of it are those of the version before.
fn survivor(durable: [u8; LINE], versions: &[[u8; LINE]], prng: &mut Prng) -> [u8; LINE] {
    let chosen = prng.below(versions.len() as u64 + 1) as usize;
    let Some(newest) = chosen.checked_sub(1) else { return durable };
    let before = newest.checked_sub(1).map_or(durable, |before| versions[before]);
    let mut line = versions[newest];
    let torn = if prng.below(4) == 0 { prng.next_u64() } else { 0 };
    for (word, (new, old)) in line.chunks_mut(8).zip(before.chunks(8)).enumerate() {
        if torn >> word & 1 == 1 {
            new.copy_from_slice(old);
        }
    }
    line
}

/// The lines of a range, each with the part of it that is meant.
fn parts(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let lines = range.start / LINE..range.end.div_ceil(LINE);
    lines.map(move |number| {
        let start = number * LINE;
        (number, range.start.max(start) - start..range.end.min(start + LINE) - start)
    })
}

fn failed(fault: Fault) -> io::Error {
    match fault {
        Fault::Error => io::Error::other("the medium failed"),
        Fault::Full => io::Error::new(io::ErrorKind::StorageFull, "no room on the medium"),
        Fault::PowerCut => io::Error::new(io::ErrorKind::NotConnected, "power is off"),
    }
}

impl Media for Crashing {
    fn len(&self) -> u64 {
        self.durable.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = within(offset, out.len(), self.len())?;
        out.copy_from_slice(&self.durable[at.clone()]);
        for (number, line) in self.lines.range(at.start / LINE..at.end.div_ceil(LINE)) {
            let newest = line.versions.last().expect("a line is kept apart when it is written");
            let start = number * LINE;
            let (from, to) = (at.start.max(start), at.end.min(start + LINE));
            out[from - at.start..to - at.start].copy_from_slice(&newest[from - start..to - start]);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = within(offset, bytes.len(), self.len())?;
        let was_off = self.off;
        let fault = self.operation();
        if !was_off && fault != Some(Fault::Full) {
            self.put(at.start, bytes);
        }
        fault.map_or(Ok(()), |fault| Err(failed(fault)))
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        let fault = self.operation();
        for range in ranges {
            let at = within(range.start, (range.end - range.start) as usize, self.len())?;
            for number in at.start / LINE..at.end.div_ceil(LINE) {
                let Some(line) = self.lines.get_mut(&number) else { continue };
                if fault.is_some() {
                    line.given_up = true;
                } else if !line.given_up {
                    let newest = line.versions.pop().expect("a line is kept apart when it is written");
                    self.durable[number * LINE..(number + 1) * LINE].copy_from_slice(&newest);
                    self.lines.remove(&number);
                }
            }
        }
        fault.map_or(Ok(()), |fault| Err(failed(fault)))
    }

    /// [`Class::PowerLoss`], if nothing else was said.
    fn class(&self) -> Class {
        self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(medium: &Crashing, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        medium.read_at(offset, &mut out).expect("inside");
        out
    }

    #[test]
    fn what_is_persisted_stays_and_what_is_not_may_be_any_version() {
        let mut medium = Crashing::new(256);
        medium.write_at(60, &[1; 8]).expect("inside");
        medium.persist(&[0..256]).expect("no fault");
        medium.write_at(62, &[2; 4]).expect("inside");
        medium.write_at(62, &[3; 4]).expect("inside");
        assert_eq!(read(&medium, 60, 8), [1, 1, 3, 3, 3, 3, 1, 1]);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let after = medium.clone().crash(&mut Prng::new(seed));
            assert_eq!((read(&after, 60, 2), read(&after, 66, 2)), (vec![1, 1], vec![1, 1]));
            seen.insert((read(&after, 62, 2), read(&after, 64, 2)));
        }
        assert_eq!(seen.len(), 9, "two lines, three versions each: {seen:?}");
    }

    #[test]
    fn after_an_error_of_persist_trying_again_says_yes_and_does_nothing() {
        let mut medium = Crashing::new(64);
        medium.inject(1, Fault::Error);
        medium.write_at(0, &[7]).expect("inside");
        assert!(medium.persist(&[0..64]).is_err());
        medium.persist(&[0..64]).expect("it lies");
        let lost = (0..64).any(|seed| read(&medium.clone().crash(&mut Prng::new(seed)), 0, 1) == [0]);
        assert!(lost);
        medium.write_at(0, &[7]).expect("written anew");
        medium.persist(&[0..64]).expect("no fault");
        assert!((0..64).all(|seed| read(&medium.clone().crash(&mut Prng::new(seed)), 0, 1) == [7]));
    }

    #[test]
    fn nothing_works_without_power_and_full_writes_nothing() {
        let mut medium = Crashing::new(64);
        medium.inject(0, Fault::Full);
        medium.inject(2, Fault::PowerCut);
        assert_eq!(medium.write_at(0, &[1]).map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(read(&medium, 0, 1), [0]);
        medium.write_at(0, &[2]).expect("no fault");
        assert!(medium.persist(&[0..64]).is_err() && medium.write_at(0, &[3]).is_err());
        assert_eq!((read(&medium, 0, 1), medium.operations()), (vec![2], 4));
        assert!(medium.write_at(64, &[1]).is_err() && medium.write_at(u64::MAX, &[1]).is_err());
    }
}
