//! What is known about each request in flight, by its tag: a fixed open-addressed table.
//!
//! Why not the tag modulo the window: replies come in any order, so the tags in flight are few but not consecutive. They
//! nearly are, though, so the first place looked at is nearly always the right one.
//!
//! Invariants: at most half of the places are used; an entry is found from its own place onwards without a gap (removal moves
//! later ones back). Bounds: never grows.

use crate::Tag;

/// What is known about each request in flight.
pub struct TagMap<V> {
    places: Box<[Option<(Tag, V)>]>,
    mask: usize,
}

impl<V> TagMap<V> {
    /// A table for at most `entries` tags at once.
    pub fn new(entries: u32) -> TagMap<V> {
        let places = (entries as usize).next_power_of_two() * 2;
        TagMap { places: (0..places).map(|_| None).collect(), mask: places - 1 }
    }

    fn home(&self, tag: Tag) -> usize {
        tag.0 as usize & self.mask
    }

    /// Notes `value` for a tag that is not in the table.
    ///
    /// # Panics
    /// When the tag is there already, or many more are than the table was made for.
    pub fn insert(&mut self, tag: Tag, value: V) {
        let mut at = self.home(tag);
        let mut looked = 0;
        while let Some((other, _)) = &self.places[at] {
            assert!(*other != tag && looked < self.mask, "{tag:?} is in flight already, or too many are");
            at = (at + 1) & self.mask;
            looked += 1;
        }
        self.places[at] = Some((tag, value));
    }

    /// Takes out what is noted for `tag`.
    pub fn remove(&mut self, tag: Tag) -> Option<V> {
        let mut hole = self.home(tag);
        while self.places[hole].as_ref()?.0 != tag {
            hole = (hole + 1) & self.mask;
        }
        let (_, value) = self.places[hole].take()?;
        // Move back whatever would no longer be found across the hole.
        let mut at = (hole + 1) & self.mask;
        while let Some((other, _)) = &self.places[at] {
            let from_home = at.wrapping_sub(self.home(*other)) & self.mask;
            if from_home >= at.wrapping_sub(hole) & self.mask {
                self.places.swap(hole, at);
                hole = at;
            }
            at = (at + 1) & self.mask;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn it_agrees_with_a_hash_map(steps in proptest::collection::vec((any::<bool>(), 0u32..40), 0..300)) {
            let (mut map, mut model) = (TagMap::new(8), HashMap::new());
            for (n, (insert, tag)) in steps.into_iter().enumerate() {
                let tag = Tag(tag.wrapping_sub(20));
                if insert && model.len() < 8 && !model.contains_key(&tag) {
                    map.insert(tag, n);
                    model.insert(tag, n);
                } else if !insert {
                    prop_assert_eq!(map.remove(tag), model.remove(&tag));
                }
            }
            for (tag, n) in model {
                prop_assert_eq!(map.remove(tag), Some(n));
            }
        }
    }
}
