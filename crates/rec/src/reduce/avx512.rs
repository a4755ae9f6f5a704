//! 16 numbers in a `zmm` register: AVX-512 F, BW and VL; what is left of a row goes through AVX2's vectors.

use super::avx2::nibbles;
use super::shape::{Isa, Job, Lanes, Pool, Rows, bags};
use std::arch::x86_64::*;

/// AVX-512 F, BW and VL, and what AVX2's kernels need.
pub(super) struct Avx512;

impl Isa for Avx512 {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    unsafe fn run<F: Rows, P: Pool, const DIM: usize>(job: &mut Job<'_>) {
        // SAFETY: the caller's word.
        unsafe { bags::<__m512, __m256, F, P, DIM>(job) }
    }
}

// SAFETY: of every intrinsic below: the caller's word is that the instructions are there and that pointers are good for as many numbers as the
// vector has; all loads and stores are unaligned ones.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Lanes for __m512 {
    const WIDTH: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        unsafe { _mm512_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        unsafe { _mm512_storeu_ps(at, self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, by: Self, plus: Self) -> Self {
        unsafe { _mm512_fmadd_ps(self, by, plus) }
    }
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        unsafe { _mm512_max_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        unsafe { _mm512_min_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn from_f32(at: *const u8) -> Self {
        unsafe { _mm512_loadu_ps(at.cast()) }
    }
    #[inline(always)]
    unsafe fn from_f16(at: *const u8) -> Self {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }
    #[inline(always)]
    unsafe fn from_u8(at: *const u8) -> Self {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast()))) }
    }
    #[inline(always)]
    unsafe fn from_u4(row: *const u8, column: usize) -> Self {
        unsafe {
            let pairs = _mm_loadl_epi64(row.add(column / 2).cast());
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(nibbles(pairs)))
        }
    }
}
