//! A polite memcached client, which pipelines reads and writes of keys of its own and knows what each reply may be.

use base::prng::{Prng, mix64};
use faults::{Kind, Rates};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Requests of a connection under way.
const PIPELINE: u64 = 12;

/// What a server says that has no descriptor for a client, and closes.
const TURNED_AWAY: &str = "ERROR Too many open connections";

/// A client that is turned away comes again so many times: with a fifth of the calls failing nobody is turned away so often.
const TIMES_TURNED_AWAY: usize = 30;

/// Why a client stopped.
#[derive(Debug)]
enum Ended {
    /// The connection is gone.
    Closed(String),
    /// That may not be.
    Wrong(String),
}

struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    fn to(address: &str, patience: Duration) -> Result<Client, Ended> {
        let stream = TcpStream::connect(address).map_err(|e| Ended::Closed(e.to_string()))?;
        let set = stream.set_read_timeout(Some(patience)).and(stream.set_write_timeout(Some(patience)));
        set.map_err(|e| Ended::Wrong(e.to_string()))?;
        Ok(Client { stream, unread: Vec::new() })
    }

    /// A client that the server has let in: the first request is answered. A server that is short of descriptors may say so instead, and close.
    fn let_in(address: &str, patience: Duration) -> Result<Client, Ended> {
        for _ in 0..TIMES_TURNED_AWAY {
            let mut client = Client::to(address, patience)?;
            let first = match client.stream.write_all(b"version\r\n") {
                Ok(()) => client.line(),
                Err(e) => Err(Client::failed(&e)),
            };
            match first {
                Ok(line) if line.starts_with("VERSION ") => return Ok(client),
                Ok(line) if line == TURNED_AWAY => {}
                // It was gone before it could read what it was told.
                Err(Ended::Closed(_)) => {}
                Ok(line) => return Err(Ended::Wrong(format!("{line:?} to version"))),
                Err(wrong) => return Err(wrong),
            }
        }
        Err(Ended::Wrong(format!("turned away {TIMES_TURNED_AWAY} times")))
    }

    fn failed(e: &std::io::Error) -> Ended {
        match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Ended::Wrong("no reply".into()),
            _ => Ended::Closed(e.to_string()),
        }
    }

    fn more(&mut self) -> Result<(), Ended> {
        let mut buffer = [0; 1 << 16];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(Ended::Closed("end of stream".into())),
            Ok(n) => {
                self.unread.extend(&buffer[..n]);
                Ok(())
            }
            Err(e) => Err(Client::failed(&e)),
        }
    }

    fn bytes(&mut self, n: usize) -> Result<Vec<u8>, Ended> {
        while self.unread.len() < n {
            self.more()?;
        }
        Ok(self.unread.drain(..n).collect())
    }

    fn line(&mut self) -> Result<String, Ended> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            self.more()?;
        }
    }
}

/// What a key may hold; 0 is nothing.
#[derive(Clone, Debug)]
struct Held {
    /// The last that was acknowledged, and those that were sent since on this connection.
    sent: Vec<u64>,
    /// Sent on connections that were closed: done at any time since, or never.
    unknown: Vec<u64>,
}

impl Held {
    fn nothing() -> Held {
        Held { sent: vec![0], unknown: Vec::new() }
    }
}

/// A value that says which it is at every place.
fn value(number: u64, longest: usize) -> Vec<u8> {
    let word = mix64(number);
    let length = match word % 16 {
        0 => 40_000,
        1 => 300_000,
        2..6 => 3_000,
        _ => word as usize % 100,
    };
    let mut bytes = format!("{number}:").into_bytes();
    bytes.extend((0..length.min(longest)).map(|i| mix64(number ^ (i as u64 / 8)).to_le_bytes()[i % 8]));
    bytes
}

enum Asked {
    Set(String, u64),
    Get(String),
    Meta(String, u64),
}

/// A conversation of one client that has keys of its own.
pub struct Talk<'a> {
    address: &'a str,
    patience: Duration,
    /// Connections may be closed.
    may_close: bool,
    /// Who comes may be turned away, in words, before anything is asked.
    may_turn_away: bool,
    name: u64,
    prng: Prng,
    next: u64,
    /// Bytes of a value at most.
    longest: usize,
    held: HashMap<String, Held>,
}

impl<'a> Talk<'a> {
    /// Client `name` of a run with this seed. It hears nothing for `patience` at most.
    pub fn new(address: &'a str, name: u64, seed: u64, patience: Duration) -> Talk<'a> {
        Talk {
            address,
            patience,
            may_close: false,
            may_turn_away: false,
            name,
            prng: Prng::for_entity(seed, name, 1),
            next: name << 32,
            longest: 300_000,
            held: HashMap::new(),
        }
    }

    /// The client of a server whose kernel fails at these rates.
    pub fn with(mut self, rates: Rates<'_>) -> Talk<'a> {
        let has = |kind| rates.iter().any(|(one, _)| *one == kind);
        (self.may_close, self.may_turn_away) = (has(Kind::Reset), has(Kind::NoDescriptors));
        self
    }

    pub fn longest(mut self, bytes: usize) -> Talk<'a> {
        self.longest = bytes;
        self
    }

    /// So many pipelines of requests, each answered as it must be.
    pub fn run(&mut self, rounds: u64) -> Result<(), String> {
        let mut client = None;
        for _ in 0..rounds {
            let asked: Vec<Asked> = (0..1 + self.prng.below(PIPELINE)).map(|_| self.draw()).collect();
            let mut at = 0;
            match self.round(&mut client, &asked, &mut at) {
                Ok(()) => {}
                Err(Ended::Closed(_)) if self.may_close => {
                    client = None;
                    for held in self.held.values_mut() {
                        held.unknown.extend(held.sent.drain(1..));
                    }
                }
                Err(Ended::Closed(why)) => {
                    return Err(format!("closed after {at} of {} replies: {why}", asked.len()));
                }
                Err(Ended::Wrong(why)) => return Err(format!("reply {at} of {}: {why}", asked.len())),
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Asked {
        let key = format!("c{}-k{}", self.name, self.prng.below(20));
        self.next += 1;
        match self.prng.below(5) {
            0 | 1 => Asked::Set(key, self.next),
            2 => Asked::Meta(key, self.next),
            _ => Asked::Get(key),
        }
    }

    fn round(&mut self, client: &mut Option<Client>, asked: &[Asked], at: &mut usize) -> Result<(), Ended> {
        if client.is_none() {
            let come = if self.may_turn_away { Client::let_in } else { Client::to };
            *client = Some(come(self.address, self.patience)?);
        }
        let Some(client) = client.as_mut() else { return Ok(()) };
        let mut text = Vec::new();
        for one in asked {
            match one {
                Asked::Set(key, number) => {
                    let value = value(*number, self.longest);
                    text.extend(format!("set {key} 0 0 {}\r\n", value.len()).bytes());
                    text.extend(value);
                    text.extend(b"\r\n");
                    self.held.entry(key.clone()).or_insert_with(Held::nothing).sent.push(*number);
                }
                Asked::Get(key) => text.extend(format!("get {key}\r\n").bytes()),
                Asked::Meta(key, opaque) => text.extend(format!("mg {key} v O{opaque}\r\n").bytes()),
            }
        }
        // Replies are read meanwhile: a node does not read on from who does not take its replies.
        let mut writer = client.stream.try_clone().map_err(|e| Ended::Wrong(e.to_string()))?;
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || writer.write_all(&text));
            let heard = asked.iter().try_for_each(|one| {
                self.hear(client, one)?;
                *at += 1;
                Ok(())
            });
            if heard.is_err() {
                let _ = client.stream.shutdown(std::net::Shutdown::Both);
            }
            let sent = sent.join().expect("it does not panic");
            heard.and(sent.map_err(|e| Client::failed(&e)))
        })
    }

    fn hear(&mut self, client: &mut Client, asked: &Asked) -> Result<(), Ended> {
        let line = client.line()?;
        let wrong = |what: &str| Err(Ended::Wrong(format!("{line:?}, not {what}")));
        match asked {
            Asked::Set(key, number) => {
                if line != "STORED" {
                    return wrong("STORED");
                }
                // What was sent before it was done before it, or never is.
                let sent = &mut self.held.entry(key.clone()).or_insert_with(Held::nothing).sent;
                let at = sent.iter().position(|n| n == number).unwrap_or(0);
                sent.drain(..at);
                Ok(())
            }
            Asked::Get(key) if line == "END" => self.seen(key, None),
            Asked::Get(key) => {
                let Some(length) = line.strip_prefix(&format!("VALUE {key} 0 ")) else {
                    return wrong("the value of its key");
                };
                let found = self.take(client, length)?;
                if client.line()? != "END" {
                    return wrong("followed by END");
                }
                self.seen(key, Some(found))
            }
            Asked::Meta(key, opaque) if line == format!("EN O{opaque}") => self.seen(key, None),
            Asked::Meta(key, opaque) => {
                let words = line.strip_prefix("VA ").and_then(|rest| rest.split_once(' '));
                let Some((length, _)) = words.filter(|(_, mark)| *mark == format!("O{opaque}")) else {
                    return wrong("the value that was asked for with this mark");
                };
                let found = self.take(client, length)?;
                self.seen(key, Some(found))
            }
        }
    }

    /// Which value of ours comes.
    fn take(&self, client: &mut Client, length: &str) -> Result<u64, Ended> {
        let length: usize = length.parse().map_err(|_| Ended::Wrong(format!("a length of {length:?}")))?;
        let bytes = client.bytes(length)?;
        let number = bytes.split(|byte| *byte == b':').next().map(String::from_utf8_lossy);
        let number = number.and_then(|text| text.parse().ok()).unwrap_or(0);
        if value(number, self.longest) != bytes {
            return Err(Ended::Wrong(format!("a torn value of {length} bytes")));
        }
        match &client.bytes(2)?[..] {
            b"\r\n" => Ok(number),
            other => Err(Ended::Wrong(format!("a value that goes on with {other:?}"))),
        }
    }

    fn seen(&self, key: &str, found: Option<u64>) -> Result<(), Ended> {
        let found = found.unwrap_or(0);
        let held = self.held.get(key).cloned().unwrap_or_else(Held::nothing);
        if held.sent.contains(&found) || held.unknown.contains(&found) {
            return Ok(());
        }
        Err(Ended::Wrong(format!("{key} has {found}, not one of {held:?}")))
    }

    /// All that was acknowledged can be read.
    pub fn read_all(&mut self) -> Result<(), String> {
        (self.may_close, self.may_turn_away) = (false, false);
        let asked: Vec<_> = self.held.keys().map(|key| Asked::Get(key.clone())).collect();
        self.round(&mut None, &asked, &mut 0).map_err(|ended| format!("in the end: {ended:?}"))
    }
}
