//! A UDP socket as an edge keeps it: each datagram is a message with an address to answer to.
//!
//! Rules
//! - A request is one datagram with memcached's frame; one of several gets `SERVER_ERROR multi-packet request not supported`.
//! - A datagram without a valid frame is dropped without a word.
//! - A datagram from our own port number is dropped: two servers that take each other's errors for requests would never stop.
//! - All that is sent in answer to a datagram is at most `udp.amplification` times as long as the datagram, frames included.
//!   A longer reply is replaced by a `SERVER_ERROR`, or by nothing where even that is too long. Source addresses can be
//!   forged, and what memcached once multiplied by 50 000 hit whoever was named there.
//! - A reply that the socket has no room for is lost, as datagrams are.
//!
//! Off by default.

use super::messages::{Arrivals, Gathering, Says};
use crate::kv::registers::{Id, Registers};
use crate::memcached::counters::NetCounters;
use protocol::memcache::Line;
use protocol::memcache::udp::{self, FRAME_LEN, Frame, PAYLOAD_MAX, UdpError};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The longest datagram there is.
const DATAGRAM_MAX: usize = 65_536;

/// A UDP socket.
pub struct Datagrams {
    socket: UdpSocket,
    port: u16,
    /// Who is owed a reply, oldest first.
    askers: VecDeque<Asker>,
    gathering: Gathering,
    room: Box<[u8]>,
    registers: Arc<Registers>,
    net: Arc<NetCounters>,
}

/// Who asked, and how much it took.
#[derive(Clone, Copy, Debug)]
struct Asker {
    address: SocketAddr,
    request_id: u16,
    datagram: usize,
}

impl Asker {
    /// Bytes of reply that its datagram is worth; the frames before them count too.
    fn worth(self, amplification: usize) -> usize {
        let all = self.datagram * amplification;
        let frames = all.div_ceil(PAYLOAD_MAX + FRAME_LEN) * FRAME_LEN;
        all.saturating_sub(frames)
    }
}

impl Datagrams {
    /// Serves `socket`, which is bound.
    ///
    /// # Errors
    /// The system's.
    pub fn over(socket: OwnedFd, registers: Arc<Registers>, net: Arc<NetCounters>) -> io::Result<Datagrams> {
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let room = vec![0; DATAGRAM_MAX].into_boxed_slice();
        let (askers, gathering) = (VecDeque::new(), Gathering::default());
        Ok(Datagrams { socket, port, askers, gathering, room, registers, net })
    }

    /// The socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the requests that arrived, up to the bounds of `arrivals`. Returns the bytes received.
    pub fn receive(&mut self, mut arrivals: Arrivals<'_>) -> usize {
        let mut received = 0;
        // Bounded, so that nonsense that is dropped cannot keep the edge here.
        for _ in 0..arrivals.most {
            if !arrivals.wants_more() {
                break;
            }
            let (len, address) = match self.socket.recv_from(&mut self.room) {
                Ok(datagram) => datagram,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // What the network says about an earlier answer, for example that nobody listens there any more.
                Err(_) => continue,
            };
            received += len;
            if address.port() != self.port {
                self.take(len, address, &mut arrivals);
            }
        }
        received
    }

    fn take(&mut self, len: usize, address: SocketAddr, arrivals: &mut Arrivals<'_>) {
        let frame = match Frame::parse(&self.room[..len]) {
            Ok((frame, text)) if frame.sequence == 0 => {
                arrivals.take(text);
                frame
            }
            Err(UdpError::MultiPacket(frame)) if frame.sequence < frame.count => {
                arrivals.refuse(Line::MultiPacket);
                frame
            }
            Ok(_) | Err(UdpError::Short | UdpError::MultiPacket(_)) => return,
        };
        self.askers.push_back(Asker { address, request_id: frame.request_id, datagram: len });
    }

    /// Adds `pieces` to the reply of the oldest datagram, and sends it if this `ends` it. Returns the bytes sent.
    pub fn write(&mut self, pieces: &[&[u8]], ends: bool) -> usize {
        let amplification = self.registers.size(Id::UdpAmplification);
        let asker = *self.askers.front().expect("a reply is to a datagram that arrived");
        let worth = asker.worth(amplification);
        let Some(reply) = self.gathering.add(pieces, ends, worth) else { return 0 };
        self.askers.pop_front();
        match reply {
            Says::Piece => self.send(asker, pieces[0]),
            Says::Gathered(bytes) => {
                let sent = self.send(asker, &bytes);
                self.gathering.reuse(bytes);
                sent
            }
            Says::TooLong => {
                self.net.udp_refusals.add(1);
                let line = Line::AmplificationRefused.bytes();
                if line.len() <= worth { self.send(asker, line) } else { 0 }
            }
        }
    }

    /// Whether the reply that is being put together is longer than it may be.
    pub fn reply_is_too_long(&self) -> bool {
        self.gathering.is_too_long()
    }

    fn send(&self, to: Asker, reply: &[u8]) -> usize {
        let Some(datagrams) = udp::datagrams(to.request_id, reply, PAYLOAD_MAX) else { return 0 };
        let mut sent = 0;
        for (frame, text) in datagrams {
            let mut datagram = [0; FRAME_LEN + PAYLOAD_MAX];
            datagram[..FRAME_LEN].copy_from_slice(&frame.emit());
            datagram[FRAME_LEN..][..text.len()].copy_from_slice(text);
            match self.socket.send_to(&datagram[..FRAME_LEN + text.len()], to.address) {
                Ok(n) => sent += n,
                // The client will ask again; the rest is useless to it.
                Err(_) => break,
            }
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_and_its_frames_are_never_longer_than_agreed() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        for datagram in (0..200).chain([1000, 1400, 65_507]) {
            for amplification in [1, 2, 10, 1000] {
                let worth = Asker { address, request_id: 1, datagram }.worth(amplification);
                let frames = worth.div_ceil(PAYLOAD_MAX) * FRAME_LEN;
                assert!(worth + frames <= datagram * amplification, "{datagram} {amplification}");
            }
        }
    }
}
