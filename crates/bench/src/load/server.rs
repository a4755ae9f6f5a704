//! What a server spends: on this machine its process and the CPU time of its threads, anywhere the memory that it says its items take.
//!
//! The time comes from `/proc/PID/task/*/schedstat` (nanoseconds); `utime` and `stime` of `/proc/PID/stat` move in ticks
//! of 10 ms and only share it out between user and kernel. A thread that ends between two readings takes its time with
//! it: servers do not end threads in a measured slice.
//!
//! The process is the one that answers `stats` with its `pid` (Redis: `INFO server`), or `--server-pid`.

use super::LoadError;
use super::resp;
use super::target::{Target, Transport};
use protocol::memcache::client::{Progress, Reply, ReplyReader, request};
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// CPU time used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuReading {
    by_thread: HashMap<u32, u64>,
    user_ticks: u64,
    system_ticks: u64,
}

/// CPU time between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuUse {
    /// All of it, in nanoseconds.
    pub total_ns: u64,
    /// The part in the kernel, in nanoseconds: in steps of ticks.
    pub system_ns: u64,
}

impl CpuReading {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &CpuReading) -> CpuUse {
        let used = |(thread, ns): (&u32, &u64)| {
            ns.saturating_sub(earlier.by_thread.get(thread).copied().unwrap_or(0))
        };
        let total_ns: u64 = self.by_thread.iter().map(used).sum();
        let user = self.user_ticks.saturating_sub(earlier.user_ticks);
        let system = self.system_ticks.saturating_sub(earlier.system_ticks);
        let system_ns = match user + system {
            0 => 0,
            ticks => (u128::from(total_ns) * u128::from(system) / u128::from(ticks)) as u64,
        };
        CpuUse { total_ns, system_ns }
    }
}

/// A server process on this machine.
#[derive(Clone, Debug)]
pub struct ServerProcess {
    /// Its process number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The version it states.
    pub version: Option<String>,
}

impl ServerProcess {
    /// Finds the process behind `target`; `pid` where the user named it. The reason, where it cannot be watched.
    pub fn find(target: &Target, pid: Option<u32>) -> Result<ServerProcess, String> {
        if !target.is_local() {
            return Err(format!("{target} is not on this machine: no CPU time of the server"));
        }
        let said = ask(target);
        let pid = match (pid, &said) {
            (Some(pid), _) => pid,
            (None, Ok(said)) => said.pid.ok_or("the server does not tell its process; use --server-pid")?,
            (None, Err(error)) => {
                return Err(format!("the server's process is unknown ({error}); use --server-pid"));
            }
        };
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| {
            format!("process {pid} is not visible here (another container?): no CPU time of the server")
        })?;
        let version = said.ok().and_then(|said| said.version);
        let process = ServerProcess { pid, name: name.trim().to_string(), version };
        process.read().ok_or_else(|| format!("the CPU time of process {pid} cannot be read"))?;
        Ok(process)
    }

    /// Its CPU time so far, or `None` when it is gone.
    pub fn read(&self) -> Option<CpuReading> {
        let mut reading = CpuReading::default();
        for task in fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?.flatten() {
            let thread: u32 = task.file_name().to_str()?.parse().ok()?;
            if let Ok(text) = fs::read_to_string(task.path().join("schedstat")) {
                reading.by_thread.insert(thread, text.split_whitespace().next()?.parse().ok()?);
            }
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        (reading.user_ticks, reading.system_ticks) = ticks(&stat)?;
        Some(reading)
    }
}

/// `utime` and `stime` of a `/proc/PID/stat` line, whose second field may hold spaces and parentheses.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The memory that a server's items take, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Items it has.
    pub items: u64,
    /// Bytes of these items: keys, values and their headers.
    pub item_bytes: u64,
    /// Bytes of the index that finds them, used or not.
    pub index_bytes: u64,
    /// Bytes taken from the system for both, what is free in it included.
    pub memory_bytes: u64,
}

impl Footprint {
    /// What the server at `target` says now; none where it does not say it: Redis, the in-network cache, a server over datagrams.
    pub fn read(target: &Target) -> Option<Footprint> {
        if target.is_redis() {
            return None;
        }
        let mut transport = target.connect().ok()?;
        let mut said = exchange(target, &mut *transport, None).ok()?.memory;
        if said.memory.is_none() {
            // memcached says its slabs apart, and does not count the index among them.
            let slabs = exchange(target, &mut *transport, Some("slabs")).ok()?.memory.slabs;
            said.memory = slabs.zip(said.index).map(|(slabs, index)| slabs + index);
        }
        Some(Footprint {
            items: said.items?,
            item_bytes: said.bytes?,
            index_bytes: said.index?,
            memory_bytes: said.memory?,
        })
    }

    /// `bytes` for each item, if there is one.
    pub fn per_item(&self, bytes: u64) -> Option<f64> {
        (self.items > 0).then(|| bytes as f64 / self.items as f64)
    }

    /// Bytes of an item and its part of the index.
    pub fn bytes_per_item(&self) -> Option<f64> {
        self.per_item(self.item_bytes + self.index_bytes)
    }
}

/// What a server tells of itself.
#[derive(Debug, Default)]
struct Said {
    pid: Option<u32>,
    version: Option<String>,
    memory: SaidMemory,
}

#[derive(Debug, Default, PartialEq)]
struct SaidMemory {
    items: Option<u64>,
    bytes: Option<u64>,
    index: Option<u64>,
    memory: Option<u64>,
    slabs: Option<u64>,
}

const PATIENCE: Duration = Duration::from_secs(5);

fn ask(target: &Target) -> Result<Said, LoadError> {
    exchange(target, &mut *target.connect()?, None)
}

/// Asks for `stats`, in general or of one `kind`, and waits for the answer.
fn exchange(target: &Target, transport: &mut dyn Transport, kind: Option<&str>) -> Result<Said, LoadError> {
    let ended = |cause: String| LoadError::Ended { target: target.to_string(), cause };
    let mut out = Vec::new();
    if target.is_redis() {
        resp::command(&mut out, 2);
        resp::word(&mut out, b"INFO");
        resp::word(&mut out, b"server");
    } else {
        request::stats(&mut out, kind);
    }
    transport.send(&out).map_err(|e| ended(e.to_string()))?;
    let (mut input, began) = (Vec::new(), Instant::now());
    loop {
        let said = if target.is_redis() { read_info(&input) } else { read_stats(&input) };
        if let Some(said) = said.map_err(ended)? {
            return Ok(said);
        }
        let mut room = [0; 4096];
        match transport.receive(&mut room) {
            Ok(0) => return Err(ended("the server closed the connection".to_string())),
            Ok(n) => input.extend_from_slice(&room[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(e) => return Err(ended(e.to_string())),
        }
    }
}

fn read_stats(input: &[u8]) -> Result<Option<Said>, String> {
    let mut reader = ReplyReader::new(0);
    reader.expect(protocol::memcache::client::Expect::Stats);
    let (mut said, mut at) = (Said::default(), 0);
    loop {
        match reader.next(&input[at..]).map_err(|e| e.to_string())? {
            Progress::Incomplete { .. } => return Ok(None),
            Progress::Reply { reply, used, last } => {
                if let Reply::Stat { name, value } = reply {
                    let text = String::from_utf8_lossy(value);
                    match name {
                        b"pid" => said.pid = text.parse().ok(),
                        b"version" => said.version = Some(text.into_owned()),
                        b"curr_items" => said.memory.items = text.parse().ok(),
                        b"bytes" => said.memory.bytes = text.parse().ok(),
                        b"hash_bytes" => said.memory.index = text.parse().ok(),
                        b"memory_bytes" => said.memory.memory = text.parse().ok(),
                        b"total_malloced" => said.memory.slabs = text.parse().ok(),
                        _ => {}
                    }
                }
                if last {
                    return Ok(Some(said));
                }
                at += used;
            }
        }
    }
}

fn read_info(input: &[u8]) -> Result<Option<Said>, String> {
    let mut reader = resp::RespReader::new(1 << 20);
    reader.expect();
    match reader.next(input)? {
        resp::RespProgress::Reply { reply: resp::RespReply::Bulk(text), .. } => {
            let text = String::from_utf8_lossy(text);
            let field = |name| text.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim().to_string());
            let pid = field("process_id:").and_then(|p| p.parse().ok());
            Ok(Some(Said { pid, version: field("redis_version:"), ..Said::default() }))
        }
        resp::RespProgress::Reply { .. } => Err("the server did not answer INFO".to_string()),
        resp::RespProgress::Incomplete { .. } => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let line = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 700 800 0 0";
        assert_eq!(ticks(line), Some((700, 800)));
    }

    #[test]
    fn this_process_can_be_watched() {
        let process = ServerProcess { pid: std::process::id(), name: String::new(), version: None };
        let before = process.read().expect("this process runs");
        let mut x = 1u64;
        (0..20_000_000u64).for_each(|i| x = std::hint::black_box(x.wrapping_mul(i | 1)));
        let used = process.read().expect("still").since(&before);
        assert!(used.total_ns > 1_000_000, "{used:?}");
    }

    #[test]
    fn what_servers_say_is_understood() {
        let said =
            read_stats(b"STAT pid 42\r\nSTAT version 1.6.18\r\nEND\r\n").expect("good").expect("whole");
        assert_eq!((said.pid, said.version.as_deref()), (Some(42), Some("1.6.18")));
        assert!(read_stats(b"STAT pid 42\r\n").expect("good").is_none());
        let text =
            b"STAT curr_items 2\r\nSTAT bytes 150\r\nSTAT hash_bytes 50\r\nSTAT memory_bytes x\r\nEND\r\n";
        let memory = read_stats(text).expect("good").expect("whole").memory;
        let wanted =
            SaidMemory { items: Some(2), bytes: Some(150), index: Some(50), memory: None, slabs: None };
        assert_eq!(memory, wanted);
        let slabs = read_stats(b"STAT total_malloced 9\r\nEND\r\n").expect("good").expect("whole").memory;
        assert_eq!(slabs.slabs, Some(9));
        let footprint = Footprint { items: 2, item_bytes: 150, index_bytes: 50, memory_bytes: 400 };
        assert_eq!((footprint.bytes_per_item(), footprint.per_item(400)), (Some(100.0), Some(200.0)));
        assert_eq!(Footprint { items: 0, ..footprint }.bytes_per_item(), None);
        let info = b"$44\r\n# Server\r\nredis_version:7.0.15\r\nprocess_id:7\r\n\r\n";
        let said = read_info(info).expect("good").expect("whole");
        assert_eq!((said.pid, said.version.as_deref()), (Some(7), Some("7.0.15")));
    }
}
