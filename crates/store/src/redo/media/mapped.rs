//! A mapped file, persisted by writing cache lines back: persistent memory as programs see it.
//!
//! On a DAX file system (`MAP_SYNC`) a line that was written back survives loss of power. Anywhere else (tmpfs, hugetlbfs, page cache) the same
//! instructions run, but what they write to is the machine's memory: that survives the process, and [`Mapped::class`] says so. [`Mapped::by_sync`] makes
//! it durable by `fdatasync` instead, which writes whole pages.
//!
//! Bounds: the file is prewritten, so the file system cannot run out of room at a store; it is locked, but who shrinks it regardless ends
//! this process with SIGBUS.

use super::flush::Flush;
use super::{Class, File, How, Media, within};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;

/// A locked, prewritten, mapped file.
pub struct Mapped {
    start: NonNull<u8>,
    len: usize,
    flush: Flush,
    class: Class,
    /// It is synced, and no line written back.
    by_sync: bool,
    /// Keeps the lock.
    file: File,
}

// SAFETY: the mapping is plain memory that this value alone has (in this process; the lock keeps others away).
unsafe impl Send for Mapped {}

impl Mapped {
    /// Makes a file of `len` zeros and maps it. There must be none yet.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path, len: u64) -> io::Result<Mapped> {
        Mapped::map(File::create(path, len, How::Fdatasync)?)
    }

    /// Maps what [`Mapped::create`] made.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        Mapped::map(File::open(path, How::Fdatasync)?)
    }

    fn map(file: File) -> io::Result<Mapped> {
        let len = usize::try_from(file.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let try_map = |flags| {
            // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long and locked.
            unsafe { mmap(std::ptr::null_mut(), len, access, flags, file.inner(), 0) }
        };
        let (start, class) = match try_map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
            Ok(start) => (start, Class::PowerLoss),
            Err(_) => (try_map(MapFlags::SHARED)?, Class::ProcessCrash),
        };
        let start = NonNull::new(start.cast()).expect("mmap never returns null");
        Ok(Mapped { start, len, flush: Flush::best(), class, by_sync: false, file })
    }

    /// The same, made durable by `fdatasync`: what it survives is then what the file's device does.
    #[must_use]
    pub fn by_sync(mut self) -> Mapped {
        (self.class, self.by_sync) = (Class::PowerLoss, true);
        self
    }

    /// The instruction that writes lines back here.
    pub fn instruction(&self) -> &'static str {
        self.flush.name()
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Media for Mapped {
    fn len(&self) -> u64 {
        self.len as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = within(offset, out.len(), self.len())?;
        // SAFETY: inside the mapping, which only &mut self writes to; `out` is elsewhere.
        unsafe { out.as_mut_ptr().copy_from_nonoverlapping(self.at(at.start), at.len()) };
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = within(offset, bytes.len(), self.len())?;
        // SAFETY: inside the mapping, and nobody else has it; `bytes` is elsewhere.
        unsafe { self.at(at.start).copy_from_nonoverlapping(bytes.as_ptr(), at.len()) };
        Ok(())
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        if self.by_sync {
            return self.file.persist(ranges);
        }
        for range in ranges {
            let at = within(range.start, (range.end - range.start) as usize, self.len())?;
            // SAFETY: inside the mapping, which is whole pages.
            unsafe { self.flush.lines(self.at(at.start), at.len()) }?;
        }
        self.flush.fence();
        Ok(())
    }

    fn class(&self) -> Class {
        self.class
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping; nothing borrowed from it outlives self.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
