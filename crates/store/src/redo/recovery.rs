//! Which records are on a medium.
//!
//! From where the log begins, each record is looked for where the one before ends. Where there is none, the next header that can be read is
//! looked for behind it, every 8 bytes. A header is one of this log, at this place, if (a) its checksum and position say so, (b) its
//! generation is not that of something that was cut off, (c) it is before the place that the superblock knows exactly if its number is,
//! and behind it if its number is, (d) the records that would be missing before it have room there.
//!
//! Everything up to `proven` was durable: the superblock says it, and so does each header, of what was before it. What cannot be read up to
//! there is *damaged*, and its place stays. Behind it, whatever comes after the first record that cannot be read was never promised to
//! anybody by this log alone, or can no longer be told from that: it is *torn*, and cut.
//!
//! Bounds: each byte of the ring is looked at a constant number of times.

use super::damage::Hole;
use super::log::Place;
use super::media::Media;
use super::record::{HEADER, Header};
use super::ring::{Reader, Ring};
use super::superblock::Superblock;
use std::collections::VecDeque;
use std::io;

/// How the end of a log is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Judge {
    /// By what proves that records were durable.
    #[default]
    Proof,
    /// The first record that cannot be read is the end. A mistake, to see that tests and simulations find it.
    FirstBad,
}

/// What was found when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recovery {
    /// The first record.
    pub first: u64,
    /// The last record; one less than the first if there is none.
    pub last: u64,
    /// Up to here it is certain that everything had been made durable before; behind it, it may have been.
    pub proven: u64,
    /// Records that can be read.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records that were durable and cannot be read: they must come from elsewhere ([`super::Log::replace`]), or the log must be cut before them.
    pub damaged: Vec<u64>,
    /// Bytes of records behind the last one that were cut off since something before them cannot be read.
    pub torn_bytes: u64,
    /// Records in them that could have been read.
    pub torn_records: u64,
}

/// A record, or the place of some that cannot be read.
enum Piece {
    Good(Header),
    Bad(Hole),
}

impl Piece {
    fn end(&self) -> u64 {
        match self {
            Piece::Good(header) => header.position + header.size(),
            Piece::Bad(hole) => hole.end,
        }
    }
}

/// What a log is made of.
pub(super) struct Found {
    pub(super) places: VecDeque<Place>,
    pub(super) holes: Vec<Hole>,
    pub(super) end: u64,
    pub(super) recovery: Recovery,
}

/// Reads the log that the superblock describes.
pub(super) fn scan<M: Media>(
    media: &M,
    ring: Ring,
    superblock: &Superblock,
    seed: u32,
    judge: Judge,
) -> io::Result<Found> {
    let begin = superblock.begin;
    let limit = begin.end + ring.capacity;
    let mut walk = Walk { reader: Reader::new(media, ring, limit), superblock, seed, limit };
    let (pieces, proven) = walk.pieces()?;
    let keep = match judge {
        Judge::Proof => proven,
        Judge::FirstBad => begin.lsn,
    };
    Ok(assemble(pieces, superblock, keep, proven))
}

struct Walk<'a, M> {
    reader: Reader<'a, M>,
    superblock: &'a Superblock,
    seed: u32,
    limit: u64,
}

impl<M: Media> Walk<'_, M> {
    /// Everything between begin and end of the ring, in order, and up to where it was durable.
    fn pieces(&mut self) -> io::Result<(Vec<Piece>, u64)> {
        let durable = self.superblock.durable;
        let (mut at, mut next) = (self.superblock.begin.end, self.superblock.begin.lsn + 1);
        let (mut pieces, mut proven) = (Vec::new(), durable.lsn);
        while let Some(header) = self.find(at, next)? {
            if header.is_filler() {
                at += header.size();
                continue;
            }
            proven = proven.max(header.durable());
            if header.lsn > next {
                pieces.push(Piece::Bad(Hole::new(next, header.lsn - 1, at, header.position, None)));
            }
            at = header.position + header.size();
            next = header.lsn + 1;
            pieces.push(if self.is_whole(&header)? {
                Piece::Good(header)
            } else {
                Piece::Bad(Hole::new(header.lsn, header.lsn, header.position, at, Some(&header)))
            });
        }
        if next <= durable.lsn {
            if durable.end < at || !fits(durable.lsn - next + 1, durable.end - at) {
                let why = "the records contradict the superblock: they are not those of this log";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            pieces.push(Piece::Bad(Hole::new(next, durable.lsn, at, durable.end, None)));
        }
        Ok((pieces, proven))
    }

    /// The next header at `at` or behind it; a filler only at `at` itself.
    fn find(&mut self, at: u64, next: u64) -> io::Result<Option<Header>> {
        for position in (at..self.limit).step_by(8) {
            let Some(bytes) = self.reader.bytes(position, HEADER as u64)? else { return Ok(None) };
            let Some(header) = Header::parse(bytes, self.seed, position) else { continue };
            let is_next = if header.is_filler() {
                position == at
            } else {
                header.lsn >= next && fits(header.lsn - next, position - at)
            };
            if is_next && self.is_ours(&header) {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    fn is_ours(&self, header: &Header) -> bool {
        let Superblock { generation, void_after, durable, .. } = *self.superblock;
        let is_void =
            header.generation > generation || (header.lsn > void_after && header.generation < generation);
        let is_before = header.position < durable.end;
        let is_placed = header.is_filler() || (header.lsn <= durable.lsn) == is_before;
        let end = if is_before { durable.end } else { self.limit };
        !is_void && is_placed && header.size() <= end - header.position
    }

    /// Whether the payload is what the header says.
    fn is_whole(&mut self, header: &Header) -> io::Result<bool> {
        let payload = self.reader.bytes(header.position + HEADER as u64, u64::from(header.len))?;
        Ok(payload.is_some_and(|payload| header.is_payload(payload, self.seed)))
    }
}

/// Whether so many records can be in so many bytes.
fn fits(records: u64, bytes: u64) -> bool {
    records <= bytes / HEADER as u64
}

/// The log that these pieces make: nothing that cannot be read behind `keep`.
fn assemble(pieces: Vec<Piece>, superblock: &Superblock, keep: u64, proven: u64) -> Found {
    let begin = superblock.begin;
    let mut found =
        Found { places: VecDeque::new(), holes: Vec::new(), end: begin.end, recovery: Recovery::default() };
    let last_end = pieces.last().map_or(begin.end, Piece::end);
    let (mut is_cut, mut epoch) = (false, begin.epoch);
    for piece in pieces {
        match piece {
            Piece::Good(_) if is_cut => found.recovery.torn_records += 1,
            Piece::Good(header) => {
                epoch = header.epoch;
                let place = Place { position: header.position, epoch, len: header.len, is_damaged: false };
                found.places.push_back(place);
                found.end = header.position + header.size();
                found.recovery.records += 1;
                found.recovery.bytes += u64::from(header.len);
            }
            Piece::Bad(_) if is_cut => {}
            Piece::Bad(mut hole) => {
                is_cut = hole.last > keep;
                if hole.first > keep {
                    continue;
                }
                hole.keep(..=keep);
                epoch = hole.known.map_or(epoch, |(_, epoch, _)| epoch);
                let place = Place { position: hole.position, epoch, len: 0, is_damaged: true };
                found.places.extend((hole.first..=hole.last).map(|_| place));
                found.recovery.damaged.extend(hole.first..=hole.last);
                found.end = hole.end;
                found.holes.push(hole);
            }
        }
    }
    found.recovery.first = begin.lsn + 1;
    found.recovery.last = begin.lsn + found.places.len() as u64;
    found.recovery.proven = proven.min(found.recovery.last);
    found.recovery.torn_bytes = last_end - found.end;
    if superblock.durable.lsn == found.recovery.last
        && let Some(last) = found.places.back_mut()
    {
        last.epoch = superblock.durable.epoch;
    }
    found
}
