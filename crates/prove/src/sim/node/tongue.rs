//! The three protocols, as clients write and read them: requests as bytes, replies as what they say.
//!
//! Text and meta are written and read by the client side of [`protocol::memcache`]; binary by hand, from its description alone.

use super::script::{Verb, Wanted};
use protocol::memcache::client::{Expect, MetaStatus, Progress, Reply, ReplyReader, meta_token, request};
use sim::kv::{Ret, Status};
use std::fmt;

/// The longest value: appends make them longer.
const MAX_VALUE: usize = 16 << 20;
/// Of a frame of the binary protocol.
const HEADER: usize = 24;
/// Bytes of a wrong answer that are shown.
const SHOWN: usize = 80;
/// An expiration that says of an increment that it makes no item.
const MAKES_NOTHING: u32 = u32::MAX;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tongue {
    Text,
    Meta,
    Binary,
}

/// A request that was written, and is to be answered.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of its operation in the history; none: it is no operation.
    pub number: Option<u64>,
    /// What was asked.
    pub verb: Verb,
    /// For which key.
    pub key: Vec<u8>,
    /// Told apart from others by this, where the protocol has a place for it.
    pub opaque: u32,
    /// An answer comes only if something is wrong, or never.
    pub is_quiet: bool,
    /// Where it ends among the bytes of its connection.
    pub end: u64,
}

/// What is written in a request beside its verb.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, or the amount as text.
    pub value: &'a [u8],
    /// The version that is expected.
    pub version: u64,
    /// See [`Asked::opaque`].
    pub opaque: u32,
}

/// Reads what a node says.
pub struct Reader {
    tongue: Tongue,
    lines: ReplyReader,
    /// The item of a read whose end is still to come.
    item: Option<Ret>,
}

impl Tongue {
    /// Writes a request; whether it is answered only if something is wrong, or never.
    pub fn write(self, wanted: &Wanted, words: Words<'_>, out: &mut Vec<u8>, reader: &mut Reader) -> bool {
        let may_be_quiet = wanted.is_quiet && wanted.verb == Verb::Set && self != Tongue::Meta;
        let expect = match self {
            Tongue::Text => write_text(wanted, words, may_be_quiet, out),
            Tongue::Meta => write_meta(wanted, words, out),
            Tongue::Binary => {
                write_binary(wanted, words, may_be_quiet, out);
                return may_be_quiet;
            }
        };
        reader.lines.expect(expect);
        may_be_quiet
    }
}

fn amount(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn write_text(wanted: &Wanted, words: Words<'_>, is_quiet: bool, out: &mut Vec<u8>) -> Expect {
    let Words { key, value, version, .. } = words;
    let life = wanted.life.unwrap_or(0) as i64;
    let store = |out: &mut Vec<u8>, how| request::store(out, how, key, 0, life, value, is_quiet);
    match wanted.verb {
        Verb::Get => request::read(out, "gets", [key]),
        Verb::Set => store(out, request::Store::Set),
        Verb::Add => store(out, request::Store::Add),
        Verb::Replace => store(out, request::Store::Replace),
        Verb::Append => store(out, request::Store::Append),
        Verb::Cas => store(out, request::Store::Cas(version)),
        Verb::Delete => request::delete(out, key, false),
        Verb::Incr => request::count(out, key, amount(value), false, false),
        Verb::Touch => request::touch(out, key, life, false),
        Verb::Flush => request::flush_all(out, None, false),
        Verb::Nonsense => nonsense(out),
    }
}

fn nonsense(out: &mut Vec<u8>) -> Expect {
    out.extend_from_slice(b"nonsense 7\r\n");
    Expect::Line
}

fn write_meta(wanted: &Wanted, words: Words<'_>, out: &mut Vec<u8>) -> Expect {
    let Words { key, value, version, opaque } = words;
    let life = wanted.life.map_or(String::new(), |life| format!(" T{life}"));
    let stored = |mode: &str| format!("c O{opaque}{mode}{life}");
    match wanted.verb {
        Verb::Get => request::meta_get(out, key, &format!("v c O{opaque}")),
        Verb::Set => request::meta_set(out, key, &stored(""), value),
        Verb::Add => request::meta_set(out, key, &stored(" ME"), value),
        Verb::Replace => request::meta_set(out, key, &stored(" MR"), value),
        Verb::Append => request::meta_set(out, key, &format!("c O{opaque} MA"), value),
        Verb::Cas => request::meta_set(out, key, &stored(&format!(" C{version}")), value),
        Verb::Delete => request::meta_delete(out, key, &format!("O{opaque}")),
        Verb::Incr => request::meta_arithmetic(out, key, &format!("v c O{opaque} D{}", amount(value))),
        Verb::Touch => request::meta_get(out, key, &format!("c O{opaque} T{}", wanted.life.unwrap_or(0))),
        Verb::Flush => request::flush_all(out, None, false),
        Verb::Nonsense => nonsense(out),
    }
}

fn write_binary(wanted: &Wanted, words: Words<'_>, is_quiet: bool, out: &mut Vec<u8>) {
    let Words { key, value, version, opaque } = words;
    let life = (wanted.life.unwrap_or(0) as u32).to_be_bytes();
    let stored = [[0; 4], life].concat();
    let (opcode, extras, key, value, version): (u8, Vec<u8>, &[u8], &[u8], u64) = match wanted.verb {
        Verb::Get => (0x00, Vec::new(), key, b"", 0),
        Verb::Set => (if is_quiet { 0x11 } else { 0x01 }, stored, key, value, 0),
        Verb::Add => (0x02, stored, key, value, 0),
        Verb::Replace => (0x03, stored, key, value, 0),
        Verb::Append => (0x0e, Vec::new(), key, value, 0),
        Verb::Cas => (0x01, stored, key, value, version),
        Verb::Delete => (0x04, Vec::new(), key, b"", 0),
        Verb::Incr => {
            let by = amount(value).to_be_bytes();
            (0x05, [&by[..], &[0; 8], &MAKES_NOTHING.to_be_bytes()].concat(), key, b"", 0)
        }
        Verb::Touch => (0x1c, life.to_vec(), key, b"", 0),
        Verb::Flush => (0x08, Vec::new(), b"", b"", 0),
        Verb::Nonsense => (0x77, Vec::new(), b"", b"", 0),
    };
    let body = extras.len() + key.len() + value.len();
    out.extend_from_slice(&[0x80, opcode]);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    out.extend_from_slice(&(body as u32).to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    [&extras, key, value].iter().for_each(|part| out.extend_from_slice(part));
}

/// A reply.
pub struct Answer {
    /// What it says; none: of something that is no operation.
    pub ret: Option<Ret>,
    /// Which request it names, where it does.
    pub opaque: Option<u32>,
}

impl Reader {
    /// One that has read nothing.
    pub fn new(tongue: Tongue) -> Reader {
        Reader { tongue, lines: ReplyReader::new(MAX_VALUE), item: None }
    }

    /// The reply to `asked` at the front of `input`, or a part of it, which says nothing yet; and how long it is. None while it is not whole.
    ///
    /// # Errors
    /// In words: it is no reply to that.
    pub fn next(&mut self, asked: &Asked, input: &[u8]) -> Result<Option<(Option<Answer>, usize)>, String> {
        if self.tongue == Tongue::Binary {
            return Ok(read_binary(asked, input)?.map(|(answer, used)| (Some(answer), used)));
        }
        let nonsense = |why: &dyn fmt::Display| {
            let shown = &input[..input.len().min(SHOWN)];
            format!("{:?} was answered {:?}: {why}", asked.verb, shown.escape_ascii().to_string())
        };
        let progress = self.lines.next(input).map_err(|error| nonsense(&error))?;
        let Progress::Reply { reply, used, .. } = progress else { return Ok(None) };
        if let Reply::Value { key, cas, data, .. } = reply {
            if key != asked.key || self.item.is_some() {
                return Err(nonsense(&"that is of another key"));
            }
            self.item = Some(Ret::hit(data).versioned(cas.unwrap_or(0)));
            return Ok(Some((None, used)));
        }
        let answer = self.of_line(asked, &reply).ok_or_else(|| nonsense(&"that is no answer to it"))?;
        Ok(Some((Some(answer), used)))
    }

    fn of_line(&mut self, asked: &Asked, reply: &Reply<'_>) -> Option<Answer> {
        let plain = |status| Some(Answer { ret: Some(Ret::of(status)), opaque: None });
        match (reply, asked.verb) {
            (Reply::Error, Verb::Nonsense) => Some(Answer { ret: None, opaque: None }),
            (_, Verb::Nonsense) => None,
            (Reply::ServerError(_), _) | (Reply::ClientError(_), Verb::Incr) => {
                self.item = None;
                plain(Status::Error)
            }
            (Reply::End, Verb::Get) => {
                let ret = self.item.take().unwrap_or(Ret::of(Status::Miss));
                Some(Answer { ret: Some(ret), opaque: None })
            }
            (Reply::Stored, _) | (Reply::Ok, Verb::Flush) => plain(Status::Ok),
            (Reply::Deleted, Verb::Delete) | (Reply::Touched, Verb::Touch) => plain(Status::Ok),
            (Reply::NotStored, _) => plain(Status::NotStored),
            (Reply::Exists, Verb::Cas) => plain(Status::Exists),
            (Reply::NotFound, _) => plain(Status::Miss),
            (Reply::Number(number), Verb::Incr) => {
                Some(Answer { ret: Some(Ret::hit(number.to_string().as_bytes())), opaque: None })
            }
            (Reply::Meta { status, flags, data }, verb) => of_meta(*status, flags, *data, verb),
            _ => None,
        }
    }
}

fn of_meta(status: MetaStatus, flags: &[u8], data: Option<&[u8]>, verb: Verb) -> Option<Answer> {
    let number = |token: &[u8]| std::str::from_utf8(token).ok().and_then(|text| text.parse::<u64>().ok());
    let flag = |name| meta_token(flags, name).and_then(number);
    let status = match (status, verb) {
        (MetaStatus::Done | MetaStatus::Value, _) => Status::Ok,
        (MetaStatus::NotStored, _) => Status::NotStored,
        (MetaStatus::Exists, Verb::Cas) => Status::Exists,
        (MetaStatus::Miss | MetaStatus::NotFound, _) => Status::Miss,
        _ => return None,
    };
    let version = flag(b'c').filter(|_| status == Status::Ok && verb != Verb::Delete);
    let value = data.map(sim::kv::Value::of);
    Some(Answer { ret: Some(Ret { status, value, version }), opaque: flag(b'O').map(|opaque| opaque as u32) })
}

fn read_binary(asked: &Asked, input: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let nonsense = |why: &str| {
        let shown = &input[..input.len().min(SHOWN)];
        format!("{:?} was answered {:?}: {why}", asked.verb, shown.escape_ascii().to_string())
    };
    let Some(header) = input.first_chunk::<HEADER>() else { return Ok(None) };
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    if header[0] != 0x81 {
        return Err(nonsense("no frame"));
    }
    let (key, extras, body) = (number(&header[2..4]), u64::from(header[4]), number(&header[8..12]));
    let whole = HEADER + body as usize;
    if input.len() < whole {
        return Ok(None);
    }
    let value = &input[HEADER + (key + extras) as usize..whole];
    let (status, version) = (number(&header[6..8]), number(&header[16..24]));
    let status = match (status, asked.verb) {
        (_, Verb::Nonsense) => Status::Error,
        (0, _) => Status::Ok,
        (1 | 5, Verb::Replace | Verb::Append) | (2, Verb::Add) => Status::NotStored,
        (1, _) => Status::Miss,
        (2, Verb::Cas) => Status::Exists,
        (6, Verb::Incr) | (0x82 | 0x86, _) => Status::Error,
        _ => return Err(nonsense("no answer to that")),
    };
    let shown = (status == Status::Ok).then_some(asked.verb);
    let ret = match shown {
        Some(Verb::Get) => Ret::hit(value),
        Some(Verb::Incr) => Ret::hit(number(value).to_string().as_bytes()),
        _ => Ret::of(status),
    };
    let has_version = shown.is_some_and(|verb| !matches!(verb, Verb::Delete | Verb::Touch | Verb::Flush));
    let ret = if has_version && version > 0 { ret.versioned(version) } else { ret };
    let ret = (asked.verb != Verb::Nonsense).then_some(ret);
    Ok(Some((Answer { ret, opaque: Some(number(&header[12..16]) as u32) }, whole)))
}
