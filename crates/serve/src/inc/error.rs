//! Why a command of `millrace inc` failed, and what to do about it.

use super::book;
use super::client::ClientError;
use super::registers::SetError;
use crate::shell::ShellError;
use ::client::cache::TopologyError;
use protocol::coherence::NodeId;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};
use xdp::LoadError;

/// See the file's head.
#[derive(Debug)]
#[allow(missing_docs)] // each is a sentence below
pub enum IncError {
    Topology(TopologyError),
    Register(SetError),
    Ports(u16, usize),
    Socket(io::Error),
    Signal(io::Error),
    Output(io::Error),
    Write(PathBuf, io::Error),
    Client(ClientError),
    Refused { status: &'static str, code: u8 },
    Fast(LoadError),
    FastFamily(NodeId, SocketAddr),
    Admin(SocketAddr, io::Error),
    Life(PathBuf, io::Error),
    Shell(ShellError),
}

impl IncError {
    /// The exit status. See the help of `millrace inc`.
    pub fn exit_code(&self) -> u8 {
        match self {
            IncError::Refused { code, .. } => *code,
            IncError::Client(ClientError::NotDone | ClientError::Unknown) => 5,
            _ => 1,
        }
    }
}

impl fmt::Display for IncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |node: &NodeId| book::name(*node);
        match self {
            IncError::Topology(cause) => cause.fmt(f),
            IncError::Register(cause) => cause.fmt(f),
            IncError::Ports(first, count) => {
                write!(f, "from port {first} there are no {count} ports; choose a lower --port")
            }
            IncError::Socket(cause) => write!(f, "the socket failed: {cause}"),
            IncError::Signal(cause) => write!(f, "signals cannot be caught: {cause}"),
            IncError::Output(cause) => write!(f, "cannot write: {cause}"),
            IncError::Write(path, cause) => write!(f, "cannot write {}: {cause}", path.display()),
            IncError::Client(cause) => cause.fmt(f),
            IncError::Refused { status, .. } => f.write_str(status),
            IncError::Fast(cause) => cause.fmt(f),
            IncError::Life(path, cause) => write!(
                f,
                "the number of this node's life cannot be kept in {}: {cause}\n  it must be higher in each life, or versions of items repeat: name a file that stays, and that this program can write, with --state",
                path.display()
            ),
            IncError::Shell(error) => error.fmt(f),
            IncError::Admin(address, cause) => {
                write!(
                    f,
                    "the admin port cannot be at {address}: {cause}; --admin takes another address, or port 0"
                )
            }
            IncError::FastFamily(node, address) => {
                write!(f, "the XDP tier reads IPv4 alone, and {} is at {address}", name(node))
            }
        }
    }
}

impl std::error::Error for IncError {}

impl From<TopologyError> for IncError {
    fn from(cause: TopologyError) -> IncError {
        IncError::Topology(cause)
    }
}

impl From<ClientError> for IncError {
    fn from(cause: ClientError) -> IncError {
        IncError::Client(cause)
    }
}

impl From<ShellError> for IncError {
    fn from(error: ShellError) -> IncError {
        error.of(|other| match other {
            ShellError::Admin(address, cause) => IncError::Admin(address, cause),
            ShellError::Signal(cause) => IncError::Signal(cause),
            other => IncError::Shell(other),
        })
    }
}
