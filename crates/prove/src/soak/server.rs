//! The server under test: `millrace up` as a child process, what it says of itself and what the system says of it.

use super::ledger::Promise;
use base::Bytes;
use bench::load::server::{CpuReading, ServerProcess};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the server may take to start, and to answer about itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines of its standard error that are kept.
const KEPT_LINES: usize = 20;

/// What the server is started with.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Store or cache.
    pub promise: Promise,
    /// Memory for items and index.
    pub memory: Bytes,
    /// Bytes that all connections together may buffer.
    pub buffers: Bytes,
    /// Edge threads.
    pub threads: u64,
}

/// The server process. It is killed when this is dropped.
pub struct Server {
    child: Child,
    /// Where it serves memcached clients.
    pub address: SocketAddr,
    admin: SocketAddr,
    process: ServerProcess,
    stderr: Option<JoinHandle<()>>,
    said: Arc<Mutex<VecDeque<String>>>,
}

/// What the system says of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Bytes of memory that it has now.
    pub rss: u64,
    /// The most it ever had.
    pub peak: u64,
    /// Threads.
    pub threads: u64,
    /// File descriptors.
    pub descriptors: u64,
}

/// What the server says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    /// Items and index, as a share of the limit.
    pub occupied: f64,
    /// Memory in use, as a share of the limit.
    pub memory: f64,
    /// Items evicted.
    pub evictions: u64,
    /// Connections closed, or requests refused, because buffers were full.
    pub buffer_refusals: u64,
    /// Connections closed because they read too slowly.
    pub slow_reader_kicks: u64,
}

impl Server {
    /// Starts it.
    ///
    /// # Errors
    /// Why it did not come up, with what it said.
    pub fn start(limits: &Limits) -> Result<Server, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot find itself: {e}"))?;
        let mut command = Command::new(program);
        command.args(["up", "-p", "0", "--admin", "0"]);
        command.arg("-m").arg(format!("{}k", limits.memory.0 >> 10));
        command.arg("-t").arg(limits.threads.to_string());
        command.arg("--set").arg(format!("net.buffer_limit={}k", limits.buffers.0 >> 10));
        if limits.promise == Promise::Store {
            command.arg("-M");
        }
        // A group of its own: Ctrl-C is for the soak, which then ends the server in order.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("the server could not be started: {e}"))?;
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let found = addresses(&mut lines);
        let (address, admin) = match found {
            Ok(found) => found,
            Err(said) => {
                // Whatever state it is in, it is of no use.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(format!("the server did not start; it said:\n{said}"));
            }
        };
        let process = ServerProcess { pid: child.id(), name: "millrace".to_string(), version: None };
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let (keep, into) = (lines, said.clone());
        let stderr = std::thread::spawn(move || listen(keep, &into));
        Ok(Server { child, address, admin, process, stderr: Some(stderr), said })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said on standard error lately.
    pub fn last_words(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// What the system says of it; `None` when it is gone.
    pub fn footprint(&self) -> Option<Footprint> {
        footprint(self.pid())
    }

    /// Its CPU time so far.
    pub fn cpu(&self) -> Option<CpuReading> {
        self.process.read()
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(&self) -> Result<Said, String> {
        let body = http_get(self.admin, "/stats.json").map_err(|e| format!("the admin port: {e}"))?;
        let all: Value = serde_json::from_str(&body).map_err(|e| format!("/stats.json is no JSON: {e}"))?;
        let number = |path: &str| {
            all.pointer(path).and_then(Value::as_u64).ok_or_else(|| format!("/stats.json has no {path}"))
        };
        let limit = number("/kv/store/limit_bytes")? as f64;
        let held = number("/kv/store/item_bytes")? + number("/kv/store/index_bytes")?;
        Ok(Said {
            occupied: held as f64 / limit,
            memory: number("/kv/store/memory_bytes")? as f64 / limit,
            evictions: number("/kv/store/evictions")?,
            buffer_refusals: number("/net/buffer_refusals")?,
            slow_reader_kicks: number("/net/slow_reader_kicks")?,
        })
    }

    /// Whether it still runs; how it ended, if not.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // If it has ended already, `finish` will tell how.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for its end, for so long.
    ///
    /// # Errors
    /// When it is still there.
    pub fn finish(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        let began = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if began.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => return Err(format!("it still ran {} s after SIGTERM", patience.as_secs())),
                Err(e) => return Err(format!("it could not be waited for: {e}")),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(thread) = self.stderr.take() {
            // It ends with the pipe.
            let _ = thread.join();
        }
    }
}

/// The two addresses that it names when it is up.
fn addresses(lines: &mut BufReader<ChildStderr>) -> Result<(SocketAddr, SocketAddr), String> {
    let (mut address, mut said) = (None, String::new());
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).map_or(true, |n| n == 0) {
            return Err(said);
        }
        said.push_str(&line);
        if let Some(text) = line.trim().strip_prefix("millrace: serving memcached clients on ") {
            address = text.parse().ok();
        }
        let admin = line.trim().strip_prefix("millrace: metrics and registers on http://");
        if let (Some(address), Some(text)) = (address, admin) {
            return text.trim_end_matches('/').parse().map(|admin| (address, admin)).map_err(|_| said);
        }
    }
}

fn listen(lines: BufReader<ChildStderr>, said: &Mutex<VecDeque<String>>) {
    for line in lines.lines().map_while(Result::ok) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == KEPT_LINES {
            said.pop_front();
        }
        said.push_back(line);
    }
}

/// What the system says of process `pid`.
pub fn footprint(pid: u32) -> Option<Footprint> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    // Pages of the program's file are the system's to take back, and grow with what the program can do besides.
    let of_files = field("RssFile:")?;
    Some(Footprint {
        rss: field("VmRSS:")?.saturating_sub(of_files) << 10,
        peak: field("VmHWM:")?.saturating_sub(of_files) << 10,
        threads: field("Threads:")?,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
    })
}

/// The inode of the server's end of the connection from loopback port `from` to `to`, while it is open.
pub fn socket_between(from: u16, to: u16) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let port = |text: &str| u16::from_str_radix(text.rsplit(':').next()?, 16).ok();
        let (local, remote) = (port(fields.next()?)?, port(fields.next()?)?);
        let inode = fields.nth(6)?.parse().ok()?;
        (local == to && remote == from && inode != 0).then_some(inode)
    })
}

/// Whether process `pid` holds the socket with this inode.
pub fn holds_socket(pid: u32, inode: u64) -> bool {
    let name = format!("socket:[{inode}]");
    let Ok(all) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    all.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == name.as_str()))
}

fn http_get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_string()),
        _ => Err(io::Error::other(head.lines().next().unwrap_or_default().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_sockets_are_seen() {
        let here = footprint(std::process::id()).expect("this process runs");
        assert!(here.rss > 0 && here.peak >= here.rss / 2 && here.threads > 0 && here.descriptors > 2);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("bound").port();
        let client = TcpStream::connect(("127.0.0.1", to)).expect("connected");
        let (accepted, from) = listener.accept().expect("accepted");
        let inode = socket_between(from.port(), to).expect("open");
        assert!(holds_socket(std::process::id(), inode));
        drop(accepted);
        assert!(!holds_socket(std::process::id(), inode));
        drop(client);
    }
}
