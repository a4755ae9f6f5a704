//! Requests that are submitted, and completed later: many are under way at once.

use crate::boundary::{Failure, Guarded, place, slice};
use crate::items::taken;
use crate::options::timeout;
use crate::session::guarded;
use crate::{Item, Session, Status};
use client::kv::{Request, Store};
use std::ffi::c_void;
use std::time::Duration;

/// What a submitted request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Operation {
    /// As millrace_get.
    Get = 0,
    /// As millrace_gets.
    Gets = 1,
    /// As millrace_gat.
    Gat = 2,
    /// As millrace_set.
    Set = 3,
    /// As millrace_add.
    Add = 4,
    /// As millrace_replace.
    Replace = 5,
    /// As millrace_append.
    Append = 6,
    /// As millrace_prepend.
    Prepend = 7,
    /// As millrace_cas; `number` is the version.
    Cas = 8,
    /// As millrace_delete.
    Delete = 9,
    /// As millrace_incr; `number` is how much.
    Incr = 10,
    /// As millrace_decr; `number` is how much.
    Decr = 11,
    /// As millrace_touch.
    Touch = 12,
}

/// A request to submit. Its key and value are read by millrace_submit, and not afterwards.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Submission {
    /// One of enum millrace_operation.
    pub operation: u32,
    /// The number that a store keeps with the value.
    pub flags: u32,
    /// The key.
    pub key: *const c_void,
    /// Its bytes: 1 to 250.
    pub key_len: usize,
    /// What is stored.
    pub value: *const c_void,
    /// Bytes of `value`.
    pub value_len: usize,
    /// When it expires, as for millrace_set.
    pub expiry_s: i64,
    /// A version, or how much is added or subtracted.
    pub number: u64,
}

/// The answer to a submitted request.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Completion {
    /// Which request it is the answer to; 0: to none, since none is under way.
    pub ticket: u64,
    /// How it ended.
    pub status: Status,
    /// Of reads: the item.
    pub item: Item,
    /// Of incr and decr: the sum.
    pub number: u64,
}

const COMPLETED: Completion = Completion { ticket: 0, status: Status::Ok, item: Item::NONE, number: 0 };

/// What is asked.
///
/// # Safety
/// The submission's key and value can be read.
unsafe fn request<'a>(asked: &Submission) -> Result<Request<'a>, Failure> {
    // SAFETY: the caller's promise.
    let (key, value) =
        unsafe { (slice("key", asked.key, asked.key_len)?, slice("value", asked.value, asked.value_len)?) };
    let Submission { flags, expiry_s, number, .. } = *asked;
    let store = |how| Request::Store { how, key, value, flags, expiry_s };
    Ok(match asked.operation {
        0 => Request::Get { key, version: false },
        1 => Request::Get { key, version: true },
        2 => Request::GetAndTouch { key, expiry_s },
        3 => store(Store::Set),
        4 => store(Store::Add),
        5 => store(Store::Replace),
        6 => store(Store::Append),
        7 => store(Store::Prepend),
        8 => store(Store::Cas(number)),
        9 => Request::Delete { key },
        10 => Request::Count { key, by: number, down: false },
        11 => Request::Count { key, by: number, down: true },
        12 => Request::Touch { key, expiry_s },
        other => return Err(Failure::argument(format!("{other} is no operation"))),
    })
}

/// Submits a request, and writes its ticket, which may be null. It is on its way at the latest after millrace_flush or millrace_complete; answers come
/// in the order in which requests were submitted. MILLRACE_FULL: complete some, then submit it again.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `submission` can be read, and so can its key and value; `ticket` is null or can
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_submit(
    session: *mut Session,
    submission: *const Submission,
    ticket: *mut u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            let asked = submission.as_ref().ok_or_else(|| Failure::argument("submission is null"))?;
            let submitted = open.client.submit(&request(asked)?)?;
            if let Some(ticket) = ticket.as_mut() {
                *ticket = submitted;
            }
            Ok(Status::Ok)
        })
    }
}

/// Sends what was submitted on its way.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_flush(session: *mut Session) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            open.client.flush()?;
            Ok(Status::Ok)
        })
    }
}

/// Waits for the next answer, for `timeout_ms` at most (0: a second), and writes it; MILLRACE_OK says that there is one, or with ticket 0 that nothing
/// is under way. How the request went is the completion's status. MILLRACE_TIMED_OUT: it goes on being under way.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `completion` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_complete(
    session: *mut Session,
    timeout_ms: u32,
    completion: *mut Completion,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            let into = place("completion", completion)?;
            *into = COMPLETED;
            let Some(completed) = open.client.complete(timeout(timeout_ms, Duration::from_secs(1)))? else {
                return Ok(Status::Ok);
            };
            into.ticket = completed.ticket;
            match completed.answer {
                Ok(answer) => (into.status, into.item, into.number) = taken(answer),
                Err(error) => into.status = Status::of(&error),
            }
            Ok(Status::Ok)
        })
    }
}

/// How many requests were submitted and not completed; 0 of null, and while another thread is in the session.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_under_way(session: *const Session) -> usize {
    let mut count = 0;
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            count = open.client.under_way();
            Ok(Status::Ok)
        });
    }
    count
}
