//! Why a command of `millrace chain` failed, and what to do about it.

use super::controller::ControllerError;
use super::media::Media;
use crate::process::parse::AssignError;
use crate::process::table::Wrong;
use crate::reach::Exposed;
use crate::shell::ShellError;
use base::Bytes;
use base::key::KeyError;
use fabric::link::Address;
use protocol::chain::{BadConfig, ReplicaId};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
#[allow(missing_docs)] // each is a sentence below
pub enum ChainError {
    Register(AssignError),
    Config(BadConfig),
    NoDirectory(Media),
    SmallLog(Bytes, Bytes),
    DataSize(String),
    Directory(PathBuf, io::Error),
    Locked(PathBuf),
    Others(PathBuf, String),
    Open(&'static str, PathBuf, io::Error),
    Damaged(&'static str, PathBuf, String),
    Stopped(&'static str, PathBuf, String),
    Reachable(Exposed),
    NotAPeer(ReplicaId, Vec<ReplicaId>),
    Twice(String),
    Listen(Address, io::Error),
    Admin(SocketAddr, io::Error),
    System(&'static str, io::Error),
    Child(String),
    Nobody(Vec<Address>, String),
    Differ(String),
    Restless(u32),
    Controller(ControllerError),
    Key(KeyError),
    NoKey,
    Exposed(Address),
    InTheWay(PathBuf),
    Unfinished(PathBuf),
    NoTail,
    NoBackup(String),
    BadBackup(PathBuf, String),
    NotABackup(PathBuf, String),
    Unsound(usize, usize),
    Shell(ShellError),
    Cluster(Wrong),
    NoPlace(PathBuf, String),
    NowhereForClients,
    Claim(String),
}

impl ChainError {
    /// Ctrl-C and SIGTERM cannot be caught.
    pub(super) fn signals(cause: io::Error) -> ChainError {
        ChainError::Child(format!("signals cannot be caught: {cause}"))
    }

    /// The exit status. See the help of `millrace chain`.
    pub fn exit_code(&self) -> u8 {
        match self {
            ChainError::Differ(_) => 3,
            ChainError::Stopped(..) => 4,
            ChainError::Nobody(..) => 5,
            _ => 1,
        }
    }
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainError::Reachable(exposed) => exposed.fmt(f),
            ChainError::Register(error) => error.fmt(f),
            ChainError::Claim(why) => f.write_str(why),
            ChainError::Config(error) => write!(f, "the registers do not fit together: {error}"),
            ChainError::NoDirectory(media) => {
                write!(f, "--media {media} keeps files: say where with --data DIR, or use --media memory")
            }
            ChainError::SmallLog(size, least) => write!(
                f,
                "--log-size {size} is too small: a log has room for several of the longest transactions, {least} at least"
            ),
            ChainError::DataSize(why) => write!(f, "--data-size cannot be: {why}"),
            ChainError::Directory(path, error) => write!(f, "cannot use {}: {error}", path.display()),
            ChainError::Locked(path) => write!(
                f,
                "{} is in use by a replica that runs: end it first, or give this one a directory of its own",
                path.display()
            ),
            ChainError::Others(path, whose) => write!(
                f,
                "{} is the log of {whose}: give --id and --chain as they were, or another --data",
                path.display()
            ),
            ChainError::Open(what, path, error) => {
                write!(f, "cannot open the {what} {}: {error}", path.display())
            }
            ChainError::Damaged(what, path, how) => write!(
                f,
                "the {what} {} cannot be used: {how}\n  keep the directory, since it may be the last that has everything. If others serve (`millrace chain status`), move it elsewhere and start \
                 the replica with an empty one: they give it everything",
                path.display()
            ),
            ChainError::Stopped(what, path, how) => write!(
                f,
                "the {what} {} failed, so this replica stops: {how}\n  what it acknowledged before is safe in the log; nothing was acknowledged since. \
                 Repair the disk or make room, then start it again",
                path.display()
            ),
            ChainError::NotAPeer(id, peers) => {
                let all = peers.iter().map(|peer| peer.0.to_string()).collect::<Vec<_>>().join(", ");
                write!(
                    f,
                    "--peers names replicas {all}, and not {0}: it names all replicas, this one too, as in {0}=tcp:HOST:PORT",
                    id.0
                )
            }
            ChainError::Twice(what) => write!(f, "{what} is named twice"),
            ChainError::Listen(address, error) => write!(f, "cannot listen at {address}: {error}"),
            ChainError::Admin(address, error) => write!(f, "cannot serve metrics at {address}: {error}"),
            ChainError::System(what, error) => write!(f, "cannot {what}: {error}"),
            ChainError::Child(text) => f.write_str(text),
            ChainError::Nobody(addresses, why) => {
                let all = addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "no replica answers at {all}: {why}")
            }
            ChainError::Differ(text) => f.write_str(text),
            ChainError::Restless(tries) => write!(
                f,
                "the replicas were not at the same transaction in {tries} attempts: one of them is catching up, or away (`millrace chain status` says which)"
            ),
            ChainError::Controller(error) => error.fmt(f),
            ChainError::Key(error) => write!(
                f,
                "{error}\n  all members of a chain have the same key: `millrace key new FILE` makes one, copy it to each and name it with --key"
            ),
            ChainError::Shell(error) => error.fmt(f),
            ChainError::Cluster(wrong) => wrong.fmt(f),
            ChainError::NowhereForClients => {
                f.write_str("the file does not name this replica yet: say where clients find it with --listen ADDRESS")
            }
            ChainError::NoPlace(path, why) => write!(f, "{}: {why}", path.display()),
            ChainError::NoKey => f.write_str(
                "a member of a chain proves that it is one: name its key with --key FILE (`millrace key new FILE` makes one), or say --no-key",
            ),
            ChainError::Exposed(address) => write!(
                f,
                "--no-key, and {address} can be reached from other machines: whoever does could pass for a member. Name a key with --key FILE"
            ),
            ChainError::InTheWay(path) => write!(
                f,
                "{} is there already, and nothing is written over: name another place, or move it elsewhere",
                path.display()
            ),
            ChainError::Unfinished(path) => write!(
                f,
                "{} is there: what is left of a backup that was not finished, or one that is under way. Remove it if none is",
                path.display()
            ),
            ChainError::NoTail => f.write_str(
                "no replica that answers is the tail and serves: its items would be old. `millrace chain status` says how the chain is; try again when it serves",
            ),
            ChainError::NoBackup(why) => write!(f, "there is no backup: {why}"),
            ChainError::BadBackup(path, why) => write!(
                f,
                "{} is damaged, and nothing serves from it: {why}\n  take an older backup; `millrace chain verify DIR…` says which are good",
                path.display()
            ),
            ChainError::NotABackup(path, what) => write!(
                f,
                "{} is no backup, but {what}: `millrace chain backup` makes one from a chain that serves",
                path.display()
            ),
            ChainError::Unsound(bad, all) => write!(f, "{bad} of {all} are damaged or cannot be read"),
        }
    }
}

impl std::error::Error for ChainError {}

impl From<ControllerError> for ChainError {
    fn from(error: ControllerError) -> ChainError {
        ChainError::Controller(error)
    }
}

impl From<AssignError> for ChainError {
    fn from(error: AssignError) -> ChainError {
        ChainError::Register(error)
    }
}

impl From<BadConfig> for ChainError {
    fn from(error: BadConfig) -> ChainError {
        ChainError::Config(error)
    }
}

impl From<ShellError> for ChainError {
    fn from(error: ShellError) -> ChainError {
        error.of(|other| match other {
            ShellError::Admin(address, cause) => ChainError::Admin(address, cause),
            ShellError::Signal(cause) => ChainError::signals(cause),
            other => ChainError::Shell(other),
        })
    }
}
