//! The inner loops of MLPs and of the dot interaction, for the instructions that the machine has.
//!
//! One loop over blocks for all (`panels`); a block of `B` queries × `P` panels is written three times, for 512 bits, for 256 bits and portably
//! (what the first two are compared with in tests, and what other machines run). `B` and `P` are chosen so that all `B × P` sums stay in registers.
//!
//! Order of addition differs from the simple loop's, so results differ by rounding.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use crate::kernel::Kernel;

/// Outputs in a panel.
pub const PANEL: usize = 16;

/// A layer's weights in panels.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a> {
    /// `panels × inputs × PANEL`.
    pub(super) weights: &'a [f32],
    /// `panels × PANEL`.
    pub(super) bias: &'a [f32],
    /// How many inputs there are.
    pub(super) inputs: usize,
}

/// What a block works on: `B` queries and `P` panels that follow each other.
///
/// Invariants (asserted where one is made, in [`block_of`]): `x.len() == B × inputs`, `weights.len() == P × inputs × PANEL`, `bias.len() == P × PANEL`.
struct Block<'a> {
    weights: &'a [f32],
    bias: &'a [f32],
    inputs: usize,
    relu: bool,
    x: &'a [f32],
}

/// The sums of a block, query after query.
type Sums<const B: usize, const P: usize> = [[[f32; PANEL]; P]; B];

/// Applies `layer` to queries `x`, `inputs` each, into `y`; `y.len()` over the number of queries are the outputs, and must be those of the last panel.
/// `kernel` must be here.
pub(super) fn panels(kernel: Kernel, layer: &Panels<'_>, relu: bool, x: &[f32], y: &mut [f32]) {
    let queries = x.len() / layer.inputs;
    if queries == 0 {
        return;
    }
    let outputs = y.len() / queries;
    debug_assert_eq!(layer.bias.len(), outputs.next_multiple_of(PANEL));
    // 32 registers of 16 numbers; 16 registers of 8, of which a panel takes two.
    match kernel {
        Kernel::Avx512 => each::<8, 2, 4, 4>(kernel, layer, relu, x, y, queries, outputs),
        Kernel::Avx2 => each::<4, 1, 2, 2>(kernel, layer, relu, x, y, queries, outputs),
        Kernel::Portable => each::<2, 1, 2, 1>(kernel, layer, relu, x, y, queries, outputs),
    }
}

/// Blocks of `B` queries by `P` panels while there are so many queries, then `C` by `Q`, then one by four.
#[allow(clippy::too_many_arguments)]
fn each<const B: usize, const P: usize, const C: usize, const Q: usize>(
    kernel: Kernel,
    layer: &Panels<'_>,
    relu: bool,
    x: &[f32],
    y: &mut [f32],
    queries: usize,
    outputs: usize,
) {
    let mut query = 0;
    while query < queries {
        let x = &x[query * layer.inputs..];
        let y = &mut y[query * outputs..];
        query += match queries - query {
            left if left >= B => row::<B, P>(kernel, layer, relu, x, y, outputs),
            left if left >= C => row::<C, Q>(kernel, layer, relu, x, y, outputs),
            left if left >= 2 => row::<2, Q>(kernel, layer, relu, x, y, outputs),
            _ => row::<1, 4>(kernel, layer, relu, x, y, outputs),
        };
    }
}

/// `B` queries through all panels, `P` at a time and then one at a time; `B`.
fn row<const B: usize, const P: usize>(
    kernel: Kernel,
    layer: &Panels<'_>,
    relu: bool,
    x: &[f32],
    y: &mut [f32],
    outputs: usize,
) -> usize {
    let mut from = 0;
    while from < outputs {
        from += match outputs - from {
            left if left > (P - 1) * PANEL => {
                block_of::<B, P>(kernel, layer, relu, x, &mut y[from..], from, outputs)
            }
            left if P > 2 && left > PANEL => {
                block_of::<B, 2>(kernel, layer, relu, x, &mut y[from..], from, outputs)
            }
            _ => block_of::<B, 1>(kernel, layer, relu, x, &mut y[from..], from, outputs),
        };
    }
    B
}

/// One block, from output `from` on; how many outputs it covers at most.
fn block_of<const B: usize, const P: usize>(
    kernel: Kernel,
    layer: &Panels<'_>,
    relu: bool,
    x: &[f32],
    y: &mut [f32],
    from: usize,
    outputs: usize,
) -> usize {
    let block = Block {
        weights: &layer.weights[from * layer.inputs..][..P * PANEL * layer.inputs],
        bias: &layer.bias[from..][..P * PANEL],
        inputs: layer.inputs,
        relu,
        x: &x[..B * layer.inputs],
    };
    let mut sums: Sums<B, P> = [[[0.0; PANEL]; P]; B];
    match kernel {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's `kernel` is one of this machine, `Mlp::with_kernel` asserts it; and the block's slices were cut to the lengths of `Block`.
        Kernel::Avx512 => unsafe { avx512::block(&block, &mut sums) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kernel::Avx2 => unsafe { avx2::block(&block, &mut sums) },
        _ => portable::block(&block, &mut sums),
    }
    let len = (P * PANEL).min(outputs - from);
    for (query, sums) in sums.iter().enumerate() {
        y[query * outputs..][..len].copy_from_slice(&sums.as_flattened()[..len]);
    }
    P * PANEL
}

/// The dot product of vectors of one length. `kernel` must be here.
pub(super) fn dot(kernel: Kernel, a: &[f32], b: &[f32]) -> f32 {
    dots(kernel, a, [b])[0]
}

/// The dot products of `a` with `N` vectors, all of one length. `kernel` must be here.
///
/// # Panics
/// If lengths differ.
pub(crate) fn dots<const N: usize>(kernel: Kernel, a: &[f32], b: [&[f32]; N]) -> [f32; N] {
    assert!(b.iter().all(|b| b.len() == a.len()), "vectors of one length");
    match kernel {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's `kernel` is one of this machine, and lengths are equal.
        Kernel::Avx512 => unsafe { avx512::dots(a, b) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kernel::Avx2 => unsafe { avx2::dots(a, b) },
        _ => portable::dots(a, b),
    }
}
