//! What can be changed while messages are serialised.

use std::sync::atomic::AtomicUsize;

/// Live settings of the host's side, shared by all threads that serialise.
#[derive(Debug)]
pub struct Settings {
    /// Fields at least this long are copied by the copy engine, shorter ones by the CPU. Bytes, any value; `usize::MAX`
    /// means never. Default: 256 KiB. Below some size a hand-over costs more than the copy: `benches/serialise.rs` measures
    /// where.
    pub copy_threshold_bytes: AtomicUsize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { copy_threshold_bytes: AtomicUsize::new(256 << 10) }
    }
}
