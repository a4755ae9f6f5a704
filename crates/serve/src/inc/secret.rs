//! Where a topology's key is.

use super::IncError;
use base::key::Key;
use protocol::coherence::guard::Keys;
use std::path::{Path, PathBuf};

/// The file beside a topology that has the key, unless it says another.
pub const FILE: &str = "cluster.key";

/// What a file says of keys.
#[derive(clap::Args, Clone, Debug)]
pub struct ClusterEntry {
    /// The nodes'
    #[arg(long)]
    key: Option<PathBuf>,

    /// The clients'
    #[arg(long)]
    client_key: Option<PathBuf>,
}

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The file names none.
    None,
    /// In files.
    Files {
        /// The nodes'.
        key: Option<PathBuf>,
        /// The clients'.
        client_key: Option<PathBuf>,
    },
    /// With this process alone.
    Held(Key),
}

impl Secret {
    /// As a topology at `path` says.
    pub fn of(entry: ClusterEntry, path: &Path) -> Secret {
        let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
        Secret::Files { key: entry.key.map(beside), client_key: entry.client_key.map(beside) }
    }

    /// One that no file has.
    pub fn held(&self) -> Option<&Key> {
        match self {
            Secret::Held(key) => Some(key),
            _ => None,
        }
    }

    /// The nodes' key, made if it is not there and `may_make`.
    pub fn cluster_key(&self, may_make: bool) -> Result<Option<Key>, IncError> {
        match self {
            Secret::Held(key) => Ok(Some(key.clone())),
            Secret::Files { key: Some(path), .. } if may_make => {
                Key::read_or_make(path).map(Some).map_err(IncError::Key)
            }
            Secret::Files { key: Some(path), .. } => Key::read(path).map(Some).map_err(IncError::Key),
            Secret::Files { key: None, .. } | Secret::None => Ok(None),
        }
    }

    /// The clients' key, out of the nodes' where no file has it; these are made if they are not there and `may_make`.
    pub fn client_key(&self, may_make: bool) -> Result<Option<Key>, IncError> {
        match self {
            Secret::Files { client_key: Some(path), .. } => Key::read(path).map(Some).map_err(IncError::Key),
            _ => Ok(self.cluster_key(may_make)?.as_ref().map(Keys::client_key)),
        }
    }

    /// The lines of a topology, whose key is in `file` if none has it yet.
    pub fn text(&self, file: &Path) -> String {
        let line = |name, path: &Path| format!("{name} = {:?}\n", path.display().to_string());
        match self {
            Secret::None => String::new(),
            Secret::Held(_) => format!("\n[cluster]\n{}", line("key", file)),
            Secret::Files { key, client_key } => {
                let key = key.as_deref().map_or(String::new(), |path| line("key", path));
                let client = client_key.as_deref().map_or(String::new(), |path| line("client_key", path));
                format!("\n[cluster]\n{key}{client}")
            }
        }
    }

    /// Writes the key that no file has into this one.
    pub fn write(&self, file: &Path) -> Result<(), IncError> {
        match self {
            Secret::Held(key) => key.write_new(file).map_err(IncError::Key),
            _ => Ok(()),
        }
    }
}
