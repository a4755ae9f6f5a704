//! Files that somebody else named: read only if they are regular, and only up to a bound.
//!
//! The name in a configuration may lead to a device that never ends or to a pipe that nobody writes to.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "files of the system")]
    fn devices_pipes_folders_and_long_files_are_refused() {
        assert_eq!(read(Path::new("/dev/zero"), 10).expect_err("endless").kind(), ErrorKind::InvalidInput);
        let place = std::env::temp_dir().join(format!("millrace-files-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        assert_eq!(read(&place, 10).expect_err("a folder").kind(), ErrorKind::InvalidInput);
        let pipe = place.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
        assert_eq!(read(&pipe, 10).expect_err("a pipe").kind(), ErrorKind::InvalidInput);
        let file = place.join("file");
        std::fs::write(&file, "0123456789").expect("a file");
        assert_eq!(read(&file, 10).expect("as long as it may be"), b"0123456789");
        assert_eq!(read(&file, 9).expect_err("longer").kind(), ErrorKind::FileTooLarge);
        std::fs::remove_dir_all(&place).expect("ours");
    }
}
