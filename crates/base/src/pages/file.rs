//! A region that lies in a file: what is written to it outlives the process.
//!
//! ```text
//!  file     │ held │ hole │ held │ hole … │      length of the file = length of the mapping
//!  mapping  │ used │  –   │ used │   –    │      MAP_SHARED
//! ```
//! A write into a hole takes a block then and there, and where the file system has none left the process dies of SIGBUS. So whoever
//! uses a region of this kind calls [`Region::hold`] first, which takes the blocks or says that there are none.
//!
//! Bounds: [`Region::hold`] and [`Region::release`] are system calls; on a tmpfs the first costs what the first touch of anonymous
//! memory costs, since it takes the pages.
//!
//! Errors: the system's, in words that say what to do where it is known.

use super::{HUGE_PAGE, PageKind, Region};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::ops::Range;

/// The most that one call to the system holds, so that a signal that ends it undoes little.
const HOLD_STEP: usize = 64 << 20;

impl Region {
    /// Maps the first `len` bytes of `file` or more, up to whole pages of its file system; a shorter file is made as long, without
    /// taking room. `kind` counts only on a tmpfs, which joins pages as its mount says (`huge=within_size` or `always`: what is held has
    /// them at once; asking for them is not enough); a file of a hugetlbfs has that file system's pages.
    ///
    /// # Errors
    /// The system's: the file is not open for reading and writing, or its file system maps no files.
    #[cfg(not(miri))]
    pub fn in_file(file: File, len: usize, kind: PageKind) -> io::Result<Region> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
        let system = rustix::fs::fstatfs(&file)?;
        let (round, kind) = match (system.f_type as u64, kind) {
            (HUGETLBFS, _) if system.f_bsize as usize > HUGE_PAGE => {
                (system.f_bsize as usize, PageKind::Huge1G)
            }
            (HUGETLBFS, _) => (system.f_bsize as usize, PageKind::Huge2M),
            (TMPFS, kind) if kind != PageKind::Base => (HUGE_PAGE, PageKind::Transparent),
            _ => (4096, PageKind::Base),
        };
        let too_long = || io::Error::new(io::ErrorKind::OutOfMemory, "length beyond the address space");
        let len = len.max(1).checked_next_multiple_of(round).ok_or_else(too_long)?;
        if file.metadata()?.len() < len as u64 {
            file.set_len(len as u64)?;
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of this process.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )?
        };
        if kind == PageKind::Transparent {
            // SAFETY: advice on our own mapping, which changes no content. Refused, it costs speed alone.
            let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        }
        let start = std::ptr::NonNull::new(start.cast()).expect("mmap never returns null");
        Ok(Region { start, len, kind, file: Some(file) })
    }

    /// Miri maps no files.
    ///
    /// # Errors
    /// Always.
    #[cfg(miri)]
    pub fn in_file(_file: File, _len: usize, _kind: PageKind) -> io::Result<Region> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether it lies in a file.
    pub fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    /// Takes the room for `range` from the file system, so that no write there can find none. Of anonymous memory, which has no file
    /// system, it takes nothing and cannot fail.
    ///
    /// # Errors
    /// `StorageFull`; what was held before is held still. The file system cannot hold room for a file.
    pub fn hold(&mut self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        let Some(file) = &self.file else { return Ok(()) };
        self.expect_room(range.len())?;
        let mut at = range.start;
        while at < range.end {
            let bytes = (range.end - at).min(HOLD_STEP);
            let step = || rustix::fs::fallocate(file, FallocateFlags::empty(), at as u64, bytes as u64);
            rustix::io::retry_on_intr(step).map_err(in_words)?;
            at += bytes;
        }
        Ok(())
    }

    /// An error for more than its file system has, before it is filled for nothing while others on it starve.
    ///
    /// # Errors
    /// `StorageFull`.
    pub fn expect_room(&self, bytes: usize) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let system = rustix::fs::fstatvfs(file)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        // Some of it may be held already.
        let held = std::os::unix::fs::MetadataExt::blocks(&file.metadata()?) * 512;
        // A tmpfs without a limit says that it has no blocks at all.
        match system.f_blocks > 0 && bytes as u64 > free.saturating_add(held) {
            true => Err(in_words(rustix::io::Errno::NOSPC)),
            false => Ok(()),
        }
    }

    /// [`Region::release`] of a region in a file: a hole, whose room is the file system's again.
    pub(super) fn punch(file: &File, range: Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punch = || rustix::fs::fallocate(file, flags, range.start as u64, range.len() as u64);
        rustix::io::retry_on_intr(punch).map_err(in_words)
    }
}

#[cfg(not(miri))]
const TMPFS: u64 = 0x0102_1994;
#[cfg(not(miri))]
const HUGETLBFS: u64 = 0x9584_58F6;

fn in_words(error: rustix::io::Errno) -> io::Error {
    use rustix::io::Errno;
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::NOMEM => {
            io::Error::new(io::ErrorKind::StorageFull, "no room is left on its file system")
        }
        Errno::OPNOTSUPP | Errno::NOSYS => io::Error::new(
            io::ErrorKind::Unsupported,
            "its file system cannot hold room for a file (fallocate); give a place on a tmpfs",
        ),
        other => other.into(),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::path::Path;
    use tempfile::TempDir;

    fn open(path: &Path) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(path).expect("a file of ours")
    }

    fn blocks(path: &Path) -> u64 {
        std::os::unix::fs::MetadataExt::blocks(&path.metadata().expect("it is there"))
    }

    #[test]
    fn what_is_written_is_there_for_the_next_and_holes_take_no_room() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("next");
        let mut region = Region::in_file(open(&path), 1 << 20, PageKind::Transparent).expect("a mapping");
        assert!(region.is_in_file() && region.len() >= 1 << 20);
        assert_eq!(blocks(&path), 0, "a region takes room only where it is held");
        region.hold(4096..12288).expect("8 KiB");
        assert!(blocks(&path) * 512 >= 8192);
        // SAFETY: inside the mapping, single-threaded.
        unsafe { region.start().add(4096).write_bytes(7, 8192) };
        region.release(8192..12288).expect("whole pages");
        // On a tmpfs whole huge pages, elsewhere what was asked for.
        let whole = region.len() as u64;
        drop(region);
        let region = Region::in_file(open(&path), 4096, PageKind::Base).expect("a shorter mapping");
        assert_eq!((region.len(), path.metadata().expect("there").len()), (4096, whole), "it is not cut");
        drop(region);
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!((bytes[4095], bytes[4096], bytes[8191], bytes[8192]), (0, 7, 7, 0));
    }

    #[test]
    fn no_room_is_an_error_and_not_a_signal() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("room");
        // More than any file system of a test machine has, and less than a file may be long.
        let mut region = Region::in_file(open(&path), 1 << 43, PageKind::Base).expect("address space");
        region.hold(0..4096).expect("4 KiB");
        let error = region.hold(0..1 << 43).expect_err("8 TiB");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error:?}");
        assert!(blocks(&path) * 512 < 1 << 20, "the file system was not filled up to see it");
        drop(region);
    }

    #[test]
    fn anonymous_memory_has_nothing_to_hold() {
        let mut region = Region::map(1 << 16, PageKind::Base).expect("64 KiB");
        assert!(!region.is_in_file());
        region.hold(0..1 << 16).expect("nothing is asked of anybody");
    }
}
