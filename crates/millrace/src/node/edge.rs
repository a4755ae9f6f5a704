//! An edge: one thread that owns connections and does everything between their sockets and the engine.
//!
//! Shape of one turn
//! ```text
//!  epoll ─▶ read what came ─▶ parse, submit to the port ─▶ doorbell ─▶ engine ─▶ replies ─▶ one write per connection
//!            (all ready          (round-robin over                     (run here,             (straight from
//!             connections)        connections, cut at                   or wait)               the arena)
//!                                 net.pipeline each)
//! ```
//!
//! Why whole turns: every request submitted in a turn is answered before the turn ends, so requests may borrow from the
//! input buffers, replies need no copy of their own, and one wake-up's requests form one batch whose cache misses overlap.
//!
//! Invariants
//! 1. While requests are in flight (between `submit` and the end of `collect`) no input buffer is written, moved or freed.
//! 2. `owed` lists, in order of submission, which connection each request in flight belongs to; the engine answers in that
//!    order.
//! 3. A connection with a spill is not read, parsed or submitted.
//!
//! Bounds: requests in flight by the ring; buffered bytes by `net.buffer_limit`; connections by `net.max_connections`.

use super::accept::Inbox;
use super::connection::{Connection, Interest};
use super::input::{BufferLimit, Buffered, Pool};
use super::kv::{Kv, Reply, Request};
use super::output;
use super::shared::Shared;
use crate::registers::Id;
use base::hash::Hasher64;
use base::{Clock, Nanos};
use engine::{EdgePort, StageRun};
use protocol::memcache::{Command, Parser, Step};
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Events taken from epoll at once.
const EVENTS: usize = 256;
/// The epoll token of the edge's own wake-up descriptor.
const WAKE: u64 = u64::MAX;
/// Longest sleep, so that idle connections and the stop flag are looked at.
const NAP: Nanos = Nanos::from_millis(250);
/// Rounds of reading before a turn, at most.
const GATHER: usize = 8;
/// How long a stopping edge waits for slow readers to take their last replies.
const DRAIN: Nanos = Nanos::from_secs(2);
/// How often the service may tidy up, at most.
const HOUSEKEEPING: Nanos = Nanos::from_millis(1);
/// How long it sleeps between looks at them.
const DRAIN_LOOK: Nanos = Nanos::from_millis(10);
/// Housekeeping steps of the engine's service per idle moment.
const IDLE_STEPS: usize = 256;

/// One edge. [`Edge::run`] is its thread.
pub struct Edge {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    port: EdgePort<Kv>,
    hasher: Hasher64,
    connections: Vec<Option<Connection>>,
    vacant: Vec<u32>,
    generation: u32,
    runnable: VecDeque<u32>,
    owed: VecDeque<Owed>,
    gathered: Vec<Reply>,
    ran: Vec<u32>,
    pool: Pool,
    buffered: Arc<Buffered>,
    clock: Clock,
    now: Nanos,
    next_housekeeping: Nanos,
}

/// Requests in flight of one connection, in a row.
struct Owed {
    connection: u32,
    requests: usize,
}

impl Edge {
    /// An edge that answers through `port` and is given connections through `inbox`.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox>,
        port: EdgePort<Kv>,
        hasher: Hasher64,
    ) -> io::Result<Edge> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, inbox.bell(), epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let buffered = shared.buffered.clone();
        let pool = Pool::new(shared.registers.size(Id::EdgeReadBuffer), buffered.clone());
        let clock = Clock::shared();
        Ok(Edge {
            shared,
            inbox,
            epoll,
            port,
            hasher,
            connections: Vec::new(),
            vacant: Vec::new(),
            generation: 0,
            runnable: VecDeque::new(),
            owed: VecDeque::new(),
            gathered: Vec::new(),
            ran: Vec::new(),
            pool,
            buffered,
            clock,
            now: clock.now(),
            next_housekeeping: Nanos::ZERO,
        })
    }

    /// Serves until the node stops, then answers what has arrived and closes.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let mut next_sweep = Nanos::ZERO;
        let mut last_work = Nanos::ZERO;
        while !self.shared.is_stopping() {
            self.wait(&mut events, last_work);
            self.now = self.clock.now();
            let worked = !events.is_empty() || !self.runnable.is_empty();
            self.handle(&events);
            self.gather(&mut events);
            self.turn();
            if worked {
                last_work = self.now;
            }
            if self.now >= next_sweep {
                self.sweep();
                next_sweep = self.now.plus(NAP);
            }
        }
        self.drain(&mut events);
    }

    /// Sleeps until something happens, or only looks when there is work or busy polling is on.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, last_work: Nanos) {
        let busy = Nanos::from_micros(self.shared.registers.read(Id::EdgeBusyPoll));
        let look_only =
            !self.runnable.is_empty() || (busy > Nanos::ZERO && self.clock.now().since(last_work) < busy);
        let nap = if look_only { Nanos::ZERO } else { self.housekeep() };
        self.poll_events(events, nap);
        if !events.is_empty() {
            self.shared.net.wakeups.add(1);
        }
    }

    fn poll_events(&self, events: &mut Vec<epoll::Event>, nap: Nanos) {
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: nap.0 as i64 };
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => panic!("epoll_wait on our own descriptor: {e}"),
        }
    }

    /// Reads what came while we read, so that the turn answers it too: every round of reading that finds something is followed
    /// by another. The first reply of a turn wakes its client, and a client that is awake need not be woken again.
    fn gather(&mut self, events: &mut Vec<epoll::Event>) {
        for _ in 0..GATHER {
            if self.runnable.is_empty() {
                return;
            }
            self.poll_events(events, Nanos::ZERO);
            if events.is_empty() {
                return;
            }
            self.handle(events);
        }
    }

    /// Lets the service tidy up while there is nothing else to do. Says how long the edge may sleep after it.
    fn housekeep(&mut self) -> Nanos {
        let now = self.clock.now();
        if now < self.next_housekeeping {
            return NAP;
        }
        self.next_housekeeping = now.plus(HOUSEKEEPING);
        let more = self.shared.try_engine().is_some_and(|mut engine| engine.idle(IDLE_STEPS));
        if more { HOUSEKEEPING } else { NAP }
    }

    /// Takes new connections and reads what came.
    fn handle(&mut self, events: &[epoll::Event]) {
        for event in events {
            let token = event.data.u64();
            if token == WAKE {
                self.welcome();
                continue;
            }
            let (id, generation) = (token as u32, (token >> 32) as u32);
            // An earlier event of this batch may have closed the connection, and another may have its place.
            let Some(Some(connection)) = self.connections.get_mut(id as usize) else { continue };
            if connection.generation != generation {
                continue;
            }
            match connection.interest {
                Interest::Read => {
                    self.read(id);
                }
                Interest::Write => self.resume(id),
            }
        }
    }

    fn welcome(&mut self) {
        for socket in self.inbox.take() {
            let id = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                (self.connections.len() - 1) as u32
            });
            self.generation = self.generation.wrapping_add(1);
            let token = epoll::EventData::new_u64(token(id, self.generation));
            let watched = epoll::add(&self.epoll, &socket, token, epoll::EventFlags::IN);
            if watched.is_err() {
                self.vacant.push(id);
                self.shared.net.curr_connections.sub(1);
                continue;
            }
            let parser = Parser::new(self.shared.registers.size(Id::StoreMaxValue));
            self.connections[id as usize] = Some(Connection::new(socket, parser, self.generation, self.now));
        }
    }

    /// Reads once: a short read means that the socket is empty, and epoll says when it no longer is. True if bytes came.
    fn read(&mut self, id: u32) -> bool {
        let connection = live(&mut self.connections, id);
        if connection.runnable {
            // Its buffer still holds requests that wait for their turn; the socket can hold the rest.
            return false;
        }
        let space = connection.input.space(&mut self.pool);
        let came = match rustix::io::read(&connection.socket, space) {
            Ok(0) => {
                connection.closing = true;
                false
            }
            Ok(n) => {
                connection.input.filled(n);
                connection.heard = self.now;
                self.shared.net.reads.add(1);
                self.shared.net.bytes_read.add(n as u64);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                self.close(id);
                return false;
            }
        };
        self.settle(id);
        came
    }

    /// Goes on with a connection whose client has made room for replies.
    fn resume(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        connection.made_room = self.now;
        match connection.spill.flush(connection.socket.as_fd(), &self.buffered) {
            Ok(_) => self.settle(id),
            Err(_) => self.close(id),
        }
    }

    /// Submits from the runnable connections as far as the ring has room, has the engine execute, and writes the replies.
    fn turn(&mut self) {
        if self.runnable.is_empty() {
            return;
        }
        self.pool.resize(self.shared.registers.size(Id::EdgeReadBuffer));
        let mut ran = std::mem::take(&mut self.ran);
        while self.port.free() > 0
            && let Some(id) = self.runnable.pop_front()
        {
            self.submit(id);
            ran.push(id);
        }
        self.port.ring();
        self.answer();
        for id in ran.drain(..) {
            if let Some(Some(connection)) = self.connections.get_mut(id as usize) {
                connection.runnable = false;
                connection.size_turn(self.shared.registers.size(Id::NetPipeline));
                self.settle(id);
            }
        }
        self.ran = ran;
    }

    /// Parses and submits the requests that have arrived on one connection, at most `net.pipeline` of them.
    fn submit(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        let limit = self.shared.registers.size(Id::NetPipeline).min(connection.turn).min(self.port.free());
        let mut requests = 0;
        connection.wants = 0;
        while requests < limit {
            // SAFETY: requests in flight borrow from the input buffer. It is neither written, moved nor freed before every
            // request of this turn is answered (invariant 1): `answer` returns only then, and nothing between here and
            // there touches an input buffer except to advance its start.
            let input: &'static [u8] = unsafe { &*std::ptr::from_ref(connection.input.bytes()) };
            let command = match connection.parser.next(input) {
                Step::Command { command: Command::Quit, .. } => {
                    connection.closing = true;
                    break;
                }
                Step::Command { command, consumed } => {
                    connection.input.consume(consumed);
                    command
                }
                Step::Skip { consumed } => {
                    connection.input.consume(consumed);
                    continue;
                }
                Step::Incomplete { wants } => {
                    connection.wants = wants;
                    break;
                }
                Step::Close { reason } => {
                    connection.closing = true;
                    self.shared.net.protocol_kicks.add(1);
                    let Some(line) = reason.line() else { break };
                    Command::Malformed { line, noreply: false }
                }
            };
            let refused = self.port.submit(self.now, Request::new(command, &self.hasher)).is_err();
            assert!(!refused, "the ring has room for {limit} requests");
            requests += 1;
            if connection.closing {
                break;
            }
        }
        if requests == limit && connection.can_parse() {
            self.shared.net.conn_yields.add(1);
        }
        connection.submitted = requests;
        if requests > 0 {
            self.owed.push_back(Owed { connection: id, requests });
            self.shared.net.requests.add(requests as u64);
        }
    }

    /// Has the engine execute what is in flight and writes the replies, until nothing is in flight.
    fn answer(&mut self) {
        let mut idle_passes = 0u32;
        while self.port.in_flight() > 0 {
            if self.collect() > 0 {
                idle_passes = 0;
                continue;
            }
            // Nothing to read from the ring: whatever was gathered may be what the engine waits for room for.
            self.write_gathered();
            self.port.publish_room();
            match self.shared.try_engine() {
                Some(mut engine) => {
                    engine.pass(&self.shared.registers);
                }
                // Another edge runs the engine, for us too. It may have lost its core: let it have ours.
                None if idle_passes > 64 => std::thread::yield_now(),
                None => std::hint::spin_loop(),
            }
            idle_passes += 1;
        }
        self.collect();
        debug_assert!(self.owed.is_empty() && self.gathered.is_empty(), "every reply went to its connection");
    }

    /// Takes replies from the ring; whenever those of one connection are complete, writes them. Returns how many it took.
    fn collect(&mut self) -> usize {
        let now = self.clock.now();
        let mut waited = StageRun::default();
        let mut taken = 0;
        while let Some(reply) = self.port.poll() {
            waited.add(now.since(reply.at), |span, n| self.shared.stages.replied(span, n));
            taken += 1;
            self.gathered.push(reply.body);
            let owed = self.owed.front_mut().expect("a reply belongs to a request in flight");
            owed.requests -= 1;
            if owed.requests == 0 {
                self.write_gathered();
                self.owed.pop_front();
            }
        }
        waited.finish(|span, n| self.shared.stages.replied(span, n));
        taken
    }

    /// Writes the gathered replies to the connection they belong to and gives their arena bytes back.
    fn write_gathered(&mut self) {
        let Some(last) = self.gathered.last() else { return };
        let end = last.span;
        let owed = self.owed.front().expect("gathered replies belong to the first connection owed");
        let connection = live(&mut self.connections, owed.connection);
        let port = &self.port;
        if connection.spill.is_empty() {
            connection.made_room = self.now;
        }
        if !connection.broken {
            match connection.write(&self.gathered, |span| port.bytes(span), &self.buffered) {
                Ok(bytes) => {
                    self.shared.net.writes.add(1);
                    self.shared.net.bytes_written.add(bytes as u64);
                }
                // The client is gone: its other replies are taken from the ring and dropped, then it is closed.
                Err(_) => connection.broken = true,
            }
        }
        self.gathered.clear();
        self.port.release(end);
        if self.buffered.bytes() > self.shared.registers.read(Id::NetBufferLimit) {
            self.kick_slowest();
        }
    }

    /// Decides what a connection waits for next. Call it whenever its input, spill or closing state changed.
    fn settle(&mut self, id: u32) {
        let limit = self.shared.registers.read(Id::NetBufferLimit);
        let connection = live(&mut self.connections, id);
        if connection.broken {
            return self.close(id);
        }
        if !connection.spill.is_empty() {
            self.watch(id, Interest::Write);
            if self.buffered.bytes() > limit {
                self.kick_slowest();
            }
            return;
        }
        if connection.closing {
            return self.close(id);
        }
        if connection.can_parse() {
            connection.runnable = true;
            self.runnable.push_back(id);
            return;
        }
        let room = connection.make_room(limit, &mut self.pool);
        match room {
            Ok(()) => self.watch(id, Interest::Read),
            Err(BufferLimit) => self.refuse(id),
        }
    }

    fn watch(&mut self, id: u32, interest: Interest) {
        let connection = live(&mut self.connections, id);
        if connection.interest == interest {
            return;
        }
        connection.interest = interest;
        let flags = match interest {
            Interest::Read => epoll::EventFlags::IN,
            Interest::Write => epoll::EventFlags::OUT,
        };
        let token = epoll::EventData::new_u64(token(id, connection.generation));
        if epoll::modify(&self.epoll, &connection.socket, token, flags).is_err() {
            self.close(id);
        }
    }

    /// Says that there is no memory for the request that is arriving, and closes.
    fn refuse(&mut self, id: u32) {
        self.shared.net.buffer_refusals.add(1);
        let connection = live(&mut self.connections, id);
        // Best effort: the connection closes whether or not the client hears why.
        let _ = output::send(connection.socket.as_fd(), &[b"SERVER_ERROR out of memory reading request\r\n"]);
        self.close(id);
    }

    /// Closes the slowest reader: all together buffer too much. That is seldom the one whose reply was one too many.
    fn kick_slowest(&mut self) {
        let burden = |(at, c): (usize, &Option<Connection>)| Some((c.as_ref()?.burden(self.now)?, at));
        let Some((_, at)) = self.connections.iter().enumerate().filter_map(burden).max() else { return };
        self.shared.net.slow_reader_kicks.add(1);
        let id = at as u32;
        if self.owed.iter().any(|owed| owed.connection == id) {
            // Its requests in flight borrow from its input (invariant 1): it is closed at the end of the turn.
            let connection = live(&mut self.connections, id);
            connection.spill.clear(&self.buffered);
            connection.broken = true;
        } else {
            self.close(id);
        }
    }

    /// Closes connections that were silent for too long.
    fn sweep(&mut self) {
        let limit = Nanos::from_secs(self.shared.registers.read(Id::NetIdleTimeout));
        if limit == Nanos::ZERO {
            return;
        }
        for id in 0..self.connections.len() as u32 {
            if let Some(connection) = &self.connections[id as usize]
                && self.now.since(connection.heard) > limit
            {
                self.shared.net.idle_kicks.add(1);
                self.close(id);
            }
        }
    }

    fn close(&mut self, id: u32) {
        let Some(mut connection) = self.connections[id as usize].take() else { return };
        connection.input.release(&mut self.pool);
        connection.spill.clear(&self.buffered);
        self.runnable.retain(|&other| other != id);
        self.vacant.push(id);
        self.shared.net.curr_connections.sub(1);
    }

    /// The last act: answers what clients sent before the node was told to stop, waits a little for slow readers, closes.
    fn drain(&mut self, events: &mut Vec<epoll::Event>) {
        self.welcome();
        let end = self.clock.now().plus(DRAIN);
        loop {
            while !self.runnable.is_empty() {
                self.now = self.clock.now();
                self.turn();
            }
            self.read_what_is_left();
            if self.connections.iter().all(Option::is_none) || self.clock.now() >= end {
                break;
            }
            if self.runnable.is_empty() {
                // Only replies that wait for their readers are left.
                self.poll_events(events, DRAIN_LOOK);
                self.handle(events);
            }
        }
        for id in 0..self.connections.len() as u32 {
            self.close(id);
        }
    }

    /// Reads from each connection that has nothing to be executed or written; closes it if its socket is empty.
    fn read_what_is_left(&mut self) {
        for id in 0..self.connections.len() as u32 {
            let idle = |c: &Connection| c.interest == Interest::Read && !c.runnable;
            if self.connections[id as usize].as_ref().is_some_and(idle) && !self.read(id) {
                self.close(id);
            }
        }
    }
}

fn token(id: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(id)
}

fn live(connections: &mut [Option<Connection>], id: u32) -> &mut Connection {
    connections[id as usize].as_mut().expect("the connection is open")
}
