//! The host's side of serialising: what the CPU does before the accelerator is told.

use super::error::EncodeError;
use super::record::{Outbox, Records};
use super::settings::Settings;
use super::source::Here;
use super::walk::Walk;
use super::{Encoder, Strategy};
use crate::copy::{CopyEngine, Inline, Pending};
use crate::crossing::Crossing;
use crate::memory::{Memory, OutOfMemory};
use crate::object::{Addr, View};
use crate::table::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What the host tells the accelerator in one MMIO write: serialise and send this.
///
/// It is an address, not a borrow: see [`Accelerator::serialise`](super::Accelerator::serialise) for how long what it
/// refers to must live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Bell {
    /// In host memory: the encoded message, the root object, or the pre-serialised records.
    pub addr: Addr,
    /// What the RPC layer needs for its header; the serialiser passes it on.
    pub header: u64,
    /// Bytes at `addr`.
    pub len: u32,
    /// Class of the message.
    pub class: u32,
    /// What `addr` refers to.
    pub strategy: Strategy,
}

// SAFETY: a Bell is a message to another thread; following its address is that thread's own unsafe act.
unsafe impl Send for Bell {}

impl Bell {
    /// Bytes of the MMIO write.
    pub const BYTES: usize = size_of::<Bell>();
}

/// One thread's side of serialising. It holds one message at a time: the next call reuses its buffers.
pub struct Host<E = Inline> {
    encoder: Encoder,
    outbox: Outbox,
    engine: E,
    settings: Arc<Settings>,
    depth: u32,
}

impl<E: CopyEngine> Host<E> {
    /// A host's side with buffers in `memory`, which the accelerator can read, and an engine for long copies.
    ///
    /// # Errors
    /// The memory is full.
    pub fn new(
        memory: &Arc<Memory>,
        engine: E,
        settings: Arc<Settings>,
        depth: u32,
    ) -> Result<Host<E>, OutOfMemory> {
        Ok(Host { encoder: Encoder::new(depth), outbox: Outbox::new(memory)?, engine, settings, depth })
    }

    /// Does the host's part of serialising `root` and rings the accelerator's doorbell with what is returned.
    ///
    /// # Errors
    /// Too deep, too long, no memory; with [`Strategy::CpuOnly`] a field is in accelerator memory. Then nothing is rung.
    ///
    /// # Safety
    /// `root` is an object of `class` of `table`, or of a table with the same layout.
    pub unsafe fn prepare(
        &mut self,
        crossing: &impl Crossing,
        strategy: Strategy,
        table: &Table,
        class: u32,
        root: View<'_>,
        header: u64,
    ) -> Result<Bell, EncodeError> {
        // SAFETY: the caller's promise, for each strategy.
        let (addr, len) = unsafe {
            match strategy {
                Strategy::CpuOnly => {
                    let bytes = self.encoder.encoded(table, class, root)?;
                    (Addr::host(bytes.as_ptr().cast_mut()), bytes.len())
                }
                Strategy::AcceleratorOnly => {
                    let size = table.message(class).size as usize;
                    (Addr::host(root.object().start().as_ptr()), size)
                }
                Strategy::MemoryAffinity => {
                    self.stage(table, class, root)?;
                    (Addr::host(self.outbox.start().as_ptr()), self.outbox.len())
                }
            }
        };
        let len = u32::try_from(len).map_err(|_| EncodeError::TooLong)?;
        crossing.doorbell(Bell::BYTES);
        Ok(Bell { addr, header, len, class, strategy })
    }

    /// Pre-serialises `root`: all copies are complete when this returns.
    ///
    /// # Safety
    /// As [`Host::prepare`].
    unsafe fn stage(&mut self, table: &Table, class: u32, root: View<'_>) -> Result<(), EncodeError> {
        self.outbox.clear();
        let threshold = self.settings.copy_threshold_bytes.load(Relaxed);
        let visitor = Records { out: &mut self.outbox, copies: Pending(&mut self.engine), threshold };
        let mut walk = Walk { table, source: Here, visitor, depth: self.depth };
        // SAFETY: the caller's promise, and View's: all of it is alive and not written.
        unsafe { walk.message(class, root.object()) }
    }
}

impl<E> std::fmt::Debug for Host<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Host({} bytes pre-serialised, {:?})", self.outbox.len(), self.encoder)
    }
}
