//! A stream socket (TCP or Unix, with TLS or without) as an edge keeps it: replies go out in one write per turn, and what the socket does not take
//! is kept until it does.

use super::service::{LateReply, Reply};
use crate::memcached::output::{Body, Spill};
use crate::memcached::socket::{Interest, Socket};
use base::budget::Budget;
use ring::arena::Span;
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

/// The bytes of a reply that waited.
pub fn pieces_of(reply: &LateReply) -> impl Iterator<Item = Piece<'_>> {
    let at = reply.value.as_ref().map_or(reply.bytes.len(), |value| value.at);
    let (head, tail) = reply.bytes.split_at(at);
    let body = reply.value.iter().map(|value| Piece::Body(&value.body));
    [Piece::Bytes(head)].into_iter().chain(body).chain([Piece::Bytes(tail)])
}

/// The bytes of `replies`, neighbours in the arena as one.
pub fn joined<'a>(replies: &'a [Reply], bytes: impl Fn(Span) -> &'a [u8]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(8);
    let mut run: Option<Span> = None;
    for reply in replies {
        match reply.detached() {
            None => match run.and_then(|run| run.join(reply.span)) {
                Some(joined) => run = Some(joined),
                None => pieces.extend(run.replace(reply.span).map(|span| Piece::Bytes(bytes(span)))),
            },
            Some(detached) => {
                pieces.extend(run.take().map(|span| Piece::Bytes(bytes(span))));
                let (head, tail) = bytes(reply.span).split_at(detached.at);
                pieces.push(Piece::Bytes(head));
                pieces.push(Piece::Body(&detached.body));
                pieces.push(Piece::Bytes(tail));
            }
        }
    }
    pieces.extend(run.map(|span| Piece::Bytes(bytes(span))));
    pieces
}
