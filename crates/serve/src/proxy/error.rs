//! Why a proxy could not be run, and what to do about it.

use crate::inc::IncError;
use crate::memcached::listen::ListenError;
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
pub enum ProxyError {
    /// An address could not be had.
    Listen(ListenError),
    /// The topology, or something about it.
    Rack(IncError),
    /// The system refused something.
    System(&'static str, io::Error),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Listen(e) => e.fmt(f),
            ProxyError::Rack(e) => e.fmt(f),
            ProxyError::System(what, e) => write!(f, "cannot {what}: {e}"),
        }
    }
}

impl std::error::Error for ProxyError {}

impl From<IncError> for ProxyError {
    fn from(e: IncError) -> ProxyError {
        ProxyError::Rack(e)
    }
}
