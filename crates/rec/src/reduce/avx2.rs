//! 8 numbers in a `ymm` register: AVX2, with FMA and F16C, which every processor with AVX2 but a few VIA ones has.

use super::shape::{Isa, Job, Lanes, Pool, Rows, bags};
use std::arch::x86_64::*;

/// AVX2, FMA and F16C.
pub(super) struct Avx2;

impl Isa for Avx2 {
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run<F: Rows, P: Pool, const DIM: usize>(job: &mut Job<'_>) {
        // SAFETY: the caller's word.
        unsafe { bags::<__m256, __m256, F, P, DIM>(job) }
    }
}

// SAFETY: of every intrinsic below: the caller's word is that the instructions are there and that pointers are good for as many numbers as the
// vector has; all loads and stores are unaligned ones.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Lanes for __m256 {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        unsafe { _mm256_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        unsafe { _mm256_storeu_ps(at, self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm256_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, by: Self, plus: Self) -> Self {
        unsafe { _mm256_fmadd_ps(self, by, plus) }
    }
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        unsafe { _mm256_max_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        unsafe { _mm256_min_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn from_f32(at: *const u8) -> Self {
        unsafe { _mm256_loadu_ps(at.cast()) }
    }
    #[inline(always)]
    unsafe fn from_f16(at: *const u8) -> Self {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }
    #[inline(always)]
    unsafe fn from_u8(at: *const u8) -> Self {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast()))) }
    }
    #[inline(always)]
    unsafe fn from_u4(row: *const u8, column: usize) -> Self {
        unsafe {
            let pairs = _mm_cvtsi32_si128(row.add(column / 2).cast::<i32>().read_unaligned());
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(nibbles(pairs)))
        }
    }
}

/// The 16 nibbles of the first 8 bytes of `pairs`, each a byte, low ones first.
///
/// # Safety
/// The processor has SSE2.
#[inline(always)]
pub(super) unsafe fn nibbles(pairs: __m128i) -> __m128i {
    // SAFETY: the caller's word.
    unsafe {
        let mask = _mm_set1_epi8(15);
        let (low, high) = (_mm_and_si128(pairs, mask), _mm_and_si128(_mm_srli_epi16::<4>(pairs), mask));
        _mm_unpacklo_epi8(low, high)
    }
}
