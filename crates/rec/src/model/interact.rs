//! How the bottom's output and the reduced rows meet.
//!
//! Dot products are taken four at a time with one vector against four, which hides most of adding up a register. With 26 tables of 64 numbers a query has 351
//! pairs; that is a small part of the top MLP behind it.

use super::Interaction;
use crate::kernel::Kernel;
use crate::mlp::kernel::dots;

/// Of what comes in.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Numbers in a vector.
    pub(super) dim: usize,
    /// Queries.
    pub(super) len: usize,
    /// Tables.
    pub(super) tables: usize,
}

/// Inputs of the top MLP into `out`: for each query the bottom's output, then products or the other vectors.
///
/// `bottom` is `len × dim`, `reduced` is `tables × len × dim`.
pub(super) fn interact(
    kernel: Kernel,
    how: Interaction,
    shape: Shape,
    bottom: &[f32],
    reduced: &[f32],
    out: &mut Vec<f32>,
) {
    let Shape { dim, len, tables } = shape;
    out.clear();
    for query in 0..len {
        let vector = |at: usize| match at {
            0 => &bottom[query * dim..][..dim],
            at => &reduced[((at - 1) * len + query) * dim..][..dim],
        };
        out.extend_from_slice(vector(0));
        match how {
            Interaction::Concat => (1..=tables).for_each(|at| out.extend_from_slice(vector(at))),
            Interaction::Dot => {
                for i in 1..=tables {
                    let a = vector(i);
                    let mut j = 0;
                    while j + 4 <= i {
                        out.extend_from_slice(&dots(
                            kernel,
                            a,
                            std::array::from_fn::<_, 4, _>(|n| vector(j + n)),
                        ));
                        j += 4;
                    }
                    (j..i).for_each(|j| out.push(dots(kernel, a, [vector(j)])[0]));
                }
            }
        }
    }
}
