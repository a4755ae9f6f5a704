//! The client of key-value servers and of RPC for C: `include/millrace.h` is made from this crate, and says how it is used.
//!
//! | file | what it is |
//! |---|---|
//! | `status` | how a function ended |
//! | `boundary` | pointers that come from C, texts that go there, panics that stop here |
//! | `options` | how a session or a channel is opened |
//! | `session` | a session with a key-value server: its life |
//! | `items` | its operations, each of which waits for its answer |
//! | `pipeline` | requests that are submitted and completed |
//! | `channel` | calls of RPC |
//!
//! Why a crate of its own: only it is a library for others, with symbols and a name that stay; programs of Rust use `client` and `fabric`.
//!
//! Shape: a function checks its pointers, makes slices of them, and has `client::kv` do the rest. What it hands out lies in the session's memory until
//! the session's next function, so nothing is allocated for an answer and nothing is freed by who asked.
//!
//! Invariants
//! 1. No panic leaves it: it is caught at the boundary, and the session or channel does nothing more.
//! 2. Two threads in one session are told so ([`Status::Busy`]), and nothing is touched by the second.
//! 3. A pointer is read only if it is not null, and for as many bytes as its length says; one of length 0 may be null.
//!
//! Tests: `tests/header.rs` (the header is what this makes, and each of its functions is in the library); from C, Python and Go against servers,
//! `millrace/tests/languages`.

mod boundary;
mod channel;
mod items;
mod options;
mod pipeline;
mod session;
mod status;

pub use channel::*;
pub use items::*;
pub use options::*;
pub use pipeline::*;
pub use session::*;
pub use status::*;
