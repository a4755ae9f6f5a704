//! `millrace rec synth`: query logs and models from a seed.

use super::files::{self, Failure};
use bench::report::format::whole;
use clap::Args;
use rec::{Model, RowFormat};
use serve::process::parse::count;
use serve::rec::rows;
use std::path::PathBuf;

/// Make up a query log like real ones, a model of random numbers, or both, from a seed.
///
/// Ids are asked in latent groups of 2 to 10, with popularity of slope 0.6 (the top 1 % of rows take about 15 % of accesses) and bag lengths with median
/// 6, p90 16 and p99 60.
#[derive(Args, Debug)]
pub struct Synth {
    /// Rows of the table that the ids name
    #[arg(long, value_name = "N", default_value = "20k", value_parser = rows)]
    rows: u32,

    /// How many queries
    #[arg(long, value_name = "N", default_value = "25k", value_parser = count)]
    queries: u64,

    /// Seed of everything
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write the lists here
    #[arg(short, long, value_name = "FILE", required_unless_present = "model")]
    out: Option<PathBuf>,

    /// Write a model into this folder: tables of --rows rows, MLPs of the reference implementation's sizes
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,

    /// Tables of the model
    #[arg(long, value_name = "N", default_value_t = 1, requires = "model", value_parser = clap::value_parser!(u16).range(1..=1000))]
    tables: u16,

    /// Numbers in a row of the model's tables
    #[arg(long, value_name = "N", default_value_t = 64, requires = "model", value_parser = clap::value_parser!(u16).range(1..=1024))]
    dim: u16,

    /// How the model's tables are to be kept in memory: f32, f16, int8 or int4
    #[arg(long, value_name = "FORMAT", default_value = "f32", requires = "model")]
    format: RowFormat,
}

impl Synth {
    /// Runs it.
    ///
    /// # Errors
    /// A file that is wrong, with line and reason; or that cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        if let Some(file) = &self.out {
            let lists = rec::synth::lists(self.rows, self.queries as usize, self.seed)?;
            files::write_lists(file, &lists)?;
            crate::print(&format!("  written   {} in {}\n", files::summary(&lists), file.display()))?;
        }
        let Some(dir) = &self.model else { return Ok(()) };
        if self.format == RowFormat::Int4 && !self.dim.is_multiple_of(2) {
            return Err(format!("int4 rows have an even dimension, not {}", self.dim).into());
        }
        let mut model = Model::synth(&rec::Synth {
            seed: self.seed,
            tables: self.tables.into(),
            rows: self.rows,
            dim: self.dim.into(),
            format: self.format,
            ..rec::Synth::default()
        })?;
        if let Some(name) = dir.file_name() {
            model.name = name.to_string_lossy().into_owned();
        }
        model.write(dir)?;
        let (tables, rows) = (self.tables, whole(self.rows.into()));
        crate::print(&format!(
            "  written   a model of {tables} tables, {rows} rows of {} numbers each, in {}\n",
            self.dim,
            dir.display()
        ))
    }
}
