//! The command line.

use clap::{Parser, Subcommand};
use millrace::demo::Demo;
use millrace::load::{self, BenchArgs};
use millrace::soak::Soak;
use millrace::up::Up;
use millrace::{probe, registers};
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
    Up(Box<Up>),
    Demo(Demo),
    Bench(Box<BenchArgs>),
    /// Measure this machine: clocks, caches, memory, wake-ups, sockets, storage
    Probe(probe::Args),
    Soak(Soak),
    Registers(registers::List),
}

fn main() -> ExitCode {
    let result: Result<(), Box<dyn std::error::Error>> = match Cli::parse().command {
        Command::Up(up) => up.run().map_err(Into::into),
        Command::Demo(demo) => demo.run().map_err(Into::into),
        Command::Bench(args) => load::run(&args).map_err(Into::into),
        Command::Probe(args) => probe::run(args).map_err(Into::into),
        Command::Soak(soak) => soak.run().map_err(Into::into),
        Command::Registers(list) => list.run().map_err(Into::into),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("millrace: {e}");
            ExitCode::FAILURE
        }
    }
}
