//! Messages as text that people read and write, by the schema table: protobuf's JSON mapping ([`json`]) and its text format
//! ([`mod@format`]).
//!
//! Shape: a reader of characters, a parser that fills a [`DynamicMut`](crate::object::DynamicMut), and a printer that walks a
//! [`Dynamic`](crate::object::Dynamic); what both formats share is here: names of fields (`names`), the messages that have a
//! text of their own (`known`), extensions (`extras`), numbers, and where something is wrong (`error`).
//!
//! Bounds: messages nest as deep as [`Limits`](crate::decode::Limits) say and no deeper, which is also what bounds recursion; an
//! input is at most as long, and the arena grows at most by as much, as they say.
//!
//! Errors: [`TextError`] names line, column and the path of the field; no text panics.
//!
//! Sources: protobuf.dev's "ProtoJSON Format" and "Text Format Language Specification"; what they leave open is as the
//! conformance suite has it (`tests/conformance.rs`).

mod base64;
mod error;
mod extras;
pub mod format;
pub mod json;
mod known;
mod names;
mod number;
mod seen;

pub use error::{PrintError, TextError};

use error::Bad;

/// Levels left of the nesting that is allowed.
struct Depth(u32);

impl Depth {
    /// One level down, from something at position `at`; [`Depth::leave`] goes back up.
    fn enter(&mut self, at: usize) -> Result<(), Bad> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| Bad::new(at, "messages are nested too deeply"))?;
        Ok(())
    }

    fn leave(&mut self) {
        self.0 += 1;
    }
}
