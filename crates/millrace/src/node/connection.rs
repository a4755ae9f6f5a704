//! One client's connection, as its edge keeps it.

use super::input::{BufferLimit, Buffered, Input, Pool};
use super::kv::Reply;
use super::output::{self, Body, Spill};
use base::Nanos;
use protocol::memcache::Parser;
use ring::arena::Span;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Requests of a fresh connection in its first turn.
const FIRST_TURN: usize = 8;

/// What a turn's replies may leave waiting before the next turn is made smaller.
const SPILL_WANTED: usize = 1 << 20;

/// A connection over a stream socket, TCP or Unix.
pub struct Connection {
    /// The socket, nonblocking.
    pub socket: OwnedFd,
    /// Bytes that arrived and wait to be parsed.
    pub input: Input,
    /// Where the parser stands.
    pub parser: Parser,
    /// Replies that the socket did not take yet.
    pub spill: Spill,
    /// Bytes in one piece that the parser needs before it can go on; 0 when any more bytes do.
    pub wants: usize,
    /// Requests that it may have in flight per turn, beside `net.pipeline`: fewer after replies that its socket did not take,
    /// or a client that pipelines requests for large values would have more waiting than all together may buffer,
    /// however fast it reads.
    pub turn: usize,
    /// Requests that it had in flight in its last turn.
    pub submitted: usize,
    /// When the client last made room for replies that wait; when they began to wait, if it has not.
    pub made_room: Nanos,
    /// When the client last sent something.
    pub heard: Nanos,
    /// Nothing more is read; the connection closes once its replies are out.
    pub closing: bool,
    /// The client is gone; the connection closes once nothing of it is in flight.
    pub broken: bool,
    /// In the edge's list of connections with input to parse.
    pub runnable: bool,
    /// What epoll watches for.
    pub interest: Interest,
    /// Told apart from an earlier connection in the same place.
    pub generation: u32,
}

/// What an edge waits for on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The client's next bytes.
    Read,
    /// Room for the replies that wait; nothing is read meanwhile, so a client that does not read cannot make us buffer.
    Write,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(socket: OwnedFd, parser: Parser, generation: u32, now: Nanos) -> Connection {
        Connection {
            socket,
            input: Input::default(),
            parser,
            spill: Spill::default(),
            wants: 0,
            turn: FIRST_TURN,
            submitted: 0,
            made_room: now,
            heard: now,
            closing: false,
            broken: false,
            runnable: false,
            interest: Interest::Read,
            generation,
        }
    }

    /// How much it costs all others that this client does not read: bytes times time. None where nothing waits.
    pub fn burden(&self, now: Nanos) -> Option<u128> {
        let stalled = now.since(self.made_room).0.max(1);
        (!self.spill.is_empty()).then(|| self.spill.bytes() as u128 * u128::from(stalled))
    }

    /// Sizes the next turn by what the last one left waiting; never beyond `most`.
    pub fn size_turn(&mut self, most: usize) {
        let waiting = self.spill.bytes();
        if waiting > SPILL_WANTED {
            self.turn = (self.submitted * SPILL_WANTED / waiting).max(1);
        } else if waiting == 0 {
            self.turn = (self.turn * 2).min(most);
        }
    }

    /// Whether enough has arrived for another look at the input.
    pub fn can_parse(&self) -> bool {
        self.input.bytes().len() >= self.wants.max(1)
    }

    /// Makes room for what the parser waits for; gives the buffer back where nothing is in it.
    ///
    /// # Errors
    /// When all connections together buffer too much.
    pub fn make_room(&mut self, limit: u64, pool: &mut Pool) -> Result<(), BufferLimit> {
        if self.input.is_empty() {
            self.input.release(pool);
            return Ok(());
        }
        self.input.reserve(self.wants, limit, pool)
    }

    /// Writes `replies`, whose bytes `bytes` finds; what the socket does not take is kept. Returns the bytes written.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn write<'a>(
        &mut self,
        replies: &'a [Reply],
        bytes: impl Fn(Span) -> &'a [u8],
        buffered: &Buffered,
    ) -> io::Result<usize> {
        let mut pieces = Vec::with_capacity(8);
        let mut run: Option<Span> = None;
        for reply in replies {
            match &reply.detached {
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
        self.send_or_keep(&pieces, buffered)
    }

    fn send_or_keep(&mut self, pieces: &[Piece<'_>], buffered: &Buffered) -> io::Result<usize> {
        let sent = if self.spill.is_empty() {
            let slices: Vec<&[u8]> = pieces.iter().map(Piece::bytes).collect();
            output::send(self.socket.as_fd(), &slices)?
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
}

/// A part of what is written at once.
enum Piece<'a> {
    Bytes(&'a [u8]),
    Body(&'a Body),
}

impl<'a> Piece<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Body(body) => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_grows_while_the_client_keeps_up_and_shrinks_when_it_does_not() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        let buffered = Buffered::default();
        let mut connection = Connection::new(ours.into(), Parser::new(1 << 20), 0, Nanos::ZERO);
        for wanted in [16, 32, 64, 128, 200, 200] {
            connection.size_turn(200);
            assert_eq!(connection.turn, wanted);
        }
        connection.submitted = 200;
        connection.spill.copy(&vec![0; 4 << 20], &buffered);
        connection.size_turn(200);
        assert_eq!(connection.turn, 50);
        connection.submitted = 2;
        connection.size_turn(200);
        assert_eq!(connection.turn, 1, "there is always progress");
        connection.spill.clear(&buffered);
        connection.size_turn(200);
        assert_eq!(connection.turn, 2);
    }
}
