//! What happens to the clients, and who else comes to the door.
//!
//! Clients are killed in the middle of whatever they do, or stopped for a while, with answers on the way to them, and woken
//! again. Beside them come strangers that send garbage, begin a write to somebody's key and vanish, announce too much, or
//! ask for a lot and read nothing. None of them may change a single key.

use super::ledger::MAX_VALUE;
use super::parts;
use super::slot::{Board, Victim};
use base::prng::Prng;
use rustix::process::Signal;
use serde::Serialize;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    /// Clients killed.
    pub kills: u64,
    /// Clients stopped for a while.
    pub stops: u64,
    /// Strangers sent.
    pub strangers: u64,
}

/// The longest pause between two acts, in milliseconds.
const PAUSE_MS: u64 = 300;

/// The longest time that a client is stopped, in milliseconds.
const STOP_MS: u64 = 1500;

/// The longest time that a stranger holds its connection, in milliseconds.
const STAY_MS: u64 = 800;

struct Chaos<'s> {
    prng: Prng,
    victims: &'s [Victim],
    server: SocketAddr,
    keys: u32,
    stopped: Vec<(Instant, usize)>,
    strangers: Vec<(Instant, TcpStream)>,
    done: Done,
}

/// Goes on until the board says stop; when it returns, nobody is stopped any more.
pub fn run(board: &Board, victims: &[Victim], server: SocketAddr, keys: u32, seed: u64) -> Done {
    let prng = Prng::for_entity(seed, u64::MAX, 1);
    let (stopped, strangers, done) = (Vec::new(), Vec::new(), Done::default());
    let mut chaos = Chaos { prng, victims, server, keys, stopped, strangers, done };
    while !board.stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5 + chaos.prng.below(PAUSE_MS)));
        chaos.act();
        chaos.release(Instant::now());
    }
    chaos.stopped.iter().for_each(|&(_, slot)| {
        victims[slot].signal(Signal::CONT);
    });
    chaos.done
}

impl Chaos<'_> {
    fn act(&mut self) {
        let slot = self.prng.below(self.victims.len() as u64) as usize;
        match self.prng.unit_f64() {
            x if x < 0.5 => self.done.kills += u64::from(self.victims[slot].signal(Signal::KILL)),
            x if x < 0.75 => {
                if self.victims[slot].signal(Signal::STOP) {
                    self.done.stops += 1;
                    let until = Instant::now() + Duration::from_millis(50 + self.prng.below(STOP_MS));
                    self.stopped.push((until, slot));
                }
            }
            _ => {
                let request = self.request();
                if let Some(stream) = send(self.server, &request) {
                    self.done.strangers += 1;
                    let until = Instant::now() + Duration::from_millis(self.prng.below(STAY_MS));
                    self.strangers.push((until, stream));
                }
            }
        }
    }

    /// Wakes and sends away whose time has come.
    fn release(&mut self, now: Instant) {
        self.strangers.retain(|(until, _)| *until > now);
        for &(_, slot) in self.stopped.iter().filter(|(until, _)| *until <= now) {
            self.victims[slot].signal(Signal::CONT);
        }
        self.stopped.retain(|(until, _)| *until > now);
    }

    /// Something that no server should trust. None of it is a complete, correct write.
    fn request(&mut self) -> Vec<u8> {
        let name = |key| String::from_utf8(parts::name(key)).expect("names are ASCII");
        let key = name(self.prng.below(u64::from(self.keys)) as u32);
        let len = 1 + self.prng.below(MAX_VALUE);
        let mut out = Vec::new();
        match self.prng.below(7) {
            0 => {
                out.resize(1 + self.prng.below(100_000) as usize, 0);
                self.prng.fill(&mut out);
            }
            // Half of a value, or all of it without its end.
            1 => {
                out.extend_from_slice(format!("set {key} 0 0 {len}\r\n").as_bytes());
                out.resize(out.len() + self.prng.below(len + 1) as usize, b'x');
            }
            2 => out.extend_from_slice(format!("append {key} 0 0 {len}\r\nhalf").as_bytes()),
            3 => out.extend_from_slice(format!("delete {key}").as_bytes()),
            4 => out.extend_from_slice(format!("set {key} 0 0 {}\r\nmuch", MAX_VALUE + len).as_bytes()),
            // Longer than announced, and nothing that could be a command behind it.
            5 => out.extend_from_slice(format!("set {key} 0 0 4\r\nlonger than four\r\n").as_bytes()),
            _ => {
                for _ in 0..500 {
                    let key = name(self.prng.below(u64::from(self.keys)) as u32);
                    out.extend_from_slice(format!("get {key}\r\n").as_bytes());
                }
            }
        }
        out
    }
}

/// Sends what goes at once; whether all of it goes is nobody's concern.
fn send(server: SocketAddr, request: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(1)).ok()?;
    stream.set_nonblocking(true).ok()?;
    let mut rest = request;
    while let Ok(n) = stream.write(rest) {
        rest = &rest[n..];
        if rest.is_empty() {
            break;
        }
    }
    Some(stream)
}
