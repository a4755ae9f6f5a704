//! The memcached protocols, text (classic and meta) and binary, as a server speaks them: bytes in, commands out; results in, bytes out.
//!
//! Nothing here knows a store, a clock or a socket. A connection owns a [`Parser`] and a read buffer:
//!
//! ```text
//!   socket ──▶ buffer ──▶ Parser::next ──▶ Command<'_> ──▶ whatever stores things
//!                             │                                   │ plain result values
//!                             └── Malformed, TooLarge ──▶ Reply ◀─┘ ──▶ socket
//! ```
//!
//! One file per purpose: [`command`] what a request means, [`login`] who may ask, [`need`] which rights that takes, [`parse`] the incremental
//! machine, `classic`, `admin` and [`meta`] the grammar of one line, [`emit`] replies and their bounds, [`lines`] the fixed texts, [`exptime`] times,
//! [`binary`] frames, [`udp`] the datagram frame, [`client`] the other side, for those who send requests.
//!
//! The measure is memcached 1.6.18 as Debian 12 ships it; `tests/oracle.rs` compares whole conversations with it byte
//! by byte, and `docs/memcached-differences.md` lists every deliberate difference.
//!
//! Source: memcached's `doc/protocol.txt`.

mod admin;
mod base64;
pub mod binary;
mod classic;
pub mod client;
pub mod command;
pub mod emit;
pub mod exptime;
pub mod lines;
pub mod login;
pub mod meta;
pub mod need;
mod number;
mod outcome;
pub mod parse;
mod tokens;
pub mod udp;
pub mod watch;

pub use binary::{Asked, Asks, Binary, Sasl};
pub use command::{Command, Dump, Get, Shutdown, Stats, Store, StoreVerb, TooLarge};
pub use emit::Reply;
pub use exptime::Exptime;
pub use lines::Line;
pub use login::{Entry, LOGIN_FAILURES_MAX, LOGIN_MAX, Login, Protocol};
pub use meta::{Meta, MetaArith, MetaDelete, MetaFlags, MetaGet, MetaSet, SetMode};
pub use need::Need;
pub use number::decimal;
pub use parse::{CloseReason, Parser, Step};

/// Longest key in bytes, counted as it stands in the request (a base64 key is counted before decoding).
pub const KEY_MAX: usize = 250;

/// Longest request line in bytes with its newline. Only retrievals may be longer; their keys are handed out one by one.
pub const LINE_MAX: usize = 2048;

/// Longest opaque token of a meta command, with its leading `O`.
pub const OPAQUE_MAX: usize = 32;

/// Largest value a request may announce: the length travels as a signed 32-bit number with the line end added.
pub const VALUE_LEN_MAX: u64 = i32::MAX as u64 - 2;
