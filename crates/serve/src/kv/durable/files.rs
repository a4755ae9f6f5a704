//! The directory of a server's log: what is in it, and what it means if something is not.
//!
//! | file | what it has |
//! |---|---|
//! | `lock` | nothing; whoever runs has it locked |
//! | `identity` | a number that nobody can guess: checksums begin from it, so no value that a client writes looks like a record |
//! | `log` | the redo log, prewritten |
//! | `snapshot` | the newest |
//!
//! The first start makes `log.new`, then `identity`, then gives the log its name. So if there is an identity and neither log nor `log.new`, the log was
//! lost, and that is said.

use super::shelf::FileShelf;
use super::{AnyMedia, AnyShelf, DurableError, Opened};
use crate::kv::post::Post;
use crate::kv::registers::{Id, Registers};
use base::files::Locked;
use base::{Bytes, private};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Store;
use store::durable::{Found, Reader, RecoverError, needs_log, recover};
use store::redo::media::{self, How, Threaded};
use store::redo::{Judge, Log, Media as _, OpenError, Recovery};

struct Directory(PathBuf);

/// What to do when the data is not what it was.
const REMEDY: &str =
    "restore the directory from a copy, or move it away to begin empty; nothing was changed in it";

impl Directory {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    fn failed(&self, what: &str, error: &io::Error) -> DurableError {
        DurableError(format!("the data directory {}: cannot {what}: {error}", self.0.display()))
    }

    fn wrong(&self, why: &str) -> DurableError {
        DurableError(format!("the data directory {}: {why}: {REMEDY}", self.0.display()))
    }

    /// Nobody else has it from now on, until the process ends or this is dropped.
    fn lock(&self) -> Result<Locked, DurableError> {
        private::make_directory(&self.0).map_err(|error| self.failed("make it", &error))?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(private::FILE_MODE);
        let file = options.open(self.path("lock")).map_err(|error| self.failed("open its lock", &error))?;
        Locked::new(file).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => DurableError(format!(
                "another process has the data directory {}: stop it, or take another directory",
                self.0.display()
            )),
            _ => self.failed("lock it", &error),
        })
    }

    /// The number that the log's checksums begin from; none where there is no log yet.
    fn identity(&self) -> Result<Option<u64>, DurableError> {
        match fs::read_to_string(self.path("identity")) {
            Ok(text) => {
                let number = u64::from_str_radix(text.trim(), 16).ok();
                number.map(Some).ok_or_else(|| self.wrong("its identity is damaged"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read its identity", &error)),
        }
    }

    /// Begins a log where there was none.
    fn begin(&self, size: u64) -> Result<u64, DurableError> {
        let failed = |error: io::Error| self.failed("make a log in it", &error);
        let identity = u64::from_le_bytes(base::key::random());
        let new = self.path("log.new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let medium = media::File::create(&new, size, How::Fdatasync).map_err(failed)?;
        Log::create(medium, identity).map_err(|error| failed(io::Error::other(error.to_string())))?;
        private::replace(&self.path("identity"), format!("{identity:016x}\n").as_bytes()).map_err(failed)?;
        fs::rename(&new, self.path("log")).map_err(failed)?;
        private::sync_folder(&new).map_err(failed)?;
        Ok(identity)
    }

    fn log(&self, identity: u64, post: &Arc<Post>) -> Result<(Log<AnyMedia>, Recovery), DurableError> {
        let failed = |error: io::Error| self.failed("open its log", &error);
        let file = media::File::open(&self.path("log"), How::Fdatasync).map_err(failed)?;
        let post = Arc::clone(post);
        let medium = Threaded::start("kv-log", file.twin(), file, move || post.due());
        let medium: AnyMedia = Box::new(medium.map_err(failed)?);
        Log::open(medium, identity, Judge::Proof).map_err(|error| match error {
            OpenError::Media(error) if error.kind() != io::ErrorKind::InvalidData => failed(error),
            error => self.wrong(&format!("its log is damaged ({error})")),
        })
    }

    fn snapshot(&self) -> Result<Option<Reader<BufReader<File>>>, DurableError> {
        let path = self.path("snapshot");
        match File::open(&path) {
            Ok(file) => Reader::new(BufReader::with_capacity(1 << 20, file))
                .map(Some)
                .map_err(|error| self.wrong(&format!("its snapshot cannot be read: {error}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("open its snapshot", &error)),
        }
    }

    fn unrecovered(&self, error: &RecoverError, store: &Store) -> DurableError {
        match error {
            RecoverError::Memory(_) => {
                DurableError(format!("{}: {error}; give more memory (-m)", self.0.display()))
            }
            RecoverError::TooLong(_) => DurableError(format!(
                "{}: {error}, which is {} now (-I, store.max_value): raise it",
                self.0.display(),
                Bytes(store.config().max_value as u64)
            )),
            error => self.wrong(&error.to_string()),
        }
    }
}

/// See [`super::Durable::open`].
pub(super) fn open(
    directory: &Path,
    registers: &Arc<Registers>,
    store: &mut Store,
    post: &Arc<Post>,
) -> Result<Opened, DurableError> {
    let begun = Instant::now();
    let place = Directory(directory.to_owned());
    let lock = place.lock()?;
    let least = needs_log(store.config().max_value);
    let size = registers.read(Id::LogSize);
    if size < least {
        return Err(DurableError(format!(
            "a log of {} (log.size) is too short for values of up to {} (-I, store.max_value): it must have {}",
            Bytes(size),
            Bytes(store.config().max_value as u64),
            Bytes(least)
        )));
    }
    let identity = match (place.identity()?, place.has("log")) {
        (Some(identity), true) => identity,
        (None, false) if !place.has("snapshot") => place.begin(size)?,
        (Some(_), false) if place.has("log.new") && !place.has("snapshot") => place.begin(size)?,
        (_, false) => return Err(place.wrong("its log is not there, and what was written last with it")),
        (None, true) => {
            return Err(place.wrong("the file identity is not there, without which its log cannot be read"));
        }
    };
    let (log, recovery) = place.log(identity, post)?;
    let medium = log.media().len();
    if medium != size {
        log::warn!(
            "the log in {} has {}, and keeps them: log.size is for new ones",
            directory.display(),
            Bytes(medium)
        );
    }
    if medium < least {
        let why = "its log is too short for the longest value (-I): lower that, or begin anew";
        return Err(DurableError(format!("the data directory {}: {why}", directory.display())));
    }
    let snapshot = place.snapshot()?;
    let woken = Arc::clone(post);
    let shelf = FileShelf::start(&place.path("snapshot"), lock, move || woken.due())
        .map_err(|error| place.failed("start a thread for its snapshots", &error))?;
    let shelf: AnyShelf = Box::new(shelf);
    let recovered = recover(store, (log, &recovery), identity, snapshot, shelf);
    let (journal, found) = recovered.map_err(|error| place.unrecovered(&error, store))?;
    say(directory, &found, begun.elapsed(), registers);
    Ok(Opened { journal, found, recovery: begun.elapsed() })
}

fn say(directory: &Path, found: &Found, took: Duration, registers: &Registers) {
    let (items, effects, torn, took) = (found.items, found.effects, found.torn_bytes, took.as_millis());
    let snapshot =
        found.snapshot_items.map_or("no snapshot".to_owned(), |items| format!("a snapshot of {items}"));
    log::info!(
        "durable: {items} items from {}: {snapshot}, and {effects} effects of the log, in {took} ms; {torn} torn bytes cut",
        directory.display()
    );
    if let Some(limit) = found.raised_to {
        log::warn!(
            "what is there does not fit the memory limit (-m), which is {} now: give so much, or delete something",
            Bytes(limit as u64)
        );
        // As it is: whoever asks is told the truth.
        let _ = registers.write(Id::StoreMemory, limit as u64);
    }
}
