//! TLS handshakes that are under way at an edge: bounded in number, in time, and in what they cost a turn.
//!
//! Why: a signature costs as much as a hundred requests, and whoever asks for one need not be a client. Handshakes beyond
//! [`STEPS_PER_TURN`] wait in their sockets for the next turn, so that requests of others are served between; of too many the oldest makes room,
//! which a client that only waits for the network is not.

use super::{Edge, live};
use crate::kv::connection::Wire;
use crate::kv::registers::Id;
use crate::memcached::socket::ReadError;
use base::Nanos;
use std::collections::VecDeque;

/// Reads from connections that are in their handshake, between two turns.
const STEPS_PER_TURN: usize = 4;

/// Those under way, from the oldest on.
#[derive(Default)]
pub(super) struct Handshakes {
    under_way: VecDeque<(u32, Nanos)>,
    steps: usize,
}

impl Handshakes {
    /// A turn is over.
    pub(super) fn begin_turn(&mut self) {
        self.steps = STEPS_PER_TURN;
    }

    /// Whether there may be a step of one before the next turn.
    fn take_step(&mut self) -> bool {
        let may = self.steps > 0;
        self.steps -= usize::from(may);
        may
    }

    /// It is over, or the connection is.
    pub(super) fn forget(&mut self, id: u32) {
        if !self.under_way.is_empty() {
            self.under_way.retain(|&(other, _)| other != id);
        }
    }

    fn oldest(&self) -> Option<(u32, Nanos)> {
        self.under_way.front().copied()
    }
}

impl Edge {
    /// A connection that begins with a handshake was taken.
    pub(super) fn begin_handshake(&mut self, id: u32) {
        self.handshakes.under_way.push_back((id, self.now));
        let most = self.shared.registers.size(Id::TlsHandshakes);
        while self.handshakes.under_way.len() > most {
            self.end_oldest_handshake();
        }
    }

    /// Closes those that take too long.
    pub(super) fn sweep_handshakes(&mut self) {
        let limit = Nanos::from_secs(self.shared.registers.read(Id::TlsHandshakeTimeout));
        while let Some((_, begun)) = self.handshakes.oldest()
            && self.now.since(begun) > limit
        {
            self.end_oldest_handshake();
        }
    }

    fn end_oldest_handshake(&mut self) {
        let Some((id, _)) = self.handshakes.oldest() else { return };
        self.shared.net.tls_timeouts.add(1);
        self.handshakes.forget(id);
        self.close(id);
    }

    /// Reads from a connection in its handshake, if the turn has room for that. True if bytes came.
    #[cold]
    pub(super) fn shake_hands(&mut self, id: u32) -> bool {
        if !self.handshakes.take_step() {
            return false;
        }
        let came = self.read_socket(id);
        let Some(Some(connection)) = self.connections.get(id as usize) else { return came };
        let Wire::Stream(stream) = &connection.wire else { return came };
        if !stream.socket.is_handshaking() {
            self.shared.net.tls_handshakes.add(1);
            self.shared.net.tls_resumed.add(u64::from(stream.socket.is_resumed()));
            self.handshakes.forget(id);
        }
        came
    }

    /// A connection could not be read from.
    pub(super) fn end_unreadable(&mut self, id: u32, why: &ReadError) {
        match why {
            ReadError::NoRoom => return self.refuse(id),
            ReadError::Tls(why) => {
                self.shared.net.tls_failures.add(1);
                let peer = rustix::net::getpeername(live(&mut self.connections, id).descriptor());
                let peer = peer.ok().flatten().and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
                let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
                log::debug!("{peer} was turned away: {why}");
            }
            ReadError::Again | ReadError::Gone => {}
        }
        self.close(id);
    }
}
