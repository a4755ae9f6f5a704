//! Where a topology's key is.

use super::error::TopologyError;
use crate::controllers::Controllers;
use crate::table::{Table, Wrong};
use base::key::Key;
use protocol::coherence::guard::Keys;
use std::path::{Path, PathBuf};

/// The file beside a topology that has the key, unless it says another.
pub const FILE: &str = "cluster.key";
/// The variable that says where a client has its key, whose topology is a controller's.
pub const NAMED_BY: &str = "MILLRACE_CLIENT_KEY";

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
    /// As the machine of a controller has them, which said so: they are not made here, and may be elsewhere.
    Told {
        /// The nodes'.
        key: Option<PathBuf>,
        /// The clients'.
        client_key: Option<PathBuf>,
    },
    /// With this process alone.
    Held(Key),
}

impl Secret {
    /// As table `[cluster]` of a topology at `path` says, if there is one.
    pub fn of(table: Option<&Table<'_>>, path: &Path) -> Result<Secret, Wrong> {
        let named = table.map_or(Ok(Secret::None), |table| Secret::read(table, path))?;
        if Controllers::named(path).is_none() {
            return Ok(named);
        }
        let (key, client_key) = match named {
            Secret::Files { key, client_key } => (key, client_key),
            _ => (None, None),
        };
        let here = std::env::var_os(NAMED_BY).map(PathBuf::from);
        Ok(Secret::Told { key, client_key: here.or(client_key) })
    }

    fn read(table: &Table<'_>, path: &Path) -> Result<Secret, Wrong> {
        table.only(&["key", "client_key"])?;
        let beside = |file| path.parent().unwrap_or(Path::new("")).join(file);
        let file = |key| table.get(key).map(|entry| Ok(beside(entry.text()?))).transpose();
        Ok(Secret::Files { key: file("key")?, client_key: file("client_key")? })
    }

    /// One that no file has.
    pub fn held(&self) -> Option<&Key> {
        match self {
            Secret::Held(key) => Some(key),
            _ => None,
        }
    }

    /// The nodes' key, made if it is not there and `may_make`.
    pub fn cluster_key(&self, may_make: bool) -> Result<Option<Key>, TopologyError> {
        match self {
            Secret::Held(key) => Ok(Some(key.clone())),
            Secret::Files { key: Some(path), .. } if may_make => {
                Key::read_or_make(path).map(Some).map_err(TopologyError::Key)
            }
            Secret::Files { key: Some(path), .. } => Key::read(path).map(Some).map_err(TopologyError::Key),
            Secret::Told { key: Some(path), .. } => Key::read(path).map(Some).map_err(TopologyError::ToldKey),
            Secret::Files { key: None, .. } | Secret::Told { key: None, .. } | Secret::None => Ok(None),
        }
    }

    /// The clients' key, out of the nodes' where no file has it; these are made if they are not there and `may_make`.
    pub fn client_key(&self, may_make: bool) -> Result<Option<Key>, TopologyError> {
        match self {
            Secret::Files { client_key: Some(path), .. } => {
                Key::read(path).map(Some).map_err(TopologyError::Key)
            }
            Secret::Told { client_key: Some(path), .. } => {
                Key::read(path).map(Some).map_err(TopologyError::ToldKey)
            }
            _ => Ok(self.cluster_key(may_make)?.as_ref().map(Keys::client_key)),
        }
    }

    /// The lines of a topology, whose key is in `file` if none has it yet.
    pub fn text(&self, file: &Path) -> String {
        let line = |name, path: &Path| format!("{name} = {:?}\n", path.display().to_string());
        match self {
            Secret::None => String::new(),
            Secret::Held(_) => format!("\n[cluster]\n{}", line("key", file)),
            Secret::Files { key, client_key } | Secret::Told { key, client_key } => {
                let key = key.as_deref().map_or(String::new(), |path| line("key", path));
                let client = client_key.as_deref().map_or(String::new(), |path| line("client_key", path));
                format!("\n[cluster]\n{key}{client}")
            }
        }
    }

    /// Writes the key that no file has into this one.
    pub fn write(&self, file: &Path) -> Result<(), TopologyError> {
        match self {
            Secret::Held(key) => key.write_new(file).map_err(TopologyError::Key),
            _ => Ok(()),
        }
    }
}
