//! `millrace sweep`: one experiment at many points of what its platforms' numbers could be, on as many machines as there are.
//!
//! ```text
//!   FILE ─▶ run --shard 0/2 ─▶ DIR/shard-0-of-2.csv ─┐
//!      └──▶ run --shard 1/2 ─▶ DIR/shard-1-of-2.csv ─┴▶ digest, merge
//! ```
//!
//! A shard is every N-th run. Shards know nothing of each other: they may share DIR or have one each. What a process did before it was killed stays: whole runs
//! are appended and reach the disk before they count, and `--resume` does the rest. The digest is of what the rows say, in the order of runs: it does not
//! depend on N, on order, or on how often a shard was resumed.
//!
//! [`journal`] the file that grows; [`gather`] all files of a sweep together.

pub mod gather;
pub mod journal;
pub mod shard;

use crate::model::of_file;
use crate::model::repro::experiment;
use crate::parallel;
use clap::{Args, Subcommand};
use gather::Gathered;
use journal::Journal;
use model::Platforms;
use model::experiment::Experiment;
use model::sweep::{self, Block, shipped::SHIPPED};
use serve::process::panics::caught;
use serve::process::{interrupt, progress};
use shard::Shard;
use std::error::Error;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Run an experiment of the hardware model at many points: grids, Latin hypercubes, shards
///
/// A file names an experiment, numbers of platforms and where to move them; docs/sweep.md says how it looks. Templates for Slurm and Kubernetes are
/// in deploy/.
#[derive(Args, Debug)]
pub struct Sweep {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(Run),
    Points(Points),
    Digest(Digest),
    Merge(Merge),
}

/// Run a sweep, or a shard of it
#[derive(Args, Debug)]
struct Run {
    /// A sweep file, or a shipped sweep by name: soc-memory, pcie-latency
    #[arg(value_name = "FILE")]
    file: String,

    /// Which part: i/N does every N-th run, beginning with run i; i counts from 0
    #[arg(long, value_name = "i/N", default_value = "0/1")]
    shard: Shard,

    /// Where rows go; shards may share it. Unless said: the file's name and `.rows`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Keep the runs that are there and do the others; without rows it begins
    #[arg(long)]
    resume: bool,

    /// Runs at once: unless said, as many as there are cores
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Print which run is what, as CSV: run, key, seed and the point
#[derive(Args, Debug)]
struct Points {
    /// A sweep file, or a shipped sweep by name
    #[arg(value_name = "FILE")]
    file: String,
}

/// Print the digest of a sweep's rows, or which runs are missing
#[derive(Args, Debug)]
struct Digest {
    /// Where rows are; several if shards had one each
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,

    /// Print a JSON object instead of words
    #[arg(long)]
    json: bool,
}

/// Put the rows of all shards into one file, in the order of runs
#[derive(Args, Debug)]
struct Merge {
    /// Where rows are; several if shards had one each
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,

    /// Where the one file goes: `rows.csv` there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

type Failure = Box<dyn Error>;

impl Sweep {
    /// Does it.
    ///
    /// # Errors
    /// A file that is wrong, with line and reason; a folder of another sweep; a run that fails; a full disk.
    pub fn run(&self) -> Result<(), Failure> {
        let text = match &self.command {
            Command::Run(run) => run.run()?,
            Command::Points(points) => return points.run(),
            Command::Digest(digest) => digest.run()?,
            Command::Merge(merge) => merge.run()?,
        };
        let mut out = std::io::stdout().lock();
        Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
    }
}

/// A sweep and the text that says it.
fn load(file: &str) -> Result<(String, sweep::Sweep), Failure> {
    let text = match SHIPPED.iter().find(|(name, _)| *name == file) {
        Some((_, text)) => (*text).to_string(),
        None => std::fs::read_to_string(file).map_err(|cause| {
            let known: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
            format!("{file}: {cause}; shipped sweeps are {}", known.join(", "))
        })?,
    };
    // What is wrong is said with the line of the file as it was written.
    sweep::Sweep::parse(&text, file, &Platforms::shipped())?;
    let text = of_file::whole(text, file)?;
    let sweep = sweep::Sweep::parse(&text, file, &Platforms::shipped())?;
    Ok((text, sweep))
}

/// What a sweep runs.
fn experiment_of(sweep: &sweep::Sweep, file: &str) -> Result<Experiment, String> {
    match &sweep.own {
        Some(own) => of_file::experiment_of(own.clone(), file),
        None => experiment(&sweep.experiment).copied().map_err(|why| format!("{file}: {why}")),
    }
}

impl Run {
    fn run(&self) -> Result<String, Failure> {
        let (text, sweep) = load(&self.file)?;
        let experiment = experiment_of(&sweep, &self.file)?;
        let dir = match &self.out {
            Some(dir) => dir.clone(),
            None => Path::new(Path::new(&self.file).file_stem().unwrap_or_default()).with_extension("rows"),
        };
        gather::settle(&dir, &text)?;
        let mut journal = Journal::open(&dir.join(self.shard.file()), &sweep, self.resume)?;
        let stop = interrupt::flag()?;
        let before = journal.runs();
        self.work(&sweep, &experiment, &mut journal, &stop)?;
        let (all, there) = (self.shard.count(sweep.runs()), journal.runs());
        let (new, path) = (there - before, journal.path().display());
        let text = format!(
            "{}: {there} of {all} runs of shard {}, {new} of them new, in {path}",
            sweep.title, self.shard
        );
        if there < all {
            return Err(format!("{text}; --resume does the other {}", all - there).into());
        }
        let digest = if self.shard.is_whole() {
            Gathered::of(std::slice::from_ref(&dir))?.report()?
        } else {
            String::new()
        };
        Ok(format!("{text}\n{digest}"))
    }

    /// Does the runs that are not there, until all are or `stop` is set.
    fn work(
        &self,
        sweep: &sweep::Sweep,
        experiment: &Experiment,
        journal: &mut Journal,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let threads = self.threads.unwrap_or_else(parallel::threads).max(1);
        let missing: Vec<u64> = self.shard.runs(sweep.runs()).filter(|run| !journal.has(*run)).collect();
        let (bar, mut done, all) = (progress::bar(false), 0, missing.len());
        let mut failed: Option<Failure> = None;
        parallel::each(
            missing.into_iter(),
            threads,
            |run| perform(sweep, experiment, run),
            |block| {
                match block.and_then(|block| journal.append(&block)) {
                    Ok(()) => done += 1,
                    // The first failure is the cause; runs that end after it are still kept.
                    Err(why) => failed = failed.take().or(Some(why.into())),
                }
                progress::show(&bar, f64::from(done) / all as f64, &format!("run {done} of {all}"));
                let go_on = failed.is_none() && !stop.load(Ordering::Relaxed);
                if go_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        bar.finish_and_clear();
        failed.map_or(Ok(()), Err)
    }
}

/// Does a run; what went wrong says where.
fn perform(sweep: &sweep::Sweep, experiment: &Experiment, run: u64) -> Result<Block, String> {
    let at = |why: String| {
        let (point, seed) = sweep.run(run);
        let point: Vec<_> =
            sweep.axes.iter().zip(point).map(|(axis, value)| format!("{} = {value}", axis.number)).collect();
        format!("run {run} ({}, seed {seed}): {why}", point.join(", "))
    };
    match caught(|| sweep.perform(run, experiment)) {
        Ok(block) => block.map_err(at),
        Err(panic) => Err(at(format!("the model does not stand this point: {panic}"))),
    }
}

impl Points {
    fn run(&self) -> Result<(), Failure> {
        let (_, sweep) = load(&self.file)?;
        let axes: Vec<_> = sweep.axes.iter().map(ToString::to_string).collect();
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        writeln!(out, "run,key,seed,{}", axes.join(","))?;
        for run in 0..sweep.runs() {
            let (point, seed) = sweep.run(run);
            let point: Vec<_> = point.iter().map(ToString::to_string).collect();
            writeln!(out, "{run},{:016x},{seed},{}", sweep.key(run), point.join(","))?;
        }
        Ok(out.flush()?)
    }
}

impl Digest {
    fn run(&self) -> Result<String, Failure> {
        let all = Gathered::of(&self.dirs)?;
        if self.json {
            println!("{}", all.to_json());
            return all.complete().map(|()| String::new());
        }
        all.report()
    }
}

impl Merge {
    fn run(&self) -> Result<String, Failure> {
        let all = Gathered::of(&self.dirs)?;
        all.complete()?;
        all.write(&self.out)?;
        all.report()
    }
}

#[cfg(test)]
mod tests;
