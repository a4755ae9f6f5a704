//! A run's own place for sockets and files, gone after it.

use std::path::{Path, PathBuf};

/// A folder below the system's for temporary files, and names in shared memory that begin as it does.
pub struct Folder {
    path: PathBuf,
    owned: bool,
}

impl Folder {
    /// A new one, removed with this value.
    pub fn create() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("millrace-peers-rpc-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
        Ok(Folder { path, owned: true })
    }

    /// The one that the parent made.
    pub fn shared(path: &Path) -> Folder {
        Folder { path: path.to_path_buf(), owned: false }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the names of this run's shared memory begin with.
    pub fn prefix(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}_")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // What its users should have removed already is removed here when one of them was killed.
        let _ = std::fs::remove_dir_all(&self.path);
        let prefix = self.prefix();
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
