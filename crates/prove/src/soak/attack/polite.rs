//! The client that does nothing wrong: one request, its answer checked, a pause.

use super::kinds::Asks;
use super::rig::Places;
use base::{Clock, Nanos};
use bench::drive::{Ask, Lost, OneByOne, Plan, drive};
use bench::tally::Tally;
use fabric::channel::{CallOptions, Channel, Method, Options};
use fabric::link::Address;
use protocol::chain::Transaction;
use serde_json::json;
use serve::txn::{self, Client};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Between two requests.
const PAUSE_BETWEEN_REQUESTS: Nanos = Nanos::from_micros(500);
/// For an answer; what takes longer has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What it asks.
trait Question {
    /// One request and its answer, which was right.
    ///
    /// # Errors
    /// Why not.
    fn ask(&mut self) -> Result<(), String>;
}

/// The client.
pub struct Polite(OneByOne<Asker>);

struct Asker(Box<dyn Question>);

impl Ask for Asker {
    type Counts = ();

    /// A request without a right answer is counted, and the next is asked.
    fn ask(&mut self, meant: Nanos, tally: &mut Tally) -> Result<(), Lost> {
        match self.0.ask() {
            Ok(()) => tally.record((), meant, Clock::shared().now()),
            Err(why) => tally.fail("polite", 1, || why),
        }
        Ok(())
    }
}

impl Polite {
    /// Asks for so long.
    pub fn during(&mut self, time: Duration) -> Tally {
        let (never, done) = (AtomicBool::new(false), AtomicU64::new(0));
        drive(&mut self.0, &Plan::full(time.into()), Clock::shared().now(), &never, &done)
    }
}

/// A polite client of these servers.
///
/// # Errors
/// It cannot connect.
pub fn connect(places: &Places, asks: Asks) -> Result<Polite, String> {
    let question: Box<dyn Question> = match asks {
        Asks::Item => Box::new(Items(stream(places.service)?)),
        Asks::Health => Box::new(Pages::new(places.admin, "GET /healthz", String::new())?),
        Asks::Score => Box::new(Pages::new(places.http, "POST /v2/models/synthetic/infer", score())?),
        Asks::Ping => Box::new(Pings::new(places.gateway)?),
        Asks::Echo => {
            let channel = Channel::connect(&tcp(places.service)?, &Options::default());
            let channel = channel.map_err(|e| e.to_string())?;
            let method = channel.method("/demo.Echo/Say").ok_or("there is no demo.Echo")?;
            Box::new(Echo { channel, method })
        }
        Asks::Transaction => {
            let client = Client::connect(&[tcp(places.service)?], &txn::Options::default());
            Box::new(Adds { client: client.map_err(|e| e.to_string())?, sum: 0 })
        }
    };
    let mut one = OneByOne::new(Asker(question));
    one.pause = PAUSE_BETWEEN_REQUESTS;
    Ok(Polite(one))
}

fn tcp(address: SocketAddr) -> Result<Address, String> {
    format!("tcp:{address}").parse().map_err(|e| format!("{e}"))
}

fn stream(to: SocketAddr) -> Result<BufReader<TcpStream>, String> {
    let open = || {
        let stream = TcpStream::connect_timeout(&to, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(BufReader::new(stream))
    };
    open().map_err(|e: std::io::Error| format!("{to}: {e}"))
}

struct Items(BufReader<TcpStream>);

impl Question for Items {
    fn ask(&mut self) -> Result<(), String> {
        let mut ask = || -> std::io::Result<String> {
            self.0.get_mut().write_all(b"get k7\r\n")?;
            let mut answer = String::new();
            while !answer.ends_with("END\r\n") && self.0.read_line(&mut answer)? > 0 {}
            Ok(answer)
        };
        let answer = ask().map_err(|e| e.to_string())?;
        let is_right = answer.starts_with("VALUE k7 0 ") && answer.ends_with("END\r\n");
        is_right.then_some(()).ok_or_else(|| format!("get k7 is answered {:?}", answer.get(..60)))
    }
}

struct Echo {
    channel: Channel,
    method: Method,
}

impl Question for Echo {
    fn ask(&mut self) -> Result<(), String> {
        const HELLO: &[u8] = b"\x0a\x05hello";
        let reply = self.channel.call_bytes(self.method, &CallOptions::within(ANSWER_TIMEOUT), HELLO);
        let reply = reply.map_err(|status| status.to_string())?;
        (reply.body == HELLO).then_some(()).ok_or_else(|| "the echo says something else".to_owned())
    }
}

/// Adds one, and wants each sum once.
struct Adds {
    client: Client,
    sum: i64,
}

impl Question for Adds {
    fn ask(&mut self) -> Result<(), String> {
        let outcome = self.client.execute(Transaction::new().add("polite", 1)).map_err(|e| e.to_string())?;
        let expected = self.sum + 1;
        self.sum = outcome.sums.first().copied().unwrap_or(expected);
        (self.sum == expected)
            .then_some(())
            .ok_or_else(|| format!("the sum is {} and should be {expected}", self.sum))
    }
}

/// One page, over and over, on a connection that is kept.
struct Pages {
    to: SocketAddr,
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Pages {
    fn new(to: SocketAddr, what: &str, body: String) -> Result<Pages, String> {
        let request =
            format!("{what} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Ok(Pages { to, stream: stream(to)?, request: request.into_bytes() })
    }

    fn page(&mut self) -> std::io::Result<String> {
        self.stream.get_mut().write_all(&self.request)?;
        let (mut status, mut length) = (String::new(), 0);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut (&mut self.stream).take(length), &mut std::io::sink())?;
        Ok(status)
    }
}

impl Question for Pages {
    fn ask(&mut self) -> Result<(), String> {
        match self.page() {
            Ok(status) if status.contains(" 200 ") => Ok(()),
            Ok(status) => Err(status.trim().to_owned()),
            Err(error) => {
                self.stream = stream(self.to)?;
                Err(error.to_string())
            }
        }
    }
}

/// A score of the random model with two tables and two dense numbers.
fn score() -> String {
    let dense = json!({ "name": "dense", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1.0] });
    let ids = json!({ "name": "features", "datatype": "BYTES", "shape": [1], "data": ["t0: 1 2; t1: 3"] });
    json!({ "inputs": [dense, ids] }).to_string()
}

/// HTTP/2 pings at a gateway: what a connection that was accepted and is served gets.
struct Pings(BufReader<TcpStream>);

impl Pings {
    fn new(to: SocketAddr) -> Result<Pings, String> {
        let mut stream = stream(to)?;
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let hello = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat();
        stream.get_mut().write_all(&hello).map_err(|e| e.to_string())?;
        Ok(Pings(stream))
    }
}

impl Question for Pings {
    fn ask(&mut self) -> Result<(), String> {
        let mut ask = || -> std::io::Result<()> {
            self.0.get_mut().write_all(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])?;
            loop {
                let mut head = [0; 9];
                self.0.read_exact(&mut head)?;
                let length = u64::from(u32::from_be_bytes([0, head[0], head[1], head[2]]));
                std::io::copy(&mut (&mut self.0).take(length), &mut std::io::sink())?;
                if (head[3], head[4]) == (6, 1) {
                    return Ok(());
                }
            }
        };
        ask().map_err(|e| e.to_string())
    }
}
