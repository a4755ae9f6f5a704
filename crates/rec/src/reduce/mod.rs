//! Gather-reduce: the sum, mean, least or greatest of the rows of each bag.
//!
//! Why: this is where a recommendation request spends its time. Rows lie at random in a table larger than any cache, so the figure of merit is how
//! near the gathered bytes come to what the machine can read at random; arithmetic must hide behind that.
//!
//! Shape: `shape` is the one loop, over vectors × formats × poolings × dimensions; `portable`, `avx2` and `avx512` bring vectors. The
//! kernel is chosen at run time. Rows are prefetched [`Tuning::prefetch`] places ahead *through the flat array of values*, across the ends of bags, so
//! short bags overlap as long ones do and nothing is gained by interleaving them. They go to the second-level cache: prefetched into the first, the
//! lines under way fill its few miss buffers, and a gather is 1.4 to 1.6 times slower.
//!
//! NaN: a sum with one is one. The greatest and the least pass over numbers that are none; where all are none the result is infinite.
//!
//! Cost: `docs/measurements/rec-reduce.md`; f32 rows of 64 numbers at 90 % and more of the machine's limit for random 256-byte reads.
//!
//! Sources: FBGEMM's `EmbeddingSpMDM` (a kernel for each dimension and format, whole rows in registers, prefetch ahead, scale and bias fused);
//! MERCI (ASPLOS 2021) for what prefetching alone is worth.

mod portable;
mod shape;
mod touching;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(test)]
mod tests;

use crate::bags::{Bags, BagsError};
use crate::format::RowFormat;
use crate::kernel::Kernel;
use crate::table::Table;
use shape::{F16, F32, Greatest, Int4, Int8, Isa, Job, Least, Plain, Rows, Weighted};
use std::ops::Range;
pub use touching::{TOUCHES, reduce_touching};

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
    reduce_with(Kernel::best(), table, bags, pooling, tuning, out)
}

/// [`reduce()`] by a kernel of the caller's choice, for tests and comparisons.
///
/// # Errors
/// As [`reduce()`].
///
/// # Panics
/// If `out` has another length, or this processor cannot run the kernel.
pub fn reduce_with(
    kernel: Kernel,
    table: &Table,
    bags: &Bags<'_>,
    pooling: Pooling,
    tuning: Tuning,
    out: &mut [f32],
) -> Result<(), BagsError> {
    let reduction = Reduction::new(kernel, table, bags, pooling, out)?;
    let values = bags.values();
    // The first rows have nobody ahead of them to prefetch them.
    reduction.prefetch(&values[..tuning.prefetch.min(values.len())]);
    let ahead = if tuning.prefetch == 0 { values.len() } else { tuning.prefetch.min(values.len()) };
    reduction.run(0..bags.len(), 0..values.len(), ahead, out);
    Ok(())
}

/// A checked reduction that can be done in pieces. That it exists means that the ids are rows of the table and that the processor has the kernel.
struct Reduction<'a> {
    run: unsafe fn(&mut Job<'_>),
    table: &'a Table,
    bags: Bags<'a>,
    mean: bool,
}

impl<'a> Reduction<'a> {
    fn new(
        kernel: Kernel,
        table: &'a Table,
        bags: &Bags<'a>,
        pooling: Pooling,
        out: &[f32],
    ) -> Result<Reduction<'a>, BagsError> {
        bags.check(table.rows())?;
        assert_eq!(out.len(), bags.len() * table.dim(), "a row of numbers for each bag");
        assert!(kernel.is_available(), "this processor has no {kernel}; see Kernel::available");
        let run = choose(kernel, table.format(), pooling, bags.weights().is_some(), table.dim());
        Ok(Reduction { run, table, bags: *bags, mean: pooling == Pooling::Mean })
    }

    fn prefetch(&self, ids: &[u32]) {
        let (start, stride) = (self.table.bytes().as_ptr(), self.table.stride());
        for &id in ids {
            shape::prefetch_row(start.wrapping_add(id as usize * stride), stride);
        }
    }

    /// The part of `bags` that lies in `window`; a bag that began in an earlier window goes on in `out`.
    fn run(&self, bags: Range<usize>, window: Range<usize>, ahead: usize, out: &mut [f32]) {
        let mut job = Job {
            rows: self.table.bytes().as_ptr(),
            dim: self.table.dim(),
            values: self.bags.values(),
            offsets: self.bags.offsets(),
            weights: self.bags.weights().unwrap_or(&[]),
            bags,
            window,
            ahead,
            mean: self.mean,
            out,
        };
        // SAFETY: `new` has compared every id with the table's rows and asked the processor for the kernel, which was chosen for this table's format
        // and dimension and has weights exactly if it is a weighted one; `Bags` has as many weights as values.
        unsafe { (self.run)(&mut job) }
    }
}

/// The function for a case.
fn choose(
    kernel: Kernel,
    format: RowFormat,
    pooling: Pooling,
    weighted: bool,
    dim: usize,
) -> unsafe fn(&mut Job<'_>) {
    match kernel {
        Kernel::Portable => by_format::<portable::Portable>(format, pooling, weighted, dim),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => by_format::<avx2::Avx2>(format, pooling, weighted, dim),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => by_format::<avx512::Avx512>(format, pooling, weighted, dim),
        #[cfg(not(target_arch = "x86_64"))]
        _ => unreachable!("the kernel is available"),
    }
}

fn by_format<I: Isa>(
    format: RowFormat,
    pooling: Pooling,
    weighted: bool,
    dim: usize,
) -> unsafe fn(&mut Job<'_>) {
    match format {
        RowFormat::F32 => by_pooling::<I, F32>(pooling, weighted, dim),
        RowFormat::F16 => by_pooling::<I, F16>(pooling, weighted, dim),
        RowFormat::Int8 => by_pooling::<I, Int8>(pooling, weighted, dim),
        RowFormat::Int4 => by_pooling::<I, Int4>(pooling, weighted, dim),
    }
}

fn by_pooling<I: Isa, F: Rows>(pooling: Pooling, weighted: bool, dim: usize) -> unsafe fn(&mut Job<'_>) {
    match pooling {
        Pooling::Sum | Pooling::Mean if weighted => I::of_dim::<F, Weighted>(dim),
        Pooling::Sum | Pooling::Mean => I::of_dim::<F, Plain>(dim),
        Pooling::Max => I::of_dim::<F, Greatest>(dim),
        Pooling::Min => I::of_dim::<F, Least>(dim),
    }
}
