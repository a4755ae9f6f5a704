//! A shared mapping of a file descriptor: the memory under rings that cross a process boundary.

use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory that several processes map. Nothing in it may be believed, and no reference into it is ever made except to
/// atomics.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping is an address range; all access goes through atomics or raw reads by its users.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`, shared, readable and writable. The caller has checked that the file cannot
    /// shrink (a seal), or touching it may kill this process.
    ///
    /// # Errors
    /// The system's.
    pub fn shared(file: impl AsFd, len: usize) -> io::Result<Arc<Mapping>> {
        Mapping::with(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same, readable only.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn shared_read_only(file: impl AsFd, len: usize) -> io::Result<Arc<Mapping>> {
        Mapping::with(file, len, ProtFlags::READ)
    }

    fn with(file: impl AsFd, len: usize, access: ProtFlags) -> io::Result<Arc<Mapping>> {
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing in this process.
        let raw = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file.as_fd(), 0)? };
        let start = NonNull::new(raw.cast()).expect("mmap never returns null");
        Ok(Arc::new(Mapping { start, len }))
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true; the system refuses an empty mapping.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of `count` elements of `S` at byte `offset`.
    ///
    /// # Panics
    /// When they are not inside the mapping or not aligned: layouts are computed and checked by us before.
    pub(crate) fn at<S>(&self, offset: usize, count: usize) -> NonNull<S> {
        let bytes = count.checked_mul(size_of::<S>()).and_then(|n| n.checked_add(offset));
        assert!(
            bytes.is_some_and(|end| end <= self.len),
            "{count} slots at {offset} leave a mapping of {}",
            self.len
        );
        assert!(
            offset.is_multiple_of(align_of::<S>()),
            "offset {offset} is not aligned to {}",
            align_of::<S>()
        );
        // SAFETY: inside the mapping, as just asserted.
        unsafe { self.start.add(offset) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every user of its memory holds an Arc of it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    /// A zeroed mapping for tests.
    pub(crate) fn anonymous(len: usize) -> Arc<Mapping> {
        let file = memfd_create("millrace-test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, len as u64).expect("sized");
        Mapping::shared(&file, len).expect("mapped")
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn two_mappings_of_one_file_are_one_memory() {
        let file = memfd_create("millrace-test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, 4096).expect("sized");
        let [a, b] = [(); 2].map(|()| Mapping::shared(&file, 4096).expect("mapped"));
        // SAFETY: inside both mappings, single-threaded.
        unsafe { a.at::<u64>(8, 1).write_volatile(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { b.at::<u64>(8, 1).read_volatile() }, 7);
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    #[should_panic(expected = "leave a mapping")]
    fn nothing_beyond_the_end_has_an_address() {
        anonymous(4096).at::<u64>(4096, 1);
    }
}
