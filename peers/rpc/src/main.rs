//! Measures the RPC fabric against tonic and iceoryx2: an echo between two processes, one core each, all in one run.
//!
//! Every system has a server process of its own (`server.rs`), this program again, pinned to the second allowed core and idle
//! while another one is measured; the client side of all runs here, pinned to the first. The windows of all systems are
//! sampled in turn, a few ten milliseconds each, with a probe of the cores' distance between every two (`rounds.rs`).
//! A ratio is made of two samples of one round between cores equally far apart. What is the same for all: the closed loop,
//! the payloads, and that each reply is compared with its request (`sample.rs`). What each promises and which of
//! its settings are used is in `systems/`.
//!
//! ```text
//! cargo run --release --manifest-path peers/rpc/Cargo.toml -- [--quick] [--seconds N] [--payload 64] [--windows 1,8,32,64] [--json FILE]
//! ```

mod fold;
mod goals;
mod report;
mod rounds;
mod sample;
mod server;
mod spread;
mod systems;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::Nanos;
use clap::{Args, Parser, Subcommand};

use crate::rounds::Plan;
use crate::systems::{Folder, System};

/// Measure the RPC fabric against its Rust peers.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    contest: Contest,
    /// A look: ten seconds.
    #[arg(long)]
    quick: bool,
    /// How long the rounds go on.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Length of one sample; the cores' distance can change within a long one.
    #[arg(long, value_name = "MS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=200))]
    sample_ms: u64,
    /// Count samples too in which other programs had the cores: for a look on a busy machine.
    #[arg(long)]
    busy: bool,
    /// Only systems whose name begins so: millrace, tonic, tonic-tcp, iceoryx2, …
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Also write everything into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What client and server must agree on.
#[derive(Args, Clone)]
pub struct Contest {
    /// Bytes a request and a reply carry.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=65536))]
    payload: u32,
    /// Calls in flight.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 8, 32, 64],
          value_parser = clap::value_parser!(u32).range(1..=256))]
    windows: Vec<u32>,
    /// Connections that tonic's calls are spread over; two are its best here.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    channels: u32,
}

impl Contest {
    /// Bytes a request and a reply carry.
    pub fn payload_bytes(&self) -> usize {
        self.payload as usize
    }

    /// Most calls in flight.
    pub fn widest(&self) -> usize {
        self.windows.iter().copied().max().unwrap_or(1) as usize
    }
}

#[derive(Subcommand)]
enum Role {
    /// The other process: this program starts itself so.
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        system: System,
        #[arg(long)]
        core: usize,
        /// Where to put sockets and files.
        #[arg(long)]
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.role {
        Some(Role::Serve { system, core, folder }) => {
            server::serve(*system, *core, &Folder::shared(folder), &options.contest)
        }
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let systems: Vec<System> =
        System::ALL.into_iter().filter(|system| wanted(*system, &options.only)).collect();
    if systems.is_empty() {
        return Err(format!("no system begins so; there are {}", System::ALL.map(System::name).join(", ")));
    }
    let Some(cores) = base::cpu::allowed_cores().first_chunk().copied() else {
        return Err("two cores are needed, one for the client and one for the server".into());
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;
    }
    let plan = Plan {
        cores,
        sample: Nanos::from_millis(options.sample_ms),
        total: Duration::from_secs(options.seconds.unwrap_or(if options.quick { 10 } else { 60 })),
        windows: options.contest.windows.iter().map(|&window| window as usize).collect(),
        busy: options.busy,
    };
    let outcome = rounds::run(&plan, &systems, &options.contest, &stop)?;
    let figures = fold::figures(&outcome, &plan.windows);
    print!("{}", report::text(&options.contest, &plan, &outcome, &figures));
    print!("\ngoals\n{}", goals::text(&figures));
    if let Some(file) = &options.json {
        let json = format!("{:#}\n", report::json(&options.contest, &plan, &outcome, &figures));
        std::fs::write(file, json)
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    }
    Ok(())
}

fn wanted(system: System, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|name| system.name().starts_with(name.as_str()))
}
