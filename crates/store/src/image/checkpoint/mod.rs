//! An image on a medium, so that a log need not be replayed from its beginning, and may forget it.
//!
//! Shadow copies: each block has two places, and a checkpoint writes what changed over the one that the checkpoint before does not use, then a map
//! of which copies count, then its header. So a block that is torn by a crash belongs to a checkpoint that never was, and one that
//! does not have the checksum in the map is damage. (A page written in place and torn could not be rebuilt: tuples are parts of pages.
//! Writing everything twice would be as safe, for twice the bytes.)
//!
//! A checkpoint is *fuzzy*: [`Checkpoint::step`] writes some blocks and returns, entries are applied between two steps, and a block has those that
//! were applied before it was written. Replaying every entry after `redo_from`, which was applied when it began, over all of them makes it the
//! state of the last entry replayed, since entries say bytes. `floor` is the last one that was applied when it ended: a log that is replayed must reach it.
//!
//! Order: blocks, durable; the map, durable; the header, durable. Where the medium persists without being waited for
//! ([`Media::start`]) a step ends instead of waiting, and the next one looks whether it is done.
//! With that [`Checkpoint::redo_from`] is what the log may forget up to.
//!
//! Invariants: (1) what the newest header on the medium says is never written over; (2) a checkpoint during which the image was made empty or began to be
//! only bytes is abandoned; (3) after an error of the medium nothing is written any more: what is durable is not known. Opening it anew
//! finds a whole checkpoint.
//!
//! Who opens one must see that the log goes on where it ends: the first entry in the log is at most `redo_from + 1`. Else it is of no use: the image
//! was being copied from a neighbour, or the newest header is damaged and this is the checkpoint before.
//!
//! Bounds: the medium has twice the image's bytes and 16 for each block ([`Checkpoint::medium_bytes`]); 16 bytes of memory for each block.
//! Sources: `docs/design/006-chain.md`; Gray et al., "The recovery manager of the System R database manager" (1981), for shadow pages.
//! Cost: `docs/measurements/image.md`. Tests: a power cut at every operation of the medium.

mod format;
mod open;
#[cfg(test)]
mod tests;

pub use open::{OpenError, Opened};

use super::{BLOCK, Bits, Config, Image};
use crate::redo::media::Media;
use format::{HEADER, Header, Known, Layout, emit_map};
use std::io;
use std::ops::Range;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// The medium is at work: there is more to do when it is done.
    Waiting,
    /// The checkpoint is durable.
    Done,
    /// There is none: the image was cleared or loaded meanwhile.
    Abandoned,
    /// None was begun.
    Idle,
}

/// A mistake that can be made on purpose, to see that tests and simulations find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// `redo_from` is what was applied when the checkpoint ended, instead of when it began.
    ReplayTooLittle,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Checkpoints that became durable.
    pub done: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes written, maps and headers included.
    pub bytes: u64,
    /// Times that the medium was asked to make something durable.
    pub persists: u64,
}

/// The checkpoints of an image, on a medium.
#[derive(Debug)]
pub struct Checkpoint<M> {
    media: M,
    layout: Layout,
    /// Of the newest durable one.
    header: Header,
    map: Vec<Known>,
    under_way: Option<UnderWay>,
    persisting: Option<Persisting>,
    forgetting: Forgetting,
    is_broken: bool,
    counters: Counters,
    /// What is wrong on purpose. None in production.
    pub planted: Option<Planted>,
}

#[derive(Debug)]
struct UnderWay {
    redo_from: u64,
    life: u64,
    /// Blocks that had changed when it began.
    changed: Bits,
    /// Those below this one are written.
    at: usize,
    map: Vec<Known>,
}

/// What the medium was asked to make durable.
#[derive(Debug)]
struct Persisting {
    ranges: Vec<Range<u64>>,
    then: Then,
}

/// What comes when it is.
#[derive(Debug)]
enum Then {
    /// More blocks, or the map.
    GoOn,
    /// The header, of this map.
    Header(Header, Vec<Known>),
    /// These are the newest.
    Done(Header, Vec<Known>),
}

/// Whether it becomes that of an empty image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forgetting {
    No,
    /// When what is being made durable is.
    Due,
    UnderWay,
}

impl<M: Media> Checkpoint<M> {
    /// Bytes of the medium that an image needs.
    pub fn medium_bytes(config: &Config) -> u64 {
        Layout::of(config).len()
    }

    /// Makes a medium the checkpoint of an empty image, whatever is on it.
    ///
    /// # Errors
    /// The medium's; [`io::ErrorKind::InvalidInput`] if it is too small.
    pub fn create(media: M, config: &Config) -> io::Result<Checkpoint<M>> {
        let layout = Layout::of(config);
        if media.len() < layout.len() {
            let why = format!(
                "{} bytes are too few for the checkpoints of this image; it needs {}",
                media.len(),
                layout.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let map = vec![Known::default(); layout.blocks];
        let (bytes, page) = (config.bytes, config.page as u32);
        let header = Header { number: 0, bytes, page, map_crc: 0, redo_from: 0, floor: 0, extent: 0 };
        let mut made = Checkpoint::with(media, layout, header, map);
        let older = layout.header(0);
        made.write(older.start, &[0; HEADER])?;
        made.persist(&[older])?;
        made.finish(Header { number: 1, ..header }, made.map.clone())?;
        made.settle(true)?;
        made.counters = Counters::default();
        Ok(made)
    }

    /// As it was found or made.
    fn with(media: M, layout: Layout, header: Header, map: Vec<Known>) -> Checkpoint<M> {
        Checkpoint {
            media,
            layout,
            header,
            map,
            under_way: None,
            persisting: None,
            forgetting: Forgetting::No,
            is_broken: false,
            counters: Counters::default(),
            planted: None,
        }
    }

    /// Entries up to here are in the newest checkpoint: the log may forget them.
    pub fn redo_from(&self) -> u64 {
        self.header.redo_from
    }

    /// Nothing up to here may be cut off the log: it was applied, so it is committed.
    pub fn floor(&self) -> u64 {
        self.header.floor
    }

    /// Whether one was begun and is not done.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some() || self.persisting.is_some()
    }

    /// Whether [`Checkpoint::forget`] is not durable yet; [`Checkpoint::step`] goes on with it.
    pub fn is_forgetting(&self) -> bool {
        self.forgetting != Forgetting::No
    }

    /// Whether a step would do something, and not find the medium at work.
    pub fn is_ready(&mut self) -> bool {
        self.is_under_way() && (self.persisting.is_none() || self.media.is_done())
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The medium.
    pub fn media(&self) -> &M {
        &self.media
    }

    /// The medium, to do with it what one likes.
    pub fn media_mut(&mut self) -> &mut M {
        &mut self.media
    }

    /// The medium, for whoever opens it anew.
    pub fn into_media(self) -> M {
        self.media
    }

    /// Begins one, of all that changed since the last. False if one is under way, or the image is only bytes.
    pub fn begin(&mut self, image: &mut Image) -> bool {
        if self.is_under_way() || self.is_forgetting() || !image.is_indexed() {
            return false;
        }
        let changed = std::mem::replace(&mut image.dirty, Bits::new(self.layout.blocks));
        let (redo_from, life) = (image.applied(), image.life);
        self.under_way = Some(UnderWay { redo_from, life, changed, at: 0, map: self.map.clone() });
        true
    }

    /// Goes on with it: writes blocks of about `max_bytes` and makes them durable, or, when all are, the map and header.
    ///
    /// # Errors
    /// The medium's; then and from then on. What was the newest checkpoint still is.
    pub fn step(&mut self, image: &mut Image, max_bytes: usize) -> io::Result<Step> {
        self.check_whole()?;
        if let Some(step) = self.settle(false)? {
            return Ok(step);
        }
        let Some(mut under_way) = self.under_way.take() else { return Ok(Step::Idle) };
        if image.life != under_way.life || !image.is_indexed() {
            image.dirty.add(&under_way.changed);
            return Ok(Step::Abandoned);
        }
        let runs = self.write_blocks(image, &mut under_way, max_bytes)?;
        let waits = if runs.is_empty() { None } else { self.persist_then(runs, Then::GoOn)? };
        if under_way.at < self.layout.blocks || waits.is_some() {
            self.under_way = Some(under_way);
            return Ok(waits.unwrap_or(Step::More));
        }
        let is_planted = self.planted == Some(Planted::ReplayTooLittle);
        let redo_from = if is_planted { image.applied() } else { under_way.redo_from };
        let (number, extent) = (self.header.number + 1, image.extent());
        let header = Header { number, redo_from, floor: image.applied(), extent, ..self.header };
        let step = self.finish(header, under_way.map)?;
        Ok(step.unwrap_or(Step::Done))
    }

    /// Makes it the checkpoint of an empty image: the image is about to be cleared and copied from a neighbour, and what is here belongs to a log that
    /// is forgotten too. For good once [`Checkpoint::is_forgetting`] says no.
    ///
    /// # Errors
    /// The medium's, as [`Checkpoint::step`]'s.
    pub fn forget(&mut self) -> io::Result<()> {
        self.check_whole()?;
        self.under_way = None;
        self.forgetting = Forgetting::Due;
        self.settle(false).map(drop)
    }

    /// Goes on with what is being made durable as far as that is possible; `None` if nothing is any more.
    fn settle(&mut self, waits: bool) -> io::Result<Option<Step>> {
        loop {
            let Some(Persisting { ranges, then }) = self.persisting.take() else {
                if self.forgetting != Forgetting::Due {
                    return Ok(None);
                }
                self.forgetting = Forgetting::UnderWay;
                let number = self.header.number + 1;
                let header = Header { number, redo_from: 0, floor: 0, extent: 0, ..self.header };
                self.write_map(header, vec![Known::default(); self.layout.blocks])?;
                continue;
            };
            if !waits && !self.media.is_done() {
                self.persisting = Some(Persisting { ranges, then });
                return Ok(Some(Step::Waiting));
            }
            self.persist(&ranges)?;
            match then {
                Then::GoOn => {}
                // Without a header it never was.
                Then::Header(..) if self.forgetting == Forgetting::Due => {}
                Then::Header(header, map) => {
                    let at = self.layout.header(header.number);
                    self.write(at.start, &header.emit())?;
                    self.start(vec![at], Then::Done(header, map))?;
                }
                Then::Done(header, map) => {
                    (self.header, self.map) = (header, map);
                    match self.forgetting {
                        Forgetting::UnderWay => self.forgetting = Forgetting::No,
                        Forgetting::Due => {}
                        Forgetting::No => {
                            self.counters.done += 1;
                            return Ok(Some(Step::Done));
                        }
                    }
                }
            }
        }
    }

    fn check_whole(&self) -> io::Result<()> {
        let why = "the checkpoint's medium failed before: start again, which finds the last whole one";
        if self.is_broken { Err(io::Error::other(why)) } else { Ok(()) }
    }

    /// Writes blocks, neighbours together, to where the newest checkpoint has nothing, and says where.
    fn write_blocks(
        &mut self,
        image: &Image,
        under_way: &mut UnderWay,
        max_bytes: usize,
    ) -> io::Result<Vec<Range<u64>>> {
        let mut runs: Vec<(u32, Range<usize>)> = Vec::new();
        let mut left = (max_bytes / BLOCK).max(1);
        while let Some(block) = under_way.changed.next(under_way.at).filter(|_| left > 0) {
            under_way.at = block + 1;
            let bytes = image.block(block);
            if super::scan::is_zero(bytes) {
                under_way.map[block] = Known::default();
                continue;
            }
            let copy = self.map[block].other_copy();
            under_way.map[block] = Known { copy, crc: crc32c::crc32c(bytes) };
            match runs.last_mut() {
                Some((same, run)) if *same == copy && run.end == block => run.end += 1,
                _ => runs.push((copy, block..block + 1)),
            }
            left -= 1;
        }
        if under_way.changed.next(under_way.at).is_none() {
            under_way.at = self.layout.blocks;
        }
        let mut written = Vec::with_capacity(runs.len());
        for (copy, run) in runs {
            let at = self.layout.blocks(copy, run.clone());
            self.write(at.start, image.blocks(run.clone()))?;
            self.counters.blocks += run.len() as u64;
            written.push(at);
        }
        Ok(written)
    }

    /// Writes a map and header, each durable before the next.
    fn finish(&mut self, header: Header, map: Vec<Known>) -> io::Result<Option<Step>> {
        self.write_map(header, map)?;
        self.settle(false)
    }

    fn write_map(&mut self, header: Header, map: Vec<Known>) -> io::Result<()> {
        let bytes = emit_map(&map);
        let at = self.layout.map(header.number);
        self.write(at.start, &bytes)?;
        let header = Header { map_crc: crc32c::crc32c(&bytes), ..header };
        self.start(vec![at], Then::Header(header, map))
    }

    fn persist_then(&mut self, ranges: Vec<Range<u64>>, then: Then) -> io::Result<Option<Step>> {
        self.start(ranges, then)?;
        self.settle(false)
    }

    fn start(&mut self, ranges: Vec<Range<u64>>, then: Then) -> io::Result<()> {
        let started = self.media.start(&ranges);
        self.note(started, "making a checkpoint durable")?;
        self.persisting = Some(Persisting { ranges, then });
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.counters.bytes += bytes.len() as u64;
        let written = self.media.write_at(at, bytes);
        self.note(written, "writing a checkpoint")
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.counters.persists += 1;
        let persisted = self.media.persist(ranges);
        self.note(persisted, "making a checkpoint durable")
    }

    /// An error ends it.
    fn note(&mut self, outcome: io::Result<()>, what: &str) -> io::Result<()> {
        outcome.map_err(|e| {
            self.is_broken = true;
            io::Error::new(e.kind(), format!("{what} failed: {e}; the last whole one still counts"))
        })
    }
}
