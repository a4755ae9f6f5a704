//! A stream of bytes between a client and the node, in the place of a socket: reads and writes come short, the client may end its half, or be gone.

use super::acts::{Act, Acts};
use crate::memcached::socket::{Interest, Pipe};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The client's end. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Mutex<Stream>>);

/// How short reads and writes come.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// Bytes that are on their way to the client at most; beyond that the node must wait for it.
    pub room: usize,
    /// Bytes that one call takes or gives at most.
    pub call: usize,
}

#[derive(Debug)]
struct Stream {
    number: usize,
    acts: Acts,
    to_node: VecDeque<u8>,
    to_client: VecDeque<u8>,
    width: Width,
    /// The client sends nothing more.
    has_ended: bool,
    /// The client is gone.
    is_reset: bool,
    /// The node has closed it.
    is_closed: bool,
    /// The node was refused a part of what it sent last.
    is_stuck: bool,
    /// It read though it was.
    reads_on: bool,
    token: u64,
    interest: Interest,
    /// No edge has seen it.
    is_new: bool,
}

impl Peer {
    /// The connection of this number, as wide as that.
    pub(super) fn new(number: usize, width: Width, acts: Acts) -> Peer {
        Peer(Arc::new(Mutex::new(Stream {
            number,
            acts,
            to_node: VecDeque::new(),
            to_client: VecDeque::new(),
            width,
            has_ended: false,
            is_reset: false,
            is_closed: false,
            is_stuck: false,
            reads_on: false,
            token: 0,
            interest: Interest::Nothing,
            is_new: true,
        })))
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number: how many connected to the node before it.
    pub fn number(&self) -> usize {
        self.stream().number
    }

    /// Bytes for the node.
    pub fn send(&self, bytes: &[u8]) {
        self.stream().to_node.extend(bytes);
    }

    /// Nothing more comes for the node; what it says is still heard.
    pub fn end(&self) {
        self.stream().has_ended = true;
    }

    /// The client is gone, and what was on its way.
    pub fn reset(&self) {
        let mut stream = self.stream();
        stream.is_reset = true;
        stream.to_node.clear();
        stream.to_client.clear();
    }

    /// Takes `most` bytes at most of what the node has said.
    pub fn take(&self, most: usize, into: &mut Vec<u8>) {
        let mut stream = self.stream();
        let count = most.min(stream.to_client.len());
        into.extend(stream.to_client.drain(..count));
    }

    /// Bytes that the client has not taken.
    pub fn unheard(&self) -> usize {
        self.stream().to_client.len()
    }

    /// Bytes that the node has not read.
    pub fn unread(&self) -> usize {
        self.stream().to_node.len()
    }

    /// Whether the node has closed it. What it said before is still there.
    pub fn is_closed(&self) -> bool {
        self.stream().is_closed
    }

    /// Whether replies wait at the node for the client to take others.
    pub fn is_stuck(&self) -> bool {
        self.stream().is_stuck
    }

    /// Whether the node read on though its replies were not taken.
    pub fn was_read_while_stuck(&self) -> bool {
        self.stream().reads_on
    }

    /// It is as wide as that from now on.
    pub fn set_width(&self, width: Width) {
        self.stream().width = width;
    }

    /// Whether no edge has seen it yet.
    pub(super) fn is_new(&self) -> bool {
        self.stream().is_new
    }

    /// The token to tell the node, if there is something that it waits for.
    pub(super) fn ready(&self) -> Option<u64> {
        let stream = self.stream();
        let is_ready = match stream.interest {
            Interest::Read => !stream.to_node.is_empty() || stream.has_ended,
            Interest::Write => stream.to_client.len() < stream.width.room,
            Interest::Nothing => false,
        };
        (!stream.is_closed && (is_ready || stream.is_reset)).then_some(stream.token)
    }
}

/// The node's end.
pub(super) struct Served(pub Peer);

impl Pipe for Served {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.0.stream();
        if stream.is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        stream.reads_on |= stream.is_stuck;
        let count = room.len().min(stream.width.call).min(stream.to_node.len());
        stream.acts.note(Act::Read(count));
        if stream.to_node.is_empty() && !stream.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for (place, byte) in room.iter_mut().zip(stream.to_node.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }

    fn send(&mut self, pieces: &[&[u8]]) -> io::Result<usize> {
        let mut stream = self.0.stream();
        if stream.is_reset {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let free = stream.width.room.saturating_sub(stream.to_client.len());
        let (mut left, mut taken) = (free.min(stream.width.call), 0);
        for piece in pieces {
            let count = piece.len().min(left);
            stream.to_client.extend(&piece[..count]);
            (left, taken) = (left - count, taken + count);
        }
        stream.acts.note(Act::Sent(stream.number, taken));
        stream.is_stuck = taken < pieces.iter().map(|piece| piece.len()).sum();
        Ok(taken)
    }

    fn watch(&mut self, token: u64, interest: Interest) {
        let mut stream = self.0.stream();
        (stream.token, stream.interest, stream.is_new) = (token, interest, false);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.stream().is_closed = true;
    }
}
