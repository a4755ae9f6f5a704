//! TLS handshakes of an edge's connections; what bounds them is [`Handshakes`](crate::memcached::handshakes::Handshakes).

use super::Edge;
use crate::kv::connection::Wire;
use crate::kv::registers::Id;
use crate::kv::system::System;
use crate::memcached::socket::ReadError;
use base::Nanos;
use base::closing::Reason;

impl<Y: System> Edge<Y> {
    /// A connection that begins with a handshake was taken.
    pub(super) fn begin_handshake(&mut self, id: u32) {
        self.handshakes.begin(id, self.now);
        self.end_handshakes();
    }

    /// Closes those that are too many, or take too long.
    pub(super) fn end_handshakes(&mut self) {
        let registers = &self.shared.registers;
        let most = registers.size(Id::TlsHandshakes);
        let limit = Nanos::from_secs(registers.read(Id::TlsHandshakeTimeout));
        while let Some(id) = self.handshakes.pop_excess(most, limit, self.now) {
            self.shared.net.tls_timeouts.add(1);
            self.close_for(id, Reason::Tls("too slow, or too many under way".to_owned()));
        }
    }

    /// Reads from a connection in its handshake, if the turn has room for that. True if bytes came.
    #[cold]
    pub(super) fn shake_hands(&mut self, id: u32) -> bool {
        if !self.handshakes.take_step() {
            return false;
        }
        let came = self.read_socket(id);
        let Some(Some(connection)) = self.connections.get_mut(id as usize) else { return came };
        let Wire::Stream(stream) = &connection.wire else { return came };
        if !stream.socket.is_handshaking() {
            // What came with the end of the handshake is looked at in the next turn.
            connection.guest.shook_hands(&stream.socket);
            self.shared.net.tls_handshakes.add(1);
            self.shared.net.tls_resumed.add(u64::from(stream.socket.is_resumed()));
            self.handshakes.forget(id);
        }
        came
    }

    /// A connection could not be read from.
    pub(super) fn end_unreadable(&mut self, id: u32, why: &ReadError) {
        match why {
            ReadError::NoRoom => self.refuse(id),
            ReadError::Tls(why) => {
                self.shared.net.tls_failures.add(1);
                self.close_for(id, Reason::Tls(why.to_string()));
            }
            ReadError::Again | ReadError::Gone => self.close_for(id, Reason::Gone),
        }
    }
}
