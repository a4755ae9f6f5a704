//! Where copies may be kept, by ranges of slots: a part of the registration table, which a controller may change while boxes run.
//!
//! | | boxes that may keep a key, or own it |
//! |---|---|
//! | [`Caching::All`] | all on its way |
//! | [`Caching::Cluster`] | those that its client sits under: its first box, and those above that one. Not those on the way down to the home |
//! | [`Caching::Only`] | these, where they are on its way |
//! | [`Caching::Nowhere`] | none |
//!
//! No promise rests on it, as on nothing of the table: who has a copy is known by what homes and boxes granted, not by who may have one. So while a new table
//! spreads, a box that goes by an old one keeps copies that a newer one forbids, and is told of writes like any other.
//!
//! Shape on the wire: 16 bytes for each range, numbers little-endian: first and last slot (2 each), kind (1), three of 0, boxes by bit (8).
//!
//! Invariants: 1. ranges rise and do not overlap; 2. none is [`Caching::All`], which is where no range is; 3. reading and writing are inverse to each other.
//!
//! Bounds: [`Ranges::MOST`]. Cost: a search in halves for each request that misses, none where there are no ranges.

use super::holders::Boxes;
use crate::wire::BoxId;
use std::fmt;

/// Who may keep copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caching {
    /// All boxes.
    All,
    /// Boxes that the client sits under.
    Cluster,
    /// These.
    Only(Boxes),
    /// None.
    Nowhere,
}

impl Caching {
    const fn code(self) -> u8 {
        match self {
            Caching::All => 0,
            Caching::Cluster => 1,
            Caching::Only(_) => 2,
            Caching::Nowhere => 3,
        }
    }

    const fn boxes(self) -> Boxes {
        if let Caching::Only(boxes) = self { boxes } else { Boxes(0) }
    }

    const fn from_code(code: u8, boxes: Boxes) -> Option<Caching> {
        match code {
            0 if boxes.0 == 0 => Some(Caching::All),
            1 if boxes.0 == 0 => Some(Caching::Cluster),
            2 if boxes.0 != 0 => Some(Caching::Only(boxes)),
            3 if boxes.0 == 0 => Some(Caching::Nowhere),
            _ => None,
        }
    }
}

impl fmt::Display for Caching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caching::All => f.write_str("all"),
            Caching::Cluster => f.write_str("cluster"),
            Caching::Nowhere => f.write_str("nowhere"),
            Caching::Only(boxes) => {
                let ids: Vec<String> = boxes.iter().map(|id: BoxId| id.to_string()).collect();
                write!(f, "[{}]", ids.join(", "))
            }
        }
    }
}

/// Slots from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
    /// Who may keep copies of their keys.
    pub caching: Caching,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}: {}", self.first, self.last, self.caching)
    }
}

/// Why ranges are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRanges {
    /// There are more than [`Ranges::MOST`].
    TooMany(usize),
    /// It ends before it begins, or after the last slot.
    Slots(Range, usize),
    /// Both have a slot.
    Overlap(Range, Range),
    /// No box is in it.
    NoBox(Range),
}

impl fmt::Display for BadRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRanges::TooMany(count) => write!(f, "{count} ranges: at most {} may be given", Ranges::MOST),
            BadRanges::Slots(Range { first, last, .. }, slots) => {
                write!(f, "slots {first}-{last}: a range rises, and slots are 0 to {}", slots - 1)
            }
            BadRanges::Overlap(one, other) => {
                write!(
                    f,
                    "slots {}-{} and {}-{} overlap: each slot is in one range",
                    one.first, one.last, other.first, other.last
                )
            }
            BadRanges::NoBox(Range { first, last, .. }) => {
                write!(f, "slots {first}-{last} name no box: for none write cache = \"nowhere\"")
            }
        }
    }
}

impl std::error::Error for BadRanges {}

/// All ranges of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// How many there may be.
    pub const MOST: usize = 256;
    /// Bytes of one on the wire.
    const BYTES: usize = 16;

    /// Of a layout with so many slots, in any order.
    ///
    /// # Errors
    /// [`BadRanges`].
    pub fn new(mut ranges: Vec<Range>, slots: usize) -> Result<Ranges, BadRanges> {
        if ranges.len() > Ranges::MOST {
            return Err(BadRanges::TooMany(ranges.len()));
        }
        ranges.sort_by_key(|range| range.first);
        for range in &ranges {
            if range.first > range.last || usize::from(range.last) >= slots {
                return Err(BadRanges::Slots(*range, slots));
            }
            if range.caching == Caching::Only(Boxes(0)) {
                return Err(BadRanges::NoBox(*range));
            }
        }
        if let Some(pair) = ranges.windows(2).find(|pair| pair[1].first <= pair[0].last) {
            return Err(BadRanges::Overlap(pair[0], pair[1]));
        }
        ranges.retain(|range| range.caching != Caching::All);
        Ok(Ranges(ranges))
    }

    /// Who may keep keys of a slot.
    pub fn of(&self, slot: usize) -> Caching {
        let after = self.0.partition_point(|range| usize::from(range.first) <= slot);
        let range = after.checked_sub(1).map(|at| self.0[at]);
        range.filter(|range| slot <= usize::from(range.last)).map_or(Caching::All, |range| range.caching)
    }

    /// Those that are not [`Caching::All`], by rising slots.
    pub fn iter(&self) -> impl Iterator<Item = &Range> {
        self.0.iter()
    }

    /// Slots whose keys some boxes may not keep: those kept in clusters, by some boxes, and nowhere.
    pub fn slots(&self) -> [u64; 3] {
        let mut slots = [0; 3];
        for range in &self.0 {
            if let Some(at) = range.caching.code().checked_sub(1) {
                slots[usize::from(at)] += u64::from(range.last - range.first) + 1;
            }
        }
        slots
    }

    /// As a table carries them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * Ranges::BYTES);
        for Range { first, last, caching } in &self.0 {
            bytes.extend(first.to_le_bytes());
            bytes.extend(last.to_le_bytes());
            bytes.extend([caching.code(), 0, 0, 0]);
            bytes.extend(caching.boxes().0.to_le_bytes());
        }
        bytes
    }

    /// What [`Ranges::to_bytes`] wrote, for a layout with so many slots; none where it is anything else.
    pub fn from_bytes(bytes: &[u8], slots: usize) -> Option<Ranges> {
        let (chunks, rest) = bytes.as_chunks::<{ Ranges::BYTES }>();
        if !rest.is_empty() || chunks.len() > Ranges::MOST {
            return None;
        }
        let two = |chunk: &[u8; 16], at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
        let read = |chunk: &[u8; 16]| {
            let boxes = Boxes(u64::from_le_bytes(*chunk.last_chunk()?));
            let caching = Caching::from_code(chunk[4], boxes).filter(|_| chunk[5..8] == [0; 3])?;
            Some(Range { first: two(chunk, 0), last: two(chunk, 2), caching })
        };
        let ranges = Ranges::new(chunks.iter().map(read).collect::<Option<_>>()?, slots).ok()?;
        // In order, and none that says nothing.
        (ranges.to_bytes() == bytes).then_some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u16, last: u16, caching: Caching) -> Range {
        Range { first, last, caching }
    }

    #[test]
    fn a_slot_goes_by_its_range() {
        let only = Caching::Only(Boxes(0b101));
        let ranges = Ranges::new(
            vec![
                range(8, 9, Caching::Nowhere),
                range(0, 3, only),
                range(4, 4, Caching::All),
                range(63, 63, Caching::Cluster),
            ],
            64,
        );
        let ranges = ranges.expect("they are good");
        let said: Vec<_> = [0, 3, 4, 7, 8, 9, 10, 62, 63].iter().map(|slot| ranges.of(*slot)).collect();
        let all = Caching::All;
        let nowhere = Caching::Nowhere;
        assert_eq!(said, [only, only, all, all, nowhere, nowhere, all, all, Caching::Cluster]);
        let shown: Vec<_> = ranges.iter().map(Range::to_string).collect();
        assert_eq!(shown, ["0-3: [1, 3]", "8-9: nowhere", "63-63: cluster"]);
        assert_eq!(ranges.slots(), [1, 4, 2]);
        assert_eq!(Ranges::default().of(5), Caching::All);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let nowhere = |first, last| range(first, last, Caching::Nowhere);
        for (ranges, why) in [
            (vec![nowhere(3, 2)], BadRanges::Slots(nowhere(3, 2), 64)),
            (vec![nowhere(3, 64)], BadRanges::Slots(nowhere(3, 64), 64)),
            (vec![nowhere(5, 9), nowhere(1, 5)], BadRanges::Overlap(nowhere(1, 5), nowhere(5, 9))),
            (
                vec![range(1, 2, Caching::Only(Boxes(0)))],
                BadRanges::NoBox(range(1, 2, Caching::Only(Boxes(0)))),
            ),
            (vec![nowhere(0, 0); 257], BadRanges::TooMany(257)),
        ] {
            assert_eq!(Ranges::new(ranges, 64), Err(why), "{why}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(cuts in prop::collection::btree_set(0u16..512, 0..40), kinds in prop::collection::vec((0u8..4, 1u64..), 40)) {
            let cuts: Vec<u16> = cuts.into_iter().collect();
            let caching = |(kind, boxes): &(u8, u64)| Caching::from_code(*kind, if *kind == 2 { Boxes(*boxes) } else { Boxes(0) });
            let ranges = cuts.chunks_exact(2).zip(&kinds).map(|(cut, kind)| range(cut[0], cut[1], caching(kind).expect("a kind")));
            let ranges = Ranges::new(ranges.collect(), 512).expect("they are good");
            prop_assert_eq!(Ranges::from_bytes(&ranges.to_bytes(), 512), Some(ranges.clone()));
        }

        #[test]
        fn bytes_are_ranges_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(ranges) = Ranges::from_bytes(&bytes, 1 << 16) {
                prop_assert_eq!(ranges.to_bytes(), bytes);
            }
        }
    }
}
