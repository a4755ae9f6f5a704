//! Types that may come from memory a stranger writes: valid at any bit pattern, and copied out of it before use.

use std::mem::MaybeUninit;

/// A type that is valid at any bit pattern and owns nothing.
///
/// # Safety
/// Every pattern of `size_of::<Self>()` bytes is a valid value, padding aside; the type has no pointers, no interior
/// mutability and no `Drop`.
pub unsafe trait Plain: Copy + Send + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: integers and floats are valid at any bit pattern.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, ());

// SAFETY: an array is its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Copies a `T` out of memory that another process may be writing, so that what was checked is what is used.
///
/// An empty assembly block stands between the copy and its use: the compiler must take it to have changed the copy, and so can
/// never go back to the original. Reading word by word with volatile loads says the same, and cost 50 ns of a
/// round trip: the copy was then stored in small pieces and loaded in large ones, which no core forwards.
///
/// # Safety
/// `from` is aligned and readable for a `T`, and any bit pattern is a valid `T`.
#[inline(always)]
pub(crate) unsafe fn read_once<T>(from: *const T) -> T {
    let mut out = MaybeUninit::<T>::uninit();
    // SAFETY: both are valid for a T and do not overlap: `out` is ours.
    unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), 1) };
    #[cfg(not(miri))]
    // SAFETY: no instruction at all; the compiler takes memory, and `out` with it, to be changed.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) out.as_mut_ptr(), options(nostack, preserves_flags));
    }
    // SAFETY: every byte was written by the copy, and any pattern is valid by the caller's promise.
    unsafe { out.assume_init() }
}

/// Copies `N` bytes, reading each exactly once; the barrier is that of [`read_once`], since whoever reads `to` later must not be
/// made to read `from`.
///
/// # Safety
/// `from` is readable and `to` writable for `N` bytes; they do not overlap; `to` is ours alone.
#[inline(always)]
pub(crate) unsafe fn copy_block_once<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, N) };
    #[cfg(not(miri))]
    // SAFETY: no instruction at all; the compiler takes what `to` leads to to be changed.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) to, options(nostack, preserves_flags));
    }
}

/// Copies `len` bytes, reading each exactly once. Word by word where both ends allow, so 8 bytes a cycle; it also
/// stays clear of `rep movsb`, which drops to 2-3 GB/s on some processors at unlucky alignments.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; they do not overlap; `to` is ours alone.
#[inline(always)]
pub(crate) unsafe fn copy_once(from: *const u8, to: *mut u8, len: usize) {
    let lead = from.align_offset(8).min(len);
    let mut at = 0;
    while at < lead {
        // SAFETY: at < len.
        unsafe { to.add(at).write(from.add(at).read_volatile()) };
        at += 1;
    }
    while at + 8 <= len {
        // SAFETY: at + 8 <= len, and `from + at` is 8-aligned since `lead`.
        unsafe { to.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_volatile()) };
        at += 8;
    }
    while at < len {
        // SAFETY: at < len.
        unsafe { to.add(at).write(from.add(at).read_volatile()) };
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_exact_at_every_alignment_and_length() {
        let from: Vec<u8> = (0..200).collect();
        for start in 0..9 {
            for len in 0..100 {
                let mut to = vec![0xEE; len + 1];
                // SAFETY: start + len < 200 and `to` has len + 1 bytes.
                unsafe { copy_once(from.as_ptr().add(start), to.as_mut_ptr(), len) };
                assert_eq!(to[..len], from[start..start + len]);
                assert_eq!(to[len], 0xEE);
            }
        }
    }

    #[test]
    fn a_value_read_once_is_the_value() {
        let value = [0x0123_4567_89AB_CDEFu64, 7, 9];
        // SAFETY: a reference is aligned and readable.
        assert_eq!(unsafe { read_once(&value) }, value);
        // SAFETY: as above.
        assert_eq!(unsafe { read_once(&[1u8, 2, 3]) }, [1, 2, 3]);
    }
}
