//! Why a controller could not start, or a reset was not done, and what to do about it.

use crate::chain::registry::RegistryError;
use crate::shell::ShellError;
use fabric::link::Address;
use protocol::chain::ReplicaId;
use protocol::chain::controller::ResetRefused;
use std::net::SocketAddr;
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
pub enum ControllerError {
    /// The registry cannot be used.
    Registry(RegistryError),
    /// It cannot listen there.
    Listen(Address, io::Error),
    /// The admin port cannot be there.
    Admin(SocketAddr, io::Error),
    /// The system gives no thread or descriptor.
    System(io::Error),
    /// A value of `--set` is wrong.
    Set(String),
    /// There is no key by which members know each other; a sentence.
    Key(String),
    /// A replica is named twice.
    Twice(ReplicaId),
    /// Another controller leads; or the registry did not answer, for this reason.
    NoLeadership(Option<String>),
    /// A reset is not done.
    Reset(ResetRefused),
    /// The registry has not said in time that the reset is durable, for this reason.
    NotStored(String),
    /// It was told to stop before it was done.
    Stopped,
    /// It cannot be served.
    Shell(ShellError),
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControllerError::Registry(error) => error.fmt(f),
            ControllerError::Listen(address, error) => write!(f, "cannot listen at {address}: {error}"),
            ControllerError::Admin(address, error) => {
                write!(f, "the admin port cannot be at {address}: {error}; --admin takes another address, or port 0")
            }
            ControllerError::System(error) => write!(f, "cannot start the controller: {error}"),
            ControllerError::Set(text) | ControllerError::Key(text) => f.write_str(text),
            ControllerError::Twice(ReplicaId(id)) => write!(f, "--replicas names {id} twice"),
            ControllerError::NoLeadership(None) => {
                f.write_str("another controller leads: end all controllers of this chain, then try again")
            }
            ControllerError::NoLeadership(Some(why)) => f.write_str(why),
            ControllerError::Reset(ResetRefused::NobodyThere) => f.write_str(
                "no replica that could serve can be heard: start replicas whose --controllers has the address of --listen",
            ),
            ControllerError::Reset(why) => why.fmt(f),
            ControllerError::NotStored(why) => {
                write!(f, "it is not known whether the reset was done: {why}\n  try again when the registry answers")
            }
            ControllerError::Shell(error) => error.fmt(f),
            ControllerError::Stopped => f.write_str("stopped; nothing was reset"),
        }
    }
}

impl std::error::Error for ControllerError {}

impl From<RegistryError> for ControllerError {
    fn from(error: RegistryError) -> ControllerError {
        ControllerError::Registry(error)
    }
}

impl From<ShellError> for ControllerError {
    fn from(error: ShellError) -> ControllerError {
        error.of(|other| match other {
            ShellError::Admin(address, cause) => ControllerError::Admin(address, cause),
            other => ControllerError::Shell(other),
        })
    }
}
