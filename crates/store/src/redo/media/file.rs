//! A file, prewritten: every byte was written and synced before the first record, so that persisting one need not also persist where it lies.
//!
//! Cost here: a small write and `fdatasync` 119 µs, `O_DSYNC` 112 (`docs/measurements/redo.md`); another day 212 µs, and 409 where the file grew.

use super::{Class, Media, within};
use base::files::Locked;
use rustix::fs::{OFlags, fdatasync};
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How writes become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// `fdatasync` when asked to persist.
    Fdatasync,
    /// Each write is durable when it returns (`O_DSYNC`).
    Dsync,
}

/// A locked, prewritten file.
#[derive(Debug)]
pub struct File {
    file: Arc<Locked>,
    len: u64,
    how: How,
}

impl File {
    /// Makes a file of `len` zeros, all of them written and synced. There must be none yet; what cannot be finished is removed.
    ///
    /// # Errors
    /// The system's, with what was being done; `StorageFull` if it has no room.
    pub fn create(path: &Path, len: u64, how: How) -> io::Result<File> {
        let file = open(OpenOptions::new().create_new(true).mode(base::private::FILE_MODE), path, how)?;
        let made = prewrite(&file, len).and_then(|()| base::private::sync_folder(path));
        if let Err(e) = made {
            // Of two errors the first one says more.
            let _ = fs::remove_file(path);
            return Err(told(&format!("cannot prewrite {}", base::Bytes(len)), path, &e));
        }
        Ok(File { file: Arc::new(file), len, how })
    }

    /// Opens what [`File::create`] made.
    ///
    /// # Errors
    /// The system's, with what was being done; `WouldBlock` if another process has it.
    pub fn open(path: &Path, how: How) -> io::Result<File> {
        let file = open(&mut OpenOptions::new(), path, how)?;
        let len = file.metadata()?.len();
        if len == 0 {
            return Err(told("cannot use", path, &io::Error::new(io::ErrorKind::InvalidData, "it is empty")));
        }
        Ok(File { file: Arc::new(file), len, how })
    }

    /// The same file once more, to read it beside whoever writes. The lock is released when both are dropped.
    pub fn twin(&self) -> File {
        File { file: Arc::clone(&self.file), ..*self }
    }

    /// The file itself, for media that write to it in other ways.
    pub(super) fn inner(&self) -> &fs::File {
        &self.file
    }
}

/// Opens and locks.
fn open(options: &mut OpenOptions, path: &Path, how: How) -> io::Result<Locked> {
    let flags = if how == How::Dsync { OFlags::DSYNC } else { OFlags::empty() };
    let file = options
        .read(true)
        .write(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(|e| told("cannot open", path, &e))?;
    Locked::new(file).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => told(
            "cannot lock",
            path,
            &io::Error::new(io::ErrorKind::WouldBlock, "another process has it open"),
        ),
        _ => told("cannot lock", path, &e),
    })
}

/// Writes all of it, since a file that is only allocated still costs a change of its metadata with the first write to each block.
fn prewrite(file: &fs::File, len: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let piece = (len - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..piece as usize], at)?;
        at += piece;
    }
    file.sync_all()
}

fn told(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

impl Media for File {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        within(offset, bytes.len(), self.len)?;
        self.file.write_all_at(bytes, offset)
    }

    fn persist(&mut self, _: &[Range<u64>]) -> io::Result<()> {
        match self.how {
            How::Fdatasync => Ok(fdatasync(&**self.file)?),
            How::Dsync => Ok(()),
        }
    }

    fn class(&self) -> Class {
        Class::PowerLoss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_noticed_before_the_first_record() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        assert_eq!(prewrite(&full, 100).map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
    }
}
