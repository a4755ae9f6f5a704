//! Files that somebody else named: read only if they are regular, and only up to a bound. Files that one process has at a time: [`Locked`].
//!
//! The name in a configuration may lead to a device that never ends or to a pipe that nobody writes to.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. Never waits.
///
/// # Errors
/// The system's, and `InvalidInput` for anything that is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Without waiting for a pipe's writer; it means nothing for a regular file.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file: give one"));
    }
    Ok(file)
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open`], and `FileTooLarge` for more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("has more bytes than are read of such a file; expected at most {most}");
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// A file that no other process has while this is there.
///
/// It is unlocked when this is dropped, not when the last descriptor of the file is closed: a process that another thread has just forked has a copy of each
/// until it executes its program, and whoever opened the file anew in that moment would find it locked.
#[derive(Debug)]
pub struct Locked(File);

impl Locked {
    /// Locks it.
    ///
    /// # Errors
    /// The system's; `WouldBlock`: another has it.
    pub fn new(file: File) -> io::Result<Locked> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Locked(file))
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Nothing can be done where it fails; then the lock ends with the file.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    #[cfg_attr(miri, ignore = "files of the system")]
    fn a_file_is_free_as_soon_as_it_is_let_go() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let place = folder.path().join("locked");
        let file =
            || OpenOptions::new().create(true).truncate(false).write(true).open(&place).expect("a file");
        let one = Locked::new(file()).expect("nobody has it");
        assert_eq!(Locked::new(file()).expect_err("it is locked").kind(), ErrorKind::WouldBlock);
        // As a process has it that was forked meanwhile.
        let forked = one.try_clone().expect("a descriptor");
        drop(one);
        drop(Locked::new(file()).expect("it is free, whoever has it open"));
        drop(forked);
    }

    #[test]
    #[cfg_attr(miri, ignore = "files of the system")]
    fn devices_pipes_folders_and_long_files_are_refused() {
        assert_eq!(read(Path::new("/dev/zero"), 10).expect_err("endless").kind(), ErrorKind::InvalidInput);
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let place = folder.path();
        assert_eq!(read(place, 10).expect_err("a folder").kind(), ErrorKind::InvalidInput);
        let pipe = place.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
        assert_eq!(read(&pipe, 10).expect_err("a pipe").kind(), ErrorKind::InvalidInput);
        let file = place.join("file");
        std::fs::write(&file, "0123456789").expect("a file");
        assert_eq!(read(&file, 10).expect("as long as it may be"), b"0123456789");
        assert_eq!(read(&file, 9).expect_err("longer").kind(), ErrorKind::FileTooLarge);
    }
}
