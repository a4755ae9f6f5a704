//! What travels: a 16-byte header, metadata, a body.
//!
//! Shape (little-endian):
//! ```text
//!  0  u8   kind      see Kind
//!  1  u8   flags     END: the sender has said everything in this call
//!  2  u16  method    index from the handshake; in a Reply the status code
//!  4  u32  call      the caller's number for the call
//!  8  u32  aux       Request: µs that the caller still waits (0: without end); Item, Finish, Reply: sequence; Credit: items
//! 12  u32  metadata  bytes of metadata before the body
//! 16  …    metadata, then the body: a protobuf message, or in a Reply that is no success its text
//! ```
//! Metadata is a list of (u8 length, key, u32 length, value); keys are ASCII in lower case, and one that ends in `-bin` has any
//! bytes for a value, as in gRPC.
//!
//! Bounds: [`MAX_BODY`] for metadata and body together, [`MAX_METADATA`] of that for metadata.
//!
//! Errors: what does not parse ends the connection; see [`Malformed`].

use std::fmt;

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = 8 << 20;
/// Bytes of all metadata of a frame.
pub const MAX_METADATA: usize = 16 << 10;
/// Bytes behind the header.
pub const MAX_BODY: usize = MAX_MESSAGE + MAX_METADATA;
/// Bytes of the longest frame; every transport carries it.
pub const MAX_FRAME: usize = HEADER + MAX_BODY;

/// In [`Header::flags`]: the sender has said everything in this call.
pub const END: u8 = 1;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Client: version, token, what it knows of the services it wants. First frame of a link.
    Hello = 1,
    /// Server: version, token, services and methods with their numbers, bounds.
    Welcome = 2,
    /// Server: why not. Last frame of a link.
    Refuse = 3,
    /// Client: a call, with its only or first message (or, for client streaming, possibly none yet).
    Request = 4,
    /// Either: a further message of a stream; `aux` numbers them from 0 in each direction.
    Item = 5,
    /// Client: no more messages; `aux` is how many there were.
    Finish = 6,
    /// Server: the call is over; `method` is the status code, `aux` how many items came before.
    Reply = 7,
    /// Client: nobody waits for this call any more. A Reply still comes. `method` is the Request's, for it may overtake that.
    Cancel = 8,
    /// Either: `aux` further items may be sent in this call's stream.
    Credit = 9,
    /// Either: answer with a Pong of the same `aux`.
    Ping = 10,
    /// See [`Kind::Ping`].
    Pong = 11,
    /// Server: no new calls; what is in flight will be answered.
    Goodbye = 12,
    /// Either: the last frame on this link, whose connection goes on over another; `aux` is how many came before it. With
    /// [`END`], on the new link: the old one was read to its end; `aux` is how many frames came over it, its Last not counted.
    Last = 13,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 13] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Refuse,
        Kind::Request,
        Kind::Item,
        Kind::Finish,
        Kind::Reply,
        Kind::Cancel,
        Kind::Credit,
        Kind::Ping,
        Kind::Pong,
        Kind::Goodbye,
        Kind::Last,
    ];

    #[inline]
    fn of(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame says.
    pub kind: Kind,
    /// [`END`] or 0.
    pub flags: u8,
    /// Index of the method, or status code.
    pub method: u16,
    /// The caller's number for the call.
    pub call: u32,
    /// See the head comment.
    pub aux: u32,
    /// Bytes of metadata before the body.
    pub metadata: u32,
}

impl Header {
    /// A header of this kind for this call, the rest 0.
    pub fn new(kind: Kind, call: u32) -> Header {
        Header { kind, flags: 0, method: 0, call, aux: 0, metadata: 0 }
    }

    /// As bytes.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER] {
        // Two words, not six pieces: what is loaded soon as a whole would wait for each of those to reach the cache.
        let low = u64::from(self.kind as u8)
            | u64::from(self.flags) << 8
            | u64::from(self.method) << 16
            | u64::from(self.call) << 32;
        let high = u64::from(self.aux) | u64::from(self.metadata) << 32;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The fixed part.
    pub header: Header,
    /// Encoded metadata; see [`metadata`].
    pub metadata: &'a [u8],
    /// The message, or a status' text.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`Malformed`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let (head, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Malformed::Short)?;
        let kind = Kind::of(head[0]).ok_or(Malformed::Kind)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let header = Header {
            kind,
            flags: head[1],
            method: u16::from_le_bytes([head[2], head[3]]),
            call: word(4),
            aux: word(8),
            metadata: word(12),
        };
        let metadata = header.metadata as usize;
        if metadata > MAX_METADATA || rest.len() > MAX_BODY {
            return Err(Malformed::Long);
        }
        let (metadata, body) = rest.split_at_checked(metadata).ok_or(Malformed::Short)?;
        Ok(Frame { header, metadata, body })
    }
}

/// How bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end too early.
    Short,
    /// Longer than any frame.
    Long,
    /// No such kind.
    Kind,
}

impl Malformed {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Malformed::Short => "a frame ends too early",
            Malformed::Long => "a frame is longer than allowed",
            Malformed::Kind => "a frame of no known kind",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Malformed {}

/// How a peer broke the protocol; it ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

impl From<&'static str> for Violation {
    fn from(what: &'static str) -> Violation {
        Violation(what)
    }
}

impl From<Malformed> for Violation {
    fn from(malformed: Malformed) -> Violation {
        Violation(malformed.text())
    }
}

/// The entries of encoded metadata, until the first that is none.
pub fn metadata(bytes: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&len, after) = rest.split_first()?;
        let (key, after) = after.split_at_checked(usize::from(len))?;
        let (len, after) = after.split_first_chunk::<4>()?;
        let (value, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        rest = after;
        Some((std::str::from_utf8(key).ok()?, value))
    })
}

/// Appends an entry; false, and nothing appended, if the key is not one (see the head comment) or it does not fit
/// [`MAX_METADATA`].
#[must_use]
pub fn push_metadata(out: &mut Vec<u8>, key: &str, value: &[u8]) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    let room = MAX_METADATA.saturating_sub(out.len());
    let valid = !key.is_empty() && key.len() < 256 && key.bytes().all(allowed);
    if !valid || 5 + key.len() + value.len() > room {
        return false;
    }
    out.push(key.len() as u8);
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn emit_and_parse_are_inverse(
            kind in 0..Kind::ALL.len(), flags: u8, method: u16, call: u32, aux: u32,
            entries in proptest::collection::vec(("[a-z]{1,9}", proptest::collection::vec(any::<u8>(), 0..40)), 0..4),
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut encoded = Vec::new();
            for (key, value) in &entries {
                prop_assert!(push_metadata(&mut encoded, key, value));
            }
            let header = Header { kind: Kind::ALL[kind], flags, method, call, aux, metadata: encoded.len() as u32 };
            let bytes = [&header.emit()[..], &encoded, &body].concat();
            let frame = Frame::parse(&bytes).expect("a frame");
            prop_assert_eq!(frame.header, header);
            prop_assert_eq!(frame.body, &body[..]);
            let back: Vec<_> = metadata(frame.metadata).map(|(k, v)| (k.to_string(), v.to_vec())).collect();
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn any_bytes_parse_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(frame) = Frame::parse(&bytes) {
                metadata(frame.metadata).for_each(drop);
            }
        }
    }

    #[test]
    fn keys_are_checked() {
        let mut out = Vec::new();
        for key in ["", "Upper", "sp ace", &"x".repeat(256)] {
            assert!(!push_metadata(&mut out, key, b""), "{key:?}");
        }
        assert!(!push_metadata(&mut out, "big", &vec![0; MAX_METADATA]));
        assert!(out.is_empty());
    }
}
