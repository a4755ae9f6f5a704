//! Log and image of a replica, opened on any medium, and what the machine is told of what was found. Processes and simulations share it.

use super::files::is_damage;
use super::{DiskImage, DiskLog};
use protocol::chain::replica::Recovered;
use protocol::chain::{Incarnation, Lsn};
use std::fmt;
use std::path::PathBuf;
use store::image::checkpoint::{self, Checkpoint};
use store::image::{Config, Image};
use store::redo::{Judge, Log, Media, OpenError, Recovery};

/// An image to be started with.
#[derive(Debug)]
pub struct Start<M> {
    image: Image,
    /// What it comes back from; none where nothing shall survive.
    pub checkpoint: Option<Checkpoint<M>>,
    /// Every entry up to here is in it.
    redo_from: Lsn,
    /// Its bytes may have entries up to here.
    floor: Lsn,
    /// Blocks that are not what they were: it is empty then.
    pub damaged: usize,
}

/// Why there is no image.
#[derive(Debug)]
pub enum StartError {
    /// What is on the medium is no checkpoint any more. A sentence, here and below.
    Damaged(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (StartError::Damaged(why) | StartError::Other(why)) = self;
        f.write_str(why)
    }
}

/// For the machine: what was found, image and log.
pub type Parts<M> = (Recovered, DiskImage<M>, DiskLog<M>);

/// The log of a replica; what was found in it, if it is not made now.
///
/// # Errors
/// [`OpenError`].
pub fn open_log<M: Media>(
    media: M,
    is_new: bool,
    identity: u64,
    judge: Judge,
) -> Result<(Log<M>, Option<Recovery>), OpenError> {
    if is_new {
        return Ok((Log::create(media, identity)?, None));
    }
    let (log, recovery) = Log::open(media, identity, judge)?;
    Ok((log, Some(recovery)))
}

impl<M: Media> Start<M> {
    /// An empty image without checkpoints.
    ///
    /// # Errors
    /// A sentence, here and below.
    pub fn without(config: &Config) -> Result<Start<M>, String> {
        Ok(Start::empty(Image::new(config).map_err(|error| error.to_string())?, None))
    }

    fn empty(image: Image, checkpoint: Option<Checkpoint<M>>) -> Start<M> {
        Start { image, checkpoint, redo_from: Lsn::ZERO, floor: Lsn::ZERO, damaged: 0 }
    }

    /// The image as the newest checkpoint on the medium has it; an empty one if that is made now.
    ///
    /// # Errors
    /// As above.
    pub fn new(media: M, is_new: bool, config: &Config) -> Result<Start<M>, StartError> {
        if is_new {
            let other = |why: String| StartError::Other(why);
            let image = Image::new(config).map_err(|error| other(error.to_string()))?;
            let checkpoint = Checkpoint::create(media, config).map_err(|error| other(error.to_string()))?;
            return Ok(Start::empty(image, Some(checkpoint)));
        }
        let opened = Checkpoint::open(media, config).map_err(|error| match &error {
            checkpoint::OpenError::NoCheckpoint => StartError::Damaged(error.to_string()),
            checkpoint::OpenError::Media(cause) if is_damage(cause) => StartError::Damaged(error.to_string()),
            _ => StartError::Other(error.to_string()),
        })?;
        Ok(Start {
            image: opened.image,
            checkpoint: Some(opened.checkpoint),
            redo_from: Lsn(opened.redo_from),
            floor: Lsn(opened.floor),
            damaged: opened.damaged.len(),
        })
    }

    /// With the log, which life `born` made. `path` is for messages.
    ///
    /// # Errors
    /// The image's bytes make no sense.
    pub fn join(
        mut self,
        mut log: Log<M>,
        recovery: &Recovery,
        born: Incarnation,
        path: impl Fn(&str) -> PathBuf,
    ) -> Result<Parts<M>, String> {
        log.release(self.redo_from.0 + 1);
        let missing = recovery.damaged.iter().copied().map(Lsn).filter(|lsn| *lsn > self.redo_from);
        let recovered = Recovered { born, missing: missing.collect(), floor: self.floor };
        if self.redo_from == self.floor && !self.image.is_indexed() {
            self.image.index(self.floor.0).map_err(|error| error.to_string())?;
        }
        let raw_until = (!self.image.is_indexed()).then_some(self.floor);
        let image = DiskImage::new(self.image, self.checkpoint, path("data"), raw_until);
        Ok((recovered, image, DiskLog::new(log, path("log"))))
    }
}
