//! The host's half of the accelerator: what may be asked of it, over a ring pair.
//!
//! ```text
//! host thread ── request ring, doorbell ──▶ accelerator thread ── lanes ──▶ host memory (crossing), accelerator memory
//!             ◀── response ring, notify ──
//! ```
//!
//! Requests may be submitted without waiting ([`Accelerator::submit`], [`Accelerator::poll`]): the ring is the queue before
//! the lanes. The other calls wait for their own response and keep those of others for `poll`.
//!
//! Without a thread ([`Accelerator::in_this_thread`]) the calls that wait, and `poll`, do its work in turns: everything happens
//! in an order that the program decides.
//!
//! Errors: if its thread has died (a bug of ours: it takes any input) the calls that wait panic and say so.

use super::executor::{Executor, Order, Packet, Request, Response};
use super::live::{FieldId, Live};
use super::message::Placed;
use super::receive::{Ground, Registers};
use super::transfer::{MoveError, Slot};
use crate::copy::Inline;
use crate::crossing::{Crossing, Shared};
use crate::decode::{DecodeError, Limits};
use crate::encode::{Bell, EncodeError, Host, Settings, Strategy};
use crate::memory::{Memory, OutOfMemory, Place};
use ring::Client;
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How an accelerator is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Deserialiser lanes (RPCAcc III-B: four).
    pub lanes: usize,
    /// Requests under way, a power of two.
    pub requests: u32,
    /// Limits of each message.
    pub limits: Limits,
    /// Host memory that decoded messages take chunks from.
    pub host: Arc<Memory>,
    /// Bytes of the accelerator's own memory.
    pub acc_bytes: usize,
    /// How both sides wait for the other.
    pub wait: WaitPolicy,
    /// Of the host's part of serialising.
    pub serialise: Arc<Settings>,
    /// The core that its thread is pinned to, if the process may use it.
    pub core: Option<usize>,
    #[cfg(test)]
    pub(super) planted: Option<super::tests::Planted>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            lanes: 4,
            requests: 64,
            limits: Limits::default(),
            host: Arc::clone(Memory::process()),
            acc_bytes: if cfg!(miri) { 4 << 20 } else { 1 << 30 },
            wait: WaitPolicy::default(),
            serialise: Arc::new(Settings::default()),
            core: None,
            #[cfg(test)]
            planted: None,
        }
    }
}

/// The name of a submitted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(ring::Tag);

/// As many messages are under way as the ring has room for.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy(pub Vec<u8>);

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the accelerator has no room for another message: take received ones first")
    }
}

/// An accelerator: lanes with a memory of their own.
pub struct Accelerator<C = Shared> {
    client: Client<Request, Response>,
    received: VecDeque<(Ticket, Result<Placed, DecodeError>)>,
    /// Responses to the calls that wait.
    answered: VecDeque<(ring::Tag, Response)>,
    ground: Arc<Ground<C>>,
    sender: Host,
    wait: WaitPolicy,
    sleeper: Sleeper,
    far: Far<C>,
}

/// Where the other half is.
enum Far<C> {
    Thread(Thread),
    Here(Box<Executor<C>>),
}

struct Thread {
    stop: Arc<AtomicBool>,
    waker: Waker,
    handle: Option<JoinHandle<()>>,
}

/// What an accelerator is made of, before it is decided who drives the other half.
struct Halves<C> {
    near: Near<C>,
    executor: Executor<C>,
}

struct Near<C> {
    client: Client<Request, Response>,
    ground: Arc<Ground<C>>,
    sender: Host,
}

impl<C: Crossing + Send + Sync + 'static> Halves<C> {
    fn new(live: Arc<Live>, options: &Options, crossing: Arc<C>) -> io::Result<Halves<C>> {
        let (host, limits) = (Arc::clone(&options.host), options.limits);
        // Not in the messages' memory, which is theirs alone.
        let sender = Host::new(Memory::process(), Inline, Arc::clone(&options.serialise), limits.depth)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        let acc = Memory::acc(options.acc_bytes)?;
        let registers = Arc::new(Registers::default());
        let ground = Ground {
            crossing,
            live,
            host,
            acc,
            limits,
            registers,
            #[cfg(test)]
            planted: options.planted,
        };
        let ground = Arc::new(ground);
        let (client, server) = ring::pair::pair(options.requests.max(2).next_power_of_two());
        let executor = Executor::new(server, Arc::clone(&ground), options.lanes);
        Ok(Halves { near: Near { client, ground, sender }, executor })
    }
}

/// Bytes of a request's ring entry: what to do, an address and a length.
const ENTRY: usize = 32;

impl Accelerator {
    /// Starts an accelerator that decodes with the table of `live`; its memory is ordinary memory.
    ///
    /// # Errors
    /// The system's, when memory or a thread cannot be had.
    pub fn start(live: Arc<Live>, options: Options) -> io::Result<Accelerator> {
        Accelerator::start_over(live, options, Arc::new(Shared::default()))
    }
}

impl<C: Crossing + Send + Sync + 'static> Accelerator<C> {
    /// As [`Accelerator::start`]; what crosses between the memories goes through `crossing`.
    ///
    /// # Errors
    /// As [`Accelerator::start`].
    pub fn start_over(live: Arc<Live>, options: Options, crossing: Arc<C>) -> io::Result<Accelerator<C>> {
        let (wait, core) = (options.wait, options.core);
        let (sleeper, ours) = waiting();
        let (mut their_sleeper, waker) = waiting();
        let halves = Halves::new(live, &options, crossing)?;
        let executor = halves.executor;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            // Wakes the host when the thread ends, however it ends, so that nobody waits for the dead. It is dropped after
            // the executor.
            let ours = WakeAtEnd(ours);
            let mut executor = executor;
            if let Some(core) = core {
                // Pinning is a wish; a core that is not ours to use is no reason to fail.
                let _ = base::cpu::pin_to(core);
            }
            // Relaxed: the flag guards no data, and a sleeper's wake-up has its own fences.
            while !stopped.load(Ordering::Relaxed) {
                if executor.turn() {
                    ours.0.wake();
                } else {
                    their_sleeper
                        .wait_until(wait, None, || executor.is_ready() || stopped.load(Ordering::Relaxed));
                }
            }
        };
        let handle = std::thread::Builder::new().name("millrace-acc".into()).spawn(work)?;
        let far = Far::Thread(Thread { stop, waker, handle: Some(handle) });
        Ok(Accelerator::over(halves.near, sleeper, far, wait))
    }

    /// An accelerator without a thread: [`Accelerator::poll`] and the calls that wait take its turns.
    ///
    /// # Errors
    /// As [`Accelerator::start`].
    pub fn in_this_thread(live: Arc<Live>, options: Options, crossing: Arc<C>) -> io::Result<Accelerator<C>> {
        let (sleeper, _) = waiting();
        let halves = Halves::new(live, &options, crossing)?;
        let far = Far::Here(Box::new(halves.executor));
        Ok(Accelerator::over(halves.near, sleeper, far, options.wait))
    }

    fn over(near: Near<C>, sleeper: Sleeper, far: Far<C>, wait: WaitPolicy) -> Accelerator<C> {
        let Near { client, ground, sender } = near;
        let (received, answered) = (VecDeque::new(), VecDeque::new());
        Accelerator { client, received, answered, ground, sender, wait, sleeper, far }
    }

    /// What has crossed so far.
    pub fn crossing(&self) -> &C {
        &self.ground.crossing
    }

    pub(super) fn shared_crossing(&self) -> &Arc<C> {
        &self.ground.crossing
    }

    /// The table in use.
    pub fn live(&self) -> &Arc<Live> {
        &self.ground.live
    }

    /// The accelerator's memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.ground.acc
    }

    /// What may be changed while it runs.
    pub fn registers(&self) -> &Arc<Registers> {
        &self.ground.registers
    }

    /// An empty message of `class`, to be filled on the host and sent.
    ///
    /// # Errors
    /// The host's memory is full.
    pub fn message(&self, class: u32) -> Result<Placed, OutOfMemory> {
        Placed::new(self.ground.live.table(), class, &self.ground.host, &self.ground.acc)
    }

    /// A message of `class` arrived from the network: decode it. See [`Accelerator::poll`].
    ///
    /// # Errors
    /// The ring is full; the bytes come back.
    ///
    /// # Panics
    /// If the table has no such class.
    pub fn submit(&mut self, class: u32, wire: Vec<u8>) -> Result<Ticket, Busy> {
        let classes = self.ground.live.table().classes();
        assert!(class < classes, "class {class} is not in this table");
        match self.post(Request::Receive { class, wire }) {
            Ok(tag) => {
                self.ground.crossing.doorbell(ENTRY);
                Ok(Ticket(tag))
            }
            Err(Request::Receive { wire, .. }) => Err(Busy(wire)),
            Err(_) => unreachable!("what was sent comes back"),
        }
    }

    /// A message that was submitted and is decoded now, if there is one, in any order.
    pub fn poll(&mut self) -> Option<(Ticket, Result<Placed, DecodeError>)> {
        if self.received.is_empty() {
            self.take_turn();
            self.collect();
        }
        self.received.pop_front()
    }

    /// Submits a message and waits for it.
    ///
    /// # Errors
    /// It is malformed, or a limit was met.
    ///
    /// # Panics
    /// As [`Accelerator::submit`], or if the accelerator's thread has died.
    pub fn receive(&mut self, class: u32, mut wire: Vec<u8>) -> Result<Placed, DecodeError> {
        let ticket = loop {
            match self.submit(class, wire) {
                Ok(ticket) => break ticket,
                Err(Busy(back)) => wire = back,
            }
            self.wait_for(Accelerator::room);
        };
        let at = self.wait_for(|this| this.received.iter().position(|(done, _)| *done == ticket));
        self.received.remove(at).expect("it was just seen there").1
    }

    /// RPCAcc Table III, `moveToAcc`: [`Accelerator::move_field`] to the accelerator's memory.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn move_to_acc(&mut self, message: &mut Placed, path: &[FieldId]) -> Result<bool, MoveError> {
        self.move_field(message, path, Place::Acc)
    }

    /// RPCAcc Table III, `moveToCPU`: [`Accelerator::move_field`] to the host's memory.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn move_to_cpu(&mut self, message: &mut Placed, path: &[FieldId]) -> Result<bool, MoveError> {
        self.move_field(message, path, Place::Host)
    }

    /// Moves the field at the end of `path` (see [`Placed::place_of`]), if it
    /// is not there already, and objects to where this class's field is put: see [`Live::moved`]. True if it was moved.
    ///
    /// # Errors
    /// [`MoveError`]; the message is as before.
    ///
    /// # Panics
    /// If the path does not fit the message, or if the accelerator's thread has died.
    pub fn move_field(
        &mut self,
        message: &mut Placed,
        path: &[FieldId],
        to: Place,
    ) -> Result<bool, MoveError> {
        let (object, field) = message.follow(path).ok_or(MoveError::Absent)?;
        let from = message.place_of(path);
        if from.is_none() || from == Some(to) {
            return Ok(false);
        }
        let entry = *message.entry(field);
        // SAFETY: `follow` gave an object of this field's class.
        let slot = unsafe { Slot::read(object, &entry) };
        let order = Order { table: Arc::clone(&message.table), entry, slot, to };
        // The message is borrowed until the response is here, so what the slot refers to stays.
        self.ground.crossing.doorbell(ENTRY);
        let Response::Moved(moved) = self.call(Request::Move(order)) else {
            unreachable!("a move is answered as one")
        };
        let (slot, arena) = moved?;
        // SAFETY: as above; only this thread has the message.
        unsafe { slot.write(object, &entry) };
        #[cfg(test)]
        if self.ground.planted == Some(super::tests::Planted::MovedArenaDropped) {
            return Ok(true);
        }
        message.moved.push(arena);
        self.ground.live.moved(message.class, field, to);
        Ok(true)
    }

    /// Serialises `message` with the work shared as `strategy` says; what goes to the network: `headroom` zeroed bytes for a
    /// header, then the message.
    ///
    /// # Errors
    /// As [`Host::prepare`]: with [`Strategy::CpuOnly`] no field may be in accelerator memory.
    ///
    /// # Panics
    /// If the accelerator's thread has died.
    pub fn send(
        &mut self,
        message: &Placed,
        strategy: Strategy,
        headroom: usize,
    ) -> Result<Vec<u8>, EncodeError> {
        let (table, class) = (&message.table, message.class);
        let crossing = &*self.ground.crossing;
        // SAFETY: the root of a placed message is of its class of its table.
        let bell: Bell = unsafe { self.sender.prepare(crossing, strategy, table, class, message.view(), 0)? };
        let packet = Packet { table: Arc::clone(table), bell, headroom };
        // The message is borrowed, and the sender not used again, until the response is here.
        match self.call(Request::Send(packet)) {
            Response::Sent(frame) => frame,
            _ => unreachable!("a packet is answered as one"),
        }
    }

    /// Sends a request, whose doorbell the caller counts, and waits for its response.
    fn call(&mut self, mut request: Request) -> Response {
        let tag = loop {
            match self.post(request) {
                Ok(tag) => break tag,
                Err(back) => request = back,
            }
            self.wait_for(Accelerator::room);
        };
        let at = self.wait_for(|this| this.answered.iter().position(|&(done, _)| done == tag));
        self.answered.remove(at).expect("it was just seen there").1
    }

    fn post(&mut self, request: Request) -> Result<ring::Tag, Request> {
        let tag = self.client.try_send(request).map_err(|ring::Full(back)| back)?;
        self.client.flush();
        if let Far::Thread(thread) = &self.far {
            thread.waker.wake();
        }
        Ok(tag)
    }

    /// Lets the other half work, if this thread drives it.
    fn take_turn(&mut self) {
        if let Far::Here(executor) = &mut self.far {
            executor.turn();
        }
    }

    fn room(&mut self) -> Option<()> {
        (self.client.free() > 0).then_some(())
    }

    fn collect(&mut self) {
        while let Some((tag, response)) = self.client.poll() {
            match response {
                Response::Received(message) => self.received.push_back((Ticket(tag), message)),
                other => self.answered.push_back((tag, other)),
            }
        }
    }

    fn wait_for<T>(&mut self, mut find: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            // Looked at before the ring: what a thread sent came before its end.
            let gone = self.client.is_abandoned();
            self.collect();
            if let Some(found) = find(self) {
                return found;
            }
            assert!(!gone, "the accelerator's thread has died");
            if let Far::Here(executor) = &mut self.far {
                executor.turn();
            } else {
                let client = &mut self.client;
                self.sleeper.wait_until(self.wait, None, || client.is_ready() || client.is_abandoned());
            }
        }
    }
}

impl<C> std::fmt::Debug for Accelerator<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accelerator({} requests under way, {:?})", self.client.in_flight(), self.ground.acc)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(handle) = self.handle.take() {
            // A panic was told to whoever waited.
            let _ = handle.join();
        }
    }
}

struct WakeAtEnd(Waker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}
