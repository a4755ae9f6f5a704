//! Why a proxy could not be run, and what to do about it.

use crate::inc::{IncError, TopologyError};
use crate::memcached::listen::ListenError;
use crate::shell::ShellError;
use std::net::SocketAddr;
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
pub enum ProxyError {
    /// An address could not be had.
    Listen(ListenError),
    /// The topology, or something about it.
    Rack(IncError),
    /// The admin port cannot be there.
    Admin(SocketAddr, io::Error),
    /// The system refused something.
    System(&'static str, io::Error),
    /// It cannot be served.
    Shell(ShellError),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Listen(e) => e.fmt(f),
            ProxyError::Rack(e) => e.fmt(f),
            ProxyError::Admin(address, e) => {
                write!(
                    f,
                    "the admin port cannot be at {address}: {e}; --admin takes another address, or port 0"
                )
            }
            ProxyError::Shell(e) => e.fmt(f),
            ProxyError::System(what, e) => write!(f, "cannot {what}: {e}"),
        }
    }
}

impl std::error::Error for ProxyError {}

impl From<TopologyError> for ProxyError {
    fn from(e: TopologyError) -> ProxyError {
        ProxyError::Rack(e.into())
    }
}

impl From<IncError> for ProxyError {
    fn from(e: IncError) -> ProxyError {
        ProxyError::Rack(e)
    }
}

impl From<ShellError> for ProxyError {
    fn from(error: ShellError) -> ProxyError {
        error.of(|other| match other {
            ShellError::Admin(address, cause) => ProxyError::Admin(address, cause),
            other => ProxyError::Shell(other),
        })
    }
}
