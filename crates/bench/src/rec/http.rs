//! One connection's load over HTTP/1.1: one request at a time. Requests are made before, so that the client does little.

use super::tally::{StageTally, Tally};
use crate::drive::{Ask, Lost};
use base::{Clock, Nanos};
use serde_json::Value;
use serve::rec::Stages;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer answers are none of ours.
const BODY_MAX_BYTES: usize = 64 << 20;

/// A connection that is kept.
pub struct Connection {
    stream: TcpStream,
    host: String,
    bytes: Vec<u8>,
}

/// An answer.
pub struct Answer<'c> {
    /// The status.
    pub status: u16,
    /// The body's JSON, without binary data behind it.
    pub json: &'c [u8],
}

impl Connection {
    /// A connection.
    ///
    /// # Errors
    /// A sentence.
    pub fn to(host: &str) -> Result<Connection, String> {
        let stream = TcpStream::connect(host).map_err(|error| format!("cannot be reached: {error}"))?;
        let set =
            stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(30))));
        set.map_err(|error| format!("the connection cannot be set up: {error}"))?;
        Ok(Connection { stream, host: host.to_owned(), bytes: Vec::new() })
    }

    /// Sends a request, head and body, and waits for the answer.
    ///
    /// # Errors
    /// A sentence.
    pub fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>, String> {
        let broken = |error: std::io::Error| format!("the connection broke: {error}");
        self.stream.write_all(request).map_err(broken)?;
        self.bytes.clear();
        let mut some = [0; 16 << 10];
        let (head, length) = loop {
            let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&self.bytes[..end]).to_lowercase();
                let number = |name: &str| {
                    let line = head.lines().find_map(|line| line.strip_prefix(name));
                    line.and_then(|value| value.trim().parse::<usize>().ok())
                };
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                let length = number("content-length:").filter(|&length| length <= BODY_MAX_BYTES);
                let (Some(status), Some(length)) = (status, length) else {
                    return Err("an answer that is not HTTP as expected".to_owned());
                };
                let json = number("inference-header-content-length:").unwrap_or(length).min(length);
                break ((status, end..end + json), end + length);
            }
            self.more(&mut some)?;
        };
        while self.bytes.len() < length {
            self.more(&mut some)?;
        }
        Ok(Answer { status: head.0, json: &self.bytes[head.1] })
    }

    fn more(&mut self, some: &mut [u8]) -> Result<(), String> {
        match self.stream.read(some) {
            Ok(0) => Err("the connection was closed".to_owned()),
            Ok(count) => {
                self.bytes.extend_from_slice(&some[..count]);
                Ok(())
            }
            Err(error) => Err(format!("the connection broke: {error}")),
        }
    }

    /// A request without a body, answered in JSON.
    ///
    /// # Errors
    /// A sentence.
    pub fn json(&mut self, method: &str, path: &str) -> Result<Value, String> {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n", self.host);
        let Answer { status, json } = self.ask(request.as_bytes())?;
        match status {
            200 => serde_json::from_slice(json).map_err(|error| format!("{path}: no JSON: {error}")),
            status => Err(format!("{path}: status {status}: {}", String::from_utf8_lossy(json))),
        }
    }
}

/// A connection that is loaded with requests, in turns.
pub struct Infer<'r> {
    /// Where.
    pub connection: Connection,
    /// Requests.
    pub bodies: &'r [Vec<u8>],
    /// Queries of each.
    pub batch: usize,
    /// The next.
    pub next: usize,
}

impl Ask for Infer<'_> {
    type Counts = StageTally;

    fn ask(&mut self, meant: Nanos, tally: &mut Tally) -> Result<(), Lost> {
        let request = &self.bodies[self.next % self.bodies.len()];
        self.next += 1;
        let answer = self.connection.ask(request).and_then(|answer| check(&answer, self.batch));
        let stages = answer.map_err(|why| Lost { failure: "HTTP", why })?;
        tally.record((), meant, Clock::shared().now());
        tally.counts.note(&stages);
        Ok(())
    }
}

/// Stages of a right answer.
fn check(answer: &Answer<'_>, batch: usize) -> Result<Stages, String> {
    if answer.status != 200 {
        return Err(format!("status {}: {}", answer.status, String::from_utf8_lossy(answer.json)));
    }
    let json: Value = serde_json::from_slice(answer.json).map_err(|error| format!("no JSON: {error}"))?;
    if json["outputs"][0]["shape"][0] != batch {
        return Err("scores of other queries".to_owned());
    }
    let time = |name: &str| Nanos(json["parameters"][name].as_u64().unwrap_or(0));
    Ok(Stages {
        queue: time("queue_ns"),
        parse: time("parse_ns"),
        preprocess: time("preprocess_ns"),
        wait: time("wait_ns"),
        reduce: time("reduce_ns"),
        mlp: time("mlp_ns"),
        together: time("together").0 as u32,
    })
}
