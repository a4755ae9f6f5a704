//! What a log, or a checkpoint, is kept on: bytes at offsets, that survive something once they were persisted.
//!
//! | medium | survives | made durable by |
//! |---|---|---|
//! | [`File`] | loss of power, as far as its device tells the truth | `fdatasync`, or `O_DSYNC` with each write |
//! | [`Uring`] | the same | a linked `IORING_OP_FSYNC`, which the caller need not wait for |
//! | [`Mapped`] | the end of the process; loss of power if the file is persistent memory (`MAP_SYNC`) | write-back of cache lines and a fence |
//! | [`Memory`] | nothing | nothing |
//! | [`Threaded`] | what the medium inside does | that, on a thread of its own, which the caller need not wait for |
//! | [`Emulated`] | what the medium inside does | that, and the time it would have taken |
//! | [`Crashing`] | what a test says | as it says; forgets and fails on demand |

mod crashing;
mod emulated;
mod file;
mod flush;
mod mapped;
mod memory;
mod threaded;
mod uring;

pub use crashing::{Crashing, Fault};
pub use emulated::{Emulated, Traits};
pub use file::{File, How};
pub use mapped::Mapped;
pub use memory::Memory;
pub use threaded::Threaded;
pub use uring::Uring;

use std::io;
use std::ops::Range;

/// What a medium survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing: it ends with the process.
    Volatile,
    /// The end of the process (kill -9), not of the machine.
    ProcessCrash,
    /// The end of the operating system and of power, as far as the device keeps what it acknowledged.
    PowerLoss,
}

/// Bytes at offsets.
///
/// An error of [`Media::write_at`], [`Media::start`] or [`Media::persist`] leaves unknown what is on the medium; whoever uses it must not go on
/// as if it were known.
pub trait Media {
    /// How many bytes it has. Never changes.
    fn len(&self) -> u64;

    /// Never true: no medium is made without a byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads what was written last, persisted or not.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] beyond the end.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes. Survives nothing until it is persisted, but may.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] beyond the end, where nothing is written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Begins to persist what was written in these ranges, if that can be done without waiting. [`Media::persist`] waits for it.
    ///
    /// # Errors
    /// The system's.
    fn start(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        let _ = ranges;
        Ok(())
    }

    /// Whether [`Media::persist`] of what was started would not wait any more; also where nothing can be started.
    fn is_done(&mut self) -> bool {
        true
    }

    /// Makes what was written in these ranges survive what [`Media::class`] says. One call costs one flush, however many ranges.
    ///
    /// # Errors
    /// The system's.
    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()>;

    /// What it survives.
    fn class(&self) -> Class;
}

impl<M: Media + ?Sized> Media for Box<M> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, out)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write_at(offset, bytes)
    }

    fn start(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        (**self).start(ranges)
    }

    fn is_done(&mut self) -> bool {
        (**self).is_done()
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        (**self).persist(ranges)
    }

    fn class(&self) -> Class {
        (**self).class()
    }
}

/// Where `len` bytes at `offset` lie in a medium of `of` bytes.
fn within(offset: u64, len: usize, of: u64) -> io::Result<Range<usize>> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= of => Ok(offset as usize..end as usize),
        _ => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{len} bytes at {offset} are not in a medium of {of}"),
        )),
    }
}
