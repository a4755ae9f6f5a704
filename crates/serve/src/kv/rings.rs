//! The server's end of a shared-memory connection, as an edge keeps it.
//!
//! One message is one buffer with one or more complete requests; its reply, under the same tag, is one message with all replies
//! in a row, empty when none is wanted. A message that ends in the middle of a request gets a `CLIENT_ERROR`, a reply longer
//! than half the arena a `SERVER_ERROR object too large for this connection`.
//!
//! Waiting: an edge polls the connections that were active within `shm.busy_poll`, one load each, of a line that stays in its
//! cache until the client writes to it. One that stays quiet is *parked*: marked asleep, looked at once more, and left to epoll.
//! Then its client rings the socket with its next message, so many idle connections cost nothing at all.
//!
//! Why no doorbell table over all connections of an edge: clients do not trust each other, and a table that all of them can
//! write lets one hide the requests of another. Parking bounds the polling by the connections in use instead.
//!
//! Cost: a poll in vain 2.6 ns with 1 to 256 polled connections, 4.8 with 1024; parking and waking up 255 ns (2-core VM,
//! Zen 3).
//!
//! Bounds: a segment is two arenas and two rings; its pages exist once somebody writes to them, which its client may do to all
//! of them. So a segment counts in full: all together take at most `shm.memory`, beside `store.memory`.
//!
//! Invariants
//! 1. A connection with replies that did not fit is not read until they do, so a client that takes none cannot make us buffer.
//! 2. What a client sent before it died is executed; then the connection ends.
//!
//! Errors: a client that breaks the ring's protocol ([`Violation`]) loses its connection.

use super::messages::{Arrivals, Gathering, Says};
use crate::kv::registers::{Id, Registers};
use base::budget::{Budget, Share};
use protocol::memcache::Line;
use ring::Tag;
use ring::shm::{Geometry, Pages, Segment, SendError, ShmServer, Violation};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The server's end.
pub struct Rings {
    server: ShmServer,
    /// Who is owed a reply, oldest first.
    askers: VecDeque<Tag>,
    gathering: Gathering,
    unsent: VecDeque<(Tag, Vec<u8>)>,
    unsent_bytes: usize,
    /// The segment, in the budget of all.
    _segment: Share<Arc<Budget>>,
    max_message: usize,
    /// In the edge's list of connections that it polls.
    pub polled: bool,
    /// The client is gone; what it sent before may still be in the ring.
    pub gone: bool,
}

impl Rings {
    /// Makes a segment, hands it over `socket` and serves it.
    ///
    /// # Errors
    /// `OutOfMemory` where `segments` has no room for another; else the system's: no memory, no descriptors, a client that is gone already.
    pub fn hand_over(socket: OwnedFd, registers: &Registers, segments: &Arc<Budget>) -> io::Result<Rings> {
        let arena = registers.read(Id::ShmArena).next_power_of_two();
        let geometry = Geometry {
            entries: registers.size(Id::ShmEntries).next_power_of_two() as u32,
            request_arena: arena,
            response_arena: arena,
            max_message: (arena / 2) as u32,
        };
        let mut share = Share::new(segments.clone());
        if !share.resize(geometry.segment_bytes().unwrap_or(usize::MAX)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let segment = Segment::create(geometry, Pages::Base)?;
        segment.send(&socket)?;
        Ok(Rings {
            server: ShmServer::new(&segment, socket),
            askers: VecDeque::new(),
            gathering: Gathering::default(),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            _segment: share,
            max_message: geometry.max_message as usize,
            polled: false,
            gone: false,
        })
    }

    /// What a parked connection sleeps on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.server.descriptor()
    }

    /// Takes the messages that arrived, up to the bounds of `arrivals`. Returns their bytes if there was one.
    ///
    /// # Errors
    /// The client broke the protocol.
    pub fn receive(&mut self, mut arrivals: Arrivals<'_>) -> Result<Option<usize>, Violation> {
        let (mut bytes_taken, mut any) = (0, false);
        while !self.is_stuck() && arrivals.wants_more() {
            let askers = &mut self.askers;
            let got = self.server.recv(1, |tag, bytes| {
                bytes_taken += bytes.len();
                askers.push_back(tag);
                arrivals.take(bytes);
            })?;
            if got == 0 {
                break;
            }
            any = true;
        }
        Ok(any.then_some(bytes_taken))
    }

    /// Adds `pieces` to the reply of the oldest message and sends it if this `ends` it; it is on its way after
    /// [`Rings::flush`]. Returns the bytes sent.
    pub fn write(&mut self, pieces: &[&[u8]], ends: bool, buffered: &Budget) -> usize {
        let Some(reply) = self.gathering.add(pieces, ends, self.max_message) else { return 0 };
        let tag = self.askers.pop_front().expect("a reply is to a message that arrived");
        match reply {
            Says::Piece => self.send(tag, pieces[0], buffered),
            Says::TooLong => self.send(tag, Line::ReplyTooLarge.bytes(), buffered),
            Says::Gathered(bytes) => {
                let sent = self.send(tag, &bytes, buffered);
                self.gathering.reuse(bytes);
                sent
            }
        }
    }

    fn send(&mut self, tag: Tag, bytes: &[u8], buffered: &Budget) -> usize {
        // Behind others that wait it waits too, or the largest replies would wait for ever.
        let result =
            if self.unsent.is_empty() { self.server.reply(tag, bytes) } else { Err(SendError::Full) };
        match result {
            Ok(()) => bytes.len(),
            Err(SendError::Full) => {
                self.unsent_bytes += bytes.len();
                buffered.take(bytes.len());
                self.unsent.push_back((tag, bytes.to_vec()));
                0
            }
            Err(SendError::TooLarge) => panic!("{} bytes are more than a reply may have", bytes.len()),
            // The edge learns it from the next receive, or from the socket.
            Err(SendError::Gone) => 0,
        }
    }

    /// Sends what waited for room. True when nothing waits any more.
    pub fn resend(&mut self, buffered: &Budget) -> bool {
        while let Some((tag, bytes)) = self.unsent.front() {
            if self.server.reply(*tag, bytes) == Err(SendError::Full) {
                self.server.flush();
                return false;
            }
            self.unsent_bytes -= bytes.len();
            buffered.give(bytes.len());
            self.unsent.pop_front();
        }
        self.server.flush();
        true
    }

    /// Whether the reply that is being put together is longer than it may be.
    pub fn reply_is_too_long(&self) -> bool {
        self.gathering.is_too_long()
    }

    /// Sends the replies on their way.
    pub fn flush(&mut self) {
        self.server.flush();
    }

    /// Whether replies wait for room.
    pub fn is_stuck(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Bytes of replies that wait for room.
    pub fn unsent(&self) -> usize {
        self.unsent_bytes
    }

    /// Drops what waits.
    pub fn clear(&mut self, buffered: &Budget) {
        buffered.give(self.unsent_bytes);
        self.unsent.clear();
        self.unsent_bytes = 0;
    }

    /// The client is gone, and so is everything it sent.
    pub fn is_over(&mut self) -> bool {
        self.gone && (self.is_stuck() || !self.server.is_ready())
    }

    /// Leaves the connection to epoll. False when something is there already.
    pub fn park(&mut self) -> bool {
        self.server.park()
    }

    /// The socket became readable: awake again.
    pub fn unpark(&mut self) {
        self.gone |= self.server.unpark();
    }
}
