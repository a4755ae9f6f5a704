//! A machine at a UDP socket: one thread, one socket, one loop.
//!
//! ```text
//!   wait: the socket, or the machine's deadline ──▶ up to BATCH datagrams: parse, handle ──▶ tick ──▶ send ──▶ again
//! ```
//!
//! **Clients' addresses travel in packets**, so that no node has a table of clients. Whoever hears a client's request notes its address as the
//! packet's origin (*expand*); what a machine sends to a client goes to that origin, which is taken out (*shrink*). What is believed, and of
//! whom, is the [`Guard`]'s to say: it opens every packet, and seals those that leave.
//!
//! Datagrams are received and sent in batches ([`super::datagrams`]); what a machine says is sent in the order in which it was said.
//!
//! A datagram that is lost, or that the system does not take, is the machines' business: they send again.
//!
//! Bounds: a batch of datagrams each way, and what machine and kernel keep.
//! Errors: what makes no sense is counted and dropped; a socket that fails ends the loop.

use super::book::Book;
use super::datagrams::{Arrivals, BATCH, Departures};
use super::machine::{Counters, Machine};
use super::padding::Padding;
use super::times::{Outcome, Times};
use base::steady::Steady;
use base::{Clock, Nanos};
use protocol::coherence::guard::{Refusal, Source};
use protocol::coherence::{Guard, NodeId, Out};
use protocol::wire::{Message, Origin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A call has room for twice as many datagrams as came last time, and at least for so many.
const FEW: usize = 8;
/// Whoever is told to stop notices within this.
pub const NOTICE: Nanos = Nanos::from_millis(20);
/// What is asked of the kernel for datagrams that wait; it gives what it may.
const SOCKET_BUFFER: usize = 2 << 20;

/// What went through the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams.
    pub received: u64,
    /// Of these, those that are no packets.
    pub malformed: u64,
    /// Of these, packets from addresses that have no business to send them.
    pub strangers: u64,
    /// Of these, packets whose sender has not proven that he may say such a thing: he has no key, or another.
    pub unproven: u64,
    /// Of these, packets that were heard before, or are so old that they may have been.
    pub repeated: u64,
    /// Datagrams.
    pub sent: u64,
    /// Packets that the system did not take, or whose receiver has no address.
    pub unsent: u64,
}

impl Traffic {
    /// All, with their names.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("received", self.received),
            ("malformed", self.malformed),
            ("strangers", self.strangers),
            ("unproven", self.unproven),
            ("heard before", self.repeated),
            ("sent", self.sent),
            ("unsent", self.unsent),
        ]
    }
}

/// The machine and its socket.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    socket: UdpSocket,
    book: Arc<Book>,
    guard: Guard,
    clock: Clock,
    out: Out,
    arrivals: Arrivals,
    /// How many are asked for next time.
    expected: usize,
    departures: Departures,
    /// At most so many datagrams are received, or sent, by one call.
    per_call: usize,
    traffic: Traffic,
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
    pub fn new(machine: M, socket: UdpSocket, book: Arc<Book>, guard: Guard) -> io::Result<Driver<M>> {
        socket.set_nonblocking(true)?;
        // With less room more is lost under load, which costs time only.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER);
        Ok(Driver {
            machine,
            socket,
            book,
            guard,
            clock: Clock::shared(),
            out: Vec::new(),
            arrivals: Arrivals::new(),
            expected: FEW,
            departures: Departures::default(),
            per_call: BATCH,
            traffic: Traffic::default(),
            times: Times::new(),
            served: Vec::new(),
            padding: None,
        })
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
    pub fn with_per_call(self, per_call: usize) -> Driver<M> {
        assert!((1..=BATCH).contains(&per_call), "a call takes from 1 to {BATCH} datagrams");
        Driver { per_call, ..self }
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
        let mut taken = 0;
        while taken < BATCH {
            let room = self.expected.min(self.per_call).min(BATCH - taken);
            match self.arrivals.receive(&self.socket, room) {
                Ok(count) => {
                    let read = self.clock.now();
                    (0..count).for_each(|at| self.take(at, read));
                    taken += count;
                    if count < room {
                        break;
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    // What an earlier datagram met on its way.
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused => taken += 1,
                    _ => return Err(error),
                },
            }
        }
        self.expected = (2 * taken).clamp(FEW, BATCH);
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
        let mut steady = Steady::new(self.clock);
        // Nothing else is read after the flag is seen, so no order is needed.
        while !stop.load(Ordering::Relaxed) {
            self.wait(NOTICE)?;
            // Before a lease is relied on: while it waited the machine may have slept.
            steady.check().map_err(io::Error::other)?;
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
        self.traffic
    }

    /// How long datagrams took.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// The machine's counts and the socket's.
    pub fn counters(&self) -> Counters {
        let mut counters = self.machine.counters();
        counters.extend(self.traffic.named());
        counters
    }

    fn wait(&self, longest: Nanos) -> io::Result<()> {
        let span = self.patience().min(longest);
        let timeout =
            Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as _ };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The `at`-th datagram that arrived, `read` from the socket then.
    fn take(&mut self, at: usize, read: Nanos) {
        self.traffic.received += 1;
        let (from, bytes) = self.arrivals.datagram(at);
        let Some(from) = from else {
            self.traffic.malformed += 1;
            return;
        };
        let source = Source { node: self.book.node_at(from), origin: Origin::new(from) };
        let (sender, message) = match self.guard.open(bytes, source) {
            Ok(heard) => heard,
            Err(refusal) => return self.refuse(refusal),
        };
        if let Some(padding) = &mut self.padding {
            padding.hear(&message);
        }
        let outcome = self.hear(|machine, now, out| {
            machine.handle(now, sender, &message, out);
            Outcome::of(&message, out)
        });
        self.served.push((outcome, read));
        if self.departures.len() >= self.per_call {
            self.send();
        }
    }

    /// Does something with the machine at this moment; what it says is to be sent.
    fn hear<R>(&mut self, act: impl FnOnce(&mut M, Nanos, &mut Out) -> R) -> R {
        let result = act(&mut self.machine, self.clock.now(), &mut self.out);
        let mut out = std::mem::take(&mut self.out);
        for (to, message) in out.drain(..) {
            self.depart(to, message);
        }
        self.out = out;
        result
    }

    /// Counts what is not heard. A stranger who asked for what he may not have is told so.
    fn refuse(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::Malformed(_) => self.traffic.malformed += 1,
            Refusal::Stranger => self.traffic.strangers += 1,
            Refusal::Unproven => self.traffic.unproven += 1,
            Refusal::Repeated => self.traffic.repeated += 1,
            Refusal::Answered(reply) => {
                self.traffic.unproven += 1;
                self.depart(NodeId::Client(reply.header.client), *reply);
            }
        }
    }

    fn depart(&mut self, to: NodeId, mut message: Message) {
        let is_plain = self.padding.as_mut().is_some_and(|padding| padding.pad(to, &mut message));
        let origin = message.header.origin;
        let address = match to {
            NodeId::Client(_) => message.header.origin.take().map(Origin::socket_addr),
            node => self.book.address_of(node),
        };
        let Some(address) = address else {
            self.traffic.unsent += 1;
            return;
        };
        let (guard, room) = (&mut self.guard, origin.map_or(0, |origin| origin.room));
        self.departures.push(address, |bytes| match is_plain {
            true => message.emit(bytes),
            false => guard.emit(to, room, &mut message, bytes),
        });
        if self.departures.is_full() {
            self.send();
        }
    }

    fn send(&mut self) {
        let (all, sent) = (self.departures.len(), self.departures.send(&self.socket));
        self.traffic.sent += sent as u64;
        self.traffic.unsent += (all - sent) as u64;
        let now = self.clock.now();
        for (outcome, read) in self.served.drain(..) {
            self.times.note(outcome, now.since(read));
        }
    }
}

impl<M> AsFd for Driver<M> {
    /// Readable when datagrams wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
