//! Why a command of `millrace inc` failed, and what to do about it.

use super::book;
use super::client::ClientError;
use crate::process::table::Wrong;
use crate::shell::ShellError;
use base::key::KeyError;
use protocol::coherence::ranges::BadRanges;
use protocol::coherence::table::BadLayout;
use protocol::coherence::{BadConfig, NodeId};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

use super::registers::SetError;
use xdp::LoadError;

/// See the file's head.
#[derive(Debug)]
#[allow(missing_docs)] // each is a sentence below
pub enum IncError {
    Read(PathBuf, io::Error),
    File(Wrong),
    Register(SetError),
    Config(BadConfig),
    Layout(BadLayout),
    Ranges(BadRanges),
    NoTor(u16, Vec<u16>),
    Controllers(usize),
    SameAddress(NodeId, NodeId),
    NobodysAddress(NodeId, SocketAddr),
    MixedFamilies(NodeId),
    SomeStreams(NodeId),
    Ports(u16, usize),
    Unknown(NodeId, Vec<NodeId>),
    Bind(NodeId, SocketAddr, io::Error),
    Socket(io::Error),
    Signal(io::Error),
    Output(io::Error),
    Write(PathBuf, io::Error),
    Client(ClientError),
    Refused { status: &'static str, code: u8 },
    Fast(LoadError),
    FastFamily(NodeId, SocketAddr),
    Admin(SocketAddr, io::Error),
    Key(KeyError),
    Life(PathBuf, io::Error),
    NoKey,
    Exposed(NodeId, SocketAddr),
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

fn names(nodes: &[NodeId]) -> String {
    nodes.iter().map(|node| book::name(*node)).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for IncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |node: &NodeId| book::name(*node);
        match self {
            IncError::Read(path, cause) => write!(
                f,
                "cannot read the topology {}: {cause}\n  `millrace inc topology > {}` would write one",
                path.display(),
                path.display()
            ),
            IncError::File(wrong) => wrong.fmt(f),
            IncError::Register(cause) => cause.fmt(f),
            IncError::Config(cause) => {
                write!(f, "the registers in [coherence] do not fit together: {cause}")
            }
            IncError::Layout(cause) => write!(f, "the topology is none: {cause}"),
            IncError::Ranges(cause) => cause.fmt(f),
            IncError::NoTor(tor, boxes) => {
                let all = boxes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "the topology has no box {tor} to ask; its boxes are {all}")
            }
            IncError::Controllers(count) => {
                write!(f, "{count} controllers are too many; 16 can stand by for each other")
            }
            IncError::SameAddress(one, other) => {
                write!(f, "{} and {} have the same address; give each its own", name(one), name(other))
            }
            IncError::NobodysAddress(node, address) => write!(
                f,
                "{} is at {address}, where nobody can send to; write the address and port by which the others reach it",
                name(node)
            ),
            IncError::MixedFamilies(node) => {
                write!(f, "{} has an IPv6 address and others IPv4; all must have the same kind", name(node))
            }
            IncError::SomeStreams(node) => write!(
                f,
                "{} has no stream and others have; write the address of its memcached listener: stream = \"HOST:PORT\", or write none",
                name(node)
            ),
            IncError::Ports(first, count) => {
                write!(f, "from port {first} there are no {count} ports; choose a lower --port")
            }
            IncError::Unknown(node, all) => {
                write!(f, "the topology has no {}; it has {}", name(node), names(all))
            }
            IncError::Bind(node, address, cause) => {
                write!(f, "{} cannot have {address}: {cause}", name(node))?;
                match cause.kind() {
                    io::ErrorKind::AddrInUse => {
                        f.write_str("\n  is it running already? `millrace inc topology --port` writes other ports")
                    }
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("\n  this machine has no such address; a node runs on the machine that has its address")
                    }
                    _ => Ok(()),
                }
            }
            IncError::Socket(cause) => write!(f, "the socket failed: {cause}"),
            IncError::Signal(cause) => write!(f, "signals cannot be caught: {cause}"),
            IncError::Output(cause) => write!(f, "cannot write: {cause}"),
            IncError::Write(path, cause) => write!(f, "cannot write {}: {cause}", path.display()),
            IncError::Client(cause) => cause.fmt(f),
            IncError::Refused { status, .. } => f.write_str(status),
            IncError::Fast(cause) => cause.fmt(f),
            IncError::Key(cause) => {
                write!(f, "{cause}\n  `millrace key new` makes a key; all nodes of a topology have the same")
            }
            IncError::Life(path, cause) => write!(
                f,
                "the number of this node's life cannot be kept in {}: {cause}\n  it must be higher in each life, or versions of items repeat: name a file that stays, and that this program can write, with --state",
                path.display()
            ),
            IncError::Shell(error) => error.fmt(f),
            IncError::NoKey => f.write_str(
                "the topology names no key for its nodes: write [cluster] and key = \"cluster.key\" in it, and make it with `millrace key new`. On one machine, --no-key does without",
            ),
            IncError::Exposed(node, address) => write!(
                f,
                "--no-key, and {} is at {address}, which other machines reach: whoever does could pass for a node. Name a key: [cluster] key = \"FILE\"",
                name(node)
            ),
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
