//! The log itself: appending, syncing, reading. `open` makes and recovers it, `trim` forgets either end of it, `damage` repairs it.
//!
//! ```text
//!   begin ─────────────────────── durable ───────── written ───────────── last
//!     │ on the medium, persisted     │ on the medium   │ in `buffer`         │
//! ```
//! Records between durable and written are *under way*: [`Log::begin_sync`] wrote them and [`Log::end_sync`] will have made them durable. More can
//! be appended meanwhile; one [`Log::sync`], a write (two where the ring ends) and a persist, serves all that were appended: group commit.

use super::damage::Hole;
use super::error::{Broken, Doing, Refused};
use super::media::{Class, Media};
use super::record::{HEADER, Header, size};
use super::ring::Ring;
use super::superblock::{Mark, Superblock};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) position: u64,
    pub(super) epoch: u64,
    pub(super) len: u32,
    /// It is in one of the holes; position and length are the hole's business then.
    pub(super) is_damaged: bool,
}

/// What [`Log::begin_sync`] wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UnderWay {
    last: u64,
    ranges: Vec<Range<u64>>,
    /// A superblock was written too: its place, and the begin that it says.
    freed: Option<(usize, u64)>,
    /// What that says to be durable.
    marked: Option<u64>,
    /// It is nothing else, and begins this generation.
    generation: Option<u32>,
}

/// A generation that begins: after a cut or a restart. Before both superblocks say so nothing else is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Beginning {
    /// Superblocks that do not say it yet.
    pub(super) due: u8,
    /// Where the log begins then, at least.
    pub(super) begin: u64,
}

/// What was done since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// Records appended.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Bytes written to the medium, superblocks included.
    pub written_bytes: u64,
    /// Times that the medium was asked to persist.
    pub persists: u64,
}

/// A record's content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// As it was appended with.
    pub epoch: u64,
    /// As it was appended with.
    pub payload: Vec<u8>,
}

/// A redo log over a medium. See [`super`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log<M> {
    pub(super) media: M,
    pub(super) ring: Ring,
    pub(super) identity: u64,
    pub(super) incarnation: u32,
    pub(super) generation: u32,
    /// Records behind this one of earlier generations are void.
    pub(super) void_after: u64,
    /// Of the superblock that was written last.
    pub(super) number: u64,
    /// Where the log begins according to each superblock on the medium: room before both is free.
    pub(super) freed: [u64; 2],
    /// LSN and epoch of what is before the first record.
    pub(super) before: (u64, u64),
    pub(super) places: VecDeque<Place>,
    /// The position behind the last record.
    pub(super) end: u64,
    /// Records that are not written, up to `end`. Their headers are made when they are.
    pub(super) buffer: Vec<u8>,
    pub(super) durable: u64,
    under_way: Option<UnderWay>,
    pub(super) beginning: Option<Beginning>,
    /// A superblock says on the medium that everything up to here was durable.
    marked: u64,
    /// The next write has a superblock with it.
    marks: bool,
    pub(super) holes: Vec<Hole>,
    broken: Option<Broken>,
    counters: Counters,
}

/// The first value of the checksums in the log with this identity.
pub(super) fn seed(identity: u64) -> u32 {
    base::prng::mix64(identity) as u32
}

impl<M: Media> Log<M> {
    /// An empty one as this superblock describes it; what is on the medium is the caller's business.
    pub(super) fn from_parts(media: M, ring: Ring, superblock: &Superblock) -> Log<M> {
        let begin = superblock.begin;
        Log {
            media,
            ring,
            identity: superblock.identity,
            incarnation: superblock.generation,
            generation: superblock.generation,
            void_after: superblock.void_after,
            number: superblock.number,
            freed: [begin.end; 2],
            before: (begin.lsn, begin.epoch),
            places: VecDeque::new(),
            end: begin.end,
            buffer: Vec::new(),
            durable: begin.lsn,
            under_way: None,
            beginning: None,
            marked: begin.lsn,
            marks: false,
            holes: Vec::new(),
            broken: None,
            counters: Counters::default(),
        }
    }

    /// Appends a record, the next after [`Log::last`]; the payload is these parts end to end. It is durable once [`Log::durable`] says so.
    ///
    /// # Errors
    /// [`Refused::Full`], then nothing was appended; [`Refused::Broken`].
    ///
    /// # Panics
    /// If `lsn` is not the next.
    pub fn append(&mut self, lsn: u64, epoch: u64, payload: &[&[u8]]) -> Result<(), Refused> {
        assert_eq!(lsn, self.last() + 1, "records are appended without gaps");
        self.usable().map_err(Refused::Broken)?;
        let len: usize = payload.iter().map(|part| part.len()).sum();
        let bytes = size(len);
        if bytes > self.room() || u32::try_from(len).is_err() {
            return Err(Refused::Full);
        }
        let header = self.buffer.len();
        self.buffer.resize(header + HEADER, 0);
        let mut crc = seed(self.identity);
        for part in payload {
            self.buffer.extend_from_slice(part);
            crc = crc32c::crc32c_append(crc, part);
        }
        // Kept where the header will have it.
        self.buffer[header + HEADER - 4..header + HEADER].copy_from_slice(&crc.to_le_bytes());
        self.buffer.resize(header + bytes as usize, 0);
        self.places.push_back(Place { position: self.end, epoch, len: len as u32, is_damaged: false });
        self.end += bytes;
        self.counters.records += 1;
        self.counters.payload_bytes += len as u64;
        Ok(())
    }

    /// Makes everything that was appended durable, and says up to where that is.
    ///
    /// # Errors
    /// [`Broken`], for good.
    pub fn sync(&mut self) -> Result<u64, Broken> {
        // What is under way may have been begun before the last append.
        self.end_sync()?;
        while self.beginning.is_some() {
            self.begin_sync()?;
            self.end_sync()?;
        }
        self.begin_sync()?;
        self.end_sync()
    }

    /// Whether [`Log::sync`] has anything to do.
    pub fn needs_sync(&self) -> bool {
        self.under_way.is_some()
            || self.beginning.is_some()
            || self.marks
            || !self.buffer.is_empty()
            || self.superblock_lags()
    }

    /// Writes what was appended, and begins to make it durable: [`Log::end_sync`] waits for that. Says whether anything is under way; does
    /// nothing more if something was already.
    ///
    /// # Errors
    /// [`Broken`], for good.
    pub fn begin_sync(&mut self) -> Result<bool, Broken> {
        self.usable()?;
        if self.under_way.is_some() || !self.needs_sync() {
            return Ok(self.under_way.is_some());
        }
        let mut ranges = Vec::new();
        let generation = self.beginning.map(|_| self.generation);
        if !self.buffer.is_empty() && generation.is_none() {
            self.finish_headers();
            let (at, buffer) = (self.buffer_at(), std::mem::take(&mut self.buffer));
            ranges.extend(self.write(at, &buffer)?.into_iter().filter(|range| !range.is_empty()));
            self.buffer = buffer;
            self.buffer.clear();
        }
        let mut freed = None;
        let mut marked = None;
        if self.superblock_lags() || generation.is_some() || self.marks {
            marked = Some(self.durable);
            self.marks = false;
            let (place, begin, range) = self.write_superblock()?;
            freed = Some((place, begin));
            ranges.push(range);
        }
        let started = self.media.start(&ranges);
        self.check(Doing::Persisting, started)?;
        let last = if generation.is_some() { self.durable } else { self.last() };
        self.under_way = Some(UnderWay { last, ranges, freed, generation, marked });
        Ok(true)
    }

    /// Whether [`Log::begin_sync`] began something that [`Log::end_sync`] has not ended.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether [`Log::end_sync`] would not wait.
    pub fn sync_is_done(&mut self) -> bool {
        self.under_way.is_none() || self.media.is_done()
    }

    /// Waits until what is under way is durable, and says up to where everything is.
    ///
    /// # Errors
    /// [`Broken`], for good.
    pub fn end_sync(&mut self) -> Result<u64, Broken> {
        self.usable()?;
        if let Some(under_way) = self.under_way.take() {
            self.persist(Doing::Persisting, &under_way.ranges)?;
            self.durable = under_way.last;
            if let Some((place, begin)) = under_way.freed {
                self.freed[place] = begin;
            }
            self.marked = under_way.marked.unwrap_or(self.marked);
            if under_way.generation == Some(self.generation) {
                self.beginning = self
                    .beginning
                    .filter(|beginning| beginning.due > 1)
                    .map(|beginning| Beginning { due: beginning.due - 1, ..beginning });
            }
        }
        Ok(self.durable)
    }

    /// Has the next write say in a superblock up to where the log is durable now, if none says so yet: a promise that does not lie where the records
    /// do. Records that are lost up to there, all to the end, are damage then, and not the end of the log.
    pub fn mark(&mut self) {
        self.marks |= self.marked != self.durable;
    }

    /// Up to here the end of the log cannot be lost without being missed.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Whether a cut or restart is durable: if not, opening the log may find it as it was before.
    pub fn is_settled(&self) -> bool {
        self.beginning.is_none()
    }

    /// The last record that was written, whether or not it is durable yet.
    pub(super) fn written(&self) -> u64 {
        self.under_way.as_ref().map_or(self.durable, |under_way| under_way.last.max(self.durable))
    }

    /// What is under way makes nothing beyond this durable.
    pub(super) fn limit_under_way(&mut self, lsn: u64) {
        if let Some(under_way) = &mut self.under_way {
            under_way.last = lsn;
        }
    }

    /// A record from the first to the last. `None` where it is damaged, or cannot be read any more.
    pub fn read(&self, lsn: u64) -> Option<Record> {
        let place = *self.place(lsn)?;
        if place.is_damaged {
            let copies = self.holes.iter().find_map(|hole| hole.copies.get(&lsn));
            return copies.map(|(epoch, payload)| Record { epoch: *epoch, payload: payload.clone() });
        }
        let len = place.len as usize;
        if place.position >= self.buffer_at() {
            let from = (place.position - self.buffer_at()) as usize + HEADER;
            return Some(Record { epoch: place.epoch, payload: self.buffer[from..from + len].to_vec() });
        }
        let mut bytes = vec![0; HEADER + len];
        self.ring.read(&self.media, place.position, &mut bytes).ok()?;
        let header = Header::parse(&bytes, seed(self.identity), place.position)?;
        let payload = bytes.split_off(HEADER);
        (header.lsn == lsn && header.is_payload(&payload, seed(self.identity)))
            .then_some(Record { epoch: header.epoch, payload })
    }

    /// The number of the last record; of what is before the first, if there is none.
    pub fn last(&self) -> u64 {
        self.before.0 + self.places.len() as u64
    }

    /// The epoch of the last record, or of what is before the first.
    pub fn last_epoch(&self) -> u64 {
        self.places.back().map_or(self.before.1, |place| place.epoch)
    }

    /// The epoch of a record, or of what is before the first. Of one that is damaged it may be that of the record before it.
    pub fn epoch(&self, lsn: u64) -> Option<u64> {
        if lsn == self.before.0 { Some(self.before.1) } else { self.place(lsn).map(|place| place.epoch) }
    }

    /// The number of the first record that is here; one more than the last if there is none.
    pub fn first(&self) -> u64 {
        self.before.0 + 1
    }

    /// Everything up to here survives what the medium does.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Counts lives of this log: each opening has a higher number than all before.
    pub fn incarnation(&self) -> u64 {
        u64::from(self.incarnation)
    }

    /// Bytes that records can still take, their headers included.
    pub fn room(&self) -> u64 {
        // What is appended while a generation begins is written when both superblocks say where the log begins in it.
        let freed = self.freed[0].min(self.freed[1]);
        self.ring.capacity - (self.end - self.beginning.map_or(freed, |beginning| beginning.begin))
    }

    /// Bytes that records can take altogether.
    pub fn capacity(&self) -> u64 {
        self.ring.capacity
    }

    /// What records survive.
    pub fn class(&self) -> Class {
        self.media.class()
    }

    /// What went wrong, if anything did.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// What was done since it was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The medium.
    pub fn media(&self) -> &M {
        &self.media
    }

    /// The medium, to make it fail.
    pub fn media_mut(&mut self) -> &mut M {
        &mut self.media
    }

    /// The medium, without a word to it: whatever is not durable is not.
    pub fn into_media(self) -> M {
        self.media
    }

    pub(super) fn place(&self, lsn: u64) -> Option<&Place> {
        self.places.get(usize::try_from(lsn.checked_sub(self.first())?).ok()?)
    }

    /// The position behind record `lsn`, where the one after it begins or will.
    pub(super) fn position_after(&self, lsn: u64) -> u64 {
        match self.place(lsn + 1) {
            None => self.end,
            Some(next) => {
                let both = self.holes.iter().find(|hole| hole.first <= lsn && lsn < hole.last);
                both.map_or(next.position, |hole| hole.end)
            }
        }
    }

    /// The position of the first byte in `buffer`.
    pub(super) fn buffer_at(&self) -> u64 {
        self.end - self.buffer.len() as u64
    }

    /// What the next superblock says.
    pub(super) fn superblock(&self) -> Superblock {
        let durable = self.durable;
        Superblock {
            number: self.number + 1,
            identity: self.identity,
            capacity: self.ring.capacity,
            generation: self.generation,
            void_after: self.void_after,
            begin: Mark { lsn: self.before.0, epoch: self.before.1, end: self.position_after(self.before.0) },
            durable: Mark {
                lsn: durable,
                epoch: self.epoch(durable).expect("what is durable is not released further than to itself"),
                end: self.position_after(durable),
            },
        }
    }

    /// Whether a superblock says that the log begins earlier than it does.
    fn superblock_lags(&self) -> bool {
        let begin = self.position_after(self.before.0);
        self.freed.iter().any(|freed| *freed != begin)
    }

    /// Writes the next one: in which place, where it says that the log begins, where it is on the medium.
    pub(super) fn write_superblock(&mut self) -> Result<(usize, u64, Range<u64>), Broken> {
        let superblock = self.superblock();
        let bytes = superblock.emit();
        let written = if superblock.makes_sense() {
            self.media.write_at(superblock.offset(), &bytes)
        } else {
            // Nobody opens a log so often, or writes so much; but a superblock can say so, and the next would be none.
            Err(io::Error::other("it has counted to its end, make a new one"))
        };
        self.check(Doing::Marking, written)?;
        self.number = superblock.number;
        self.counters.written_bytes += bytes.len() as u64;
        let range = superblock.offset()..superblock.offset() + bytes.len() as u64;
        Ok((superblock.place(), superblock.begin.end, range))
    }

    /// Writes records where they belong.
    pub(super) fn write(&mut self, position: u64, bytes: &[u8]) -> Result<[Range<u64>; 2], Broken> {
        let written = self.ring.write(&mut self.media, position, bytes);
        self.counters.written_bytes += bytes.len() as u64;
        self.check(Doing::Writing, written)
    }

    pub(super) fn persist(&mut self, doing: Doing, ranges: &[Range<u64>]) -> Result<(), Broken> {
        self.counters.persists += 1;
        let persisted = self.media.persist(ranges);
        self.check(doing, persisted)
    }

    /// Makes the headers of the records in `buffer`. They say what is durable, which is known best now.
    fn finish_headers(&mut self) {
        let (at, seed) = (self.buffer_at(), seed(self.identity));
        let behind = self.places.iter().rev().take_while(|place| place.position >= at).count();
        let first = self.last() + 1 - behind as u64;
        for (place, lsn) in self.places.range(self.places.len() - behind..).zip(first..) {
            let bytes = &mut self.buffer[(place.position - at) as usize..];
            let header = Header {
                lsn,
                epoch: place.epoch,
                position: place.position,
                generation: self.generation,
                behind: u32::try_from(lsn - self.durable).unwrap_or(u32::MAX),
                len: place.len,
                payload_crc: super::record::word_at(bytes, HEADER - 4),
            };
            header.emit(seed, bytes);
        }
    }

    /// # Errors
    /// If it is broken.
    pub(super) fn usable(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Breaks the log, if that was an error.
    fn check<T>(&mut self, doing: Doing, result: io::Result<T>) -> Result<T, Broken> {
        result.map_err(|error| self.broken.insert(Broken::new(doing, &error)).clone())
    }
}
