//! The client's side of the memcached protocol: requests into a byte vector, replies out of a byte slice.
//!
//! Why not a client library: nothing here owns a socket, a clock or a thread, so the load generator, the box and the
//! simulators drive the same code, and a batch of requests is one write.
//!
//! Shape: every function of [`request`] appends one request and returns the [`Expect`] that its answer will satisfy;
//! a [`ReplyReader`] is told of it and then turns bytes into [`Reply`] values, in order, until nothing is owed.
//!
//! ```
//! use protocol::memcache::client::{Progress, Reply, ReplyReader, request};
//!
//! let mut out = Vec::new();
//! let mut reader = ReplyReader::new(1 << 20);
//! reader.expect(request::set(&mut out, b"k", 0, 0, b"hello"));
//! reader.expect(request::read(&mut out, "get", [b"k".as_slice()]));
//! assert_eq!(out, b"set k 0 0 5\r\nhello\r\nget k\r\n");
//!
//! let bytes = b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n";
//! let Ok(Progress::Reply { reply: Reply::Stored, used: 8, last: true }) = reader.next(bytes) else { panic!() };
//! let Ok(Progress::Reply { reply: Reply::Value { data: b"hello", .. }, used, last: false }) = reader.next(&bytes[8..])
//! else { panic!() };
//! let Ok(Progress::Reply { reply: Reply::End, last: true, .. }) = reader.next(&bytes[8 + used..]) else { panic!() };
//! assert_eq!(reader.owed(), 0);
//! ```
//!
//! Bounds: a reply line is at most [`MAX_LINE`] bytes, a value at most what the reader was made with; beyond either
//! the reader answers an error and stays broken, because the stream can no longer be trusted.
//!
//! Sources: memcached's `doc/protocol.txt` (1.6.18).

mod reply;
pub mod request;

pub use reply::{Expect, MAX_LINE, MetaStatus, Progress, Reply, ReplyError, ReplyReader, meta_token};

/// The longest key that the protocol allows.
pub const MAX_KEY: usize = 250;

/// Whether `key` can travel as it is: 1 to 250 bytes, no space, no control character.
pub fn is_plain_key(key: &[u8]) -> bool {
    (1..=MAX_KEY).contains(&key.len()) && key.iter().all(|&b| b > b' ' && b != 0x7F)
}
