//! Where fields live, decided while messages flow: the accelerator, and the messages whose fields it places.
//!
//! | module | one word |
//! |---|---|
//! | `accelerator`, `executor` | a place with a memory of its own behind a ring pair: the host's half, and its own |
//! | `receive` | the lanes that decode arriving messages and place their fields |
//! | `message` | a message whose fields lie in two memories, and the memory that it owns |
//! | `transfer` | moving a field from one memory to the other |
//! | `field_unit` | compute units that work on fields of messages |
//! | `live`, `swap` | the table that lanes use now, replaced whole; one epoch number tells that it changed |
//! | `votes` | when a field's target bit follows the program, and when not (hysteresis) |

mod accelerator;
mod executor;
mod field_unit;
mod live;
mod message;
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

pub use accelerator::{Accelerator, Busy, Options, Ticket};
pub use field_unit::{FieldUnit, RunError, Work};
pub use live::{FieldId, Live, Reader};
pub use message::Placed;
pub use receive::Registers;
pub use transfer::MoveError;
pub use votes::Votes;
