//! How a function ended.

use crate::boundary::text;
use client::kv::Error;
use std::ffi::{CStr, c_char};

/// How a function ended. What is not negative is the outcome of a request that the server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Done, or found.
    Ok = 0,
    /// There is no such item.
    NotFound = 1,
    /// The condition of an add, replace, append or prepend does not hold.
    NotStored = 2,
    /// Another version is there than the one that a cas asked for.
    Exists = 3,
    /// An argument is null or wrong. Nothing was sent.
    Argument = -1,
    /// The server cannot be reached.
    Unreachable = -2,
    /// The server is gone; a write that was under way was done or not. Close this session and open another.
    Gone = -3,
    /// No answer in time; a write was done, will be, or not.
    TimedOut = -4,
    /// Another thread is in a function of this session or channel, or requests are under way that are to be completed first.
    Busy = -5,
    /// As many requests are under way as can be. Complete some, then submit again.
    Full = -6,
    /// The value is too long for the server or for its rings. Nothing was changed.
    TooLarge = -7,
    /// What is there is no number. Nothing was changed.
    NotANumber = -8,
    /// The server has users, and does not know this one.
    Login = -9,
    /// The server refused it; millrace_error has its words.
    Refused = -10,
    /// The server broke the protocol. Close this session and open another.
    Protocol = -11,
    /// A mistake of this library. The session or channel does nothing more.
    Internal = -12,
}

impl Status {
    pub(crate) fn of(error: &Error) -> Status {
        match error {
            Error::Argument(_) => Status::Argument,
            Error::Unreachable(_) => Status::Unreachable,
            Error::Gone => Status::Gone,
            Error::TimedOut(_) => Status::TimedOut,
            Error::Busy => Status::Busy,
            Error::Full => Status::Full,
            Error::TooLarge => Status::TooLarge,
            Error::NotANumber => Status::NotANumber,
            Error::Login => Status::Login,
            Error::Refused(_) => Status::Refused,
            Error::Broken(_) => Status::Protocol,
        }
    }

    /// In general; of one failure, `millrace_error` says more.
    pub(crate) fn text(self) -> &'static CStr {
        match self {
            Status::Ok => c"done",
            Status::NotFound => c"there is no such item",
            Status::NotStored => c"not stored: its condition does not hold",
            Status::Exists => c"not stored: another version is there",
            Status::Argument => c"an argument is null or wrong; nothing was sent",
            Status::Unreachable => c"the server cannot be reached",
            Status::Gone => c"the server is gone: open another session; a write that was under way was done or not",
            Status::TimedOut => c"no answer in time; a write was done, will be, or not",
            Status::Busy => {
                c"another thread uses this session or channel (give each its own), or requests are under way that are to be completed first"
            }
            Status::Full => c"too many requests are under way: complete some first; this one was not sent",
            Status::TooLarge => c"the value is too long for the server (its -I) or for its rings (its shm.arena)",
            Status::NotANumber => c"what is there is no number",
            Status::Login => c"the server asks for a user and password that it knows; see its -Y",
            Status::Refused => c"the server refused it",
            Status::Protocol => c"the server broke the protocol: open another session",
            Status::Internal => c"a mistake of libmillrace: the session does nothing more; please report it",
        }
    }

    /// All of them.
    const ALL: [Status; 16] = [
        Status::Ok,
        Status::NotFound,
        Status::NotStored,
        Status::Exists,
        Status::Argument,
        Status::Unreachable,
        Status::Gone,
        Status::TimedOut,
        Status::Busy,
        Status::Full,
        Status::TooLarge,
        Status::NotANumber,
        Status::Login,
        Status::Refused,
        Status::Protocol,
        Status::Internal,
    ];
}

/// What a status means, in English. Never null, also of a number that is no status; it stays.
#[unsafe(no_mangle)]
pub extern "C" fn millrace_strerror(status: i32) -> *const c_char {
    let found = Status::ALL.into_iter().find(|one| *one as i32 == status);
    found.map_or(c"no status of libmillrace", Status::text).as_ptr()
}

/// The version of this library, as `0.2.0`. It stays.
#[unsafe(no_mangle)]
pub extern "C" fn millrace_version() -> *const c_char {
    text(concat!(env!("CARGO_PKG_VERSION"), "\0")).as_ptr()
}
