//! Where the memory of a store comes from: the system, the files of a directory, or files without names.
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
//! Files without names ([`Unnamed`]) belong to one process, in which stores hand them to each other: a simulation needs no directory, and what is above does
//! not tell the difference.
//!
//! Whose: files are made for their owner alone, symbolic links are not followed, and files of another user are not believed.

use super::{Place, Refusal, Whose, meta};
use base::files::Locked;
use base::pages::{PageKind, Region};
use rustix::fs::OFlags;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// What people are told.
    directory: PathBuf,
    /// Open for as long as the store has its memory in them: the lock goes with it.
    lock: Lock,
}

#[derive(Debug)]
enum Lock {
    /// On `millrace.meta` of the directory.
    File(Locked),
    Unnamed(Taken),
}

/// Unnamed files that a store has; others may have them when this is gone.
#[derive(Debug)]
struct Taken(Arc<Unnamed>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// Files without names, of this process alone.
#[derive(Debug)]
pub struct Unnamed {
    files: [File; ALL.len()],
    is_taken: AtomicBool,
}

/// What may become of what a store left, to see that it is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoiled {
    /// Another version of the program had it.
    OtherLayout,
    /// Its items were cut off.
    Cut,
    /// This bit of what the store knew beside its memory is another, counted from the first and again from the first after the last.
    Bit(usize),
}

impl Unnamed {
    /// Empty ones.
    ///
    /// # Errors
    /// The system's: it has no room for open files.
    pub fn new() -> io::Result<Unnamed> {
        use rustix::fs::{MemfdFlags, memfd_create};
        let make = |part: Part| memfd_create(part.name(), MemfdFlags::CLOEXEC).map(File::from);
        let [meta, heap, index, overflow, ghosts, large] = ALL.map(make);
        let files = [meta?, heap?, index?, overflow?, ghosts?, large?];
        Ok(Unnamed { files, is_taken: AtomicBool::new(false) })
    }

    /// The same bytes in other files, as when somebody copies a directory.
    ///
    /// # Errors
    /// The system's.
    pub fn copy(&self) -> io::Result<Unnamed> {
        let copy = Unnamed::new()?;
        for (from, to) in self.files.iter().zip(&copy.files) {
            let len = from.metadata()?.len();
            to.set_len(len)?;
            // Most of them is address space alone.
            let mut at = 0;
            while let Some(data) = next_data(from, at)? {
                let mut bytes = vec![0; (data.end - data.start) as usize];
                from.read_exact_at(&mut bytes, data.start)?;
                to.write_all_at(&bytes, data.start)?;
                at = data.end;
            }
        }
        Ok(copy)
    }

    /// Another process has them from now on, or has them no more.
    pub fn set_taken(&self, is_taken: bool) {
        self.is_taken.store(is_taken, Ordering::Release);
    }

    /// Something becomes of what was left in them, while nobody has them.
    ///
    /// # Errors
    /// The system's.
    pub fn spoil(&self, how: Spoiled) -> io::Result<()> {
        let meta = self.file(Part::Meta);
        let mut bytes = self.read(Part::Meta)?;
        match how {
            Spoiled::OtherLayout => meta::become_other(&mut bytes),
            Spoiled::Cut => return self.file(Part::Heap).set_len(4096),
            Spoiled::Bit(_) if bytes.is_empty() => {}
            // What is behind the image is nothing.
            Spoiled::Bit(bit) => {
                let at = bit / 8 % meta::used(&bytes);
                bytes[at] ^= 1 << (bit % 8);
            }
        }
        meta.write_all_at(&bytes, 0)
    }

    fn file(&self, part: Part) -> &File {
        &self.files[part as usize]
    }

    fn read(&self, part: Part) -> io::Result<Vec<u8>> {
        let file = self.file(part);
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// What a directory holds.
pub(super) enum Found {
    /// Files of ours, perhaps new ones, and what `millrace.meta` says: nothing where it is new.
    Ours(Files, Vec<u8>),
    /// Something of another origin.
    Foreign(String),
}

impl Files {
    /// Takes the files of `place`.
    pub(super) fn take(place: &Place) -> Result<Found, Refusal> {
        match place {
            Place::Directory(directory) => Files::in_directory(directory),
            Place::Unnamed(files) => Files::unnamed(files),
        }
    }

    fn unnamed(files: &Arc<Unnamed>) -> Result<Found, Refusal> {
        let directory = PathBuf::from("files without names");
        if files.is_taken.swap(true, Ordering::AcqRel) {
            return Err(Refusal::Locked(directory));
        }
        let lock = Lock::Unnamed(Taken(Arc::clone(files)));
        let bytes = files.read(Part::Meta).map_err(|e| Refusal::System("read".to_owned(), e.to_string()))?;
        Ok(Found::Ours(Files { directory, lock }, bytes))
    }

    /// Makes `directory` where it is not there (not those above it), and takes the files in it.
    fn in_directory(directory: &Path) -> Result<Found, Refusal> {
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
        let lock = Lock::File(meta);
        Ok(Found::Ours(Files { directory: directory.to_owned(), lock }, bytes))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of `part`, made where it is not there.
    pub(super) fn get(&self, part: Part) -> io::Result<File> {
        match &self.lock {
            Lock::File(_) => open(&self.directory.join(part.name()), true),
            Lock::Unnamed(Taken(files)) => files.file(part).try_clone(),
        }
    }

    fn metadata(&self, part: Part) -> Option<Metadata> {
        match &self.lock {
            Lock::File(_) => self.directory.join(part.name()).symlink_metadata().ok(),
            Lock::Unnamed(Taken(files)) => files.file(part).metadata().ok(),
        }
    }

    /// Bytes of the file of `part`; 0 where it is not there.
    pub(super) fn len(&self, part: Part) -> u64 {
        self.metadata(part).map_or(0, |found| found.len())
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
        // Memory of the system, which has no limit that it would say.
        let Lock::File(meta) = &self.lock else { return Ok(u64::MAX) };
        let system = rustix::fs::fstatvfs(&**meta)?;
        // A tmpfs without a limit says that it has no blocks at all.
        if system.f_blocks == 0 {
            return Ok(u64::MAX);
        }
        let blocks = |part| self.metadata(part).map_or(0, |found| found.blocks());
        let held: u64 = ALL.map(blocks).iter().sum();
        Ok(system.f_bavail.saturating_mul(system.f_frsize).saturating_add(held * 512))
    }

    /// Empties the files of these parts, so that their room is the file system's again.
    pub(super) fn empty(&self, parts: &[Part]) -> io::Result<()> {
        parts.iter().try_for_each(|&part| self.get(part)?.set_len(0))
    }

    /// Says that a process has the store, before it changes anything.
    pub(super) fn mark_in_use(&self, whose: Whose) -> io::Result<()> {
        self.write(Part::Meta, &meta::in_use(whose))
    }

    /// Says that the store is whole, after everything else.
    pub(super) fn mark_closed(&self, whose: Whose, image: &[u8]) -> io::Result<()> {
        // The image first, behind a page that says "in use" still.
        let mut bytes = meta::in_use(whose).to_vec();
        bytes.extend_from_slice(image);
        self.write(Part::Meta, &bytes)?;
        self.write(Part::Meta, &meta::closed(whose, image))?;
        self.sync(&[Part::Meta])
    }
}

/// What was written of a file, from `at` on.
fn next_data(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => Ok(Some(start..seek(file, SeekFrom::Hole(start))?)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
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
