//! A machine at a UDP socket: one thread, one socket, one loop.
//!
//! ```text
//!   wait: the socket, the machine's bell or deadline ──▶ up to BATCH datagrams: parse, handle ──▶ tick ──▶ send ──▶ again
//! ```
//!
//! What travels, and whose word is believed: [`super::wire`]. Where homes are that moved the machine hears ([`Machine::moved`]); the wire goes by it before
//! anything is sent that the machine said then or later.
//!
//! A datagram that is lost, or that the system does not take, is the machines' business: they send again.
//!
//! Bounds: a batch of datagrams each way, and what machine and kernel keep.
//! Errors: what makes no sense is counted and dropped; a socket that fails ends the loop.

use super::book::Book;
use super::datagrams::BATCH;
use super::machine::{Counters, Machine};
use super::padding::Padding;
use super::times::{Outcome, Times};
use super::wire::{Traffic, Wire};
use base::steady::Steady;
use base::{Clock, Nanos};
use protocol::coherence::moved::Moved;
use protocol::coherence::{Guard, NodeId, Out};
use protocol::wire::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whoever is told to stop notices within this.
pub const NOTICE: Nanos = Nanos::from_millis(20);
/// The machine and its socket.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    wire: Wire,
    /// What the machine said last of homes that moved; the wire goes by it.
    moved: Arc<Moved>,
    clock: Clock,
    steady: Steady,
    out: Out,
    times: Times,
    /// What was read, and when, and is not timed yet: what it caused is not sent.
    served: Vec<(Outcome, Nanos)>,
    /// A client's.
    padding: Option<Padding>,
}

impl<M: Machine> Driver<M> {
    /// Puts the machine at the socket; `guard` is of the same node or client.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(machine: M, socket: UdpSocket, book: &Book, guard: Guard) -> io::Result<Driver<M>> {
        let wire = Wire::new(socket, book, guard)?;
        Ok(Driver {
            machine,
            wire,
            moved: Arc::default(),
            clock: Clock::shared(),
            steady: Steady::new(Clock::shared()),
            out: Vec::new(),
            times: Times::new(),
            served: Vec::new(),
            padding: None,
        })
    }

    /// The same, of a machine that was told its first moment after `steady` was made: its clock is held against the system's since then.
    #[must_use]
    pub fn steady_since(self, steady: Steady) -> Driver<M> {
        Driver { steady, ..self }
    }

    /// The same, of a client that pads its requests.
    #[must_use]
    pub fn with_padding(self, padding: Padding) -> Driver<M> {
        Driver { padding: Some(padding), ..self }
    }

    /// Receives and sends at most so many datagrams by one call, rather than [`BATCH`]: to measure what batches are worth.
    ///
    /// # Panics
    /// If it is none, or more than [`BATCH`].
    #[must_use]
    pub fn with_per_call(mut self, per_call: usize) -> Driver<M> {
        self.wire.set_per_call(per_call);
        self
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Does something with the machine at this moment, and sends what it says.
    pub fn act<R>(&mut self, act: impl FnOnce(&mut M, Nanos, &mut Out) -> R) -> R {
        let result = self.hear(act);
        self.send();
        result
    }

    /// Waits for datagrams or the machine's deadline, at most for `longest`, and serves what there is.
    ///
    /// # Errors
    /// The socket failed.
    pub fn turn(&mut self, longest: Nanos) -> io::Result<()> {
        self.wait(longest)?;
        self.serve()
    }

    /// Serves what came and what is due, without waiting: for whoever waits for other things, too.
    ///
    /// # Errors
    /// The socket failed.
    pub fn serve(&mut self) -> io::Result<()> {
        let (mut taken, mut more) = (0, true);
        while more && taken < BATCH {
            let count;
            (count, more) = self.wire.receive(taken)?;
            let read = self.clock.now();
            (0..count).for_each(|at| self.take(at, read));
            taken += count.max(1);
        }
        self.wire.received(taken);
        self.act(|machine, now, out| machine.tick(now, out));
        Ok(())
    }

    /// When [`Driver::serve`] is wanted although nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        self.machine.next_deadline()
    }

    /// Takes turns until it is told to stop.
    ///
    /// # Errors
    /// The socket failed, or the clock jumped.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        self.run_with(stop, |_| {})
    }

    /// The same, and calls `each` after every turn, at least every [`NOTICE`].
    ///
    /// # Errors
    /// As [`Driver::run`].
    pub fn run_with(&mut self, stop: &AtomicBool, mut each: impl FnMut(&Driver<M>)) -> io::Result<()> {
        // Nothing else is read after the flag is seen, so no order is needed.
        while !stop.load(Ordering::Relaxed) {
            self.wait(NOTICE)?;
            // Before a lease is relied on: while it waited the machine may have slept.
            self.steady.check().map_err(io::Error::other)?;
            self.serve()?;
            each(self);
        }
        Ok(())
    }

    /// How long until the machine wants to be served, whatever comes.
    pub fn patience(&self) -> Nanos {
        self.machine.next_deadline().since(self.clock.now())
    }

    /// What went through the socket.
    pub fn traffic(&self) -> Traffic {
        self.wire.traffic()
    }

    /// How long datagrams took.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// The machine's counts and the socket's.
    pub fn counters(&self) -> Counters {
        let mut counters = self.machine.counters();
        counters.extend(self.wire.traffic().named());
        counters
    }

    fn wait(&mut self, longest: Nanos) -> io::Result<()> {
        self.machine.arm();
        let waited = self.sleep(longest);
        self.machine.disarm();
        waited
    }

    fn sleep(&self, longest: Nanos) -> io::Result<()> {
        let span = self.patience().min(longest);
        let timeout =
            Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as _ };
        let socket = PollFd::new(&self.wire, PollFlags::IN);
        let polled = match self.machine.bell() {
            Some(bell) => poll(&mut [socket, PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&timeout)),
            None => poll(&mut [socket], Some(&timeout)),
        };
        match polled {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The `at`-th datagram that arrived, `read` from the socket then.
    fn take(&mut self, at: usize, read: Nanos) {
        let Some((sender, message)) = self.wire.open(at) else { return };
        if let Some(padding) = &mut self.padding {
            padding.hear(&message);
        }
        let outcome = self.hear(|machine, now, out| {
            machine.handle(now, sender, &message, out);
            Outcome::of(&message, out)
        });
        self.served.push((outcome, read));
        if self.wire.has_a_call() {
            self.send();
        }
    }

    /// Does something with the machine at this moment; what it says is to be sent.
    fn hear<R>(&mut self, act: impl FnOnce(&mut M, Nanos, &mut Out) -> R) -> R {
        let result = act(&mut self.machine, self.clock.now(), &mut self.out);
        self.follow();
        let mut out = std::mem::take(&mut self.out);
        for (to, message) in out.drain(..) {
            self.depart(to, message);
        }
        self.out = out;
        result
    }

    /// Has the wire go by what the machine knows of homes that moved, before anything that it says now is sent.
    fn follow(&mut self) {
        if let Some(moved) = self.machine.moved()
            && !Arc::ptr_eq(moved, &self.moved)
        {
            self.moved = Arc::clone(moved);
            self.wire.learn(&self.moved);
        }
    }

    fn depart(&mut self, to: NodeId, mut message: Message) {
        let is_plain = self.padding.as_mut().is_some_and(|padding| padding.pad(to, &mut message));
        self.wire.depart(to, message, is_plain);
        if self.wire.is_full() {
            self.send();
        }
    }

    fn send(&mut self) {
        self.wire.send();
        let now = self.clock.now();
        for (outcome, read) in self.served.drain(..) {
            self.times.note(outcome, now.since(read));
        }
    }
}

impl<M> AsFd for Driver<M> {
    /// Readable when datagrams wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}
