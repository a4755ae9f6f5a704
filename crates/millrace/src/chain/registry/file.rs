//! A registry in a file. Whoever has the lock beside it leads, for as long as it lives: one controller.
//!
//! ```text
//!   FILE        the configuration, as `text` writes it
//!   FILE.new    the next one, until it is renamed: whatever is there counts for nothing
//!   FILE.lock   locked by the controller that runs
//! ```
//! A configuration is written to FILE.new, made durable, renamed, and the directory made durable; so FILE is the old one or the new one,
//! whole, after a crash at any step.
//!
//! Cost: some 1 ms on a disk that keeps what it says; configurations change when replicas come and go.

use super::{Registry, RegistryError, Swapped, text};
use base::Nanos;
use protocol::chain::{Configuration, Epoch};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// See the file's head.
#[derive(Debug)]
pub struct FileRegistry {
    chain: u32,
    path: PathBuf,
    /// Held, not used.
    _lock: File,
}

impl FileRegistry {
    /// The registry of a chain; the file need not be there, its directory is made.
    ///
    /// # Errors
    /// Another controller has it, or the system's.
    pub fn open(chain: u32, path: &Path) -> Result<FileRegistry, RegistryError> {
        let directory = directory(path);
        fs::create_dir_all(directory).map_err(failed("make", directory))?;
        let beside = with_suffix(path, ".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&beside);
        let lock = lock.map_err(failed("open", &beside))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => RegistryError::Locked(path.to_path_buf()),
            error => failed("lock", &beside)(error.into()),
        })?;
        Ok(FileRegistry { chain, path: path.to_path_buf(), _lock: lock })
    }

    fn write(&self, configuration: &Configuration) -> Result<(), RegistryError> {
        let new = with_suffix(&self.path, ".new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text::emit(self.chain, configuration).as_bytes())?;
            file.sync_all()
        };
        write().map_err(failed("write", &new))?;
        fs::rename(&new, &self.path).map_err(failed("replace", &self.path))?;
        let directory = directory(&self.path);
        File::open(directory).and_then(|file| file.sync_all()).map_err(failed("make durable", directory))
    }
}

impl Registry for FileRegistry {
    fn campaign(&mut self) -> Result<Option<Nanos>, RegistryError> {
        Ok(Some(Nanos::MAX))
    }

    fn renew(&mut self) -> Result<Option<Nanos>, RegistryError> {
        Ok(Some(Nanos::MAX))
    }

    fn load(&mut self) -> Result<Option<Configuration>, RegistryError> {
        let found = match fs::read_to_string(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &self.path)(error)),
        };
        let not_ours = |why| RegistryError::NotOurs(self.path.display().to_string(), why);
        text::parse(self.chain, &found).map(Some).map_err(not_ours)
    }

    fn swap(&mut self, expected: Epoch, next: &Configuration) -> Result<Swapped, RegistryError> {
        let found = self.load()?;
        let is_there = found.as_ref() == Some(next);
        if !is_there && found.as_ref().map_or(Epoch(0), |found| found.epoch) != expected {
            return Ok(Swapped::Other(found));
        }
        // What is there may not be durable, if an attempt before failed.
        self.write(next).map(|()| Swapped::Done)
    }

    fn resign(&mut self) {}

    fn pace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RegistryError {
    move |error| RegistryError::File(what, path.to_path_buf(), error)
}
