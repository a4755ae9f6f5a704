//! Operations on items, each of which waits for its answer.

use crate::boundary::{Failure, Guarded, place, slice};
use crate::session::guarded;
use crate::{Session, Status};
use client::kv::{Answer, Item as Found, Request, Store};
use std::ffi::c_void;

/// An item. Its value lies in the session's memory until the session's next function: copy what is to stay, free nothing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Item {
    /// The value; null only where there is no item.
    pub value: *const u8,
    /// Bytes of `value`.
    pub value_len: usize,
    /// The write that made it, for millrace_cas; 0 where it was not asked for.
    pub version: u64,
    /// The number that was stored with it.
    pub flags: u32,
}

/// A key of millrace_multi_get.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Key {
    /// `key_len` bytes.
    pub key: *const c_void,
    /// How many: 1 to 250.
    pub key_len: usize,
}

impl Item {
    pub(crate) const NONE: Item = Item { value: std::ptr::null(), value_len: 0, version: 0, flags: 0 };

    pub(crate) fn of(found: Found<'_>) -> Item {
        Item {
            value: found.value.as_ptr(),
            value_len: found.value.len(),
            version: found.version,
            flags: found.flags,
        }
    }
}

/// The status of an answer, and what goes with it.
pub(crate) fn taken(answer: Answer<'_>) -> (Status, Item, u64) {
    match answer {
        Answer::Item(item) => (Status::Ok, Item::of(item), 0),
        Answer::Done => (Status::Ok, Item::NONE, 0),
        Answer::NotFound => (Status::NotFound, Item::NONE, 0),
        Answer::NotStored => (Status::NotStored, Item::NONE, 0),
        Answer::Exists => (Status::Exists, Item::NONE, 0),
        Answer::Number(number) => (Status::Ok, Item::NONE, number),
    }
}

/// Asks what `request` makes of a key, and waits.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `key` can be read.
unsafe fn ask<'k>(
    session: *mut Session,
    (key, key_len): (*const c_void, usize),
    request: impl FnOnce(&'k [u8]) -> Result<Request<'k>, Failure>,
    answered: impl FnOnce(Item, u64) -> Result<(), Failure>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            let request = request(slice("key", key, key_len)?)?;
            let (status, item, number) = taken(open.client.call(&request)?);
            answered(item, number)?;
            Ok(status)
        })
    }
}

/// Reads an item into `item`, which is written before anything is asked.
///
/// # Safety
/// As `ask`; `item` is null or can be written.
unsafe fn read<'k>(
    session: *mut Session,
    key: (*const c_void, usize),
    item: *mut Item,
    request: impl FnOnce(&'k [u8]) -> Request<'k>,
) -> Status {
    // SAFETY: the caller's promise.
    let at = unsafe { place("item", item) };
    let request = |key| {
        at.map(|at| {
            *at = Item::NONE;
            request(key)
        })
    };
    // SAFETY: the caller's promise; `item` is not null where there is an answer.
    unsafe {
        ask(session, key, request, |found, _| {
            *item = found;
            Ok(())
        })
    }
}

/// Stores a value.
///
/// # Safety
/// As `ask`; `value` can be read.
unsafe fn store(
    session: *mut Session,
    how: Store,
    key: (*const c_void, usize),
    (value, value_len): (*const c_void, usize),
    flags: u32,
    expiry_s: i64,
) -> Status {
    // SAFETY: the caller's promise.
    let value = unsafe { slice("value", value, value_len) };
    let request = |key| Ok(Request::Store { how, key, value: value?, flags, expiry_s });
    // SAFETY: the caller's promise.
    unsafe { ask(session, key, request, |_, _| Ok(())) }
}

/// Adds to or subtracts from a number.
///
/// # Safety
/// As `ask`; `sum` is null or can be written.
unsafe fn count(
    session: *mut Session,
    key: (*const c_void, usize),
    by: u64,
    down: bool,
    sum: *mut u64,
) -> Status {
    let request = |key| Ok(Request::Count { key, by, down });
    // SAFETY: the caller's promise.
    unsafe {
        ask(session, key, request, |_, number| {
            if let Some(sum) = sum.as_mut() {
                *sum = number;
            }
            Ok(())
        })
    }
}

/// The item of a key. MILLRACE_NOT_FOUND: there is none.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `key` can be read for `key_len` bytes; `item` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_get(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    item: *mut Item,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { read(session, (key, key_len), item, |key| Request::Get { key, version: false }) }
}

/// The item of a key with its version, for millrace_cas. MILLRACE_NOT_FOUND: there is none.
///
/// # Safety
/// As millrace_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_gets(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    item: *mut Item,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { read(session, (key, key_len), item, |key| Request::Get { key, version: true }) }
}

/// The item of a key with its version; it expires at another time from now on, as for millrace_set. MILLRACE_NOT_FOUND: there is none.
///
/// # Safety
/// As millrace_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_gat(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    expiry_s: i64,
    item: *mut Item,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { read(session, (key, key_len), item, |key| Request::GetAndTouch { key, expiry_s }) }
}

/// The items of `count` keys with their versions, asked for together: `items[i]` is that of `keys[i]`, with a null value where there is none. All
/// stay until the session's next function. MILLRACE_OK also where some, or all, are not there; a failure is of all.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `keys` can be read, and `items` written, for `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_multi_get(
    session: *mut Session,
    keys: *const Key,
    count: usize,
    items: *mut Item,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            if count == 0 {
                return Ok(Status::Ok);
            }
            if keys.is_null() || items.is_null() || count > isize::MAX as usize / size_of::<Item>() {
                return Err(Failure::argument("keys or items are null, or their count no count"));
            }
            // Written first: what C has there need not be items.
            (0..count).for_each(|at| items.add(at).write(Item::NONE));
            let keys = std::slice::from_raw_parts(keys, count).iter();
            let keys: Vec<&[u8]> =
                keys.map(|key| slice("a key", key.key, key.key_len)).collect::<Result<_, _>>()?;
            let found = open.client.get_many(&keys)?;
            open.items.clear();
            open.items.extend(found.into_iter().map(|item| item.map_or(Item::NONE, Item::of)));
            items.copy_from_nonoverlapping(open.items.as_ptr(), open.items.len());
            Ok(Status::Ok)
        })
    }
}

/// Stores a value, whatever is there. `expiry_s` are seconds from now, up to 30 days; a larger number is a Unix time; 0 is for ever; what is
/// negative has expired already.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `key` and `value` can be read for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_set(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    flags: u32,
    expiry_s: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { store(session, Store::Set, (key, key_len), (value, value_len), flags, expiry_s) }
}

/// Stores where nothing is; else MILLRACE_NOT_STORED.
///
/// # Safety
/// As millrace_set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_add(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    flags: u32,
    expiry_s: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { store(session, Store::Add, (key, key_len), (value, value_len), flags, expiry_s) }
}

/// Stores where something is; else MILLRACE_NOT_STORED.
///
/// # Safety
/// As millrace_set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_replace(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    flags: u32,
    expiry_s: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { store(session, Store::Replace, (key, key_len), (value, value_len), flags, expiry_s) }
}

/// Stores where `version` is, of millrace_gets; else MILLRACE_EXISTS or MILLRACE_NOT_FOUND.
///
/// # Safety
/// As millrace_set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_cas(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    flags: u32,
    expiry_s: i64,
    version: u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { store(session, Store::Cas(version), (key, key_len), (value, value_len), flags, expiry_s) }
}

/// Adds bytes behind those that are there; MILLRACE_NOT_STORED: nothing is. Flags and expiry stay as they are.
///
/// # Safety
/// As millrace_set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_append(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { store(session, Store::Append, (key, key_len), (value, value_len), 0, 0) }
}

/// Adds bytes before those that are there; MILLRACE_NOT_STORED: nothing is. Flags and expiry stay as they are.
///
/// # Safety
/// As millrace_set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_prepend(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { store(session, Store::Prepend, (key, key_len), (value, value_len), 0, 0) }
}

/// Removes an item. MILLRACE_NOT_FOUND: there was none.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `key` can be read for `key_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_delete(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { ask(session, (key, key_len), |key| Ok(Request::Delete { key }), |_, _| Ok(())) }
}

/// Has an item expire at another time, as for millrace_set. MILLRACE_NOT_FOUND: there is none.
///
/// # Safety
/// As millrace_delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_touch(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    expiry_s: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { ask(session, (key, key_len), |key| Ok(Request::Touch { key, expiry_s }), |_, _| Ok(())) }
}

/// Adds to a decimal number, modulo 2^64; `sum`, which may be null, is what is there then. MILLRACE_NOT_FOUND: nothing is.
///
/// # Safety
/// As millrace_delete; `sum` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_incr(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    by: u64,
    sum: *mut u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { count(session, (key, key_len), by, false, sum) }
}

/// Subtracts from a decimal number, down to 0; else as millrace_incr.
///
/// # Safety
/// As millrace_incr.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_decr(
    session: *mut Session,
    key: *const c_void,
    key_len: usize,
    by: u64,
    sum: *mut u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { count(session, (key, key_len), by, true, sum) }
}
