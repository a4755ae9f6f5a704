//! The model itself: what an operation must answer and leave, from the item before it.

use super::steps::{Op, Step};
use super::{Answer, Known};
use crate::*;

/// What the answer and the item must be, from `before`. `version` is the one that a write gets.
pub(super) fn expected(step: &Step, before: Option<Known>, version: u64) -> (Answer, Option<Known>) {
    let now = step.now;
    match &step.op {
        Op::Get(how) => expected_get(now, how, before, version),
        Op::Set(value, how) => expected_set(now, value, how, before, version),
        Op::Delete(how) => {
            let Some(mut item) = before else { return (Answer::Delete(DeleteOutcome::NotFound), None) };
            if how.compare.is_some_and(|v| v != item.version) {
                return (Answer::Delete(DeleteOutcome::Exists), Some(item));
            }
            if !how.invalidate && !how.remove_value {
                return (Answer::Delete(DeleteOutcome::Deleted), None);
            }
            if how.remove_value {
                item = fresh(now, Vec::new(), 0, how.touch.unwrap_or(0), version);
            }
            if how.invalidate {
                item =
                    Known { stale: true, win_sent: false, expiry: how.touch.unwrap_or(item.expiry), ..item };
            }
            item.version = version;
            (Answer::Delete(DeleteOutcome::Kept(version)), Some(item))
        }
        Op::Arith(how) => expected_arith(step, how, before, version),
        Op::Touch(expiry) => match before {
            None => (Answer::Touched(false), None),
            Some(item) => {
                (Answer::Touched(true), Some(Known { expiry: *expiry, access: now, fetched: true, ..item }))
            }
        },
    }
}

fn fresh(now: u32, value: Vec<u8>, flags: u32, expiry: u32, version: u64) -> Known {
    Known { value, flags, expiry, version, access: now, fetched: false, stale: false, win_sent: false }
}

fn expected_get(now: u32, how: &GetHow, before: Option<Known>, version: u64) -> (Answer, Option<Known>) {
    let (mut item, made) = match (before, how.vivify) {
        (Some(item), _) => (item, false),
        (None, None) => return (Answer::Miss, None),
        (None, Some(expiry)) => (fresh(now, Vec::new(), 0, expiry, version), true),
    };
    let before = item.clone();
    let looked_at = if how.touch_first { how.touch.unwrap_or(item.expiry) } else { item.expiry };
    if let (Some(touch), false) = (how.touch, made) {
        item.expiry = touch;
    }
    let ageing = how.recache_below.is_some_and(|t| looked_at != 0 && looked_at < now + t);
    let won = made || how.lease && !item.win_sent && (item.stale || ageing);
    item.win_sent |= won;
    if how.bump {
        (item.access, item.fetched) = (now, true);
    }
    let known = Known { access: 0, fetched: false, win_sent: false, ..item.clone() };
    let answer = Answer::Hit {
        known,
        access_before: before.access,
        hit_before: before.fetched,
        expiry_before: if made { 0 } else { before.expiry },
        won,
        sent: before.win_sent,
        stale: before.stale,
    };
    (answer, Some(item))
}

fn expected_set(
    now: u32,
    value: &[u8],
    how: &SetHow,
    before: Option<Known>,
    version: u64,
) -> (Answer, Option<Known>) {
    let joins = matches!(how.verb, Verb::Append | Verb::Prepend);
    let compare = how.compare.filter(|&v| v != 0 || !joins);
    let stored =
        |item: Known| (Answer::Set(SetOutcome::Stored { version, size: item.value.len() }), Some(item));
    let Some(old) = before else {
        let expiry = match (how.verb, compare) {
            (Verb::Set | Verb::Replace, Some(_)) => return (Answer::Set(SetOutcome::NotFound), None),
            (Verb::Set | Verb::Add, _) => how.expiry,
            (Verb::Append | Verb::Prepend, _) if how.vivify.is_some() => how.vivify.unwrap_or(0),
            _ => return (Answer::Set(SetOutcome::NotStored), None),
        };
        return stored(fresh(now, value.to_vec(), how.flags, expiry, version));
    };
    if how.verb == Verb::Add {
        return (Answer::Set(SetOutcome::NotStored), Some(Known { access: now, ..old }));
    }
    let joined = match how.verb {
        Verb::Append => Some([&old.value, value].concat()),
        Verb::Prepend => Some([value, &old.value].concat()),
        _ => None,
    };
    if let Some(compare) = compare.filter(|&v| v != old.version) {
        if !how.invalidate || compare > old.version || compare == 0 || joins {
            return (Answer::Set(SetOutcome::Exists), Some(old));
        }
        let item = fresh(now, value.to_vec(), how.flags, old.expiry, version);
        return stored(Known { stale: true, win_sent: old.win_sent, ..item });
    }
    match joined {
        Some(joined) => stored(fresh(now, joined, old.flags, old.expiry, version)),
        None => stored(fresh(now, value.to_vec(), how.flags, how.expiry, version)),
    }
}

fn expected_arith(
    step: &Step,
    how: &ArithHow,
    before: Option<Known>,
    version: u64,
) -> (Answer, Option<Known>) {
    let now = step.now;
    let Some(mut item) = before else {
        let Some((value, expiry)) = how.create else { return (Answer::Arith(ArithOutcome::NotFound), None) };
        let item = fresh(now, value.to_string().into_bytes(), 0, expiry, version);
        let done = ArithOutcome::Done { value, version, expiry_before: 0, expiry, created: true };
        return (Answer::Arith(done), Some(item));
    };
    if item.value.is_empty() {
        return (Answer::Arith(ArithOutcome::NotNumeric), Some(item));
    }
    if how.compare.is_some_and(|v| v != 0 && v != item.version) {
        return (Answer::Arith(ArithOutcome::Exists), Some(item));
    }
    let text = String::from_utf8_lossy(&item.value).into_owned();
    // A value outside the log is never a number; see `Log::inline_limit`.
    let inside = crate::item::footprint(step.key.len(), item.value.len()) <= 2048;
    let number = text.split([' ', '\t', '\n', '\r', '\x0b', '\x0c']).find(|s| !s.is_empty());
    let Some(number) = number.filter(|_| inside).and_then(|s| s.parse::<u64>().ok()) else {
        return (Answer::Arith(ArithOutcome::NotNumeric), Some(item));
    };
    let value = if how.decrement { number.saturating_sub(how.delta) } else { number.wrapping_add(how.delta) };
    let digits = value.to_string().into_bytes();
    let grows = digits.len() > item.value.len();
    let width = item.value.len();
    let expiry_before = item.expiry;
    item.value = digits;
    if grows {
        (item.fetched, item.stale, item.win_sent) = (false, false, false);
    } else {
        item.value.resize(width, b' ');
    }
    item.access = now;
    item.version = version;
    item.expiry = how.touch.unwrap_or(item.expiry);
    let done = ArithOutcome::Done { value, version, expiry_before, expiry: item.expiry, created: false };
    (Answer::Arith(done), Some(item))
}
