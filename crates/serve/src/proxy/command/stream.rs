//! A command as one for its home's memcached side, where the item is too long for a packet: the home does it at once, with memcached's meaning.
//!
//! Two things are not told there. What a number that `ma` makes was before: so it is asked not to make one, and where nothing is the command begins anew
//! by packets. And version 0, which no item has: the largest number stands for it, for `C0` is no condition.

use super::{Count, Counted, Delete, Hit, Outcome, Read, Store, Trouble, What, refused};
use crate::inc::stream::{Request, Said, exptime, key_word, number};
use base::Nanos;
use protocol::memcache::SetMode;
use protocol::memcache::client::{MetaStatus, request};
use protocol::wire::Status;
use std::fmt::Write as _;

/// The command; none where it has no use for one.
pub(super) fn request_of(key: &[u8], what: &What) -> Option<Request> {
    let (word, is_base64) = key_word(key)?;
    let b = if is_base64 { "b " } else { "" };
    let (mut text, mut changes) = (Vec::new(), true);
    let expect = match what {
        What::Read(read) if !read.lease => match read.touch {
            Some(life) => request::read_and_touch(&mut text, "gats", exptime(life), [word.as_ref()]),
            None => {
                changes = false;
                request::read(&mut text, "gets", [word.as_ref()])
            }
        },
        What::Read(read) => request::meta_get(&mut text, &word, &format!("{b}v f c t{}", read_flags(read))),
        What::Store(store) => {
            let flags = format!("{b}c s{}", store_flags(store));
            request::meta_set(&mut text, &word, &flags, &store.value)
        }
        What::Delete(delete) => {
            request::meta_delete(&mut text, &word, format!("{b}{}", delete_flags(delete)).trim())
        }
        What::Count(count) => {
            request::meta_arithmetic(&mut text, &word, &format!("{b}v c t{}", count_flags(count)))
        }
        What::Touch(_) | What::Flush(_) => return None,
    };
    Some(Request { key: key.to_vec(), text, expect, changes })
}

/// `C`, if there is a condition.
fn compare(flags: &mut String, compare: Option<u64>) {
    if let Some(version) = compare {
        let _ = write!(flags, " C{}", if version == 0 { u64::MAX } else { version });
    }
}

fn lives(flags: &mut String, flag: char, life: Option<Nanos>) {
    if let Some(life) = life {
        let _ = write!(flags, " {flag}{}", exptime(life));
    }
}

fn read_flags(read: &Read) -> String {
    let mut flags = String::new();
    lives(&mut flags, 'N', read.vivify);
    if read.touch_first {
        lives(&mut flags, 'T', read.touch);
    }
    if let Some(below) = read.recache_below {
        let _ = write!(flags, " R{below}");
    }
    if !read.touch_first {
        lives(&mut flags, 'T', read.touch);
    }
    flags
}

fn store_flags(store: &Store) -> String {
    let mode = match store.mode {
        SetMode::Set => "",
        SetMode::Add => " ME",
        SetMode::Replace => " MR",
        SetMode::Append => " MA",
        SetMode::Prepend => " MP",
    };
    let mut flags = format!(" F{} T{}{mode}", store.flags, exptime(store.life));
    compare(&mut flags, store.compare().filter(|_| store.mode != SetMode::Add));
    if store.invalidate {
        flags.push_str(" I");
    }
    lives(&mut flags, 'N', store.vivify);
    flags
}

fn delete_flags(delete: &Delete) -> String {
    let mut flags = String::new();
    compare(&mut flags, delete.compare);
    if delete.invalidate {
        flags.push_str(" I");
    }
    lives(&mut flags, 'T', delete.touch);
    if delete.remove_value {
        flags.push_str(" x");
    }
    flags
}

fn count_flags(count: &Count) -> String {
    let mut flags = format!(" D{}{}", count.delta, if count.decrement { " MD" } else { "" });
    lives(&mut flags, 'T', count.touch);
    compare(&mut flags, count.compare());
    flags
}

/// What the home's reply comes to; none where the command is to begin anew.
pub(super) fn outcome(what: &What, said: Said) -> Option<Outcome> {
    if let Said::Refused(status) = said {
        return Some(if status == Status::NotNumber { Outcome::NotNumeric } else { refused(status) });
    }
    let outcome = match what {
        What::Read(read) => read_outcome(read, said),
        What::Store(store) => store_outcome(store, &said),
        What::Delete(_) => status_of(&said, Outcome::Deleted),
        What::Count(count) if count.create.is_some() && is_nothing(&said) => return None,
        What::Count(count) => count_outcome(count, &said),
        What::Touch(_) | What::Flush(_) => unreachable!("these have no use for a stream"),
    };
    Some(outcome)
}

fn is_nothing(said: &Said) -> bool {
    matches!(said, Said::Nothing | Said::Meta { status: MetaStatus::NotFound | MetaStatus::Miss, .. })
}

/// The outcome of what changes something, `done` where it did.
fn status_of(said: &Said, done: Outcome) -> Outcome {
    match said {
        Said::Meta { status: MetaStatus::Done | MetaStatus::Value, .. } => done,
        Said::Meta { status: MetaStatus::Exists, .. } => Outcome::Exists,
        Said::Meta { status: MetaStatus::NotStored, .. } => Outcome::NotStored,
        said if is_nothing(said) => Outcome::NotFound,
        _ => Outcome::Failed(Trouble::Refused(Status::Bad)),
    }
}

fn words(said: &Said) -> &[u8] {
    if let Said::Meta { words, .. } = said { words } else { &[] }
}

/// What is left of a life, as `t` says it.
fn life(words: &[u8]) -> Nanos {
    number(words, b't').map_or(Nanos::MAX, Nanos::from_secs)
}

fn read_outcome(read: &Read, said: Said) -> Outcome {
    let (won, stale, claimed) = (said.has(b'W'), said.has(b'X'), said.has(b'Z'));
    let hit = match said {
        Said::Value { flags, version, value } => {
            let life = read.touch.unwrap_or(Nanos::MAX);
            Hit { value, flags, version, life, life_before: Nanos::MAX, won, stale, claimed }
        }
        Said::Meta { status: MetaStatus::Value, words, value } => {
            let life_before = life(&words);
            let flags = number(&words, b'f').and_then(|flags| u32::try_from(flags).ok()).unwrap_or(0);
            let version = number(&words, b'c').unwrap_or(0);
            let life = read.touch.unwrap_or(life_before);
            Hit { value, flags, version, life, life_before, won, stale, claimed }
        }
        _ => return Outcome::Miss,
    };
    Outcome::Hit(hit)
}

fn store_outcome(store: &Store, said: &Said) -> Outcome {
    let version = number(words(said), b'c').unwrap_or(0);
    let size = number(words(said), b's').map_or(store.value.len(), |size| size as usize);
    status_of(said, Outcome::Stored { version, size })
}

fn count_outcome(count: &Count, said: &Said) -> Outcome {
    let Said::Meta { words, value, status: MetaStatus::Value } = said else {
        return status_of(said, Outcome::NotFound);
    };
    let Some(counted) = store::number(value) else { return Outcome::NotNumeric };
    let (version, life_before) = (number(words, b'c').unwrap_or(0), life(words));
    let life = count.touch.unwrap_or(life_before);
    Outcome::Counted(Counted { number: counted, version, life, life_before, created: false })
}
