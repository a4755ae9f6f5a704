//! The reduction as a handler of the engine runs it: some rows touched, a yield, then their arithmetic, so that other requests compute while
//! this one's rows come. The arithmetic is [`super::reduce()`]'s.

use super::{Pooling, Reduction};
use crate::bags::{Bags, BagsError};
use crate::kernel::Kernel;
use crate::table::Table;
use base::touch::yield_once;

/// How many rows a request has in flight at most.
pub const TOUCHES: usize = 64;

/// [`super::reduce()`] that yields once for every [`TOUCHES`] values, after it has prefetched their rows.
///
/// # Errors
/// An id that is no row of the table; `out` is then as it was.
///
/// # Panics
/// If `out` has another length than `bags.len() × dim`.
pub async fn reduce_touching(
    table: &Table,
    bags: &Bags<'_>,
    pooling: Pooling,
    out: &mut [f32],
) -> Result<(), BagsError> {
    let reduction = Reduction::new(Kernel::best(), table, bags, pooling, out)?;
    let (values, offsets) = (bags.values(), bags.offsets());
    let mut first = 0;
    let mut start = 0;
    loop {
        let end = values.len().min(start + TOUCHES);
        if start < end {
            reduction.prefetch(&values[start..end]);
            yield_once().await;
        }
        // Bags that begin before the window's end; behind the last value that is all that are left, empty ones too.
        let behind = if end == values.len() {
            bags.len()
        } else {
            first + offsets[first..bags.len()].partition_point(|&begin| (begin as usize) < end)
        };
        reduction.run(first..behind, start..end, values.len(), out);
        if end == values.len() {
            return Ok(());
        }
        // The last of them goes on if it does not end here.
        first = if offsets[behind] as usize > end { behind - 1 } else { behind };
        start = end;
    }
}
