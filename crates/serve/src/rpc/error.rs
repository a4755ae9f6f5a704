//! Why a command of `millrace rpc` failed, and what to do about it.

use crate::shell::ShellError;
use fabric::connection::ConnectError;
use fabric::link::Address;
use fabric::status::Status;
use fabric::stub::NotServed;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

/// See the file's head.
#[derive(Debug)]
#[allow(missing_docs)] // each is a sentence below
pub enum RpcError {
    Connect { address: Address, cause: ConnectError },
    NoReflection,
    Descriptors(String),
    NoService { name: String, nearest: Vec<String> },
    NoMethod { name: String, nearest: Vec<String> },
    Ambiguous { name: String, all: Vec<String> },
    NotDescribed(String),
    NotServed(String),
    OtherShape(String),
    OneMessage(String),
    Header(String),
    Input { path: PathBuf, cause: io::Error },
    Output(io::Error),
    Json { of: String, index: usize, cause: String },
    BadReply { of: String, cause: String },
    Status(Status),
    Plan(String),
    Failed { count: u64, of: u64, example: String },
    Signal(io::Error),
    Pin(io::Error),
    Admin(io::Error),
    Server(String),
    Shell(ShellError),
    Gateway { address: SocketAddr, cause: io::Error },
    Harm(String),
}

impl RpcError {
    /// The exit status: 64 and the status' number for a call that ended with one, as grpcurl has it; else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            RpcError::Status(status) => 64 + status.code() as u8,
            _ => 1,
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RpcError::Connect { address, cause } => {
                write!(f, "{address}: {cause}\n  `millrace rpc serve --listen {address}` would serve there")
            }
            RpcError::NoReflection => {
                f.write_str("the server does not describe its messages: name its .proto file with --proto")
            }
            RpcError::Descriptors(cause) => f.write_str(cause),
            RpcError::NoService { name, nearest } => {
                write!(f, "no service {name}")?;
                advise(f, nearest)
            }
            RpcError::NoMethod { name, nearest } => {
                write!(f, "no method {name}")?;
                advise(f, nearest)
            }
            RpcError::Ambiguous { name, all } => write!(f, "{name} could be {}", all.join(" or ")),
            RpcError::NotDescribed(name) => {
                write!(
                    f,
                    "{name} is served, but not in the descriptions; if they come from --proto, is it the right file?"
                )
            }
            RpcError::NotServed(path) => {
                write!(f, "{path} is described, but not served; `millrace rpc list` shows what is")
            }
            RpcError::OtherShape(path) => {
                write!(f, "{path} streams in another way at the server: the .proto file is not the server's")
            }
            RpcError::OneMessage(path) => {
                write!(f, "{path} takes one message, and the input has several")
            }
            RpcError::Header(text) => {
                write!(
                    f,
                    "{text:?} is no metadata: write key:value, the key of letters, digits, '-', '_' and '.'"
                )
            }
            RpcError::Input { path, cause } => write!(f, "{}: {cause}", path.display()),
            RpcError::Output(cause) => write!(f, "the output is closed: {cause}"),
            RpcError::Json { of, index: 1, cause } => write!(f, "no {of} in JSON: {cause}"),
            RpcError::Json { of, index, cause } => write!(f, "no {of} in JSON: message {index}, {cause}"),
            RpcError::BadReply { of, cause } => write!(f, "the server's {of} does not decode: {cause}"),
            RpcError::Status(status) => status.fmt(f),
            RpcError::Plan(why) => f.write_str(why),
            RpcError::Failed { count, of, example } => {
                write!(f, "{count} of {of} calls failed, the first: {example}")
            }
            RpcError::Signal(cause) => write!(f, "Ctrl-C cannot be caught: {cause}"),
            RpcError::Pin(cause) => write!(f, "this thread cannot be put on its core: {cause}"),
            RpcError::Gateway { address, cause } => write!(f, "the gateway at {address}: {cause}"),
            RpcError::Admin(cause) => write!(f, "the admin port cannot be opened: {cause}"),
            RpcError::Server(why) => write!(f, "the server did not start: {why}"),
            RpcError::Shell(error) => error.fmt(f),
            RpcError::Harm(what) => write!(f, "calls came to harm: {what}"),
        }
    }
}

fn advise(f: &mut fmt::Formatter<'_>, nearest: &[String]) -> fmt::Result {
    match nearest {
        [] => f.write_str("; `millrace rpc list` shows what there is"),
        nearest => write!(f, "; did you mean {}?", nearest.join(" or ")),
    }
}

impl std::error::Error for RpcError {}

impl From<NotServed> for RpcError {
    fn from(error: NotServed) -> RpcError {
        RpcError::NotServed(error.method)
    }
}

impl From<ShellError> for RpcError {
    fn from(error: ShellError) -> RpcError {
        error.of(|other| match other {
            ShellError::Admin(_, cause) => RpcError::Admin(cause),
            ShellError::Signal(cause) => RpcError::Signal(cause),
            other => RpcError::Shell(other),
        })
    }
}
