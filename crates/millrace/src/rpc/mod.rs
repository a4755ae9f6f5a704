//! `millrace rpc`: what a fabric server serves, calls by hand, a server to try out, and load.
//!
//! | file | what it is |
//! |---|---|
//! | `gateway` | gRPC clients in front of a fabric server |
//! | `list`, `call`, `serve`, `bench`, `soak` | a command each |
//! | `target` | the server that a command is about |
//! | `descriptions` | services and methods by name, from the server or from .proto files |
//! | `proto_text`, `json` | descriptors and messages as text |
//! | `demo` | what `serve` serves |
//! | `admin` | what `serve` shows of itself over HTTP |
//! | `error` | what can go wrong, and what to do about it |

mod admin;
pub mod bench;
pub mod call;
pub mod demo;
pub mod descriptions;
mod error;
pub mod gateway;
pub mod json;
pub mod list;
pub mod proto_text;
pub mod serve;
pub mod soak;
pub mod target;

pub use error::RpcError;

use clap::{Args, Subcommand};

/// Call services over the RPC fabric, see what there is, and measure it.
///
/// Addresses: shm:/path (shared memory, by a socket at that path), unix:/path, tcp:HOST:PORT, udp:HOST:PORT.
#[derive(Args, Debug)]
pub struct Rpc {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    List(list::List),
    Call(Box<call::Call>),
    Serve(serve::Serve),
    Bench(Box<bench::Bench>),
    Gateway(gateway::Gateway),
    Soak(soak::Soak),
}

impl Rpc {
    /// Runs it.
    ///
    /// # Errors
    /// Whatever went wrong; [`RpcError::exit_code`] is the exit status.
    pub fn run(&self) -> Result<(), RpcError> {
        match &self.command {
            Command::List(list) => list.run(),
            Command::Call(call) => call.run(),
            Command::Serve(serve) => serve.run(),
            Command::Bench(bench) => bench.run(),
            Command::Gateway(gateway) => gateway.run(),
            Command::Soak(soak) => soak.run(),
        }
    }
}
