//! etcd: its transactions, over the JSON gateway that it has at its client port; as many members as the chain has replicas.
//!
//! The gateway is HTTP/1.1 with JSON and base64 before etcd's own gRPC, in the same process: some tens of microseconds of processor time for each
//! transaction, beside the milliseconds of a commit that is fsynced by a majority. One connection has one request under way, so as many
//! connections as transactions under way are used.

use super::{Server, folder, free_ports, is_plain, plain, puts, until_it_answers};
use crate::drive::{Ask, Lost, OneByOne};
use crate::txn::side::{Side, Slice, lost};
use crate::txn::tally::{Counts, Ended, Tally};
use crate::txn::workload::{Tasks, Workload};
use base::{Clock, Nanos};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::chain::Transaction;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest body that is read.
const LONGEST: usize = 16 << 20;
/// Connections of a load, each with a thread.
const CONNECTIONS_MAX: usize = 64;

/// A cluster.
pub struct Etcd {
    /// For clients.
    ports: Vec<u16>,
    connections: Vec<Http>,
    filled: Vec<Workload>,
    _servers: Vec<Server>,
    _folder: TempDir,
}

/// A connection to the gateway.
struct Http {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Etcd {
    /// A cluster of `members`.
    ///
    /// # Errors
    /// A sentence; it is not installed, for one.
    pub fn start(within: &Path, members: u16) -> Result<Etcd, String> {
        let folder = folder(within)?;
        let ports = free_ports(2 * usize::from(members))?;
        let (clients, peers) = ports.split_at(members.into());
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let all: Vec<String> =
            peers.iter().enumerate().map(|(at, port)| format!("m{at}={}", url(port))).collect();
        let mut servers = Vec::new();
        for (at, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let own = folder.path().join(at.to_string());
            let words = [
                ("name", format!("m{at}")),
                ("data-dir", own.join("data").display().to_string()),
                ("listen-client-urls", url(client)),
                ("advertise-client-urls", url(client)),
                ("listen-peer-urls", url(peer)),
                ("initial-advertise-peer-urls", url(peer)),
                ("initial-cluster", all.join(",")),
                ("log-level", "error".to_owned()),
            ];
            let words: Vec<String> =
                words.into_iter().flat_map(|(flag, value)| [format!("--{flag}"), value]).collect();
            servers.push(Server::start("etcd", &words, &own)?);
        }
        let ports = clients.to_vec();
        let mut etcd =
            Etcd { ports, connections: Vec::new(), filled: Vec::new(), _servers: servers, _folder: folder };
        let first = until_it_answers("etcd", || {
            let mut first = Http::open(etcd.ports[0])?;
            first.execute(&Transaction::new().put("bench", "1"))?;
            Ok(first)
        })?;
        etcd.connections.push(first);
        Ok(etcd)
    }

    fn sessions(&mut self, count: usize) -> Result<&mut [Http], String> {
        while self.connections.len() < count {
            // Members in turns: each has clients, as behind a balancer.
            let port = self.ports[self.connections.len() % self.ports.len()];
            self.connections.push(Http::open(port)?);
        }
        Ok(&mut self.connections[..count])
    }
}

impl Http {
    fn open(port: u16) -> Result<Http, String> {
        let failed = |error: std::io::Error| format!("etcd at port {port}: {error}");
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        let head = format!(
            "POST /v3/kv/txn HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        );
        Ok(Http { stream: BufReader::new(stream), head })
    }

    fn execute(&mut self, transaction: &Transaction) -> Result<(), String> {
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        let gets = transaction.reads.iter().map(|key| json!({ "requestRange": { "key": text(key) } }));
        let puts = puts(transaction)
            .map(|(key, value)| json!({ "requestPut": { "key": text(key), "value": text(value) } }));
        let body = json!({ "success": gets.chain(puts).collect::<Vec<_>>() }).to_string();
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let answer = self.answer().map_err(|error| format!("etcd: {error}"))?;
        let answer: serde_json::Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        // Protobuf's JSON leaves false out.
        if answer["succeeded"] == true { Ok(()) } else { Err(format!("etcd says {answer}")) }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.stream.by_ref().take(1 << 16).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// The body of a response of status 200.
    fn answer(&mut self) -> std::io::Result<Vec<u8>> {
        let bad = |text: String| std::io::Error::new(std::io::ErrorKind::InvalidData, text);
        let status = self.line()?;
        let (mut length, mut chunked) = (0usize, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => {
                    length = value.trim().parse().map_err(|_| bad(format!("no length: {value}")))?;
                }
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                let line = self.line()?;
                let len = usize::from_str_radix(&line, 16).map_err(|_| bad(format!("no chunk: {line}")))?;
                self.read_into(&mut body, len)?;
                self.line()?;
                if len == 0 {
                    break;
                }
            }
        } else {
            self.read_into(&mut body, length)?;
        }
        if status.split(' ').nth(1) == Some("200") {
            return Ok(body);
        }
        Err(bad(format!("{status}: {}", String::from_utf8_lossy(&body))))
    }

    fn read_into(&mut self, body: &mut Vec<u8>, len: usize) -> std::io::Result<()> {
        let from = body.len();
        if from + len > LONGEST {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the answer is too long"));
        }
        body.resize(from + len, 0);
        self.stream.read_exact(&mut body[from..])
    }
}

/// A connection at work.
struct Work<'c> {
    connection: &'c mut Http,
    tasks: Tasks,
}

impl Ask for Work<'_> {
    type Counts = Counts;

    fn ask(&mut self, meant: Nanos, tally: &mut Tally) -> Result<(), Lost> {
        let transaction = plain(self.tasks.next_task()).map_err(lost)?;
        self.connection.execute(&transaction).map_err(lost)?;
        tally.record(Ended::Done, meant, Clock::shared().now());
        Ok(())
    }
}

impl Side for Etcd {
    fn name(&self) -> String {
        "etcd".to_owned()
    }

    fn promise(&self) -> String {
        format!("fsync at a majority of {} members", self.ports.len())
    }

    fn can(&self, workload: Workload) -> bool {
        is_plain(workload)
    }

    fn preload(&mut self, workload: Workload) -> Result<(), String> {
        if !self.filled.contains(&workload.data()) {
            let connection = &mut self.connections[0];
            workload.preload().try_for_each(|transaction| connection.execute(&transaction))?;
            self.filled.push(workload.data());
        }
        Ok(())
    }

    fn run(&mut self, slice: Slice) -> Result<Tally, String> {
        let (sessions, window) = slice.load.shape();
        let connections = self.sessions((sessions * window).min(CONNECTIONS_MAX))?;
        let work = |(at, connection)| OneByOne::new(Work { connection, tasks: slice.tasks(at) });
        let mut all: Vec<_> = connections.iter_mut().enumerate().map(work).collect();
        slice.run(&mut all)
    }
}
