//! Blocks and dot products in 256-bit registers: a panel's line is two.

use super::{Block, PANEL, Sums};
use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehl_ps, _mm_shuffle_ps, _mm256_add_ps,
    _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

/// # Safety
/// The machine has AVX2 and FMA; the block's slices have the lengths that [`Block`] says.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn block<const B: usize, const P: usize>(block: &Block<'_>, sums: &mut Sums<B, P>) {
    let (inputs, weights, x) = (block.inputs, block.weights.as_ptr(), block.x.as_ptr());
    let mut acc: [[[__m256; 2]; P]; B] = [[[_mm256_setzero_ps(); 2]; P]; B];
    for p in 0..P {
        // SAFETY: the bias has `P` panels of 16 numbers.
        let bias = unsafe {
            let bias = block.bias.as_ptr().add(p * PANEL);
            [_mm256_loadu_ps(bias), _mm256_loadu_ps(bias.add(8))]
        };
        acc.iter_mut().for_each(|acc| acc[p] = bias);
    }
    for k in 0..inputs {
        let mut line = [[_mm256_setzero_ps(); 2]; P];
        for (p, line) in line.iter_mut().enumerate() {
            // SAFETY: there are `P × inputs` lines of 16 numbers, and p < P, k < inputs.
            *line = unsafe {
                let line = weights.add((p * inputs + k) * PANEL);
                [_mm256_loadu_ps(line), _mm256_loadu_ps(line.add(8))]
            };
        }
        for (b, acc) in acc.iter_mut().enumerate() {
            // SAFETY: there are `B × inputs` numbers, and b < B, k < inputs.
            let x = _mm256_set1_ps(unsafe { *x.add(b * inputs + k) });
            for p in 0..P {
                acc[p][0] = _mm256_fmadd_ps(line[p][0], x, acc[p][0]);
                acc[p][1] = _mm256_fmadd_ps(line[p][1], x, acc[p][1]);
            }
        }
    }
    let zero = _mm256_setzero_ps();
    for (acc, sums) in acc.iter().zip(sums) {
        for (&acc, sums) in acc.iter().zip(sums) {
            for (half, &acc) in acc.iter().enumerate() {
                let sum = if block.relu { _mm256_max_ps(acc, zero) } else { acc };
                // SAFETY: a panel's sums are 16 numbers, and half < 2.
                unsafe { _mm256_storeu_ps(sums.as_mut_ptr().add(half * 8), sum) };
            }
        }
    }
}

/// # Safety
/// The machine has AVX2 and FMA; each of `b` is as long as `a`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn dots<const N: usize>(a: &[f32], b: [&[f32]; N]) -> [f32; N] {
    let mut even = [_mm256_setzero_ps(); N];
    let mut odd = even;
    let mut k = 0;
    while k + 16 <= a.len() {
        // SAFETY: 16 numbers from `k` on are inside of `a`, and so of each of `b`.
        let (x, y) = unsafe { (_mm256_loadu_ps(a.as_ptr().add(k)), _mm256_loadu_ps(a.as_ptr().add(k + 8))) };
        for n in 0..N {
            let b = b[n].as_ptr();
            // SAFETY: as above.
            let (u, v) = unsafe { (_mm256_loadu_ps(b.add(k)), _mm256_loadu_ps(b.add(k + 8))) };
            even[n] = _mm256_fmadd_ps(x, u, even[n]);
            odd[n] = _mm256_fmadd_ps(y, v, odd[n]);
        }
        k += 16;
    }
    std::array::from_fn(|n| {
        let rest: f32 = a[k..].iter().zip(&b[n][k..]).map(|(a, b)| a * b).sum();
        sum(_mm256_add_ps(even[n], odd[n])) + rest
    })
}

/// The eight numbers' sum.
#[target_feature(enable = "avx2,fma")]
fn sum(x: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}
