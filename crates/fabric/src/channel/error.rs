//! Why a call or a switch was not begun.

use crate::status::{Code, Status};
use codec::encode::EncodeError;
use std::fmt;

/// Why a call, or a further message of one, was not sent. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// As many calls are in flight as may be, or the link is full, or the stream's window is used up: poll, then try again.
    Full,
    /// The message or the metadata is longer than a frame carries.
    TooLarge,
    /// The server takes no new calls; those in flight are answered. Connect again, perhaps elsewhere.
    Draining,
    /// The connection is over.
    Gone,
    /// The call is over, or its stream was finished.
    Ended,
    /// The method does not stream that way.
    Shape,
    /// The message cannot be encoded.
    Encode(EncodeError),
    /// No memory to build the message in.
    OutOfMemory,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartError::Full => "too much is in flight: poll, then try again",
            StartError::TooLarge => "the message or its metadata is too long",
            StartError::Draining => "draining: the server takes no new calls",
            StartError::Gone => "the connection is over",
            StartError::Ended => "the call or its stream has ended",
            StartError::Shape => "the method does not stream that way",
            StartError::Encode(error) => return error.fmt(f),
            StartError::OutOfMemory => "no memory to build the message in",
        })
    }
}

impl std::error::Error for StartError {}

impl From<StartError> for Status {
    fn from(error: StartError) -> Status {
        let code = match error {
            StartError::Full | StartError::TooLarge | StartError::OutOfMemory => Code::ResourceExhausted,
            StartError::Draining | StartError::Gone => Code::Unavailable,
            StartError::Ended => Code::FailedPrecondition,
            StartError::Shape => Code::Unimplemented,
            StartError::Encode(_) => Code::Internal,
        };
        Status::new(code, error.to_string())
    }
}

/// Why a transport switch cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchError {
    /// One is under way and another one waits already.
    Busy,
    /// The connection is over.
    Gone,
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SwitchError::Busy => {
                "one switch is under way and another one waits: poll until the first has ended"
            }
            SwitchError::Gone => "the connection is over",
        })
    }
}

impl std::error::Error for SwitchError {}
