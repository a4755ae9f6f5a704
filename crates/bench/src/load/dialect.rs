//! One set of operations in three languages: memcached's classic and meta commands, and Redis's.
//!
//! Shape: a [`Speaker`] appends requests and remembers what is owed for them; its `next` reads answers as [`Part`]s,
//! which mean the same in every language, so the rest of the generator does not know which one is spoken.

use super::keys::{KeyFormat, KeyRoom};
use super::line::Ask;
use super::resp::{self, RespProgress, RespReader, RespReply};
use super::value::{self, Nonce};
use protocol::memcache::client::request::{self, Store};
use protocol::memcache::client::{Expect, MetaStatus, Progress, Reply, ReplyReader, meta_token};
use serde::Serialize;
use std::fmt::Write;

/// A language that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// memcached's classic text commands.
    Classic,
    /// memcached's meta commands.
    Meta,
    /// Redis's commands: GET, MGET, SET, DEL, EXPIRE. A read-modify-write is GET and SET, without a condition.
    Redis,
}

/// One value to store.
#[derive(Clone, Copy, Debug)]
pub struct Storing {
    /// The key's id.
    pub key: u64,
    /// Which write it is.
    pub nonce: Nonce,
    /// Of which run.
    pub run: u32,
    /// The value's length.
    pub len: usize,
    /// Seconds to live; 0 for ever.
    pub ttl_s: u32,
    /// Store only if the item still has this unique number.
    pub cas: Option<u64>,
}

/// An item that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Its key, in the languages that repeat it; the others answer in the order of the question.
    pub key: Option<&'a [u8]>,
    /// The flags stored with it, where the language has them.
    pub flags: Option<u32>,
    /// Its unique number, where it was asked for.
    pub cas: Option<u64>,
    /// The value.
    pub data: &'a [u8],
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Done as asked; for reads: all items there are have come.
    Done,
    /// No such item.
    NotFound,
    /// The condition did not hold.
    Conflict,
    /// The server could not or would not: which of its words for it, and why.
    Refused(Refusal, &'a [u8]),
}

/// A server's words for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server does not know the command.
    Unknown,
    /// The server says that the request is bad.
    Client,
    /// The server failed, for example out of memory.
    Server,
    /// Nobody answered for as long as the line asks.
    Unanswered,
}

/// A piece of an answer: an item, or that one is not there, or the end; an end may come with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// An item.
    pub item: Option<Item<'a>>,
    /// In languages that answer by position: the next key in turn is not there.
    pub absent: bool,
    /// The end of the answer.
    pub verdict: Option<Verdict<'a>>,
    /// Bytes used up.
    pub used: usize,
}

/// Speaks one dialect on one connection.
#[derive(Debug)]
pub struct Speaker {
    dialect: Dialect,
    keys: KeyFormat,
    answers: Answers,
    room: KeyRoom,
    /// Scratch for meta flags and decimal words.
    words: String,
}

#[derive(Debug)]
enum Answers {
    Memcache(ReplyReader),
    Redis(RespReader),
}

impl Speaker {
    /// A speaker for values of up to `max_value` bytes.
    pub fn new(dialect: Dialect, keys: KeyFormat, max_value: usize) -> Speaker {
        let answers = match dialect {
            Dialect::Redis => Answers::Redis(RespReader::new(max_value)),
            _ => Answers::Memcache(ReplyReader::new(max_value)),
        };
        Speaker { dialect, keys, answers, room: KeyRoom::new(), words: String::with_capacity(64) }
    }

    /// Appends any request.
    pub fn ask(&mut self, out: &mut Vec<u8>, ask: Ask<'_>) {
        match ask {
            Ask::Read { keys, unique } => self.read(out, keys.iter().copied(), unique),
            Ask::Store(storing) => self.store(out, storing),
            Ask::Delete(key) => self.delete(out, key),
            Ask::Touch { key, ttl_s } => self.touch(out, key, ttl_s),
        }
    }

    /// Asks for `keys`; with `unique` also for their unique numbers.
    pub fn read(&mut self, out: &mut Vec<u8>, keys: impl ExactSizeIterator<Item = u64>, unique: bool) {
        match self.dialect {
            Dialect::Classic => self.read_classic(out, keys, unique),
            Dialect::Meta => self.read_meta(out, keys, unique),
            Dialect::Redis => self.read_redis(out, keys),
        }
    }

    fn read_classic(&mut self, out: &mut Vec<u8>, keys: impl Iterator<Item = u64>, unique: bool) {
        // Not `request::read`: it borrows all keys at once, this writes them one by one without storing them.
        out.extend_from_slice(if unique { b"gets" } else { b"get" });
        for key in keys {
            out.push(b' ');
            out.extend_from_slice(self.keys.write(key, &mut self.room));
        }
        out.extend_from_slice(b"\r\n");
        self.owe(Expect::Values);
    }

    fn read_meta(&mut self, out: &mut Vec<u8>, keys: impl ExactSizeIterator<Item = u64>, unique: bool) {
        let single = keys.len() == 1;
        let flags = match (single, unique) {
            (true, true) => "k f c v",
            (true, false) => "k f v",
            (false, true) => "k f c v q",
            (false, false) => "k f v q",
        };
        for key in keys {
            request::meta_get(out, self.keys.write(key, &mut self.room), flags);
        }
        if single {
            return self.owe(Expect::Meta);
        }
        request::meta_noop(out);
        self.owe(Expect::MetaUntilNoop);
    }

    fn read_redis(&mut self, out: &mut Vec<u8>, keys: impl ExactSizeIterator<Item = u64>) {
        resp::command(out, keys.len() + 1);
        resp::word(out, if keys.len() == 1 { b"GET" } else { b"MGET" });
        for key in keys {
            resp::word(out, self.keys.write(key, &mut self.room));
        }
        self.owe(Expect::Line);
    }

    /// Stores a value.
    pub fn store(&mut self, out: &mut Vec<u8>, s: Storing) {
        let key = self.keys.write(s.key, &mut self.room);
        let flags = value::flags_of(s.key);
        let fill = |out: &mut Vec<u8>| value::write(out, s.key, s.nonce, s.run, s.len);
        self.words.clear();
        let expect = match self.dialect {
            Dialect::Classic => {
                let how = s.cas.map_or(Store::Set, Store::Cas);
                request::store_with(out, how, key, flags, i64::from(s.ttl_s), s.len, false, fill)
            }
            Dialect::Meta => {
                say(&mut self.words, format_args!("F{flags}"));
                if s.ttl_s > 0 {
                    say(&mut self.words, format_args!(" T{}", s.ttl_s));
                }
                if let Some(unique) = s.cas {
                    say(&mut self.words, format_args!(" C{unique}"));
                }
                request::meta_set_with(out, key, &self.words, s.len, fill)
            }
            Dialect::Redis => {
                resp::command(out, if s.ttl_s > 0 { 5 } else { 3 });
                resp::word(out, b"SET");
                resp::word(out, key);
                resp::word_with(out, s.len, fill);
                if s.ttl_s > 0 {
                    say(&mut self.words, format_args!("{}", s.ttl_s));
                    resp::word(out, b"EX");
                    resp::word(out, self.words.as_bytes());
                }
                Expect::Line
            }
        };
        self.owe(expect);
    }

    /// Deletes a key.
    pub fn delete(&mut self, out: &mut Vec<u8>, key: u64) {
        let key = self.keys.write(key, &mut self.room);
        let expect = match self.dialect {
            Dialect::Classic => request::delete(out, key, false),
            Dialect::Meta => request::meta_delete(out, key, ""),
            Dialect::Redis => {
                resp::command(out, 2);
                resp::word(out, b"DEL");
                resp::word(out, key);
                Expect::Line
            }
        };
        self.owe(expect);
    }

    /// Gives a key `ttl_s` more seconds; 0 for ever in memcached. Redis takes 0 as a delete, so there it is 30 days.
    pub fn touch(&mut self, out: &mut Vec<u8>, key: u64, ttl_s: u32) {
        let key = self.keys.write(key, &mut self.room);
        self.words.clear();
        let expect = match self.dialect {
            Dialect::Classic => request::touch(out, key, i64::from(ttl_s), false),
            Dialect::Meta => {
                say(&mut self.words, format_args!("T{ttl_s}"));
                request::meta_get(out, key, &self.words)
            }
            Dialect::Redis => {
                let ttl_s = if ttl_s == 0 { 30 * 24 * 3600 } else { ttl_s };
                say(&mut self.words, format_args!("{ttl_s}"));
                resp::command(out, 3);
                resp::word(out, b"EXPIRE");
                resp::word(out, key);
                resp::word(out, self.words.as_bytes());
                Expect::Line
            }
        };
        self.owe(expect);
    }

    fn owe(&mut self, expect: Expect) {
        match &mut self.answers {
            Answers::Memcache(reader) => reader.expect(expect),
            Answers::Redis(reader) => reader.expect(),
        }
    }

    /// Reads one part of an answer from the front of `input`, or says how many bytes that takes.
    ///
    /// # Errors
    /// When the answer cannot be followed; the connection is of no more use.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Result<Part<'a>, usize>, String> {
        match &mut self.answers {
            Answers::Memcache(reader) => match reader.next(input).map_err(|e| e.to_string())? {
                Progress::Incomplete { need } => Ok(Err(need)),
                Progress::Reply { reply, used, last } => Ok(Ok(memcache_part(reply, used, last))),
            },
            Answers::Redis(reader) => match reader.next(input)? {
                RespProgress::Incomplete { need } => Ok(Err(need)),
                RespProgress::Reply { reply, used, last } => Ok(Ok(redis_part(reply, used, last))),
            },
        }
    }
}

fn say(words: &mut String, what: std::fmt::Arguments<'_>) {
    words.write_fmt(what).expect("a string takes any text");
}

fn memcache_part(reply: Reply<'_>, used: usize, last: bool) -> Part<'_> {
    let mut item = None;
    let verdict = match reply {
        Reply::Value { key, flags, cas, data } => {
            item = Some(Item { key: Some(key), flags: Some(flags), cas, data });
            Verdict::Done
        }
        Reply::Meta { status, flags, data } => {
            if let Some(data) = data {
                let number =
                    |name| meta_token(flags, name).and_then(|t| std::str::from_utf8(t).ok()?.parse().ok());
                let stored = number(b'f').and_then(|f: u64| u32::try_from(f).ok());
                item = Some(Item { key: meta_token(flags, b'k'), flags: stored, cas: number(b'c'), data });
            }
            match status {
                MetaStatus::NotFound => Verdict::NotFound,
                MetaStatus::NotStored | MetaStatus::Exists => Verdict::Conflict,
                _ => Verdict::Done,
            }
        }
        Reply::NotFound => Verdict::NotFound,
        Reply::NotStored | Reply::Exists => Verdict::Conflict,
        Reply::Error => Verdict::Refused(Refusal::Unknown, b"ERROR"),
        Reply::ClientError(why) => Verdict::Refused(Refusal::Client, why),
        Reply::ServerError(why) => Verdict::Refused(Refusal::Server, why),
        _ => Verdict::Done,
    };
    Part { item, absent: false, verdict: last.then_some(verdict), used }
}

fn redis_part(reply: RespReply<'_>, used: usize, last: bool) -> Part<'_> {
    let (mut item, mut absent) = (None, false);
    let verdict = match reply {
        RespReply::Bulk(data) => {
            item = Some(Item { key: None, flags: None, cas: None, data });
            Verdict::Done
        }
        RespReply::Nil => {
            absent = true;
            Verdict::Done
        }
        RespReply::Number(0) => Verdict::NotFound,
        RespReply::Error(why) => Verdict::Refused(Refusal::Server, why),
        _ => Verdict::Done,
    };
    Part { item, absent, verdict: last.then_some(verdict), used }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaker(dialect: Dialect) -> Speaker {
        Speaker::new(dialect, KeyFormat::new(5, 999).expect("three digits"), 1024)
    }

    fn said(dialect: Dialect, say: impl FnOnce(&mut Speaker, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        say(&mut speaker(dialect), &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", "|")
    }

    const STORING: Storing = Storing { key: 7, nonce: NONCE, run: 1, len: 0, ttl_s: 9, cas: Some(3) };
    const NONCE: Nonce = Nonce::ZERO;

    #[test]
    fn each_language_has_its_words() {
        use Dialect::{Classic, Meta, Redis};
        let read = |s: &mut Speaker, out: &mut Vec<u8>| s.read(out, [1, 2].into_iter(), true);
        assert_eq!(said(Classic, read), "gets mr001 mr002|");
        assert_eq!(said(Meta, read), "mg mr001 k f c v q|mg mr002 k f c v q|mn|");
        assert_eq!(said(Redis, read), "*3|$4|MGET|$5|mr001|$5|mr002|");
        assert_eq!(said(Classic, |s, out| s.store(out, STORING)), "cas mr007 7 9 0 3||");
        assert_eq!(said(Meta, |s, out| s.store(out, STORING)), "ms mr007 0 F7 T9 C3||");
        assert_eq!(said(Redis, |s, out| s.store(out, STORING)), "*5|$3|SET|$5|mr007|$0||$2|EX|$1|9|");
        assert_eq!(said(Meta, |s, out| s.touch(out, 1, 5)), "mg mr001 T5|");
        assert_eq!(said(Classic, |s, out| s.delete(out, 1)), "delete mr001|");
    }

    #[test]
    fn answers_mean_the_same_in_every_language() {
        for (dialect, bytes) in [
            (Dialect::Classic, "VALUE mr001 5 2 9\r\nhi\r\nEND\r\n"),
            (Dialect::Meta, "VA 2 kmr001 f5 c9\r\nhi\r\nMN\r\n"),
            (Dialect::Redis, "*2\r\n$2\r\nhi\r\n$-1\r\n"),
        ] {
            let mut speaker = speaker(dialect);
            speaker.read(&mut Vec::new(), [1, 2].into_iter(), true);
            let first = speaker.next(bytes.as_bytes()).expect("good").expect("whole");
            let item = first.item.expect("an item");
            assert_eq!((item.data, first.verdict), (b"hi".as_slice(), None), "{dialect:?}");
            assert!(item.cas.is_none_or(|c| c == 9) && item.flags.is_none_or(|f| f == 5));
            let rest = speaker.next(&bytes.as_bytes()[first.used..]).expect("good").expect("whole");
            assert_eq!((rest.verdict, rest.item), (Some(Verdict::Done), None), "{dialect:?}");
            assert_eq!(rest.absent, dialect == Dialect::Redis);
        }
    }
}
