//! Transactions as people write and read them.
//!
//! ```text
//!  transaction  operation, or several with ; between them
//!  operation    get KEY            put KEY VALUE       add KEY NUMBER       del KEY
//!               if-exists KEY      if-missing KEY      if-version KEY NUMBER
//!               if-value KEY VALUE                     if-at-least KEY NUMBER
//!  KEY, VALUE   a word: any characters but blanks, control characters, ; " and \
//!               or in quotes, with \" \\ \n \r \t and \xHH for any byte
//! ```
//!
//! ```
//! use protocol::chain::Transaction;
//!
//! let transfer: Transaction = "if-at-least ann 4; add ann -4; add bob 4; get \"last transfer\"".parse()?;
//! assert_eq!(transfer.to_string(), "if-at-least ann 4; get \"last transfer\"; add ann -4; add bob 4");
//! # Ok::<(), protocol::chain::text::ParseError>(())
//! ```
//!
//! A claim is not in it: who has one says so by other means ([`Transaction::claim`]).
//! What is shown says conditions, reads and writes in this order, each kind in its own; parsing it gives the same transaction.
//!
//! Bounds: none of its own; [`Transaction::check`] has those of a transaction. Errors: [`ParseError`].

use super::Transaction;
use super::transaction::{Change, Condition};
use std::fmt::{self, Write};
use std::str::FromStr;

/// What was expected where, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Characters before it, and one.
    pub column: usize,
    /// What may stand there.
    pub expected: &'static str,
    /// What does; empty at the end.
    pub found: String,
}

const OPERATION: &str =
    "an operation: get, put, add, del, if-version, if-exists, if-missing, if-value or if-at-least";
const NUMBER: &str = "a whole number of 64 bits";

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}, found ", self.column, self.expected)?;
        if self.found.is_empty() { f.write_str("the end") } else { write!(f, "`{}`", self.found) }
    }
}

impl std::error::Error for ParseError {}

/// What is left to read of a text.
#[derive(Clone)]
struct Text<'a> {
    whole: &'a str,
    at: usize,
}

/// A word or quoted bytes, and where they began.
struct Word {
    bytes: Vec<u8>,
    at: usize,
}

fn is_plain(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || matches!(c, ';' | '"' | '\\'))
}

impl<'a> Text<'a> {
    fn rest(&self) -> &'a str {
        &self.whole[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.whole.len() - self.rest().trim_start().len();
    }

    /// That something else is expected than what stands at `at`.
    fn error(&self, at: usize, expected: &'static str) -> ParseError {
        let rest = &self.whole[at..];
        let end = rest.char_indices().skip(1).find(|(_, c)| !is_plain(*c)).map_or(rest.len(), |(end, _)| end);
        let found: String = rest[..end].chars().take(40).collect();
        ParseError { column: 1 + self.whole[..at].chars().count(), expected, found }
    }

    /// The next word, which is `expected`.
    fn word(&mut self, expected: &'static str) -> Result<Word, ParseError> {
        self.skip_blanks();
        let at = self.at;
        if let Some(quoted) = self.rest().strip_prefix('"') {
            self.at += 1;
            return self.quoted(quoted).map(|bytes| Word { bytes, at });
        }
        let end = self.rest().find(|c| !is_plain(c)).unwrap_or(self.rest().len());
        let word = &self.rest()[..end];
        self.at += end;
        if self.rest().starts_with(['\\', '"']) {
            return Err(self.error(self.at, "a blank or ;, since escapes and quotes stand in quotes only"));
        }
        if word.is_empty() { Err(self.error(at, expected)) } else { Ok(Word { bytes: word.into(), at }) }
    }

    /// The bytes up to the closing quote.
    fn quoted(&mut self, text: &str) -> Result<Vec<u8>, ParseError> {
        let mut bytes = Vec::new();
        let mut chars = text.char_indices();
        let start = self.at;
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + i + 1;
                    let is_end = self.rest().is_empty()
                        || self.rest().starts_with(|c: char| c == ';' || c.is_whitespace());
                    return if is_end {
                        Ok(bytes)
                    } else {
                        Err(self.error(self.at, "a blank or ; after quotes"))
                    };
                }
                '\\' => {
                    let escape = || self.error(start + i, "an escape: \\\" \\\\ \\n \\r \\t or \\xHH");
                    bytes.push(match chars.next().ok_or_else(escape)?.1 {
                        'n' => b'\n',
                        'r' => b'\r',
                        't' => b'\t',
                        c @ ('"' | '\\') => c as u8,
                        'x' => {
                            let mut digit = || chars.next()?.1.to_digit(16);
                            let (high, low) = (digit(), digit());
                            high.zip(low).map(|(high, low)| (16 * high + low) as u8).ok_or_else(escape)?
                        }
                        _ => return Err(escape()),
                    });
                }
                c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Err(self.error(self.whole.len(), "a closing quote"))
    }

    fn number<N: FromStr>(&mut self, expected: &'static str) -> Result<N, ParseError> {
        let word = self.word(expected)?;
        let number = std::str::from_utf8(&word.bytes).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.error(word.at, expected))
    }

    fn operation(&mut self, to: &mut Transaction) -> Result<(), ParseError> {
        let name = self.word(OPERATION)?;
        let known: [&[u8]; 9] = [
            b"get",
            b"put",
            b"add",
            b"del",
            b"if-version",
            b"if-exists",
            b"if-missing",
            b"if-value",
            b"if-at-least",
        ];
        if !known.contains(&&name.bytes[..]) || self.whole[name.at..].starts_with('"') {
            return Err(self.error(name.at, OPERATION));
        }
        let key = self.word("a key")?.bytes;
        match &name.bytes[..] {
            b"get" => to.reads.push(key),
            b"put" => to.writes.push((key, Change::Put(self.word("a value")?.bytes))),
            b"add" => to.writes.push((key, Change::Add(self.number(NUMBER)?))),
            b"del" => to.writes.push((key, Change::Delete)),
            b"if-version" => {
                let version = self.number("a version: a whole number, 0 for an absent key")?;
                to.conditions.push((key, Condition::Version(version)));
            }
            b"if-exists" => to.conditions.push((key, Condition::Exists)),
            b"if-missing" => to.conditions.push((key, Condition::Version(0))),
            b"if-value" => to.conditions.push((key, Condition::Value(self.word("a value")?.bytes))),
            _ => to.conditions.push((key, Condition::AtLeast(self.number(NUMBER)?))),
        }
        Ok(())
    }
}

impl FromStr for Transaction {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Transaction, ParseError> {
        let mut transaction = Transaction::default();
        let mut text = Text { whole: text, at: 0 };
        loop {
            text.operation(&mut transaction)?;
            text.skip_blanks();
            let Some(rest) = text.rest().strip_prefix(';') else { break };
            text.at = text.whole.len() - rest.trim_start().len();
            if text.rest().is_empty() {
                break;
            }
        }
        if text.rest().is_empty() { Ok(transaction) } else { Err(text.error(text.at, "; or the end")) }
    }
}

/// Bytes as a word, in quotes where they are none.
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(self.0);
        if let Ok(text) = text
            && !text.is_empty()
            && text.chars().all(is_plain)
        {
            return f.write_str(text);
        }
        f.write_char('"')?;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    c if c.is_control() => {
                        let mut bytes = [0; 4];
                        c.encode_utf8(&mut bytes).bytes().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
                    }
                    c => f.write_char(c)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_char('"')
    }
}

fn show_condition(f: &mut fmt::Formatter<'_>, key: &[u8], condition: &Condition) -> fmt::Result {
    let key = Quoted(key);
    match condition {
        Condition::Version(0) => write!(f, "if-missing {key}"),
        Condition::Version(version) => write!(f, "if-version {key} {version}"),
        Condition::Exists => write!(f, "if-exists {key}"),
        Condition::Value(value) => write!(f, "if-value {key} {}", Quoted(value)),
        Condition::AtLeast(least) => write!(f, "if-at-least {key} {least}"),
    }
}

fn show_write(f: &mut fmt::Formatter<'_>, key: &[u8], change: &Change) -> fmt::Result {
    let key = Quoted(key);
    match change {
        Change::Put(value) => write!(f, "put {key} {}", Quoted(value)),
        Change::Delete => write!(f, "del {key}"),
        Change::Add(by) => write!(f, "add {key} {by}"),
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut separate = |f: &mut fmt::Formatter<'_>| f.write_str(std::mem::replace(&mut separator, "; "));
        for (key, condition) in &self.conditions {
            separate(f)?;
            show_condition(f, key, condition)?;
        }
        for key in &self.reads {
            separate(f)?;
            write!(f, "get {}", Quoted(key))?;
        }
        for (key, change) in &self.writes {
            separate(f)?;
            show_write(f, key, change)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
