//! The deserialiser: a table-driven machine that turns wire bytes into objects.
//!
//! ```text
//! wire bytes ─▶ lane: tag → expected entry? → value ─▶ sink ─▶ objects in host or accelerator memory
//!                │          └ no: lookup by number      │ direct        this thread's memory
//!                └ stack of open messages               │ one-shot      temp buffer, one write per 4 KiB
//!                                                       └ field-by-field the baseline: one write per field
//! ```
//!
//! [`Decoder`] decodes into an [`Arena`] that the caller owns, either *borrowed* (strings and bytes point into the input) or
//! *owned* (they are copied). The sinks that write across to another memory are driven by the executor.
//!
//! Bounds: depth, input length and memory, see [`Limits`]. Errors: [`DecodeError`] says what and at which byte.
//! Sources: RPCAcc III-B; hyperpb (next-field prediction); upb (loads that may run past the end).

pub(crate) mod across;
mod direct;
mod error;
mod lane;
mod limits;
mod maps;
pub(crate) mod sink;
mod skip;
mod text;
mod varint;
mod window;

pub use across::Writes;
pub use error::{DecodeError, Fault};
pub use limits::Limits;

use crate::memory::Arena;
use crate::object::View;
use crate::table::Table;
pub(crate) use lane::Lane;

/// Decodes messages one after the other into arenas; keeps its stack between them.
#[derive(Debug, Default)]
pub struct Decoder {
    lane: Lane,
}

// SAFETY: the lane's pointers are into the message being decoded and those around it; each decode begins without any, and between
// two of them none is looked at.
unsafe impl Send for Decoder {}

impl Decoder {
    /// A decoder with these limits.
    pub fn new(limits: Limits) -> Decoder {
        Decoder { lane: Lane::new(limits) }
    }

    /// Decodes `input` as a message of `class`; strings and bytes of the result point into `input`.
    ///
    /// # Errors
    /// The input is malformed, or a limit was met.
    #[inline]
    pub fn borrowed<'a>(
        &mut self,
        table: &Table,
        class: u32,
        input: &'a [u8],
        arena: &'a Arena,
    ) -> Result<View<'a>, DecodeError> {
        self.decode::<true>(table, class, input, arena)
    }

    /// Decodes `input` as a message of `class`; the result does not need `input` any more.
    ///
    /// # Errors
    /// The input is malformed, or a limit was met.
    #[inline]
    pub fn owned<'a>(
        &mut self,
        table: &Table,
        class: u32,
        input: &[u8],
        arena: &'a Arena,
    ) -> Result<View<'a>, DecodeError> {
        self.decode::<false>(table, class, input, arena)
    }

    fn decode<'a, const BORROW: bool>(
        &mut self,
        table: &Table,
        class: u32,
        input: &[u8],
        arena: &'a Arena,
    ) -> Result<View<'a>, DecodeError> {
        let root = self.lane.direct::<BORROW>(table, class, input, arena)?;
        // SAFETY: the lane finished the object in this arena, which nobody writes or resets while it is borrowed; borrowed
        // strings are in `input`, which `borrowed` keeps for 'a.
        Ok(unsafe { View::of(root) })
    }
}
