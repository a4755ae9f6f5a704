//! The machine's image over `store::image`, with its checkpoints.
//!
//! Only bytes: a checkpoint's pages may be newer than the entries from which replaying begins. So after opening one the image takes entries
//! as bytes up to the checkpoint's floor, where it is the state of one moment again, and is indexed ([`DiskImage::raw_until`]). If an entry
//! before that is damaged, the machine is what goes on with it, when it has a neighbour's copy.

use super::super::error::ChainError;
use super::AnyMedia;
use protocol::chain::image::{BadTuple, Item, NoRoom};
use protocol::chain::{Image, Key, Lsn, Space, Tuple};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use store::image::checkpoint::{Checkpoint, Step};
use store::image::{self, Write};
use store::redo::Media;

/// Checksums that are asked for as of transactions that are still to come, and those that are there and were not taken.
const MOST_DIGESTS: usize = 16;

/// An image in memory, and the checkpoint that it comes back from; none where nothing shall survive.
#[derive(Debug)]
pub struct DiskImage<M = AnyMedia> {
    image: image::Image,
    checkpoint: Option<Checkpoint<M>>,
    path: PathBuf,
    /// Bytes that are no state yet: see the file's head.
    raw_until: Option<Lsn>,
    wanted: BTreeSet<Lsn>,
    digests: BTreeMap<Lsn, u64>,
    broken: Option<String>,
}

/// How a step of a checkpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// The medium is at work, and wakes the loop when it is done.
    Waiting,
    /// Everything up to here is in it, for good: the log may forget it.
    Done(Lsn),
    /// There will be none: the image became another one meanwhile.
    Abandoned,
}

/// Tuples as the store takes them.
fn pairs(tuples: &[Tuple]) -> impl Iterator<Item = (u64, &[u8])> + Clone {
    tuples.iter().map(|tuple| (tuple.offset, &tuple.data[..]))
}

fn space(space: Space) -> image::Space {
    image::Space(space.code())
}

fn bad(error: image::BadTuple) -> BadTuple {
    BadTuple { offset: error.offset }
}

impl<M: Media> DiskImage<M> {
    /// An image as it was opened. If it is only bytes, it is the state of one moment again when entry `raw_until` is applied.
    pub fn new(
        image: image::Image,
        checkpoint: Option<Checkpoint<M>>,
        path: PathBuf,
        raw_until: Option<Lsn>,
    ) -> DiskImage<M> {
        DiskImage {
            image,
            checkpoint,
            path,
            raw_until,
            wanted: BTreeSet::new(),
            digests: BTreeMap::new(),
            broken: None,
        }
    }

    /// What its checkpoints are on, if there are any.
    pub fn media(&self) -> Option<&M> {
        self.checkpoint.as_ref().map(Checkpoint::media)
    }

    /// What its checkpoints are on, to make it fail.
    pub fn media_mut(&mut self) -> Option<&mut M> {
        self.checkpoint.as_mut().map(Checkpoint::media_mut)
    }

    /// Whether it is the state of one moment.
    pub fn is_indexed(&self) -> bool {
        self.image.is_indexed()
    }

    /// Bytes that it may have.
    pub fn capacity(&self) -> u64 {
        self.image.config().bytes
    }

    /// Whether it can be gone on with.
    ///
    /// # Errors
    /// The checkpoint's medium failed.
    pub fn check(&self) -> Result<(), ChainError> {
        let stopped =
            |how: &String| ChainError::Stopped("image's checkpoint", self.path.clone(), how.clone());
        self.broken.as_ref().map_or(Ok(()), |how| Err(stopped(how)))
    }

    /// Whether a checkpoint is being written.
    pub fn is_checkpointing(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(Checkpoint::is_under_way)
    }

    /// Whether what the checkpoint had is not forgotten for good yet: no entry that was appended since may be durable before
    /// ([`DiskImage::step_checkpoint`] goes on with it).
    pub fn is_forgetting(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(Checkpoint::is_forgetting)
    }

    /// Whether a step would find something to do.
    pub fn is_ready(&mut self) -> bool {
        self.checkpoint.as_mut().is_some_and(Checkpoint::is_ready)
    }

    /// Begins a checkpoint; false where there cannot be one now.
    pub fn begin_checkpoint(&mut self) -> bool {
        let DiskImage { image, checkpoint, .. } = self;
        checkpoint.as_mut().is_none_or(|checkpoint| checkpoint.begin(image))
    }

    /// Goes on with the checkpoint for about so many bytes. What goes wrong is told by [`DiskImage::check`].
    pub fn step_checkpoint(&mut self, bytes: usize) -> Progress {
        let DiskImage { image, checkpoint, .. } = self;
        let Some(checkpoint) = checkpoint else {
            // Nothing survives, so nothing needs to be replayed.
            return Progress::Done(self.applied());
        };
        match checkpoint.step(image, bytes) {
            Ok(Step::More) => Progress::More,
            Ok(Step::Waiting) => Progress::Waiting,
            Ok(Step::Done) => Progress::Done(Lsn(checkpoint.redo_from())),
            Ok(Step::Idle | Step::Abandoned) => Progress::Abandoned,
            Err(error) => {
                self.broken = Some(error.to_string());
                Progress::Abandoned
            }
        }
    }

    /// The checksum as of entry `at`: if that was applied, or is the last one, or else as of the last one. `None`: it is still to come, and is
    /// taken then.
    pub fn digest_at(&mut self, at: Lsn) -> Option<(Lsn, u64)> {
        let applied = self.applied();
        if let Some(digest) = self.digests.remove(&at) {
            return Some((at, digest));
        }
        if at <= applied || (self.wanted.len() >= MOST_DIGESTS && !self.wanted.contains(&at)) {
            return Some((applied, self.digest()));
        }
        self.wanted.insert(at);
        None
    }

    /// Counts, by name.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        let counters = self.checkpoint.as_ref().map_or_else(Default::default, Checkpoint::counters);
        vec![
            ("image_items", self.image.len() as f64),
            ("image_extent_bytes", self.image.extent() as f64),
            ("image_capacity_bytes", self.image.config().bytes as f64),
            ("image_written_bytes_total", counters.bytes as f64),
            ("checkpoints_total", counters.done as f64),
        ]
    }
}

impl<M: Media> Image for DiskImage<M> {
    fn read(&self, key: &Key) -> Option<Item<'_>> {
        let item = self.image.read(space(key.space), &key.bytes)?;
        Some(Item { version: Lsn(item.version), value: item.value })
    }

    fn place(
        &mut self,
        lsn: Lsn,
        writes: &[(&Key, Option<&[u8]>)],
        tuples: &mut Vec<Tuple>,
    ) -> Result<(), NoRoom> {
        let writes: Vec<Write<'_>> = writes
            .iter()
            .map(|(key, value)| Write { space: space(key.space), key: &key.bytes, value: *value })
            .collect();
        let placed = self.image.place(lsn.0, &writes, |offset, data| tuples.push(Tuple { offset, data }));
        placed.map_err(|image::NoRoom| NoRoom)
    }

    fn items(&self, of: Space, each: &mut dyn FnMut(&[u8], Item<'_>)) {
        self.image
            .items(space(of), |key, item| each(key, Item { version: Lsn(item.version), value: item.value }));
    }

    fn reserve(&mut self, tuples: &[Tuple]) {
        self.image.reserve(pairs(tuples));
    }

    fn release(&mut self, tuples: &[Tuple]) {
        self.image.release(pairs(tuples));
    }

    fn keys(&self, tuples: &[Tuple]) -> Vec<Key> {
        let known = |code: image::Space| Space::ALL.into_iter().find(|space| space.code() == code.0);
        let keys = self.image.keys(pairs(tuples));
        keys.filter_map(|(space, bytes)| Some(Key { space: known(space)?, bytes: bytes.to_vec() })).collect()
    }

    fn apply(&mut self, lsn: Lsn, tuples: &[Tuple]) -> Result<(), BadTuple> {
        self.image.apply(lsn.0, pairs(tuples)).map_err(bad)?;
        if self.raw_until == Some(lsn) {
            self.raw_until = None;
            self.image.index(lsn.0).map_err(bad)?;
        }
        if self.wanted.remove(&lsn) {
            while self.digests.len() >= MOST_DIGESTS {
                self.digests.pop_first();
            }
            self.digests.insert(lsn, self.image.digest());
        }
        Ok(())
    }

    fn applied(&self) -> Lsn {
        Lsn(self.image.applied())
    }

    fn extent(&self) -> u64 {
        self.image.extent()
    }

    fn chunk(&self, offset: u64, len: usize) -> &[u8] {
        self.image.chunk(offset, len)
    }

    fn clear(&mut self) {
        self.raw_until = None;
        self.image.clear();
        // What the checkpoint has belongs to a past that may be decided otherwise by now: it must not come back under a later log.
        if let Some(checkpoint) = &mut self.checkpoint
            && let Err(error) = checkpoint.forget()
        {
            self.broken = Some(error.to_string());
        }
    }

    fn load(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BadTuple> {
        self.image.load(offset, bytes).map_err(bad)
    }

    fn index(&mut self, applied: Lsn) -> Result<(), BadTuple> {
        self.image.index(applied.0).map_err(bad)
    }

    fn digest(&self) -> u64 {
        self.image.digest()
    }
}
