//! A key and its hash, computed once where the key enters the house.

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
