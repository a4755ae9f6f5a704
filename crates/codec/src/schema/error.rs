//! What can be wrong with a schema, and where.

use super::options::Contradiction;
use crate::wire::WireError;

/// A schema that cannot be used. Printed, it names the file and the element, and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// The .proto file, as the descriptor set names it; empty when it has no name.
    pub file: String,
    /// What it is about, such as `field photo.Request.quality`; empty when it is about the file.
    pub element: String,
    /// Where in the file, if the set has source info (as the compiler's have).
    pub position: Option<Position>,
    /// What is wrong.
    pub problem: Problem,
}

/// A place in a file, as editors count: both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// See [`SchemaError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The descriptor set is not protobuf.
    Malformed(WireError),
    /// A name is missing, too long, or no identifier.
    Name,
    /// Two elements have this full name.
    DuplicateName(String),
    /// Two fields have this number.
    DuplicateNumber(u32),
    /// Not a number that a field can have.
    FieldNumber(i32),
    /// No message or enum of this name is in the set.
    Unresolved(String),
    /// A number that descriptor.proto gives no meaning here: what, and the number.
    Meaningless(&'static str, i32),
    /// An edition other than 2023.
    Edition(String),
    /// A map entry that is not a pair of an allowed key and a value.
    MapEntry,
    /// A oneof's member is repeated, or names a oneof that is not there.
    Oneof,
    /// An enum without values.
    NoValues,
    /// An open enum that does not begin with 0, which is what an absent field reads as.
    FirstValue(i32),
    /// The default value does not fit the field.
    Default(String),
    /// The target option on a field that is not a dereference field.
    AccOnScalar,
    /// What a method says of itself that cannot be.
    Contradiction(Box<Contradiction>),
    /// More of something than there may be: what, how many, and the limit.
    TooMany(&'static str, usize, usize),
}

impl SchemaError {
    /// The same, with the element that it is in before the one that it has.
    pub(crate) fn inside(mut self, what: &str, name: &str) -> SchemaError {
        let inner = std::mem::take(&mut self.element);
        let between = if inner.is_empty() { "" } else { ": " };
        // What is read before the name has none yet.
        let space = if name.is_empty() { "" } else { " " };
        self.element = format!("{what}{space}{name}{between}{inner}");
        self
    }

    /// The same, with the file's name if it has none yet.
    pub(crate) fn in_file(mut self, file: &str) -> SchemaError {
        if self.file.is_empty() {
            file.clone_into(&mut self.file);
        }
        self
    }
}

impl Problem {
    /// About `element`, in a file that [`SchemaError::in_file`] will name.
    pub(crate) fn at(self, element: impl Into<String>) -> SchemaError {
        SchemaError { file: String::new(), element: element.into(), position: None, problem: self }
    }
}

impl From<WireError> for SchemaError {
    fn from(error: WireError) -> SchemaError {
        Problem::Malformed(error).at("")
    }
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}", self.file)?;
            if let Some(Position { line, column }) = self.position {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": ")?;
        }
        if !self.element.is_empty() {
            write!(f, "{}: ", self.element)?;
        }
        write!(f, "{}", self.problem)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Problem::Malformed(error) => write!(f, "not a descriptor set: {error}"),
            Problem::Name => {
                write!(f, "a name is missing, no identifier, or longer than {} bytes", super::MAX_NAME)
            }
            Problem::DuplicateName(name) => write!(f, "the name {name} is used twice; rename one"),
            Problem::DuplicateNumber(number) => {
                write!(f, "field number {number} is used twice; renumber one")
            }
            Problem::FieldNumber(number) => {
                write!(f, "field number {number} is outside 1..={}", crate::wire::MAX_FIELD_NUMBER)
            }
            Problem::Unresolved(name) => {
                write!(f, "type {name} is not in the descriptor set; make the set with all imports")
            }
            Problem::Meaningless(what, number) => write!(f, "{number} means nothing as {what}"),
            Problem::Edition(edition) => {
                write!(f, "{edition} is not supported; use proto2, proto3 or edition 2023")
            }
            Problem::MapEntry => {
                write!(
                    f,
                    "a map entry must be a key (integer, bool or string) and a value, whose defaults are zero"
                )
            }
            Problem::Oneof => write!(f, "a oneof's member must be singular, and its oneof declared"),
            Problem::NoValues => write!(f, "an enum needs a value"),
            Problem::FirstValue(value) => {
                write!(f, "the first value is {value}; it must be 0, or the enum closed")
            }
            Problem::Default(text) => write!(f, "the default value {text:?} does not fit the field's type"),
            Problem::AccOnScalar => {
                write!(f, "(millrace.acc) is only for string, bytes, repeated and message fields")
            }
            Problem::Contradiction(what) => what.fmt(f),
            Problem::TooMany(what, count, limit) => write!(f, "{count} {what}; the limit is {limit}"),
        }
    }
}

impl std::error::Error for SchemaError {}
