//! An accelerator between the links and the handlers (RPCAcc III-A): the executor that is made of [`codec::place`].
//!
//! ```text
//!  submit:   a Request ── its message ──▶ lanes: every field where the live table says           the server goes on
//!  collect:  placed messages ──▶ handler, on the server's thread, in each connection's order ──▶ its reply, built as a placed message
//!            replies, serialised behind room for the frame's header ◀── lanes: fetch, merge ◀── as the strategy in force says
//! ```
//! Methods say by [`Service::request`](crate::service::Service::request) what their message is. Requests of others (which defer, or look at the
//! body) go through the queue whole, for the order's sake, and are decoded by their handlers as ever. Streams never come here, and no
//! request that workers or an engine are to handle: their threads have no ring to the lanes.
//!
//! Why the server's thread alone talks to the lanes: each ring keeps one producer. It waits for lanes only in the middle of a handler
//! that moves a field or runs a unit, as it would wait for the same work done here; decoding and serialising never stop it.
//!
//! Invariants: those of [`queue`], for each connection; a request has one outcome whatever becomes of handler, unit, memory or lanes (`tests/accelerated`
//! has each).
//!
//! Errors: if a lane thread dies, its requests and all that wait behind them end with INTERNAL, and the server goes on without an accelerator.
//!
//! Bounds: [`HELD`] bytes of requests and one; the rings of the lanes; in each collect [`MOST`] handlers.

mod device;
mod queue;
mod traced;

pub(crate) use device::Shown;
pub use device::{AcceleratorFigures, UnitError, UnitFigures};

use super::executor::{Executor, Full, Origin};
use super::router::{Executed, Router, Scratch, failure};
use super::{Core, Server};
use crate::frame::{END, Frame, HEADER, Header, Kind, MAX_MESSAGE};
use crate::registers::{Id, Registers};
use crate::service::{Kernels, too_long, unwritable};
use crate::status::{Code, Status};
use base::units::Nanos;
use codec::crossing::{Crossing, Shared};
use codec::decode::{DecodeError, Writes};
use codec::encode::Strategy;
use codec::memory::CHUNK;
use codec::place::{Accelerator, Live, Options, Placed, SendRefused, Ticket};
use codec::typed::Message;
use device::Device;
use queue::{Queue, Stage};
use rustix::fd::BorrowedFd;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{io, mem};
use traced::{Traced, put};

/// Bytes of requests on their way through, each a chunk at least, since placed it takes one; with more nothing is taken but one at a time.
const HELD: usize = 64 << 20;
/// Requests that are handled in one look.
const MOST: usize = 256;

/// An accelerator, whatever its crossing is.
pub(super) trait Beside: Executor {
    fn shown(&self) -> &Arc<Shown>;

    fn set_unit(&mut self, kernel: &str, there: bool) -> Result<(), UnitError>;

    /// The table in use of the schema of that layout.
    fn live(&self, layout_hash: u64) -> Option<&Arc<Live>>;
}

/// A request, without its message.
struct Request {
    /// Header and metadata; of one that is not decoded by lanes the whole frame.
    frame: Vec<u8>,
    origin: Origin,
    /// What it counts for of [`HELD`].
    bytes: usize,
    traced: Option<Box<Traced>>,
}

impl Request {
    fn frame(&self) -> Frame<'_> {
        Frame::parse(&self.frame).expect("the server parsed it")
    }
}

/// A reply that is to be serialised, with its metadata.
type Reply = (Placed, Vec<u8>);
type Waiting = Queue<Request, Result<Placed, DecodeError>, Reply>;

/// See the head of the file.
pub(super) struct Beyond<C> {
    device: Device<C>,
    router: Arc<Router>,
    scratch: Scratch,
    /// For each method the schema and class of its message.
    classes: Vec<Option<(u16, u32)>>,
    queues: HashMap<u64, Waiting>,
    decoding: HashMap<Ticket, (u64, u64)>,
    /// With the metadata that goes before the message.
    sending: HashMap<Ticket, (u64, u64, Vec<u8>)>,
    /// Connections that may go on.
    stirred: Vec<u64>,
    held: usize,
    is_on: bool,
    is_dead: bool,
    shown: Arc<Shown>,
    /// What registers said of units last.
    units: Option<usize>,
}

impl<C: Crossing + Send + Sync + 'static> Beyond<C> {
    fn new(router: Arc<Router>, options: Options, crossing: Arc<C>) -> io::Result<Beyond<C>> {
        let (mut lives, mut classes) = (Vec::<Arc<Live>>::new(), Vec::new());
        for request in router.requests() {
            classes.push(request.map(|request| {
                let table = request.types().table();
                let known = lives.iter().position(|live| live.layout_hash() == table.layout_hash());
                let schema = known.unwrap_or_else(|| {
                    lives.push(Arc::new(Live::new(table.clone())));
                    lives.len() - 1
                });
                (schema as u16, request.class())
            }));
        }
        if lives.is_empty() {
            let why = "no method of this server takes a message that an accelerator could decode";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let options = Options { eventfd: true, ..options };
        let accelerator = match options.threads {
            0 => Accelerator::in_this_thread(lives, options, crossing)?,
            _ => Accelerator::start_over(lives, options, crossing)?,
        };
        let device = Device::new(accelerator, router.kernels.clone());
        Ok(Beyond {
            shown: Arc::new(device.shown()),
            device,
            scratch: router.scratch(),
            router,
            classes,
            queues: HashMap::new(),
            decoding: HashMap::new(),
            sending: HashMap::new(),
            stirred: Vec::new(),
            held: 0,
            is_on: true,
            is_dead: false,
            units: None,
        })
    }

    /// Takes what lanes have done.
    fn take_responses(&mut self) {
        let dead = !self.is_dead && self.device.accelerator.is_dead();
        while let Some((ticket, message)) = self.device.accelerator.poll() {
            let Some((connection, number)) = self.decoding.remove(&ticket) else { continue };
            self.trace(connection, number, "decode");
            self.set(connection, number, Stage::Decoded(message));
        }
        while let Some((ticket, sent)) = self.device.accelerator.poll_sent() {
            let Some((connection, number, metadata)) = self.sending.remove(&ticket) else { continue };
            self.trace(connection, number, "serialise");
            let Some(queue) = self.queues.get(&connection) else { continue };
            let call = queue.head(number).frame().header.call;
            let reply = match sent {
                Ok(frame) => headed(frame, call, &metadata),
                Err(error) => failure(call, 0, &unwritable(&error)),
            };
            self.set(connection, number, Stage::Done(reply));
        }
        if dead {
            self.end();
        }
    }

    /// Lanes are done with something of a request.
    fn trace(&self, connection: u64, number: u64, name: &'static str) {
        let traced = self.queues.get(&connection).and_then(|queue| queue.head(number).traced.as_ref());
        if let Some(traced) = traced {
            traced.end(name);
        }
    }

    /// A request of a connection that is still there gets to another stage.
    fn set(&mut self, connection: u64, number: u64, stage: Stage<Result<Placed, DecodeError>, Reply>) {
        if let Some(queue) = self.queues.get_mut(&connection) {
            queue.set(number, stage);
            self.stirred.push(connection);
        }
    }

    /// The lanes are gone.
    #[cold]
    fn end(&mut self) {
        self.is_dead = true;
        self.shown.is_dead.store(true, Ordering::Relaxed);
        self.decoding.clear();
        self.sending.clear();
        let status = Status::new(Code::Internal, "the server's accelerator has died");
        for (&connection, queue) in &mut self.queues {
            queue.fail(|request| failure(request.frame().header.call, 0, &status));
            self.stirred.push(connection);
        }
    }

    /// Handles what can be handled of a connection, at most `most`: how many that were.
    fn handle(&mut self, connection: u64, most: usize, now: Nanos) -> usize {
        let Some(mut queue) = self.queues.remove(&connection) else { return 0 };
        let mut done = 0;
        self.send_again(connection, &mut queue);
        while done < most
            && let Some((number, stage)) = queue.next()
        {
            done += 1;
            let Beyond { router, scratch, device, .. } = self;
            let request = queue.head(number);
            let (frame, origin) = (request.frame(), request.origin);
            let stage = match stage {
                Stage::Decoded(message) => {
                    match router.execute_placed(scratch, &frame, message, device, origin, now) {
                        Ok(reply) => self.send(connection, number, frame.header.call, reply),
                        Err(failure) => Stage::Done(failure),
                    }
                }
                _ => match router.execute(scratch, &frame, origin, now) {
                    Executed::Reply(head, body) => Stage::Done([&head[..], body].concat()),
                    Executed::Deferred => Stage::Deferred,
                },
            };
            put(&mut queue, number, stage);
        }
        self.queues.insert(connection, queue);
        done
    }

    /// Offers replies again that there was no room for.
    fn send_again(&mut self, connection: u64, queue: &mut Waiting) {
        while self.device.accelerator.has_room()
            && let Some((number, reply)) = queue.unsent()
        {
            let call = queue.head(number).frame().header.call;
            let stage = self.send(connection, number, call, reply);
            put(queue, number, stage);
        }
    }

    /// Has a reply serialised.
    fn send(
        &mut self,
        connection: u64,
        number: u64,
        call: u32,
        (message, metadata): Reply,
    ) -> Stage<Result<Placed, DecodeError>, Reply> {
        let (strategy, headroom) = (self.device.strategy, HEADER + metadata.len());
        match self.device.accelerator.submit_send(message, strategy, headroom) {
            Ok(ticket) => {
                self.sending.insert(ticket, (connection, number, metadata));
                Stage::Sending
            }
            Err((SendRefused::Busy, message)) => {
                self.stirred.push(connection);
                Stage::Unsent((*message, metadata))
            }
            Err((SendRefused::Encode(error), _)) => Stage::Done(failure(call, 0, &unwritable(&error))),
        }
    }

    /// Hands over the replies at the front of a connection's queue.
    fn leave(&mut self, connection: u64, each: &mut dyn FnMut(u64, &[u8])) -> usize {
        let Some(queue) = self.queues.get_mut(&connection) else { return 0 };
        let mut left = 0;
        while let Some((request, reply)) = queue.leave() {
            left += 1;
            self.held -= request.bytes;
            if let Some(frame) = reply {
                each(connection, &frame);
            }
        }
        if queue.is_empty() {
            self.queues.remove(&connection);
        }
        left
    }
}

/// A serialised message with its frame's header and metadata in the room before it.
fn headed(mut frame: Vec<u8>, call: u32, metadata: &[u8]) -> Vec<u8> {
    let room = HEADER + metadata.len();
    if frame.len() - room > MAX_MESSAGE {
        return failure(call, 0, &too_long(frame.len() - room));
    }
    let header = Header { flags: END, metadata: metadata.len() as u32, ..Header::new(Kind::Reply, call) };
    frame[..HEADER].copy_from_slice(&header.emit());
    frame[HEADER..room].copy_from_slice(metadata);
    frame
}

impl<C: Crossing + Send + Sync + 'static> Executor for Beyond<C> {
    fn takes(&self) -> bool {
        self.is_on && !self.is_dead
    }

    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full> {
        let frame = Frame::parse(request).expect("the server parsed it");
        let class = self.classes.get(usize::from(frame.header.method)).copied().flatten();
        let has_room = class.is_none() || self.device.accelerator.has_room();
        let bytes = request.len().max(CHUNK);
        if !has_room || self.held > 0 && self.held + bytes > HELD {
            return Err(Full);
        }
        let ticket = match class {
            Some((schema, class)) => {
                let accelerator = &mut self.device.accelerator;
                Some(accelerator.submit_of(schema, class, frame.body.to_vec()).map_err(|_| Full)?)
            }
            None => None,
        };
        let kept = if ticket.is_some() { &request[..HEADER + frame.metadata.len()] } else { request };
        let traced = ticket.and_then(|_| Traced::of(&self.router, &frame));
        let kept = Request { frame: kept.to_vec(), origin, bytes, traced };
        self.held += bytes;
        let queue = self.queues.entry(origin.connection).or_default();
        let number = queue.put(kept, if ticket.is_some() { Stage::Decoding } else { Stage::Whole });
        match ticket {
            Some(ticket) => _ = self.decoding.insert(ticket, (origin.connection, number)),
            None => self.stirred.push(origin.connection),
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.queues.values().map(Queue::len).sum()
    }

    fn flush(&mut self) {}

    fn collect(&mut self, now: Nanos, each: &mut dyn FnMut(u64, &[u8])) -> usize {
        let accelerator = &self.device.accelerator;
        let is_idle = self.queues.is_empty() && accelerator.in_flight() == 0;
        if is_idle && (self.is_dead || !accelerator.is_dead()) {
            return 0;
        }
        self.take_responses();
        let mut stirred = mem::take(&mut self.stirred);
        stirred.sort_unstable();
        stirred.dedup();
        let (mut handled, mut left) = (0, 0);
        for &connection in &stirred {
            let done = self.handle(connection, MOST - handled, now);
            handled += done;
            if handled == MOST {
                self.stirred.push(connection);
            }
            left += self.leave(connection, each);
        }
        handled + left
    }

    fn arm(&mut self) -> bool {
        // The dead always have something to tell, and told it.
        (self.device.accelerator.arm() || self.is_dead) && self.stirred.is_empty()
    }

    fn disarm(&mut self) {
        self.device.accelerator.disarm();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.device.accelerator.descriptor());
    }

    fn closed(&mut self, connection: u64) {
        // What lanes still have of it finds no queue when it is done.
        if let Some(queue) = self.queues.remove(&connection) {
            self.held -= queue.heads().map(|request| request.bytes).sum::<usize>();
        }
    }

    fn follow(&mut self, registers: &Registers) {
        self.is_on = registers.is_on(Id::AccOn);
        self.shown.is_on.store(self.is_on, Ordering::Relaxed);
        let device = &mut self.device;
        let lanes = device.accelerator.registers();
        lanes.lanes.store(registers.size(Id::AccLanes), Ordering::Relaxed);
        lanes.set_writes([Writes::OneShot, Writes::FieldByField][registers.size(Id::AccWrites)]);
        device.strategy = Strategy::ALL[registers.size(Id::AccSerialise)];
        let follow = registers.is_on(Id::AccFollow);
        device.accelerator.lives().iter().for_each(|live| live.follow_moves(follow));
        let units = registers.size(Id::AccUnits);
        // Only when the register changes: units may be given and taken by hand, too.
        if self.units.replace(units) != Some(units) {
            device.set_units(units);
        }
    }
}

impl<C: Crossing + Send + Sync + 'static> Beside for Beyond<C> {
    fn shown(&self) -> &Arc<Shown> {
        &self.shown
    }

    fn set_unit(&mut self, kernel: &str, there: bool) -> Result<(), UnitError> {
        self.device.set_unit(kernel, there)
    }

    fn live(&self, layout_hash: u64) -> Option<&Arc<Live>> {
        self.device.accelerator.lives().iter().find(|live| live.layout_hash() == layout_hash)
    }
}

/// The accelerator that registers ask for.
pub(super) fn of_registers(router: &Arc<Router>, registers: &Registers) -> io::Result<Box<dyn Beside>> {
    let options = Options {
        threads: registers.size(Id::AccThreads),
        lanes: registers.size(Id::AccLanes),
        acc_bytes: registers.size(Id::AccMemory),
        limits: router.limits(),
        ..Options::default()
    };
    Ok(Box::new(Beyond::new(Arc::clone(router), options, Arc::new(Shared::default()))?))
}

impl Core {
    pub(super) fn put_accelerator(&mut self, accelerator: Box<dyn Beside>) {
        if let Some(watched) = &self.watched {
            watched.show_accelerator(accelerator.shown());
        }
        let places = self.places.get_or_insert_default();
        places.accelerator = Some(accelerator);
        self.elsewhere = places.takes();
    }

    /// Tells a monitor of it that came later.
    pub(super) fn show_accelerator(&self) {
        let accelerator = self.places.as_ref().and_then(|places| places.accelerator.as_ref());
        if let (Some(watched), Some(accelerator)) = (&self.watched, accelerator) {
            watched.show_accelerator(accelerator.shown());
        }
    }
}

impl Server {
    /// Gives handlers these kernels, for [`Context::run`](crate::service::Context::run).
    ///
    /// # Panics
    /// If [`Server::router`] was given to others, or the server has an accelerator already.
    #[must_use]
    pub fn kernels(mut self, kernels: Kernels) -> Server {
        let router =
            Arc::get_mut(&mut self.core.router).expect("kernels are given before workers or an accelerator");
        router.kernels = kernels;
        self
    }

    /// Puts an accelerator between links and handlers, with ordinary memory for its own. Services and kernels are added before.
    /// [`Options::limits`] are those of this server's requests; without threads (0) the server's polls drive the lanes. It is on, unless the
    /// server follows registers: then `acc.on` and `acc.units` say what is on and which kernels have units.
    ///
    /// # Errors
    /// The system's, when memory or a thread cannot be had; no method takes a message that it could decode.
    pub fn accelerator(self, options: Options) -> io::Result<Server> {
        self.accelerator_over(options, Arc::new(Shared::default()))
    }

    /// The same; what crosses between the memories goes through `crossing`.
    ///
    /// # Errors
    /// As [`Server::accelerator`].
    pub fn accelerator_over<C: Crossing + Send + Sync + 'static>(
        mut self,
        options: Options,
        crossing: Arc<C>,
    ) -> io::Result<Server> {
        let options = Options { limits: self.core.options.request, ..options };
        let beyond = Beyond::new(self.router(), options, crossing)?;
        self.core.put_accelerator(Box::new(beyond));
        Ok(self)
    }

    /// What the accelerator does, if there is one.
    pub fn accelerator_figures(&self) -> Option<AcceleratorFigures> {
        Some(self.core.places.as_ref()?.accelerator.as_ref()?.shown().figures())
    }

    /// Gives the kernel of that name a compute unit, or takes it away: from the next request on it is asked, or the host does its work.
    ///
    /// # Errors
    /// [`UnitError`].
    pub fn set_unit(&mut self, kernel: &str, there: bool) -> Result<(), UnitError> {
        let places = self.core.places.as_mut();
        let accelerator = places.and_then(|places| places.accelerator.as_mut());
        accelerator.ok_or(UnitError::NoAccelerator)?.set_unit(kernel, there)
    }

    /// The table that says where the accelerator puts fields of messages of `M`'s schema, if it decodes such.
    pub fn live_table<M: Message>(&self) -> Option<&Arc<Live>> {
        self.core.places.as_ref()?.accelerator.as_ref()?.live(M::types().table().layout_hash())
    }
}
