//! A plan with its arena: what reduces instead of a table.
//!
//! The arena is a [`Table`] like another, so kernels, prefetching and huge pages are the same; only which rows are summed differs. A memo row is summed in
//! f32 from the table's rows as they decode, and encoded with a scale of its own.
//!
//! Cost of building: about two additions of a row for each row of the arena.

use super::Plan;
use crate::bags::{Bags, BagsError};
use crate::format::RowFormat;
use crate::reduce::{Pooling, Tuning, reduce};
use crate::table::Table;
use std::io;

/// Memory for keys while a batch is reduced; reused.
#[derive(Default)]
pub struct PlanScratch {
    ids: Vec<u32>,
    sorted: Vec<u32>,
    keys: Vec<u32>,
    offsets: Vec<u32>,
    counts: Vec<u32>,
}

/// A plan and the rows that it names.
pub struct Planned {
    plan: Plan,
    arena: Table,
}

impl Plan {
    /// The arena of `table`, rows in `format`.
    ///
    /// # Errors
    /// The system has not so much memory.
    ///
    /// # Panics
    /// If the table has not as many rows as the plan.
    pub fn apply(&self, table: &Table, format: RowFormat) -> io::Result<Table> {
        assert_eq!(table.rows(), self.rows(), "a plan is applied to a table of its size");
        let dim = table.dim();
        let mut arena = Table::zeroed(self.arena_rows, dim, format)?;
        let mut old = vec![0; self.remap.len()];
        self.remap.iter().zip(0..).for_each(|(&new, at)| old[new as usize] = at);
        // Member rows, and the sum of the members in a mask from each bit upwards.
        let (mut members, mut sums) = (Vec::new(), Vec::new());
        for (at, group) in self.groups.iter().enumerate() {
            let size = group.size as usize;
            members.resize(size * dim, 0.0);
            sums.resize((size + 1) * dim, 0.0);
            for nth in 0..self.clusters(at) {
                let (start, first_row) = self.cluster(at, group.offset + nth * group.size);
                for (member, row) in members.chunks_exact_mut(dim.max(1)).enumerate() {
                    table.row(old[start as usize + member], row);
                }
                for mask in 1u32..=group.rows_each() {
                    // Only bits up to the lowest set one differ from the mask before.
                    let lowest = mask.trailing_zeros() as usize;
                    for bit in (0..=lowest).rev() {
                        let (below, above) = sums.split_at_mut((bit + 1) * dim);
                        let sum = &mut below[bit * dim..];
                        sum.copy_from_slice(&above[..dim]);
                        if mask >> bit & 1 == 1 {
                            sum.iter_mut().zip(&members[bit * dim..]).for_each(|(sum, x)| *sum += x);
                        }
                    }
                    arena.set_row(first_row + (mask - 1), &sums[..dim]);
                }
                // The next cluster begins with no member.
                sums.fill(0.0);
            }
        }
        Ok(arena)
    }
}

impl Planned {
    /// `plan` for `table`, the arena's rows in `format`.
    ///
    /// # Errors
    /// The system has not so much memory.
    ///
    /// # Panics
    /// If the table has not as many rows as the plan.
    pub fn new(plan: Plan, table: &Table, format: RowFormat) -> io::Result<Planned> {
        let arena = plan.apply(table, format)?;
        Ok(Planned { plan, arena })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The rows that its keys name.
    pub fn arena(&self) -> &Table {
        &self.arena
    }

    /// Makes keys of bags of ids by the plan's names ([`Plan::remap`]): appends the rows of the arena to read to `keys`, and to `offsets` where each
    /// bag's begin,
    /// from 0, and where the last's end. Sum and mean take memo rows; with weights, and for greatest and least, each id has its single row.
    ///
    /// Cost: see [`Plan::keys`]. That is as much as the rows that it saves, so it is a preprocessing core's work; see `docs/measurements/rec-reduce.md`.
    ///
    /// # Panics
    /// If an id is none of the plan: check bags first.
    pub fn keys(
        &self,
        bags: &Bags<'_>,
        pooling: Pooling,
        sorted: &mut Vec<u32>,
        keys: &mut Vec<u32>,
        offsets: &mut Vec<u32>,
    ) {
        if bags.weights().is_some() || matches!(pooling, Pooling::Max | Pooling::Min) {
            self.plan.singles(bags.values(), keys);
            return offsets.extend_from_slice(bags.offsets());
        }
        let first = keys.len();
        offsets.push(0);
        for at in 0..bags.len() {
            self.plan.keys(&bags.values()[bags.span(at)], sorted, keys);
            offsets.push((keys.len() - first) as u32);
        }
    }

    /// As [`reduce()`] over the table that this was made for, of bags of that table's ids, or of keys.
    ///
    /// # Errors
    /// An id that is no row of the table, or a key that is none of the arena; `out` is then as it was.
    ///
    /// # Panics
    /// If `out` is not a row of numbers for each bag.
    pub fn reduce(
        &self,
        bags: &Bags<'_>,
        pooling: Pooling,
        tuning: Tuning,
        scratch: &mut PlanScratch,
        out: &mut [f32],
    ) -> Result<(), BagsError> {
        if bags.counts().is_some() {
            return self.reduce_keys(bags, pooling, tuning, out);
        }
        bags.check(self.plan.rows())?;
        let PlanScratch { ids, sorted, keys, offsets, counts } = scratch;
        [&mut *ids, keys, offsets, counts].into_iter().for_each(Vec::clear);
        ids.extend(bags.values().iter().map(|&id| self.plan.remap[id as usize]));
        let named = Bags::new(ids, bags.offsets(), bags.weights())?;
        self.keys(&named, pooling, sorted, keys, offsets);
        counts.extend(bags.offsets().windows(2).map(|pair| pair[1] - pair[0]));
        self.reduce_keys(&Bags::keys(keys, offsets, bags.weights(), counts)?, pooling, tuning, out)
    }

    fn reduce_keys(
        &self,
        bags: &Bags<'_>,
        pooling: Pooling,
        tuning: Tuning,
        out: &mut [f32],
    ) -> Result<(), BagsError> {
        let (Pooling::Mean, Some(counts)) = (pooling, bags.counts()) else {
            return reduce(&self.arena, bags, pooling, tuning, out);
        };
        reduce(&self.arena, bags, Pooling::Sum, tuning, out)?;
        for (out, &count) in out.chunks_exact_mut(self.arena.dim().max(1)).zip(counts) {
            // By ids, not by keys; an empty bag is zeros and stays so.
            let scale = 1.0 / count.max(1) as f32;
            out.iter_mut().for_each(|sum| *sum *= scale);
        }
        Ok(())
    }
}
