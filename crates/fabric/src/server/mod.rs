//! The server's side of connections: a value that a thread drives; nothing runs behind its back.
//!
//! ```text
//!  poll(now):  look      now and then: clients that wait, calm connections with news     calm, greet
//!              greet     Hellos of links that were accepted                             greet
//!              turns     a quantum of frames of each busy connection, where they lie     take, router
//!              collect   deferred answers, futures that can go on, workers' replies      collect, tasks, executor
//!              expire    deadlines of open calls, limits of connections                  connection
//!              flush     what is enough to be published, or goes over a socket           connection, batch
//!              rest      all that was sent, unless the next turn comes at once           wait
//! ```
//! Why run to completion: a request of a method without streams is decoded from the batch it came in, handled, and its reply put into
//! the link, on one core, before the next is looked at. Handlers that cannot answer at once defer (see
//! [`Incoming::defer`](crate::service::Incoming::defer)), stream, or run elsewhere ([`Executor`], `places`).
//!
//! Invariants: those of `docs/design/003-fabric.md`; where they are kept is said in `connection` and `take`.
//!
//! Bounds: [`Options`].
//!
//! Errors: what a client does wrong ends its connection with a reason ([`End`]) and nothing else. A handler's panic is its call's.

mod accelerator;
mod calls;
mod calm;
mod carried;
mod collect;
mod connection;
mod executor;
mod gate;
mod greet;
mod manage;
mod options;
mod places;
mod reflection;
mod returns;
mod router;
mod take;
mod tasks;
mod wait;
mod watched;
mod workers;

#[cfg(test)]
mod tests;

pub use accelerator::{AcceleratorFigures, UnitError, UnitFigures};
pub use carried::{Courier, Handler};
pub use connection::{Counters, End};
pub use executor::{Executor, Full, Origin};
pub use gate::{Gate, denied};
pub use manage::ConnectionInfo;
pub use options::{Options, REQUEST};
pub use places::wants_engine;
pub use returns::{Spawner, TooMany};
pub use router::{Executed, Router, Scratch};
pub use workers::{ServicePlan, WorkersPlan};

pub(crate) use accelerator::Shown;
pub(crate) use returns::{Return, Returns};
pub use returns::{gather, wake_gathered};
pub(crate) use router::failure;

use crate::connection::switch::Side;
use crate::frame::Frame;
use crate::link::{self, Address, ForeignStream, Frames, Listener};
use crate::monitor::Watched;
use crate::registers::{self, Registers, Watch, wait_policy};
use crate::service::{self, Order, Service};
use base::units::Nanos;
use calm::Calm;
use codec::memory::Memory;
use connection::{Batch, Connection};
use greet::Greeting;
use places::{Places, Target};
use ring::wait::{Sleeper, WaitPolicy, waiting_on_eventfd};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::{fmt, io};
use tasks::{TaskId, Tasks};
use workers::Pool;

/// Serves connections.
pub struct Server {
    core: Core,
    listeners: Vec<Box<dyn Listener>>,
    registers: Option<(Arc<Registers>, Watch)>,
    calm: Calm,
    greetings: Vec<Greeting>,
    /// Links that ever were greeted.
    greeted: u64,
    /// Before then there is nothing to do for those without a Hello.
    greet_at: Nanos,
    /// By number, ascending.
    connections: Vec<Connection>,
    sleeper: Sleeper,
    /// Used again for each look.
    returned: Vec<Return>,
}

/// What connections share.
struct Core {
    options: Options,
    router: Arc<Router>,
    returns: Arc<Returns>,
    scratch: Scratch,
    frames: Frames,
    tasks: Tasks,
    /// Futures that were not run yet.
    fresh: Vec<TaskId>,
    /// Deadlines of open calls, with connection and call.
    timers: BTreeSet<(Nanos, u64, u32)>,
    places: Option<Box<Places>>,
    watched: Option<Box<Watched>>,
    /// Requests may go elsewhere, or nowhere: each is looked at.
    elsewhere: bool,
    /// There is something to publish there.
    submitted: bool,
    draining: bool,
    next_number: u64,
    /// Links that were refused.
    refused: u64,
    /// Of connections that ended.
    ended: Counters,
    /// Who may call what; without it everybody may call everything.
    gate: Option<Gate>,
    /// Who takes clients that speak HTTP/2.
    http2: Option<HandOver>,
}

/// Takes a stream of another protocol.
type HandOver = Box<dyn FnMut(ForeignStream) + Send>;

impl Core {
    /// Where a request of a method without streams goes.
    fn target(&mut self, request: &Frame<'_>, connection: u64) -> Target {
        let entry = self.router.entry(request.header.method).expect("the method was found before");
        let is_in_line = entry.descriptor.options.order != Order::None;
        match &mut self.places {
            Some(places) => {
                let part = if places.is_split() { self.router.part(request, connection) } else { 0 };
                places.target(entry.places, is_in_line, part)
            }
            None if entry.places.contains(service::Place::Edge) => Target::Here,
            None => Target::Nowhere,
        }
    }

    /// Whether requests may go elsewhere, from now on.
    fn settle(&mut self) {
        self.elsewhere = self.router.is_choosy() || self.places.as_ref().is_some_and(|places| places.takes());
    }

    fn remember_timer(&mut self, deadline: Nanos, connection: u64, call: u32) {
        if deadline != Nanos::MAX {
            self.timers.insert((deadline, connection, call));
        }
    }

    fn forget_timer(&mut self, deadline: Nanos, connection: u64, call: u32) {
        if deadline != Nanos::MAX {
            self.timers.remove(&(deadline, connection, call));
        }
    }

    /// An empty batch.
    fn spare(&mut self, now: Nanos) -> Batch {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        Batch { frames, side: Side::Current, arrived: now }
    }
}

impl Server {
    /// A server of nothing but reflection.
    ///
    /// # Panics
    /// If the system gives no eventfd or no epoll set; [`Server::try_new`] says so.
    pub fn new(options: Options) -> Server {
        Server::try_new(options).expect("the system gives an eventfd and an epoll set")
    }

    /// A server of nothing but reflection.
    ///
    /// # Errors
    /// The system's: it gives no eventfd or no epoll set, for want of descriptors.
    pub fn try_new(options: Options) -> io::Result<Server> {
        let (sleeper, waker) = waiting_on_eventfd()?;
        let calm = Calm::new()?;
        let returns = Arc::new(Returns::new(waker));
        let router = Router::new(Arc::clone(&returns), options.request);
        let core = Core {
            scratch: router.scratch(),
            options,
            router: Arc::new(router),
            returns,
            frames: Frames::default(),
            tasks: Tasks::default(),
            fresh: Vec::new(),
            timers: BTreeSet::new(),
            places: None,
            watched: None,
            elsewhere: false,
            submitted: false,
            draining: false,
            next_number: 1,
            refused: 0,
            gate: None,
            ended: Counters::default(),
            http2: None,
        };
        Ok(Server {
            core,
            listeners: Vec::new(),
            registers: None,
            calm,
            greetings: Vec::new(),
            greeted: 0,
            greet_at: Nanos::ZERO,
            connections: Vec::new(),
            sleeper,
            returned: Vec::new(),
        })
    }

    /// Serves `service` too.
    ///
    /// # Panics
    /// If a service of that name is served already, or [`Server::router`] was given to others.
    #[must_use]
    pub fn service(mut self, service: impl Service + 'static) -> Server {
        let router = Arc::get_mut(&mut self.core.router).expect("services are added before workers are");
        router.add(Arc::new(service));
        self.core.settle();
        self
    }

    /// Listens at `address` too.
    ///
    /// # Errors
    /// The system's: somebody else listens there, for one; or it has no address space for messages, which is better said now than at a first call.
    pub fn listen(mut self, address: &Address) -> io::Result<Server> {
        Memory::prepare()?;
        let listener = link::listen(address, &self.core.options.link)?;
        self.calm.add_listener(self.listeners.len(), &*listener)?;
        self.listeners.push(listener);
        Ok(self)
    }

    /// Gives clients that begin as HTTP/2 has it (gRPC's) to `hand_over`, which does not wait. Without it they are refused. They come over TCP, with TLS
    /// or without, and count no more among [`Options::max_connections`].
    #[must_use]
    pub fn http2(mut self, hand_over: impl FnMut(ForeignStream) + Send + 'static) -> Server {
        self.core.http2 = Some(Box::new(hand_over));
        self
    }

    /// Has calls come through this gate.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Server {
        self.core.gate = Some(gate);
        self
    }

    /// Has an engine for methods without streams; register `place.handlers` sends them there. Services are added before.
    #[must_use]
    pub fn engine(mut self, engine: Box<dyn Executor>) -> Server {
        self.core.places.get_or_insert_default().engine = Some(engine);
        self.follow();
        self
    }

    /// Runs methods without streams on workers. Services are added before, and [`Server::registers`] changes all but the
    /// cores and what is a service's own while it serves.
    ///
    /// # Errors
    /// The system's: no threads can be had, or a core is not allowed.
    pub fn workers(mut self, plan: &WorkersPlan) -> io::Result<Server> {
        let pool = Pool::new(self.router(), plan)?;
        self.core.places.get_or_insert_default().host = Some(pool);
        self.core.settle();
        Ok(self)
    }

    /// The services, for an executor.
    pub fn router(&self) -> Arc<Router> {
        Arc::clone(&self.core.router)
    }

    /// For running futures on this server's thread.
    pub fn spawner(&self) -> Spawner {
        Spawner { returns: Arc::clone(&self.core.returns), max: self.core.options.max_tasks }
    }

    /// Follows registers from now on: what they say of batches, bounds, waiting, links and workers takes the place of [`Options`], of a
    /// [`WorkersPlan`] and of the policies given to [`Server::wait`] and [`Server::run`]. They are looked at once in each poll.
    #[must_use]
    pub fn registers(mut self, registers: Arc<Registers>) -> Server {
        self.core.options.follow(&registers);
        self.registers = Some((registers, Watch::default()));
        self
    }

    /// Takes over what registers say now.
    #[cold]
    fn follow(&mut self) {
        let Some((registers, _)) = &self.registers else { return };
        let core = &mut self.core;
        core.options.follow(registers);
        self.listeners.iter_mut().for_each(|listener| listener.set_options(&core.options.link));
        if places::workers(registers, core.router.needs_workers()) > 0 {
            let places = core.places.get_or_insert_default();
            if places.host.is_none() {
                // As `Server::workers` with nothing special; where the system gives no threads, `follow` of the pool goes on without.
                places.host = Pool::new(Arc::clone(&core.router), &WorkersPlan::default()).ok();
            }
        }
        if registers.is_on(registers::Id::AccOn) {
            let is_there = core.places.as_ref().is_some_and(|places| places.accelerator.is_some());
            // Without methods for it, or memory, the server goes on as it was.
            if !is_there && let Ok(accelerator) = accelerator::of_registers(&core.router, registers) {
                core.put_accelerator(accelerator);
            }
        }
        if let Some(places) = &mut core.places {
            places.follow(registers);
        }
        core.settle();
    }

    /// How to wait: as registers say, if there are any.
    pub(super) fn policy(&self, given: WaitPolicy) -> WaitPolicy {
        self.registers.as_ref().map_or(given, |(registers, _)| wait_policy(registers))
    }

    /// What may be changed while it runs, unless registers say it.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.core.options
    }

    /// Does what there is to do, one quantum for each connection; how much that was.
    pub fn poll(&mut self, now: Nanos) -> usize {
        let done = self.turn(now);
        self.publish_rest(now);
        done
    }

    /// Publishes what waits for company: before sleeping, and before the server is in other hands.
    #[inline]
    fn publish_rest(&mut self, now: Nanos) {
        self.connections.iter_mut().for_each(|connection| connection.flush_rest(now));
    }

    /// As [`Server::poll`], but replies may wait for company until a turn that finds nothing.
    fn turn(&mut self, now: Nanos) -> usize {
        if let Some((registers, watch)) = &mut self.registers
            && watch.changed(registers)
        {
            self.follow();
        }
        if let Some(watched) = &mut self.core.watched {
            watched.refresh();
        }
        let looks = self.calm.is_due(now);
        if looks {
            self.look(now);
        }
        let mut done =
            if self.greetings.is_empty() || now < self.greet_at { 0 } else { self.greet(looks, now) };
        for connection in self.connections.iter_mut().filter(|connection| !connection.is_calm()) {
            done += connection.turn(&mut self.core, now);
        }
        done += self.collect(now);
        self.expire(now);
        self.finish_turns(now);
        self.calm.note(done, now);
        done
    }

    /// Ends calls whose time is over.
    fn expire(&mut self, now: Nanos) {
        while let Some(&(deadline, number, call)) = self.core.timers.first()
            && deadline <= now
        {
            self.core.timers.pop_first();
            if let Some(connection) = find(&mut self.connections, number) {
                connection.expire(&mut self.core, call, now);
            }
        }
    }

    /// Publishes, and buries connections that are over.
    fn finish_turns(&mut self, now: Nanos) {
        if std::mem::take(&mut self.core.submitted)
            && let Some(places) = &mut self.core.places
        {
            places.flush();
        }
        let mut over = false;
        for connection in &mut self.connections {
            if connection.is_calm() {
                if !connection.is_stirred() {
                    continue;
                }
                connection.take_up(&mut self.calm, now);
            }
            connection.end_turn(self.core.options.batch, now);
            connection.check_limits(&self.core, now);
            over |= connection.over.is_some();
        }
        if over {
            self.bury(now);
        }
    }

    /// When [`Server::poll`] has something to do though nothing happens; [`Nanos::MAX`] for never.
    pub fn next_deadline(&self) -> Nanos {
        let timer = self.core.timers.first().map_or(Nanos::MAX, |&(deadline, ..)| deadline);
        let connections = self.connections.iter().map(|connection| connection.next_deadline(&self.core));
        let greetings = self.greetings.iter().map(|greeting| greeting.next_deadline(&self.core));
        let listeners = self.listeners.iter().map(|listener| listener.next_deadline());
        connections.chain(greetings).chain(listeners).fold(timer, Nanos::min)
    }
}

/// The connection of a number.
fn find(connections: &mut [Connection], number: u64) -> Option<&mut Connection> {
    let at = connections.binary_search_by_key(&number, |connection| connection.number).ok()?;
    Some(&mut connections[at])
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({} connections)", self.connections.len())
    }
}
