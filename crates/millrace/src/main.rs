//! The command line: which command is in which crate.

mod command;

use bench::probe;
use clap::{CommandFactory as _, Parser, Subcommand};
use command::pages::{Completions, Man};
use command::{Failure, metrics, output, printed, products, registers};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serve::process::logger;
use serve::process::tls::TlsClientArgs;
use serve::trace::TraceArgs;
use std::process::ExitCode;

/// millrace serves datacenter requests on the path they travel.
#[derive(Parser)]
#[command(name = "millrace", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "kv")]
    #[command(flatten)]
    Kv(command::kv::Command),
    #[cfg(feature = "rpc")]
    Rpc(command::rpc::Rpc),
    #[cfg(feature = "rec")]
    Rec(command::rec::Rec),
    #[cfg(feature = "model")]
    #[command(flatten)]
    Model(command::model::Command),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(command::lab::Command),
    /// Measure this machine: clocks, caches, memory, wake-ups, sockets, storage
    Probe(probe::Args),
    Registers(registers::List),
    Metrics(metrics::List),
    Trace(TraceArgs),
    Completions(Completions),
    Man(Man),
}

impl Command {
    /// Runs it; what it came to is its exit status.
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            #[cfg(feature = "kv")]
            Command::Kv(command) => return command.run(),
            #[cfg(feature = "rpc")]
            Command::Rpc(rpc) => rpc.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() })?,
            #[cfg(feature = "rec")]
            Command::Rec(rec) => printed(rec.run())?,
            #[cfg(feature = "model")]
            Command::Model(command) => return command.run(),
            #[cfg(feature = "lab")]
            Command::Lab(command) => command.run()?,
            Command::Probe(args) => probe::run(args)?,
            Command::Registers(list) => printed(list.run())?,
            Command::Metrics(list) => printed(list.run().map_err(Into::into))?,
            Command::Trace(args) => args.run()?,
            Command::Completions(completions) => {
                printed(completions.run(Cli::command()).map_err(Into::into))?
            }
            Command::Man(man) => printed(man.run(Cli::command()))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Takes as many descriptors as this process may have: the soft limit, 1024, is for programs that still use select. One that cannot be raised
/// is as good as before.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn main() -> ExitCode {
    raise_descriptor_limit();
    logger::install();
    output::end_quietly_when_closed();
    let command = products::parse::<Cli>().command;
    // What the environment says; flags of a command say more.
    if let Err(why) = TlsClientArgs::default().apply() {
        eprintln!("millrace: MILLRACE_TLS_CA and what belongs to it: {why}");
        return ExitCode::from(2);
    }
    match command.run() {
        Ok(code) => code,
        Err(Failure { code: output::CLOSED, .. }) => ExitCode::from(output::CLOSED),
        Err(Failure { error, code }) => {
            log::error!("{error}");
            ExitCode::from(code)
        }
    }
}
