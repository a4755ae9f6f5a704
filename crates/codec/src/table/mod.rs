//! The schema table: one flat array of 64-byte lines that drives parsing, serialising, and where each field lands.
//!
//! Why flat: a lane walks it with two loads per field, it can be copied and replaced as one block while messages are in
//! flight, and it could be put into an accelerator's memory as it is. Names, defaults and options are not in it; they are
//! cold and live in [`crate::schema`].
//!
//! Shape (line = 64 bytes, little-endian, offsets in bytes):
//!
//! ```text
//! line 0              header: magic u32 | version u32 | lines u32 | classes u32 | layout hash u64 | 0…
//! line 1 + class      message: see `Message`, one line each, class ids are dense
//! then, per message   field entries: 16 bytes each, four to a line, ascending field numbers: see `Entry`
//!                     lookup: u16 per field number 0..dense, 32 to a line: entry index + 1, 0 = unknown
//!                     required: u32 masks, one per presence word, 16 to a line (only if a field is required)
//! then, per enum      closed enums only: see `ClosedEnum`, then its values in ascending order, i32, 16 to a line
//! ```
//!
//! Next-field chaining: `Entry::next` is the entry that a canonical encoder writes after this one: itself for a repeated
//! field that is not packed, else the following one (the last one chains to the first: elements of a repeated message
//! begin anew). A lane compares one tag; only on a miss does it go through the lookup.
//!
//! Sources: RPCAcc III-B (Schema Table, target bit); hyperpb's type parsers (next-field chaining); protoacc's descriptor
//! tables (dense by field number).

mod describe;
mod entry;
mod lines;

pub use entry::{ClosedEnum, Entry, Flags, Kind, Message};
pub use lines::{Line, Table};
