//! A socket and the sessions on it: who gets which datagram, what is sent when, and the end of sessions that lost their links.
//!
//! Invariants 1 and 2 of the head of `mod.rs` are kept here; links and listeners hold the lock around it.

use super::socket::Socket;
use super::{LINGER, MAX_SESSIONS};
use base::clock::{Clock, Timeout};
use base::units::Nanos;
use protocol::session::{self, Config, Heard, Session, answer_stray, session_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the peer is told, and asked to confirm, that the session is over, once it has everything. A peer that hears none of it
/// notices the silence.
const FAREWELL: Nanos = Nanos::from_millis(50);
/// When a socket that would not take a datagram is tried again: nothing tells when it would.
const RETRY: Nanos = Nanos::from_millis(1);

pub(super) type Key = (SocketAddr, u64);

/// A session and what its link has not seen yet.
pub(super) struct Held {
    pub(super) session: Box<Session>,
    /// Something happened to it that its link has not looked at.
    pub(super) touched: Touched,
    /// Its link was dropped.
    pub(super) left: bool,
}

/// A mark that a session and its link share, so that the link can ask without the lock. Relaxed is enough: it is set under the lock, and
/// whoever sees it takes the lock before it looks at anything else.
#[derive(Clone, Default)]
pub(super) struct Touched(Arc<AtomicBool>);

impl Touched {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the mark away; whether it was there.
    pub(super) fn take(&self) -> bool {
        let was_set = self.is_set();
        self.0.store(false, Ordering::Relaxed);
        was_set
    }
}

/// A socket and the sessions on it.
pub(super) struct Core {
    pub(super) socket: Socket,
    pub(super) epoch: u64,
    pub(super) listener: Option<session::Listener>,
    pub(super) sessions: HashMap<Key, Held>,
    /// Accepted, and not given to anybody.
    pub(super) fresh: VecDeque<Key>,
    /// Sessions whose links were dropped.
    left: Vec<Key>,
    /// When one of them has something to do.
    left_at: Nanos,
    /// When the socket may take what it refused.
    retry_at: Nanos,
    pub(super) clock: Clock,
}

impl Core {
    pub(super) fn bind(address: SocketAddr, config: &Config, listens: bool) -> io::Result<Core> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
        let word = |at: usize| u64::from_le_bytes(*secret[at..].first_chunk().expect("sixteen bytes"));
        let listener = listens.then(|| session::Listener::new(config, [word(0), word(8)]));
        let epoch = listener.as_ref().map_or(word(0), session::Listener::epoch);
        let socket = Socket::bind(address, config.datagram_bytes)?;
        Ok(Core {
            socket,
            epoch,
            listener,
            sessions: HashMap::new(),
            fresh: VecDeque::new(),
            left: Vec::new(),
            left_at: Nanos::MAX,
            retry_at: Nanos::MAX,
            clock: Clock::shared(),
        })
    }

    /// Reads the socket until it is empty or a fair share was taken.
    pub(super) fn pull(&mut self, now: Nanos) {
        for _ in 0..4 {
            let Core { socket, epoch, listener, sessions, fresh, left_at, .. } = self;
            let mut answers = Vec::new();
            let more = socket.receive(|from, bytes| {
                let Some(id) = session_of(bytes) else { return };
                if let Some(held) = sessions.get_mut(&(from, id)) {
                    held.session.handle_datagram(now, bytes);
                    held.touched.set();
                    if held.left {
                        *left_at = Nanos::ZERO;
                    }
                    return;
                }
                let mut answer = Vec::new();
                let heard = match listener {
                    Some(listener) => {
                        let room = sessions.len() < MAX_SESSIONS;
                        listener.handle_datagram(now, &from, room, bytes, &mut answer)
                    }
                    None => answer_stray(*epoch, bytes, &mut answer).map_or(Heard::Nothing, Heard::Reply),
                };
                match heard {
                    Heard::Nothing => (),
                    Heard::Reply(len) => answers.push((from, len, answer)),
                    Heard::Session(session) => {
                        let touched = Touched::default();
                        touched.set();
                        sessions.insert((from, id), Held { session, touched, left: false });
                        fresh.push_back((from, id));
                    }
                }
            });
            for (to, len, answer) in answers {
                socket.push(to, len, answer);
            }
            if !more {
                break;
            }
        }
    }

    /// Sends what the session of `key` has to send.
    pub(super) fn transmit(&mut self, now: Nanos, key: Key) {
        let Some(held) = self.sessions.get_mut(&key) else { return };
        let mut next = Vec::new();
        loop {
            let mut bytes = if next.is_empty() { self.socket.buffer() } else { std::mem::take(&mut next) };
            let first = match bytes.len() {
                0 => held.session.poll_transmit(now, &mut bytes),
                len => Some(len),
            };
            let Some(segment) = first else {
                self.socket.push(key.0, 1, bytes);
                break;
            };
            let (mut count, limit) = (1, self.socket.run(segment));
            let ended = loop {
                if count == limit {
                    break false;
                }
                match held.session.poll_transmit(now, &mut bytes) {
                    None => break true,
                    Some(len) if len == segment => count += 1,
                    Some(len) if len < segment => break false,
                    // Longer than the run's: it begins the next one.
                    Some(len) => {
                        next = bytes.split_off(bytes.len() - len);
                        break false;
                    }
                }
            };
            self.socket.push(key.0, segment, bytes);
            if ended && next.is_empty() {
                break;
            }
        }
        self.send(now);
    }

    /// Sends the datagrams that wait for the socket.
    pub(super) fn send(&mut self, now: Nanos) {
        self.retry_at = if self.socket.flush() { Nanos::MAX } else { now.plus(RETRY) };
    }

    /// The link of `key` is gone: its session closes, and lives until the peer has everything.
    pub(super) fn leave(&mut self, now: Nanos, key: Key) {
        let held = self.sessions.get_mut(&key).expect("a session outlives its link");
        held.session.close(now);
        held.left = true;
        held.touched.set();
        self.left.push(key);
        self.left_at = Nanos::ZERO;
    }

    /// Does what is due in sessions whose links are gone.
    pub(super) fn drive_left(&mut self, now: Nanos) {
        if now < self.left_at {
            return;
        }
        self.left_at = Nanos::MAX;
        let mut left = std::mem::take(&mut self.left);
        left.retain(|&key| {
            let held = self.sessions.get_mut(&key).expect("a left session stays until it is over");
            if held.touched.take() || held.session.next_deadline() <= now {
                self.transmit(now, key);
            }
            let session = &self.sessions[&key].session;
            let over = session.lost().is_some();
            if over {
                self.sessions.remove(&key);
            } else {
                self.left_at = self.left_at.min(session.next_deadline());
            }
            !over
        });
        self.left = left;
    }

    /// When somebody must drive it though nothing arrives.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.left_at.min(self.retry_at)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let linger = Timeout::new(LINGER.into());
        let mut farewell = None;
        while !self.left.is_empty() {
            let now = self.clock.now();
            self.pull(now);
            self.drive_left(now);
            self.send(now);
            if self.left.iter().all(|key| self.sessions[key].session.is_drained()) {
                farewell.get_or_insert_with(|| Timeout::new(FAREWELL.into()));
            }
            let left = linger.left().min(farewell.map_or(Nanos::MAX, |farewell| farewell.left()));
            if left == Nanos::ZERO {
                return;
            }
            if !self.left.is_empty() {
                sleep_on(self.socket.socket(), self.next_deadline().since(now).min(left));
            }
        }
    }
}

/// Waits until the socket is readable, at most `time`.
pub(super) fn sleep_on(socket: impl AsFd, time: Nanos) {
    let time = Timespec { tv_sec: (time.0 / 1_000_000_000) as i64, tv_nsec: (time.0 % 1_000_000_000) as i64 };
    // Ended by a signal: whoever waits looks again.
    let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&time));
}
