//! The files of a replica's directory, or memory in their place.

use super::super::error::ChainError;
use super::super::media::Media as Kind;
use super::super::replica::Storage;
use super::start::{self, Start, StartError};
use super::{AnyMedia, Wake};
use base::private::{self, replace, sync_folder};
use base::{Bytes, Nanos};
use protocol::chain::Incarnation;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use store::image::Config;
use store::image::checkpoint::Checkpoint;
use store::redo::media::{Emulated, File, How, Mapped, Memory, Threaded, Traits};
use store::redo::{Judge, Log, Media, OpenError, Recovery};

/// A log of fewer bytes could be too full for an entry while a checkpoint is being written.
const LEAST_LOG: Bytes = Bytes(8 << 20);
/// A medium that takes so long to persist has a thread of its own. Others are written where they are: waking a thread takes longer.
const SLOW: Nanos = Nanos::from_micros(100);

/// Files of a name that are put aside at most.
const ASIDE_MAX: u32 = 100;

/// Where a replica's files are, and how they are used.
pub(super) struct Files {
    directory: PathBuf,
    pub(super) media: Kind,
    log_size: Bytes,
    image: Config,
    wake: Wake,
    /// What was put aside, in sentences.
    pub(super) aside: Vec<String>,
}

/// Why a file was not opened.
enum Unusable {
    /// It is there, and is not what it was: a truth that no second attempt changes.
    Damaged(String),
    /// Anything else.
    Error(ChainError),
}

impl From<ChainError> for Unusable {
    fn from(error: ChainError) -> Unusable {
        match error {
            ChainError::Open(_, _, cause) if is_damage(&cause) => Unusable::Damaged(cause.to_string()),
            error => Unusable::Error(error),
        }
    }
}

impl Unusable {
    fn into_error(self, damaged: impl FnOnce(String) -> ChainError) -> ChainError {
        match self {
            Unusable::Damaged(why) => damaged(why),
            Unusable::Error(error) => error,
        }
    }
}

/// Whether it is about what is in a file, and not about the device.
pub(super) fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
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
    pub(super) fn new(storage: &Storage, wake: Wake) -> Result<Files, ChainError> {
        if storage.log_size < LEAST_LOG {
            return Err(ChainError::SmallLog(storage.log_size, LEAST_LOG));
        }
        let image = Config::new(storage.data_size.0);
        image.check().map_err(|error| ChainError::DataSize(error.to_string()))?;
        if let Some(directory) = &storage.data {
            private::make_directory(directory)
                .map_err(|error| ChainError::Directory(directory.clone(), error))?;
        } else if storage.media.needs_directory() {
            return Err(ChainError::NoDirectory(storage.media));
        }
        Ok(Files {
            directory: storage.data.clone().unwrap_or_default(),
            media: storage.media,
            log_size: storage.log_size,
            image,
            wake,
            aside: Vec::new(),
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The log, what was found in it if it was there, and the life that begins. One that is none any more is put aside, and a new one made.
    pub(super) fn log(
        &mut self,
        identity: u64,
    ) -> Result<(Log<AnyMedia>, Option<Recovery>, Life), ChainError> {
        match self.open_log(identity) {
            Err(Unusable::Damaged(why)) => {
                self.put_aside("log", &why)?;
                self.open_log(identity)
            }
            result => result,
        }
        .map_err(|unusable| unusable.into_error(|why| self.damaged("log", why)))
    }

    fn open_log(&self, identity: u64) -> Result<(Log<AnyMedia>, Option<Recovery>, Life), Unusable> {
        // Said before the log is made: one that is there is never older than what is said of it.
        let first = if self.is_new("log") { Some(self.life(true)?) } else { None };
        let (media, is_new) = self.medium("log", self.log_size.0)?;
        let (log, recovery) =
            start::open_log(media, is_new, identity, Judge::Proof).map_err(|error| match error {
                OpenError::Foreign(identity) => Unusable::Error(ChainError::Others(
                    self.path("log"),
                    format!("replica {} of chain {}", identity & 0xffff, identity >> 16),
                )),
                OpenError::NoLog | OpenError::TooSmall(_) | OpenError::Resized(_) => {
                    Unusable::Damaged(error.to_string())
                }
                OpenError::Media(cause) if is_damage(&cause) => Unusable::Damaged(cause.to_string()),
                error => Unusable::Error(self.damaged("log", error.to_string())),
            })?;
        let life = first.map_or_else(|| self.life(false), Ok)?;
        Ok((log, recovery, life))
    }

    /// The image as its newest checkpoint has it; an empty one if there is none, or if that is none any more, which is put aside.
    pub(super) fn image(&mut self) -> Result<Start<AnyMedia>, ChainError> {
        if !self.media.needs_directory() {
            return Start::without(&self.image).map_err(|why| self.damaged("data", why));
        }
        match self.open_image() {
            Err(Unusable::Damaged(why)) => {
                self.put_aside("data", &why)?;
                self.open_image()
            }
            result => result,
        }
        .map_err(|unusable| unusable.into_error(|why| self.damaged("data", why)))
    }

    fn open_image(&self) -> Result<Start<AnyMedia>, Unusable> {
        let (media, is_new) = self.medium("data", Checkpoint::<AnyMedia>::medium_bytes(&self.image))?;
        Start::new(media, is_new, &self.image).map_err(|error| match error {
            StartError::Damaged(why) => Unusable::Damaged(why),
            StartError::Other(why) => Unusable::Error(self.damaged("data", why)),
        })
    }

    /// Gives a file that cannot be used another name: nothing is lost that somebody could still read.
    fn put_aside(&mut self, name: &'static str, why: &str) -> Result<(), ChainError> {
        let failed = |error| ChainError::Directory(self.directory.clone(), error);
        let free = (1..=ASIDE_MAX).map(|number| self.path(&format!("{name}.damaged-{number}")));
        let aside = free.into_iter().find(|aside| !aside.exists()).ok_or_else(|| {
            failed(io::Error::other(format!(
                "there are {ASIDE_MAX} {name}.damaged-N already: move them elsewhere"
            )))
        })?;
        fs::rename(self.path(name), &aside).and_then(|()| sync_folder(&aside)).map_err(failed)?;
        self.aside.push(format!("its {name} cannot be used ({why}) and is kept as {}", aside.display()));
        Ok(())
    }

    /// A life begins. Its number is higher than all before; that of the one that made the log is kept beside it.
    fn life(&self, makes_log: bool) -> Result<Life, ChainError> {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        if !self.media.needs_directory() {
            return Ok(Life { number: Incarnation(micros), born: Incarnation(micros) });
        }
        let path = self.path("life");
        let failed = |error| ChainError::Directory(path.clone(), error);
        // A file that cannot be read is not one that is not there: the number could be lower than the last, which nobody would hear.
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(failed)?),
        };
        let mut known =
            text.iter().flat_map(|text| text.split_whitespace()).map_while(|word| word.parse().ok());
        let last: Option<u64> = known.next();
        if text.is_some() && last.is_none() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it holds no number of a life")));
        }
        let number = last.map_or(micros, |last| micros.max(last.saturating_add(1)));
        // What is not known may be anything, so it counts as lost.
        let born = known.next().filter(|_| !makes_log).unwrap_or(number);
        replace(&path, format!("{number} {born}\n").as_bytes()).map_err(failed)?;
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
                memory(len).and_then(|memory| self.emulated(name, memory, traits))
            }
            (Kind::Pmem, true) => Mapped::create(&path, len).map(boxed),
            (Kind::Pmem, false) => Mapped::open(&path).map(boxed),
            (Kind::File | Kind::Dsync, true) => {
                File::create(&path, len, self.how(name)).and_then(|file| self.threaded(name, file))
            }
            (Kind::File | Kind::Dsync, false) => {
                File::open(&path, self.how(name)).and_then(|file| self.threaded(name, file))
            }
        };
        let media = media.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => ChainError::Locked(self.directory.clone()),
            _ => ChainError::Open(name, path, error),
        })?;
        Ok((media, is_new))
    }

    /// A file that is written by a thread of its own: a device that is slow does not keep the replica from saying that it lives.
    fn threaded(&self, name: &str, file: File) -> io::Result<AnyMedia> {
        let wake = Arc::clone(&self.wake);
        Threaded::start(&format!("chain-{name}"), file.twin(), file, move || wake()).map(boxed)
    }

    /// Memory that takes its time; by a thread of its own where that is longer than to wake one.
    fn emulated(&self, name: &str, memory: Memory, traits: Traits) -> io::Result<AnyMedia> {
        if traits.latency < SLOW {
            return Ok(boxed(Emulated::new(memory, traits)));
        }
        let (memory, wake) = (Arc::new(Mutex::new(memory)), Arc::clone(&self.wake));
        let writer = Emulated::new(Arc::clone(&memory), traits);
        Threaded::start(&format!("chain-{name}"), memory, writer, move || wake()).map(boxed)
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
