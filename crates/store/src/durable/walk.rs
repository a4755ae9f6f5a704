//! A snapshot while commands go on: the store is walked in small steps, each item as it is when it is met.
//!
//! ```text
//!  begin: position ─▶ walk … ─▶ its end: position ─▶ the log is durable up to there ─▶ publish ─▶ published ─▶ the log forgets up to the beginning
//! ```
//! Pace: so many bytes for each that is logged meanwhile that the walk ends when half of the room that the log had is left.

use super::effect::Effect;
use super::journal::Journal;
#[cfg(test)]
use super::journal::Planted;
use super::records::Records;
use super::snapshot::{CHUNK, Head, Writer};
use crate::ops::list::Cursor;
use crate::store::Store;
use std::io;

/// A walk takes so many times the pace that would end it when the log is full.
const AHEAD: u64 = 2;
/// What a step has at least, bytes.
const LEAST_STEP: u64 = 256;
/// A snapshot that failed is made again after so many seconds.
const RETRY_S: u32 = 5;
/// The log has grown by this part of it since the last one.
const GROWN_PART: u64 = 8;

/// Where snapshots lie. Nothing here waits for a device.
pub trait Shelf {
    /// Begins another; one that is not published is forgotten, with its error.
    fn begin(&mut self);

    /// Adds bytes.
    fn write(&mut self, bytes: Vec<u8>);

    /// Whether it takes more now.
    ///
    /// # Errors
    /// It failed.
    fn is_ready(&mut self) -> io::Result<bool>;

    /// All was written: makes it durable, and then the newest.
    fn publish(&mut self);

    /// Whether it is.
    ///
    /// # Errors
    /// It failed, and the one before is the newest.
    fn is_published(&mut self) -> io::Result<bool>;
}

impl<S: Shelf + ?Sized> Shelf for Box<S> {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn write(&mut self, bytes: Vec<u8>) {
        (**self).write(bytes);
    }

    fn is_ready(&mut self) -> io::Result<bool> {
        (**self).is_ready()
    }

    fn publish(&mut self) {
        (**self).publish();
    }

    fn is_published(&mut self) -> io::Result<bool> {
        (**self).is_published()
    }
}

/// One under way.
#[derive(Debug)]
pub(super) struct Walk {
    /// Effects up to here are in it.
    from: u64,
    /// `None`: the end was met.
    cursor: Option<Cursor>,
    /// `None`: all is written.
    writer: Option<Writer>,
    items: u64,
    /// Where the log was when the walk ended.
    end: u64,
    is_publishing: bool,
    walked: u64,
    /// At the beginning: bytes of items, room in the log, bytes logged.
    size: u64,
    room: u64,
    logged: u64,
}

impl<L: Records, S: Shelf> Journal<L, S> {
    /// Begins a snapshot if the log is `percent` full, or goes on with one: `step` bytes, or as many as the log's growth wants. Whether there is more to do
    /// now.
    /// What went wrong, if anything did: it begins anew later.
    ///
    /// # Errors
    /// That of the shelf.
    pub fn walk(&mut self, store: &Store, now: u32, percent: u64, step: u64) -> io::Result<bool> {
        if self.walk.is_none() {
            let used = 100 - self.log.room() * 100 / self.log.capacity();
            let grown = self.found_bytes + self.log.counters().payload_bytes - self.walked_at
                >= self.log.capacity() / GROWN_PART;
            let is_full = !self.has_room(store.config().max_value);
            if used < percent || !(grown || is_full) || now < self.retry_at || self.log.broken().is_some() {
                return Ok(false);
            }
            self.begin_snapshot(store);
        }
        let result = self.step(store, now, step);
        if result.is_err() {
            self.walk = None;
            self.failed += 1;
            self.retry_at = now.saturating_add(RETRY_S);
        }
        result
    }

    /// Begins a snapshot, whatever the log has.
    pub fn begin_snapshot(&mut self, store: &Store) {
        let from = self.log.last();
        let head =
            Head { identity: self.identity, from, version: store.last_version(), flush_at: self.flush_at };
        (self.walked_at, self.found_bytes) = (self.log.counters().payload_bytes, 0);
        self.shelf.begin();
        self.walk = Some(Walk {
            from,
            cursor: Some(Cursor::default()),
            writer: Some(Writer::new(&head)),
            items: 0,
            end: 0,
            is_publishing: false,
            walked: 0,
            size: store.stats().item_bytes,
            room: self.log.room().max(1),
            logged: self.walked_at,
        });
    }

    /// Whether a snapshot is under way.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    fn step(&mut self, store: &Store, now: u32, step: u64) -> io::Result<bool> {
        let Some(walk) = &mut self.walk else { return Ok(false) };
        let logged = self.log.counters().payload_bytes - walk.logged;
        let due = (u128::from(AHEAD * logged) * u128::from(walk.size) / u128::from(walk.room)) as u64;
        let until = walk.walked + due.saturating_sub(walk.walked).max(step).max(LEAST_STEP);
        while let (Some(cursor), Some(writer)) = (walk.cursor, &mut walk.writer) {
            if walk.walked >= until || !self.shelf.is_ready()? {
                return Ok(walk.walked >= until);
            }
            let add = |item: &crate::ops::peek::Peek<'_>| {
                walk.walked += item.footprint as u64;
                writer.add(&Effect::put(item));
            };
            #[cfg(not(test))]
            let next = store.list(now, cursor, add);
            #[cfg(test)]
            let next = match self.planted {
                Some(Planted::WalksBucketsByNumber) => store.list_by_number(now, cursor, add),
                _ => store.list(now, cursor, add),
            };
            walk.cursor = next;
            // An empty bucket is some work, too.
            walk.walked += 64;
            if writer.is_full() {
                self.shelf.write(writer.take());
            }
        }
        if let Some(writer) = walk.writer.take() {
            let (bytes, items) = writer.finish();
            bytes.chunks(CHUNK).for_each(|piece| self.shelf.write(piece.to_vec()));
            (walk.items, walk.end) = (items, self.log.last());
        }
        self.publish(now)
    }

    fn publish(&mut self, now: u32) -> io::Result<bool> {
        let Some(walk) = &mut self.walk else { return Ok(false) };
        #[cfg(test)]
        let is_early = self.planted == Some(Planted::PublishesBeforeDurable);
        #[cfg(not(test))]
        let is_early = false;
        if !walk.is_publishing && (walk.end <= self.log.durable() || is_early) {
            walk.is_publishing = true;
            self.shelf.publish();
            #[cfg(test)]
            if self.planted == Some(Planted::ForgetsBeforeSnapshot) {
                self.log.release(walk.from + 1);
            }
        }
        if walk.is_publishing && self.shelf.is_published()? {
            self.log.release(walk.from + 1);
            self.snapshots += 1;
            self.snapshot_items = walk.items;
            self.retry_at = now;
            self.walk = None;
        }
        Ok(false)
    }
}
