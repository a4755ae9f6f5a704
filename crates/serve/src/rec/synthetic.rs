//! Models with random weights, for whoever has none: to try, to measure, to test.

use clap::Args;
use rec::memo::{Growth, Limits};
use rec::request::Served;
use rec::{RowFormat, Synth};

/// What it is like. Two with the same numbers are the same.
#[derive(Args, Clone, Debug)]
pub struct Synthetic {
    /// Tables of a random model
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Random model")]
    pub tables: usize,

    /// Rows of each of its tables
    #[arg(long, value_name = "N", default_value = "100k", value_parser = rows, help_heading = "Random model")]
    pub rows: u32,

    /// Numbers in a row
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Random model")]
    pub dim: usize,

    /// How rows are written: f32, f16, int8, int4
    #[arg(long, value_name = "FORMAT", default_value = "f32", help_heading = "Random model")]
    pub format: RowFormat,

    /// Dense features of a query
    #[arg(long, value_name = "N", default_value_t = 13, help_heading = "Random model")]
    pub dense: usize,

    /// Layers of the bottom MLP, before the last, which has a row's size
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "512,256",
        help_heading = "Random model"
    )]
    pub bottom: Vec<usize>,

    /// Layers of the top MLP, before the last, which is one score
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "512,256",
        help_heading = "Random model"
    )]
    pub top: Vec<usize>,

    /// Reduce its tables by memo plans, grown from a random log (`millrace rec synth`) to so many times the tables' rows
    #[arg(long, value_name = "RATIO", value_parser = budget, help_heading = "Random model")]
    pub memo: Option<f64>,

    /// Seed of its numbers
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Random model")]
    pub seed: u64,
}

/// Queries of the log that plans are grown from.
const LOG: usize = 20_000;

/// Rows of a table, as people write them.
///
/// # Errors
/// It is no such number.
pub fn rows(text: &str) -> Result<u32, String> {
    let rows = crate::process::parse::count(text)?;
    u32::try_from(rows)
        .ok()
        .filter(|&rows| rows > 0)
        .ok_or_else(|| format!("a table has from 1 to {} rows", u32::MAX))
}

impl Synthetic {
    /// About the most memory that making it takes.
    pub fn bytes(&self) -> u64 {
        let plain = self.shape().bytes();
        match self.memo {
            None => plain,
            // All arenas, and the table of the last.
            Some(budget) => (plain as f64 * (budget + 1.0 / self.tables.max(1) as f64)) as u64,
        }
    }

    fn shape(&self) -> Synth {
        let mut top = self.top.clone();
        top.push(1);
        Synth {
            seed: self.seed,
            tables: self.tables,
            rows: self.rows,
            dim: self.dim,
            format: self.format,
            dense: self.dense,
            bottom: self.bottom.clone(),
            top,
            ..Synth::default()
        }
    }

    /// That the numbers make a model.
    ///
    /// # Errors
    /// They make none, and why.
    pub fn check(&self) -> Result<(), String> {
        if self.dim == 0 || !self.dim.is_multiple_of(2) || self.dim > 1 << 12 {
            return Err(format!("--dim {}: rows have an even number of numbers, up to 4096", self.dim));
        }
        if self.dense == 0 || self.bottom.contains(&0) || self.top.contains(&0) {
            return Err("--dense, --bottom and --top are greater than 0".to_owned());
        }
        Ok(())
    }

    /// A model of this kind.
    ///
    /// # Errors
    /// There is not so much memory, or the numbers make no model.
    pub fn model(&self) -> Result<Served, String> {
        self.check()?;
        let mut model = self.shape().build().map_err(|error| error.to_string())?;
        if let Some(budget) = self.memo {
            let log = rec::synth::lists(self.rows, LOG, self.seed).map_err(|fault| fault.to_string())?;
            let plan = Growth::new(&log, budget, Limits::default(), |_| ()).plan(budget);
            for table in 0..self.tables {
                model
                    .plan(table, plan.clone())
                    .map_err(|error| format!("no memory for table {table}: {error}"))?;
            }
        }
        (model.name, model.version) = ("synthetic".to_owned(), self.seed.to_string());
        Ok(Served::new(model))
    }
}

/// How many rows a memo plan may have, as a multiple of a table's.
///
/// # Errors
/// It is no number from 1 to 1000.
pub fn budget(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(ratio) if (1.0..=1000.0).contains(&ratio) => Ok(ratio),
        _ => Err(format!(
            "{text} is not a number from 1 to 1000; 1.25 allows a quarter more rows than the table has"
        )),
    }
}
