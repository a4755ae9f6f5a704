//! What is wrong with a topology, or keeps this process from having the place in it that it wants, and what to do about it.

use super::{book, secret};
use crate::table::Wrong;
use base::key::KeyError;
use protocol::coherence::ranges::BadRanges;
use protocol::coherence::table::BadLayout;
use protocol::coherence::{BadConfig, NodeId};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
#[allow(missing_docs)] // each is a sentence below
pub enum TopologyError {
    Read(PathBuf, io::Error),
    File(Wrong),
    NoFile(PathBuf),
    Config(BadConfig),
    Layout(BadLayout),
    Ranges(BadRanges),
    NoTor(u16, Vec<u16>),
    Controllers(usize),
    SameAddress(NodeId, NodeId),
    NobodysAddress(NodeId, SocketAddr),
    MixedFamilies(NodeId),
    SomeStreams(NodeId),
    Unknown(NodeId, Vec<NodeId>),
    Bind(NodeId, SocketAddr, io::Error),
    Socket(io::Error),
    Write(PathBuf, io::Error),
    Key(KeyError),
    ToldKey(KeyError),
    NoKey,
    Exposed(NodeId, SocketAddr),
}

fn names(nodes: &[NodeId]) -> String {
    nodes.iter().map(|node| book::name(*node)).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |node: &NodeId| book::name(*node);
        match self {
            TopologyError::Read(path, cause) => write!(
                f,
                "cannot read the topology {}: {cause}\n  `millrace inc topology > {}` would write one",
                path.display(),
                path.display()
            ),
            TopologyError::File(wrong) => wrong.fmt(f),
            TopologyError::NoFile(path) => no_file(f, path),
            TopologyError::Config(cause) => {
                write!(f, "the registers in [coherence] do not fit together: {cause}")
            }
            TopologyError::Layout(cause) => write!(f, "the topology is none: {cause}"),
            TopologyError::Ranges(cause) => cause.fmt(f),
            TopologyError::NoTor(tor, boxes) => {
                let all = boxes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "the topology has no box {tor} to ask; its boxes are {all}")
            }
            TopologyError::Controllers(count) => {
                write!(f, "{count} controllers are too many; 16 can stand by for each other")
            }
            TopologyError::SameAddress(one, other) => {
                write!(f, "{} and {} have the same address; give each its own", name(one), name(other))
            }
            TopologyError::NobodysAddress(node, address) => write!(
                f,
                "{} is at {address}, where nobody can send to; write the address and port by which the others reach it",
                name(node)
            ),
            TopologyError::MixedFamilies(node) => {
                write!(f, "{} has an IPv6 address and others IPv4; all must have the same kind", name(node))
            }
            TopologyError::SomeStreams(node) => write!(
                f,
                "{} has no stream and others have; write the address of its memcached listener: stream = \"HOST:PORT\", or write none",
                name(node)
            ),
            TopologyError::Unknown(node, all) => {
                write!(f, "the topology has no {}; it has {}", name(node), names(all))
            }
            TopologyError::Bind(node, address, cause) => {
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
            TopologyError::Socket(cause) => write!(f, "the socket failed: {cause}"),
            TopologyError::Write(path, cause) => write!(f, "cannot write {}: {cause}", path.display()),
            TopologyError::Key(cause) => {
                write!(f, "{cause}\n  `millrace key new` makes a key; all nodes of a topology have the same")
            }
            TopologyError::ToldKey(cause) => told_key(f, cause),
            TopologyError::NoKey => f.write_str(
                "the topology names no key for its nodes: write [cluster] and key = \"cluster.key\" in it, and make it with `millrace key new`. On one machine, --no-key does without",
            ),
            TopologyError::Exposed(node, address) => write!(
                f,
                "--no-key, and {} is at {address}, which other machines reach: whoever does could pass for a node. Name a key: [cluster] key = \"FILE\"",
                name(node)
            ),
        }
    }
}

fn no_file(f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
    let place = path.display();
    write!(
        f,
        "{place} is a place of controllers, which tell clients: a node needs the file itself, which every machine of the rack has"
    )
}

fn told_key(f: &mut fmt::Formatter<'_>, cause: &KeyError) -> fmt::Result {
    let variable = secret::NAMED_BY;
    write!(
        f,
        "{cause}\n  it is where the controller's machine has it. If this one has the clients' key elsewhere, say where: {variable}=FILE"
    )
}

impl std::error::Error for TopologyError {}
