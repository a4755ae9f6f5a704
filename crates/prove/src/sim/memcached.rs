//! Clients of memcached's protocol at a node: calls as commands, replies as answers.
//!
//! What memcached has no word for is asked as a read. A decrement is one too: memcached keeps the length of a number that it makes shorter, and a judge
//! would see blanks.

use base::Nanos;
use protocol::coherence::client::{Answer, Call};
use protocol::memcache::client::{Expect, MetaStatus, Progress, Reply, ReplyReader, meta_token, request};
use protocol::wire::{Kind, Status, Verb, Version};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The longest value.
const MAX_VALUE: usize = 1 << 10;

/// What such a client asks instead of `call`, which has a time to live in seconds, or none.
pub fn call_of(mut call: Call) -> Call {
    let has_word = matches!(
        call.verb,
        Verb::Get
            | Verb::Set
            | Verb::Add
            | Verb::Replace
            | Verb::Cas
            | Verb::Append
            | Verb::Delete
            | Verb::Incr
            | Verb::Touch
            | Verb::Flush
    );
    if !has_word {
        return Call::new(Verb::Get, &call.key);
    }
    call.life = Nanos::MAX;
    call
}

/// A command, which stays for as long as the program, and what its reply looks like.
pub fn command(call: &Call) -> (&'static [u8], Expect) {
    let (mut text, key, value) = (Vec::new(), &call.key, &call.value);
    let expect = match call.verb {
        Verb::Set => request::meta_set(&mut text, key, "c", value),
        Verb::Add => request::meta_set(&mut text, key, "c ME", value),
        Verb::Replace => request::meta_set(&mut text, key, "c MR", value),
        Verb::Append => request::meta_set(&mut text, key, "c MA", value),
        Verb::Cas => request::meta_set(&mut text, key, &format!("c C{}", call.version.0), value),
        Verb::Delete => request::meta_delete(&mut text, key, ""),
        Verb::Incr if value.is_empty() => {
            request::meta_arithmetic(&mut text, key, &format!("v c D{}", call.operand))
        }
        Verb::Incr => {
            let begin = value.escape_ascii();
            request::meta_arithmetic(&mut text, key, &format!("v c D{} N0 J{begin}", call.operand))
        }
        Verb::Touch => request::meta_get(&mut text, key, "c T0"),
        Verb::Flush => request::flush_all(&mut text, None, false),
        _ => request::meta_get(&mut text, key, "v c"),
    };
    (kept(text), expect)
}

/// Texts that were used, of all worlds: there are not many different ones.
static TEXTS: Mutex<Option<HashSet<&'static [u8]>>> = Mutex::new(None);

fn kept(text: Vec<u8>) -> &'static [u8] {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_default();
    if let Some(known) = texts.get(text.as_slice()) {
        return known;
    }
    let text: &'static [u8] = text.leak();
    texts.insert(text);
    text
}

/// What `call` was answered with these bytes; none: it was not done.
///
/// # Errors
/// In words: no reply to it.
pub fn answer(call: &Call, expect: Expect, bytes: &[u8]) -> Result<Option<Answer>, String> {
    let nonsense = || format!("{:?} was answered {:?}", call.verb, bytes.escape_ascii().to_string());
    let mut reader = ReplyReader::new(MAX_VALUE);
    reader.expect(expect);
    let Ok(Progress::Reply { reply, used, last: true }) = reader.next(bytes) else { return Err(nonsense()) };
    if used != bytes.len() {
        return Err(nonsense());
    }
    let plain = |status| Answer {
        status,
        value: Vec::new(),
        flags: 0,
        kind: Kind::Bytes,
        life: Nanos::MAX,
        version: Version(0),
        number: 0,
        from_box: false,
    };
    let answer = match (reply, call.verb) {
        (Reply::ServerError(_), _) => return Ok(None),
        (Reply::ClientError(_), Verb::Incr) => plain(Status::NotNumber),
        (Reply::Ok, Verb::Flush) => plain(Status::Ok),
        (Reply::Meta { status, flags, data }, verb) => {
            let status = match (status, verb) {
                (MetaStatus::Done | MetaStatus::Value, _) => Status::Ok,
                (MetaStatus::NotStored, Verb::Add) | (MetaStatus::Exists, _) => Status::Exists,
                (MetaStatus::Miss | MetaStatus::NotFound | MetaStatus::NotStored, _) => Status::Miss,
                _ => return Err(nonsense()),
            };
            let number = |token: &[u8]| std::str::from_utf8(token).ok().and_then(|text| text.parse().ok());
            let is_shown = status == Status::Ok && verb != Verb::Delete;
            let version = if is_shown { meta_token(flags, b'c').and_then(number) } else { None };
            let value = data.unwrap_or_default().to_vec();
            let count = if verb == Verb::Incr { number(&value).unwrap_or(0) } else { 0 };
            Answer { value, version: Version(version.unwrap_or(0)), number: count, ..plain(status) }
        }
        _ => return Err(nonsense()),
    };
    Ok(Some(answer))
}
