//! A region: memory that its owner lends, and that peers on the same machine read and write by themselves, without a thread of the owner.
//!
//! ```text
//! 0                                4096
//! │ magic, version, length, state  │ the region's bytes, in words of eight │
//! ```
//! **What an access shows that goes on beside another**: each aligned word of eight bytes is whole, as it was before or after; the words of an access may be
//! from before and after in any order. Accesses of one peer are seen by others in the order in which it made them. [`Region::compare_swap`] and
//! [`Region::fetch_add`] are atomic with all others.
//!
//! **Who may write**: a peer has a descriptor for reading alone, or for both. A region that is lent for reading only is sealed against every other mapping for
//! writing; a peer of the same user with a descriptor for reading of one that others may write could open it again, as it could trace its owner.
//!
//! **Revoked** ([`Region::revoke`]): the file's pages are given back, so a peer that goes on sees zeros and no byte of what the owner does from then on; one
//! that keeps to the rules asks [`Region::state`] before it uses what it read.
//!
//! A peer may write anything anywhere in it. The owner must not believe what it finds.

use super::AttachError;
use super::segment::SEALS;
use crate::Mapping;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals,
    fcntl_get_seals, fdatasync, flock, fstat, ftruncate, memfd_create, open,
};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// `b"millregn"`, little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"millregn");
const VERSION: u64 = 1;
/// Bytes before the region's: a page.
const HEADER: usize = 4096;
/// Bytes of a region at most.
pub const REGION_MAX: usize = 1 << 40;
const WORD: usize = 8;
/// Bytes that are asked for ahead: the processor's own prefetcher has the rest of what is longer.
const TOUCH_MAX: usize = 256;

/// Words of the header.
#[derive(Clone, Copy)]
enum Field {
    Magic,
    Version,
    Length,
    State,
}

/// Whether a region may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It may.
    Open,
    /// Its owner has taken it back.
    Revoked,
}

/// An access beyond a region's end, or of a word that is not aligned to eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

impl std::fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("beyond the region's end, or a word that is not aligned to eight bytes")
    }
}

impl std::error::Error for OutOfBounds {}

/// See the head of the file: its owner's end, or a peer's.
#[derive(Debug)]
pub struct Region {
    memory: Arc<Mapping>,
    len: usize,
    file: OwnedFd,
    is_writable: bool,
    /// It is in a file. (Seals do not tell: files in memory have them as well.)
    is_file: bool,
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Bytes of the file of a region of so many.
fn file_len(len: usize) -> io::Result<usize> {
    if len == 0 || len > REGION_MAX {
        return Err(invalid(format!("a region has 1 to {REGION_MAX} bytes, not {len}")));
    }
    Ok(HEADER + len.next_multiple_of(WORD))
}

impl Region {
    /// A region of zeros in memory; `peers_write` says whether peers may ever write it.
    ///
    /// # Errors
    /// `InvalidInput` for a length that cannot be; else the system's.
    pub fn create(len: usize, peers_write: bool) -> io::Result<Region> {
        let bytes = file_len(len)?;
        let file = memfd_create("millrace-region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        let memory = Mapping::shared(&file, bytes)?;
        let region = Region { memory, len, file, is_writable: true, is_file: false };
        region.write_header();
        // This mapping stays writable; no other becomes so.
        let more = if peers_write { SealFlags::empty() } else { SealFlags::FUTURE_WRITE };
        fcntl_add_seals(&region.file, SEALS.difference(SealFlags::SEAL) | more | SealFlags::SEAL)?;
        Ok(region)
    }

    /// A region in a file, made if it is not there; what was in it is in it. Peers reach it through its owner alone, since a file can shrink under them.
    ///
    /// # Errors
    /// `InvalidInput` for a length that cannot be, or a file that is something else or of another length; `WouldBlock` where somebody has it; else the
    /// system's, among them that there is no room for all of it.
    pub fn open_file(path: &Path, len: usize) -> io::Result<Region> {
        let bytes = file_len(len)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let had = fstat(&file)?.st_size as u64;
        if had != 0 && had != bytes as u64 {
            return Err(invalid(format!("{} is not the file of a region of {len} bytes", path.display())));
        }
        // All of it now: a write to a hole on a full disk would end the process.
        fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        let memory = Mapping::shared(&file, bytes)?;
        let region = Region { memory, len, file, is_writable: true, is_file: true };
        match region.field(Field::Magic).load(Ordering::Relaxed) {
            0 if had == 0 || region.is_unwritten() => region.write_header(),
            MAGIC if region.is_sound() => {}
            _ => return Err(invalid(format!("{} is not the file of a region", path.display()))),
        }
        region.sync()?;
        Ok(region)
    }

    /// A peer's end of what [`Region::lend`] gave.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(file: OwnedFd, is_writable: bool) -> Result<Region, AttachError> {
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(AttachError::NotSealed);
        }
        let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if !(HEADER + WORD..=HEADER + REGION_MAX).contains(&bytes) {
            return Err(AttachError::NotASegment);
        }
        let memory = if is_writable {
            Mapping::shared(&file, bytes)?
        } else {
            Mapping::shared_read_only(&file, bytes)?
        };
        let mut region = Region { memory, len: 0, file, is_writable, is_file: false };
        let is = |field, value| region.field(field).load(Ordering::Relaxed) == value;
        if !(is(Field::Magic, MAGIC) && is(Field::Version, VERSION)) {
            return Err(AttachError::NotASegment);
        }
        let len = region.field(Field::Length).load(Ordering::Relaxed);
        region.len = usize::try_from(len)
            .ok()
            .filter(|len| file_len(*len).is_ok_and(|needed| needed == bytes))
            .ok_or(AttachError::BadGeometry)?;
        Ok(region)
    }

    /// A descriptor for a peer, which can only read by it unless it is to write.
    ///
    /// # Errors
    /// `InvalidInput` to write what peers may not; else the system's.
    pub fn lend(&self, to_write: bool) -> io::Result<OwnedFd> {
        if self.is_file() {
            return Err(invalid("a region in a file is reached through its owner alone".to_owned()));
        }
        if to_write && !self.peers_write() {
            return Err(invalid("no peer may write this region".to_owned()));
        }
        let access = if to_write { OFlags::RDWR } else { OFlags::RDONLY };
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(open(path, access | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn write_header(&self) {
        self.field(Field::Version).store(VERSION, Ordering::Relaxed);
        self.field(Field::Length).store(self.len as u64, Ordering::Relaxed);
        // Last: a file without it was cut off before it was one.
        self.field(Field::Magic).store(MAGIC, Ordering::Release);
    }

    fn is_sound(&self) -> bool {
        self.field(Field::Version).load(Ordering::Relaxed) == VERSION
            && self.field(Field::Length).load(Ordering::Relaxed) == self.len as u64
    }

    /// Its maker ended before it wrote anything.
    fn is_unwritten(&self) -> bool {
        self.words(0, HEADER / WORD).iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    fn field(&self, field: Field) -> &AtomicU64 {
        &self.words(field as usize * WORD, 1)[0]
    }

    /// So many words of the file from this byte, which is aligned.
    #[inline]
    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        let start = self.memory.at::<AtomicU64>(at, count);
        // SAFETY: `at` checked place and alignment; the mapping lives as long as `self`; any bits are an AtomicU64, and all access is through these.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), count) }
    }

    /// The words of an access, and bytes of the first that it does not touch.
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<(&[AtomicU64], usize), OutOfBounds> {
        let offset = usize::try_from(offset).map_err(|_| OutOfBounds)?;
        if offset > self.len || len > self.len - offset {
            return Err(OutOfBounds);
        }
        let (first, lead) = (offset / WORD, offset % WORD);
        Ok((self.words(HEADER + first * WORD, (lead + len).div_ceil(WORD)), lead))
    }

    /// A word that may be changed atomically.
    #[inline]
    fn word(&self, offset: u64) -> Result<&AtomicU64, OutOfBounds> {
        if !offset.is_multiple_of(WORD as u64) {
            return Err(OutOfBounds);
        }
        Ok(&self.span(offset, WORD)?.0[0])
    }

    /// Where its bytes begin in this process: for whoever reaches them without it, as a network card does.
    pub fn base(&self) -> NonNull<u8> {
        self.memory.at::<AtomicU64>(HEADER, self.len.div_ceil(WORD)).cast()
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this end may write.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether it is in a file, and outlasts its owner.
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// Whether peers may write it: of one in a file, through its owner.
    pub fn peers_write(&self) -> bool {
        self.is_file
            || !fcntl_get_seals(&self.file).is_ok_and(|seals| seals.contains(SealFlags::FUTURE_WRITE))
    }

    /// Whether it may be used.
    #[inline]
    pub fn state(&self) -> State {
        match self.field(Field::State).load(Ordering::Acquire) {
            0 => State::Open,
            _ => State::Revoked,
        }
    }

    /// Brings what an access will need nearer, if it is in the region: so that the misses of several overlap.
    #[inline]
    pub fn touch(&self, offset: u64, len: usize) {
        if let Ok((words, _)) = self.span(offset, len) {
            base::touch::prefetch_span(words.as_ptr().cast(), size_of_val(words).min(TOUCH_MAX));
        }
    }

    /// Reads `to.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// [`OutOfBounds`]; `to` is as it was.
    #[inline]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), OutOfBounds> {
        let (words, lead) = self.span(offset, to.len())?;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        let (head, body) = to.split_at_mut(to.len().min(WORD - lead));
        head.copy_from_slice(&load(first)[lead..lead + head.len()]);
        let (whole, tail) = body.as_chunks_mut::<WORD>();
        for (to, word) in whole.iter_mut().zip(rest) {
            *to = load(word);
        }
        if !tail.is_empty() {
            tail.copy_from_slice(&load(&rest[whole.len()])[..tail.len()]);
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Writes `from` at `offset`.
    ///
    /// # Errors
    /// [`OutOfBounds`]; nothing is written.
    ///
    /// # Panics
    /// This end may only read.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), OutOfBounds> {
        assert!(self.is_writable, "a region that may only be read");
        let (words, lead) = self.span(offset, from.len())?;
        fence(Ordering::Release);
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        let (head, body) = from.split_at(from.len().min(WORD - lead));
        merge(first, lead, head);
        let (whole, tail) = body.as_chunks::<WORD>();
        for (from, word) in whole.iter().zip(rest) {
            word.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            merge(&rest[whole.len()], 0, tail);
        }
        Ok(())
    }

    /// Makes the aligned word at `offset` `new` if it is `expected`; what it was.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    ///
    /// # Panics
    /// This end may only read.
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, OutOfBounds> {
        assert!(self.is_writable, "a region that may only be read");
        let word = self.word(offset)?;
        let swapped = word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
        Ok(swapped.unwrap_or_else(|was| was))
    }

    /// Adds to the aligned word at `offset`, around its end; what it was.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    ///
    /// # Panics
    /// This end may only read.
    pub fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, OutOfBounds> {
        assert!(self.is_writable, "a region that may only be read");
        Ok(self.word(offset)?.fetch_add(add, Ordering::AcqRel))
    }

    /// Takes it back: peers find zeros, or that it is revoked. What its owner writes into it afterwards would be seen again, so it should not.
    ///
    /// # Errors
    /// The system's; it says that it is revoked all the same.
    ///
    /// # Panics
    /// This end may only read.
    pub fn revoke(&self) -> io::Result<()> {
        assert!(self.is_writable, "a region that may only be read");
        if self.is_file() {
            // No peer has it, and what is in it stays.
            return Ok(());
        }
        self.field(Field::State).store(1, Ordering::Release);
        // A hole cannot be made in what is sealed against writing: words are zeroed one by one there.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, len) = (HEADER as u64, self.len.next_multiple_of(WORD));
        if fallocate(&self.file, hole, start, len as u64).is_err() {
            self.words(HEADER, len / WORD).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        Ok(())
    }

    /// What was written to a region in a file is on the disk, when this returns.
    ///
    /// # Errors
    /// The system's; what is on the disk then is not known.
    pub fn sync(&self) -> io::Result<()> {
        // Pages that were changed through a mapping are the file's as any others.
        Ok(fdatasync(&self.file)?)
    }
}

impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Puts bytes into a word from its byte `at` on, and leaves the others as whoever writes them wants them.
#[inline]
fn merge(word: &AtomicU64, at: usize, bytes: &[u8]) {
    if bytes.len() == WORD {
        let whole = bytes.try_into().expect("of this length");
        return word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    }
    let merged = |was: u64| {
        let mut word = was.to_ne_bytes();
        word[at..at + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(word))
    };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
}

#[cfg(all(test, not(miri)))]
mod tests;
