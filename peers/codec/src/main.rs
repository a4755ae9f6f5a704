//! Measures the codec against prost, buffa and quick-protobuf: decode to usable fields, decode and read, encode; and messages that are a few
//! large fields against C++ protobuf, if that can be compiled here (`large.rs`).
//!
//! One run, one pinned core, the system's allocator for all, everyone compiled with the root's release profile. Each family has
//! 64 different messages from a seed; before timing, all libraries must agree on every value (`contest.rs`). How samples are
//! taken is in `measure.rs`, what each mode promises in `peers/`, and the results with machine and date in
//! `docs/measurements/codec.md`.
//!
//! ```text
//! cargo run --release --manifest-path peers/codec/Cargo.toml -- [--quick] [--family NAME] [--json] [--plot FILE]
//! ```

mod contest;
mod cpp;
mod families;
mod fold;
mod generate;
mod goals;
mod large;
mod measure;
mod ours;
mod peers;
mod plot;
mod probe;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::measure::{Plan, measure};
use crate::probe::Probe;
use crate::report::Outcome;

/// Measure the codec against its peers.
#[derive(Parser)]
struct Options {
    /// A look: fewer and shorter samples.
    #[arg(long)]
    quick: bool,
    /// Only families whose name begins so: log, nested, wide, micro, micro-login, …, large
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Samples of each kind per contestant.
    #[arg(long)]
    rounds: Option<usize>,
    /// Seed of the messages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also draw the ratios into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON instead of tables, of all but `large`.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let plan = match options.quick {
        true => Plan { rounds: 9, sample_ns: 2e6 },
        false => Plan { rounds: 31, sample_ns: 6e6 },
    };
    let plan = Plan { rounds: options.rounds.unwrap_or(plan.rounds).max(1), ..plan };
    let wanted = options.family.as_deref().unwrap_or("");
    let families: Vec<_> = families::ALL.iter().filter(|(name, _)| name.starts_with(wanted)).collect();
    let with_large = LARGE.starts_with(wanted);
    if families.is_empty() && !with_large {
        let names: Vec<_> = families::ALL.iter().map(|(name, _)| *name).chain([LARGE]).collect();
        return Err(format!("no family begins with `{wanted}`; there are {}", names.join(", ")));
    }

    let core = pin();
    let before = Probe::take();
    let mut outcomes = Vec::new();
    for (_, contest) in families {
        let mut contest = contest(options.seed);
        contest.check()?;
        let rows = measure(&mut contest, plan);
        let outcome = Outcome { contest, rows };
        if !options.json {
            print!("{}", report::table(&outcome));
        }
        outcomes.push(outcome);
    }
    let large = if with_large && !options.json { large_fields(options.seed, plan)? } else { Vec::new() };
    let after = Probe::take();
    if let Some(file) = &options.plot {
        std::fs::write(file, plot::svg(&outcomes))
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    }
    if options.json {
        println!("{:#}", report::json(&outcomes, &before, &after));
        return Ok(());
    }
    print!("{}{}", goals::text(&outcomes), large::goals(&large));
    println!("\n{} {core}, {} rounds", base::cpu::model_name(), plan.rounds);
    println!("{}", report::drift(&before, &after));
    Ok(())
}

/// What the messages of large fields are called among the families.
const LARGE: &str = "large";

/// Measures and prints all sizes of large fields, or says in a line why not.
fn large_fields(seed: u64, plan: Plan) -> Result<Vec<large::Outcome>, String> {
    let program = match cpp::compile() {
        Ok(program) => program,
        Err(why) => {
            println!("\nlarge: left out, since {why}");
            return Ok(Vec::new());
        }
    };
    let mut outcomes = Vec::new();
    for size in large::SIZES {
        let outcome = large::measure(&program, size, seed, plan)?;
        print!("{}", large::table(&outcome));
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Pins this thread to the last core it may use, which other programs are a little less fond of than the first.
fn pin() -> String {
    let core = base::cpu::allowed_cores().last().copied();
    match core.map(|core| (core, base::cpu::pin_to(core))) {
        Some((core, Ok(()))) => format!("core {core}"),
        _ => "not pinned".into(),
    }
}
