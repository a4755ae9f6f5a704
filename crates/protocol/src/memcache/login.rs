//! Logging in: what a client that must say who it is may send before it has.
//!
//! ```text
//!   text    set anything 0 0 9\r\nann secret\r\n     ──▶ STORED, or CLIENT_ERROR authentication failure
//!   binary  SASL_AUTH PLAIN "\0ann\0secret"          ──▶ Authenticated, or status 0x20
//!           SASL_AUTH PLAIN "", SASL_STEP "\0ann…"   ──▶ status 0x21, then the same
//! ```
//! Here is the grammar alone. The parser hands out a [`Login`]; whoever knows the users says with [`Parser::answer`] whether it is right.
//!
//! Bounds: a login has at most [`LOGIN_MAX`] bytes; after [`LOGIN_FAILURES_MAX`] that failed the connection closes.
//!
//! Source: memcached 1.6.18, `try_read_command_asciiauth` and `process_bin_sasl_auth`; RFC 4616 for PLAIN. `tests/differential` of `millrace` compares.
//!
//! [`Parser::answer`]: super::Parser::answer

use super::binary::opcode::{SASL_AUTH, SASL_LIST, SASL_STEP, VERSION};
use super::binary::{self, HEADER_LEN, REQUEST_MAGIC};
use super::classic::malformed;
use super::number::decimal_u32;
use super::tokens::Tokens;
use super::{Command, LINE_MAX, Line};
use memchr::memchr;

/// Longest login, in bytes: user, password and what is between them.
pub const LOGIN_MAX: usize = 1024;

/// Logins of one connection that may fail; the last of them closes it.
pub const LOGIN_FAILURES_MAX: u32 = 8;

/// Longest name of a mechanism that memcached looks at.
pub(super) const MECHANISM_MAX: usize = 32;

/// Which protocols a connection may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Its first byte says which.
    #[default]
    Any,
    /// Text, classic and meta.
    Text,
    /// Binary.
    Binary,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What may be spoken.
    pub protocol: Protocol,
    /// Its client must log in before it may ask for anything.
    pub has_login: bool,
}

/// What a client says of who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// User and password; none where it is no login that could be right.
    pub credentials: Option<(&'a [u8], &'a [u8])>,
    /// The header of a binary request; of a text one, nothing.
    pub(super) header: &'a [u8],
}

/// What the front of a text connection is whose client has not logged in.
pub(super) enum TextLogin<'a> {
    /// More is needed: so many bytes in total.
    Incomplete(usize),
    /// A login of so many bytes.
    Login(Login<'a>, usize),
    /// What is refused so, and how many bytes of it are there; `rest` are still to come.
    Refused { command: Command<'a>, len: usize, rest: u64 },
    /// A line without an end.
    TooLong,
}

/// Understands `set KEY FLAGS TIME LENGTH`, whose value is the login; all but the length is for the eye.
pub(super) fn text(input: &[u8]) -> TextLogin<'_> {
    let refused = |line, len| TextLogin::Refused { command: malformed(line), len, rest: 0 };
    let window = &input[..input.len().min(LINE_MAX)];
    let Some(end) = memchr(b'\n', window) else {
        return if window.len() < LINE_MAX {
            TextLogin::Incomplete(window.len() + 1)
        } else {
            TextLogin::TooLong
        };
    };
    let line = window[..end].strip_suffix(b"\r").unwrap_or(&window[..end]);
    let start = end + 1;
    let mut tokens = Tokens::new(line);
    let is_set = tokens.next() == Some(b"set");
    let len = tokens.nth(3).and_then(decimal_u32).filter(|_| is_set);
    let Some(len) = len.map(|len| len as usize) else { return refused(Line::Unauthenticated, start) };
    let whole = len + 2;
    if len > LOGIN_MAX {
        return TextLogin::Refused { command: malformed(Line::BadLogin), len: start, rest: whole as u64 };
    }
    let Some(value) = input.get(start..start + whole) else {
        return TextLogin::Incomplete(start + whole);
    };
    let Some(value) = value.strip_suffix(b"\r\n") else { return refused(Line::BadLoginEnd, start + whole) };
    let mut words = Tokens::new(value);
    match (words.next(), words.next()) {
        (Some(user), Some(password)) => {
            TextLogin::Login(Login { credentials: Some((user, password)), header: b"" }, start + whole)
        }
        _ => refused(Line::BadLogin, start + whole),
    }
}

/// The header at the front of `input`, if it is of a request that only those may send who have logged in. One whose lengths cannot be is of nobody's.
pub(super) fn of_users(input: &[u8]) -> Option<&[u8]> {
    let header = input.first_chunk::<HEADER_LEN>()?;
    let is_for_all = matches!(header[1], SASL_LIST | SASL_AUTH | SASL_STEP | VERSION);
    (header[0] == REQUEST_MAGIC && !is_for_all && binary::parse::has_room(header)).then_some(header)
}

/// A request to log in: its value is whole.
pub(super) struct SaslRequest<'a> {
    pub(super) header: &'a [u8],
    pub(super) is_step: bool,
    pub(super) mechanism: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> SaslRequest<'a> {
    /// Whether user and password are said to come later.
    pub(super) fn is_beginning(&self) -> bool {
        !self.is_step && self.value.is_empty() && self.is_plain()
    }

    /// The login, of a client that has begun one if `has_begun`.
    pub(super) fn login(&self, has_begun: bool) -> Login<'a> {
        let may_be = if self.is_step { has_begun } else { self.is_plain() };
        let credentials = if may_be { plain(self.value) } else { None };
        Login { credentials, header: self.header }
    }

    fn is_plain(&self) -> bool {
        self.mechanism.eq_ignore_ascii_case(b"PLAIN")
    }
}

/// `[authzid] NUL authcid NUL passwd`, of somebody who acts for nobody else.
fn plain(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = value.split(|&byte| byte == 0);
    let (whom, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && !user.is_empty() && !password.is_empty();
    (is_whole && (whom.is_empty() || whom == user)).then_some((user, password))
}
