//! protobuf's JSON mapping: [`parse`] and [`print`](fn@print).
//!
//! Shape: `read` knows JSON, `parse` what a field takes, `special` and `time` the well-known types, `print` the way back; `split`
//! finds the end of a value in a stream of them.
//!
//! What is accepted: names as in JSON or as in the .proto file; numbers also as strings, integers also as `1e3` or `10.0`; enums
//! by name or number; bytes in either base64, padded or not; `null` for "not there". What is refused: members and oneofs that are
//! there twice, numbers out of range, strings that are not Unicode, and, unless [`ParseOptions::ignore_unknown`], names that the
//! schema does not know.

mod parse;
mod print;
mod read;
mod special;
mod split;
#[cfg(test)]
mod tests;
mod time;

pub use parse::{ParseOptions, parse};
pub use print::{PrintOptions, print};
pub use split::{Splitter, TooLong};
