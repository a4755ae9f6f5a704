//! Two applications as graphs of microservices, a social network and a site of movie reviews: what they do for a request, and what part of its time is
//! the network stack's (Dagger, Figs. 1 and 2). `README.md` says how to run it.
//!
//! | file | what it is |
//! |---|---|
//! | `social`, `media` | the services, what they remember, and what users ask |
//! | `tier`, `asks` | a service's thread, and how its handlers ask other services |
//! | `keep` | what a service remembers |
//! | `parts`, `book` | where time goes, and what is noted of it |
//! | `load`, `measure` | requests, and the load points at which all is measured |
//! | `show` | tables and the page |

mod asks;
mod book;
mod keep;
mod load;
mod measure;
mod media;
mod parts;
mod show;
mod social;
mod tier;
mod traces;

use bench::report;
use clap::{Parser, ValueEnum};
use measure::{Load, Measured};
use ring::wait::WaitPolicy;
use serve::process::interrupt;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tier::Rig;
use traces::Traces;

/// What went wrong, on whichever thread.
type Failure = Box<dyn Error + Send + Sync>;

/// A graph of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Posts and timelines, twelve services
    Social,
    /// Movie reviews and movies' pages, fourteen services
    Media,
    /// One after the other
    All,
}

/// Runs a graph of microservices, a thread each, loads it from little to all it can do, and prints what part of requests' time is the network
/// stack's, by kind of request and by tier, and the sizes of what the tiers say to each other.
#[derive(Parser, Debug)]
#[command(name = "graphs")]
struct Args {
    /// Which graph
    #[arg(value_enum, default_value = "all")]
    graph: Which,
    /// What carries the calls: memory, shm, unix, tcp, udp
    #[arg(long, default_value = "shm", value_parser = ["memory", "shm", "unix", "tcp", "udp"])]
    transport: String,
    /// Of a hundred requests, how many compose; the others read
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=100))]
    compose: u64,
    /// Load points: per cent of what the graph can do, in an open loop
    #[arg(long, value_delimiter = ',', default_value = "5,20,40,60,80,95", value_parser = clap::value_parser!(u32).range(1..=200))]
    loads: Vec<u32>,
    /// For how long each load point is measured, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Ends a load point after so many requests, if that is before its time
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Requests under way at most
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    window: u32,
    /// Posts, or reviews, that are composed before anything is measured
    #[arg(long, default_value_t = 2000)]
    composed: u64,
    /// Seed of what is asked
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes one request of 64 as a Chrome trace, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Writes a page with plots; where the name ends in .svg, the plots alone, in .csv its figures as rows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is no number of seconds"))?;
    if (0.01..=600.0).contains(&seconds) { Ok(seconds) } else { Err("take 0.01 to 600 seconds".to_owned()) }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("graphs: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Whether no request failed.
fn run(args: &Args) -> Result<bool, Failure> {
    let stop = interrupt::flag()?;
    let folder = std::env::temp_dir().join(format!("millrace-graphs-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure_all(args, &folder, &stop);
    std::fs::remove_dir_all(&folder)?;
    let measured = measured?;
    let page = show::page(&measured, args);
    let good = page.verdict.0;
    report::deliver(&(), false, || page.text(), || page.clone(), args.report.as_deref())
        .map_err(|undelivered| undelivered.to_string())?;
    println!("\n  {}", page.verdict.1);
    Ok(good)
}

fn measure_all(args: &Args, folder: &Path, stop: &AtomicBool) -> Result<Vec<Measured>, Failure> {
    let traces = args.trace.is_some().then(|| Traces::new(64));
    let (transport, folder) = (args.transport.clone(), folder.to_owned());
    let rig = Rig { transport, folder, wait: policy(), traces };
    let load = Load {
        loads: args.loads.clone(),
        length: Duration::from_secs_f64(args.seconds),
        requests: args.requests.unwrap_or(u64::MAX),
        window: args.window as usize,
        composed: args.composed,
        seed: args.seed,
    };
    let mut measured = Vec::new();
    if args.graph != Which::Media {
        let shares = match 100 - args.compose {
            0 => [100, 0, 0],
            // As many of each as in DeathStarBench's mixture.
            read => [args.compose, read - read / 3, read / 3],
        };
        measured.push(measure::social(&rig, &load, shares, stop)?);
    }
    if args.graph != Which::Social && !stop.load(Ordering::Relaxed) {
        measured.push(measure::media(&rig, &load, [args.compose, 100 - args.compose, 0], stop)?);
    }
    if let (Some(file), Some(traces)) = (&args.trace, &rig.traces) {
        std::fs::write(file, traces.chrome())?;
    }
    Ok(measured)
}

/// More tiers than cores: whoever would be waited for may need the core.
fn policy() -> WaitPolicy {
    match base::cpu::allowed_cores().len() {
        0..16 => WaitPolicy::BLOCK,
        _ => WaitPolicy::default(),
    }
}
