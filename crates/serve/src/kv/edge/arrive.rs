//! What arrives at an edge: connections, bytes, room for replies.

use super::home::HOME;
use super::planted::Planted;
use super::{Edge, WAKE, live, token, verbose, watch};
use crate::kv::connection::{Connection, Wire};
use crate::kv::datagrams::Datagrams;
use crate::kv::messages::Arrivals;
use crate::kv::registers::Id;
use crate::kv::rings::Rings;
use crate::kv::stream::Stream;
use crate::kv::system::System;
use crate::memcached::accept::Purpose;
use crate::memcached::socket::{Interest, ReadError, Socket};
use base::closing::Reason;
use base::tls::{Received, Session};
use base::{Bytes, Nanos};
use rustix::event::epoll;
use std::io;
use std::os::fd::OwnedFd;

impl<Y: System> Edge<Y> {
    /// Takes new connections and reads what came.
    pub(super) fn handle(&mut self, events: &[epoll::Event]) {
        for event in events {
            let token = event.data.u64();
            if token == WAKE {
                self.welcome();
                self.hear_of_late();
                self.show_all_lines();
                continue;
            }
            if token == HOME {
                self.hear_packets();
                continue;
            }
            let (id, generation) = (token as u32, (token >> 32) as u32);
            // An earlier event of this batch may have closed the connection, and another may have its place.
            let Some(Some(connection)) = self.connections.get_mut(id as usize) else { continue };
            if connection.generation != generation {
                continue;
            }
            match &connection.wire {
                Wire::Stream(stream) if stream.interest == Interest::Read => {
                    self.read(id);
                }
                // The socket says its end.
                Wire::Stream(stream) if stream.interest == Interest::Nothing => {
                    self.close_for(id, Reason::Gone)
                }
                Wire::Stream(_) => self.resume(id),
                Wire::Rings(_) => self.unpark(id),
                Wire::Datagrams(_) => self.receive(id),
            }
        }
    }

    pub(super) fn welcome(&mut self) {
        for (purpose, socket) in self.inbox.take() {
            let wire = match self.wire(purpose, socket) {
                Ok(wire) => wire,
                Err(e) => {
                    self.turn_away(purpose, &e);
                    continue;
                }
            };
            let id = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                (self.connections.len() - 1) as u32
            });
            self.generation = self.generation.wrapping_add(1);
            let max_value = self.shared.registers.size(Id::StoreMaxValue);
            let (parser, guest) = self.shared.entrance.enter(max_value, wire.descriptor());
            let mut connection = Connection::new(wire, parser, self.generation, self.now);
            connection.guest = guest;
            connection.entry = Some(self.known.enter(purpose.name(), connection.descriptor(), self.now));
            if verbose::is_on() {
                verbose::came(connection.number());
            }
            if purpose != Purpose::Datagrams {
                watch::tell(&self.watchers, &connection, None);
            }
            let watched = connection.wire.watch(&self.epoll, token(id, self.generation));
            self.connections[id as usize] = Some(connection);
            if watched.is_err() {
                self.close_for(id, Reason::Limit("the system watches no more sockets"));
            } else if purpose == Purpose::Rings {
                self.unpark(id);
            } else if purpose == Purpose::Tls {
                self.begin_handshake(id);
            }
        }
    }

    /// There is no memory or no descriptor for a connection, or its client is gone already.
    fn turn_away(&self, purpose: Purpose, error: &io::Error) {
        self.shared.net.rejected_connections.add(1);
        self.shared.net.curr_connections.sub(u64::from(purpose != Purpose::Datagrams));
        let is_full = purpose == Purpose::Rings && error.kind() == io::ErrorKind::OutOfMemory;
        if is_full && self.shared.net.shm_refusals.add_first(1) {
            let taken = Bytes(self.shared.segments.taken() as u64);
            log::warn!(
                "a shared-memory client was refused: {taken} are handed out; raise shm.memory, lower shm.arena, or use fewer clients \
                 (said once; shm_refusals counts)"
            );
        }
    }

    fn wire(&self, purpose: Purpose, socket: OwnedFd) -> io::Result<Wire> {
        let registers = &self.shared.registers;
        Ok(match purpose {
            Purpose::Stream => Wire::Stream(Stream::over(self.system.socket(socket))),
            Purpose::Tls => {
                let tls = self.shared.tls.as_ref().expect("whoever listens for TLS has a certificate");
                let session = Session::server(tls).map_err(io::Error::from)?;
                Wire::Stream(Stream::over(Socket::with_tls(socket, session)))
            }
            Purpose::Rings => {
                let rings = Rings::hand_over(socket, registers, &self.shared.segments)?;
                self.shared.net.shm_connections.add(1);
                Wire::Rings(Box::new(rings))
            }
            Purpose::Datagrams => {
                let net = self.shared.net.clone();
                Wire::Datagrams(Box::new(Datagrams::over(socket, registers.clone(), net)?))
            }
        })
    }

    /// Reads once: a short read means that the socket is empty, and epoll says when it no longer is. True if bytes came.
    pub(super) fn read(&mut self, id: u32) -> bool {
        let connection = live(&mut self.connections, id);
        if connection.runnable && !self.system.has(Planted::ReadsBeforeTurn) {
            // Its buffer still holds requests that wait for their turn; the socket can hold the rest.
            return false;
        }
        match &connection.wire {
            Wire::Stream(stream) if stream.socket.is_handshaking() => self.shake_hands(id),
            _ => self.read_socket(id),
        }
    }

    /// The same, whatever it is that comes.
    pub(super) fn read_socket(&mut self, id: u32) -> bool {
        let connection = live(&mut self.connections, id);
        let Wire::Stream(stream) = &mut connection.wire else { return false };
        let came = match stream.socket.read(&mut connection.input, &mut self.pool) {
            Ok(Received { bytes, is_end }) => {
                if bytes == 0 {
                    connection.closing = true;
                } else {
                    // With TLS the last bytes and the end may come together.
                    connection.has_said_all |= is_end;
                    connection.heard = self.now;
                    self.shared.net.reads.add(1);
                    self.shared.net.bytes_read.add(bytes as u64);
                }
                bytes > 0
            }
            Err(ReadError::Again) => false,
            Err(why) => {
                self.end_unreadable(id, &why);
                return false;
            }
        };
        self.settle(id);
        came
    }

    /// Goes on with a connection whose client has made room for replies.
    pub(super) fn resume(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        let waiting = connection.unsent();
        let result = connection.resend(&self.buffered);
        if connection.unsent() < waiting {
            connection.made_room = self.now;
        }
        match result {
            Ok(true) if self.system.has(Planted::ResumesOnly) => {}
            Ok(_) => self.settle(id),
            Err(_) => self.close_for(id, Reason::Gone),
        }
    }

    /// The socket of a shared-memory connection says something: the client rang, or is gone.
    fn unpark(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        let Wire::Rings(rings) = &mut connection.wire else { return };
        rings.unpark();
        connection.heard = self.now;
        if !std::mem::replace(&mut rings.polled, true) {
            self.polled.push(id);
        }
    }

    /// Looks at every shared-memory connection that was active lately, and leaves those that have gone quiet to epoll.
    pub(super) fn poll_rings(&mut self) {
        if self.polled.is_empty() {
            return;
        }
        let busy = Nanos::from_micros(self.shared.registers.read(Id::ShmBusyPoll));
        let mut polled = std::mem::take(&mut self.polled);
        polled.retain(|&id| self.poll_one(id, busy));
        self.polled = polled;
    }

    /// Takes what came. False when the connection was parked or closed.
    fn poll_one(&mut self, id: u32, busy: Nanos) -> bool {
        let Some(connection) = &mut self.connections[id as usize] else { return false };
        match connection.runnable {
            true => return true,
            false if connection.is_stuck() => self.resume(id),
            false => self.receive(id),
        }
        let Some(connection) = &mut self.connections[id as usize] else { return false };
        let Wire::Rings(rings) = &mut connection.wire else { return false };
        if connection.runnable || !rings.polled {
            return rings.polled;
        }
        if rings.is_over() {
            self.close(id);
            return false;
        }
        rings.polled = self.now.since(connection.heard) < busy || !rings.park();
        rings.polled
    }

    /// Takes the messages that came.
    pub(super) fn receive(&mut self, id: u32) {
        let registers = &self.shared.registers;
        let connection = live(&mut self.connections, id);
        if connection.runnable {
            return;
        }
        let arrivals = Arrivals {
            messages: &mut connection.messages,
            input: &mut connection.input,
            pool: &mut self.pool,
            most: registers.size(Id::NetPipeline),
            enough: registers.size(Id::EdgeReadBuffer),
        };
        let received = match &mut connection.wire {
            Wire::Rings(rings) => rings.receive(arrivals),
            Wire::Datagrams(datagrams) => Ok(Some(datagrams.receive(arrivals))),
            Wire::Stream(_) => Ok(None),
        };
        match received {
            Ok(Some(bytes)) => {
                connection.heard = self.now;
                self.shared.net.reads.add(1);
                self.shared.net.bytes_read.add(bytes as u64);
                self.settle(id);
            }
            Ok(None) => {}
            Err(_) => {
                self.shared.net.protocol_kicks.add(1);
                self.close_for(id, Reason::Protocol("a ring that is not as agreed"));
            }
        }
    }
}
