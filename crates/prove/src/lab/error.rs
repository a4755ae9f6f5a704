//! Why a command of `millrace lab` failed, and what to do about it.

use super::place::name;
use bench::load::LoadError;
use protocol::coherence::NodeId;
use serve::inc::{ClientError, IncError, TopologyError};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
#[allow(missing_docs)] // each is a sentence below
pub enum LabError {
    Root(&'static str),
    NoIp(io::Error),
    Ip { line: String, said: String },
    Io(String, io::Error),
    Inc(IncError),
    Xdp(xdp::LoadError),
    State(PathBuf, String),
    Exists(String),
    Running(String, u32),
    Inside(String),
    None(String, Vec<String>),
    NoPlace(NodeId, Vec<NodeId>),
    NoRole(String, Vec<String>),
    NoCable(NodeId, NodeId, Vec<(NodeId, NodeId)>),
    TwoLinks(NodeId, NodeId),
    Apart(NodeId, NodeId),
    Address(NodeId, SocketAddr),
    Shared(String, String, Ipv4Addr),
    Died { role: String, said: String },
    Slow { role: String, said: String },
    Survived(String, Vec<u32>),
    Mix(String),
    History(PathBuf, io::Error),
    Journal(PathBuf, String),
    Violated(usize),
    Undecided(usize),
    Stalled(usize),
    Load(LoadError),
    OneCore,
    WrongResults(usize),
    Call(String),
    WrongReplies(u64),
}

impl LabError {
    /// Of something that was tried, in words as "reading /proc".
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let what = what.into();
        move |cause| LabError::Io(what, cause)
    }

    /// The exit status: a command's own where one was run, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::Inc(cause) => cause.exit_code(),
            _ => 1,
        }
    }
}

fn list<T>(all: &[T], show: impl Fn(&T) -> String) -> String {
    if all.is_empty() { "none".into() } else { all.iter().map(show).collect::<Vec<_>>().join(", ") }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Root(what) => write!(
                f,
                "{what} needs root, for network namespaces; `millrace lab run --loopback` needs none"
            ),
            LabError::NoIp(cause) => write!(f, "cannot run ip: {cause}; install iproute2"),
            LabError::Ip { line, said } => write!(f, "`ip {line}` failed: {}", said.trim()),
            LabError::Io(what, cause) => write!(f, "{what}: {cause}"),
            LabError::Inc(cause) => cause.fmt(f),
            LabError::Xdp(cause) => cause.fmt(f),
            LabError::State(path, why) => write!(
                f,
                "{} is not what `millrace lab up` writes: {why}\n  `millrace lab down --all` clears away whatever is there",
                path.display()
            ),
            LabError::Exists(lab) => write!(
                f,
                "a lab {lab} is there, or what is left of one; `millrace lab down {lab}` removes it, --replace does so first, --name makes another"
            ),
            LabError::Running(lab, pid) => write!(
                f,
                "lab {lab} belongs to a `millrace lab run` that is under way, process {pid}; end that, or give another --name"
            ),
            LabError::Inside(lab) => {
                write!(f, "this process is in lab {lab} itself, and would end; leave it first")
            }
            LabError::None(lab, all) => write!(
                f,
                "there is no lab {lab}; there are: {}\n  `millrace lab up --name {lab}` makes one",
                list(all, String::clone)
            ),
            LabError::NoPlace(node, all) => {
                write!(f, "the lab has no {}; it has {}", name(*node), list(all, |node| name(*node)))
            }
            LabError::NoRole(role, all) => {
                write!(f, "there is no {role} to kill; there are {}", list(all, String::clone))
            }
            LabError::NoCable(a, b, all) => write!(
                f,
                "there is no cable {}-{}; there are {}",
                name(*a),
                name(*b),
                list(all, |(a, b)| format!("{}-{}", name(*a), name(*b)))
            ),
            LabError::TwoLinks(a, b) => {
                write!(f, "there are two links {}-{}; a cable has one program", name(*a), name(*b))
            }
            LabError::Apart(a, b) => write!(
                f,
                "there is no way from {} to {}; a box above both would join them, as with --roots 1",
                name(*a),
                name(*b)
            ),
            LabError::Address(node, address) => write!(
                f,
                "{} is at {}; in namespaces every node needs an IPv4 address that is not loopback",
                name(*node),
                address.ip()
            ),
            LabError::Shared(one, other, address) => write!(
                f,
                "{one} and {other} are both at {address}; in namespaces every node needs an address of its own \
                 (clients take 10.77.100.1 and those after it)"
            ),
            LabError::Died { role, said } => write!(f, "{role} ended by itself; it said: {}", said.trim()),
            LabError::Slow { role, said } => {
                write!(f, "{role} was not ready within ten seconds; it said: {}", said.trim())
            }
            LabError::Survived(lab, pids) => write!(
                f,
                "processes of lab {lab} do not end: {}; look at them and repeat `millrace lab down {lab}`",
                list(pids, u32::to_string)
            ),
            LabError::Mix(why) => f.write_str(why),
            LabError::History(path, cause) => {
                write!(f, "cannot write the history {}: {cause}", path.display())
            }
            LabError::Journal(path, why) => {
                write!(f, "a client's journal {} is broken: {why}", path.display())
            }
            LabError::Violated(keys) => write!(f, "{keys} keys are not linearizable"),
            LabError::Undecided(keys) => {
                write!(f, "of {keys} keys it could not be told; a shorter run has shorter histories")
            }
            LabError::Stalled(kills) => {
                write!(f, "after {kills} deaths the load stood still for longer than it may")
            }
            LabError::Load(cause) => cause.fmt(f),
            LabError::OneCore => f.write_str(
                "the client needs one core and the servers another, and this process may use one; use `taskset`, or another machine",
            ),
            LabError::Call(why) => write!(f, "a call: {why}"),
            LabError::WrongReplies(count) => write!(f, "{count} replies are not what was said"),
            LabError::WrongResults(count) => {
                write!(f, "{count} numbers are not what the operations on them make them; see the lines with ! above")
            }
        }
    }
}

impl std::error::Error for LabError {}

impl From<TopologyError> for LabError {
    fn from(cause: TopologyError) -> LabError {
        LabError::Inc(cause.into())
    }
}

impl From<IncError> for LabError {
    fn from(cause: IncError) -> LabError {
        LabError::Inc(cause)
    }
}

impl From<ClientError> for LabError {
    fn from(cause: ClientError) -> LabError {
        LabError::Inc(cause.into())
    }
}

impl From<LoadError> for LabError {
    fn from(cause: LoadError) -> LabError {
        LabError::Load(cause)
    }
}
