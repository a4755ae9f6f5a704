//! Where fields live, decided while messages flow: the accelerator, and the messages whose fields it places.
//!
//! | module | one word |
//! |---|---|
//! | `accelerator`, `asking` | a place with a memory of its own, behind ring pairs: the host's half |
//! | `lane_thread`, `executor` | one of its threads, as the host sees it; its own half |
//! | `receive` | the lanes that decode arriving messages and place their fields |
//! | `message` | a message whose fields lie in two memories, and the memory that it owns |
//! | `transfer` | moving a field from one memory to the other |
//! | `field_unit` | compute units that work on fields of messages |
//! | `handling` | the same for messages that a handler has views and editors of |
//! | `live`, `swap` | the table that lanes use now, replaced whole; one epoch number tells that it changed |
//! | `passage` | what crosses for one request alone |
//! | `votes` | when a field's target bit follows the program, and when not (hysteresis) |

mod accelerator;
mod asking;
mod executor;
mod field_unit;
mod handling;
mod lane_thread;
mod live;
mod message;
mod passage;
mod receive;
mod swap;
mod transfer;
mod votes;

/// What `swap` is made of; loom's in its tests.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
    pub(super) use std::sync::{Mutex, MutexGuard};
}

#[cfg(test)]
mod tests;

pub use accelerator::{Accelerator, Busy, Figures, Options, Ticket};
pub use asking::SendRefused;
pub use field_unit::{FieldUnit, RunError, Work};
pub use handling::{BytesTarget, Copies, TextField};
pub use live::{FieldId, Live, Reader};
pub use message::Placed;
pub use passage::Passage;
pub use receive::Registers;
pub use transfer::MoveError;
pub use votes::Votes;
