//! A stream socket (TCP or Unix, with TLS or without) as an edge keeps it: replies go out in one write per turn, and what the socket does not take
//! is kept until it does.

use crate::memcached::output::{Body, Spill};
use crate::memcached::socket::Socket;
use base::budget::Budget;
use std::io;

/// A stream socket.
pub struct Stream {
    /// The socket, nonblocking.
    pub socket: Socket,
    /// Replies that the socket did not take yet.
    pub spill: Spill,
    /// What epoll watches for.
    pub interest: Interest,
}

/// What an edge waits for on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The client's next bytes.
    Read,
    /// Room for the replies that wait; nothing is read meanwhile, so a client that does not read cannot make us buffer.
    Write,
    /// Only its end: its commands wait for boxes, and those that follow stay in the socket.
    Nothing,
}

/// A part of what is written at once.
pub enum Piece<'a> {
    /// Bytes in the port's arena.
    Bytes(&'a [u8]),
    /// A value outside it.
    Body(&'a Body),
}

impl<'a> Piece<'a> {
    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Body(body) => body,
        }
    }
}

impl Stream {
    /// Over the socket of a client that was just accepted.
    pub fn over(socket: Socket) -> Stream {
        Stream { socket, spill: Spill::default(), interest: Interest::Read }
    }

    /// Writes `pieces`; what the socket does not take is kept. Returns the bytes written.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn write(&mut self, pieces: &[Piece<'_>], buffered: &Budget) -> io::Result<usize> {
        let sent = if self.spill.is_empty() {
            let slices: Vec<&[u8]> = pieces.iter().map(Piece::bytes).collect();
            self.socket.send(&slices, buffered)?
        } else {
            0
        };
        let mut skip = sent;
        for piece in pieces {
            let len = piece.bytes().len();
            let gone = skip.min(len);
            skip -= gone;
            match piece {
                Piece::Bytes(bytes) => self.spill.copy(&bytes[gone..], buffered),
                Piece::Body(body) => self.spill.share((*body).clone(), gone, buffered),
            }
        }
        Ok(sent)
    }

    /// Whether replies wait for the client to take others.
    pub fn is_stuck(&self) -> bool {
        !self.spill.is_empty() || self.socket.unsent() > 0
    }

    /// Bytes of replies that wait.
    pub fn unsent(&self) -> usize {
        self.spill.bytes() + self.socket.unsent()
    }

    /// Sends what waits, as far as the socket takes it. True when nothing is left.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, buffered: &Budget) -> io::Result<bool> {
        self.spill.flush(&mut self.socket, buffered)
    }

    /// Drops what waits; nothing more is sent.
    pub fn clear(&mut self, buffered: &Budget) {
        self.spill.clear(buffered);
        self.socket.end(buffered);
    }
}
