//! Query lists as text.
//!
//! ```text
//!  1 FEATURES QUERIES IDS 2        the header of a training log, or
//!  # FEATURES                      that of a test log
//!  WEIGHT ID ID …                  a query; ids count from 1
//!
//!  ID ID …                         a plain log: no header, no weights, as many features as the greatest id says
//! ```
//! Fields are decimal numbers between spaces or tabs; empty lines are skipped. A training header must agree with what follows: that is how a file that was
//! cut short is told.
//!
//! Bounds: one line in memory at a time, [`MAX_LINE_BYTES`] at most; the lists themselves grow only with what is there, never with what a header announces.

use super::{Fault, Lists, ListsError, MAX_FEATURES};
use std::io::{self, BufRead, Read, Write};

/// The longest line that is read.
pub const MAX_LINE_BYTES: usize = 1 << 24;

/// How lists are written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A header and lines `weight id id …`.
    #[default]
    Weighted,
    /// Lines `id id …` alone; each weighs 1.
    Plain,
}

/// What a training header says about the rest.
struct Announced {
    queries: u64,
    pins: u64,
}

impl Lists {
    /// Reads lists.
    ///
    /// # Errors
    /// The first line that is wrong, and how; a header that disagrees with what follows.
    pub fn read(source: impl BufRead, style: Style) -> Result<Lists, ListsError> {
        let mut lines = Lines { source, line: Vec::new(), number: 0 };
        let (mut lists, announced) = match style {
            Style::Weighted => {
                let header = if lines.next()? { parse_header(&lines.line) } else { Err(Fault::Header) };
                let (features, announced) = header.map_err(|fault| ListsError { line: 1, fault })?;
                (Lists::new(features).map_err(|fault| lines.at(fault))?, announced)
            }
            // The greatest id is known at the end only.
            Style::Plain => (Lists::new(MAX_FEATURES).expect("the most that there may be"), None),
        };
        let (mut fields, mut most) = (Vec::new(), 0);
        while lines.next()? {
            parse_numbers(&lines.line, &mut fields).map_err(|fault| lines.at(fault))?;
            let (weight, ids) = match (style, fields.as_mut_slice()) {
                (_, []) => continue,
                (Style::Weighted, [weight, ids @ ..]) => (*weight, ids),
                (Style::Plain, ids) => (1, ids),
            };
            for id in ids.iter_mut() {
                *id = id.checked_sub(1).ok_or_else(|| lines.at(Fault::Id(0, lists.features)))?;
                most = most.max(*id);
            }
            lists.push(weight, ids).map_err(|fault| lines.at(fault))?;
        }
        if style == Style::Plain {
            if lists.is_empty() {
                return Err(ListsError { line: 0, fault: Fault::Features(0) });
            }
            lists.features = most + 1;
        }
        if let Some(said) = announced {
            for (said, found) in [(said.queries, lists.len()), (said.pins, lists.pins())] {
                if said != found as u64 {
                    return Err(ListsError { line: 1, fault: Fault::Count(said, found as u64) });
                }
            }
        }
        Ok(lists)
    }

    /// Writes the lists with the header of a training log.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write(&self, mut sink: impl Write) -> io::Result<()> {
        writeln!(sink, "1 {} {} {} 2", self.features, self.len(), self.pins())?;
        for (weight, ids) in self.iter() {
            write!(sink, "{weight}")?;
            ids.iter().try_for_each(|&id| write!(sink, " {}", id + 1))?;
            writeln!(sink)?;
        }
        sink.flush()
    }
}

/// Lines, counted.
struct Lines<R> {
    source: R,
    line: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    /// Whether there is another line; it is then in `line`.
    fn next(&mut self) -> Result<bool, ListsError> {
        self.line.clear();
        self.number += 1;
        let limit = MAX_LINE_BYTES as u64 + 1;
        match self.source.by_ref().take(limit).read_until(b'\n', &mut self.line) {
            Err(cause) => Err(self.at(Fault::Read(cause.to_string()))),
            Ok(len) if len > MAX_LINE_BYTES => Err(self.at(Fault::Long)),
            Ok(len) => Ok(len > 0),
        }
    }

    fn at(&self, fault: Fault) -> ListsError {
        ListsError { line: self.number, fault }
    }
}

/// The fields of a line.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty())
}

/// A decimal number: digits alone.
fn number(field: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    field.iter().try_fold(0u32, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)?))
}

fn parse_numbers(line: &[u8], numbers: &mut Vec<u32>) -> Result<(), Fault> {
    numbers.clear();
    for (at, field) in fields(line).enumerate() {
        numbers.push(number(field).ok_or(Fault::Number(at + 1))?);
    }
    Ok(())
}

fn parse_header(line: &[u8]) -> Result<(u32, Option<Announced>), Fault> {
    let parts: Vec<&[u8]> = fields(line).take(6).collect();
    match parts[..] {
        [b"#", features] => Ok((number(features).ok_or(Fault::Header)?, None)),
        [b"1", features, queries, pins, b"2"] => {
            let number = |field| number(field).ok_or(Fault::Header);
            let announced = Announced { queries: number(queries)?.into(), pins: number(pins)?.into() };
            Ok((number(features)?, Some(announced)))
        }
        _ => Err(Fault::Header),
    }
}
