//! What else could be used: Redis and etcd as Debian has them, started on loopback in a folder of their own and ended with this.
//!
//! What they promise is not quite the same, and is said beside their figures.

pub mod etcd;
pub mod redis;

use super::workload::{Kind, Task, Workload};
use protocol::chain::Transaction;
use protocol::chain::transaction::Change;
use serve::process::end_with_this_process;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Until a server answers.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a server that starts.
const LOOK: Duration = Duration::from_millis(20);

/// A server's process, which ends with this.
pub(super) struct Server(Child);

impl Server {
    /// Starts it; what it says goes into a file of its folder.
    fn start(program: &str, arguments: &[String], folder: &Path) -> Result<Server, String> {
        let failed =
            |error| format!("{program} cannot be started: {error}; `apt-get install {program}` may help");
        std::fs::create_dir_all(folder).map_err(failed)?;
        let log = std::fs::File::create(folder.join("log")).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log).stderr(errors);
        end_with_this_process(&mut command);
        command.spawn().map(Server).map_err(failed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder within this one, gone in the end.
pub(super) fn folder(within: &Path) -> Result<TempDir, String> {
    TempDir::with_prefix_in("millrace-", within).map_err(|error| format!("{}: {error}", within.display()))
}

/// Ports on loopback that nobody has now.
fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let sockets: Vec<_> = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
    sockets
        .into_iter()
        .map(|socket| Ok(socket.and_then(|socket| socket.local_addr()).map_err(|e| e.to_string())?.port()))
        .collect()
}

/// Asks again until there is an answer.
fn until_it_answers<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(why) if Instant::now() >= until => return Err(format!("{what} does not answer: {why}")),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Whether a peer can do a workload with its own transactions: reads and puts, on no condition.
fn is_plain(workload: Workload) -> bool {
    matches!(workload.kind, Kind::Write | Kind::ReadWrite | Kind::YcsbT)
}

/// The transaction of a task that is plain.
fn plain(task: Task) -> Result<Transaction, String> {
    match task {
        Task::Once(transaction) if transaction.conditions.is_empty() => Ok(transaction),
        _ => Err("this workload has conditions, which the peer is not asked for".to_owned()),
    }
}

/// What a plain transaction puts.
fn puts(transaction: &Transaction) -> impl Iterator<Item = (&[u8], &[u8])> {
    transaction.writes.iter().filter_map(|(key, change)| match change {
        Change::Put(value) => Some((&key[..], &value[..])),
        Change::Delete | Change::Add(_) => None,
    })
}
