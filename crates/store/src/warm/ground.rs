//! Where the memory of a store comes from: the system, or the files of a directory.
//!
//! ```text
//!  DIRECTORY/millrace.meta       what the store knows beside its memory; the lock is on it      (meta.rs)
//!            millrace.heap       segments
//!            millrace.index      buckets
//!            millrace.overflow   overflow buckets
//!            millrace.ghosts     keys evicted lately
//!            millrace.large      values outside the log; only while no process has the store
//! ```
//! Invariants: (1) a file is written to or made only where `millrace.meta` is ours, or nothing of these names was there: what somebody
//! else keeps under such a name stays as it is; (2) one process has them: it holds a lock on `millrace.meta` until it ends.
//!
//! Whose: files are made for their owner alone, symbolic links are not followed, and files of another user are not believed.

use super::Refusal;
use super::meta;
use base::files::Locked;
use base::pages::{PageKind, Region};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Meta,
    Heap,
    Index,
    Overflow,
    Ghosts,
    Large,
}

/// Those that hold memory of a store.
pub(super) const MEMORY: [Part; 4] = [Part::Heap, Part::Index, Part::Overflow, Part::Ghosts];
pub(super) const ALL: [Part; 6] =
    [Part::Meta, Part::Heap, Part::Index, Part::Overflow, Part::Ghosts, Part::Large];

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Meta => "millrace.meta",
            Part::Heap => "millrace.heap",
            Part::Index => "millrace.index",
            Part::Overflow => "millrace.overflow",
            Part::Ghosts => "millrace.ghosts",
            Part::Large => "millrace.large",
        }
    }
}

/// Where memory comes from.
pub(crate) enum Ground<'f> {
    Anonymous,
    Files(&'f Files),
}

impl Ground<'_> {
    /// `len` bytes for `part`, or somewhat more.
    pub(crate) fn region(&self, part: Part, len: usize, kind: PageKind) -> io::Result<Region> {
        match self {
            Ground::Anonymous => Region::map(len, kind),
            Ground::Files(files) => Region::in_file(files.get(part)?, len, kind),
        }
    }
}

/// The files of a store, locked.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    /// Open for as long as the store has its memory in them: the lock goes with it.
    meta: Locked,
}

/// What a directory holds.
pub(super) enum Found {
    /// Files of ours, perhaps new ones, and what `millrace.meta` says: nothing where it is new.
    Ours(Files, Vec<u8>),
    /// Something of another origin.
    Foreign(String),
}

impl Files {
    /// Makes `directory` where it is not there (not those above it), and takes the files in it.
    pub(super) fn take(directory: &Path) -> Result<Found, Refusal> {
        let system = |doing: &str| {
            let place = directory.display().to_string();
            let doing = doing.to_owned();
            move |e: io::Error| Refusal::System(format!("{doing} {place}"), e.to_string())
        };
        match std::fs::symlink_metadata(directory) {
            Ok(found) if !found.is_dir() => {
                return Ok(Found::Foreign(format!("{} is no directory", directory.display())));
            }
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
                if above.is_some_and(|above| !above.is_dir()) {
                    return Err(Refusal::NoDirectory(directory.to_owned()));
                }
                base::private::make_directory(directory).map_err(system("make"))?;
            }
            Err(e) => return Err(system("look at")(e)),
        }
        for part in ALL {
            if let Some(found) = foreign(&directory.join(part.name())).map_err(system("look into"))? {
                return Ok(Found::Foreign(found));
            }
        }
        let path = directory.join(Part::Meta.name());
        let mut bytes = Vec::new();
        let was_there = match open(&path, false) {
            Ok(mut file) => {
                file.read_to_end(&mut bytes).map_err(system("read"))?;
                true
            }
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            Err(e) => return Err(system("open")(e)),
        };
        if was_there && !meta::is_ours(&bytes) {
            return Ok(Found::Foreign(format!("{} was not made by millrace", path.display())));
        }
        if !was_there && let Some(part) = ALL.into_iter().find(|p| directory.join(p.name()).exists()) {
            let other = directory.join(part.name());
            return Ok(Found::Foreign(format!(
                "{} is there without its {}",
                other.display(),
                Part::Meta.name()
            )));
        }
        let meta = open(&path, true).map_err(system("open"))?;
        let meta = Locked::new(meta).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => Refusal::Locked(directory.to_owned()),
            _ => system("lock")(e),
        })?;
        // Only now: whoever had the lock until a moment ago may have written.
        bytes.clear();
        open(&path, false).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(system("read"))?;
        Ok(Found::Ours(Files { directory: directory.to_owned(), meta }, bytes))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, part: Part) -> PathBuf {
        self.directory.join(part.name())
    }

    /// The file of `part`, made where it is not there.
    pub(super) fn get(&self, part: Part) -> io::Result<File> {
        open(&self.path(part), true)
    }

    /// Bytes of the file of `part`; 0 where it is not there.
    pub(super) fn len(&self, part: Part) -> u64 {
        self.path(part).symlink_metadata().map_or(0, |found| found.len())
    }

    /// Writes `bytes` to the beginning of the file of `part` and has the system keep them. By a mapping: a hugetlbfs knows no
    /// writing.
    pub(super) fn write(&self, part: Part, bytes: &[u8]) -> io::Result<()> {
        let file = self.get(part)?;
        let mut region = Region::in_file(file.try_clone()?, bytes.len(), PageKind::Base)?;
        let whole = region.len();
        region.hold(0..whole)?;
        // SAFETY: the mapping is ours, at least as long, and nobody else has the lock.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.start(), bytes.len()) };
        file.sync_all()
    }

    /// Has the system keep what was written to the memory.
    pub(super) fn sync(&self, parts: &[Part]) -> io::Result<()> {
        parts.iter().try_for_each(|&part| self.get(part)?.sync_all())
    }

    /// Bytes that the files have and that they could have besides.
    pub(super) fn room(&self) -> io::Result<u64> {
        let system = rustix::fs::fstatvfs(&*self.meta)?;
        // A tmpfs without a limit says that it has no blocks at all.
        if system.f_blocks == 0 {
            return Ok(u64::MAX);
        }
        let blocks = |part| self.path(part).symlink_metadata().map_or(0, |found| found.blocks());
        let held: u64 = ALL.map(blocks).iter().sum();
        Ok(system.f_bavail.saturating_mul(system.f_frsize).saturating_add(held * 512))
    }

    /// Empties the files of these parts, so that their room is the file system's again.
    pub(super) fn empty(&self, parts: &[Part]) -> io::Result<()> {
        parts.iter().try_for_each(|&part| self.get(part)?.set_len(0))
    }

    /// Says that a process has the store, before it changes anything.
    pub(super) fn mark_in_use(&self) -> io::Result<()> {
        self.write(Part::Meta, &meta::in_use())
    }

    /// Says that the store is whole, after everything else.
    pub(super) fn mark_closed(&self, image: &[u8]) -> io::Result<()> {
        // The image first, behind a page that says "in use" still.
        let mut bytes = meta::in_use().to_vec();
        bytes.extend_from_slice(image);
        self.write(Part::Meta, &bytes)?;
        self.write(Part::Meta, &meta::closed(image))?;
        self.meta.sync_all()
    }
}

/// What is wrong with what is at `path`, if it cannot be of our making.
fn foreign(path: &Path) -> io::Result<Option<String>> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let is = |what: &str| Ok(Some(format!("{} {what}", path.display())));
    if !found.is_file() {
        return is("is no regular file");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return is("belongs to another user");
    }
    Ok(None)
}

fn open(path: &Path, make: bool) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = File::options();
    options.read(true).write(make).create(make).mode(base::private::FILE_MODE).custom_flags(flags);
    options.open(path)
}
