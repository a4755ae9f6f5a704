//! A DLRM: bottom MLP over dense features, a reduction for each table, interaction, top MLP.
//!
//! Layout of the reference implementation (Naumov et al., "Deep Learning Recommendation Model", 2019): with the dot interaction the top MLP takes
//! the bottom's output followed by the products of each pair `(i, j)`, `j < i`, of the vectors [bottom, table 0, table 1, …], in row order.

use crate::bags::{Bags, BagsError};
use crate::mlp::Mlp;
use crate::reduce::{Pooling, Tuning, reduce};
use crate::table::Table;
use std::fmt;

/// How vectors meet before the top MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// For each table its bags, `len` each.
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

/// Memory that a batch needs while it is computed; reused.
#[derive(Default)]
pub struct Scratch {
    vectors: Vec<f32>,
    reduced: Vec<f32>,
    top: Vec<f32>,
    spare: Vec<f32>,
}

/// A model.
pub struct Model {
    tables: Vec<Table>,
    pooling: Pooling,
    bottom: Mlp,
    top: Mlp,
    interaction: Interaction,
}

impl Model {
    /// A model of its parts.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn new(
        tables: Vec<Table>,
        pooling: Pooling,
        bottom: Mlp,
        top: Mlp,
        interaction: Interaction,
    ) -> Model {
        let dim = bottom.outputs();
        assert!(tables.iter().all(|table| table.dim() == dim));
        let vectors = tables.len() + 1;
        let width = match interaction {
            Interaction::Dot => dim + vectors * (vectors - 1) / 2,
            Interaction::Concat => dim * vectors,
        };
        assert_eq!(top.inputs(), width);
        Model { tables, pooling, bottom, top, interaction }
    }

    /// The tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// How many dense features a query has.
    pub fn dense(&self) -> usize {
        self.bottom.inputs()
    }

    /// How many scores a query gets.
    pub fn outputs(&self) -> usize {
        self.top.outputs()
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
            bags.check(table.rows()).map_err(|error| InputError::Bags(at, error))?;
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
        self.check(batch)?;
        let Scratch { vectors, reduced, top, spare } = scratch;
        let dim = self.bottom.outputs();
        let count = self.tables.len() + 1;
        vectors.clear();
        vectors.extend_from_slice(batch.dense);
        self.bottom.forward(batch.len, vectors, spare);
        // Tables in order, each a block of `len × dim`.
        reduced.clear();
        reduced.resize(batch.len * dim * self.tables.len(), 0.0);
        for ((at, table), out) in
            self.tables.iter().enumerate().zip(reduced.chunks_exact_mut(batch.len * dim))
        {
            reduce(table, &batch.bags[at], self.pooling, tuning, out).map_err(|e| InputError::Bags(at, e))?;
        }
        top.clear();
        for query in 0..batch.len {
            let vector = |at: usize| match at {
                0 => &vectors[query * dim..][..dim],
                at => &reduced[((at - 1) * batch.len + query) * dim..][..dim],
            };
            top.extend_from_slice(vector(0));
            match self.interaction {
                Interaction::Concat => (1..count).for_each(|at| top.extend_from_slice(vector(at))),
                Interaction::Dot => {
                    for i in 1..count {
                        for j in 0..i {
                            top.push(vector(i).iter().zip(vector(j)).map(|(a, b)| a * b).sum());
                        }
                    }
                }
            }
        }
        self.top.forward(batch.len, top, spare);
        scores.clear();
        scores.extend_from_slice(top);
        Ok(())
    }
}
