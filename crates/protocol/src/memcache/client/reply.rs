//! Replies: an incremental reader that knows what it is owed.
//!
//! Invariants:
//! 1. Bytes are consumed only as whole replies; a value is handed out in place, never copied.
//! 2. The reader never guesses: with nothing owed, any byte is an error; after an error every call repeats it.
//! 3. Splitting the stream at any byte gives the same replies (tests).
//!
//! Bounds: `owed` grows by a byte per pipelined request; lines and values are limited before anyone buffers them.

use std::collections::VecDeque;
use std::fmt;

/// The longest reply line that is not an error of the server; stats and meta debug lines fit with room.
pub const MAX_LINE: usize = 8 << 10;

/// What the answer to one request looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: the request said `noreply`.
    Nothing,
    /// One line, such as `STORED` or a number.
    Line,
    /// `VALUE` blocks until `END`.
    Values,
    /// `STAT` lines until `END`.
    Stats,
    /// One meta answer, with a value where it is `VA`.
    Meta,
    /// Meta answers to quiet requests until `MN`.
    MetaUntilNoop,
}

/// How a meta request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStatus {
    /// `HD`: done, or found without asking for the value.
    Done,
    /// `VA`: a value follows.
    Value,
    /// `EN`: a meta get found nothing.
    Miss,
    /// `NF`: no such item.
    NotFound,
    /// `NS`: not stored.
    NotStored,
    /// `EX`: the item has another unique number.
    Exists,
    /// `MN`: all answered.
    Noop,
    /// `ME`: debug output.
    Debug,
}

/// One reply, or one part of a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// An item of a read; more may follow.
    Value {
        /// The item's key.
        key: &'a [u8],
        /// The flags stored with it.
        flags: u32,
        /// Its unique number, when asked for (`gets`, `gats`).
        cas: Option<u64>,
        /// The value.
        data: &'a [u8],
    },
    /// The end of the items or of the stats.
    End,
    /// Stored.
    Stored,
    /// The condition of an add, replace, append or prepend did not hold.
    NotStored,
    /// The item has another unique number.
    Exists,
    /// No such item.
    NotFound,
    /// Deleted.
    Deleted,
    /// Touched.
    Touched,
    /// Done (`flush_all`, `verbosity`).
    Ok,
    /// The stats were set to zero (`stats reset`).
    Reset,
    /// The new number after `incr` or `decr`.
    Number(u64),
    /// The server's version.
    Version(&'a [u8]),
    /// One line of `stats`; more may follow.
    Stat {
        /// The statistic's name.
        name: &'a [u8],
        /// Its value, as text.
        value: &'a [u8],
    },
    /// An answer to a meta command.
    Meta {
        /// How it went.
        status: MetaStatus,
        /// The returned flags: see [`meta_token`].
        flags: &'a [u8],
        /// The value, where there is one.
        data: Option<&'a [u8]>,
    },
    /// `ERROR`: the server does not know the command.
    Error,
    /// `CLIENT_ERROR` and why.
    ClientError(&'a [u8]),
    /// `SERVER_ERROR` and why.
    ServerError(&'a [u8]),
}

/// What [`ReplyReader::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A reply: drop `used` bytes from the front before the next call.
    Reply {
        /// What the server said.
        reply: Reply<'a>,
        /// How many bytes it took.
        used: usize,
        /// Whether this completes the answer to its request.
        last: bool,
    },
    /// Nothing whole yet: call again when at least `need` bytes are there, counted from the front of this input.
    Incomplete {
        /// More than the input has.
        need: usize,
    },
}

/// Why the stream of replies cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// Bytes arrived while nothing was owed.
    Unasked,
    /// A reply line is longer than [`MAX_LINE`].
    LineTooLong,
    /// A value is longer than this reader allows.
    ValueTooLong(u64),
    /// A value is not followed by the end of its line: it is longer or shorter than announced.
    TornValue,
    /// A line that this request cannot be answered with.
    Unexpected,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Unasked => f.write_str("the server sent bytes that nobody asked for"),
            ReplyError::LineTooLong => write!(f, "the server sent a line of more than {MAX_LINE} bytes"),
            ReplyError::ValueTooLong(n) => {
                write!(f, "the server announced a value of {n} bytes, more than allowed")
            }
            ReplyError::TornValue => f.write_str("a value is not as long as its reply line says"),
            ReplyError::Unexpected => {
                f.write_str("the server answered with a line that does not fit the request")
            }
        }
    }
}

impl std::error::Error for ReplyError {}

/// Turns bytes into replies: see the head of [`super`].
#[derive(Debug)]
pub struct ReplyReader {
    owed: VecDeque<Expect>,
    max_value: usize,
    broken: Option<ReplyError>,
}

impl ReplyReader {
    /// A reader that allows values of up to `max_value` bytes.
    pub fn new(max_value: usize) -> ReplyReader {
        ReplyReader { owed: VecDeque::new(), max_value, broken: None }
    }

    /// Notes that a request was sent whose answer looks like `expect`.
    pub fn expect(&mut self, expect: Expect) {
        if expect != Expect::Nothing {
            self.owed.push_back(expect);
        }
    }

    /// How many requests are not answered yet.
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Reads one reply from the front of `input`.
    ///
    /// # Errors
    /// When the bytes cannot be the answer to what was asked; every later call gives the same error.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Progress<'a>, ReplyError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        self.step(input).inspect_err(|&error| self.broken = Some(error))
    }

    fn step<'a>(&mut self, input: &'a [u8]) -> Result<Progress<'a>, ReplyError> {
        if input.is_empty() {
            return Ok(Progress::Incomplete { need: 1 });
        }
        let expect = *self.owed.front().ok_or(ReplyError::Unasked)?;
        let window = &input[..input.len().min(MAX_LINE)];
        let Some(end) = window.iter().position(|&b| b == b'\n') else {
            return match window.len() {
                MAX_LINE => Err(ReplyError::LineTooLong),
                n => Ok(Progress::Incomplete { need: n + 1 }),
            };
        };
        let line = input[..end].strip_suffix(b"\r").ok_or(ReplyError::Unexpected)?;
        let (reply, last) = match failure(line) {
            Some(reply) => (reply, true),
            None => match expect {
                Expect::Values => return self.value_or_end(input, line, end + 1),
                Expect::Meta | Expect::MetaUntilNoop => return self.meta(expect, input, line, end + 1),
                Expect::Stats => stat(line)?,
                Expect::Line | Expect::Nothing => (plain(line).ok_or(ReplyError::Unexpected)?, true),
            },
        };
        Ok(self.done(reply, end + 1, last))
    }

    fn done<'a>(&mut self, reply: Reply<'a>, used: usize, last: bool) -> Progress<'a> {
        if last {
            self.owed.pop_front();
        }
        Progress::Reply { reply, used, last }
    }

    fn value_or_end<'a>(
        &mut self,
        input: &'a [u8],
        line: &'a [u8],
        start: usize,
    ) -> Result<Progress<'a>, ReplyError> {
        if line == b"END" {
            return Ok(self.done(Reply::End, start, true));
        }
        let mut words = line.strip_prefix(b"VALUE ").ok_or(ReplyError::Unexpected)?.split(|&b| b == b' ');
        let key = words.next().filter(|key| !key.is_empty()).ok_or(ReplyError::Unexpected)?;
        let flags = words.next().and_then(number).ok_or(ReplyError::Unexpected)?;
        let flags = u32::try_from(flags).map_err(|_| ReplyError::Unexpected)?;
        let len = words.next().and_then(number).ok_or(ReplyError::Unexpected)?;
        let cas = words.next().map(|word| number(word).ok_or(ReplyError::Unexpected)).transpose()?;
        if words.next().is_some() {
            return Err(ReplyError::Unexpected);
        }
        match self.data(input, start, len)? {
            Ok((data, used)) => Ok(self.done(Reply::Value { key, flags, cas, data }, used, false)),
            Err(need) => Ok(Progress::Incomplete { need }),
        }
    }

    fn meta<'a>(
        &mut self,
        expect: Expect,
        input: &'a [u8],
        line: &'a [u8],
        start: usize,
    ) -> Result<Progress<'a>, ReplyError> {
        let (code, rest) = split_word(line);
        let status = match code {
            b"HD" => MetaStatus::Done,
            b"VA" => MetaStatus::Value,
            b"EN" => MetaStatus::Miss,
            b"NF" => MetaStatus::NotFound,
            b"NS" => MetaStatus::NotStored,
            b"EX" => MetaStatus::Exists,
            b"MN" => MetaStatus::Noop,
            b"ME" => MetaStatus::Debug,
            _ => return Err(ReplyError::Unexpected),
        };
        let last = expect == Expect::Meta || status == MetaStatus::Noop;
        if status != MetaStatus::Value {
            return Ok(self.done(Reply::Meta { status, flags: rest, data: None }, start, last));
        }
        let (len, flags) = split_word(rest);
        let len = number(len).ok_or(ReplyError::Unexpected)?;
        match self.data(input, start, len)? {
            Ok((data, used)) => Ok(self.done(Reply::Meta { status, flags, data: Some(data) }, used, last)),
            Err(need) => Ok(Progress::Incomplete { need }),
        }
    }

    /// The value of `len` bytes at `start` with its line end: the value and all bytes used, or how many are needed.
    fn data<'a>(
        &self,
        input: &'a [u8],
        start: usize,
        len: u64,
    ) -> Result<Result<(&'a [u8], usize), usize>, ReplyError> {
        let size = usize::try_from(len)
            .ok()
            .filter(|&n| n <= self.max_value)
            .ok_or(ReplyError::ValueTooLong(len))?;
        let used = start + size + 2;
        match input.get(start..used) {
            None => Ok(Err(used)),
            Some(block) if block.ends_with(b"\r\n") => Ok(Ok((&block[..size], used))),
            Some(_) => Err(ReplyError::TornValue),
        }
    }
}

/// The value of the returned flag `name`: `meta_token(b"c12 f0", b'c')` is `12`. Empty for a flag without one.
pub fn meta_token(flags: &[u8], name: u8) -> Option<&[u8]> {
    flags.split(|&b| b == b' ').find_map(|word| word.strip_prefix(&[name]))
}

/// The three failures that may answer any request, or take the place of the rest of one.
fn failure(line: &[u8]) -> Option<Reply<'_>> {
    match line.first() {
        Some(b'E') if line == b"ERROR" => Some(Reply::Error),
        Some(b'C') => line.strip_prefix(b"CLIENT_ERROR").map(|why| Reply::ClientError(why.trim_ascii())),
        Some(b'S') => line.strip_prefix(b"SERVER_ERROR").map(|why| Reply::ServerError(why.trim_ascii())),
        _ => None,
    }
}

fn plain(line: &[u8]) -> Option<Reply<'_>> {
    Some(match line {
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"OK" => Reply::Ok,
        _ => match line.strip_prefix(b"VERSION ") {
            Some(version) => Reply::Version(version),
            // Real memcached pads a number that got shorter by `decr` with spaces.
            None => Reply::Number(number(line.trim_ascii_end())?),
        },
    })
}

fn stat(line: &[u8]) -> Result<(Reply<'_>, bool), ReplyError> {
    match line {
        b"END" => Ok((Reply::End, true)),
        b"RESET" => Ok((Reply::Reset, true)),
        _ => {
            let (name, value) = split_word(line.strip_prefix(b"STAT ").ok_or(ReplyError::Unexpected)?);
            Ok((Reply::Stat { name, value }, false))
        }
    }
}

fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|&b| b == b' ') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[]),
    }
}

/// A decimal `u64`: digits only, no overflow.
fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0u64, |n, &b| {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 { None } else { n.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

#[cfg(test)]
mod tests;
