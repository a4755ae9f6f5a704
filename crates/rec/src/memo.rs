//! Memoised reduction: sums of rows that are often asked together stand ready, so that a bag needs fewer rows.
//!
//! Ids fall into disjoint clusters; for a cluster of `s` ids the arena holds the sums of all its `2^s − 1` subsets, the single rows among them. A plan names
//! ids anew so that the members of a cluster are neighbours and clusters of one size stand together:
//!
//! ```text
//!  new id   | group of size 5          | size 4   | …  | size 1                |
//!           | c0 c0 c0 c0 c0 | c1 …    | …        |    | the asked · the unasked
//!  arena row = base + c · (2^size − 1) + (mask − 1),   c = (id − offset) / size,  bit = (id − offset) % size
//! ```
//! [`Growth`] finds the clusters in a log; [`Plan`] turns a bag into rows of the arena; [`Planned`] is a plan with the arena of a table; `file` keeps plans.
//! Within a group the clusters that are asked most come first: hot rows share pages.
//!
//! Invariants: (1) `remap` is a permutation of the table's ids; (2) groups are ordered by size, greatest first, without gaps in ids or rows; (3) every row
//! that [`Plan::keys`] and [`Plan::singles`] give is less than [`Plan::arena_rows`]. Held by `Plan::from_parts`, the only constructor.
//!
//! Rejected: a hypergraph partitioner before clustering. It bounds the search for pairs, which [`Limits`] does too, and merges could not cross its parts.
//!
//! Sources: Lee et al., "MERCI: efficient embedding reduction on commodity hardware via sub-query memoization", ASPLOS 2021, and its code.

mod file;
mod grow;
mod planned;

pub use file::PlanError;
pub use grow::{Growth, Limits, Merge};
pub use planned::{PlanScratch, Planned};

use crate::lists::Lists;

/// Greatest size of a cluster: its masks fit 32 bits, and there are at most 31 groups.
pub const MAX_CLUSTER: u32 = 31;

/// Bags up to this length are put in order by rank: an id's place is the number of those that are less. All are compared to all, but without a jump that
/// depends on what is asked, and jumps are what short sorts cost.
const RANKED: usize = 32;

/// Clusters of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The first of their ids.
    pub offset: u32,
    /// Ids in each cluster.
    pub size: u32,
    /// The first of their rows.
    pub base: u32,
}

impl Group {
    /// Rows of each cluster.
    const fn rows_each(self) -> u32 {
        (1 << self.size) - 1
    }
}

/// Which rows of the arena a bag takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    remap: Vec<u32>,
    groups: Vec<Group>,
    /// For each group the id behind its last, and what divides by its size: the high half of a product with `⌈2^64 / size⌉`.
    walk: Vec<(u32, u64)>,
    arena_rows: u32,
}

/// Rows read for all queries of a log, each as often as it was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// A row for each id.
    pub plain: u64,
    /// As planned.
    pub planned: u64,
}

impl Accesses {
    /// Which part of the plain accesses is saved.
    pub fn reduction(self) -> f64 {
        if self.plain == 0 { 0.0 } else { 1.0 - self.planned as f64 / self.plain as f64 }
    }
}

/// Why numbers are no plan: what its file would have to say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    Sizes,
    Rows,
    Permutation,
}

impl Plan {
    /// A plan of new names and of `(size, clusters)` for each group.
    fn from_parts(remap: Vec<u32>, sizes: &[(u32, u32)]) -> Result<Plan, Misfit> {
        let mut groups = Vec::new();
        let mut walk = Vec::new();
        let (mut offset, mut base) = (0u64, 0u64);
        for (at, &(size, clusters)) in sizes.iter().enumerate() {
            let descends = at == 0 || size < sizes[at - 1].0;
            if !(1..=MAX_CLUSTER).contains(&size) || clusters == 0 || !descends {
                return Err(Misfit::Sizes);
            }
            let group = Group { offset: offset as u32, size, base: base as u32 };
            offset += u64::from(size) * u64::from(clusters);
            base += u64::from(group.rows_each()) * u64::from(clusters);
            if offset > remap.len() as u64 || base > u64::from(u32::MAX) {
                return Err(Misfit::Rows);
            }
            groups.push(group);
            // ⌈2^64 / size⌉. For size 1 that does not fit; nothing is divided by it.
            walk.push((offset as u32, (u64::MAX / u64::from(size)).wrapping_add(1)));
        }
        if offset != remap.len() as u64 {
            return Err(Misfit::Rows);
        }
        let mut seen = vec![false; remap.len()];
        for &new in &remap {
            match seen.get_mut(new as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(Misfit::Permutation),
            }
        }
        Ok(Plan { remap, groups, walk, arena_rows: base as u32 })
    }

    /// Rows of the table that this plans.
    pub fn rows(&self) -> u32 {
        self.remap.len() as u32
    }

    /// Rows of the arena, single ones among them.
    pub fn arena_rows(&self) -> u32 {
        self.arena_rows
    }

    /// For each id of the table its new name.
    pub fn remap(&self) -> &[u32] {
        &self.remap
    }

    /// Clusters by size, the greatest first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// How many clusters `group` (a place in [`Plan::groups`]) has.
    pub fn clusters(&self, group: usize) -> u32 {
        (self.walk[group].0 - self.groups[group].offset) / self.groups[group].size
    }

    /// Appends to `keys` the rows of the arena whose sum is the sum of the table's rows `ids`, given by their new names in any order.
    /// One row for each cluster that is touched, and a single one for each repetition of an id.
    ///
    /// Cost: 6 to 7 ns for each id of a bag that is in order, 10 to 12 with sorting (benches/memo.rs).
    ///
    /// # Panics
    /// If an id is none of the plan: check bags first.
    pub fn keys(&self, ids: &[u32], scratch: &mut Vec<u32>, keys: &mut Vec<u32>) {
        let ids = if ids.is_sorted() { ids } else { sorted(ids, scratch) };
        let mut group = 0;
        // The open cluster: its ids, its first row, which of its members came.
        let (mut start, mut end, mut first_row, mut mask) = (0, 0, 0, 0u32);
        for &id in ids {
            if id >= end {
                if mask != 0 {
                    keys.push(first_row + (mask - 1));
                }
                while id >= self.walk[group].0 {
                    group += 1;
                }
                (start, first_row) = self.cluster(group, id);
                end = start + self.groups[group].size;
                mask = 0;
            }
            let bit = 1 << (id - start);
            if mask & bit == 0 {
                mask |= bit;
            } else {
                keys.push(first_row + (bit - 1));
            }
        }
        if mask != 0 {
            keys.push(first_row + (mask - 1));
        }
    }

    /// Appends to `keys` the single row of each of `ids`, given by their new names, in their order: for weights, greatest and least.
    ///
    /// # Panics
    /// As [`Plan::keys`].
    pub fn singles(&self, ids: &[u32], keys: &mut Vec<u32>) {
        keys.extend(ids.iter().map(|&id| {
            let group = self.walk.iter().position(|&(end, _)| id < end).expect("bags are checked before");
            let (start, first_row) = self.cluster(group, id);
            first_row + ((1 << (id - start)) - 1)
        }));
    }

    /// The first id and the first row of the cluster that `id` is in.
    #[inline]
    fn cluster(&self, group: usize, id: u32) -> (u32, u32) {
        let Group { offset, size, base } = self.groups[group];
        let place = id - offset;
        let nth = match size {
            1 => place,
            _ => ((u128::from(place) * u128::from(self.walk[group].1)) >> 64) as u32,
        };
        (offset + nth * size, base + nth * self.groups[group].rows_each())
    }

    /// Rows that the queries of `lists` read without and with this plan. Ids that the table has not count as one row each way.
    pub fn accesses(&self, lists: &Lists) -> Accesses {
        let (mut scratch, mut ids, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut sum = Accesses::default();
        for (weight, query) in lists.iter() {
            ids.clear();
            keys.clear();
            ids.extend(query.iter().filter_map(|&id| self.remap.get(id as usize)));
            self.keys(&ids, &mut scratch, &mut keys);
            sum.plain += u64::from(weight) * query.len() as u64;
            sum.planned += u64::from(weight) * (keys.len() + query.len() - ids.len()) as u64;
        }
        sum
    }
}

/// `ids` in ascending order, in `scratch`. None is `u32::MAX`, which is no row.
fn sorted<'a>(ids: &[u32], scratch: &'a mut Vec<u32>) -> &'a [u32] {
    scratch.clear();
    if ids.len() > RANKED {
        scratch.extend_from_slice(ids);
        scratch.sort_unstable();
        return scratch;
    }
    // The padding is less than no id; whole chunks are compared at once.
    let mut padded = [u32::MAX; RANKED];
    padded[..ids.len()].copy_from_slice(ids);
    let padded = &padded[..ids.len().next_multiple_of(8)];
    scratch.resize(ids.len(), u32::MAX);
    for &id in ids {
        let less = |chunk: &[u32]| chunk.iter().map(|&other| u32::from(other < id)).sum::<u32>();
        let mut rank = padded.chunks_exact(8).map(less).sum::<u32>() as usize;
        // The same id came before: behind it.
        while scratch[rank] == id {
            rank += 1;
        }
        scratch[rank] = id;
    }
    scratch
}

#[cfg(test)]
mod tests;
