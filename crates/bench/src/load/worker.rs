//! One client thread's connections as what is driven: waits for answers or for the next due time, and keeps all busy.
//!
//! Waiting: `ppoll` on the epoll descriptor has nanosecond timeouts, which an open loop needs; a closed loop waits in
//! `epoll_wait` itself. With `spin` the thread never sleeps. Transports without a descriptor are polled every round.

use super::connection::{Connection, Shared};
use super::counts::{Counts, Failure, Tally};
use super::workload::{Job, Phase};
use crate::drive::{Driven, Lost, Pace, Plan, Start, drive};
use base::{Clock, Nanos, Prng};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// How a client thread behaves, whatever the phase.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Never sleep.
    pub spin: bool,
    /// How long an answer may take before the run is given up.
    pub answer_timeout: Nanos,
    /// This thread's number.
    pub thread: u64,
    /// How many threads there are.
    pub threads: u64,
}

/// A client thread's connections and how it waits for them.
pub struct Worker<'p> {
    connections: Vec<Connection<'p>>,
    manner: Manner,
    shared: &'p Shared,
    clock: Clock,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// Connections whose transports epoll cannot wait for, or which are few enough to be asked directly when spinning.
    polled: Vec<usize>,
    /// Connections that have something to do although nothing arrives.
    timed: Vec<usize>,
    /// Connections that epoll also watches for room to send.
    watched_for_room: Vec<bool>,
    /// Connections to look at in this round.
    ready: Vec<usize>,
    /// Connections with nothing more to do in this phase.
    exhausted: Vec<bool>,
    stop: &'p AtomicBool,
    done: &'p AtomicU64,
    next: usize,
}

/// Spinning threads ask up to this many connections directly instead of through epoll.
const ASK_DIRECTLY: usize = 4;
/// Sleeps from this length on need no more than `epoll_wait`'s milliseconds.
const COARSE: Nanos = Nanos::from_millis(20);

impl<'p> Worker<'p> {
    /// A worker for `connections`. `stop` ends every phase early; `done` counts operations for progress bars.
    ///
    /// # Errors
    /// The system's, when it gives no epoll descriptor.
    pub fn new(
        connections: Vec<Connection<'p>>,
        manner: Manner,
        shared: &'p Shared,
        stop: &'p AtomicBool,
        done: &'p AtomicU64,
    ) -> io::Result<Worker<'p>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut polled = Vec::new();
        for (at, connection) in connections.iter().enumerate() {
            match connection.line().waitable() {
                Some(fd) if !(manner.spin && connections.len() <= ASK_DIRECTLY) => {
                    epoll::add(&epoll, fd, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
                }
                _ => polled.push(at),
            }
        }
        let is_timed = |at: &usize| connections[*at].line().is_timed();
        let timed = (0..connections.len()).filter(is_timed).collect();
        let watched_for_room = vec![false; connections.len()];
        let exhausted = vec![false; connections.len()];
        let events = Vec::with_capacity(connections.len().clamp(1, 1024));
        let clock = Clock::shared();
        Ok(Worker {
            connections,
            manner,
            shared,
            clock,
            epoll,
            events,
            polled,
            timed,
            watched_for_room,
            ready: Vec::new(),
            exhausted,
            stop,
            done,
            next: 0,
        })
    }

    /// Runs `phase` from `start` on, until it is over and everything under way is answered.
    pub fn run(&mut self, phase: &Phase, start: Nanos) -> Tally {
        let Manner { thread, threads, .. } = self.manner;
        let plan = Plan {
            length: match &phase.job {
                Job::Load { length, .. } => *length,
                Job::Preload(_) => Nanos::MAX,
            },
            pace: phase.pace,
            share: (thread, threads),
            random: Prng::for_entity(self.shared.seed, thread, phase.number << 32 | 1),
            interval: Some(phase.interval),
        };
        self.connections.iter_mut().for_each(|c| c.begin(phase, start));
        self.exhausted.fill(false);
        self.ready.clear();
        self.ready.extend(0..self.connections.len());
        let (stop, done) = (self.stop, self.done);
        drive(&mut InPhase { worker: self, phase, counted: 0 }, &plan, start, stop, done)
    }

    /// When the thread must be awake again although nothing arrives.
    fn sleep_until(&self, until: Nanos, is_open: bool, phase: &Phase) -> Nanos {
        let mut wake = until;
        if is_open {
            let rested = self.connections.iter().filter(|c| c.places() < phase.pipeline);
            wake = rested.filter_map(Connection::rested_at).fold(wake, Nanos::min);
        }
        self.timed.iter().map(|&at| self.connections[at].line().next_deadline()).fold(wake, Nanos::min)
    }

    fn sleep(&mut self, wake: Nanos) -> io::Result<()> {
        self.events.clear();
        if self.polled.len() == self.connections.len() {
            return Ok(());
        }
        let now = self.clock.now();
        let sleep = if self.manner.spin || !self.polled.is_empty() { Nanos::ZERO } else { wake.since(now) };
        if sleep != Nanos::ZERO && sleep < COARSE {
            // epoll_wait counts in milliseconds; ppoll on its descriptor in nanoseconds.
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            if interruptible(rustix::event::poll(&mut fds, Some(&timespec(sleep))))? == 0 {
                return Ok(());
            }
        }
        let timeout = if sleep < COARSE { Nanos::ZERO } else { sleep };
        let room = rustix::buffer::spare_capacity(&mut self.events);
        interruptible(epoll::wait(&self.epoll, room, Some(&timespec(timeout))))?;
        Ok(())
    }

    /// Handles what has arrived, and sends what could not be sent before; `ready` becomes the connections with answers.
    fn receive_ready(&mut self, phase: &Phase, tally: &mut Tally) -> Result<(), Lost> {
        self.ready.clear();
        self.ready.extend(self.events.iter().map(|event| event.data.u64() as usize));
        for turn in 0..self.polled.len() {
            let at = self.polled[turn];
            if self.connections[at].places() > 0 {
                self.ready.push(at);
            }
        }
        if !self.timed.is_empty() {
            let now = self.clock.now();
            let due = |at: &&usize| self.connections[**at].line().next_deadline() <= now;
            self.ready.extend(self.timed.iter().filter(due));
        }
        for turn in 0..self.ready.len() {
            let at = self.ready[turn];
            let connection = &mut self.connections[at];
            if let Err(error) = connection.receive(phase, self.clock, tally) {
                return Err(lost_at(at, &error));
            }
            // Second halves of read-modify-writes, and what did not fit into the socket.
            self.flush(at, tally)?;
        }
        Ok(())
    }

    fn flush(&mut self, at: usize, tally: &mut Tally) -> Result<(), Lost> {
        let connection = &mut self.connections[at];
        connection.flush(tally).map_err(|error| lost_at(at, &error))?;
        let wants_room = connection.line().has_unsent();
        if wants_room == self.watched_for_room[at] {
            return Ok(());
        }
        self.watched_for_room[at] = wants_room;
        let Some(fd) = connection.line().waitable().filter(|_| !self.polled.contains(&at)) else {
            return Ok(());
        };
        let flags = match wants_room {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(at as u64), flags)
            .map_err(|error| lost_at(at, &error.into()))
    }

    fn is_full_or_exhausted(&self) -> Start {
        if self.exhausted.iter().all(|&e| e) { Start::Exhausted } else { Start::Full }
    }

    fn check_silence(&self) -> Result<(), Lost> {
        let now = self.clock.now();
        let silent =
            |c: &&Connection<'_>| c.places() > 0 && now.since(c.waiting_since()) > self.manner.answer_timeout;
        match self.connections.iter().find(silent) {
            None => Ok(()),
            Some(c) => Err(Lost {
                failure: Failure::TimedOut.name(),
                why: format!(
                    "no answer for {} with {} operations under way on one connection; \
                     is the server stopped or overloaded? (--timeout sets how long to wait)",
                    self.manner.answer_timeout,
                    c.places()
                ),
            }),
        }
    }
}

/// A worker in a phase. Whoever can send its operations by itself does so in [`Driven::refill`]; an open loop's are sent together.
struct InPhase<'w, 'p> {
    worker: &'w mut Worker<'p>,
    phase: &'w Phase,
    /// Operations that were counted before this turn.
    counted: u64,
}

impl Driven for InPhase<'_, '_> {
    type Counts = Counts;

    const RECORDS_LAG: bool = true;

    fn under_way(&self) -> usize {
        self.worker.connections.iter().map(Connection::places).sum()
    }

    /// On the next connection with a free place, in turns.
    fn start(&mut self, meant: Nanos, tally: &mut Tally) -> Result<Start, Lost> {
        let Worker { connections, exhausted, next, .. } = &mut *self.worker;
        for _ in 0..connections.len() {
            let at = *next;
            *next = (*next + 1) % connections.len();
            if exhausted[at] || connections[at].places() >= self.phase.pipeline {
                continue;
            }
            if connections[at].start(meant, tally) {
                return Ok(Start::Started);
            }
            exhausted[at] = true;
        }
        Ok(self.worker.is_full_or_exhausted())
    }

    /// The connections that had answers, and those whose pause is over, get new operations.
    fn refill(&mut self, _now: Nanos, tally: &mut Tally) -> Result<Start, Lost> {
        let worker = &mut *self.worker;
        if matches!(self.phase.pace, Pace::Closed { think_ns: 1.. }) {
            worker.ready.clear();
            worker.ready.extend(0..worker.connections.len());
        }
        for turn in 0..worker.ready.len() {
            let at = worker.ready[turn];
            worker.exhausted[at] |= !worker.connections[at].refill(self.phase, worker.clock, tally);
            worker.flush(at, tally)?;
        }
        Ok(worker.is_full_or_exhausted())
    }

    fn flush(&mut self, tally: &mut Tally) -> Result<(), Lost> {
        (0..self.worker.connections.len()).try_for_each(|at| self.worker.flush(at, tally))
    }

    fn has_room(&self) -> bool {
        self.worker.connections.iter().any(|c| c.places() < self.phase.pipeline)
    }

    fn wait(&mut self, _now: Nanos, until: Nanos, is_open: bool) -> Result<(), Lost> {
        let wake = self.worker.sleep_until(until, is_open, self.phase);
        self.worker.sleep(wake).map_err(|error| Lost {
            failure: Failure::Disconnected.name(),
            why: format!("waiting for the server failed: {error}"),
        })
    }

    fn receive(&mut self, _now: Nanos, tally: &mut Tally) -> Result<usize, Lost> {
        self.worker.receive_ready(self.phase, tally)?;
        let ended = tally.ops() - self.counted;
        self.counted += ended;
        if ended == 0 {
            self.worker.check_silence()?;
        }
        Ok(ended as usize)
    }

    fn abandon(&mut self) -> u64 {
        self.worker.connections.iter_mut().map(Connection::abandon).sum()
    }
}

fn lost_at(connection: usize, error: &io::Error) -> Lost {
    let failure = Connection::failure_of(error);
    let why = match (failure, error.kind()) {
        (Failure::Protocol, _) => format!("{error}; is this the right kind of server?"),
        // A server that closes with requests unread resets the connection: the same end by another word.
        (_, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            "the server closed a connection; it ended, or allows fewer connections than --connections"
                .to_string()
        }
        _ => format!("connection {connection} was lost: {error}"),
    };
    Lost { failure: failure.name(), why }
}

fn timespec(span: Nanos) -> Timespec {
    Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 }
}

/// A wait that a signal cut short has waited long enough.
fn interruptible(result: rustix::io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(rustix::io::Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}
