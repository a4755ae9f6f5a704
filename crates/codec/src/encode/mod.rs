//! The serialiser: objects to protobuf's wire format, in one pass from the back.
//!
//! [`Encoder`] is the CPU alone, over objects in host memory: what most users want. When messages leave through an
//! accelerator, [`Host`] and [`Accelerator`] share the work as a [`Strategy`] says; whichever it is, the bytes are the same,
//! since one walk decides what is written.
//!
//! ```text
//!                    host                         crosses                    accelerator
//! CpuOnly            walk, encode            ──▶  doorbell, encoded bytes ─▶ -
//! AcceleratorOnly    -                       ──▶  doorbell; one read per object, array, string: walk, encode
//! MemoryAffinity     walk, copy as it is     ──▶  doorbell, records       ─▶ encode, merge what it has itself
//! ```
//!
//! Errors: [`EncodeError`]. Bounds: depth (100 unless told otherwise), 2 GiB − 1 of output.
//! Sources: RPCAcc III-C.

mod accelerator;
mod back;
mod error;
mod host;
mod later;
mod merge;
mod record;
mod settings;
mod source;
mod walk;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use accelerator::Accelerator;
pub use error::EncodeError;
pub use host::{Bell, Host};
pub use settings::Settings;

use crate::object::View;
use crate::table::Table;
use back::Back;
use source::Here;
use walk::Walk;
use wire::Wire;

/// Messages within messages that are serialised, the root included, unless told otherwise; as many as are decoded.
pub const DEPTH: u32 = 100;

/// Who serialises, when the message leaves through an accelerator (RPCAcc III-C, options 1 to 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Strategy {
    /// The CPU encodes; the accelerator fetches the bytes. Fields in accelerator memory must be moved to the CPU before.
    CpuOnly = 1,
    /// The accelerator walks the host's objects: no work for the CPU, a round trip for each pointer.
    AcceleratorOnly = 2,
    /// The CPU copies values to one buffer without encoding them and leaves out what is in accelerator memory; the
    /// accelerator fetches that, encodes, and merges.
    MemoryAffinity = 3,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 3] = [Strategy::CpuOnly, Strategy::AcceleratorOnly, Strategy::MemoryAffinity];
}

/// Serialises messages one after the other; keeps its buffer between them.
pub struct Encoder {
    back: Back,
    depth: u32,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new(DEPTH)
    }
}

impl Encoder {
    /// An encoder that takes `depth` messages within each other, the root included.
    pub fn new(depth: u32) -> Encoder {
        Encoder { back: Back::new(), depth }
    }

    /// The message, encoded, until the next call.
    ///
    /// # Errors
    /// Too deep, too long, or a field is in accelerator memory.
    ///
    /// # Safety
    /// `root` is an object of `class` of `table`, or of a table with the same layout.
    #[inline]
    pub unsafe fn encoded(
        &mut self,
        table: &Table,
        class: u32,
        root: View<'_>,
    ) -> Result<&[u8], EncodeError> {
        self.back.clear();
        let visitor = Wire { back: &mut self.back };
        let mut walk = Walk { table, source: Here, visitor, depth: self.depth };
        // SAFETY: the caller's promise, and View's: all of it is alive and not written.
        unsafe { walk.message(class, root.object())? };
        self.back.finish()?;
        Ok(self.back.written())
    }

    /// What the last call encoded, until the next one.
    #[inline]
    pub fn written(&self) -> &[u8] {
        self.back.written()
    }

    /// The message, encoded, behind `headroom` zeroed bytes for a header, until the next call.
    ///
    /// # Errors
    /// As [`Encoder::encoded`].
    ///
    /// # Safety
    /// As [`Encoder::encoded`].
    #[inline]
    pub unsafe fn framed(
        &mut self,
        table: &Table,
        class: u32,
        root: View<'_>,
        headroom: usize,
    ) -> Result<&mut [u8], EncodeError> {
        // SAFETY: the caller's promise.
        unsafe { self.encoded(table, class, root)? };
        self.back.with_headroom(headroom)
    }

    /// Appends the message to `out`; how many bytes.
    ///
    /// # Errors
    /// As [`Encoder::encoded`]; `out` is unchanged then.
    ///
    /// # Safety
    /// As [`Encoder::encoded`].
    #[inline]
    pub unsafe fn encode(
        &mut self,
        table: &Table,
        class: u32,
        root: View<'_>,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.encoded(table, class, root)? };
        out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Writes the message to the front of `out`; how many bytes.
    ///
    /// # Errors
    /// As [`Encoder::encoded`], or `out` is too small; `out` is unchanged then.
    ///
    /// # Safety
    /// As [`Encoder::encoded`].
    #[inline]
    pub unsafe fn encode_to_slice(
        &mut self,
        table: &Table,
        class: u32,
        root: View<'_>,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.encoded(table, class, root)? };
        let room = out.get_mut(..bytes.len()).ok_or(EncodeError::Room { needed: bytes.len() })?;
        room.copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder({} bytes written, depth {})", self.back.len(), self.depth)
    }
}
