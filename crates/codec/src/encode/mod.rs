//! The serialiser: objects to protobuf's wire format, in one pass from the back.
//!
//! [`Encoder`] is the CPU alone, over objects in host memory: what most users want.
//!
//! Errors: [`EncodeError`]. Bounds: depth (100 unless told otherwise), 2 GiB − 1 of output.
//! Sources: RPCAcc III-C.

mod back;
mod error;
mod source;
mod walk;
mod wire;

#[cfg(test)]
mod tests;

pub use error::EncodeError;

use crate::object::View;
use crate::table::Table;
use back::Back;
use source::Here;
use walk::Walk;
use wire::Wire;

/// Messages within messages that are serialised, the root included, unless told otherwise; as many as are decoded.
pub const DEPTH: u32 = 100;

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
        self.back.check()?;
        Ok(self.back.written())
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
