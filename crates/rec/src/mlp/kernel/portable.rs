//! Blocks and dot products in plain loops over arrays, which compilers turn into vector instructions where they may.

use super::{Block, PANEL, Sums};

pub(super) fn block<const B: usize, const P: usize>(block: &Block<'_>, sums: &mut Sums<B, P>) {
    for (p, panel) in block.weights.chunks_exact(block.inputs * PANEL).enumerate() {
        // A local array, so that it may live in registers.
        let mut acc: [[f32; PANEL]; B] = [block.bias[p * PANEL..][..PANEL].try_into().expect("a panel"); B];
        for (k, line) in panel.as_chunks::<PANEL>().0.iter().enumerate() {
            for (b, acc) in acc.iter_mut().enumerate() {
                let x = block.x[b * block.inputs + k];
                (0..PANEL).for_each(|i| acc[i] += line[i] * x);
            }
        }
        sums.iter_mut().zip(acc).for_each(|(query, acc)| query[p] = acc);
    }
    if block.relu {
        sums.as_flattened_mut().as_flattened_mut().iter_mut().for_each(|sum| *sum = sum.max(0.0));
    }
}

pub(super) fn dots<const N: usize>(a: &[f32], b: [&[f32]; N]) -> [f32; N] {
    b.map(|b| {
        // Eight sums: one chain of additions would wait for each.
        let (a, a_rest) = a.as_chunks::<8>();
        let (b, b_rest) = b.as_chunks::<8>();
        let mut sums = [0.0f32; 8];
        for (a, b) in a.iter().zip(b) {
            sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
        }
        sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
    })
}
