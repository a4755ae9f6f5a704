//! The in-network cache: its topology, a client of its boxes and homes, and what that client shares with the nodes: a machine at a socket.
//!
//! ```text
//!   topology (a file) ──▶ book: who is where ─┐
//!                     └─▶ machine: box, home, controller, client ──▶ driver: a thread and a UDP socket
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `client`, `pipelined` | the client: with waiting, and without |
//! | `topology`, `registers`, `secret`, `book` | which nodes there are, how they are tuned, what they prove themselves with, where they are |
//! | `machine`, `driver`, `wire`, `datagrams` | a machine, at a socket, sealed, many datagrams at a time |
//! | `padding`, `times` | how much a client pads its requests; how long datagrams take |
//! | `stream`, `ways` | memcached connections to homes, for what is too long for a packet; both ways of a client |
//! | `error` | what is wrong with a topology |
//!
//! What the machines promise, and why: `docs/design/004-box.md`. The nodes are in `serve::inc`.

pub mod book;
pub mod client;
pub mod datagrams;
pub mod driver;
mod error;
pub mod machine;
pub mod padding;
mod pipelined;
pub mod registers;
mod secret;
pub mod stream;
pub mod times;
pub mod topology;
mod ways;
pub mod wire;

pub use client::{Client, ClientError, Item, Swap};
pub use error::TopologyError;
pub use topology::Topology;
