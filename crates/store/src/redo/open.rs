//! Making a log, and opening one that is there.

use super::error::OpenError;
use super::log::{Log, seed};
use super::media::Media;
use super::recovery::{self, Judge, Recovery};
use super::ring::{Ring, START};
use super::superblock::{Mark, Superblock};
use std::io;

/// Bytes that are written at once.
const CHUNK: u64 = 1 << 20;

impl<M: Media> Log<M> {
    /// Makes an empty log, whatever was there. `identity` says whose it is: give each replica of each chain its own, with a random part if
    /// strangers can choose what is logged.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn create(mut media: M, identity: u64) -> Result<Log<M>, OpenError> {
        let ring = Ring::new(media.len()).ok_or(OpenError::TooSmall(media.len()))?;
        let before = Superblock::read(&media)?.first().copied();
        erase(&mut media, ring)?;
        let none = Mark { lsn: 0, epoch: 0, end: 0 };
        let superblock = Superblock {
            // An earlier log's superblock, and its count of lives, are surpassed.
            number: before.map_or(0, |before| before.number),
            identity,
            capacity: ring.capacity,
            generation: before.map_or(0, |before| before.generation),
            void_after: 0,
            begin: none,
            durable: none,
        };
        Log::from_parts(media, ring, &superblock).begin_life()
    }

    /// Opens a log: finds out what is in it, makes that durable, and cuts off what is torn.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was lost then that was not before.
    pub fn open(mut media: M, identity: u64, judge: Judge) -> Result<(Log<M>, Recovery), OpenError> {
        let ring = Ring::new(media.len()).ok_or(OpenError::TooSmall(media.len()))?;
        let Some(superblock) = Superblock::read(&media)?.first().copied() else {
            return Err(Superblock::other_version(&media)?.map_or(OpenError::NoLog, OpenError::Version));
        };
        if superblock.identity != identity {
            return Err(OpenError::Foreign(superblock.identity));
        }
        if superblock.capacity != ring.capacity {
            return Err(OpenError::Resized(superblock.capacity));
        }
        let found = recovery::scan(&media, ring, &superblock, seed(identity), judge)?;
        let unproven = (found.recovery.proven - superblock.begin.lsn) as usize;
        let from = found.places.get(unproven).map_or(found.end, |place| place.position);
        affirm(&mut media, ring, &superblock, from, found.end)?;
        let mut log = Log::from_parts(media, ring, &superblock);
        log.places = found.places;
        log.holes = found.holes;
        log.end = found.end;
        log.durable = found.recovery.last;
        Ok((log.begin_life()?, found.recovery))
    }

    /// A new generation, whose number is also the life's.
    fn begin_life(mut self) -> Result<Log<M>, OpenError> {
        self.begin_generation(self.durable);
        self.sync().map_err(|broken| OpenError::Media(io::Error::new(broken.kind, broken.message)))?;
        self.incarnation = self.generation;
        Ok(self)
    }
}

/// Writes zeros over everything of the ring that is not zero.
fn erase(media: &mut impl Media, ring: Ring) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK.min(ring.capacity) as usize];
    let mut ranges = Vec::new();
    for at in (START..START + ring.capacity).step_by(chunk.len()) {
        let piece = &mut chunk[..CHUNK.min(START + ring.capacity - at).min(ring.capacity) as usize];
        media.read_at(at, piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            piece.fill(0);
            media.write_at(at, piece)?;
            ranges.push(at..at + piece.len() as u64);
        }
    }
    if ranges.is_empty() { Ok(()) } else { media.persist(&ranges) }
}

/// Writes what was found and is not proven to be durable, and the superblock that says so, once more. Reading it is no proof: it may be in a
/// page cache only, and after an error of `fsync` the system takes it for written.
fn affirm(media: &mut impl Media, ring: Ring, superblock: &Superblock, from: u64, to: u64) -> io::Result<()> {
    let bytes = superblock.emit();
    media.write_at(superblock.offset(), &bytes)?;
    let mut ranges = vec![superblock.offset()..superblock.offset() + bytes.len() as u64];
    let mut chunk = Vec::new();
    for at in (from..to).step_by(CHUNK as usize) {
        chunk.resize(CHUNK.min(to - at) as usize, 0);
        ring.read(media, at, &mut chunk)?;
        ranges.extend(ring.write(media, at, &chunk)?);
    }
    media.persist(&ranges)
}
