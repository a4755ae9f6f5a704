//! What is wrong, and where: in the text, and in the message.

use std::fmt;

/// Why a text is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The field, as `items[2].prices["eur"].cents`; empty for the message itself.
    pub path: String,
    /// What is wrong, and what is wanted.
    pub what: String,
}

impl TextError {
    pub(super) fn of(text: &str, path: &Path<'_>, bad: Bad) -> TextError {
        let before = &text.as_bytes()[..bad.at.min(text.len())];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        // Continuation bytes are no characters of their own.
        let column = before[line_start..].iter().filter(|&&byte| byte & 0xc0 != 0x80).count() + 1;
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        TextError { line, column, path: path.to_string(), what: bad.what }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, ", at {}", self.path)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for TextError {}

/// Why a message has no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintError {
    /// As [`TextError::path`].
    pub path: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for PrintError {}

/// An error at a position, before it is known which line that is in.
#[derive(Debug)]
pub(super) struct Bad {
    pub at: usize,
    pub what: String,
}

impl Bad {
    pub fn new(at: usize, what: impl Into<String>) -> Bad {
        Bad { at, what: what.into() }
    }
}

/// Where in the message the parser is. What failed leaves it as it was then.
#[derive(Debug, Default)]
pub(super) struct Path<'t>(Vec<Step<'t>>);

#[derive(Debug)]
pub(super) enum Step<'t> {
    Field(&'t str),
    Element(usize),
    Key(String),
}

impl<'t> Path<'t> {
    pub fn push(&mut self, step: Step<'t>) {
        self.0.push(step);
    }

    pub fn pop(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if index == 0 => write!(f, "{name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Element(element) => write!(f, "[{element}]")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}
