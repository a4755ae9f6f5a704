//! The registers of a topology, as an admin port shows them.

pub use ::client::cache::registers::*;

/// The registers of a topology, for its nodes' admin port: shown, and none of them set, for all nodes must agree.
pub(crate) struct Shared(pub Registers);

impl crate::admin::Tuned for Shared {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.0
    }
}
