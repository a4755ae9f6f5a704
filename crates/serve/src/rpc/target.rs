//! What `list`, `call` and `bench` have in common: the server, and where its descriptions come from.

use super::RpcError;
use super::descriptions::Descriptions;
use clap::Args;
use fabric::batch::Policy;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use fabric::status::Code;
use std::path::PathBuf;
use std::time::Duration;

/// The server.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Where the server is: shm:/path, unix:/path, udp:HOST:PORT, tcp:HOST:PORT or tls:HOST:PORT
    #[arg(value_name = "ADDRESS")]
    pub address: Address,

    /// Takes messages from this .proto file instead of asking the server. May be repeated
    #[arg(long, value_name = "FILE", help_heading = "Descriptions")]
    pub proto: Vec<PathBuf>,

    /// A folder that imports of --proto are relative to. May be repeated
    #[arg(short = 'I', long = "include", value_name = "DIR", help_heading = "Descriptions")]
    pub include: Vec<PathBuf>,
}

impl Target {
    /// A connection.
    ///
    /// # Errors
    /// There is no server, or it does not speak this protocol.
    pub fn connect(&self) -> Result<Channel, RpcError> {
        connect(&self.address, Policy::default())
    }

    /// What the server serves, from its own words or from the .proto files.
    ///
    /// # Errors
    /// It does not say, or the files are not right.
    pub fn descriptions(&self, channel: &mut Channel) -> Result<Descriptions, RpcError> {
        if !self.proto.is_empty() {
            return Descriptions::of_files(&self.proto, &self.include);
        }
        reflected(channel)
    }
}

/// What a server says of what it serves.
///
/// # Errors
/// It does not say.
pub fn reflected(channel: &mut Channel) -> Result<Descriptions, RpcError> {
    let options = CallOptions::within(Duration::from_secs(10));
    let set = channel.reflect(&options).map_err(|status| match status.code() {
        Code::Unimplemented => RpcError::NoReflection,
        _ => RpcError::Status(status),
    })?;
    Descriptions::of_set(&set)
}

/// A connection to an address, whose requests become visible as `batch` says.
///
/// # Errors
/// As [`Target::connect`].
pub fn connect(address: &Address, batch: Policy) -> Result<Channel, RpcError> {
    Channel::connect(address, &Options { batch, ..Options::default() })
        .map_err(|cause| RpcError::Connect { address: address.clone(), cause })
}
