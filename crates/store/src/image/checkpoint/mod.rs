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
//! Order: blocks, durable; the map, durable; the header, durable. With that [`Checkpoint::redo_from`] is what the log may forget up to.
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
        let (under_way, counters) = (None, Counters::default());
        let mut made =
            Checkpoint { media, layout, header, map, under_way, is_broken: false, counters, planted: None };
        let older = layout.header(0);
        made.write(older.start, &[0; HEADER])?;
        made.persist(&[older])?;
        made.finish(Header { number: 1, ..header }, made.map.clone())?;
        made.counters = Counters::default();
        Ok(made)
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
        self.under_way.is_some()
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
        if self.under_way.is_some() || !image.is_indexed() {
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
        let Some(mut under_way) = self.under_way.take() else { return Ok(Step::Idle) };
        if image.life != under_way.life || !image.is_indexed() {
            image.dirty.add(&under_way.changed);
            return Ok(Step::Abandoned);
        }
        let runs = self.write_blocks(image, &mut under_way, max_bytes)?;
        if !runs.is_empty() {
            self.persist(&runs)?;
        }
        if under_way.at < self.layout.blocks {
            self.under_way = Some(under_way);
            return Ok(Step::More);
        }
        let is_planted = self.planted == Some(Planted::ReplayTooLittle);
        let redo_from = if is_planted { image.applied() } else { under_way.redo_from };
        let (number, extent) = (self.header.number + 1, image.extent());
        self.finish(
            Header { number, redo_from, floor: image.applied(), extent, ..self.header },
            under_way.map,
        )?;
        self.counters.done += 1;
        Ok(Step::Done)
    }

    /// Makes it the checkpoint of an empty image, for good once this returns: the image is about to be cleared and copied from a neighbour, and what
    /// is here belongs to a log that is forgotten too.
    ///
    /// # Errors
    /// The medium's, as [`Checkpoint::step`]'s.
    pub fn forget(&mut self) -> io::Result<()> {
        self.check_whole()?;
        self.under_way = None;
        let header =
            Header { number: self.header.number + 1, redo_from: 0, floor: 0, extent: 0, ..self.header };
        self.finish(header, vec![Known::default(); self.layout.blocks])
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
    fn finish(&mut self, header: Header, map: Vec<Known>) -> io::Result<()> {
        let bytes = emit_map(&map);
        let at = self.layout.map(header.number);
        self.write(at.start, &bytes)?;
        self.persist(&[at])?;
        let header = Header { map_crc: crc32c::crc32c(&bytes), ..header };
        let at = self.layout.header(header.number);
        self.write(at.start, &header.emit())?;
        self.persist(&[at])?;
        (self.header, self.map) = (header, map);
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
