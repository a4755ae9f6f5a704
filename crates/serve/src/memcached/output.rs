//! Replies on their way to a client.
//!
//! Fast path: the replies of one connection lie in a row in the port's arena and go to the socket from there, in one
//! system call, copied once (by the kernel). Only what the socket does not take is copied into [`Spill`], and a connection
//! with a spill is not read from until the client has caught up.

use super::socket::Socket;
use base::budget::Budget;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A value that is too large for the arena, on its way out.
pub type Body = Arc<dyn Deref<Target = [u8]> + Send + Sync>;

/// Copied bytes per piece of a spill: a piece's memory is free only once all of it is sent.
const SPILL_PIECE: usize = 64 << 10;

/// What one write sends at most at once; more goes in several.
const PIECES_PER_WRITE: usize = 64;

/// Sends as much of `pieces` as the socket takes. Returns the bytes taken.
///
/// # Errors
/// The socket's, except "try again", which is a short count.
pub fn send(fd: BorrowedFd<'_>, pieces: &[&[u8]]) -> io::Result<usize> {
    if let [piece] = pieces {
        return send_one(fd, piece);
    }
    let mut sent = 0;
    for batch in pieces.chunks(PIECES_PER_WRITE) {
        let mut slices = [IoSlice::new(&[]); PIECES_PER_WRITE];
        for (slice, piece) in slices.iter_mut().zip(batch) {
            *slice = IoSlice::new(piece);
        }
        let whole: usize = batch.iter().map(|piece| piece.len()).sum();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let n = loop {
            match sendmsg(fd, &slices[..batch.len()], &mut SendAncillaryBuffer::default(), flags) {
                Ok(n) => break n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(sent),
                Err(e) => return Err(e.into()),
            }
        };
        sent += n;
        if n < whole {
            break;
        }
    }
    Ok(sent)
}

/// The common case, without a message header for the kernel to read.
fn send_one(fd: BorrowedFd<'_>, piece: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(fd, piece, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(n) => return Ok(n),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(0),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Bytes that the socket did not take yet.
///
/// Invariant: what is counted is what is held. A piece counts in full until its last byte is sent, or a client that leaves
/// one byte of a large reply unread would hold the memory of all of it uncounted.
#[derive(Default)]
pub struct Spill {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent already.
    sent: usize,
    held: usize,
}

enum Piece {
    Copied(Vec<u8>),
    Shared(Body),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Copied(bytes) => bytes,
            Piece::Shared(body) => body,
        }
    }
}

impl Spill {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.held
    }

    /// Adds a copy of `bytes`, counted in `buffered`.
    pub fn copy(&mut self, mut bytes: &[u8], buffered: &Budget) {
        self.count(bytes.len(), buffered);
        if let Some(Piece::Copied(last)) = self.pieces.back_mut() {
            let (fitting, rest) = bytes.split_at(bytes.len().min(SPILL_PIECE.saturating_sub(last.len())));
            last.extend_from_slice(fitting);
            bytes = rest;
        }
        self.pieces.extend(bytes.chunks(SPILL_PIECE).map(|chunk| Piece::Copied(chunk.to_vec())));
    }

    /// Adds a shared body whose first `sent` bytes have gone out already.
    pub fn share(&mut self, body: Body, sent: usize, buffered: &Budget) {
        if sent == body.len() {
            return;
        }
        if self.pieces.is_empty() {
            self.sent = sent;
        } else {
            assert!(sent == 0, "only the first piece can be half sent");
        }
        self.count(body.len(), buffered);
        self.pieces.push_back(Piece::Shared(body));
    }

    /// Sends what the socket takes. True when nothing is left.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, socket: &mut Socket, buffered: &Budget) -> io::Result<bool> {
        while let Some(first) = self.pieces.front() {
            let whole = first.bytes().len();
            self.sent += socket.send(&[&first.bytes()[self.sent..]], buffered)?;
            if self.sent < whole {
                return Ok(false);
            }
            self.sent = 0;
            self.pieces.pop_front();
            self.held -= whole;
            buffered.give(whole);
        }
        socket.flush(buffered)
    }

    /// Drops what waits.
    pub fn clear(&mut self, buffered: &Budget) {
        buffered.give(self.held);
        *self = Spill::default();
    }

    fn count(&mut self, bytes: usize, buffered: &Budget) {
        self.held += bytes;
        // Always granted: the edge closes the slowest reader when all together pass the limit.
        buffered.take(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_slow_reader_gets_every_byte_in_order() {
        let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
        let mut ours = Socket::plain(ours.into());
        let buffered = Budget::new(0);
        let body: Body = Arc::new(vec![b'v'; 1 << 20]);
        let mut spill = Spill::default();
        let head = b"VALUE k 0 1048576\r\n";
        let sent = send(ours.as_fd(), &[head, &body]).expect("an open socket");
        assert!(sent > head.len() && sent < 1 << 20, "the socket takes a part: {sent}");
        spill.share(body, sent - head.len(), &buffered);
        spill.copy(b"\r\n", &buffered);
        spill.copy(b"END\r\n", &buffered);
        assert_eq!(buffered.taken(), spill.bytes());
        let mut received = vec![0; sent];
        theirs.read_exact(&mut received).expect("what was sent");
        while !spill.flush(&mut ours, &buffered).expect("an open socket") {
            let mut chunk = vec![0; 1 << 16];
            let n = theirs.read(&mut chunk).expect("some bytes");
            received.extend_from_slice(&chunk[..n]);
        }
        drop(ours);
        theirs.read_to_end(&mut received).expect("the rest");
        assert_eq!(received.len(), head.len() + (1 << 20) + 7);
        assert!(received.ends_with(b"v\r\nEND\r\n"));
        assert_eq!((buffered.taken(), spill.bytes()), (0, 0));
    }

    #[test]
    fn what_is_held_is_counted_until_it_is_free() {
        let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
        let mut ours = Socket::plain(ours.into());
        let buffered = Budget::new(0);
        let mut spill = Spill::default();
        for _ in 0..100 {
            spill.copy(&[b'x'; 50_000], &buffered);
        }
        assert_eq!(buffered.taken(), 5_000_000);
        let mut received = 0;
        while !spill.flush(&mut ours, &buffered).expect("an open socket") {
            let held: usize = spill.pieces.iter().map(|piece| piece.bytes().len()).sum();
            assert_eq!((spill.bytes(), spill.bytes()), (buffered.taken(), held));
            assert!(spill.pieces.iter().all(|piece| piece.bytes().len() <= SPILL_PIECE));
            received += theirs.read(&mut vec![0; 1 << 16]).expect("some bytes");
        }
        assert!(received < 5_000_000);
        assert_eq!((buffered.taken(), spill.bytes()), (0, 0));
    }

    #[test]
    fn a_closed_socket_is_an_error_not_a_signal() {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        drop(theirs);
        assert!(send(ours.as_fd(), &[b"x"]).is_err());
    }
}
