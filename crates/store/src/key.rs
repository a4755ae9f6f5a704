//! A key and its hash, computed once where the key enters the house; and how keys are compared.

use base::hash::Hasher64;

/// The longest key.
pub const MAX_KEY: usize = 250;

/// 1 to 250 bytes of any value, with their hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> Key<'k> {
    /// The key of `bytes`, or `None` where they are too few or too many. `hasher` must be that of the store
    /// ([`Store::hasher`](crate::Store::hasher)): with another one the store would not find the key again.
    #[inline]
    pub fn new(bytes: &'k [u8], hasher: &Hasher64) -> Option<Key<'k>> {
        (!bytes.is_empty() && bytes.len() <= MAX_KEY).then(|| Key { bytes, hash: hasher.hash(bytes) })
    }

    /// The key of `bytes` whose hash was computed where it entered the house.
    ///
    /// # Panics
    /// When `bytes` are not 1 to 250.
    #[inline]
    pub fn with_hash(bytes: &'k [u8], hash: u64) -> Key<'k> {
        assert!(!bytes.is_empty() && bytes.len() <= MAX_KEY, "a key of {} bytes", bytes.len());
        Key { bytes, hash }
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// The hash.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Whether two keys are equal. Word by word: a call to the C library costs more than most keys' comparison.
#[inline(always)]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    if len < 8 {
        return a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0;
    }
    let word = |bytes: &[u8], at: usize| match bytes[at..].first_chunk() {
        Some(word) => u64::from_ne_bytes(*word),
        None => 0,
    };
    let mut at = 0;
    while at + 8 < len {
        if word(a, at) != word(b, at) {
            return false;
        }
        at += 8;
    }
    // The last word overlaps the one before.
    word(a, len - 8) == word(b, len - 8)
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn keys_differ_wherever_they_differ() {
        for len in 1..=40 {
            let a: Vec<u8> = (0..len).collect();
            assert!(same(&a, &a));
            assert!(!same(&a, &a[1..]));
            for at in 0..a.len() {
                let mut b = a.clone();
                b[at] ^= 0x80;
                assert!(!same(&a, &b), "length {len}, byte {at}");
            }
        }
    }
}
