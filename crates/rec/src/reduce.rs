//! Gather-reduce: the sum, mean, least or greatest of the rows of each bag.

use crate::bags::{Bags, BagsError};
use crate::table::Table;

/// What becomes of a bag's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Their sum, each times its weight if there are weights.
    #[default]
    Sum,
    /// Their sum over their number. With weights, the weighted sum over their number, as FBGEMM has it.
    Mean,
    /// The greatest in each dimension. Weights do not count.
    Max,
    /// The least in each dimension. Weights do not count.
    Min,
}

/// What an operator may turn.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// How many rows ahead are prefetched; 0 is none.
    pub prefetch: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { prefetch: 64 }
    }
}

/// Reduces each of `bags` over rows of `table` to `out`, `bags.len() × dim` numbers, bag after bag. An empty bag is zeros.
///
/// # Errors
/// An id that is no row of the table; `out` is then as it was.
///
/// # Panics
/// If `out` has another length.
pub fn reduce(
    table: &Table,
    bags: &Bags<'_>,
    pooling: Pooling,
    tuning: Tuning,
    out: &mut [f32],
) -> Result<(), BagsError> {
    bags.check(table.rows())?;
    let dim = table.dim();
    assert_eq!(out.len(), bags.len() * dim, "a row of numbers for each bag");
    let _ = tuning;
    let mut row = vec![0.0; dim];
    for (at, out) in out.chunks_exact_mut(dim).enumerate() {
        out.fill(0.0);
        for (nth, place) in bags.span(at).enumerate() {
            table.row(bags.values()[place], &mut row);
            let weight = bags.weights().map_or(1.0, |weights| weights[place]);
            for (sum, &x) in out.iter_mut().zip(&row) {
                *sum = match pooling {
                    Pooling::Sum | Pooling::Mean => *sum + x * weight,
                    _ if nth == 0 => x,
                    Pooling::Max => sum.max(x),
                    Pooling::Min => sum.min(x),
                };
            }
        }
        if pooling == Pooling::Mean && !bags.span(at).is_empty() {
            let count = bags.span(at).len() as f32;
            out.iter_mut().for_each(|sum| *sum /= count);
        }
    }
    Ok(())
}
