//! The host's half of the accelerator: a thread behind a ring pair, and what may be asked of it.
//!
//! ```text
//! host thread ── request ring, doorbell ──▶ accelerator thread ── lanes ──▶ host memory (crossing), accelerator memory
//!             ◀── response ring, notify ──
//! ```
//!
//! Requests may be submitted without waiting ([`Accelerator::submit`], [`Accelerator::poll`]): the ring is the queue before
//! the lanes. The other calls wait for their own response and keep those of others for `poll`.
//!
//! Errors: if its thread has died (a bug of ours: it takes any input) the calls that wait panic and say so.

use super::executor::{Executor, Order, Request, Response};
use super::live::{FieldId, Live};
use super::message::Placed;
use super::receive::{Ground, Registers};
use super::transfer::{MoveError, Slot};
use crate::crossing::{Crossing, Shared};
use crate::decode::{DecodeError, Limits};
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
    /// The core that its thread is pinned to, if the process may use it.
    pub core: Option<usize>,
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
            core: None,
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

/// An accelerator: a thread with lanes and a memory of its own.
pub struct Accelerator<C = Shared> {
    client: Client<Request, Response>,
    received: VecDeque<(Ticket, Result<Placed, DecodeError>)>,
    /// Responses to the calls that wait.
    answered: VecDeque<(ring::Tag, Response)>,
    stop: Arc<AtomicBool>,
    ground: Arc<Ground<C>>,
    sleeper: Sleeper,
    theirs: Waker,
    wait: WaitPolicy,
    thread: Option<JoinHandle<()>>,
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
        let Options { lanes, requests, limits, host, acc_bytes, wait, core } = options;
        let acc = Memory::acc(acc_bytes)?;
        let registers = Arc::new(Registers::default());
        let ground = Arc::new(Ground { crossing, live, host, acc, limits, registers });
        let (client, server) = ring::pair::pair(requests.max(2).next_power_of_two());
        let (sleeper, ours) = waiting();
        let (mut their_sleeper, theirs) = waiting();
        let stop = Arc::new(AtomicBool::new(false));
        let (inside, stopped) = (Arc::clone(&ground), Arc::clone(&stop));
        let work = move || {
            // Wakes the host when the thread ends, however it ends, so that nobody waits for the dead.
            let ours = WakeAtEnd(ours);
            if let Some(core) = core {
                // Pinning is a wish; a core that is not ours to use is no reason to fail.
                let _ = base::cpu::pin_to(core);
            }
            let mut executor = Executor::new(server, inside, lanes);
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
        let thread = std::thread::Builder::new().name("millrace-acc".into()).spawn(work)?;
        let (received, answered) = (VecDeque::new(), VecDeque::new());
        Ok(Accelerator {
            client,
            received,
            answered,
            stop,
            ground,
            sleeper,
            theirs,
            wait,
            thread: Some(thread),
        })
    }

    /// What has crossed so far.
    pub fn crossing(&self) -> &C {
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
        match self.send(Request::Receive { class, wire }) {
            Ok(tag) => Ok(Ticket(tag)),
            Err(Request::Receive { wire, .. }) => Err(Busy(wire)),
            Err(_) => unreachable!("what was sent comes back"),
        }
    }

    /// A message that was submitted and is decoded now, if there is one, in any order.
    pub fn poll(&mut self) -> Option<(Ticket, Result<Placed, DecodeError>)> {
        if self.received.is_empty() {
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

    /// RPCAcc Table III, `moveToAcc` and `moveToCPU`: moves the field at the end of `path` (see [`Placed::place_of`]), if it
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
        if message.place_of(path) == Some(to) {
            return Ok(false);
        }
        let entry = message.table.entries(message.table.message(field.class))[field.entry as usize];
        // SAFETY: `follow` gave an object of this field's class.
        let slot = unsafe { Slot::read(object, &entry) };
        let order = Order { table: Arc::clone(&message.table), entry, slot, to };
        // The message is borrowed until the response is here, so what the slot refers to stays.
        let (slot, arena) = match self.call(Request::Move(order)) {
            Response::Moved(moved) => moved?,
            Response::Received(_) => unreachable!("a move is answered as one"),
        };
        // SAFETY: as above; only this thread has the message.
        unsafe { slot.write(object, &entry) };
        message.moved.push(arena);
        self.ground.live.moved(message.class, field, to);
        Ok(true)
    }

    /// Sends a request and waits for its response.
    fn call(&mut self, mut request: Request) -> Response {
        let tag = loop {
            match self.send(request) {
                Ok(tag) => break tag,
                Err(back) => request = back,
            }
            self.wait_for(Accelerator::room);
        };
        let at = self.wait_for(|this| this.answered.iter().position(|&(done, _)| done == tag));
        self.answered.remove(at).expect("it was just seen there").1
    }

    fn send(&mut self, request: Request) -> Result<ring::Tag, Request> {
        let tag = self.client.try_send(request).map_err(|ring::Full(back)| back)?;
        self.client.flush();
        self.ground.crossing.doorbell(ENTRY);
        self.theirs.wake();
        Ok(tag)
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
            self.collect();
            if let Some(found) = find(self) {
                return found;
            }
            assert!(!self.client.is_abandoned(), "the accelerator's thread has died");
            let client = &mut self.client;
            self.sleeper.wait_until(self.wait, None, || client.is_ready() || client.is_abandoned());
        }
    }
}

impl<C> Drop for Accelerator<C> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.theirs.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was told to whoever waited.
            let _ = thread.join();
        }
    }
}

struct WakeAtEnd(Waker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}
