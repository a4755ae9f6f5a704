//! An edge: one thread that owns connections and does everything between their wires and the engine.
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
//! 2. `owed` lists, in order of submission, which connection each request in flight belongs to, and where a message of it
//!    ends; the engine answers in that order.
//! 3. A connection whose client has not taken its replies is not read, parsed or submitted.
//! 4. A shared-memory connection is in `polled`, or runnable, or parked: then its client rings its socket, which epoll watches.
//!
//! Bounds: requests in flight by the ring; buffered bytes by `net.buffer_limit`; connections by `net.max_connections`.

use super::accept::{Inbox, Purpose};
use super::connection::{Connection, Parsed, Wire};
use super::datagrams::Datagrams;
use super::dedicated::Link;
use super::input::{BufferLimit, Buffered, Pool};
use super::kv::{Kv, Reply, Request};
use super::messages::Arrivals;
use super::output;
use super::rings::Rings;
use super::shared::Shared;
use super::stream::{Interest, Stream};
use crate::registers::Id;
use base::hash::Hasher64;
use base::{Clock, Nanos};
use engine::{EdgePort, StageRun};
use protocol::memcache::{Line, Parser};
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
pub const NAP: Nanos = Nanos::from_millis(250);
/// How long a stopping edge waits for slow readers to take their last replies.
const DRAIN: Nanos = Nanos::from_secs(2);
/// How often the service may tidy up, at most.
const HOUSEKEEPING: Nanos = Nanos::from_millis(1);
/// How long it sleeps between looks at them.
const DRAIN_LOOK: Nanos = Nanos::from_millis(10);
/// Housekeeping steps of the engine's service per idle moment.
pub const IDLE_STEPS: usize = 256;
/// How often an edge that polls shared-memory connections looks at its sockets. A look is a system call.
const LOOK: Nanos = Nanos::from_micros(10);

/// One edge. [`Edge::run`] is its thread.
pub struct Edge {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    port: EdgePort<Kv>,
    /// The engine's own thread, where it has one.
    link: Option<Link>,
    hasher: Hasher64,
    connections: Vec<Option<Connection>>,
    vacant: Vec<u32>,
    generation: u32,
    runnable: VecDeque<u32>,
    /// Shared-memory connections that are looked at every time round.
    polled: Vec<u32>,
    /// When epoll was last asked.
    looked: Nanos,
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
    /// A message ends with them, and its reply with theirs.
    ends: bool,
}

impl Edge {
    /// An edge that answers through `port` and is given connections through `inbox`. Without a `link` to a thread that runs the
    /// engine, it runs the engine itself.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox>,
        port: EdgePort<Kv>,
        link: Option<Link>,
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
            link,
            hasher,
            connections: Vec::new(),
            vacant: Vec::new(),
            generation: 0,
            runnable: VecDeque::new(),
            polled: Vec::new(),
            looked: Nanos::ZERO,
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
            self.handle(&events);
            self.poll_rings();
            let worked = !events.is_empty() || !self.runnable.is_empty();
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
        if !self.polled.is_empty() && self.clock.now().since(self.looked) < LOOK {
            std::hint::spin_loop();
            return events.clear();
        }
        let busy = Nanos::from_micros(self.shared.registers.read(Id::EdgeBusyPoll));
        let look_only = !(self.runnable.is_empty() && self.polled.is_empty())
            || (busy > Nanos::ZERO && self.clock.now().since(last_work) < busy);
        let nap = if look_only { Nanos::ZERO } else { self.housekeep() };
        self.poll_events(events, nap);
        self.looked = self.clock.now();
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

    /// Lets the service tidy up while there is nothing else to do. Says how long the edge may sleep after it.
    fn housekeep(&mut self) -> Nanos {
        let now = self.clock.now();
        if self.link.is_some() || now < self.next_housekeeping {
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
            match &connection.wire {
                Wire::Stream(stream) if stream.interest == Interest::Read => {
                    self.read(id);
                }
                Wire::Stream(_) => self.resume(id),
                Wire::Rings(_) => self.unpark(id),
                Wire::Datagrams(_) => self.receive(id),
            }
        }
    }

    fn welcome(&mut self) {
        for (purpose, socket) in self.inbox.take() {
            let Ok(wire) = self.wire(purpose, socket) else {
                // No memory or no descriptors for it, or its client is gone already.
                self.shared.net.rejected_connections.add(1);
                self.shared.net.curr_connections.sub(u64::from(purpose != Purpose::Datagrams));
                continue;
            };
            let id = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                (self.connections.len() - 1) as u32
            });
            self.generation = self.generation.wrapping_add(1);
            let parser = Parser::new(self.shared.registers.size(Id::StoreMaxValue));
            let connection = Connection::new(wire, parser, self.generation, self.now);
            let token = epoll::EventData::new_u64(token(id, self.generation));
            let watched = epoll::add(&self.epoll, connection.descriptor(), token, epoll::EventFlags::IN);
            self.connections[id as usize] = Some(connection);
            if watched.is_err() {
                self.close(id);
            } else if purpose == Purpose::Rings {
                self.unpark(id);
            }
        }
    }

    fn wire(&self, purpose: Purpose, socket: OwnedFd) -> io::Result<Wire> {
        let registers = &self.shared.registers;
        Ok(match purpose {
            Purpose::Stream => Wire::Stream(Stream::over(socket)),
            Purpose::Rings => {
                let rings = Rings::hand_over(socket, registers)?;
                self.shared.net.shm_connections.add(1);
                Wire::Rings(Box::new(rings))
            }
            Purpose::Datagrams => {
                let net = self.shared.net.clone();
                Wire::Datagrams(Box::new(Datagrams::over(socket, registers.clone(), net)?))
            }
        })
    }

    /// Reads once: a short read means that the socket is empty, and epoll says when it no longer is. True if bytes came.
    fn read(&mut self, id: u32) -> bool {
        let connection = live(&mut self.connections, id);
        if connection.runnable {
            // Its buffer still holds requests that wait for their turn; the socket can hold the rest.
            return false;
        }
        let Wire::Stream(stream) = &connection.wire else { return false };
        let space = connection.input.space(&mut self.pool);
        let came = match rustix::io::read(&stream.socket, space) {
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
        let waiting = connection.unsent();
        let result = connection.resend(&self.buffered);
        if connection.unsent() < waiting {
            connection.made_room = self.now;
        }
        match result {
            Ok(_) => self.settle(id),
            Err(_) => self.close(id),
        }
    }

    /// The socket of a shared-memory connection says something: the client rang, or is gone.
    fn unpark(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        let Wire::Rings(rings) = &mut connection.wire else { return };
        rings.unpark();
        connection.heard = self.now;
        if !std::mem::replace(&mut rings.polled, true) {
            self.polled.push(id);
        }
    }

    /// Looks at every shared-memory connection that was active lately, and leaves those that have gone quiet to epoll.
    fn poll_rings(&mut self) {
        if self.polled.is_empty() {
            return;
        }
        let busy = Nanos::from_micros(self.shared.registers.read(Id::ShmBusyPoll));
        let mut polled = std::mem::take(&mut self.polled);
        polled.retain(|&id| self.poll_one(id, busy));
        self.polled = polled;
    }

    /// Takes what came. False when the connection was parked or closed.
    fn poll_one(&mut self, id: u32, busy: Nanos) -> bool {
        let Some(connection) = &mut self.connections[id as usize] else { return false };
        match connection.runnable {
            true => return true,
            false if connection.is_stuck() => self.resume(id),
            false => self.receive(id),
        }
        let Some(connection) = &mut self.connections[id as usize] else { return false };
        let Wire::Rings(rings) = &mut connection.wire else { return false };
        if connection.runnable || !rings.polled {
            return rings.polled;
        }
        if rings.is_over() {
            self.close(id);
            return false;
        }
        rings.polled = self.now.since(connection.heard) < busy || !rings.park();
        rings.polled
    }

    /// Takes the messages that came.
    fn receive(&mut self, id: u32) {
        let registers = &self.shared.registers;
        let connection = live(&mut self.connections, id);
        if connection.runnable {
            return;
        }
        let arrivals = Arrivals {
            messages: &mut connection.messages,
            input: &mut connection.input,
            pool: &mut self.pool,
            limit: registers.read(Id::NetBufferLimit),
            most: registers.size(Id::NetPipeline),
            enough: registers.size(Id::EdgeReadBuffer),
        };
        let received = match &mut connection.wire {
            Wire::Rings(rings) => rings.receive(arrivals),
            Wire::Datagrams(datagrams) => Ok(Some(datagrams.receive(arrivals))),
            Wire::Stream(_) => Ok(None),
        };
        match received {
            Ok(Some(bytes)) => {
                connection.heard = self.now;
                self.shared.net.reads.add(1);
                self.shared.net.bytes_read.add(bytes as u64);
                self.settle(id);
            }
            Ok(None) => {}
            Err(_) => {
                self.shared.net.protocol_kicks.add(1);
                self.close(id);
            }
        }
    }

    /// Submits from the runnable connections as far as the ring has room, has the engine execute, and writes the replies.
    fn turn(&mut self) {
        if self.runnable.is_empty() {
            return;
        }
        self.pool.resize(self.shared.registers.size(Id::EdgeReadBuffer));
        let begun = self.clock.now();
        let woken = std::mem::replace(&mut self.now, begun);
        let mut ran = std::mem::take(&mut self.ran);
        while self.port.free() > 0
            && let Some(id) = self.runnable.pop_front()
        {
            self.submit(id);
            ran.push(id);
        }
        self.shared.stages.received(begun.since(woken), self.port.in_flight());
        self.port.ring();
        if let Some(link) = &self.link {
            link.announce();
        }
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
        let (mut submitted, mut requests) = (0, 0);
        while submitted < limit || connection.is_at_message_end() {
            // SAFETY: requests in flight borrow from the input buffer. It is neither written, moved nor freed before every
            // request of this turn is answered (invariant 1): `answer` returns only then, and nothing between here and
            // there touches an input buffer except to advance its start.
            let input: &'static [u8] = unsafe { &*std::ptr::from_ref(connection.visible()) };
            match connection.step(input) {
                Parsed::Request(command) => {
                    let refused = self.port.submit(self.now, Request::new(command, &self.hasher)).is_err();
                    assert!(!refused, "the ring has room for {limit} requests");
                    submitted += 1;
                    requests += 1;
                }
                Parsed::MessageEnd => {
                    self.owed.push_back(Owed { connection: id, requests, ends: true });
                    requests = 0;
                }
                Parsed::Dry => break,
            }
        }
        if submitted == limit && connection.can_parse() {
            self.shared.net.conn_yields.add(1);
        }
        if std::mem::take(&mut connection.unreadable) {
            self.shared.net.protocol_kicks.add(1);
        }
        connection.submitted = submitted;
        if requests > 0 {
            self.owed.push_back(Owed { connection: id, requests, ends: false });
        }
        self.shared.net.requests.add(submitted as u64);
    }

    /// Has the engine execute what is in flight and writes the replies, until nothing is in flight.
    fn answer(&mut self) {
        let mut idle_passes = 0u32;
        while self.port.in_flight() > 0 {
            if self.collect() > 0 {
                idle_passes = 0;
                continue;
            }
            if let Some(link) = &mut self.link
                && link.wait_awake(&mut self.port, &self.shared.registers)
            {
                continue;
            }
            // Nothing to read from the ring: whatever was gathered may be what the engine waits for room for.
            self.write_gathered(false);
            self.port.publish_room();
            match &mut self.link {
                Some(link) => {
                    link.made_room();
                    link.wait_on(&mut self.port, &self.shared.registers);
                }
                None => self.run_engine(idle_passes),
            }
            idle_passes += 1;
        }
        self.collect();
        debug_assert!(self.owed.is_empty() && self.gathered.is_empty(), "every reply went to its connection");
        if let Some(link) = &self.link {
            self.port.publish_room();
            link.made_room();
        }
    }

    /// One pass of the engine, for all edges.
    fn run_engine(&mut self, idle_passes: u32) {
        match self.shared.try_engine() {
            Some(mut engine) => {
                engine.pass(&self.shared.registers);
            }
            // Another edge runs the engine, for us too. It may have lost its core: let it have ours.
            None if idle_passes > 64 => std::thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }

    /// Takes replies from the ring; whenever those of one connection are complete, writes them. Returns how many it took.
    fn collect(&mut self) -> usize {
        let now = self.clock.now();
        let mut waited = StageRun::default();
        let mut taken = 0;
        self.finish_answered();
        while let Some(reply) = self.port.poll() {
            waited.add(now.since(reply.at), |span, n| self.shared.stages.replied(span, n));
            taken += 1;
            self.gathered.push(reply.body);
            let owed = self.owed.front_mut().expect("a reply belongs to a request in flight");
            owed.requests -= 1;
            if owed.requests == 0 {
                self.finish_answered();
            }
        }
        waited.finish(|span, n| self.shared.stages.replied(span, n));
        taken
    }

    /// Writes the replies of whoever is owed nothing more.
    fn finish_answered(&mut self) {
        while let Some(&Owed { connection, requests: 0, ends }) = self.owed.front() {
            self.write_gathered(ends);
            self.owed.pop_front();
            if self.owed.front().is_none_or(|next| next.connection != connection) {
                live(&mut self.connections, connection).flush();
            }
        }
    }

    /// Writes the gathered replies to the connection they belong to and gives their arena bytes back; `ends` says that a message
    /// ends with them.
    fn write_gathered(&mut self, ends: bool) {
        let end = self.gathered.last().map(|last| last.span);
        if end.is_none() && !ends {
            return;
        }
        let owed = self.owed.front().expect("gathered replies belong to the first connection owed");
        let connection = live(&mut self.connections, owed.connection);
        let port = &self.port;
        if !connection.is_stuck() {
            connection.made_room = self.now;
        }
        if !connection.broken {
            let begun = self.clock.now();
            match connection.write(&self.gathered, |span| port.bytes(span), ends, &self.buffered) {
                Ok(bytes) => {
                    self.shared.net.writes.add(u64::from(bytes > 0));
                    self.shared.net.bytes_written.add(bytes as u64);
                    self.shared.stages.sent(self.clock.now().since(begun), self.gathered.len());
                }
                // The client is gone: its other replies are taken from the ring and dropped, then it is closed.
                Err(_) => connection.broken = true,
            }
        }
        self.gathered.clear();
        if let Some(end) = end {
            self.port.release(end);
        }
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
        if connection.is_stuck() {
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
        let token = epoll::EventData::new_u64(token(id, connection.generation));
        // Only streams wait for room with epoll.
        let Wire::Stream(stream) = &mut connection.wire else { return };
        if std::mem::replace(&mut stream.interest, interest) == interest {
            return;
        }
        let flags = match interest {
            Interest::Read => epoll::EventFlags::IN,
            Interest::Write => epoll::EventFlags::OUT,
        };
        if epoll::modify(&self.epoll, &stream.socket, token, flags).is_err() {
            self.close(id);
        }
    }

    /// Says that there is no memory for the request that is arriving, and closes.
    fn refuse(&mut self, id: u32) {
        self.shared.net.buffer_refusals.add(1);
        let connection = live(&mut self.connections, id);
        // Best effort: the connection closes whether or not the client hears why.
        if let Wire::Stream(stream) = &connection.wire {
            let _ = output::send(stream.socket.as_fd(), &[Line::OutOfMemoryReading.bytes()]);
        }
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
            connection.clear(&self.buffered);
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
                && !matches!(connection.wire, Wire::Datagrams(_))
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
        connection.clear(&self.buffered);
        self.runnable.retain(|&other| other != id);
        self.polled.retain(|&other| other != id);
        self.vacant.push(id);
        let is_rings = matches!(connection.wire, Wire::Rings(_));
        let is_counted = !matches!(connection.wire, Wire::Datagrams(_));
        // Who reads the counters finds its descriptor and memory given back.
        drop(connection);
        self.shared.net.shm_connections.sub(u64::from(is_rings));
        self.shared.net.curr_connections.sub(u64::from(is_counted));
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

    /// Reads from each connection that has nothing to be executed or written, and closes it if nothing more came.
    fn read_what_is_left(&mut self) {
        for id in 0..self.connections.len() as u32 {
            let Some(connection) = self.connections[id as usize].as_ref().filter(|c| !c.runnable) else {
                continue;
            };
            if connection.is_stuck() {
                self.resume(id);
                continue;
            }
            let came = match connection.wire {
                Wire::Stream(_) => self.read(id),
                Wire::Rings(_) | Wire::Datagrams(_) => {
                    self.receive(id);
                    self.connections[id as usize].as_ref().is_some_and(|c| c.runnable)
                }
            };
            if !came {
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
