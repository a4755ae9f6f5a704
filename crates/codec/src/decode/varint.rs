//! Varints out of an 8-byte load, without a loop.
//!
//! Cost: one byte is a compare; two to eight bytes are found with one bit scan and closed up in three steps, whatever the
//! length, so that mixed lengths cost no mispredicted branch.

const STOP: u64 = 0x8080_8080_8080_8080;

/// The value and length of a varint whose first bytes are `word` (little-endian), `None` if it is longer than eight.
#[inline(always)]
pub(super) fn short(word: u64) -> Option<(u64, usize)> {
    if word & 0x80 == 0 {
        return Some((word & 0x7f, 1));
    }
    let stops = !word & STOP;
    if stops == 0 {
        return None;
    }
    // Keep the bytes up to the first without a continuation bit.
    let kept = word & (stops ^ (stops - 1));
    let bits = kept & 0x7f7f_7f7f_7f7f_7f7f;
    let bits = (bits & 0x007f_007f_007f_007f) | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = (bits & 0x0000_3fff_0000_3fff) | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = (bits & 0x0000_0000_0fff_ffff) | (bits & 0x0fff_ffff_0000_0000) >> 4;
    Some((bits, stops.trailing_zeros() as usize / 8 + 1))
}

/// The value and length of a varint of nine or ten bytes: the first eight are `word`, the next two `rest`. `None` if
/// longer. Bits beyond the 64th are dropped, as every implementation does.
#[inline]
pub(super) fn long(word: u64, rest: u16) -> Option<(u64, usize)> {
    let low = short(word & !(0x80 << 56)).expect("the eighth byte ends it now").0;
    let ninth = u64::from(rest & 0x7f);
    if rest & 0x80 == 0 {
        return Some((low | ninth << 56, 9));
    }
    let tenth = u64::from(rest >> 8);
    if tenth & 0x80 != 0 {
        return None;
    }
    Some((low | ninth << 56 | tenth << 63, 10))
}

/// Undoes zigzag.
#[inline(always)]
pub(super) fn zigzag32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

/// Undoes zigzag.
#[inline(always)]
pub(super) fn zigzag64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(mut value: u64, pad: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        while out.len() < pad {
            *out.last_mut().expect("one byte at least") |= 0x80;
            out.push(0);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
        let mut window = [0xff_u8; 16];
        window[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(window[..8].try_into().expect("eight"));
        short(word).or_else(|| long(word, u16::from_le_bytes([window[8], window[9]])))
    }

    proptest! {
        #[test]
        fn every_value_at_every_length(value: u64, shift in 0_u32..64, pad in 1_usize..=10) {
            let value = value >> shift;
            let bytes = encode(value, pad);
            prop_assert_eq!(decode(&bytes), Some((value, bytes.len())));
        }
    }

    #[test]
    fn eleven_bytes_are_refused_and_the_65th_bit_is_dropped() {
        assert_eq!(decode(&[0xff; 10]), None);
        assert_eq!(
            decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            Some((u64::MAX, 10))
        );
    }

    #[test]
    fn zigzag() {
        assert_eq!([0, 1, 2, 3, u32::MAX].map(zigzag32), [0, -1, 1, -2, i32::MIN]);
        assert_eq!([0, 1, 2, 3, u64::MAX].map(zigzag64), [0, -1, 1, -2, i64::MIN]);
    }
}
