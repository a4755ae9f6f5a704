//! A chain of processes on this machine, `millrace chain up`, that ends with this: for benchmarks, examples and tests.
//!
//! What its processes are and where they serve is read from the lines that it prints.

use fabric::link::Address;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Until all replicas of a new chain serve.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines that are kept.
const LINES: usize = 10_000;
/// Of these, lines that an error has.
const LAST_WORDS: usize = 20;

/// How a chain is started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many replicas.
    pub replicas: u16,
    /// What their logs are on: file, dsync, pmem, memory.
    pub media: String,
    /// Where; none for what needs no directory.
    pub data: Option<PathBuf>,
    /// Replicas that die are started again.
    pub restart: bool,
    /// Further arguments of `millrace chain up`.
    pub more: Vec<OsString>,
}

/// What is known of it.
#[derive(Default)]
struct Known {
    replicas: BTreeMap<u16, Replica>,
    /// What it printed.
    lines: VecDeque<String>,
    /// Lines that it printed and that are not kept any more.
    forgotten: usize,
    is_over: bool,
}

/// A replica of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replica {
    process: u32,
    /// Once it serves.
    address: Option<Address>,
}

/// A running chain.
pub struct Spawned {
    process: Child,
    /// It ends when this is closed.
    input: Option<ChildStdin>,
    known: Arc<(Mutex<Known>, Condvar)>,
}

impl Spawned {
    /// Starts one with the `millrace` at `program`, and waits until all replicas serve.
    ///
    /// # Errors
    /// A sentence, with its last words.
    pub fn start(program: &Path, plan: &Plan) -> Result<Spawned, String> {
        let mut command = Command::new(program);
        command.args(["chain", "up", "--until-eof", "--port", "0", "--media", &plan.media]);
        command.args(["--replicas", &plan.replicas.to_string()]);
        if let Some(data) = &plan.data {
            command.arg("--data").arg(data);
        }
        if plan.restart {
            command.arg("--restart");
        }
        command.args(&plan.more);
        Spawned::of(command, plan.replicas)
    }

    /// The same by a command that becomes `millrace chain up --until-eof`, of so many replicas.
    ///
    /// # Errors
    /// As [`Spawned::start`].
    pub fn of(mut command: Command, replicas: u16) -> Result<Spawned, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let program = Path::new(command.get_program()).display();
        let mut process = spawned.map_err(|error| format!("{program} cannot be started: {error}"))?;
        let output = process.stdout.take().expect("it is piped");
        let input = process.stdin.take();
        let known = Arc::<(Mutex<Known>, Condvar)>::default();
        let told = Arc::clone(&known);
        let listen = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                lock(&told.0).heard(line);
                told.1.notify_all();
            }
            lock(&told.0).is_over = true;
            told.1.notify_all();
        };
        let chain = Spawned { process, input, known };
        std::thread::Builder::new()
            .name("chain-words".to_owned())
            .spawn(listen)
            .map_err(|error| format!("no thread to listen to the chain: {error}"))?;
        chain.wait_for(usize::from(replicas))?;
        Ok(chain)
    }

    /// Waits until so many replicas serve.
    fn wait_for(&self, replicas: usize) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        let (known, news) = &*self.known;
        let mut known = lock(known);
        while known.serving().count() < replicas {
            let left = until.saturating_duration_since(Instant::now());
            if known.is_over || left.is_zero() {
                let of_last = known.lines.len().saturating_sub(LAST_WORDS);
                let words: Vec<&str> = known.lines.iter().skip(of_last).map(String::as_str).collect();
                return Err(format!("the chain did not come up; its last words:\n  {}", words.join("\n  ")));
            }
            known = news.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// What it printed last, some lines.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.known.0).lines.iter().cloned().collect()
    }

    /// How many lines it has printed.
    pub fn printed(&self) -> usize {
        let known = lock(&self.known.0);
        known.forgotten + known.lines.len()
    }

    /// The newest line that begins so, of those after the first `after`, as soon as there is one; none within `patience`, or when it has ended.
    pub fn wait_for_line(&self, begins: &str, after: usize, patience: Duration) -> Option<String> {
        let until = Instant::now() + patience;
        let (known, news) = &*self.known;
        let mut known = lock(known);
        loop {
            let found = known.lines.iter().skip(after.saturating_sub(known.forgotten));
            if let Some(line) = found.rev().find(|line| line.starts_with(begins)) {
                return Some(line.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if known.is_over || left.is_zero() {
                return None;
            }
            known = news.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Where its replicas serve clients.
    pub fn addresses(&self) -> Vec<Address> {
        lock(&self.known.0).serving().map(|(_, address)| address).collect()
    }

    /// Its replicas, with the process that each is.
    pub fn processes(&self) -> Vec<(u16, u32)> {
        lock(&self.known.0).replicas.iter().map(|(id, replica)| (*id, replica.process)).collect()
    }

    /// Ends a replica as if it had been shot (kill -9); whether it was there.
    pub fn kill(&self, replica: u16) -> bool {
        let mut known = lock(&self.known.0);
        let Some(replica) = known.replicas.get_mut(&replica) else { return false };
        // Until it has said who it is again, it is not shot again.
        signal(std::mem::take(&mut replica.process), Signal::KILL)
    }

    /// Stops a replica for this long, as a machine that is suspended, and lets it go on; whether it was there.
    pub fn pause(&self, replica: u16, time: Duration) -> bool {
        let process = lock(&self.known.0).replicas.get(&replica).map_or(0, |replica| replica.process);
        pause(process, time)
    }

    /// Sends a replica a signal; whether it was there.
    pub fn signal(&self, replica: u16, which: Signal) -> bool {
        let process = lock(&self.known.0).replicas.get(&replica).map_or(0, |replica| replica.process);
        signal(process, which)
    }

    /// Ends it, and says how it ended.
    ///
    /// # Errors
    /// The system's.
    pub fn end(mut self) -> io::Result<ExitStatus> {
        drop(self.input.take());
        self.process.wait()
    }

    /// As [`Spawned::pause`], its controller, the process that starts the replicas.
    pub fn pause_controller(&self, time: Duration) -> bool {
        pause(self.process.id(), time)
    }
}

fn pause(process: u32, time: Duration) -> bool {
    if !signal(process, Signal::STOP) {
        return false;
    }
    std::thread::sleep(time);
    // It may have been killed meanwhile.
    signal(process, Signal::CONT);
    true
}

impl Known {
    fn heard(&mut self, line: String) {
        if let Some((id, process)) = said(&line, " is process ") {
            let process = process.parse().unwrap_or(0);
            let address = self.replicas.remove(&id).and_then(|replica| replica.address);
            self.replicas.insert(id, Replica { process, address });
        }
        if let Some((id, rest)) = said(&line, " serves clients at ")
            && let Some(replica) = self.replicas.get_mut(&id)
        {
            replica.address = rest.split([',', ' ']).next().and_then(|address| address.parse().ok());
        }
        self.lines.push_back(line);
        if self.lines.len() > LINES {
            self.lines.pop_front();
            self.forgotten += 1;
        }
    }

    fn serving(&self) -> impl Iterator<Item = (u16, Address)> {
        self.replicas.iter().filter_map(|(id, replica)| Some((*id, replica.address.clone()?)))
    }
}

/// Who says what, in `replica 3 is process 77` and `replica 3 of chain 1 serves clients at …`.
fn said<'a>(line: &'a str, verb: &str) -> Option<(u16, &'a str)> {
    let (who, what) = line.split_once(verb)?;
    let number = who.strip_prefix("replica ")?.split(' ').next()?;
    Some((number.parse().ok()?, what))
}

fn signal(process: u32, signal: Signal) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Spawned {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends its replicas, and then itself, at the end of its input.
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_is_understood() {
        let mut known = Known::default();
        known.heard("replica 1 is process 77".to_owned());
        known.heard("replica 2 is process 78".to_owned());
        assert_eq!(known.serving().count(), 0);
        known.heard("replica 1 of chain 1 serves clients at tcp:127.0.0.1:4000, shm:/x, epoch 0".to_owned());
        let address: Address = "tcp:127.0.0.1:4000".parse().expect("an address");
        assert_eq!(known.serving().collect::<Vec<_>>(), [(1, address.clone())]);
        // It was started again.
        known.heard("replica 1 is process 99".to_owned());
        assert_eq!(known.replicas[&1], Replica { process: 99, address: Some(address) });
        known.heard("replica x is process 99".to_owned());
        assert_eq!(known.lines.len(), 5);
    }
}
