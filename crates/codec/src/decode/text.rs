//! Is it UTF-8?
//!
//! Why not `str::from_utf8` alone: fields are short and mostly ASCII, where eight bytes at a time without a call win; the
//! rest goes to the SIMD validator.

const HIGH: u64 = 0x8080_8080_8080_8080;

/// True if `bytes` is valid UTF-8; `word` holds the first eight of them, and others behind if there are fewer.
#[inline(always)]
pub(super) fn is_utf8(bytes: &[u8], word: u64) -> bool {
    if bytes.len() <= 8 {
        let inside = HIGH.checked_shr(64 - 8 * bytes.len() as u32).unwrap_or(0);
        return word & inside == 0 || is_utf8_slow(bytes);
    }
    is_utf8_long(bytes)
}

#[inline]
fn is_utf8_long(bytes: &[u8]) -> bool {
    match bytes.len() {
        ..=16 => is_ascii::<8>(bytes) || is_utf8_slow(bytes),
        17..=32 => is_ascii::<16>(bytes) || is_utf8_slow(bytes),
        33..=64 => is_ascii::<32>(bytes) || is_utf8_slow(bytes),
        _ => simdutf8::basic::from_utf8(bytes).is_ok(),
    }
}

/// Whether bytes, `N` to 2 `N` of them, are all ASCII: the first `N` and the last `N`, which may be some of the same.
#[inline(always)]
fn is_ascii<const N: usize>(bytes: &[u8]) -> bool {
    let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else { return false };
    first.iter().zip(last).fold(0, |all, (a, b)| all | a | b) < 0x80
}

#[cold]
fn is_utf8_slow(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn is_utf8(bytes: &[u8]) -> bool {
        let mut first = [0xff; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        super::is_utf8(bytes, u64::from_le_bytes(first))
    }

    proptest! {
        #[test]
        fn as_the_standard_library_says(mut bytes in prop::collection::vec(0_u8..128, 0..100), at: usize, with: u8) {
            prop_assert!(is_utf8(&bytes));
            if !bytes.is_empty() {
                let at = at % bytes.len();
                bytes[at] = with;
            }
            prop_assert_eq!(is_utf8(&bytes), std::str::from_utf8(&bytes).is_ok());
        }

        #[test]
        fn text_of_all_kinds(text in ".{0,40}") {
            prop_assert!(is_utf8(text.as_bytes()));
        }
    }
}
