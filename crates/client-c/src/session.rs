//! A session with a key-value server: opened, closed, and what it says of its last failure.

use crate::boundary::{Failure, Guarded, opened, string};
use crate::options::{OpenOptions, opening, timeout};
use crate::{Item, Status};
use client::kv::{Client, Options};
use std::ffi::c_char;
use std::time::Duration;

/// What a session is to this library.
pub(crate) struct Open {
    pub(crate) client: Client,
    /// Where items of one function are put together before they go to C.
    pub(crate) items: Vec<Item>,
}

/// A session with a key-value server. A thread uses it at a time; threads that work together have one each.
pub struct Session {
    _private: (),
}

/// What C holds as a session is what is guarded.
pub(crate) fn guarded(session: *const Session) -> *const Guarded<Open> {
    session.cast()
}

/// Opens a session with the server at an address: `shm:/path` (a server's `--shm`), `unix:/path`, `HOST:PORT` or `tls:HOST:PORT`. `options` may be
/// null. On success `*session` is to be closed with millrace_close; else it is null, and `millrace_error(NULL)` says why.
///
/// # Safety
/// `address` is a string or null; `options` is null or can be read, and so can what it points to; `session` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_open(
    address: *const c_char,
    options: *const OpenOptions,
    session: *mut *mut Session,
) -> Status {
    let open = || {
        // SAFETY: the caller's promise.
        let (address, opening) = unsafe { (string("address", address)?, opening(options)?) };
        let address = address.ok_or_else(|| Failure::argument("address is null"))?;
        let options = Options { timeout: opening.timeout, tls: opening.tls };
        Ok(Open { client: Client::open(address, &options)?, items: Vec::new() })
    };
    // SAFETY: the caller's promise; what C holds as a session is what is guarded.
    unsafe { opened(session.cast(), open) }
}

/// Closes a session, which may be null; requests under way are given up. MILLRACE_BUSY: another thread is in it, and it stays open.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; it is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_close(session: *mut Session) -> Status {
    // SAFETY: the caller's promise.
    unsafe { Guarded::close(session.cast::<Guarded<Open>>()) }
}

/// Why the session's last function failed, and what to do, in English; of null, why this thread's last session or channel could not be opened.
/// It stays until the session's next function; empty if none failed.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_error(session: *const Session) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { Guarded::error(guarded(session)) }
}

/// How long operations wait from now on, in milliseconds; 0: a second.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_set_timeout(session: *mut Session, timeout_ms: u32) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            open.client.set_timeout(timeout(timeout_ms, Duration::from_secs(1)));
            Ok(Status::Ok)
        })
    }
}

/// Says who asks, to a server with users (its `-Y`), before anything else is asked.
///
/// # Safety
/// `session` is null, or came from millrace_open and was not closed; `user` and `password` are strings or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_login(
    session: *mut Session,
    user: *const c_char,
    password: *const c_char,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(session), |open| {
            let missing = || Failure::argument("user or password is null");
            let user = string("user", user)?.ok_or_else(missing)?;
            let password = string("password", password)?.ok_or_else(missing)?;
            open.client.login(user, password)?;
            Ok(Status::Ok)
        })
    }
}
