//! Ports: the rings between application threads and the thread that owns the links, Dagger's interface between processor and NIC.
//!
//! Why: links have one owner and applications many threads. A port is one thread's way to the owner (the *core*) and back, for
//! frames as values ([`Packet`]). Unlike [`ring::pair`] neither direction owes the other an answer: streams need that.
//!
//! Shape:
//! ```text
//! thread 0   Port ══ up: inline │ doorbell │ coherent ══▶ ┐
//!                 ◀═ down: bursts of entries ════════════ ├ Ports   core
//! thread 1   Port ══ …                                    ┘
//! ```
//! | file | what it is |
//! |---|---|
//! | `packet` | a frame as a value |
//! | `mode` | modes and sizes |
//! | `ends` | one direction's ring and its bytes |
//! | `application` | [`Port`], an application thread's side |
//! | `attached`, `places`, `ports` | the core's side of one port, which to look at, of all |
//! | `open` | [`Opener`], names, errors |
//! | `common`, `bells`, `weight` | what the sides share |
//! | `polling` | the policy of two-level polling |
//!
//! Modes, sizes and thresholds change while it runs: [`Ports::replace`] lays out other rings of any mode, the application takes
//! them with its next flush, and both sides empty the old rings first.
//!
//! Bounds: entries and boxed bytes per port and direction; what does not fit is refused and given back.
//!
//! Tests: `tests.rs`; the lock-free parts are [`ring::spsc`], [`ring::summary`] and [`ring::wait`], which run under loom there.

mod application;
mod attached;
mod bells;
mod common;
mod ends;
mod mode;
mod open;
mod packet;
mod places;
pub mod polling;
mod ports;
pub(crate) mod weight;

pub use application::Port;
pub use mode::{Mode, PortOptions};
pub use open::{OpenError, Opener, PortId, SendError};
pub use packet::Packet;
pub use ports::{Ports, PortsOptions};

#[cfg(test)]
mod tests;
