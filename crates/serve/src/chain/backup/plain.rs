//! A file as a medium: one that grows with what is written, for a backup, or one that is only read.
//!
//! Opening a log writes to it (a new life begins); what is only read must not change, so writes to it are forgotten. Reading from it what
//! was written to it is not needed: recovery has read before it writes.

use base::private;
use rustix::fs::{FlockOperation, fdatasync, flock};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use store::redo::{Class, Media};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Plain {
    file: fs::File,
    len: u64,
    is_written: bool,
}

impl Plain {
    /// A new file that takes no more room than what is written to it, which is less than `len`.
    pub(super) fn create(path: &Path, len: u64) -> io::Result<Plain> {
        Ok(Plain { file: private::create(path)?, len, is_written: true })
    }

    /// A file that is there, locked against whoever would write it.
    pub(super) fn open(path: &Path) -> io::Result<Plain> {
        let file = fs::File::open(path)?;
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        let len = file.metadata()?.len();
        Ok(Plain { file, len, is_written: false })
    }
}

impl Media for Plain {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_written { self.file.write_all_at(bytes, offset) } else { Ok(()) }
    }

    fn persist(&mut self, _: &[Range<u64>]) -> io::Result<()> {
        if self.is_written { Ok(fdatasync(&self.file)?) } else { Ok(()) }
    }

    fn class(&self) -> Class {
        Class::PowerLoss
    }
}
