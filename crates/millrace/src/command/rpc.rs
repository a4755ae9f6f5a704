//! `millrace rpc`.

use clap::{Args, Subcommand};
use serve::rpc::RpcError;

/// Call services over the RPC fabric, see what there is, and measure it.
///
/// Addresses: shm:/path (shared memory, by a socket at that path), unix:/path, tcp:HOST:PORT, tls:HOST:PORT, udp:HOST:PORT.
#[derive(Args, Debug)]
pub struct Rpc {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    List(serve::rpc::list::List),
    Call(Box<serve::rpc::call::Call>),
    Serve(serve::rpc::serve::Serve),
    Bench(Box<bench::rpc::Bench>),
    Gateway(serve::rpc::gateway::Command),
    #[cfg(feature = "lab")]
    Soak(prove::soak::rpc::Soak),
    /// Print millrace/options.proto, by which methods say what they are
    ///
    /// Our own compiler has it built in; stock protoc needs it as a file, in a folder that it is told of with -I:
    /// `mkdir -p proto/millrace && millrace rpc options > proto/millrace/options.proto`.
    Options,
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
            #[cfg(feature = "lab")]
            Command::Soak(soak) => soak.run(),
            Command::Options => {
                print!("{}", serve::rpc::OPTIONS);
                Ok(())
            }
        }
    }
}
