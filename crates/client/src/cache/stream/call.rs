//! Operations of the cache's library as memcached commands: those that may be of a value too long for a packet.
//!
//! | operation | command | answered |
//! |---|---|---|
//! | GET | `gets`; `mg` where the key is not plain | value, flags, version; what is left of its life is not told |
//! | SET, ADD, REPLACE, APPEND | `ms` in their modes | version |
//! | CAS | `ms` with C | version |
//!
//! Others need none: by packet they do to a long value what they do to a short one.

use super::request::{Request, Said, exptime, key_word, number};
use base::Nanos;
use protocol::coherence::client::{Answer, Call};
use protocol::memcache::client::{MetaStatus, request};
use protocol::wire::{Kind, Status, Ttl, Verb, Version};
use std::fmt::Write as _;

/// The command that does `call`, if a stream can do it.
pub fn of_call(call: &Call) -> Option<Request> {
    let (word, is_base64) = key_word(&call.key)?;
    let key = call.key.clone();
    let mut text = Vec::new();
    if call.verb == Verb::Get {
        let expect = match is_base64 {
            true => request::meta_get(&mut text, &word, "b v f c"),
            false => request::read(&mut text, "gets", [word.as_ref()]),
        };
        return Some(Request { key, text, expect, changes: false });
    }
    let mode = match call.verb {
        Verb::Set | Verb::Cas => "",
        Verb::Add => " ME",
        Verb::Replace => " MR",
        // A home appends as far as its items may be long.
        Verb::Append if call.operand == 0 => " MA",
        _ => return None,
    };
    let is_plain = matches!(call.kind, Kind::Bytes | Kind::Number) && call.life != Ttl::KEPT.nanos();
    if !is_plain && call.verb != Verb::Append {
        return None;
    }
    let mut flags = format!("c F{} T{}{mode}", call.flags, exptime(call.life));
    if is_base64 {
        flags.push_str(" b");
    }
    if call.verb == Verb::Cas {
        // No item has version 0, and `C0` is none.
        let version = if call.version.0 == 0 { u64::MAX } else { call.version.0 };
        let _ = write!(flags, " C{version}");
    }
    let expect = request::meta_set(&mut text, &word, &flags, &call.value);
    Some(Request { key, text, expect, changes: true })
}

/// What the home's reply says of an operation.
pub fn answer(verb: Verb, said: Said) -> Answer {
    let version = |words: &[u8]| Version(number(words, b'c').unwrap_or(0));
    match said {
        Said::Value { flags, version, value } => {
            Answer { value, flags, version: Version(version), ..Answer::of(Status::Ok) }
        }
        Said::Nothing => Answer::of(Status::Miss),
        Said::Refused(status) => Answer::of(status),
        Said::Meta { status: MetaStatus::Value, words, value } => {
            let flags = number(&words, b'f').and_then(|flags| u32::try_from(flags).ok()).unwrap_or(0);
            Answer { value, flags, version: version(&words), life: Nanos::MAX, ..Answer::of(Status::Ok) }
        }
        Said::Meta { status, words, .. } => {
            let status = match (status, verb) {
                (MetaStatus::Done, _) => Status::Ok,
                (MetaStatus::Exists, _) | (MetaStatus::NotStored, Verb::Add) => Status::Exists,
                (MetaStatus::Miss | MetaStatus::NotFound | MetaStatus::NotStored, _) => Status::Miss,
                _ => Status::Bad,
            };
            let version = if status == Status::Ok { version(&words) } else { Version(0) };
            Answer { version, ..Answer::of(status) }
        }
    }
}
