//! Why there is no connection.

use super::handshake::VERSION;
use crate::link::Lost;
use crate::status::{Code, Status};
use std::fmt;
use std::time::Duration;

/// Why there is no connection, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The link was lost before the server answered.
    Lost(Lost),
    /// The server did not answer in this time.
    TimedOut(Duration),
    /// The server speaks another version of the protocol.
    Version {
        /// Its version.
        theirs: u16,
    },
    /// The server said no.
    Refused(Status),
    /// The server's schema of a service is not the one this client was built with, and the options ask for the same.
    Schema {
        /// The service.
        service: String,
    },
    /// What answered is no server of this protocol.
    Malformed(&'static str),
    /// There is no link to the server, and why.
    Link(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Lost(lost) => {
                write!(f, "{lost} before it answered: is a server running there?")
            }
            ConnectError::TimedOut(after) => {
                write!(f, "no answer within {after:?}: is the server stuck, or the timeout too short?")
            }
            ConnectError::Version { theirs } => {
                let older = if *theirs < VERSION { "server" } else { "client" };
                write!(f, "the server speaks version {theirs}, this client {VERSION}: update the {older}")
            }
            ConnectError::Refused(status) => write!(f, "the server refused: {status}"),
            ConnectError::Schema { service } => write!(
                f,
                "the server's schema of {service} is another one: build both from the same .proto, or do not ask for `exact`"
            ),
            ConnectError::Malformed(what) => {
                write!(f, "{what}: is there something else than a millrace server at this address?")
            }
            ConnectError::Link(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<ConnectError> for Status {
    fn from(error: ConnectError) -> Status {
        match error {
            ConnectError::Refused(status) => status,
            ConnectError::TimedOut(_) => Status::new(Code::DeadlineExceeded, error.to_string()),
            ConnectError::Version { .. } | ConnectError::Schema { .. } => {
                Status::new(Code::FailedPrecondition, error.to_string())
            }
            _ => Status::new(Code::Unavailable, error.to_string()),
        }
    }
}
