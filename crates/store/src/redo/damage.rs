//! Records that were durable and cannot be read any more, and repairing them with copies from elsewhere.

use super::error::{Broken, Doing};
use super::log::{Log, Place, seed};
use super::media::Media;
use super::record::{HEADER, Header, size};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeBounds};

/// Neighbouring records that cannot be read, and where they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hole {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) position: u64,
    /// Where the next record begins.
    pub(super) end: u64,
    /// The checksum, epoch and length of the one that it is, if its header could be read.
    pub(super) known: Option<(u32, u64, u32)>,
    /// Epoch and payload of those that came back; they are written when all are there.
    pub(super) copies: BTreeMap<u64, (u64, Vec<u8>)>,
}

impl Hole {
    pub(super) fn new(first: u64, last: u64, position: u64, end: u64, header: Option<&Header>) -> Hole {
        let known = header.map(|header| (header.payload_crc, header.epoch, header.len));
        Hole { first, last, position, end, known, copies: BTreeMap::new() }
    }

    /// Forgets those outside `range`; what it takes on the medium stays.
    pub(super) fn keep(&mut self, range: impl RangeBounds<u64>) {
        if let Bound::Included(first) = range.start_bound() {
            self.first = self.first.max(*first);
        }
        if let Bound::Included(last) = range.end_bound() {
            self.last = self.last.min(*last);
        }
        self.copies.retain(|lsn, _| range.contains(lsn));
    }
}

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replaced {
    /// It is on the medium, durable, with all of its neighbours that were damaged.
    Durable,
    /// It can be read, but is in memory only: neighbours without which its place is not known are still missing.
    Kept,
}

/// Why a copy was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplaceError {
    /// The record is not damaged, or not here.
    NotDamaged,
    /// It cannot be what was there: the checksum or length is another.
    Misfit,
    /// The medium failed.
    Broken(Broken),
}

impl fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplaceError::NotDamaged => f.write_str("this record is not damaged"),
            ReplaceError::Misfit => f.write_str(
                "this is not the record that was here: the log must begin anew with a copy of the image",
            ),
            ReplaceError::Broken(broken) => broken.fmt(f),
        }
    }
}

impl std::error::Error for ReplaceError {}

impl From<Broken> for ReplaceError {
    fn from(broken: Broken) -> ReplaceError {
        ReplaceError::Broken(broken)
    }
}

impl<M: Media> Log<M> {
    /// Records that cannot be read and of which no copy came yet.
    pub fn damaged(&self) -> Vec<u64> {
        let lacks =
            |hole: &Hole| (hole.first..=hole.last).filter(|lsn| !hole.copies.contains_key(lsn)).collect();
        self.holes.iter().flat_map(|hole| -> Vec<u64> { lacks(hole) }).collect()
    }

    /// Puts a copy of a damaged record into its place.
    ///
    /// # Errors
    /// [`ReplaceError`]; nothing was changed then, but after `Misfit` of the last one of several neighbours all of them are missing again.
    pub fn replace(&mut self, lsn: u64, epoch: u64, payload: &[u8]) -> Result<Replaced, ReplaceError> {
        self.usable()?;
        let which = self.holes.iter().position(|hole| (hole.first..=hole.last).contains(&lsn));
        let which = which.map_or_else(|| self.decayed(lsn, epoch, payload.len()), Ok)?;
        let hole = &mut self.holes[which];
        let is_known = |(crc, known_epoch, len): (u32, u64, u32)| {
            let found = crc32c::crc32c_append(seed(self.identity), payload);
            (found, epoch, payload.len()) == (crc, known_epoch, len as usize)
        };
        if !hole.known.is_none_or(is_known) {
            return Err(ReplaceError::Misfit);
        }
        hole.copies.insert(lsn, (epoch, payload.to_vec()));
        if (hole.copies.len() as u64) < hole.last - hole.first + 1 {
            return Ok(Replaced::Kept);
        }
        let filler = self.filler(which)?;
        self.fill(which, filler)?;
        Ok(Replaced::Durable)
    }

    /// A hole for a record that could be read when the log was opened, and cannot be any more.
    fn decayed(&mut self, lsn: u64, epoch: u64, len: usize) -> Result<usize, ReplaceError> {
        let place = *self.place(lsn).ok_or(ReplaceError::NotDamaged)?;
        if self.read(lsn).is_some() {
            return Err(ReplaceError::NotDamaged);
        }
        if (place.epoch, place.len as usize) != (epoch, len) {
            return Err(ReplaceError::Misfit);
        }
        self.holes.push(Hole::new(lsn, lsn, place.position, place.position + size(len), None));
        Ok(self.holes.len() - 1)
    }

    /// Bytes that are left behind the copies in their hole: none, or enough for a record that says nothing.
    fn filler(&mut self, which: usize) -> Result<u64, ReplaceError> {
        let hole = &mut self.holes[which];
        let taken = hole.copies.values().map(|(_, payload)| size(payload.len())).sum();
        match (hole.end - hole.position).checked_sub(taken) {
            Some(left) if left == 0 || (HEADER as u64..1 << 32).contains(&left) => Ok(left),
            _ => {
                hole.copies.clear();
                Err(ReplaceError::Misfit)
            }
        }
    }

    /// Writes the copies into their hole, with a filler of so many bytes behind them, and persists them.
    fn fill(&mut self, which: usize, filler: u64) -> Result<(), Broken> {
        self.end_sync()?;
        let hole = self.holes.remove(which);
        let (seed, mut bytes) = (seed(self.identity), Vec::new());
        let mut put = |lsn: u64, epoch: u64, payload: &[u8], len: usize| {
            let at = bytes.len();
            let header = Header {
                lsn,
                epoch,
                position: hole.position + at as u64,
                generation: self.generation,
                behind: lsn.min(1) as u32,
                len: len as u32,
                payload_crc: crc32c::crc32c_append(seed, payload),
            };
            bytes.resize(at + size(payload.len()) as usize, 0);
            header.emit(seed, &mut bytes[at..]);
            bytes[at + HEADER..at + HEADER + payload.len()].copy_from_slice(payload);
            header.position
        };
        for (lsn, (epoch, payload)) in &hole.copies {
            let position = put(*lsn, *epoch, payload, payload.len());
            let place = Place { position, epoch: *epoch, len: payload.len() as u32, is_damaged: false };
            self.places[(lsn - self.before.0 - 1) as usize] = place;
        }
        if filler > 0 {
            put(0, 0, &[], filler as usize - HEADER);
        }
        let ranges = self.write(hole.position, &bytes)?;
        self.persist(Doing::Persisting, &ranges)
    }
}
