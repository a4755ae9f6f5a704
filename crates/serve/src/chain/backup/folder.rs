//! A directory with a log and an image: a backup, or a replica's. Read from end to end without a change to it, and written.
//!
//! A backup is written as DIR.new and renamed when it is durable: under its name it is whole.

use super::super::disk::start;
use super::super::error::ChainError;
use super::plain::Plain;
use super::pull::Pulled;
use base::{Bytes, private};
use protocol::chain::{Entry, Epoch, Lsn, ReplicaId};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};
use store::image::checkpoint::{self, Checkpoint, Step};
use store::image::{Config, Image, Space};
use store::redo::media::{File, How};
use store::redo::{Judge, Log, MIN_MEDIUM, Media, OpenError, Recovery};

/// Bytes that are written at once.
const STEP: usize = 1 << 20;

/// What is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) chain: u32,
    /// Whose it is; 0 for a backup.
    replica: u16,
    /// That of the last entry; of a backup that in which it was made.
    pub(super) epoch: Epoch,
    /// Everything up to here is in it.
    lsn: Lsn,
    items: u64,
    sessions: u64,
    extent: u64,
    /// Bytes that all items may take.
    pub(super) capacity: u64,
    /// As `chain checksum` has it.
    digest: u64,
    torn_bytes: u64,
    /// What is wrong with it, in sentences.
    trouble: Vec<String>,
}

impl Contents {
    pub(super) fn is_good(&self) -> bool {
        self.trouble.is_empty()
    }

    pub(super) fn is_backup(&self) -> bool {
        self.replica == 0
    }

    /// Whether the same items are in it as of the same transaction.
    pub(super) fn is_same(&self, other: &Contents) -> bool {
        let what = |contents: &Contents| (contents.chain, contents.lsn, contents.epoch, contents.digest);
        self.is_good() && what(self) == what(other)
    }

    /// Without what the image says.
    fn of_log(log: &Log<Plain>, recovery: &Recovery, identity: u64) -> Contents {
        let damaged = recovery.damaged.len();
        let trouble = recovery.damaged.first().map(|first| {
            format!("{damaged} transactions in its log are damaged, the first is {first}; a replica asks the others for them")
        });
        Contents {
            chain: (identity >> 16) as u32,
            replica: identity as u16,
            epoch: Epoch(log.last_epoch()),
            lsn: Lsn(log.last()),
            torn_bytes: recovery.torn_bytes,
            trouble: trouble.into_iter().collect(),
            ..Contents::default()
        }
    }

    fn with_image(self, image: &Image) -> Contents {
        let count = |space: u8| {
            let mut count = 0;
            image.items(Space(space), |_, _| count += 1);
            count
        };
        Contents {
            items: count(protocol::chain::Space::User.code()),
            sessions: count(protocol::chain::Space::Session.code()),
            extent: image.extent(),
            capacity: image.config().bytes,
            digest: image.digest(),
            lsn: Lsn(image.applied()),
            ..self
        }
    }

    fn with_trouble(mut self, trouble: String) -> Contents {
        self.trouble.push(trouble);
        self
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.trouble.first() {
            f.write_str(first)?;
            return self.trouble[1..].iter().try_for_each(|more| write!(f, "; {more}"));
        }
        match self.replica {
            0 => write!(f, "backup of chain {}", self.chain)?,
            id => write!(f, "replica {id} of chain {}", self.chain)?,
        }
        write!(
            f,
            " as of transaction {}, epoch {}: {} items ({}), {} sessions, checksum {:016x}",
            self.lsn.0,
            self.epoch.0,
            self.items,
            Bytes(self.extent),
            self.sessions,
            self.digest
        )?;
        if self.torn_bytes > 0 {
            write!(f, "; {} torn bytes at the end of its log", self.torn_bytes)?;
        }
        Ok(())
    }
}

/// Makes a backup at a path where there is nothing; what is in it.
pub(super) fn write(mut pulled: Pulled, to: &Path) -> Result<Contents, ChainError> {
    let mut part: OsString = to.as_os_str().to_owned();
    part.push(".new");
    let part = PathBuf::from(part);
    if part.exists() {
        return Err(ChainError::Unfinished(part));
    }
    private::make_directory(&part).map_err(|error| ChainError::Directory(part.clone(), error))?;
    let written = write_files(&mut pulled, &part).and_then(|()| {
        sync_folder(&part)?;
        fs::rename(&part, to)?;
        sync_folder(to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    });
    if let Err(error) = written {
        // Of two errors the first one says more.
        let _ = fs::remove_dir_all(&part);
        return Err(ChainError::Directory(part, error));
    }
    read(to)
}

fn write_files(pulled: &mut Pulled, folder: &Path) -> io::Result<()> {
    let Pulled { image, chain, epoch } = pulled;
    let config = image.config().clone();
    let media = Plain::create(&folder.join("data"), Checkpoint::<Plain>::medium_bytes(&config))?;
    let mut data = Checkpoint::create(media, &config)?;
    data.begin(image);
    while matches!(data.step(image, STEP)?, Step::More | Step::Waiting) {}
    make_log(&folder.join("log"), MIN_MEDIUM, u64::from(*chain) << 16, (image.applied(), epoch.0))
}

/// A log without entries, which goes on after this one.
fn make_log(path: &Path, len: u64, identity: u64, (lsn, epoch): (u64, u64)) -> io::Result<()> {
    let failed = |error: &dyn fmt::Display| io::Error::other(error.to_string());
    let media = File::create(path, len, How::Fdatasync)?;
    let (mut log, _) =
        start::open_log(media, true, identity, Judge::Proof).map_err(|error| failed(&error))?;
    log.restart(lsn, epoch).map_err(|error| failed(&error))?;
    while log.needs_sync() {
        log.sync().map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Makes log and image of a replica from those of a backup, in a directory without.
pub(super) fn restore(
    contents: &Contents,
    from: &Path,
    to: &Path,
    id: ReplicaId,
    log_size: Bytes,
) -> Result<(), ChainError> {
    for name in ["log", "data", "life"] {
        if to.join(name).exists() {
            return Err(ChainError::InTheWay(to.join(name)));
        }
    }
    let failed = |error| ChainError::Directory(to.to_owned(), error);
    private::make_directory(to).map_err(failed)?;
    copy(&from.join("data"), &to.join("data"), contents).map_err(failed)?;
    let identity = u64::from(contents.chain) << 16 | u64::from(id.0);
    make_log(&to.join("log"), log_size.0, identity, (contents.lsn.0, contents.epoch.0))
        .and_then(|()| sync_folder(to))
        .map_err(failed)
}

/// The same checkpoint, in a file that has room for the next one.
fn copy(from: &Path, to: &Path, contents: &Contents) -> io::Result<()> {
    let from = Plain::open(from)?;
    let room = Checkpoint::<File>::medium_bytes(&Config::new(contents.capacity));
    let mut made = File::create(to, room, How::Fdatasync)?;
    let mut piece = vec![0; STEP];
    let mut at = 0;
    while at < from.len() {
        let piece = &mut piece[..(from.len() - at).min(STEP as u64) as usize];
        from.read_at(at, piece)?;
        made.write_at(at, piece)?;
        at += piece.len() as u64;
    }
    made.persist(std::slice::from_ref(&(0..at)))
}

/// Reads all of a directory: what is in it, and what is wrong with it.
pub(super) fn read(folder: &Path) -> Result<Contents, ChainError> {
    let (log, recovery, identity) = match open_log(&folder.join("log")) {
        Ok(opened) => opened,
        Err(OpenError::Media(error)) => return Err(unreadable(folder, "log", error)),
        Err(error) => return Ok(Contents::default().with_trouble(error.to_string())),
    };
    let contents = Contents::of_log(&log, &recovery, identity);
    let (mut image, redo_from, floor) = match open_image(&folder.join("data")) {
        Ok((_, _, _, blocks)) if blocks > 0 => {
            return Ok(contents.with_trouble(format!("{blocks} blocks of its image are damaged")));
        }
        Ok((image, redo_from, floor, _)) => (image, redo_from, floor),
        Err(checkpoint::OpenError::Media(error)) => return Err(unreadable(folder, "data", error)),
        Err(error) => return Ok(contents.with_trouble(error.to_string())),
    };
    if log.first() > redo_from + 1 || log.last() < floor {
        let why = format!(
            "log and image do not fit together: the log has transactions from {} to {}, the image needs {} to {floor}",
            log.first(),
            log.last(),
            redo_from + 1
        );
        return Ok(contents.with_trouble(why));
    }
    match replay(&mut image, &log, redo_from, floor) {
        Ok(()) => Ok(contents.with_image(&image)),
        Err(why) => Ok(contents.with_trouble(why)),
    }
}

fn unreadable(folder: &Path, name: &'static str, error: io::Error) -> ChainError {
    match error.kind() {
        io::ErrorKind::WouldBlock => ChainError::Locked(folder.to_owned()),
        _ => ChainError::Open(name, folder.join(name), error),
    }
}

/// A log, whoever's it is.
fn open_log(path: &Path) -> Result<(Log<Plain>, Recovery, u64), OpenError> {
    let open = |identity| {
        let (log, recovery) = Log::open(Plain::open(path)?, identity, Judge::Proof)?;
        Ok((log, recovery, identity))
    };
    match open(0) {
        Err(OpenError::Foreign(identity)) => open(identity),
        result => result,
    }
}

/// An image of any size, as bytes; what was applied when its checkpoint began and ended, and how many of its blocks are damaged.
fn open_image(path: &Path) -> Result<(Image, u64, u64, usize), checkpoint::OpenError> {
    let open = |config: &Config| {
        let opened = Checkpoint::open(Plain::open(path)?, config)?;
        Ok((opened.image, opened.redo_from, opened.floor, opened.damaged.len()))
    };
    // The size is in the header.
    match open(&Config::new(1)) {
        Err(checkpoint::OpenError::Other { bytes, .. }) => open(&Config::new(bytes)),
        result => result,
    }
}

/// Does what the log says over the checkpoint's bytes.
fn replay(image: &mut Image, log: &Log<Plain>, redo_from: u64, floor: u64) -> Result<(), String> {
    let index = |image: &mut Image, lsn| {
        image.index(lsn).map_err(|error| format!("its image makes no sense: {error}"))
    };
    if redo_from == floor {
        index(image, floor)?;
    }
    for lsn in redo_from + 1..=log.last() {
        let entry = log
            .read(lsn)
            .and_then(|record| Entry::parse_payload(Lsn(lsn), Epoch(record.epoch), &record.payload))
            .ok_or_else(|| format!("transaction {lsn} cannot be read, and the image is from before it"))?;
        image
            .apply(lsn, entry.tuples.iter().map(|tuple| (tuple.offset, &tuple.data[..])))
            .map_err(|error| format!("transaction {lsn} does not fit the image: {error}"))?;
        if lsn == floor {
            index(image, floor)?;
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
