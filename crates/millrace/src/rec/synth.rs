//! `millrace rec synth`: query logs from a seed.

use super::files::{self, Failure};
use clap::Args;
use std::path::PathBuf;

/// Make up a query log like real ones, from a seed.
///
/// Ids are asked in latent groups of 2 to 10, with popularity of slope 0.6 (the top 1 % of rows take about 15 % of accesses) and bag lengths with median
/// 6, p90 16 and p99 60.
#[derive(Args, Debug)]
pub(super) struct Synth {
    /// Rows of the table that the ids name
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(rec::lists::MAX_FEATURES)))]
    rows: u32,

    /// How many queries
    #[arg(long, value_name = "N", default_value_t = 25_000)]
    queries: usize,

    /// Seed of everything
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write the lists here
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
}

impl Synth {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let lists = rec::synth::lists(self.rows, self.queries, self.seed)
            .map_err(|fault| rec::lists::ListsError { line: 0, fault })?;
        files::write_lists(&self.out, &lists)?;
        files::print(&format!("  written   {} in {}\n", files::summary(&lists), self.out.display()))
    }
}
