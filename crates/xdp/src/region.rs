//! Memory of shared structures: a map of the kernel's, seen by the XDP program as well, or (in tests and where there is no XDP)
//! memory of this process alone.

use crate::layout::Shared;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// `len` structures in a row.
pub(crate) struct Region<T: Shared> {
    start: NonNull<T>,
    len: usize,
    bytes: usize,
    of: PhantomData<T>,
}

// SAFETY: T is made of atomics, and the mapping belongs to the process, not to a thread.
unsafe impl<T: Shared> Send for Region<T> {}
// SAFETY: as above; through a shared reference only atomics are reached.
unsafe impl<T: Shared> Sync for Region<T> {}

impl<T: Shared> Region<T> {
    /// The values of an array map that was made with BPF_F_MMAPABLE for `len` of `T`.
    pub fn of_map(map: BorrowedFd<'_>, len: usize) -> io::Result<Region<T>> {
        Region::map(len, libc::MAP_SHARED, map.as_raw_fd())
    }

    /// Memory of this process, zeroed.
    pub fn private(len: usize) -> Region<T> {
        Region::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).expect("memory for a table is there")
    }

    fn map(len: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<Region<T>> {
        assert!(len > 0 && align_of::<T>() <= 4096, "a mapping begins at a page and has something in it");
        let bytes = (len * size_of::<T>()).next_multiple_of(4096);
        // SAFETY: the kernel chooses the place, so nothing that is mapped already is touched.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("nothing is mapped at 0");
        Ok(Region { start, len, bytes, of: PhantomData })
    }
}

impl<T: Shared> Deref for Region<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` of T are mapped as long as self lives; any bytes are a T (`Shared`), and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Shared> Drop for Region<T> {
    fn drop(&mut self) {
        // SAFETY: `map` made this very mapping, and no reference into it outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
