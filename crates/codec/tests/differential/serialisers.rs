//! The host's and the accelerator's side of serialising, both in this thread.

use codec::copy::Inline;
use codec::crossing::Shared;
use codec::encode::{Accelerator, DEPTH, EncodeError, Host, Settings, Strategy};
use codec::memory::Memory;
use codec::object::View;
use codec::table::Table;
use std::sync::Arc;

/// Accelerator memory: the largest message that is walked there, and some.
const ACC_BYTES: usize = 256 << 20;

/// Writes messages by any strategy.
pub struct Serialisers {
    host: Host<Inline>,
    accelerator: Accelerator,
    crossing: Shared,
}

impl Default for Serialisers {
    fn default() -> Serialisers {
        let acc = Memory::acc(ACC_BYTES).expect("address space for a second memory");
        let host = Host::new(Memory::process(), Inline, Arc::new(Settings::default()), DEPTH);
        Serialisers {
            host: host.expect("room for an outbox"),
            accelerator: Accelerator::new(&acc),
            crossing: Shared::default(),
        }
    }
}

impl Serialisers {
    /// The message, encoded.
    ///
    /// # Safety
    /// `root` is an object of `class` of `table`.
    pub unsafe fn write(
        &mut self,
        strategy: Strategy,
        table: &Table,
        class: u32,
        root: View<'_>,
    ) -> Result<Vec<u8>, EncodeError> {
        // SAFETY: the caller's promise; the bell is served before the host prepares anything else.
        unsafe {
            let bell = self.host.prepare(&self.crossing, strategy, table, class, root, 0)?;
            self.accelerator.serialise(&self.crossing, table, &bell, 0).map(|bytes| bytes.to_vec())
        }
    }
}
