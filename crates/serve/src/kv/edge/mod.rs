//! An edge: one thread that owns connections and does everything between their wires and the engine.
//!
//! Shape of one turn
//! ```text
//!  epoll ─▶ read what came ─▶ parse, submit to the port ─▶ doorbell ─▶ engine ─▶ replies ─▶ one write per connection
//!            (all ready          (round-robin over                     (run here,             (straight from
//!             connections)        connections, cut at                   or wait)               the arena)
//!                                 net.pipeline each)
//! ```
//! Fairness is by cost: a request costs 1, or more if it lists statistics, is a slice of a listing, or has many bytes, there or back. In a turn a
//! connection has `net.pipeline` of it; what a reply costs is known afterwards, and is a *debt* that its next turns pay first. A turn has two rounds.
//! In the first are those that have not had a turn since they last ran dry, however many there are. Those that want more than one turn at once
//! *lag*: of these one, or a few that are cheap, have the second round, as much as the first had. So who asks now and then waits for a laggard's share, not
//! for all of them. While such a one is about, turns are shorter.
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
//! One file per step: `arrive`, `turn`, `settle`, `drain`; before them, where there is TLS, `handshakes`; `home` is what edge 0 does for the home of boxes,
//! and what any does for commands that wait for them. Requests that leave spans: `traced`; what `-vv` logs: `verbose`; clients that
//! watch: `watch`.
//!
//! Bounds: requests in flight by the ring; buffered bytes by `net.buffer_limit`, shared memory by `shm.memory`; connections by `net.max_connections`.

mod arrive;
mod drain;
mod handshakes;
mod home;
pub(crate) mod planted;
mod settle;
#[cfg(test)]
mod tests;
mod traced;
mod turn;
mod verbose;
mod watch;

use super::connection::Connection;
use super::dedicated::Link;
use super::service::prefixes::Detail;
use super::service::{Kv, Reply};
use super::shared::Shared;
use super::system::{Machine, System};
use super::watchers::Watchers;
use crate::kv::registers::Id;
use crate::memcached::accept::Inbox;
use crate::memcached::connections::Connections;
use crate::memcached::handshakes::Handshakes;
use crate::memcached::input::Pool;
use base::Nanos;
use base::budget::Budget;
use base::hash::Hasher64;
use base::trace::Tracer;
use engine::EdgePort;
use home::HomeSocket;
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use traced::Traces;

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
pub struct Edge<Y: System = Machine> {
    shared: Arc<Shared<Y::Core>>,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    port: EdgePort<Kv>,
    /// What it waits with for the core's thread.
    link: Link,
    /// That thread runs the engine for this turn.
    is_led: bool,
    hasher: Hasher64,
    connections: Vec<Option<Connection>>,
    /// Where all can see them.
    known: Connections,
    detail: Detail,
    watchers: Watchers,
    /// Connections that watch; some may have ended since.
    watching: Vec<u32>,
    vacant: Vec<u32>,
    generation: u32,
    /// Connections with something to do, since they last had nothing.
    runnable: VecDeque<u32>,
    /// Those that have more to do after their turn.
    laggards: VecDeque<u32>,
    /// When somebody last asked for little.
    asked_little: Nanos,
    /// Shared-memory connections that are looked at every time round.
    polled: Vec<u32>,
    /// When epoll was last asked.
    looked: Nanos,
    owed: VecDeque<Owed>,
    gathered: Vec<Reply>,
    ran: Vec<u32>,
    pool: Pool,
    buffered: Arc<Budget>,
    system: Y,
    now: Nanos,
    next_housekeeping: Nanos,
    next_sweep: Nanos,
    /// Connections whose TLS is not agreed upon yet.
    handshakes: Handshakes,
    /// Which of the node's edges.
    number: usize,
    /// The home's socket, if this edge has it.
    home: Option<HomeSocket>,
    traces: Traces,
}

/// Requests in flight of one connection, in a row.
struct Owed {
    connection: u32,
    requests: usize,
    /// A message ends with them, and its reply with theirs.
    ends: bool,
    /// Of those that were answered, how many wait for boxes.
    late: usize,
}

impl Owed {
    fn new(connection: u32, requests: usize, ends: bool) -> Owed {
        Owed { connection, requests, ends, late: 0 }
    }
}

impl<Y: System> Edge<Y> {
    /// An edge that answers through `port` and is given connections through `inbox`. As the register says it runs the engine itself, or has
    /// the core's thread do it, for which it waits by `link`.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new(
        shared: Arc<Shared<Y::Core>>,
        inbox: Arc<Inbox>,
        (port, link): (EdgePort<Kv>, Link),
        hasher: Hasher64,
        system: Y,
    ) -> io::Result<Edge<Y>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, inbox.bell(), epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let buffered = shared.buffered.clone();
        let pool = Pool::new(shared.registers.size(Id::EdgeReadBuffer), buffered.clone());
        let number = shared.number_of(&inbox);
        let home = HomeSocket::of(&shared, number, &epoll)?;
        Ok(Edge {
            number,
            home,
            shared,
            inbox,
            epoll,
            port,
            link,
            is_led: false,
            hasher,
            connections: Vec::new(),
            known: Connections::default(),
            detail: Detail::default(),
            watchers: Watchers::default(),
            watching: Vec::new(),
            vacant: Vec::new(),
            generation: 0,
            runnable: VecDeque::new(),
            laggards: VecDeque::new(),
            asked_little: Nanos::ZERO,
            polled: Vec::new(),
            looked: Nanos::ZERO,
            owed: VecDeque::new(),
            gathered: Vec::new(),
            ran: Vec::new(),
            pool,
            buffered,
            now: system.now(),
            system,
            next_housekeeping: Nanos::ZERO,
            next_sweep: Nanos::ZERO,
            handshakes: Handshakes::default(),
            traces: Traces::new(Tracer::default()),
        })
    }

    /// Has requests leave their spans there.
    #[must_use]
    pub fn traced_by(mut self, tracer: &Tracer) -> Edge<Y> {
        self.traces = Traces::new(tracer.clone());
        self
    }

    /// Has its connections known there.
    #[must_use]
    pub fn known_to(mut self, known: &Connections) -> Edge<Y> {
        self.known = known.clone();
        self
    }

    /// Has its requests counted by prefix where that says so.
    #[must_use]
    pub fn counted_by(mut self, detail: &Detail) -> Edge<Y> {
        self.detail = detail.clone();
        self
    }

    /// Has clients that ask for it shown what happens.
    #[must_use]
    pub fn watched_by(mut self, watchers: &Watchers) -> Edge<Y> {
        self.watchers = watchers.clone();
        self
    }

    /// Serves until the node stops, then answers what has arrived and closes.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let mut last_work = Nanos::ZERO;
        while !self.shared.is_stopping() {
            self.inbox.beat.turn();
            self.wait(&mut events, last_work);
            if self.step(&events) {
                last_work = self.now;
            }
        }
        self.drain(&mut events);
    }

    /// Takes what arrived, has a turn, and looks after connections from time to time. Whether there was anything to do.
    pub(super) fn step(&mut self, events: &[epoll::Event]) -> bool {
        self.now = self.system.now();
        self.handshakes.begin_turn();
        self.handle(events);
        self.poll_rings();
        let worked = !events.is_empty() || self.has_work();
        self.serve_later();
        self.turn();
        self.send_packets();
        if self.now >= self.next_sweep {
            self.sweep();
            self.next_sweep = self.now.plus(NAP);
        }
        worked
    }

    pub(super) fn has_work(&self) -> bool {
        !(self.runnable.is_empty() && self.laggards.is_empty())
    }

    /// Sleeps until something happens, or only looks when there is work or busy polling is on.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, last_work: Nanos) {
        if !self.polled.is_empty() && self.system.now().since(self.looked) < LOOK {
            std::hint::spin_loop();
            return events.clear();
        }
        let busy = Nanos::from_micros(self.shared.registers.read(Id::EdgeBusyPoll));
        let look_only = self.has_work()
            || !self.polled.is_empty()
            || (busy > Nanos::ZERO && self.system.now().since(last_work) < busy);
        let nap = if look_only { Nanos::ZERO } else { self.idle_nap() };
        self.poll_events(events, nap);
        self.looked = self.system.now();
        if !events.is_empty() {
            self.shared.net.wakeups.add(1);
        }
    }

    /// How long it may sleep while there is nothing to do.
    pub(super) fn idle_nap(&mut self) -> Nanos {
        let nap = self.housekeep();
        nap.min(self.until_due())
    }

    /// Whether the node was told to stop.
    pub(super) fn is_to_stop(&self) -> bool {
        self.shared.is_stopping()
    }

    /// What its epoll has to say now.
    pub(super) fn look(&self) -> Vec<epoll::Event> {
        let mut events = Vec::with_capacity(EVENTS);
        self.poll_events(&mut events, Nanos::ZERO);
        events
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
        let now = self.system.now();
        if self.shared.is_dedicated() || now < self.next_housekeeping {
            return NAP;
        }
        self.next_housekeeping = now.plus(HOUSEKEEPING);
        let more = self.shared.on_core.try_idle(IDLE_STEPS);
        if more { HOUSEKEEPING } else { NAP }
    }
}

fn token(id: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(id)
}

fn live(connections: &mut [Option<Connection>], id: u32) -> &mut Connection {
    connections[id as usize].as_mut().expect("the connection is open")
}
