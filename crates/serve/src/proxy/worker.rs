//! A thread of the proxy: connections of memcached clients on one side, a client of the in-network cache on the other.
//!
//! ```text
//!   epoll ─▶ read what came ─▶ parse ─▶ flows ─▶ begin (as far as the client has room) ─▶ datagrams
//!     ▲                                   ▲                                                  │
//!     └── one write per connection ◀──────┴──── hear outcomes ◀── Driver::serve ◀────────────┘
//! ```
//!
//! What is too long for a packet goes to its home by `inc::stream`, of which each thread has its own.
//!
//! Invariants: 1. `asked` has each operation of the client until its outcome is heard, so its length is what the client has under way; `sent` those by stream;
//! 2. `held` is the sum of what all flows hold; 3. a connection with something to begin is in `hungry`.
//!
//! Bounds: operations by `coherence.operations`; connections take turns to begin theirs. Beyond [`HELD`] only the oldest command of each
//! connection begins, so that all get on; beyond [`HELD_MAX`] the connection that holds most unread replies is closed.

use super::command::Next;
use super::connection::Connection;
use super::flow::{Heard, Place, Turn};
use super::shared::Shared;
use crate::inc::driver::Driver;
use crate::inc::machine::Counters;
use crate::inc::stream::{StreamId, Streams};
use crate::memcached::accept::{Inbox, Purpose};
use crate::memcached::handshakes::Handshakes;
use crate::memcached::input::Pool;
use crate::memcached::socket::{ReadError, Socket, peer_of};
use base::closing::{self, Reason};
use base::tls::Session;
use base::{Clock, Nanos};
use protocol::coherence::{self, client::OpId};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Events taken from epoll at once.
const EVENTS: usize = 256;
/// The token of the wake-up descriptor, and of the socket to the boxes.
const WAKE: u64 = u64::MAX;
const DATAGRAMS: u64 = u64::MAX - 1;
/// The token of the streams to homes.
const STREAMS: u64 = u64::MAX - 2;
/// Longest sleep, so that the stop flag is looked at.
const NAP: Nanos = Nanos::from_millis(250);
/// How long a stopping proxy waits for what is under way and for slow readers.
const DRAIN: Nanos = Nanos::from_secs(5);
/// TLS handshakes under way at once; of more the oldest is ended.
const HANDSHAKES_MAX: usize = 256;
/// A client whose handshake takes longer is closed.
const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Bytes of an ordinary input buffer.
const INPUT: usize = 16 << 10;
/// Bytes of values under way beyond which only the oldest command of a connection begins.
const HELD: usize = 32 << 20;
/// Bytes of values under way and replies not taken beyond which the slowest reader is closed.
const HELD_MAX: usize = 128 << 20;

/// What an operation is for.
#[derive(Clone, Copy)]
struct Asked {
    connection: u32,
    generation: u32,
    place: Place,
    turn: Turn,
}

/// See the file's head. [`Worker::run`] is its thread.
pub struct Worker {
    shared: Arc<Shared>,
    index: usize,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    driver: Driver<coherence::Client>,
    /// To homes, for what is too long for a packet.
    streams: Option<Streams>,
    /// What may be under way, both ways together.
    operations: usize,
    asked: HashMap<OpId, Asked>,
    sent: HashMap<StreamId, Asked>,
    connections: Vec<Option<Connection>>,
    vacant: Vec<u32>,
    generation: u32,
    /// Connections to look at: something arrived, or an outcome was heard.
    touched: VecDeque<u32>,
    hungry: VecDeque<u32>,
    held: usize,
    handshakes: Handshakes,
    pool: Pool,
    out: Vec<u8>,
    clock: Clock,
}

impl Worker {
    /// A thread that is given connections through `inbox`, with a client that may have so many operations under way.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new(
        shared: Arc<Shared>,
        index: usize,
        inbox: Arc<Inbox>,
        (driver, streams): (Driver<coherence::Client>, Option<Streams>),
        operations: usize,
    ) -> io::Result<Worker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch =
            |fd, token| epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN);
        watch(inbox.bell(), WAKE)?;
        watch(driver.as_fd(), DATAGRAMS)?;
        streams.iter().try_for_each(|streams| watch(streams.as_fd(), STREAMS))?;
        let pool = Pool::new(INPUT, shared.buffered.clone());
        Ok(Worker {
            shared,
            index,
            inbox,
            epoll,
            driver,
            streams,
            operations,
            asked: HashMap::new(),
            sent: HashMap::new(),
            connections: Vec::new(),
            vacant: Vec::new(),
            generation: 0,
            touched: VecDeque::new(),
            hungry: VecDeque::new(),
            held: 0,
            handshakes: Handshakes::default(),
            pool,
            out: Vec::new(),
            clock: Clock::shared(),
        })
    }

    /// Serves until the proxy stops, then answers what has arrived and closes. What the client has counted.
    ///
    /// # Errors
    /// The socket to the boxes failed.
    pub fn run(mut self) -> io::Result<Counters> {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.shared.is_stopping() {
            self.turn(&mut events)?;
        }
        self.drain(&mut events)?;
        Ok(self.counters())
    }

    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        self.inbox.beat.turn();
        self.wait(events);
        self.handshakes.begin_turn();
        self.handle(events);
        self.end_handshakes();
        self.driver.serve()?;
        if let Some(streams) = &mut self.streams {
            streams.serve(self.clock.now());
        }
        self.hear();
        self.look();
        self.begin();
        if self.held > HELD {
            self.kick_slowest();
        }
        self.shared.publish(self.index, self.counters());
        Ok(())
    }

    /// What went both ways.
    fn counters(&self) -> Counters {
        let mut counters = self.driver.counters();
        counters.extend(self.streams.iter().flat_map(Streams::counters));
        counters
    }

    /// How long until packets or streams want to be served, whatever comes.
    fn patience(&self) -> Nanos {
        let streams = self.streams.as_ref().map_or(Nanos::MAX, Streams::next_deadline);
        self.driver.next_deadline().min(streams).since(self.clock.now())
    }

    /// Sleeps until something happens or the client wants to be called.
    fn wait(&self, events: &mut Vec<epoll::Event>) {
        let nap = if self.touched.is_empty() { self.patience().min(NAP) } else { Nanos::ZERO };
        let timeout = Timespec { tv_sec: 0, tv_nsec: nap.0 as i64 };
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => panic!("epoll_wait on our own descriptor: {e}"),
        }
    }

    /// Takes new connections, reads what came, and sends what waited.
    fn handle(&mut self, events: &[epoll::Event]) {
        for event in events {
            let token = event.data.u64();
            match token {
                WAKE => self.welcome(),
                DATAGRAMS | STREAMS => {}
                _ => self.handle_client(token as u32, (token >> 32) as u32, event.flags),
            }
        }
    }

    fn welcome(&mut self) {
        for (purpose, socket) in self.inbox.take() {
            let socket = match (purpose, &self.shared.tls) {
                (Purpose::Tls, Some(tls)) => match Session::server(tls) {
                    Ok(session) => Socket::with_tls(socket, session),
                    Err(error) => {
                        log::warn!("a client was turned away: {error}");
                        self.shared.net.curr_connections.sub(1);
                        continue;
                    }
                },
                _ => Socket::plain(socket),
            };
            let id = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                (self.connections.len() - 1) as u32
            });
            self.generation = self.generation.wrapping_add(1);
            let token = u64::from(self.generation) << 32 | u64::from(id);
            let data = epoll::EventData::new_u64(token);
            let watched = epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN);
            let entered = self.shared.entrance.enter(self.shared.value_max, socket.as_fd());
            self.connections[id as usize] = Some(Connection::new(socket, self.generation, entered));
            if watched.is_err() {
                self.close_for(id, Reason::Limit("the system watches no more sockets"));
            } else if purpose == Purpose::Tls {
                self.handshakes.begin(id, self.clock.now());
            }
        }
        self.end_handshakes();
    }

    /// Closes clients whose handshakes are too many, or take too long.
    fn end_handshakes(&mut self) {
        while let Some(id) = self.handshakes.pop_excess(HANDSHAKES_MAX, HANDSHAKE_TIMEOUT, self.clock.now()) {
            self.shared.net.tls_timeouts.add(1);
            self.close_for(id, Reason::Tls("too slow, or too many under way".to_owned()));
        }
    }

    /// What became of the handshake of a client that was read from.
    fn note_handshake(&mut self, id: u32) {
        let Some(Some(connection)) = self.connections.get_mut(id as usize) else { return };
        if !connection.socket.is_handshaking() {
            connection.guest.shook_hands(&connection.socket);
            self.shared.net.tls_handshakes.add(1);
            self.shared.net.tls_resumed.add(u64::from(connection.socket.is_resumed()));
            self.handshakes.forget(id);
        }
    }

    fn handle_client(&mut self, id: u32, generation: u32, flags: epoll::EventFlags) {
        // An earlier event of this batch may have closed the connection, and another may have its place.
        let Some(Some(connection)) = self.connections.get_mut(id as usize) else { return };
        if connection.generation != generation {
            return;
        }
        let is_handshaking = connection.socket.is_handshaking();
        if is_handshaking && !self.handshakes.take_step() {
            return;
        }
        let net = &self.shared.net;
        let went_well = if connection.watched.contains(epoll::EventFlags::OUT) {
            let sent = connection.resend(&self.shared.buffered).map_err(|_| Reason::Gone);
            sent.map(|n| net.bytes_written.add(n as u64))
        } else if connection.watched.contains(epoll::EventFlags::IN) {
            match connection.read(&mut self.pool) {
                Err(ReadError::Again) => Ok(()),
                Err(ReadError::Tls(why)) => {
                    net.tls_failures.add(1);
                    Err(Reason::Tls(why.to_string()))
                }
                Err(ReadError::NoRoom) => Err(Reason::Limit("what all connections together may buffer")),
                Err(ReadError::Gone) => Err(Reason::Gone),
                Ok(n) => {
                    net.bytes_read.add(n as u64);
                    Ok(())
                }
            }
        } else if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            Err(Reason::Gone)
        } else {
            Ok(())
        };
        match went_well {
            Ok(()) => {
                if is_handshaking {
                    self.note_handshake(id);
                }
                self.touch(id);
            }
            Err(why) => self.close_for(id, why),
        }
    }

    fn touch(&mut self, id: u32) {
        if let Some(connection) = &mut self.connections[id as usize]
            && !std::mem::replace(&mut connection.is_touched, true)
        {
            self.touched.push_back(id);
        }
    }

    /// Hears outcomes, and asks for what commands need next: there is room for it, since an operation has just ended.
    fn hear(&mut self) {
        let mut again = Vec::new();
        while let Some((operation, outcome)) = self.driver.act(|client, _, _| client.poll_outcome()) {
            let asked = self.asked.remove(&operation).expect("operations are entered when they begin");
            again.extend(self.hear_one(asked, Heard::Packet(outcome)));
        }
        while let Some((request, said)) = self.streams.as_mut().and_then(Streams::poll) {
            let asked = self.sent.remove(&request).expect("requests are entered when they begin");
            again.extend(self.hear_one(asked, Heard::Stream(said)));
        }
        self.ask(again);
    }

    fn hear_one(&mut self, asked: Asked, heard: Heard) -> Option<(Asked, Next)> {
        let connection = self.connections.get_mut(asked.connection as usize)?.as_mut()?;
        if connection.generation != asked.generation {
            return None;
        }
        let held = connection.flow.bytes();
        let next = connection.flow.hear(asked.place, asked.turn, heard);
        self.held = self.held - held + connection.flow.bytes();
        self.touch(asked.connection);
        Some((asked, next?))
    }

    fn ask(&mut self, all: Vec<(Asked, Next)>) {
        let Worker { driver, asked, streams, sent, clock, .. } = self;
        driver.act(|client, now, out| {
            for (whose, next) in all {
                let call = match next {
                    Next::Ask(call) => call,
                    Next::Send(request) => {
                        let streams = streams.as_mut().expect("only those who have streams send");
                        sent.insert(streams.ask(clock.now(), request), whose);
                        continue;
                    }
                    Next::Done(_) => unreachable!("what is done asks for nothing"),
                };
                let begun = client.start(now, call, out);
                // Keys and values were measured by the parser, and operations are counted before they begin.
                let operation = begun.expect("what is asked for fits, and there is room");
                asked.insert(operation, whose);
            }
        });
    }

    /// Looks at connections on which something happened: sends replies, takes commands.
    fn look(&mut self) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u32::try_from(unix.as_secs()).unwrap_or(u32::MAX);
        for _ in 0..self.touched.len() {
            let Some(id) = self.touched.pop_front() else { break };
            let Some(connection) = &mut self.connections[id as usize] else { continue };
            connection.is_touched = false;
            let held = connection.flow.bytes();
            let mut written = connection.write(&mut self.out, &self.shared);
            let taken = connection.parse(now, &self.shared);
            if let Ok(sent) = &mut written {
                // Of the new ones, those that need nobody are answered already.
                match connection.write(&mut self.out, &self.shared) {
                    Ok(more) => *sent += more,
                    Err(e) => written = Err(e),
                }
            }
            self.held = self.held - held + connection.flow.bytes();
            self.shared.net.requests.add(taken as u64);
            match written {
                Ok(sent) => {
                    self.shared.net.bytes_written.add(sent as u64);
                    self.settle(id);
                }
                Err(_) => self.close_for(id, Reason::Gone),
            }
        }
    }

    /// Decides what a connection waits for.
    fn settle(&mut self, id: u32) {
        let pipeline = self.shared.options.pipeline;
        let Some(connection) = &mut self.connections[id as usize] else { return };
        if connection.is_over() {
            return self.close(id);
        }
        if connection.make_room(&mut self.pool).is_err() {
            return self.close_for(id, Reason::Limit("what all connections together may buffer"));
        }
        if connection.flow.can_begin() && !std::mem::replace(&mut connection.is_hungry, true) {
            self.hungry.push_back(id);
        }
        let wanted = connection.wants_events(pipeline);
        let token = u64::from(connection.generation) << 32 | u64::from(id);
        if std::mem::replace(&mut connection.watched, wanted) != wanted
            && epoll::modify(&self.epoll, &connection.socket, epoll::EventData::new_u64(token), wanted)
                .is_err()
        {
            return self.close_for(id, Reason::Limit("the system watches no more sockets"));
        }
        if connection.can_parse(pipeline) {
            self.touch(id);
        }
    }

    /// Begins what may begin, a command of each connection in turn, as far as the client has room.
    fn begin(&mut self) {
        let mut calls = Vec::new();
        let mut passed_by = 0;
        while self.asked.len() + self.sent.len() + calls.len() < self.operations
            && passed_by < self.hungry.len()
            && let Some(id) = self.hungry.pop_front()
        {
            let Some(connection) = &mut self.connections[id as usize] else { continue };
            if self.held > HELD && !connection.flow.is_first_next() {
                self.hungry.push_back(id);
                passed_by += 1;
                continue;
            }
            passed_by = 0;
            let Some((place, turn, next)) = connection.flow.begin() else {
                connection.is_hungry = false;
                continue;
            };
            calls.push((Asked { connection: id, generation: connection.generation, place, turn }, next));
            self.hungry.push_back(id);
        }
        self.ask(calls);
    }

    /// Closes the connection that has left most replies unread, if all together hold too much.
    fn kick_slowest(&mut self) {
        let stuck = self.connections.iter().flatten().filter(|c| c.is_stuck());
        if self.held + stuck.map(Connection::unsent).sum::<usize>() <= HELD_MAX {
            return;
        }
        let burden = |(at, c): (usize, &Option<Connection>)| {
            let c = c.as_ref().filter(|c| c.is_stuck())?;
            Some((c.unsent() + c.flow.bytes(), at))
        };
        if let Some((_, at)) = self.connections.iter().enumerate().filter_map(burden).max() {
            self.shared.net.slow_reader_kicks.add(1);
            self.close_for(at as u32, Reason::SlowReader);
        }
    }

    /// Closes a connection, and says that it was for this.
    fn close_for(&mut self, id: u32, why: Reason) {
        if let Some(connection) = &mut self.connections[id as usize] {
            connection.why = why;
            self.close(id);
        }
    }

    fn close(&mut self, id: u32) {
        let Some(mut connection) = self.connections[id as usize].take() else { return };
        closing::log("proxy", || peer_of(connection.socket.as_fd()), &connection.why);
        connection.release(&mut self.pool, &self.shared.buffered);
        self.held -= connection.flow.bytes();
        self.touched.retain(|&other| other != id);
        self.hungry.retain(|&other| other != id);
        self.handshakes.forget(id);
        self.vacant.push(id);
        self.shared.net.curr_connections.sub(1);
    }

    /// The last act: answers what clients sent before the proxy was told to stop, waits a little for slow readers, closes.
    fn drain(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        self.welcome();
        let end = self.clock.now().plus(DRAIN);
        while self.connections.iter().any(Option::is_some) && self.clock.now() < end {
            (0..self.connections.len() as u32).for_each(|id| self.read_what_is_left(id));
            self.turn(events)?;
        }
        (0..self.connections.len() as u32).for_each(|id| self.close_for(id, Reason::Drain));
        Ok(())
    }

    /// Reads from a connection that has nothing to be parsed; when nothing more came, it ends.
    fn read_what_is_left(&mut self, id: u32) {
        let Some(connection) = &mut self.connections[id as usize] else { return };
        if !connection.wants_events(self.shared.options.pipeline).contains(epoll::EventFlags::IN) {
            return;
        }
        match connection.read(&mut self.pool) {
            Ok(n) => self.shared.net.bytes_read.add(n as u64),
            // Nothing is left. Whoever is gone is seen when it is written to.
            Err(_) => connection.ended = true,
        }
        self.touch(id);
    }
}
