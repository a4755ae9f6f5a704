//! Members of a cluster, each a process of its own on this machine, with all that they keep in one folder: the cluster's file, its key, and what each said.
//!
//! For soak tests and benchmarks, which start, kill and move members; who they are and what they are told is theirs to say.

use super::file::Who;
use crate::process::end_with_this_process;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines of what a member said that an error has.
const LAST_WORDS: usize = 12;

/// Ports of loopback that nobody uses at this moment.
///
/// # Errors
/// The system's.
pub fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let sockets =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<Vec<_>>>()?;
    sockets.iter().map(|socket| socket.local_addr().map(|address| address.port())).collect()
}

/// See the head of the file. They are killed, and the folder is removed, when this is dropped; and when the thread that started them ends.
pub struct Members {
    folder: PathBuf,
    keeps: bool,
    program: PathBuf,
    processes: BTreeMap<Who, Child>,
}

impl Members {
    /// A new folder, with a key of the cluster in it, of which nobody runs. `name` begins its name; `keeps`: it stays in the end, and it is said where.
    ///
    /// # Errors
    /// In words.
    pub fn new(name: &str, program: PathBuf, keeps: bool) -> Result<Members, String> {
        let name = format!("millrace-{name}-{:016x}", u64::from_le_bytes(base::key::random()));
        let folder = std::env::temp_dir().join(name);
        base::private::make_directory(&folder)
            .map_err(|error| format!("the folder {}: {error}", folder.display()))?;
        let members = Members { folder, keeps, program, processes: BTreeMap::new() };
        let key = members.path("cluster.key");
        base::key::Key::read_or_make(&key).map_err(|error| error.to_string())?;
        Ok(members)
    }

    /// Writes the cluster's file, which names its key `cluster.key`.
    ///
    /// # Errors
    /// In words.
    pub fn write_file(&self, text: &str) -> Result<(), String> {
        let file = self.file();
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The cluster's file.
    pub fn file(&self) -> PathBuf {
        self.path("cluster.toml")
    }

    /// What is called so in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a member with these words.
    ///
    /// # Errors
    /// In words.
    pub fn start(&mut self, who: Who, words: &[String]) -> Result<(), String> {
        let log = self.log(who);
        let failed = |error: io::Error| format!("{who} could not be started: {error}");
        let said = fs::File::options().create(true).append(true).open(&log).map_err(failed)?;
        let errors = said.try_clone().map_err(failed)?;
        let mut command = Command::new(&self.program);
        // A group of its own: Ctrl-C is for who started it.
        command.args(words).process_group(0).stdin(Stdio::null()).stdout(said).stderr(errors);
        end_with_this_process(&mut command);
        self.processes.insert(who, command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Kills a member on the spot: it is gone when this returns.
    ///
    /// # Errors
    /// In words: it had ended by itself, or was not started.
    pub fn kill(&mut self, who: Who) -> Result<(), String> {
        let mut process = self.processes.remove(&who).ok_or_else(|| format!("{who} does not run"))?;
        if let Ok(Some(status)) = process.try_wait() {
            return Err(format!("{who} ended by itself with {status}; it said:\n{}", self.last_words(who)));
        }
        let gone = process.kill().and_then(|()| process.wait());
        gone.map(drop).map_err(|error| format!("{who} could not be killed: {error}"))
    }

    /// Whether all that were started, and not killed, run.
    ///
    /// # Errors
    /// In words: one has ended by itself.
    pub fn check_alive(&mut self) -> Result<(), String> {
        let ended =
            self.processes.iter_mut().find_map(|(who, process)| Some((*who, process.try_wait().ok()??)));
        match ended {
            None => Ok(()),
            Some((who, status)) => {
                Err(format!("{who} ended by itself with {status}; it said:\n{}", self.last_words(who)))
            }
        }
    }

    /// Runs a command of the program to its end.
    ///
    /// # Errors
    /// In words: it failed, and what it said.
    pub fn run(&self, words: &[&str]) -> Result<(), String> {
        let output = Command::new(&self.program).args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("millrace {}: {error}", words.join(" ")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("millrace {} ends with {}: {}", words.join(" "), output.status, said.trim()))
    }

    /// What a member said last.
    pub fn last_words(&self, who: Who) -> String {
        let text = fs::read_to_string(self.log(who)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
    }

    fn log(&self, who: Who) -> PathBuf {
        self.path(&format!("{}.log", who.to_string().replace([':', '/'], "-")))
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            // Both fail where it has ended, which is what is wanted.
            let _ = process.kill();
            let _ = process.wait();
        }
        if self.keeps {
            eprintln!("what members keep and said is in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
