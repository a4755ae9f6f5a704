//! Blocks and dot products in 512-bit registers: a panel's line is one.

use super::{Block, PANEL, Sums};
use std::arch::x86_64::{
    __m512, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_reduce_add_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

/// # Safety
/// The machine has AVX-512F; the block's slices have the lengths that [`Block`] says.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn block<const B: usize, const P: usize>(block: &Block<'_>, sums: &mut Sums<B, P>) {
    let (inputs, weights, x) = (block.inputs, block.weights.as_ptr(), block.x.as_ptr());
    let mut acc: [[__m512; P]; B] = [[_mm512_setzero_ps(); P]; B];
    for p in 0..P {
        // SAFETY: the bias has `P` panels.
        let bias = unsafe { _mm512_loadu_ps(block.bias.as_ptr().add(p * PANEL)) };
        acc.iter_mut().for_each(|acc| acc[p] = bias);
    }
    for k in 0..inputs {
        let mut line = [_mm512_setzero_ps(); P];
        for (p, line) in line.iter_mut().enumerate() {
            // SAFETY: there are `P × inputs` lines, and p < P, k < inputs.
            *line = unsafe { _mm512_loadu_ps(weights.add((p * inputs + k) * PANEL)) };
        }
        for (b, acc) in acc.iter_mut().enumerate() {
            // SAFETY: there are `B × inputs` numbers, and b < B, k < inputs.
            let x = _mm512_set1_ps(unsafe { *x.add(b * inputs + k) });
            for p in 0..P {
                acc[p] = _mm512_fmadd_ps(line[p], x, acc[p]);
            }
        }
    }
    let zero = _mm512_setzero_ps();
    for (acc, sums) in acc.iter().zip(sums) {
        for (&acc, sums) in acc.iter().zip(sums) {
            let sum = if block.relu { _mm512_max_ps(acc, zero) } else { acc };
            // SAFETY: a panel's sums are 16 numbers.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
        }
    }
}

/// # Safety
/// The machine has AVX-512F; each of `b` is as long as `a`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn dots<const N: usize>(a: &[f32], b: [&[f32]; N]) -> [f32; N] {
    // Two sums each, so that a single product does not wait for every addition.
    let mut even = [_mm512_setzero_ps(); N];
    let mut odd = even;
    let mut k = 0;
    while k + 32 <= a.len() {
        // SAFETY: 32 numbers from `k` on are inside of `a`, and so of each of `b`.
        let (x, y) = unsafe { (_mm512_loadu_ps(a.as_ptr().add(k)), _mm512_loadu_ps(a.as_ptr().add(k + 16))) };
        for n in 0..N {
            let b = b[n].as_ptr();
            // SAFETY: as above.
            let (u, v) = unsafe { (_mm512_loadu_ps(b.add(k)), _mm512_loadu_ps(b.add(k + 16))) };
            even[n] = _mm512_fmadd_ps(x, u, even[n]);
            odd[n] = _mm512_fmadd_ps(y, v, odd[n]);
        }
        k += 32;
    }
    while k < a.len() {
        let left = (a.len() - k).min(16);
        let mask = (0xffff_u32 >> (16 - left)) as u16;
        // SAFETY: the mask covers what is left from `k` on and at most 16; what it does not cover is not read.
        let x = unsafe { _mm512_maskz_loadu_ps(mask, a.as_ptr().add(k)) };
        for n in 0..N {
            // SAFETY: as above.
            let u = unsafe { _mm512_maskz_loadu_ps(mask, b[n].as_ptr().add(k)) };
            even[n] = _mm512_fmadd_ps(x, u, even[n]);
        }
        k += left;
    }
    let one = _mm512_set1_ps(1.0);
    std::array::from_fn(|n| _mm512_reduce_add_ps(_mm512_fmadd_ps(odd[n], one, even[n])))
}
