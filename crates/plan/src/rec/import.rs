//! `millrace rec import`: query logs made fit for planning and serving.

use super::files::{self, Failure};
use clap::Args;
use std::path::PathBuf;

/// Check a query log, leave out rare ids, split it, and write it in the one form that the other tools read.
///
/// Every line is checked; the first that is wrong is named. What is written has the header `1 FEATURES QUERIES IDS 2`, so a file that is cut short
/// later is told. With --min-count, ids that are asked less often are left out and the others get new numbers without gaps; --ids says which.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    millrace rec import clicks.txt --plain --min-count 10 --ids kept.txt --out log.txt\n  \
    millrace rec import log.txt --out train.txt --split 0.2 --held-out test.txt")]
pub struct Import {
    /// The query log: `weight id id …` under a header; - is standard input
    #[arg(value_name = "FILE")]
    lists: PathBuf,

    /// The log is lines `id id …` without header and weights
    #[arg(long)]
    plain: bool,

    /// Write the lists here
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,

    /// Leave out ids that are asked fewer times, weights counted, and number the others anew; 1 only closes gaps
    #[arg(long, value_name = "N", requires = "ids", value_parser = clap::value_parser!(u64).range(1..))]
    min_count: Option<u64>,

    /// Write here, line by line, the old id of each new one
    #[arg(long, value_name = "FILE", requires = "min_count")]
    ids: Option<PathBuf>,

    /// Set this part of the queries aside, into the file of --held-out. Equal sets of ids stay on one side
    #[arg(long, value_name = "PART", requires = "held_out", value_parser = files::part)]
    split: Option<f64>,

    /// Where the part that is set aside goes
    #[arg(long, value_name = "FILE", requires = "split")]
    held_out: Option<PathBuf>,

    /// Seed of the split
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Import {
    /// Runs it.
    ///
    /// # Errors
    /// A file that is wrong, with line and reason; or that cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        let mut lists = files::read(&self.lists, self.plain)?;
        let mut text = format!("  read      {}\n", files::summary(&lists));
        if let (Some(least), Some(file)) = (self.min_count, &self.ids) {
            let (dense, old) = lists
                .dense(least)
                .ok_or_else(|| format!("no id is asked {least} times; give --min-count less than {least}"))?;
            files::write(file, |sink| old.iter().try_for_each(|&id| writeln!(sink, "{}", id + 1)))?;
            lists = dense;
        }
        if let (Some(part), Some(file)) = (self.split, &self.held_out) {
            let (rest, held_out) = lists.split(part, self.seed);
            files::write_lists(file, &held_out)?;
            text.push_str(&format!("  held out  {} in {}\n", files::summary(&held_out), file.display()));
            lists = rest;
        }
        files::write_lists(&self.out, &lists)?;
        text.push_str(&format!("  written   {} in {}\n", files::summary(&lists), self.out.display()));
        crate::print(&text)
    }
}
