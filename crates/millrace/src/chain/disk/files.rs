//! The files of a replica's directory, or memory in their place.

use super::super::error::ChainError;
use super::super::media::Media as Kind;
use super::super::replica::Storage;
use super::AnyMedia;
use super::start::{self, Start};
use base::Bytes;
use protocol::chain::Incarnation;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use store::image::Config;
use store::image::checkpoint::Checkpoint;
use store::redo::media::{Emulated, File, How, Mapped, Memory, Traits};
use store::redo::{Judge, Log, Media, OpenError, Recovery};

/// A log of fewer bytes could be too full for an entry while a checkpoint is being written.
const LEAST_LOG: Bytes = Bytes(8 << 20);

/// Where a replica's files are, and how they are used.
pub(super) struct Files {
    directory: PathBuf,
    pub(super) media: Kind,
    log_size: Bytes,
    image: Config,
}

/// A life of a replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Which.
    pub(super) number: Incarnation,
    /// Which one made the log.
    pub(super) born: Incarnation,
}

impl Files {
    /// The directory is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or there is none though the medium needs one.
    pub(super) fn new(storage: &Storage) -> Result<Files, ChainError> {
        if storage.log_size < LEAST_LOG {
            return Err(ChainError::SmallLog(storage.log_size, LEAST_LOG));
        }
        let image = Config::new(storage.data_size.0);
        image.check().map_err(|error| ChainError::DataSize(error.to_string()))?;
        if let Some(directory) = &storage.data {
            fs::create_dir_all(directory).map_err(|error| ChainError::Directory(directory.clone(), error))?;
        } else if storage.media.needs_directory() {
            return Err(ChainError::NoDirectory(storage.media));
        }
        Ok(Files {
            directory: storage.data.clone().unwrap_or_default(),
            media: storage.media,
            log_size: storage.log_size,
            image,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The log, what was found in it if it was there, and the life that begins.
    pub(super) fn log(&self, identity: u64) -> Result<(Log<AnyMedia>, Option<Recovery>, Life), ChainError> {
        let path = self.path("log");
        // Said before the log is made: one that is there is never older than what is said of it.
        let first = if self.is_new("log") { Some(self.life(true)?) } else { None };
        let (media, is_new) = self.medium("log", self.log_size.0)?;
        let (log, recovery) =
            start::open_log(media, is_new, identity, Judge::Proof).map_err(|error| match error {
                OpenError::Foreign(identity) => ChainError::Others(
                    path,
                    format!("replica {} of chain {}", identity & 0xffff, identity >> 16),
                ),
                error => self.damaged("log", error.to_string()),
            })?;
        let life = first.map_or_else(|| self.life(false), Ok)?;
        Ok((log, recovery, life))
    }

    /// The image as its newest checkpoint has it; an empty one if there is none.
    pub(super) fn image(&self) -> Result<Start<AnyMedia>, ChainError> {
        let failed = |error: String| self.damaged("data", error);
        if !self.media.needs_directory() {
            return Start::without(&self.image).map_err(failed);
        }
        let (media, is_new) = self.medium("data", Checkpoint::<AnyMedia>::medium_bytes(&self.image))?;
        Start::new(media, is_new, &self.image).map_err(failed)
    }

    /// A life begins. Its number is higher than all before; that of the one that made the log is kept beside it.
    fn life(&self, makes_log: bool) -> Result<Life, ChainError> {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        if !self.media.needs_directory() {
            return Ok(Life { number: Incarnation(micros), born: Incarnation(micros) });
        }
        let path = self.path("life");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut known = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let number = known.next().map_or(micros, |last| micros.max(last + 1));
        // What is not known may be anything, so it counts as lost.
        let born = known.next().filter(|_| !makes_log).unwrap_or(number);
        replace(&path, format!("{number} {born}\n").as_bytes())
            .map_err(|error| ChainError::Directory(path, error))?;
        Ok(Life { number: Incarnation(number), born: Incarnation(born) })
    }

    fn is_new(&self, name: &str) -> bool {
        !self.media.needs_directory() || !self.path(name).exists()
    }

    /// A file of the directory, or memory in its place; whether it is new.
    fn medium(&self, name: &'static str, len: u64) -> Result<(AnyMedia, bool), ChainError> {
        let path = self.path(name);
        let is_new = self.is_new(name);
        let media = match (self.media, is_new) {
            (Kind::Memory, _) => memory(len).map(boxed),
            (Kind::Emulated { latency, bandwidth }, _) => {
                let traits = Traits { latency, bandwidth: bandwidth.0, ..Traits::OPTANE };
                memory(len).map(|memory| boxed(Emulated::new(memory, traits)))
            }
            (Kind::Pmem, true) => Mapped::create(&path, len).map(boxed),
            (Kind::Pmem, false) => Mapped::open(&path).map(boxed),
            (Kind::File | Kind::Dsync, true) => File::create(&path, len, self.how(name)).map(boxed),
            (Kind::File | Kind::Dsync, false) => File::open(&path, self.how(name)).map(boxed),
        };
        let media = media.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => ChainError::Locked(self.directory.clone()),
            _ => ChainError::Open(name, path, error),
        })?;
        Ok((media, is_new))
    }

    /// Each write of a checkpoint would wait for the device, page by page, without need.
    fn how(&self, name: &str) -> How {
        if self.media == Kind::Dsync && name == "log" { How::Dsync } else { How::Fdatasync }
    }

    pub(super) fn damaged(&self, name: &'static str, how: String) -> ChainError {
        ChainError::Damaged(name, self.path(name), how)
    }
}

fn boxed(media: impl Media + Send + 'static) -> AnyMedia {
    Box::new(media)
}

fn memory(len: u64) -> io::Result<Memory> {
    usize::try_from(len).map(Memory::new).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Writes a file in one step, for good.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
