//! Processes of a lab: started in a namespace with a log, known by number and starting time.

use super::LabError;
use super::namespace;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process is ready within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process as a lab notes it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// What it is in the lab: a node, a client, a link program.
    pub role: String,
    /// Its number.
    pub pid: u32,
    /// When it started, as /proc has it: numbers are used again, both together are not.
    pub started: u64,
}

impl Process {
    /// One that was just started.
    pub fn new(role: &str, pid: u32) -> Process {
        Process { role: role.into(), pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process started, in the kernel's ticks; none where there is none, or it is dead and only waited for.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and brackets in it; what follows its last bracket has neither.
    let mut fields = text.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok()).flatten()
}

/// A process that was started here.
#[derive(Debug)]
pub struct Started {
    /// What it is.
    pub process: Process,
    child: Child,
    log: PathBuf,
    /// Where its own words begin in the log, which earlier ones of its role wrote too.
    from: u64,
}

impl Started {
    /// Starts this program with `arguments` in a namespace. It outlives this process, and Ctrl-C.
    pub fn new(role: &str, within: &str, arguments: &[String], log: &Path) -> Result<Started, LabError> {
        let failed = |what: String| move |cause| LabError::Io(what, cause);
        let open = || File::options().create(true).append(true).open(log);
        let file = open().map_err(failed(format!("opening the log {}", log.display())))?;
        let from = file.metadata().map(|meta| meta.len()).unwrap_or(0);
        let errors = file.try_clone().map_err(failed("sharing a log".into()))?;
        let program = std::env::current_exe().map_err(failed("finding this program".into()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0);
        let child =
            namespace::within(within, || command.spawn().map_err(failed(format!("starting {role}"))))?;
        Ok(Started { process: Process::new(role, child.id()), child, log: log.into(), from })
    }

    /// What it said so far.
    pub fn said(&self) -> String {
        let mut text = String::new();
        let read = File::open(&self.log).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.from))?;
            file.read_to_string(&mut text)
        });
        // A log that is gone, or no text, says nothing.
        read.map_or(String::new(), |_| text)
    }

    /// Whether it has said its first line.
    pub fn is_ready(&self) -> bool {
        self.said().contains('\n')
    }

    /// Waits for its first line.
    ///
    /// # Errors
    /// It ended instead, or is too slow.
    pub fn await_ready(&mut self) -> Result<(), LabError> {
        let until = Instant::now() + PATIENCE;
        loop {
            // In this order: one that says a line and ends is not ready.
            let is_ready = self.is_ready();
            if self.ended().is_some() {
                return Err(self.death());
            }
            if is_ready {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(LabError::Slow { role: self.process.role.clone(), said: self.said() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it is no more, and if so, whether it ended well.
    pub fn ended(&mut self) -> Option<bool> {
        match self.child.try_wait() {
            Ok(status) => status.map(|status| status.success()),
            // Somebody else waited for it.
            Err(_) => Some(false),
        }
    }

    /// That it ended, as an error.
    pub fn death(&self) -> LabError {
        LabError::Died { role: self.process.role.clone(), said: self.said() }
    }

    /// Asks it to end.
    pub fn stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it on the spot: it says nothing to anybody. It is gone when this returns.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Waits for its end.
    pub fn wait(&mut self) {
        // Somebody else may have waited for it: then it has ended, too.
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        // Its number stays its own until it was waited for.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_number_and_start() {
        let own = Process::new("test", std::process::id());
        assert!(own.is_alive() && own.started > 0);
        assert!(!Process { started: own.started + 1, ..own }.is_alive(), "another one with the same number");
    }
}
