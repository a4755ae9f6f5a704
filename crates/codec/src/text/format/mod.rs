//! protobuf's text format: [`parse`] and [`print`](fn@print).
//!
//! Shape: `read` makes tokens, `parse` what a field takes, `print` the way back.
//!
//! What is accepted: fields by name, groups by the name of their type, extensions in brackets, messages in an Any under
//! their type URL in brackets; lists; `<>` for `{}`; strings in pieces, with all escapes of C. What is refused: singular fields and
//! oneofs that are there twice, names that the schema does not know, fields by number.

mod parse;
mod print;
mod read;
#[cfg(test)]
mod tests;

pub use parse::parse;
pub use print::{PrintOptions, print};
