//! One client thread: waits for answers or for the next due time, and keeps its connections busy.
//!
//! Closed loop: a connection is refilled when answers freed enough places. Open loop: each operation has a time at which
//! it should start; while no connection has a free place the schedule simply stands still, so the operation starts late
//! and its latency, counted from the intended time, contains the wait (no coordinated omission, no queue to bound).
//!
//! Waiting: `ppoll` on the epoll descriptor has nanosecond timeouts, which an open loop needs; a closed loop waits in
//! `epoll_wait` itself. With `spin` the thread never sleeps. Transports without a descriptor are polled every round.

use super::connection::{Connection, Shared};
use super::tally::{Failure, Tally};
use super::workload::{Job, Pace, Phase, Schedule};
use base::cpu::thread_time;
use base::{Clock, Nanos, Prng};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a client thread behaves, whatever the phase.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Never sleep.
    pub spin: bool,
    /// How long an answer may take before the run is given up.
    pub patience: Nanos,
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
/// The longest sleep, so that a stop is noticed.
const NAP: Nanos = Nanos::from_millis(50);
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
        let mut tally = Tally::new(start, phase.interval);
        while self.clock.now() < start {
            std::hint::spin_loop();
        }
        let cpu = thread_time();
        self.connections.iter_mut().for_each(|c| c.begin(phase, start));
        if let Err(error) = self.drive(phase, start, &mut tally) {
            let lost: u64 = self.connections.iter_mut().map(Connection::abandon).sum();
            let why = error.text;
            tally.fail(error.failure, lost.max(1), || why.clone());
            tally.fatal = Some(why);
        }
        tally.elapsed = self.clock.now().since(start);
        tally.client_cpu = thread_time().since(cpu);
        tally
    }

    fn drive(&mut self, phase: &Phase, start: Nanos, tally: &mut Tally) -> Result<(), Lost> {
        let until = match &phase.job {
            Job::Load { length, .. } => start.plus(*length),
            Job::Preload(_) => Nanos::MAX,
        };
        let mut schedule = match phase.pace {
            Pace::Open { rate, poisson } => {
                let Manner { thread, threads, .. } = self.manner;
                let prng = Prng::for_entity(self.shared.seed, thread, phase.number << 32 | 1);
                Some(Schedule::new(start, rate, poisson, thread, threads, prng))
            }
            Pace::Closed { .. } => None,
        };
        self.exhausted.fill(false);
        let (mut more, mut counted) = (true, 0);
        if schedule.is_none() {
            self.ready.extend(0..self.connections.len());
        }
        loop {
            if more && schedule.is_none() {
                self.refill_ready(phase, tally)?;
            }
            more &= !self.exhausted.iter().all(|&e| e);
            let now = self.clock.now();
            if more && (now >= until || self.stop.load(Ordering::Relaxed)) {
                more = false;
                if let Some(mut schedule) = schedule.take() {
                    self.start_due(&mut schedule, now.min(until), phase, tally)?;
                    tally.unsent = schedule.behind(now.min(until));
                }
            }
            if let (true, Some(schedule)) = (more, &mut schedule) {
                self.start_due(schedule, now, phase, tally)?;
            }
            if !more && self.connections.iter().all(|c| c.places() == 0) {
                return Ok(());
            }
            self.wait(self.sleep_until(now, until, more, schedule.as_ref(), phase))?;
            self.receive_ready(phase, tally)?;
            let ops = tally.ops();
            self.done.fetch_add(ops - counted, Ordering::Relaxed);
            if ops == counted {
                self.check_patience()?;
            }
            counted = ops;
        }
    }

    /// Closed loop: the connections that had answers, and those whose pause is over, get new operations.
    fn refill_ready(&mut self, phase: &Phase, tally: &mut Tally) -> Result<(), Lost> {
        let pausing = matches!(phase.pace, Pace::Closed { think_ns: 1.. });
        if pausing {
            self.ready.clear();
            self.ready.extend(0..self.connections.len());
        }
        for turn in 0..self.ready.len() {
            let at = self.ready[turn];
            self.exhausted[at] |= !self.connections[at].refill(phase, self.clock, tally);
            self.flush(at, tally)?;
        }
        Ok(())
    }

    /// Starts every operation due by `by`, on connections with a free place, in turns.
    fn start_due(
        &mut self,
        schedule: &mut Schedule,
        by: Nanos,
        phase: &Phase,
        tally: &mut Tally,
    ) -> Result<(), Lost> {
        let count = self.connections.len();
        let mut full = 0;
        let (first, mut started) = (self.next, 0);
        while schedule.due() <= by && full < count {
            let at = self.next;
            self.next = (self.next + 1) % count;
            if self.connections[at].places() >= phase.pipeline || self.exhausted[at] {
                full += 1;
                continue;
            }
            if !self.connections[at].start(schedule.due(), tally) {
                self.exhausted[at] = true;
                continue;
            }
            full = 0;
            started += 1;
            tally.record_lag(schedule.due(), self.clock.now());
            schedule.advance();
        }
        if started > 0 {
            for step in 0..count {
                self.flush((first + step) % count, tally)?;
            }
        }
        Ok(())
    }

    /// When the thread must be awake again although nothing arrives.
    fn sleep_until(
        &self,
        now: Nanos,
        until: Nanos,
        more: bool,
        due: Option<&Schedule>,
        phase: &Phase,
    ) -> Nanos {
        let mut wake = now.plus(NAP);
        if more {
            wake = wake.min(until);
            if let Some(schedule) = due {
                // With every place taken, only an answer lets the schedule go on.
                if self.connections.iter().any(|c| c.places() < phase.pipeline) {
                    wake = wake.min(schedule.due());
                }
            }
            let rested = self.connections.iter().filter(|c| c.places() < phase.pipeline);
            wake = rested.filter_map(Connection::rested_at).fold(wake, Nanos::min);
        }
        self.timed.iter().map(|&at| self.connections[at].line().next_deadline()).fold(wake, Nanos::min)
    }

    fn wait(&mut self, wake: Nanos) -> Result<(), Lost> {
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
                return Err(Lost::at(at, &error));
            }
            // Second halves of read-modify-writes, and what did not fit into the socket.
            self.flush(at, tally)?;
        }
        Ok(())
    }

    fn flush(&mut self, at: usize, tally: &mut Tally) -> Result<(), Lost> {
        let connection = &mut self.connections[at];
        connection.flush(tally).map_err(|error| Lost::at(at, &error))?;
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
            .map_err(|error| Lost::at(at, &error.into()))
    }

    fn check_patience(&self) -> Result<(), Lost> {
        let now = self.clock.now();
        let silent =
            |c: &&Connection<'_>| c.places() > 0 && now.since(c.waiting_since()) > self.manner.patience;
        match self.connections.iter().find(silent) {
            None => Ok(()),
            Some(c) => Err(Lost {
                failure: Failure::TimedOut,
                text: format!(
                    "no answer for {} with {} operations under way on one connection; \
                     is the server stopped or overloaded? (--timeout sets how long to wait)",
                    self.manner.patience,
                    c.places()
                ),
            }),
        }
    }
}

/// Why a phase cannot go on.
struct Lost {
    failure: Failure,
    text: String,
}

impl Lost {
    fn at(connection: usize, error: &io::Error) -> Lost {
        let failure = Connection::failure_of(error);
        let text = match (failure, error.kind()) {
            (Failure::Protocol, _) => format!("{error}; is this the right kind of server?"),
            // A server that closes with requests unread resets the connection: the same end by another word.
            (
                _,
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe,
            ) => "the server closed a connection; it ended, or allows fewer connections than --connections"
                .to_string(),
            _ => format!("connection {connection} was lost: {error}"),
        };
        Lost { failure, text }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost { failure: Failure::Disconnected, text: format!("waiting for the server failed: {error}") }
    }
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
