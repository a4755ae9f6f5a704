//! A node's or client's socket: packets that arrive are opened, what leaves is sealed, both many at a time.
//!
//! **Clients' addresses travel in packets**, so that no node has a table of clients. Whoever hears a client's request notes its address as the
//! packet's origin (*expand*); what a machine sends to a client goes to that origin, which is taken out (*shrink*). What is believed, and of
//! whom, is the [`Guard`]'s to say: it opens every packet, and seals those that leave.
//!
//! **Where nodes are** is a value here, the file's at first: homes may move ([`Book`]).
//!
//! Datagrams are received and sent in batches ([`super::datagrams`]); what is said is sent in the order in which it was said.
//!
//! Bounds: a batch of datagrams each way.

use super::book::Book;
use super::datagrams::{Arrivals, BATCH, Departures};
use protocol::coherence::guard::{Refusal, Source};
use protocol::coherence::moved::Moved;
use protocol::coherence::{Guard, NodeId};
use protocol::wire::{Message, Origin};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

/// A call has room for twice as many datagrams as came last time, and at least for so many.
const FEW: usize = 8;
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

/// See the head of the file.
#[derive(Debug)]
pub struct Wire {
    socket: UdpSocket,
    book: Book,
    guard: Guard,
    arrivals: Arrivals,
    /// How many are asked for next time.
    expected: usize,
    departures: Departures,
    /// At most so many datagrams are received, or sent, by one call.
    per_call: usize,
    traffic: Traffic,
}

impl Wire {
    /// Over `socket`, with the addresses that a file says; `guard` is of the same node or client.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: UdpSocket, book: &Book, guard: Guard) -> io::Result<Wire> {
        socket.set_nonblocking(true)?;
        // With less room more is lost under load, which costs time only.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER);
        Ok(Wire {
            socket,
            book: book.clone(),
            guard,
            arrivals: Arrivals::new(),
            expected: FEW,
            departures: Departures::default(),
            per_call: BATCH,
            traffic: Traffic::default(),
        })
    }

    /// Goes by what is news of homes that moved: from here on what leaves for one goes where it is, and what comes from where it was is a stranger's.
    pub fn learn(&mut self, moved: &Moved) {
        self.book.learn(moved);
    }

    /// Receives and sends at most so many datagrams by one call, rather than [`BATCH`]: to measure what batches are worth.
    ///
    /// # Panics
    /// If it is none, or more than [`BATCH`].
    pub fn set_per_call(&mut self, per_call: usize) {
        assert!((1..=BATCH).contains(&per_call), "a call takes from 1 to {BATCH} datagrams");
        self.per_call = per_call;
    }

    /// Receives what waits, a call at a time, after `taken` of this batch: how many datagrams, and whether more may wait. None of them is taken yet.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&mut self, taken: usize) -> io::Result<(usize, bool)> {
        let room = self.expected.min(self.per_call).min(BATCH - taken);
        if room == 0 {
            return Ok((0, false));
        }
        match self.arrivals.receive(&self.socket, room) {
            Ok(count) => Ok((count, count == room)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Ok((0, false)),
                // What an earlier datagram met on its way.
                ErrorKind::Interrupted | ErrorKind::ConnectionRefused => Ok((0, true)),
                _ => Err(error),
            },
        }
    }

    /// A batch is over, in which so many came.
    pub fn received(&mut self, taken: usize) {
        self.expected = (2 * taken).clamp(FEW, BATCH);
    }

    /// The `at`-th datagram of those that were received last, and who sent it; what is not heard is counted. A stranger who asked for what he
    /// may not have is told so.
    pub fn open(&mut self, at: usize) -> Option<(NodeId, Message)> {
        self.traffic.received += 1;
        let (from, bytes) = self.arrivals.datagram(at);
        let Some(from) = from else {
            self.traffic.malformed += 1;
            return None;
        };
        let source = Source { node: self.book.node_at(from), origin: Origin::new(from) };
        match self.guard.open(bytes, source) {
            Ok(heard) => return Some(heard),
            Err(Refusal::Malformed(_)) => self.traffic.malformed += 1,
            Err(Refusal::Stranger) => self.traffic.strangers += 1,
            Err(Refusal::Unproven) => self.traffic.unproven += 1,
            Err(Refusal::Repeated) => self.traffic.repeated += 1,
            Err(Refusal::Answered(reply)) => {
                self.traffic.unproven += 1;
                self.depart(NodeId::Client(reply.header.client), *reply, false);
            }
        }
        None
    }

    /// A packet is to leave; `is_plain`: without a seal.
    pub fn depart(&mut self, to: NodeId, mut message: Message, is_plain: bool) {
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
    }

    /// Whether what leaves should be sent before more is added.
    pub fn is_full(&self) -> bool {
        self.departures.is_full()
    }

    /// Whether as much leaves as one call sends.
    pub fn has_a_call(&self) -> bool {
        self.departures.len() >= self.per_call
    }

    /// Sends what leaves.
    pub fn send(&mut self) {
        let (all, sent) = (self.departures.len(), self.departures.send(&self.socket));
        self.traffic.sent += sent as u64;
        self.traffic.unsent += (all - sent) as u64;
    }

    /// What went through the socket.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl AsFd for Wire {
    /// Readable when datagrams wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
