//! What a lab leaves on disk, so that other processes find it: `/run/millrace/lab/NAME`.
//!
//! ```text
//!   lab.json        clients, links, processes with their numbers and starting times
//!   topology.toml   for `--topology`
//!   log/            what each process says
//! ```
//!
//! The folder is made first and removed last, and making it is the lock: two makers of one name cannot both succeed. A maker that dies
//! leaves the folder, and namespaces that begin with the lab's prefix; [`remove`] needs to know nothing more than the name.

use super::LabError;
use super::namespace;
use super::process::Process;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const ROOT: &str = "/run/millrace/lab";
const FILE: &str = "lab.json";

/// A lab as its maker writes it down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// How many clients.
    pub clients: u32,
    /// Links with programs, as `--link` has them.
    pub links: Vec<String>,
    /// A run that is under way, and takes the lab down itself.
    pub keeper: Option<Process>,
    /// One of each role, dead or alive.
    pub processes: Vec<Process>,
}

/// Reads a name: letters and digits, so that no lab's prefix begins another's.
///
/// # Errors
/// What is wanted, in words.
pub fn parse_name(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    match (1..=16).contains(&text.len()) && text.chars().all(is_good) {
        true => Ok(text.into()),
        false => Err(format!("{text:?} is no name of a lab: 1 to 16 small letters and digits")),
    }
}

/// What names of its namespaces begin with.
pub fn prefix(name: &str) -> String {
    format!("{}{name}-", namespace::PREFIX)
}

/// Its folder.
pub fn folder(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// Its topology.
pub fn topology_file(name: &str) -> PathBuf {
    folder(name).join("topology.toml")
}

/// The log of a role.
pub fn log(name: &str, role: &str) -> PathBuf {
    folder(name).join("log").join(format!("{}.log", role.replace(':', "").replace(' ', "-")))
}

/// Names of all labs, also of those of which only namespaces are left.
pub fn names() -> Vec<String> {
    let folders = fs::read_dir(ROOT).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let spaces = namespace::beginning_with(namespace::PREFIX);
    names.extend(spaces.iter().filter_map(|space| {
        space.trim_start_matches(namespace::PREFIX).split_once('-').map(|(name, _)| name.to_string())
    }));
    names.retain(|name| parse_name(name).is_ok());
    names.sort();
    names.dedup();
    names
}

/// Makes the folder of a new lab.
///
/// # Errors
/// [`LabError::Exists`], or the system's.
pub fn create(name: &str) -> Result<(), LabError> {
    let making = || format!("making {}", folder(name).display());
    fs::create_dir_all(ROOT).map_err(LabError::io(making()))?;
    match fs::create_dir(folder(name)) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => return Err(LabError::Exists(name.into())),
        result => result.map_err(LabError::io(making()))?,
    }
    if !namespace::beginning_with(&prefix(name)).is_empty() {
        return Err(LabError::Exists(name.into()));
    }
    fs::create_dir(folder(name).join("log")).map_err(LabError::io(making()))
}

/// Takes everything of a lab away: processes in its namespaces, these, the folder. How many of the first two there were; none of a lab that
/// is not there.
///
/// # Errors
/// A run has it, or something cannot be removed.
pub fn remove(name: &str) -> Result<(usize, usize), LabError> {
    if let Ok(Some(keeper)) = State::read(name).map(|state| state.keeper)
        && keeper.is_alive()
        && keeper.pid != std::process::id()
    {
        return Err(LabError::Running(name.into(), keeper.pid));
    }
    let cleared = namespace::clear(&prefix(name))?;
    match fs::remove_dir_all(folder(name)) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(LabError::Io(format!("removing {}", folder(name).display()), cause))
        }
        _ => Ok(cleared),
    }
}

impl State {
    /// Of a lab.
    ///
    /// # Errors
    /// There is none, or its file is not what this writes.
    pub fn read(name: &str) -> Result<State, LabError> {
        let path = folder(name).join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound && !folder(name).exists() => {
                return Err(LabError::None(name.into(), names()));
            }
            result => result.map_err(|cause| LabError::State(path.clone(), cause.to_string()))?,
        };
        serde_json::from_str(&text).map_err(|cause| LabError::State(path, cause.to_string()))
    }

    /// Replaces the file, between two moments at which it is whole.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, name: &str) -> Result<(), LabError> {
        let (path, new) = (folder(name).join(FILE), folder(name).join("lab.json.new"));
        let text = serde_json::to_string_pretty(self).expect("it has a form in JSON");
        let write = || fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        write().map_err(LabError::io(format!("writing {}", path.display())))
    }

    /// The process of a role.
    pub fn process(&self, role: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.role == role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_labs_prefix_begins_anothers() {
        assert!(parse_name("rack1").is_ok());
        for bad in ["", "a-b", "A", "a/b", "..", "abcdefghijklmnopq"] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
        assert!(!prefix("a1").starts_with(&prefix("a")));
    }

    #[test]
    fn what_is_written_is_read() {
        let process = Process { role: "box:1".into(), pid: 7, started: 9 };
        let state = State { clients: 2, processes: vec![process], ..State::default() };
        let text = serde_json::to_string(&state).expect("JSON");
        assert_eq!(serde_json::from_str::<State>(&text).expect("the same"), state);
        assert_eq!(state.process("box:1").map(|process| process.pid), Some(7));
        assert_eq!(state.process("box:2"), None);
    }
}
