//! What can be changed while messages are serialised.

use std::sync::atomic::AtomicUsize;

/// Live settings of the host's side, shared by all threads that serialise.
#[derive(Debug)]
pub struct Settings {
    /// Values at least this long are copied by the copy engine, shorter ones by the CPU. Bytes, any value. Default:
    /// `usize::MAX`, never: handing over to a thread has not paid up to 4 MiB where `benches/serialise.rs` was run. With
    /// copy engines in hardware, or a core to spare, measure and lower it.
    pub copy_threshold_bytes: AtomicUsize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { copy_threshold_bytes: AtomicUsize::new(usize::MAX) }
    }
}
