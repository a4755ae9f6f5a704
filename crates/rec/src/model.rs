//! A DLRM: bottom MLP over dense features, a reduction for each table, interaction, top MLP.
//!
//! Layout of the reference implementation (Naumov et al., "Deep Learning Recommendation Model", 2019): with the dot interaction the top MLP takes
//! the bottom's output followed by the products of each pair `(i, j)`, `j < i`, of the vectors [bottom, table 0, table 1, …], in row order. TorchRec's models
//! take them in another order; their columns are moved when they are loaded ([`load()`](load())).
//!
//! A batch goes through four stages ([`Stage`]): rows of all tables, bottom MLP, interaction, top MLP. Each writes what the next reads into [`Scratch`].
//!
//! Invariant: shapes fit; [`Model::new`] asserts it for parts of our own making, [`load`](load()) has checked it before.

mod interact;
mod layout;
pub mod load;
mod stages;
mod synth;
#[cfg(test)]
mod tests;

pub use load::{LoadError, LoadOptions, load};
pub use stages::Stages;
pub use synth::Synth;

use crate::bags::{Bags, BagsError};
use crate::format::RowFormat;
use crate::kernel::Kernel;
use crate::memo::{Plan, PlanScratch, Planned};
use crate::mlp::Mlp;
use crate::reduce::{Pooling, Tuning, reduce};
use crate::table::Table;
use base::hash::{Hasher64, WIRE_SEED};
use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// How vectors meet before the top MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interaction {
    /// Products of each pair, behind the bottom's output.
    Dot,
    /// All vectors one after another.
    Concat,
}

/// A batch of queries.
pub struct Batch<'a> {
    /// How many queries.
    pub len: usize,
    /// `len × dense` numbers.
    pub dense: &'a [f32],
    /// For each table its bags, `len` each: of ids, or of keys if it is planned.
    pub bags: &'a [Bags<'a>],
}

/// Why a batch is none for this model.
#[derive(Clone, Debug, PartialEq)]
pub enum InputError {
    /// The model has so many tables, the batch bags for so many.
    Tables(usize, usize),
    /// The dense features should be so many numbers and are so many.
    Dense(usize, usize),
    /// The dense feature at this place is no finite number.
    NotFinite(usize),
    /// This table should have so many bags and has so many.
    Length(usize, usize, usize),
    /// Bags of this table.
    Bags(usize, BagsError),
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputError::Tables(want, have) => {
                write!(f, "the model has {want} tables, the request bags for {have}")
            }
            InputError::Dense(want, have) => {
                write!(f, "tensor dense: expected {want} numbers (queries times dense features), got {have}")
            }
            InputError::NotFinite(at) => write!(f, "tensor dense: number {at} is not finite"),
            InputError::Length(table, want, have) => {
                write!(f, "tensors of table {table}: expected {want} bags, got {have}")
            }
            InputError::Bags(table, error) => write!(f, "tensors of table {table}: {error}"),
        }
    }
}

impl std::error::Error for InputError {}

/// Part of the work on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rows of all tables.
    Reduce,
    /// The bottom MLP.
    Bottom,
    /// Products of pairs, or putting together.
    Interact,
    /// The top MLP.
    Top,
}

/// Memory that a batch needs while it is computed; reused.
#[derive(Default)]
pub struct Scratch {
    vectors: Vec<f32>,
    reduced: Vec<f32>,
    top: Vec<f32>,
    spare: Vec<f32>,
    plan: PlanScratch,
}

/// What a table's bags are reduced over.
pub enum Access {
    /// The table itself.
    Rows(Table),
    /// The arena of a memo plan.
    Planned(Planned),
}

/// A table of a model.
pub struct Sparse {
    /// Its name.
    pub name: String,
    /// What becomes of a bag's rows.
    pub pooling: Pooling,
    access: Access,
    hash: u64,
}

impl Sparse {
    /// `table` by itself. Cost: hashing all its rows.
    pub fn new(name: impl Into<String>, table: Table, pooling: Pooling) -> Sparse {
        Sparse { name: name.into(), pooling, hash: table.hash(), access: Access::Rows(table) }
    }

    /// The same rows by `planned`, which was made of the table with this hash.
    pub fn planned(name: impl Into<String>, planned: Planned, hash: u64, pooling: Pooling) -> Sparse {
        Sparse { name: name.into(), pooling, hash, access: Access::Planned(planned) }
    }

    /// What its bags are reduced over.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The hash of the table, [`Table::hash`]: what a plan is made for. A table that is planned has that of the one it was made of.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many rows there are: what ids are less than. Memo rows do not count.
    pub fn rows(&self) -> u32 {
        match &self.access {
            Access::Rows(table) => table.rows(),
            Access::Planned(planned) => planned.plan().rows(),
        }
    }

    /// The rows that are read, memo rows among them.
    pub fn table(&self) -> &Table {
        match &self.access {
            Access::Rows(table) => table,
            Access::Planned(planned) => planned.arena(),
        }
    }

    /// Numbers in a row.
    pub fn dim(&self) -> usize {
        self.table().dim()
    }

    /// How rows are written.
    pub fn format(&self) -> RowFormat {
        self.table().format()
    }

    /// Bytes of all rows that may be read, memo rows among them.
    pub fn len_bytes(&self) -> usize {
        self.table().len_bytes()
    }

    /// Reads the row of id `at` into `row`.
    fn row(&self, at: u32, row: &mut [f32]) {
        match &self.access {
            Access::Rows(table) => table.row(at, row),
            Access::Planned(planned) => {
                let mut key = Vec::with_capacity(1);
                planned.plan().singles(&[planned.plan().remap()[at as usize]], &mut key);
                planned.arena().row(key[0], row);
            }
        }
    }
}

/// A model.
pub struct Model {
    /// What it is called.
    pub name: String,
    /// Which of that name it is.
    pub version: String,
    /// What its files did not say and was supposed, for people to read.
    pub assumed: Vec<String>,
    tables: Vec<Sparse>,
    bottom: Mlp,
    top: Mlp,
    interaction: Interaction,
    kernel: Kernel,
}

/// Inputs of the top MLP, if there are not more than can be counted.
fn width(interaction: Interaction, dim: usize, tables: usize) -> Option<usize> {
    let vectors = tables.checked_add(1)?;
    match interaction {
        Interaction::Dot => (vectors.checked_mul(tables)? / 2).checked_add(dim),
        Interaction::Concat => dim.checked_mul(vectors),
    }
}

impl Model {
    /// A model of its parts.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn new(tables: Vec<Sparse>, bottom: Mlp, top: Mlp, interaction: Interaction) -> Model {
        let dim = bottom.outputs();
        assert!(dim > 0 && top.outputs() > 0, "both MLPs have layers");
        assert!(tables.iter().all(|table| table.dim() == dim), "tables have the bottom's dimension");
        assert_eq!(
            Some(top.inputs()),
            width(interaction, dim, tables.len()),
            "the top takes the interaction"
        );
        let (name, version) = ("model".to_owned(), "1".to_owned());
        Model { name, version, assumed: Vec::new(), tables, bottom, top, interaction, kernel: Kernel::best() }
    }

    /// The tables.
    pub fn tables(&self) -> &[Sparse] {
        &self.tables
    }

    /// Has a table reduced by `plan` from now on; its rows go into an arena in the same format. Ids and scores stay what they were.
    ///
    /// # Errors
    /// The system has not so much memory; the table is then as it was.
    ///
    /// # Panics
    /// If there is no such table, if it has a plan already, or if it has not as many rows as the plan.
    pub fn plan(&mut self, table: usize, plan: Plan) -> io::Result<()> {
        let sparse = &mut self.tables[table];
        let Access::Rows(rows) = &sparse.access else { panic!("table {} has a plan already", sparse.name) };
        sparse.access = Access::Planned(Planned::new(plan, rows, rows.format())?);
        Ok(())
    }

    /// How many dense features a query has.
    pub fn dense(&self) -> usize {
        self.bottom.inputs()
    }

    /// How many scores a query gets.
    pub fn outputs(&self) -> usize {
        self.top.outputs()
    }

    /// How vectors meet.
    pub fn interaction(&self) -> Interaction {
        self.interaction
    }

    /// What tells models apart: the hashes of all tables, in order, and of all layers. A plan, which changes no score, does not change it.
    pub fn hash(&self) -> u64 {
        let mut bytes = Vec::new();
        self.tables.iter().for_each(|table| bytes.extend(table.hash.to_le_bytes()));
        for layer in self.bottom.layers().chain(self.top.layers()) {
            bytes.extend((layer.inputs as u64).to_le_bytes());
            layer.weight.iter().chain(&layer.bias).for_each(|x| bytes.extend(x.to_le_bytes()));
        }
        Hasher64::new(WIRE_SEED).hash(&bytes)
    }

    /// Bytes of all tables' rows.
    pub fn table_bytes(&self) -> usize {
        self.tables.iter().map(Sparse::len_bytes).sum()
    }

    /// That `batch` is one for this model.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, batch: &Batch<'_>) -> Result<(), InputError> {
        if batch.bags.len() != self.tables.len() {
            return Err(InputError::Tables(self.tables.len(), batch.bags.len()));
        }
        let dense = batch.len * self.dense();
        if batch.dense.len() != dense {
            return Err(InputError::Dense(dense, batch.dense.len()));
        }
        if let Some(at) = batch.dense.iter().position(|x| !x.is_finite()) {
            return Err(InputError::NotFinite(at));
        }
        for (at, (bags, table)) in batch.bags.iter().zip(&self.tables).enumerate() {
            if bags.len() != batch.len {
                return Err(InputError::Length(at, batch.len, bags.len()));
            }
            // Keys name rows of the arena.
            let rows = if bags.counts().is_some() { table.table().rows() } else { table.rows() };
            bags.check(rows).map_err(|error| InputError::Bags(at, error))?;
        }
        Ok(())
    }

    /// Scores of `batch`, `len × outputs` numbers, into `scores`.
    ///
    /// # Errors
    /// As [`Model::check`].
    pub fn infer(
        &self,
        batch: &Batch<'_>,
        tuning: Tuning,
        scratch: &mut Scratch,
        scores: &mut Vec<f32>,
    ) -> Result<(), InputError> {
        self.infer_staged(batch, tuning, scratch, scores, |_| ())
    }

    /// As [`Model::infer`]; `done` is told of each stage that is over, by [`Stages::timer`] for one.
    ///
    /// # Errors
    /// As [`Model::check`].
    pub fn infer_staged(
        &self,
        batch: &Batch<'_>,
        tuning: Tuning,
        scratch: &mut Scratch,
        scores: &mut Vec<f32>,
        mut done: impl FnMut(Stage),
    ) -> Result<(), InputError> {
        self.check(batch)?;
        scores.clear();
        if batch.len == 0 {
            return Ok(());
        }
        let Scratch { vectors, reduced, top, spare, plan } = scratch;
        let dim = self.bottom.outputs();
        // Tables in order, each a block of `len × dim`. `reduce` writes all of it.
        reduced.resize(batch.len * dim * self.tables.len(), 0.0);
        for ((at, sparse), out) in
            self.tables.iter().enumerate().zip(reduced.chunks_exact_mut(batch.len * dim))
        {
            let bags = &batch.bags[at];
            match &sparse.access {
                Access::Rows(table) => reduce(table, bags, sparse.pooling, tuning, out),
                Access::Planned(planned) => planned.reduce(bags, sparse.pooling, tuning, plan, out),
            }
            .map_err(|error| InputError::Bags(at, error))?;
        }
        done(Stage::Reduce);
        vectors.clear();
        vectors.extend_from_slice(batch.dense);
        self.bottom.forward(batch.len, vectors, spare);
        done(Stage::Bottom);
        let shape = interact::Shape { dim, len: batch.len, tables: self.tables.len() };
        interact::interact(self.kernel, self.interaction, shape, vectors, reduced, top);
        done(Stage::Interact);
        self.top.forward(batch.len, top, spare);
        scores.extend_from_slice(top);
        done(Stage::Top);
        Ok(())
    }
}
