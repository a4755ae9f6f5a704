//! Redis: MULTI … EXEC with every write fsynced (`appendonly yes`, `appendfsync always`) on a master and its replicas, then WAIT for all replicas.
//!
//! Under way at once in a session: a batch of transactions and one WAIT for all of them, since WAIT holds up what comes after it on a connection.

use super::{Server, folder, free_ports, is_plain, plain, puts, until_it_answers};
use crate::drive::{Driven, Lost, Start};
use crate::load::resp::{RespProgress, RespReader, RespReply, command, word};
use crate::txn::side::{Side, Slice, lost};
use crate::txn::tally::{Counts, Ended, Tally};
use crate::txn::workload::{Tasks, Workload};
use base::{Clock, Nanos};
use protocol::chain::Transaction;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A master with its replicas.
pub struct Redis {
    ports: Vec<u16>,
    connections: Vec<Connection>,
    filled: Vec<Workload>,
    _servers: Vec<Server>,
    _folder: TempDir,
}

/// A connection, and what is owed to it.
struct Connection {
    stream: TcpStream,
    reader: RespReader,
    input: Vec<u8>,
    output: Vec<u8>,
    owed: usize,
}

impl Redis {
    /// A master and `copies` - 1 replicas.
    ///
    /// # Errors
    /// A sentence; it is not installed, for one.
    pub fn start(within: &Path, copies: u16) -> Result<Redis, String> {
        let folder = folder(within)?;
        let ports = free_ports(copies.into())?;
        let mut servers = Vec::new();
        for port in &ports {
            let own = folder.path().join(port.to_string());
            std::fs::create_dir_all(&own).map_err(|error| error.to_string())?;
            let mut words: Vec<String> = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
                .into_iter()
                .chain([
                    "--appendfsync",
                    "always",
                    "--repl-diskless-sync",
                    "yes",
                    "--repl-diskless-sync-delay",
                    "0",
                ])
                .map(str::to_owned)
                .collect();
            words.extend([
                "--port".to_owned(),
                port.to_string(),
                "--dir".to_owned(),
                own.display().to_string(),
            ]);
            if *port != ports[0] {
                words.extend(["--replicaof".to_owned(), "127.0.0.1".to_owned(), ports[0].to_string()]);
            }
            servers.push(Server::start("redis-server", &words, &own)?);
        }
        let mut redis =
            Redis { ports, connections: Vec::new(), filled: Vec::new(), _servers: servers, _folder: folder };
        // One write that all replicas have: they are connected.
        until_it_answers("redis", || {
            let mut first = Connection::open(redis.ports[0])?;
            let write = Transaction::new().put("bench", "1");
            first.ask(&write);
            first.wait_for(redis.ports.len() - 1, Duration::from_millis(200))?;
            redis.connections = vec![first];
            Ok(())
        })?;
        Ok(redis)
    }

    fn sessions(&mut self, count: usize) -> Result<&mut [Connection], String> {
        while self.connections.len() < count {
            self.connections.push(Connection::open(self.ports[0])?);
        }
        Ok(&mut self.connections[..count])
    }
}

impl Connection {
    fn open(port: u16) -> Result<Connection, String> {
        let failed = |error: std::io::Error| format!("redis at port {port}: {error}");
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        Ok(Connection {
            stream,
            reader: RespReader::new(1 << 20),
            input: Vec::new(),
            output: Vec::new(),
            owed: 0,
        })
    }

    fn say(&mut self, words: &[&[u8]]) {
        command(&mut self.output, words.len());
        words.iter().for_each(|text| word(&mut self.output, text));
        self.reader.expect();
        self.owed += 1;
    }

    fn ask(&mut self, transaction: &Transaction) {
        self.say(&[b"MULTI"]);
        for key in &transaction.reads {
            self.say(&[b"GET", key]);
        }
        for (key, value) in puts(transaction) {
            self.say(&[b"SET", key, value]);
        }
        self.say(&[b"EXEC"]);
    }

    /// Waits until so many replicas have what was asked, and every answer came.
    fn wait_for(&mut self, replicas: usize, timeout: Duration) -> Result<(), String> {
        self.say(&[b"WAIT", replicas.to_string().as_bytes(), timeout.as_millis().to_string().as_bytes()]);
        self.stream.write_all(&self.output).map_err(|error| error.to_string())?;
        self.output.clear();
        let mut acknowledged = None;
        let mut at = 0;
        let mut failure = None;
        while self.owed > 0 {
            match self.reader.next(&self.input[at..])? {
                RespProgress::Reply { reply, used, last } => {
                    match reply {
                        RespReply::Error(text) => failure = Some(String::from_utf8_lossy(text).into_owned()),
                        RespReply::Number(number) => acknowledged = Some(number),
                        _ => {}
                    }
                    at += used;
                    self.owed -= usize::from(last);
                }
                RespProgress::Incomplete { .. } => {
                    self.input.drain(..at);
                    at = 0;
                    self.fill()?;
                }
            }
        }
        self.input.drain(..at);
        match (failure, acknowledged) {
            (Some(text), _) => Err(format!("redis says {text}")),
            (None, Some(count)) if count >= replicas as i64 => Ok(()),
            (None, count) => Err(format!("{} of {replicas} replicas have it", count.unwrap_or(0))),
        }
    }

    fn fill(&mut self) -> Result<(), String> {
        let mut chunk = [0; 64 << 10];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err("redis has closed the connection".to_owned()),
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) => Err(format!("redis does not answer: {error}")),
        }
    }
}

/// A connection at work: transactions are written until the window is full, then one WAIT answers for all.
struct Batches<'c> {
    connection: &'c mut Connection,
    tasks: Tasks,
    replicas: usize,
    window: usize,
    /// Since when the batch is under way.
    asked: Nanos,
    under_way: usize,
}

impl Driven for Batches<'_> {
    type Counts = Counts;

    fn under_way(&self) -> usize {
        self.under_way
    }

    fn start(&mut self, meant: Nanos, _tally: &mut Tally) -> Result<Start, Lost> {
        if !self.has_room() {
            return Ok(Start::Full);
        }
        if self.under_way == 0 {
            self.asked = meant;
        }
        self.connection.ask(&plain(self.tasks.next_task()).map_err(lost)?);
        self.under_way += 1;
        Ok(Start::Started)
    }

    fn has_room(&self) -> bool {
        self.under_way < self.window
    }

    /// Waits while it receives.
    fn wait(&mut self, _now: Nanos, _until: Nanos, _is_open: bool) -> Result<(), Lost> {
        Ok(())
    }

    fn receive(&mut self, _now: Nanos, tally: &mut Tally) -> Result<usize, Lost> {
        self.connection.wait_for(self.replicas, ANSWER_TIMEOUT).map_err(lost)?;
        let now = Clock::shared().now();
        let ended = std::mem::take(&mut self.under_way);
        (0..ended).for_each(|_| tally.record(Ended::Done, self.asked, now));
        Ok(ended)
    }

    fn abandon(&mut self) -> u64 {
        std::mem::take(&mut self.under_way) as u64
    }
}

impl Side for Redis {
    fn name(&self) -> String {
        "redis".to_owned()
    }

    fn promise(&self) -> String {
        format!(
            "fsync at the master; {} replicas have received it (WAIT), whose own fsync is not waited for; no failover by itself",
            self.ports.len() - 1
        )
    }

    fn can(&self, workload: Workload) -> bool {
        is_plain(workload)
    }

    fn preload(&mut self, workload: Workload) -> Result<(), String> {
        if self.filled.contains(&workload.data()) {
            return Ok(());
        }
        let replicas = self.ports.len() - 1;
        let connection = &mut self.connections[0];
        for transaction in workload.preload() {
            connection.ask(&transaction);
            if connection.output.len() > 1 << 20 {
                connection.wait_for(replicas, ANSWER_TIMEOUT)?;
            }
        }
        connection.wait_for(replicas, ANSWER_TIMEOUT)?;
        self.filled.push(workload.data());
        Ok(())
    }

    fn run(&mut self, slice: Slice) -> Result<Tally, String> {
        let (sessions, window) = slice.load.shape();
        let replicas = self.ports.len() - 1;
        let mut all = Vec::new();
        for (at, connection) in self.sessions(sessions)?.iter_mut().enumerate() {
            let (tasks, asked) = (slice.tasks(at), Nanos::ZERO);
            all.push(Batches { connection, tasks, replicas, window, asked, under_way: 0 });
        }
        slice.run(&mut all)
    }
}
