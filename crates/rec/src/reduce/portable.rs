//! Vectors in plain Rust: 8 numbers in an array, which compilers put into whatever registers there are, and a single number for what is left of a row.
//!
//! This is what runs where there is no AVX2, and what Miri runs. It reads rows as little endian on any machine.

use super::shape::{Isa, Job, Lanes, Pool, Rows, bags};

/// No instruction set in particular.
pub(super) struct Portable;

impl Isa for Portable {
    unsafe fn run<F: Rows, P: Pool, const DIM: usize>(job: &mut Job<'_>) {
        // SAFETY: guaranteed by the caller; any processor has these vectors.
        unsafe { bags::<[f32; 8], [f32; 8], F, P, DIM>(job) }
    }

    // One copy for all dimensions: without registers to plan for there is nothing to gain from more, and five were 620 kB.
    fn of_dim<F: Rows, P: Pool>(_: usize) -> unsafe fn(&mut Job<'_>) {
        Self::run::<F, P, 0>
    }
}

impl Lanes for f32 {
    const WIDTH: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> f32 {
        // SAFETY: the caller's word.
        unsafe { at.read() }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's word.
        unsafe { at.write(self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: f32) -> f32 {
        self + other
    }
    // Not `f32::mul_add`, which is a function call where there is no such instruction.
    #[inline(always)]
    unsafe fn mul_add(self, by: f32, plus: f32) -> f32 {
        self * by + plus
    }
    #[inline(always)]
    unsafe fn greater(self, other: f32) -> f32 {
        if self > other { self } else { other }
    }
    #[inline(always)]
    unsafe fn lesser(self, other: f32) -> f32 {
        if self < other { self } else { other }
    }
    #[inline(always)]
    unsafe fn from_f32(at: *const u8) -> f32 {
        // SAFETY: the caller's word.
        f32::from_le_bytes(unsafe { at.cast::<[u8; 4]>().read() })
    }
    #[inline(always)]
    unsafe fn from_f16(at: *const u8) -> f32 {
        // SAFETY: the caller's word.
        half::f16::from_le_bytes(unsafe { at.cast::<[u8; 2]>().read() }).to_f32()
    }
    #[inline(always)]
    unsafe fn from_u8(at: *const u8) -> f32 {
        // SAFETY: the caller's word.
        f32::from(unsafe { at.read() })
    }
    #[inline(always)]
    unsafe fn from_u4(row: *const u8, column: usize) -> f32 {
        // SAFETY: the caller's word.
        let pair = unsafe { row.add(column / 2).read() };
        f32::from(pair >> (column % 2 * 4) & 15)
    }
}

/// Lane by lane what the single number does.
macro_rules! lane_by_lane {
    (|$nth:ident| $lane:expr) => {
        // SAFETY: the caller's word for all lanes is its word for each.
        std::array::from_fn(|$nth| unsafe { $lane })
    };
}

impl<const WIDTH: usize> Lanes for [f32; WIDTH] {
    const WIDTH: usize = WIDTH;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; WIDTH]
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        lane_by_lane!(|nth| f32::load(at.add(nth)))
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's word.
        unsafe { at.cast::<Self>().write(self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        lane_by_lane!(|nth| Lanes::add(self[nth], other[nth]))
    }
    #[inline(always)]
    unsafe fn mul_add(self, by: Self, plus: Self) -> Self {
        lane_by_lane!(|nth| Lanes::mul_add(self[nth], by[nth], plus[nth]))
    }
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        lane_by_lane!(|nth| self[nth].greater(other[nth]))
    }
    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        lane_by_lane!(|nth| self[nth].lesser(other[nth]))
    }
    #[inline(always)]
    unsafe fn from_f32(at: *const u8) -> Self {
        lane_by_lane!(|nth| f32::from_f32(at.add(nth * 4)))
    }
    #[inline(always)]
    unsafe fn from_f16(at: *const u8) -> Self {
        lane_by_lane!(|nth| f32::from_f16(at.add(nth * 2)))
    }
    #[inline(always)]
    unsafe fn from_u8(at: *const u8) -> Self {
        lane_by_lane!(|nth| f32::from_u8(at.add(nth)))
    }
    #[inline(always)]
    unsafe fn from_u4(row: *const u8, column: usize) -> Self {
        lane_by_lane!(|nth| f32::from_u4(row, column + nth))
    }
}
