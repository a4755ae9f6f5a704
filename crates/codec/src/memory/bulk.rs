//! Copies of fields, the large ones above all.
//!
//! Why not only `memcpy`: glibc's is `rep movsb` from a few KiB on, which is slow where the target lies up to 63 bytes behind the source modulo
//! 4096 (each load then waits for a store that only looks like its own): on some processors 2 to 3 GB/s instead of 50 to 90. Arenas
//! and buffers begin at pages, so that is no rare chance. The loops here are as fast for every pair of addresses. They are also faster up to
//! 16 KiB; elsewhere `memcpy` is as fast as anything.
//!
//! Cost: `docs/measurements/codec.md`; in the first cache 3 KiB at 85 to 180 GB/s, 8 to 14 KiB at 190 to 260 with AVX-512, where `memcpy` does
//! 90 to 165.
//! Sources: the same look at addresses is in glibc's own `memmove-vec-unaligned-erms.S`, for its loops only.

/// Copies `len` bytes; without a call when there are few: two loads of a fixed size that overlap in the middle.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; each way is taken for lengths that it can do.
    unsafe {
        match len {
            65.. => many(from, to, len),
            33..=64 => both_ends::<[u128; 2]>(from, to, len),
            16..=32 => both_ends::<u128>(from, to, len),
            8..16 => both_ends::<u64>(from, to, len),
            4..8 => both_ends::<u32>(from, to, len),
            2..4 => both_ends::<u16>(from, to, len),
            1 => to.write(from.read()),
            0 => {}
        }
    }
}

/// # Safety
/// As [`copy`], with `len` at least the size of `T`.
#[inline(always)]
unsafe fn both_ends<T: Copy>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: both loads and both stores lie within len bytes.
    unsafe {
        let (low, high) =
            (from.cast::<T>().read_unaligned(), from.wrapping_add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(low);
        to.wrapping_add(last).cast::<T>().write_unaligned(high);
    }
}

/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn many(from: *const u8, to: *mut u8, len: usize) {
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
        __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_store_si128, _mm256_loadu_si256, _mm256_store_si256,
        _mm512_loadu_si512, _mm512_store_si512,
    };

    /// Below this `memcpy` has loops of its own, and they are better.
    pub const LEAST: usize = 2048;
    /// Above this source and target are not both in the first cache, and `memcpy` is as fast as anything.
    const FIRST_CACHE: usize = 16 << 10;
    /// From here on a loop of 64 bytes is faster; below, one of 32, if the source comes from memory, and as fast if it does not.
    const WIDE: usize = 8 << 10;
    /// Bytes of a turn of the loops, to which the target is aligned.
    const BLOCK: usize = 64;

    /// # Safety
    /// As the function outside, and `len` is at least [`LEAST`].
    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let behind = to.addr().wrapping_sub(from.addr()) % 4096;
        let unlucky = (1..64).contains(&behind);
        // SAFETY: the caller's promise; the processor has what it is asked for.
        unsafe {
            if len > FIRST_CACHE && !unlucky {
                to.copy_from_nonoverlapping(from, len);
            } else if len >= WIDE && has_fast_avx512() {
                by_64(from, to, len);
            } else if std::arch::is_x86_feature_detected!("avx2") {
                by_32(from, to, len);
            } else if unlucky {
                by_16(from, to, len);
            } else {
                to.copy_from_nonoverlapping(from, len);
            }
        }
    }

    /// True where 64 bytes at once do not slow the processor down: the second set of instructions for bytes came after those that did.
    #[inline]
    fn has_fast_avx512() -> bool {
        std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vbmi2")
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
    /// As [`copy`], and the processor has AVX-512.
    #[target_feature(enable = "avx512f")]
    unsafe fn by_64(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: each block lies within `len` bytes, and the target's is aligned.
        unsafe {
            let mut at = ends(from, to, len);
            while at + 4 * BLOCK <= len {
                let (source, target) = (from.add(at).cast::<__m512i>(), to.add(at).cast::<__m512i>());
                let block = [
                    _mm512_loadu_si512(source),
                    _mm512_loadu_si512(source.add(1)),
                    _mm512_loadu_si512(source.add(2)),
                    _mm512_loadu_si512(source.add(3)),
                ];
                _mm512_store_si512(target, block[0]);
                _mm512_store_si512(target.add(1), block[1]);
                _mm512_store_si512(target.add(2), block[2]);
                _mm512_store_si512(target.add(3), block[3]);
                at += 4 * BLOCK;
            }
            while at + BLOCK <= len {
                _mm512_store_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
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
            let mut ways: Vec<unsafe fn(*const u8, *mut u8, usize)> = vec![copy, by_16];
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has it.
                ways.push(|from, to, len| unsafe { by_32(from, to, len) });
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has it.
                ways.push(|from, to, len| unsafe { by_64(from, to, len) });
            }
            for way in ways {
                for (from, to) in
                    (0..66).flat_map(|offset| [(offset, 3), (5, offset), (offset, 64 - offset % 64)])
                {
                    for len in
                        [LEAST, LEAST + 1, LEAST + 63, 4095, 4096, WIDE, 10_007, FIRST_CACHE, FIRST_CACHE + 1]
                    {
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
