//! The registration table: which boxes may keep a key, and which way requests go.
//!
//! * [`Layout`] is the topology and never changes: boxes with those above them, homes with the box before them, slots with their
//!   homes. It must be the same everywhere, for the home of a key is a promise.
//! * [`Table`] adds an epoch, the set of boxes that live, the set of those that are being drained, where copies may be kept ([`super::ranges`]), and which
//!   homes have moved ([`super::moved`]), which machines carry for their drivers. Everything else is computed from it, so that a table travels as three
//!   numbers, those ranges and those places. No promise rests on it: a wrong or old one costs hits, or waits for a home that is not where it is looked for.
//!
//! ```text
//!      root 5        root 6         slot s: every box has, among the living ones above it, one *chosen* for s;
//!      │ │ ╲  ╲     ╱ ╱ │ │         the way down to the home is the chain of chosen boxes above the home's box,
//!     1   2   3   4   (ToRs)        the way up from anywhere climbs chosen boxes until it meets that chain.
//!     C           H                 C → 1 → 5 → 4 → H, or over 6, by slot; back the same way
//! ```
//!
//! Designated for (ToR, slot) are the boxes on that way. Where boxes above a ToR are the same for all ToRs, as in the
//! published topology, all ways of a slot meet in the same root, so that a key is kept once at that level.
//!
//! Fallback: [`Table::next`] skips boxes that are dead in the table; a box that sees a neighbour dead sends straight to the home.

use super::holders::Boxes;
use super::moved::Moved;
use super::ranges::{Caching, Range, Ranges};
use crate::wire::{BoxId, Epoch, HomeId, KeyHash, key_hash};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Boxes on a way, at most.
const MAX_HEIGHT: usize = 8;

/// A box, and the boxes above it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BoxPlace {
    /// Its name.
    pub id: BoxId,
    /// None at the top.
    pub above: Vec<BoxId>,
}

/// What never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    above: BTreeMap<BoxId, Vec<BoxId>>,
    /// By slot; as many as there are slots.
    homes: Vec<HomeId>,
    /// The box before each home.
    before: BTreeMap<HomeId, BoxId>,
    /// Where copies may be kept, until a controller says otherwise.
    ranges: Arc<Ranges>,
    /// Homes that had moved when the file was written.
    moved: Arc<Moved>,
}

/// Why a topology is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLayout {
    /// Slots must be a power of two, at most 65536.
    Slots(usize),
    /// Ids are 1 to 64, and each is given once.
    Box(BoxId),
    /// It names a box that is not there.
    Unknown(BoxId),
    /// There is none, or one twice.
    Homes,
    /// More than eight levels, or a circle.
    TooHigh(BoxId),
    /// A range of slots names a box that is not there.
    RangeOf(Range, BoxId),
}

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLayout::Slots(n) => write!(f, "{n} slots: must be a power of two up to 65536"),
            BadLayout::Box(id) => write!(f, "box {id}: ids are 1 to 64, each once"),
            BadLayout::Unknown(id) => write!(f, "box {id} is named but not there"),
            BadLayout::Homes => f.write_str("at least one home, each once"),
            BadLayout::TooHigh(id) => write!(f, "above box {id} are more than {MAX_HEIGHT} levels"),
            BadLayout::RangeOf(Range { first, last, .. }, id) => {
                write!(f, "slots {first}-{last} name box {id}, which is not there")
            }
        }
    }
}

impl std::error::Error for BadLayout {}

impl Layout {
    /// Of these boxes, and these homes with the box before each. Slots go to homes in turn.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(boxes: &[BoxPlace], homes: &[(HomeId, BoxId)], slots: usize) -> Result<Layout, BadLayout> {
        if !slots.is_power_of_two() || slots > 1 << 16 {
            return Err(BadLayout::Slots(slots));
        }
        let mut above = BTreeMap::new();
        for place in boxes {
            if Boxes::of(place.id).is_none() || above.insert(place.id, place.above.clone()).is_some() {
                return Err(BadLayout::Box(place.id));
            }
        }
        let before: BTreeMap<_, _> = homes.iter().copied().collect();
        if before.is_empty() || before.len() != homes.len() {
            return Err(BadLayout::Homes);
        }
        let named = above.values().flatten().chain(before.values());
        if let Some(unknown) = named.into_iter().find(|id| !above.contains_key(id)) {
            return Err(BadLayout::Unknown(*unknown));
        }
        let homes = (0..slots).map(|slot| homes[slot % homes.len()].0).collect();
        let layout = Layout { above, homes, before, ranges: Arc::default(), moved: Arc::default() };
        match layout.too_high() {
            Some(id) => Err(BadLayout::TooHigh(id)),
            None => Ok(layout),
        }
    }

    /// `tors` boxes (ids from 1), each below all of `roots` boxes (the ids after them), and `homes` homes, behind the
    /// last ToRs. The published one is (4, 2). One root is a tree; none is boxes without a network.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn two_levels(tors: u16, roots: u16, homes: u16, slots: usize) -> Result<Layout, BadLayout> {
        let above: Vec<_> = (tors + 1..=tors + roots).map(BoxId).collect();
        let mut boxes: Vec<_> =
            (1..=tors).map(|id| BoxPlace { id: BoxId(id), above: above.clone() }).collect();
        boxes.extend(above.iter().map(|id| BoxPlace { id: *id, above: vec![] }));
        let homes: Vec<_> = (0..homes).map(|i| (HomeId(i + 1), BoxId(tors - i % tors.max(1)))).collect();
        Layout::new(&boxes, &homes, slots)
    }

    /// The same, with copies kept only as these say, until a controller says otherwise.
    ///
    /// # Errors
    /// [`BadLayout::RangeOf`].
    pub fn with_ranges(self, ranges: Ranges) -> Result<Layout, BadLayout> {
        for range in ranges.iter() {
            let mut named = if let Caching::Only(boxes) = range.caching { boxes } else { Boxes(0) }.iter();
            if let Some(unknown) = named.find(|id| !self.above.contains_key(id)) {
                return Err(BadLayout::RangeOf(*range, unknown));
            }
        }
        Ok(Layout { ranges: Arc::new(ranges), ..self })
    }

    /// Where copies may be kept, until a controller says otherwise.
    pub fn ranges(&self) -> &Arc<Ranges> {
        &self.ranges
    }

    /// The same, with homes of it that had moved when its file was written.
    #[must_use]
    pub fn with_moved(self, moved: Moved) -> Layout {
        Layout { moved: Arc::new(moved), ..self }
    }

    /// Homes that had moved when its file was written.
    pub fn moved(&self) -> &Arc<Moved> {
        &self.moved
    }

    /// Whether it is one of the homes.
    pub fn has_home(&self, id: HomeId) -> bool {
        self.before.contains_key(&id)
    }

    /// A box with more than the levels above it that there may be; in a circle they never end.
    fn too_high(&self) -> Option<BoxId> {
        let mut height: BTreeMap<BoxId, usize> = self.boxes().map(|id| (id, 1)).collect();
        for _ in 0..=MAX_HEIGHT {
            let highest = |above: &Vec<BoxId>| above.iter().map(|id| height[id]).max().unwrap_or(0);
            height = self.above.iter().map(|(id, above)| (*id, 1 + highest(above))).collect();
        }
        height.into_iter().find(|(_, height)| *height > MAX_HEIGHT).map(|(id, _)| id)
    }

    /// All boxes, by rising id.
    pub fn boxes(&self) -> impl Iterator<Item = BoxId> + '_ {
        self.above.keys().copied()
    }

    /// All homes, by rising id.
    pub fn homes(&self) -> impl Iterator<Item = HomeId> + '_ {
        self.before.keys().copied()
    }

    /// How many slots.
    pub fn slots(&self) -> usize {
        self.homes.len()
    }

    /// The slot of a key: the upper bits, since tables use the lower ones.
    pub fn slot_of(&self, hash: KeyHash) -> usize {
        ((u64::from(hash.0) * self.homes.len() as u64) >> 32) as usize
    }

    /// How keys are divided among homes: a checksum.
    pub fn division(&self) -> u32 {
        let ids: Vec<u8> = self.homes.iter().flat_map(|id| id.0.to_le_bytes()).collect();
        key_hash(&ids).0
    }

    /// The home of a key.
    pub fn home_of(&self, hash: KeyHash) -> HomeId {
        self.homes[self.slot_of(hash)]
    }
}

/// Where a request goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// To this box.
    Box(BoxId),
    /// To its home.
    Home,
}

/// The layout, and who lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    layout: Arc<Layout>,
    epoch: Epoch,
    live: Boxes,
    /// Those that are to be stopped; none of them is live.
    draining: Boxes,
    ranges: Arc<Ranges>,
    moved: Arc<Moved>,
    /// By box id and slot.
    next: Vec<Next>,
}

impl Table {
    /// With every box alive, of epoch 0: what everybody begins with.
    pub fn first(layout: Arc<Layout>) -> Table {
        let ranges = Arc::clone(&layout.ranges);
        Table::new(layout, (Epoch(0), Boxes(u64::MAX), ranges))
    }

    /// Of this epoch, with these boxes alive, and copies kept as the ranges say.
    pub fn new(layout: Arc<Layout>, (epoch, live, ranges): (Epoch, Boxes, Arc<Ranges>)) -> Table {
        let highest = layout.boxes().last().map_or(0, |id| usize::from(id.0));
        let next = vec![Next::Home; (highest + 1) * layout.slots()];
        let moved = Arc::clone(&layout.moved);
        let mut table = Table { next, layout, epoch, live, draining: Boxes::default(), ranges, moved };
        for slot in 0..table.layout.slots() {
            let home = table.layout.homes[slot];
            let down = table.chain(table.layout.before[&home], slot);
            let ids: Vec<_> = table.layout.boxes().collect();
            for id in ids {
                let next = match down.iter().position(|on_way| *on_way == id) {
                    Some(0) => None,
                    Some(i) => down[..i].iter().rev().copied().find(|id| table.lives(*id)),
                    None => table.chosen(id, slot),
                };
                let cell = table.cell(id, slot);
                table.next[cell] = next.map_or(Next::Home, Next::Box);
            }
        }
        table
    }

    /// The same, which also says which boxes are being drained. No way leads over them: they are not among those that live.
    #[must_use]
    pub fn with_draining(self, draining: Boxes) -> Table {
        Table { draining, ..self }
    }

    /// The same, with homes that have moved.
    #[must_use]
    pub fn with_moved(self, moved: Arc<Moved>) -> Table {
        Table { moved, ..self }
    }

    /// Homes that have moved.
    pub fn moved(&self) -> &Arc<Moved> {
        &self.moved
    }

    /// Its number.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Who lives.
    pub fn live(&self) -> Boxes {
        self.live
    }

    /// Who is to be stopped: is granted nothing, and keeps nothing.
    pub fn draining(&self) -> Boxes {
        self.draining
    }

    /// What it stands on.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Whether this box lives, as far as the table knows.
    pub fn lives(&self, id: BoxId) -> bool {
        self.live.contains(id)
    }

    /// Where copies may be kept.
    pub fn ranges(&self) -> &Arc<Ranges> {
        &self.ranges
    }

    /// Whether box `id` may keep a key with this hash that it is asked for by `below`: a box, or a client where that is none.
    pub fn may_keep(&self, id: BoxId, below: Option<BoxId>, hash: KeyHash) -> bool {
        match self.ranges.of(self.layout.slot_of(hash)) {
            Caching::All => true,
            Caching::Nowhere => false,
            Caching::Only(boxes) => boxes.contains(id),
            // Once a request goes down, to the home's box, it never comes to one that is above the last again.
            Caching::Cluster => below
                .is_none_or(|below| self.layout.above.get(&below).is_some_and(|above| above.contains(&id))),
        }
    }

    /// From box `id`, for a key with this hash. A box that is not in the layout sends to the home.
    pub fn next(&self, id: BoxId, hash: KeyHash) -> Next {
        let known = self.layout.above.contains_key(&id);
        if known { self.next[self.cell(id, self.layout.slot_of(hash))] } else { Next::Home }
    }

    /// The designated boxes for clients of ToR `tor`: the way of a request, to be walked back by its reply.
    pub fn designated(&self, tor: BoxId, hash: KeyHash) -> Vec<BoxId> {
        let mut way = Vec::new();
        let mut here = Next::Box(tor);
        while let Next::Box(id) = here
            && way.len() < 2 * MAX_HEIGHT
        {
            if self.lives(id) {
                way.push(id);
            }
            here = self.next(id, hash);
        }
        way
    }

    fn cell(&self, id: BoxId, slot: usize) -> usize {
        usize::from(id.0) * self.layout.slots() + slot
    }

    /// Among the living boxes above `id` the one for `slot`; the next in turn where it is dead.
    fn chosen(&self, id: BoxId, slot: usize) -> Option<BoxId> {
        let above = self.layout.above.get(&id)?;
        let in_turn = (0..above.len()).map(|i| above[(slot / self.layout.before.len() + i) % above.len()]);
        in_turn.into_iter().find(|id| self.lives(*id))
    }

    /// From `id` upwards.
    fn chain(&self, id: BoxId, slot: usize) -> Vec<BoxId> {
        std::iter::successors(Some(id), |id| self.chosen(*id, slot)).take(MAX_HEIGHT).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> Arc<Layout> {
        Arc::new(Layout::two_levels(4, 2, 4, 64).expect("a layout"))
    }

    fn hash(slot: u32) -> KeyHash {
        KeyHash(slot << 26)
    }

    #[test]
    fn the_published_topology_has_one_root_per_slot() {
        let table = Table::first(published());
        let mut roots = BTreeMap::new();
        for slot in 0..64 {
            let home_tor = table.layout.before[&table.layout.home_of(hash(slot))];
            for tor in (1..=4).map(BoxId) {
                let way = table.designated(tor, hash(slot));
                if tor == home_tor {
                    assert_eq!(way, [tor]);
                    continue;
                }
                assert_eq!((way.len(), way[0], way[2]), (3, tor, home_tor));
                assert_eq!(*roots.entry(slot).or_insert(way[1]), way[1]);
            }
        }
        let fifth = roots.values().filter(|root| **root == BoxId(5)).count();
        assert_eq!((roots.len(), fifth), (64, 32), "both roots are used alike");
    }

    #[test]
    fn dead_boxes_are_gone_round() {
        let layout = published();
        let all = Boxes(0b11_1111);
        let with = |epoch, live| Table::new(layout.clone(), (Epoch(epoch), live, Arc::default()));
        let without_root = with(1, all.without(Boxes(1 << 4)));
        let without_tor = with(2, all.without(Boxes(1 << 3)));
        for slot in 0..64 {
            let way = without_root.designated(BoxId(1), hash(slot));
            assert!(!way.contains(&BoxId(5)) && way[0] == BoxId(1));
            let way = without_tor.designated(BoxId(1), hash(slot));
            assert!(!way.contains(&BoxId(4)), "{way:?}");
        }
        let alone = with(3, Boxes(1));
        assert!((0..64).all(|slot| alone.next(BoxId(1), hash(slot)) == Next::Home));
        assert_eq!(alone.next(BoxId(40), hash(1)), Next::Home);
    }

    #[test]
    fn trees_climb_to_the_common_ancestor() {
        let place =
            |id, above: &[u16]| BoxPlace { id: BoxId(id), above: above.iter().copied().map(BoxId).collect() };
        let boxes =
            [place(1, &[4]), place(2, &[4]), place(3, &[5]), place(4, &[6]), place(5, &[6]), place(6, &[])];
        let layout = Arc::new(Layout::new(&boxes, &[(HomeId(1), BoxId(2))], 1).expect("a layout"));
        let table = Table::first(layout);
        let way = |tor| table.designated(BoxId(tor), hash(0)).iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(way(1), [1, 4, 2]);
        assert_eq!(way(3), [3, 5, 6, 4, 2]);
        assert_eq!(way(2), [2]);
    }

    #[test]
    fn copies_are_kept_where_the_ranges_say() {
        let caching = [Caching::Cluster, Caching::Only(Boxes(0b1_0001)), Caching::Nowhere, Caching::All];
        let range = |(slot, caching)| Range { first: slot, last: slot, caching };
        let ranges = Ranges::new((0..).zip(caching).map(range).collect(), 64).expect("ranges");
        let layout =
            Layout::two_levels(4, 2, 1, 64).expect("a layout").with_ranges(ranges).expect("its boxes");
        let table = Table::first(Arc::new(layout));
        let keepers = |slot| {
            let way = table.designated(BoxId(1), hash(slot));
            let below = std::iter::once(None).chain(way.iter().copied().map(Some));
            let kept = way.iter().zip(below).filter(|(id, below)| table.may_keep(**id, *below, hash(slot)));
            kept.map(|(id, _)| id.0).collect::<Vec<_>>()
        };
        // Over a root to the home behind box 4.
        assert_eq!(keepers(0), [1, 5], "the client is under these");
        assert_eq!(keepers(1), [1], "the other way of two");
        assert_eq!(keepers(2), []);
        assert_eq!(keepers(3).len(), 3);
    }

    #[test]
    fn nonsense_is_refused() {
        let place = |id, above: u16| BoxPlace { id: BoxId(id), above: vec![BoxId(above)] };
        let home = [(HomeId(1), BoxId(1))];
        for (boxes, homes, slots, why) in [
            (vec![place(1, 1)], &home[..], 3, BadLayout::Slots(3)),
            (vec![place(65, 1)], &home, 1, BadLayout::Box(BoxId(65))),
            (vec![place(1, 2)], &home, 1, BadLayout::Unknown(BoxId(2))),
            (vec![place(1, 1)], &home, 1, BadLayout::TooHigh(BoxId(1))),
            (vec![place(1, 1)], &[], 1, BadLayout::Homes),
        ] {
            assert_eq!(Layout::new(&boxes, homes, slots), Err(why));
        }
        assert!(Layout::two_levels(0, 0, 1, 1).is_err());
        let range = Range { first: 0, last: 0, caching: Caching::Only(Boxes(0b11)) };
        let one = Layout::two_levels(1, 0, 1, 1).expect("a layout");
        let refused = one.with_ranges(Ranges::new(vec![range], 1).expect("ranges"));
        assert_eq!(refused, Err(BadLayout::RangeOf(range, BoxId(2))));
    }
}
