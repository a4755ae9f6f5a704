//! Copies of large fields.
//!
//! Why not only `memcpy`: from 2 KiB on glibc's is `rep movsb`, which some processors do at 2 to 3 GB/s where the target lies up to
//! 63 bytes behind the source modulo 4096 (each load then waits for a store that only looks like its own), and at 50 to 90 elsewhere.
//! Arenas and buffers begin at pages, so that is no rare chance. The loop here is as fast for every pair of addresses.
//!
//! Cost: `docs/measurements/codec.md`; 2 to 64 KiB in a cache at 80 to 95 GB/s with AVX2, 50 without; more is as fast as memory.
//! Sources: the same look at addresses is in glibc's own `memmove-vec-unaligned-erms.S`, for its loops only.

/// Copies `len` bytes.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= vectors::LEAST {
        // SAFETY: the caller's promise, and as long as it must be.
        return unsafe { vectors::copy(from, to, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, len) };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_store_si128, _mm256_loadu_si256, _mm256_store_si256,
    };

    /// Below this `memcpy` has loops of its own, and they are better.
    pub const LEAST: usize = 2048;
    /// Above this all is as fast as memory, and `memcpy` knows how to keep caches clean.
    const MOST: usize = 64 << 10;
    /// Bytes of a turn of the loops, to which the target is aligned.
    const BLOCK: usize = 64;

    /// # Safety
    /// As the function outside, and `len` is at least [`LEAST`].
    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let behind = to.addr().wrapping_sub(from.addr()) % 4096;
        let unlucky = (1..64).contains(&behind);
        let avx2 = std::arch::is_x86_feature_detected!("avx2");
        // SAFETY: the caller's promise; the processor has what it is asked for.
        unsafe {
            match (unlucky || len <= MOST, avx2) {
                (true, true) => by_32(from, to, len),
                (true, false) if unlucky => by_16(from, to, len),
                _ => to.copy_from_nonoverlapping(from, len),
            }
        }
    }

    /// Copies a block at both ends, which the target's blocks need not begin or end with; where these begin.
    ///
    /// # Safety
    /// As [`copy`].
    #[inline(always)]
    unsafe fn ends(from: *const u8, to: *mut u8, len: usize) -> usize {
        // SAFETY: there are more bytes than two blocks.
        unsafe {
            to.copy_from_nonoverlapping(from, BLOCK);
            to.add(len - BLOCK).copy_from_nonoverlapping(from.add(len - BLOCK), BLOCK);
        }
        BLOCK - to.addr() % BLOCK
    }

    /// # Safety
    /// As [`copy`].
    unsafe fn by_16(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: each block lies within `len` bytes, and the target's is aligned.
        unsafe {
            let mut at = ends(from, to, len);
            while at + BLOCK <= len {
                let (source, target) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
                let block = [
                    _mm_loadu_si128(source),
                    _mm_loadu_si128(source.add(1)),
                    _mm_loadu_si128(source.add(2)),
                    _mm_loadu_si128(source.add(3)),
                ];
                _mm_store_si128(target, block[0]);
                _mm_store_si128(target.add(1), block[1]);
                _mm_store_si128(target.add(2), block[2]);
                _mm_store_si128(target.add(3), block[3]);
                at += BLOCK;
            }
        }
    }

    /// # Safety
    /// As [`copy`], and the processor has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn by_32(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: each block lies within `len` bytes, and the target's is aligned.
        unsafe {
            let mut at = ends(from, to, len);
            while at + BLOCK <= len {
                let (source, target) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
                let block = [_mm256_loadu_si256(source), _mm256_loadu_si256(source.add(1))];
                _mm256_store_si256(target, block[0]);
                _mm256_store_si256(target.add(1), block[1]);
                at += BLOCK;
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_alignment_and_length_and_nothing_beside_it() {
            let source: Vec<u8> = (0..80_000_u32).map(|index| ((index * 31) >> 3) as u8).collect();
            let mut target = vec![0; 80_000];
            let ways: [unsafe fn(*const u8, *mut u8, usize); 2] = [copy, by_16];
            for way in ways {
                for (from, to) in
                    (0..66).flat_map(|offset| [(offset, 3), (5, offset), (offset, 64 - offset % 64)])
                {
                    for len in [LEAST, LEAST + 1, LEAST + 63, 4095, 4096, 10_007, MOST, MOST + 1] {
                        target.fill(0xee);
                        // SAFETY: both are long enough, and apart.
                        unsafe { way(source[from..].as_ptr(), target[to..].as_mut_ptr(), len) };
                        assert!(target[to..to + len] == source[from..from + len], "{from} {to} {len}");
                        let beside = target[..to].iter().chain(&target[to + len..to + len + 128]);
                        assert!(beside.into_iter().all(|&byte| byte == 0xee), "{from} {to} {len}");
                    }
                }
            }
        }
    }
}
