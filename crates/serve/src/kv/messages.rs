//! Connections that carry whole messages (shared-memory rings, datagrams): where in a message the parser stands, and the one
//! reply that a message gets.
//!
//! A message holds any number of complete requests; its reply holds all their replies in a row, and may be empty.
//! ```text
//!   wire ──▶ Arrivals ──▶ Messages (parsed one by one) ──▶ engine ──▶ Gathering ──▶ wire
//! ```
//! Invariants
//! 1. The bytes of the messages that arrived and are not parsed lie in a row in the connection's input buffer.
//! 2. Replies come in the order of the messages, so a wire that keeps its askers in a queue answers its front.
//!
//! Bounds: a gathered reply that exceeds its limit is dropped at once, and its wire says so instead.

use crate::memcached::input::{Input, Pool};
use protocol::memcache::Line;
use std::collections::VecDeque;

/// Gathering buffers beyond this are given back after use.
const KEPT: usize = 64 << 10;

/// The messages that arrived on one connection and are not parsed to their end.
#[derive(Debug, Default)]
pub struct Messages {
    arrived: VecDeque<Message>,
}

#[derive(Debug)]
struct Message {
    /// Bytes of it that are not consumed.
    left: usize,
    /// What is said after what it asked, or instead.
    refusal: Option<Line>,
}

impl Messages {
    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Bytes of the front message that are not consumed; 0 without one.
    pub fn left(&self) -> usize {
        self.arrived.front().map_or(0, |m| m.left)
    }

    /// The next `n` bytes of the front message are done with.
    pub fn consume(&mut self, n: usize) {
        let front = self.arrived.front_mut().expect("bytes of a message that arrived");
        front.left = front.left.checked_sub(n).expect("a message is consumed up to its end");
    }

    /// Nothing more is read of the front message, and `line` is said at its end. Returns how many bytes stay unread.
    pub fn cut(&mut self, line: Option<Line>) -> usize {
        let front = self.arrived.front_mut().expect("a message that arrived");
        front.refusal = line;
        std::mem::take(&mut front.left)
    }

    /// What is still to be said about the front message.
    pub fn refusal(&mut self) -> Option<Line> {
        self.arrived.front_mut()?.refusal.take()
    }

    /// Whether the front message is read to its end and nothing is left to say about it.
    pub fn is_read(&self) -> bool {
        self.arrived.front().is_some_and(|m| m.left == 0 && m.refusal.is_none())
    }

    /// The front message is done with.
    pub fn end(&mut self) {
        self.arrived.pop_front().expect("a message that arrived");
    }
}

/// Where a wire puts the messages that it receives, and how many it may.
pub struct Arrivals<'a> {
    /// The connection's messages.
    pub messages: &'a mut Messages,
    /// Their bytes.
    pub input: &'a mut Input,
    /// The edge's buffers.
    pub pool: &'a mut Pool,
    /// Messages to take at most.
    pub most: usize,
    /// Bytes after which no further message is taken.
    pub enough: usize,
}

impl Arrivals<'_> {
    /// Whether another message may be taken.
    pub fn wants_more(&self) -> bool {
        self.messages.arrived.len() < self.most && self.input.bytes().len() < self.enough
    }

    /// A message arrived. It is refused where there is no memory for it.
    pub fn take(&mut self, bytes: &[u8]) {
        match self.input.append(bytes, self.pool) {
            Ok(()) => self.messages.arrived.push_back(Message { left: bytes.len(), refusal: None }),
            Err(_) => self.refuse(Line::OutOfMemoryReading),
        }
    }

    /// A message arrived that is answered with `line`, whatever it asks.
    pub fn refuse(&mut self, line: Line) {
        self.messages.arrived.push_back(Message { left: 0, refusal: Some(line) });
    }
}

/// The reply that a wire is putting together.
#[derive(Debug, Default)]
pub struct Gathering {
    bytes: Vec<u8>,
    too_long: bool,
}

/// A reply that is complete.
#[derive(Debug, PartialEq, Eq)]
pub enum Says {
    /// It is the one piece that was given.
    Piece,
    /// It is here.
    Gathered(Vec<u8>),
    /// It was longer than the limit.
    TooLong,
}

impl Gathering {
    /// Adds `pieces` to the reply, which may have `limit` bytes; the whole reply if this `ends` it. A reply in one piece is
    /// not copied.
    pub fn add(&mut self, pieces: &[&[u8]], ends: bool, limit: usize) -> Option<Says> {
        let is_whole = pieces.len() == 1 && ends && self.bytes.is_empty();
        let len = self.bytes.len() + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        self.too_long |= len > limit;
        if self.too_long {
            self.bytes = Vec::new();
        } else if !is_whole {
            pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        }
        ends.then(|| match std::mem::take(&mut self.too_long) {
            true => Says::TooLong,
            false if is_whole => Says::Piece,
            false => Says::Gathered(std::mem::take(&mut self.bytes)),
        })
    }

    /// Whether the reply so far is longer than its limit, so that nothing of it will be sent.
    pub fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// Takes the buffer of a gathered reply back for the next.
    pub fn reuse(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT {
            buffer.clear();
            self.bytes = buffer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::budget::Budget;
    use std::sync::Arc;

    #[test]
    fn messages_are_taken_up_to_the_bounds_and_refused_beyond_memory() {
        // Eight bytes, and nine more while they move to a larger buffer.
        let buffered = Arc::new(Budget::new(17));
        let (mut messages, mut input) = (Messages::default(), Input::default());
        let mut pool = Pool::new(8, buffered.clone());
        let mut arrivals =
            Arrivals { messages: &mut messages, input: &mut input, pool: &mut pool, most: 4, enough: 9 };
        arrivals.take(b"12345678");
        assert!(arrivals.wants_more());
        arrivals.take(b"too long for all together");
        arrivals.take(b"9");
        assert!(!arrivals.wants_more(), "nine bytes are enough");
        assert_eq!((messages.left(), input.bytes()), (8, &b"123456789"[..]));
        input.consume(8);
        messages.consume(8);
        assert!(messages.is_read());
        messages.end();
        assert_eq!((messages.left(), messages.is_read()), (0, false));
        assert_eq!(messages.refusal(), Some(Line::OutOfMemoryReading));
        assert!(messages.is_read() && messages.refusal().is_none());
        messages.end();
        assert_eq!(messages.cut(None), 1);
        messages.end();
        assert!(messages.is_empty());
    }

    #[test]
    fn a_reply_is_complete_when_its_message_is() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.add(&[b"one "], false, 100), None);
        assert_eq!(gathering.add(&[b"two"], true, 100), Some(Says::Gathered(b"one two".to_vec())));
        assert_eq!(gathering.add(&[], true, 100), Some(Says::Gathered(vec![])));
        assert_eq!(gathering.add(&[b"whole"], true, 5), Some(Says::Piece));
    }

    #[test]
    fn too_many_bytes_are_dropped_and_the_next_reply_is_not() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.add(&[b"abc"], false, 4), None);
        assert_eq!(gathering.add(&[b"def"], false, 4), None);
        assert!(gathering.bytes.is_empty());
        assert_eq!(gathering.add(&[b"g"], true, 4), Some(Says::TooLong));
        assert_eq!(gathering.add(&[b"abcd"], true, 4), Some(Says::Piece));
    }
}
