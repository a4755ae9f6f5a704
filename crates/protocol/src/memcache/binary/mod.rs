//! The memcached binary protocol: a header of 24 bytes, extras, key and value, big endian, in both directions.
//!
//! ```text
//!   0      1        2        4         5      6        8          12       16        24
//!   ├──────┼────────┼────────┼─────────┼──────┼────────┼──────────┼────────┼─────────┼──────────────────────
//!   │ magic│ opcode │ length │ length  │  0   │ 0, or  │ length   │ opaque │ version │ extras, key, value …
//!   │      │        │ of key │of extras│      │ status │ of these │        │         │
//! ```
//!
//! There is one execution path for text and binary: a request on an item becomes the meta command that means the same, and its header takes the place of
//! the flags' text ([`Meta::flags_text`]), because that is what a reply returns of its request. What has no key is a [`Binary`]. A reply knows whom it
//! answers by [`Asked`], and [`emit::Reply`](super::emit::Reply) writes frames instead of lines then.
//!
//! `parse` has the grammar of a request, `reply` the frames.
//!
//! Source: memcached's `proto_bin.c` and `doc/protocol-binary.txt`; `tests/differential` of `millrace` compares.
//!
//! [`Meta::flags_text`]: super::Meta::flags_text

pub(super) mod parse;
mod reply;
#[cfg(test)]
mod tests;

use super::Line;
use super::command::Stats;

/// Bytes of the header of a request and of a reply.
pub const HEADER_LEN: usize = 24;

/// First byte of every request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// First byte of every reply.
pub const REPLY_MAGIC: u8 = 0x81;

macro_rules! opcodes {
    ($($name:ident = $number:literal;)*) => {
        /// The second byte of a request, repeated in its reply.
        #[expect(missing_docs, reason = "the names are memcached's")]
        pub mod opcode {
            $(pub const $name: u8 = $number;)*
        }
    };
}

opcodes! {
    GET = 0x00; SET = 0x01; ADD = 0x02; REPLACE = 0x03; DELETE = 0x04; INCREMENT = 0x05; DECREMENT = 0x06; QUIT = 0x07;
    FLUSH = 0x08; GETQ = 0x09; NOOP = 0x0a; VERSION = 0x0b; GETK = 0x0c; GETKQ = 0x0d; APPEND = 0x0e; PREPEND = 0x0f;
    STAT = 0x10; SETQ = 0x11; ADDQ = 0x12; REPLACEQ = 0x13; DELETEQ = 0x14; INCREMENTQ = 0x15; DECREMENTQ = 0x16;
    QUITQ = 0x17; FLUSHQ = 0x18; APPENDQ = 0x19; PREPENDQ = 0x1a; TOUCH = 0x1c; GAT = 0x1d; GATQ = 0x1e;
    SASL_LIST = 0x20; SASL_AUTH = 0x21; SASL_STEP = 0x22; GATK = 0x23; GATKQ = 0x24;
}

/// What a reply repeats of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What was asked.
    pub opcode: u8,
    /// Chosen by the client.
    pub opaque: [u8; 4],
}

impl Asked {
    /// Of the request with this header; none where it is empty, since the request was text.
    #[inline]
    pub fn of(header: &[u8]) -> Option<Asked> {
        let header: &[u8; HEADER_LEN] = header.try_into().ok()?;
        Some(Asked { opcode: header[1], opaque: [header[12], header[13], header[14], header[15]] })
    }

    /// Replies that say "as expected" are left out: hits are not among them, misses are.
    pub fn is_quiet(self) -> bool {
        use opcode::*;
        matches!(
            self.opcode,
            GETQ | GETKQ
                | SETQ
                | ADDQ
                | REPLACEQ
                | DELETEQ
                | INCREMENTQ
                | DECREMENTQ
                | QUITQ
                | FLUSHQ
                | APPENDQ
                | PREPENDQ
                | GATQ
                | GATKQ
        )
    }

    /// The replies to hits and to misses have the key.
    fn wants_key(self) -> bool {
        matches!(self.opcode, opcode::GETK | opcode::GETKQ | opcode::GATK | opcode::GATKQ)
    }
}

/// A request without the key of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binary<'a> {
    /// Its header.
    pub header: &'a [u8],
    /// What it asks.
    pub asks: Asks<'a>,
}

/// What a [`Binary`] asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks<'a> {
    /// `noop`: an empty reply.
    Noop,
    /// `quit`: an empty reply, and the connection ends.
    Quit,
    /// `version`.
    Version,
    /// `stat`: a frame for each, and an empty one.
    Stats(Stats<'a>),
    /// A step of SASL, which is answered so.
    Sasl(Sasl),
    /// Nothing that could be done: the reply has the status and the text of this line.
    Refused(Line),
}

/// Answers to requests of SASL that are not errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sasl {
    /// The names of the mechanisms: `PLAIN` alone, since TLS hides passwords better than any that hides them itself.
    Mechanisms,
    /// Who it is has been believed.
    Authenticated,
    /// User and password are still to come, by a `SASL_STEP`.
    Continues,
}
