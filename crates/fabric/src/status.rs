//! How a call ended: gRPC's status codes by their names, a message, and nothing allocated on success.
//!
//! Exactly one outcome per call: a reply, or one of these. [`Code::Unavailable`] with [`Status::is_lost`] says that the peer was
//! lost, so whether the call took effect is not known; a call refused before it was sent is never lost.
//!
//! Sources: the codes' numbers and names are those of gRPC (`google.rpc.Code`).

use codec::memory::OutOfMemory;
use std::fmt;

/// gRPC's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)] // the field's words
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// All of them, by number.
    pub const ALL: [Code; 17] = [
        Code::Ok,
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    /// The code of a number; numbers that are none are [`Code::Unknown`], as in gRPC.
    pub fn of(number: u16) -> Code {
        Code::ALL.get(usize::from(number)).copied().unwrap_or(Code::Unknown)
    }

    /// As gRPC writes it: `DEADLINE_EXCEEDED`.
    pub fn name(self) -> &'static str {
        match self {
            Code::Ok => "OK",
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call that did not end with a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    code: Code,
    lost: bool,
    message: Box<str>,
}

impl Status {
    /// A status with a message for people.
    pub fn new(code: Code, message: impl Into<Box<str>>) -> Status {
        Status { code, lost: false, message: message.into() }
    }

    /// The peer was lost while the call was on its way: it may have taken effect or not.
    pub fn lost(message: impl Into<Box<str>>) -> Status {
        Status { code: Code::Unavailable, lost: true, message: message.into() }
    }

    /// What kind of end.
    pub fn code(&self) -> Code {
        self.code
    }

    /// For people; may be empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the call may have taken effect though no reply came.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.message {
            "" => write!(f, "{}", self.code),
            message => write!(f, "{}: {message}", self.code),
        }
    }
}

impl std::error::Error for Status {}

/// So that a handler may say `?` where it builds its reply.
impl From<OutOfMemory> for Status {
    #[cold]
    fn from(_: OutOfMemory) -> Status {
        Status::new(Code::ResourceExhausted, "no memory for the message")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_numbers() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!((code as usize, Code::of(number as u16)), (number, code));
        }
        assert_eq!(Code::of(17), Code::Unknown);
        let status = Status::new(Code::NotFound, "no such key");
        assert_eq!(status.to_string(), "NOT_FOUND: no such key");
    }
}
