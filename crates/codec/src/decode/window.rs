//! Loads from the input that may run past its end.
//!
//! Why: a tag and a varint take one unaligned 8-byte load each if nobody asks where exactly the input ends. Near the end the
//! last eight bytes, kept in a register, are shifted instead; what lies behind the input reads as zeros. A field that runs
//! into the zeros is found out when the lane compares its position with the message's end.
//!
//! Rejected: a copy of the tail with zeros behind it, as upb has. Loads from bytes that were stored a moment before, across
//! the borders of those stores, wait for them to reach the cache: small messages are all tail, and took 3 to 6 ns longer.

pub(super) struct Window<'a> {
    input: &'a [u8],
    /// The last eight bytes, or all of them and zeros.
    tail: u64,
    /// Where they begin.
    tail_at: usize,
}

impl<'a> Window<'a> {
    #[inline(always)]
    pub(super) fn new(input: &'a [u8]) -> Window<'a> {
        let tail = match input.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last),
            None => input.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        Window { input, tail, tail_at: input.len().saturating_sub(8) }
    }

    /// Eight bytes from `at`.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> u64 {
        if at + 8 <= self.input.len() {
            // SAFETY: just compared.
            return unsafe { u64::from_le(self.input.as_ptr().add(at).cast::<u64>().read_unaligned()) };
        }
        let past = at - self.tail_at;
        if past < 8 { self.tail >> (8 * past) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_the_input_and_zeros_behind() {
        for len in 0..40_u8 {
            let input: Vec<u8> = (1..=len).collect();
            let mut padded = input.clone();
            padded.resize(80, 0);
            for at in 0..usize::from(len) + 20 {
                let expected = u64::from_le_bytes(padded[at..at + 8].try_into().expect("eight"));
                assert_eq!(Window::new(&input).word(at), expected, "at {at} of {len}");
            }
        }
    }
}
