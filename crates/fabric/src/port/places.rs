//! Which of a core's ports must be looked at: a bit for each place, so that a turn costs nothing for ports that nothing tells of.
//!
//! Invariants:
//! 1. Place `p` is bit `p mod 64` of word `p / 64`: a bit of the summary lists its place in every word.
//! 2. A bit of a place without a port is of no meaning.

const BITS: usize = u64::BITS as usize;

/// Two sets of places.
#[derive(Default)]
pub(super) struct Places {
    /// To be looked at whatever the level is.
    listed: Vec<u64>,
    /// To be looked at while the core is busy.
    by_entries: Vec<u64>,
}

impl Places {
    /// Room for so many places.
    pub(super) fn reserve(&mut self, count: usize) {
        self.listed.resize(count.div_ceil(BITS), 0);
        self.by_entries.resize(count.div_ceil(BITS), 0);
    }

    pub(super) fn list_all(&mut self) {
        self.listed.fill(u64::MAX);
    }

    /// Lists the places of the summary's bits.
    #[inline]
    pub(super) fn list_bits(&mut self, bits: u64) {
        if bits != 0 {
            self.listed.iter_mut().for_each(|word| *word |= bits);
        }
    }

    #[inline]
    pub(super) fn list(&mut self, place: usize) {
        self.set(place, true, None);
    }

    /// What a look found: whether there may be more, and whether the port tells by its entries.
    #[inline]
    pub(super) fn looked(&mut self, place: usize, more: bool, by_entries: bool) {
        self.set(place, more, Some(by_entries));
    }

    #[inline]
    fn set(&mut self, place: usize, listed: bool, by_entries: Option<bool>) {
        let (word, bit) = (place / BITS, 1 << (place % BITS));
        let put = |word: &mut u64, on: bool| if on { *word |= bit } else { *word &= !bit };
        if let Some(listed_word) = self.listed.get_mut(word) {
            put(listed_word, listed);
        }
        if let (Some(on), Some(entries)) = (by_entries, self.by_entries.get_mut(word)) {
            put(entries, on);
        }
    }

    /// The first place in `from..to` that must be looked at.
    #[inline]
    pub(super) fn next(&self, from: usize, to: usize, busy: bool) -> Option<usize> {
        let mut mask = u64::MAX << (from % BITS);
        for word in from / BITS..to.div_ceil(BITS) {
            let entries = if busy { self.by_entries[word] } else { 0 };
            let bits = (self.listed[word] | entries) & mask;
            if bits != 0 {
                let place = word * BITS + bits.trailing_zeros() as usize;
                return (place < to).then_some(place);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn the_next_place_is_the_lowest_that_is_listed(
            count in 1usize..200, listed in proptest::collection::vec(0usize..200, 0..20),
            entries in proptest::collection::vec(0usize..200, 0..20), from in 0usize..200, busy: bool,
        ) {
            let mut places = Places::default();
            places.reserve(count);
            let listed: Vec<_> = listed.into_iter().filter(|&place| place < count).collect();
            let entries: Vec<_> = entries.into_iter().filter(|&place| place < count).collect();
            entries.iter().for_each(|&place| places.looked(place, false, true));
            listed.iter().for_each(|&place| places.list(place));
            let is_wanted = |place: &usize| listed.contains(place) || busy && entries.contains(place);
            prop_assert_eq!(places.next(from.min(count), count, busy), (from..count).find(is_wanted));
        }
    }

    #[test]
    fn a_bit_lists_its_place_in_every_word() {
        let mut places = Places::default();
        places.reserve(130);
        places.list_bits(1 << 1);
        assert_eq!(
            [0, 2, 66, 130].map(|from| places.next(from, 130, false)),
            [Some(1), Some(65), Some(129), None]
        );
        places.looked(65, false, false);
        assert_eq!(places.next(2, 130, false), Some(129));
    }
}
