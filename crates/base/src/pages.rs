//! Large memory, anonymous or in a file (`file`), on the largest pages that can be had, and an honest word on which were.
//!
//! Why: at tens of gigabytes most misses also miss the TLB; 2 MiB pages are worth 1.35× on dependent misses and 1.75× on
//! row gathers here. Transparent huge pages by `madvise` need no privilege and are the default; `hugetlb` pages are
//! taken only when asked for, and fall back.
//!
//! Bounds: a [`Region`] reserves address space; memory is used page by page when first written. First touch is slow
//! (0.2–6 GB/s), so what must be fast later calls [`Region::populate`].

#[cfg(not(miri))]
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

mod file;

/// Bytes in a page of the kind that [`PageKind::Huge2M`] and [`PageKind::Transparent`] use.
pub const HUGE_PAGE: usize = 2 << 20;

/// Which pages back a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 4 KiB pages only.
    Base,
    /// 4 KiB pages that the kernel was asked to join into 2 MiB ones (`madvise(MADV_HUGEPAGE)`).
    Transparent,
    /// Reserved 2 MiB pages (`MAP_HUGETLB`).
    Huge2M,
    /// Reserved 1 GiB pages.
    Huge1G,
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PageKind::Base => "4 KiB pages",
            PageKind::Transparent => "transparent huge pages (asked for)",
            PageKind::Huge2M => "2 MiB hugetlb pages",
            PageKind::Huge1G => "1 GiB hugetlb pages",
        })
    }
}

/// An owned mapping: anonymous, zeroed, private, and aligned to 2 MiB when it is at least that long; or of a file, shared
/// ([`Region::in_file`]).
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    kind: PageKind,
    file: Option<File>,
}

// SAFETY: a Region is plain memory behind a pointer that it owns alone.
unsafe impl Send for Region {}
// SAFETY: through &Region only the address, the length and the kind can be read.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `len` bytes, on pages of `kind` or of the best kind below it that the system grants.
    ///
    /// # Errors
    /// The system's (`ENOMEM`: the address space or the overcommit limit is exhausted).
    pub fn map(len: usize, kind: PageKind) -> io::Result<Region> {
        let order: &[PageKind] = match kind {
            PageKind::Huge1G => &[PageKind::Huge1G, PageKind::Huge2M, PageKind::Transparent],
            PageKind::Huge2M => &[PageKind::Huge2M, PageKind::Transparent],
            PageKind::Transparent => &[PageKind::Transparent],
            PageKind::Base => &[],
        };
        for &kind in order {
            if let Ok(region) = Region::map_as(len, kind) {
                return Ok(region);
            }
        }
        Region::map_as(len, PageKind::Base)
    }

    /// Miri knows no advice and no partial unmapping: there, base pages from the allocator stand in.
    #[cfg(miri)]
    fn map_as(len: usize, kind: PageKind) -> io::Result<Region> {
        if kind != PageKind::Base {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let len = len.max(1).next_multiple_of(4096);
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(Region::layout(len)) };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { start, len, kind, file: None })
    }

    #[cfg(miri)]
    fn layout(len: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(len, 4096).expect("a length below the address space")
    }

    #[cfg(not(miri))]
    fn map_as(len: usize, kind: PageKind) -> io::Result<Region> {
        let (round, flags) = match kind {
            PageKind::Base => (4096, MapFlags::empty()),
            PageKind::Transparent => (HUGE_PAGE, MapFlags::empty()),
            PageKind::Huge2M => (HUGE_PAGE, MapFlags::HUGETLB | MapFlags::HUGE_2MB),
            PageKind::Huge1G => (1 << 30, MapFlags::HUGETLB | MapFlags::HUGE_1GB),
        };
        let too_long = || io::Error::new(io::ErrorKind::OutOfMemory, "length beyond the address space");
        let len = len.max(1).checked_next_multiple_of(round).ok_or_else(too_long)?;
        let hugetlb = flags.contains(MapFlags::HUGETLB);
        // Ordinary mappings are page-aligned only: ask for one huge page more and give the ends back.
        let slack = if kind == PageKind::Transparent { HUGE_PAGE } else { 0 };
        let asked = len.checked_add(slack).ok_or_else(too_long)?;
        let reserve = if hugetlb { MapFlags::empty() } else { MapFlags::NORESERVE };
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let raw = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                asked,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | reserve | flags,
            )?
        }
        .cast::<u8>();
        let lead = raw.align_offset(if slack == 0 { 1 } else { HUGE_PAGE });
        // SAFETY: [raw, raw + lead) and the tail are whole pages inside the mapping made above, and unused.
        let start = unsafe {
            if lead > 0 {
                munmap(raw.cast(), lead)?;
            }
            if slack > lead {
                munmap(raw.add(lead + len).cast(), slack - lead)?;
            }
            NonNull::new(raw.add(lead)).expect("mmap never returns null")
        };
        let mut kind = kind;
        if kind == PageKind::Transparent {
            // SAFETY: advice on our own mapping; LinuxHugepage changes no content.
            let advised = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
            if advised.is_err() {
                kind = PageKind::Base;
            }
        }
        Ok(Region { start, len, kind, file: None })
    }

    /// The first byte.
    #[inline(always)]
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true; a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Which pages were granted.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Writes one zero to every page of `range`, so that later first writes are not slow. Only for ranges never written.
    pub fn populate(&mut self, range: std::ops::Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        for at in range.step_by(4096) {
            // SAFETY: `at` is inside the mapping and &mut self means nobody else reads it.
            unsafe { self.start.as_ptr().add(at).write_volatile(0) };
        }
    }

    /// Gives the memory of `range` (whole 4 KiB pages) back to the system; it reads as zero afterwards.
    ///
    /// # Errors
    /// The system's; on hugetlb pages a range that is not a whole huge page is refused.
    pub fn release(&mut self, range: std::ops::Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        assert!(range.start.is_multiple_of(4096) && range.end.is_multiple_of(4096), "whole pages: {range:?}");
        if let Some(file) = &self.file {
            return Region::punch(file, range);
        }
        #[cfg(miri)]
        // SAFETY: inside our own memory, and &mut self means that nobody holds a reference into it.
        unsafe {
            self.start.as_ptr().add(range.start).write_bytes(0, range.len())
        };
        #[cfg(not(miri))]
        // SAFETY: our own pages, and &mut self means that nobody holds a reference into them.
        unsafe {
            madvise(self.start.as_ptr().add(range.start).cast(), range.len(), Advice::LinuxDontNeed)?
        };
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        #[cfg(miri)]
        // SAFETY: allocated in map_as with this layout.
        unsafe {
            std::alloc::dealloc(self.start.as_ptr(), Region::layout(self.len))
        };
        #[cfg(not(miri))]
        // SAFETY: the mapping is ours and nothing borrowed from it outlives self.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        #[cfg(not(miri))]
        debug_assert!(unmapped.is_ok());
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:p}, {}, {})", self.start, crate::Bytes(self.len as u64), self.kind)
    }
}

/// Bytes of this process that live on huge pages now, transparent and hugetlb, as the kernel counts them.
///
/// # Errors
/// When `/proc/self/smaps_rollup` cannot be read.
pub fn huge_bytes_in_use() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let kib = |name: &str| -> u64 {
        let value = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("0");
        value.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    Ok((kib("AnonHugePages:") + kib("Private_Hugetlb:") + kib("Shared_Hugetlb:")) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_maps_or_falls_back_and_is_writable() {
        for kind in [PageKind::Base, PageKind::Transparent, PageKind::Huge2M, PageKind::Huge1G] {
            let mut region = Region::map(HUGE_PAGE + 1, kind).expect("some pages can always be had");
            assert!(region.len() > HUGE_PAGE);
            if region.kind() != PageKind::Base {
                assert_eq!(region.start() as usize % HUGE_PAGE, 0);
            }
            let len = region.len();
            region.populate(0..len);
            // SAFETY: inside the mapping, single-threaded.
            unsafe {
                region.start().add(len - 1).write(7);
                assert_eq!(region.start().add(len - 1).read(), 7);
            }
        }
    }

    #[test]
    fn released_memory_reads_as_zero() {
        let mut region = Region::map(1 << 16, PageKind::Base).expect("64 KiB");
        // SAFETY: inside the mapping, single-threaded.
        unsafe { region.start().add(4096).write(9) };
        region.release(4096..8192).expect("our own pages");
        // SAFETY: as above.
        assert_eq!(unsafe { region.start().add(4096).read() }, 0);
    }

    #[test]
    fn impossible_lengths_are_errors() {
        assert!(Region::map(usize::MAX, PageKind::Transparent).is_err());
        assert!(Region::map(1 << 60, PageKind::Base).is_err());
    }
}
