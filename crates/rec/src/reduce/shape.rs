//! The one shape that all kernels have, written over vectors, row formats and poolings; an instruction set brings its vectors.
//!
//! ```text
//!              ┌ block of N vectors ┐        accumulators of a block stay in registers while the bag's rows pass
//!  row values[i]     ▒▒▒▒ ▒▒▒▒ ▒▒▒▒ ▒▒▒▒
//!  row values[i+1]   ▒▒▒▒ ▒▒▒▒ ▒▒▒▒ ▒▒▒▒
//!  …
//!  row values[i+a]   · · · prefetch · · ·    all its lines, though it may belong to a later bag
//! ```
//! A row of 16, 32, 64 or 128 numbers is one block (two at 128 on 8 lanes) with all bounds known to the compiler. Any other dimension is cut into
//! blocks of 8, 4, 2 and 1 wide vectors, narrow ones and single numbers; then a bag goes in pieces of [`PIECE`] rows, so that
//! a row is still in the first-level cache when its next block is taken.
//!
//! Integers: a sum adds `q · (scale · weight)` to the vectors and `bias · weight` to one number that joins at the end, so a row costs one
//! multiply-add for each vector, as a weighted f32 row does.
//!
//! Invariants: (1) every id in the window is a row of the table, which [`super::reduce_with`] checks before a kernel runs; (2) a block reads exactly
//! the bytes of its
//! numbers and the row's scale and bias, nothing behind the row.
//!
//! Everything here is `inline(always)`: it must become part of the function that has the instruction set's `target_feature`.

use crate::format::RowFormat;
use base::touch::{LINE, prefetch_far};
use std::ops::Range;

/// Rows of a bag that are taken at once where a row has several blocks: 32 rows of 512 bytes are 16 KiB.
const PIECE: usize = 32;

/// What a kernel does: some bags of a batch, or of them what lies in a window of the values.
pub(super) struct Job<'a> {
    /// The table's first row.
    pub rows: *const u8,
    /// Numbers in a row.
    pub dim: usize,
    /// Ids, each below the table's rows.
    pub values: &'a [u32],
    /// Where bags begin and end.
    pub offsets: &'a [u32],
    /// As many as values for a weighted pooling; empty for others.
    pub weights: &'a [f32],
    /// Which bags.
    pub bags: Range<usize>,
    /// Which of their values.
    pub window: Range<usize>,
    /// How many rows ahead are prefetched; as many as there are values for none.
    pub ahead: usize,
    /// Whether a sum is divided by the bag's length.
    pub mean: bool,
    /// `dim` numbers for each bag of the batch.
    pub out: &'a mut [f32],
}

/// Some `f32` that are worked on at once. Methods are unsafe: the instruction set must be there, and pointers must be readable for [`Lanes::WIDTH`] numbers.
pub(super) trait Lanes: Copy {
    const WIDTH: usize;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(at: *const f32) -> Self;
    unsafe fn store(self, at: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    /// `self · by + plus`, rounded once or twice.
    unsafe fn mul_add(self, by: Self, plus: Self) -> Self;
    /// The greater; `other` where a lane of `self` is no number.
    unsafe fn greater(self, other: Self) -> Self;
    /// The lesser; `other` where a lane of `self` is no number.
    unsafe fn lesser(self, other: Self) -> Self;
    unsafe fn from_f32(at: *const u8) -> Self;
    unsafe fn from_f16(at: *const u8) -> Self;
    unsafe fn from_u8(at: *const u8) -> Self;
    /// Nibbles of `row` from number `column` on, which is even unless the width is 1.
    unsafe fn from_u4(row: *const u8, column: usize) -> Self;
}

/// How a row is written; the kernels' side of [`RowFormat`].
pub(super) trait Rows {
    const FORMAT: RowFormat;
    /// Whether numbers are codes with a scale and a bias behind the row.
    const SCALED: bool;
    unsafe fn load<V: Lanes>(row: *const u8, column: usize) -> V;
}

/// What becomes of rows.
pub(super) trait Pool {
    const WEIGHTED: bool;
    const SUM: bool;
    /// What a bag begins with.
    const FIRST: f32;
    /// For what is no sum: one of the two in each lane.
    unsafe fn pick<V: Lanes>(row: V, so_far: V) -> V;
}

/// An instruction set.
pub(super) trait Isa {
    /// [`bags`] compiled for it.
    ///
    /// # Safety
    /// The processor has the instruction set, and `job` is one as [`bags`] wants it.
    unsafe fn run<F: Rows, P: Pool, const DIM: usize>(job: &mut Job<'_>);

    /// [`Isa::run`] compiled for rows of `dim` numbers: some usual dimensions have a copy with all their registers planned.
    fn of_dim<F: Rows, P: Pool>(dim: usize) -> unsafe fn(&mut Job<'_>) {
        match dim {
            16 => Self::run::<F, P, 16>,
            32 => Self::run::<F, P, 32>,
            64 => Self::run::<F, P, 64>,
            128 => Self::run::<F, P, 128>,
            _ => Self::run::<F, P, 0>,
        }
    }
}

/// Reduces the bags of `job`; `DIM` is its dimension, or 0 for any.
///
/// # Safety
/// `job.rows` points to rows of `job.dim` numbers as `F` has them, every value in the window names one of them, `job.dim` is `DIM` unless that is 0,
/// and the processor has what `Wide` and `Narrow` need.
#[inline(always)]
pub(super) unsafe fn bags<Wide: Lanes, Narrow: Lanes, F: Rows, P: Pool, const DIM: usize>(job: &mut Job<'_>) {
    let dim = if DIM == 0 { job.dim } else { DIM };
    let one_block = [1, 2, 4, 8].iter().any(|blocks| dim == blocks * Wide::WIDTH);
    for bag in job.bags.clone() {
        let (begin, end) = (job.offsets[bag] as usize, job.offsets[bag + 1] as usize);
        let out = &mut job.out[bag * dim..][..dim];
        if begin == end {
            out.fill(0.0);
            continue;
        }
        let out = out.as_mut_ptr();
        let (mut at, last) = (begin.max(job.window.start), end.min(job.window.end));
        while at < last {
            let piece = at..if one_block { last } else { last.min(at + PIECE) };
            // SAFETY: the caller's word, and `out` has `dim` numbers.
            unsafe { columns::<Wide, Narrow, F, P>(job, dim, &piece, at == begin, out) };
            at = piece.end;
        }
        if job.mean && last == end {
            let count = (end - begin) as f32;
            job.out[bag * dim..][..dim].iter_mut().for_each(|sum| *sum /= count);
        }
    }
}

/// All columns of the rows of `piece`, block after block.
#[inline(always)]
unsafe fn columns<Wide: Lanes, Narrow: Lanes, F: Rows, P: Pool>(
    job: &Job<'_>,
    dim: usize,
    piece: &Range<usize>,
    fresh: bool,
    out: *mut f32,
) {
    let mut column = 0;
    macro_rules! take {
        ($lanes:ty, $count:literal) => {
            // SAFETY: the caller's word, and the columns from `column` on are at least as many as the block has.
            unsafe { block::<$lanes, F, P, $count>(job, dim, column, piece, fresh, out) };
            column += $count * <$lanes>::WIDTH;
        };
    }
    while dim - column >= 8 * Wide::WIDTH {
        take!(Wide, 8);
    }
    if dim - column >= 4 * Wide::WIDTH {
        take!(Wide, 4);
    }
    if dim - column >= 2 * Wide::WIDTH {
        take!(Wide, 2);
    }
    if dim - column >= Wide::WIDTH {
        take!(Wide, 1);
    }
    if dim - column >= Narrow::WIDTH {
        take!(Narrow, 1);
    }
    if dim - column >= 4 {
        take!(f32, 4);
    }
    while dim - column >= 1 {
        take!(f32, 1);
    }
}

/// `N` vectors from `column` on of the rows of `piece`, to `out` or, if `fresh`, instead of it.
#[inline(always)]
unsafe fn block<V: Lanes, F: Rows, P: Pool, const N: usize>(
    job: &Job<'_>,
    dim: usize,
    column: usize,
    piece: &Range<usize>,
    fresh: bool,
    out: *mut f32,
) {
    let stride = F::FORMAT.row_bytes(dim);
    // Rows are prefetched with their first block.
    let ahead = if column == 0 { job.ahead } else { job.values.len() };
    // SAFETY: of all below: rows lie whole in the table (invariant 1), a block's columns are below `dim`, and `out` has `dim` numbers.
    unsafe {
        let mut sums = [V::splat(P::FIRST); N];
        if !fresh {
            for (nth, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(out.add(column + nth * V::WIDTH));
            }
        }
        let mut biases = 0.0;
        for (at, &id) in piece.clone().zip(&job.values[piece.clone()]) {
            if let Some(&id) = job.values.get(at + ahead) {
                prefetch_row(job.rows.wrapping_add(id as usize * stride), stride);
            }
            let row = job.rows.add(id as usize * stride);
            let weight = if P::WEIGHTED { *job.weights.get_unchecked(at) } else { 1.0 };
            let (scale, bias) = if F::SCALED { scale_and_bias(row.add(stride - 8)) } else { (1.0, 0.0) };
            let factor = V::splat(if P::WEIGHTED { scale * weight } else { scale });
            for (nth, sum) in sums.iter_mut().enumerate() {
                let numbers = F::load::<V>(row, column + nth * V::WIDTH);
                *sum = match (P::SUM, F::SCALED) {
                    (true, false) if !P::WEIGHTED => sum.add(numbers),
                    (true, _) => numbers.mul_add(factor, *sum),
                    (false, false) => P::pick(numbers, *sum),
                    (false, true) => P::pick(numbers.mul_add(factor, V::splat(bias)), *sum),
                };
            }
            if P::SUM && F::SCALED {
                biases += if P::WEIGHTED { bias * weight } else { bias };
            }
        }
        for (nth, mut sum) in sums.into_iter().enumerate() {
            if P::SUM && F::SCALED {
                sum = sum.add(V::splat(biases));
            }
            sum.store(out.add(column + nth * V::WIDTH));
        }
    }
}

/// Prefetches the lines of a row into the second-level cache. Tables begin on a line, so rows of whole lines do too; any other may end on one line more.
#[inline(always)]
pub(super) fn prefetch_row(row: *const u8, len: usize) {
    for line in 0..len.div_ceil(LINE) {
        prefetch_far(row.wrapping_add(line * LINE));
    }
    if !len.is_multiple_of(LINE) {
        prefetch_far(row.wrapping_add(len.saturating_sub(1)));
    }
}

/// # Safety
/// `at` points to a row's last eight bytes.
#[inline(always)]
unsafe fn scale_and_bias(at: *const u8) -> (f32, f32) {
    // SAFETY: the caller's word.
    let tail = unsafe { at.cast::<[u8; 8]>().read() };
    let [a, b, c, d, e, f, g, h] = tail;
    (f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
}

macro_rules! rows {
    ($name:ident, $format:ident, $scaled:literal, |$row:ident, $column:ident| $load:expr) => {
        #[doc = concat!("Rows of [`RowFormat::", stringify!($format), "`].")]
        pub(super) struct $name;

        impl Rows for $name {
            const FORMAT: RowFormat = RowFormat::$format;
            const SCALED: bool = $scaled;

            #[inline(always)]
            unsafe fn load<V: Lanes>($row: *const u8, $column: usize) -> V {
                // SAFETY: the caller's word: the row has this column and the lanes behind it.
                unsafe { $load }
            }
        }
    };
}

rows!(F32, F32, false, |row, column| V::from_f32(row.add(column * 4)));
rows!(F16, F16, false, |row, column| V::from_f16(row.add(column * 2)));
rows!(Int8, Int8, true, |row, column| V::from_u8(row.add(column)));
rows!(Int4, Int4, true, |row, column| V::from_u4(row, column));

macro_rules! pool {
    ($name:ident, $weighted:literal, $sum:literal, $first:expr, |$row:ident, $so_far:ident| $pick:expr) => {
        pub(super) struct $name;

        impl Pool for $name {
            const WEIGHTED: bool = $weighted;
            const SUM: bool = $sum;
            const FIRST: f32 = $first;

            #[inline(always)]
            unsafe fn pick<V: Lanes>($row: V, $so_far: V) -> V {
                // SAFETY: the caller's word: the instruction set is there.
                unsafe { $pick }
            }
        }
    };
}

pool!(Plain, false, true, 0.0, |row, so_far| row.add(so_far));
pool!(Weighted, true, true, 0.0, |row, so_far| row.add(so_far));
pool!(Greatest, false, false, f32::NEG_INFINITY, |row, so_far| row.greater(so_far));
pool!(Least, false, false, f32::INFINITY, |row, so_far| row.lesser(so_far));
