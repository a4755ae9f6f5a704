//! Files and directories that are their owner's alone: what a chain keeps is its users' data.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Mode of a file that its owner alone may read and write.
pub const FILE_MODE: u32 = 0o600;

/// Makes a directory that nobody else may enter, and those above it that are not there. One that is there stays as it is.
///
/// # Errors
/// The system's.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a file anew, to be written by its owner alone.
///
/// # Errors
/// The system's.
pub fn create(path: &Path) -> io::Result<File> {
    // The mode of a file that is there would stay.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Writes a file in one step, for good: whatever happens, it is what it was, or these bytes.
///
/// # Errors
/// The system's.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_folder(path)
}

/// Makes the names in this file's folder durable.
///
/// # Errors
/// The system's.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    #[test]
    fn nobody_else_may_read_them() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let outer = folder.path().join("a");
        let (inner, file) = (outer.join("b"), outer.join("b/file"));
        make_directory(&inner).expect("a directory");
        fs::write(&file, "old").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("ours");
        drop(create(&file).expect("a file"));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&outer), mode(&inner), mode(&file)), (0o700, 0o700, 0o600));
        make_directory(&inner).expect("it is there");
    }
}
