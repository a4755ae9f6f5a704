//! The classic commands, one line at a time: from words to a command, or to what is still missing.
//!
//! The order of the checks is memcached's, because it decides which of several errors a client sees.

use super::command::{Command, Store, StoreVerb, TooLarge};
use super::exptime::Exptime;
use super::lines::Line;
use super::meta::{self, Meta};
use super::number::{decimal, decimal_u32};
use super::tokens::Tokens;
use super::{KEY_MAX, VALUE_LEN_MAX, admin};

/// What a complete line turned out to be.
pub(super) enum Parsed<'a> {
    /// A whole command.
    Command(Command<'a>),
    /// A retrieval whose keys follow in the line.
    Keys(Retrieval, Tokens<'a>),
    /// A command whose value of `len` bytes follows the line.
    Value { command: Command<'a>, len: usize },
    /// A command that is answered now, and `body` bytes after the line that are to be thrown away.
    Refused { command: Command<'a>, body: u64 },
    /// Someone speaks HTTP.
    Http,
}

/// What the keys of one retrieval line have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Retrieval {
    pub(super) touch: Option<Exptime>,
    pub(super) with_cas: bool,
}

/// A malformed line that is answered in any case.
#[inline]
pub(super) fn malformed(line: Line) -> Command<'static> {
    Command::Malformed { line, noreply: false }
}

pub(super) const fn error() -> Parsed<'static> {
    Parsed::Command(Command::Malformed { line: Line::Error, noreply: false })
}

/// Understands one line, given without its line end. A value longer than `max_value` is refused.
#[inline]
pub(super) fn parse_line(line: &[u8], max_value: u64) -> Parsed<'_> {
    let mut tokens = Tokens::new(line);
    let Some(verb) = tokens.next() else { return error() };
    match verb {
        b"get" | b"bget" => retrieval(tokens, false),
        b"gets" => retrieval(tokens, true),
        b"set" => store(tokens, StoreVerb::Set, max_value),
        b"mg" => meta::parse_get(tokens),
        b"ms" => meta::parse_set(tokens, max_value),
        b"md" => meta::parse_delete(tokens),
        b"ma" => meta::parse_arith(tokens),
        b"me" => meta::parse_debug(tokens),
        b"mn" => Parsed::Command(Command::MetaNoop),
        b"gat" => retrieval_with_touch(tokens, false),
        b"gats" => retrieval_with_touch(tokens, true),
        b"add" => store(tokens, StoreVerb::Add, max_value),
        b"replace" => store(tokens, StoreVerb::Replace, max_value),
        b"append" => store(tokens, StoreVerb::Append, max_value),
        b"prepend" => store(tokens, StoreVerb::Prepend, max_value),
        b"cas" => store(tokens, StoreVerb::Cas, max_value),
        b"delete" => Parsed::Command(delete(tokens)),
        b"incr" => Parsed::Command(arith(tokens, false)),
        b"decr" => Parsed::Command(arith(tokens, true)),
        b"touch" => Parsed::Command(touch(tokens)),
        _ => admin::parse(verb, tokens),
    }
}

fn retrieval(tokens: Tokens<'_>, with_cas: bool) -> Parsed<'_> {
    if tokens.is_done() {
        return error();
    }
    Parsed::Keys(Retrieval { touch: None, with_cas }, tokens)
}

fn retrieval_with_touch(mut tokens: Tokens<'_>, with_cas: bool) -> Parsed<'_> {
    let Some(exptime) = tokens.next() else { return error() };
    match Exptime::parse(exptime) {
        Some(touch) => Parsed::Keys(Retrieval { touch: Some(touch), with_cas }, tokens),
        None => Parsed::Command(malformed(Line::InvalidExptime)),
    }
}

#[inline]
fn store(mut tokens: Tokens<'_>, verb: StoreVerb, max_value: u64) -> Parsed<'_> {
    let words = (tokens.next(), tokens.next(), tokens.next(), tokens.next());
    let (Some(key), Some(flags), Some(exptime), Some(len)) = words else { return error() };
    let cas = if verb == StoreVerb::Cas {
        let Some(word) = tokens.next() else { return error() };
        Some(word)
    } else {
        None
    };
    let extra = tokens.next();
    if !tokens.is_done() {
        return error();
    }
    // memcached looks for noreply in the last word, whatever that is.
    let noreply = extra.or(cas).unwrap_or(len) == b"noreply";
    let bad = Parsed::Command(Command::Malformed { line: Line::BadFormat, noreply });
    if key.len() > KEY_MAX {
        return bad;
    }
    let numbers = (decimal_u32(flags), Exptime::parse(exptime), decimal(len), cas.map_or(Some(0), decimal));
    let (Some(flags), Some(exptime), Some(len), Some(cas)) = numbers else { return bad };
    if len > VALUE_LEN_MAX {
        return bad;
    }
    if len > max_value {
        let drop_old = verb == StoreVerb::Set;
        let command = Command::TooLarge(TooLarge { meta: Meta::classic(key), drop_old, noreply });
        return Parsed::Refused { command, body: len + 2 };
    }
    let command = Command::Store(Store { verb, noreply, flags, exptime, cas, key, value: b"" });
    Parsed::Value { command, len: len as usize }
}

fn delete(mut tokens: Tokens<'_>) -> Command<'_> {
    let Some(key) = tokens.next() else { return malformed(Line::Error) };
    let (first, second) = (tokens.next(), tokens.next());
    if !tokens.is_done() {
        return malformed(Line::Error);
    }
    // A time of 0 is the remains of an older protocol that some clients still send.
    let noreply = second.or(first) == Some(b"noreply");
    let valid = match (first, second) {
        (None, _) => true,
        (Some(word), None) => word == b"0" || noreply,
        (Some(word), Some(_)) => word == b"0" && noreply,
    };
    if !valid {
        return Command::Malformed { line: Line::BadDelete, noreply };
    }
    if key.len() > KEY_MAX {
        return Command::Malformed { line: Line::BadFormat, noreply };
    }
    Command::Delete { key, noreply }
}

/// The shape of `incr`, `decr` and `touch`: a key, a number, perhaps noreply.
fn key_and_number<'a>(mut tokens: Tokens<'a>) -> Result<(&'a [u8], &'a [u8], bool), Command<'a>> {
    let (Some(key), Some(number)) = (tokens.next(), tokens.next()) else {
        return Err(malformed(Line::Error));
    };
    let extra = tokens.next();
    if !tokens.is_done() {
        return Err(malformed(Line::Error));
    }
    let noreply = extra.unwrap_or(number) == b"noreply";
    if key.len() > KEY_MAX {
        return Err(Command::Malformed { line: Line::BadFormat, noreply });
    }
    Ok((key, number, noreply))
}

fn arith(tokens: Tokens<'_>, decrement: bool) -> Command<'_> {
    match key_and_number(tokens) {
        Ok((key, number, noreply)) => match decimal(number) {
            Some(delta) => Command::Arith { key, delta, decrement, noreply },
            None => Command::Malformed { line: Line::InvalidDelta, noreply },
        },
        Err(command) => command,
    }
}

fn touch(tokens: Tokens<'_>) -> Command<'_> {
    match key_and_number(tokens) {
        Ok((key, number, noreply)) => match Exptime::parse(number) {
            Some(exptime) => Command::Touch { key, exptime, noreply },
            None => Command::Malformed { line: Line::InvalidExptime, noreply },
        },
        Err(command) => command,
    }
}
