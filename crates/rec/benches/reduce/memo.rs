//! Bars on real query lists: the rows asked, the same with neighbours side by side, and sums that stand ready.
//!
//! The lists' table is small, so it is laid as many times as fit the big one: a query falls on a copy drawn uniformly. A plan is made for one
//! copy; each copy has its own rows and its own sums. Ids come with their new names, as from a dictionary that a server needs anyway;
//! finding a bag's keys is timed.

use crate::bars::{Bar, Sample, seconds_run};
use crate::loads::{Batch, Load, SLICE};
use base::Prng;
use rec::{Bags, Kernel, Lists, Plan, Pooling, RowFormat, Table, Tuning, reduce_with};
use std::hint::black_box;
use std::io;

/// Slices of queries that were asked of copies of the lists' rows.
pub struct Tiled {
    pub loads: Vec<Load>,
    /// For each slice and batch the copy that each bag falls on.
    copies: Vec<Vec<Vec<u32>>>,
    features: u32,
    pub tiles: u32,
}

/// `count` slices of queries, drawn by how often they were asked.
pub fn draw(lists: &Lists, count: usize, rows: u32, batch: usize) -> Tiled {
    let features = lists.features();
    let tiles = (rows / features).max(1);
    let ends: Vec<u64> = lists
        .iter()
        .scan(0, |sum, (weight, _)| {
            *sum += u64::from(weight);
            Some(*sum)
        })
        .collect();
    let mut prng = Prng::new(11);
    let mut tiled = Tiled { loads: Vec::new(), copies: Vec::new(), features, tiles };
    for _ in 0..count {
        let (mut load, mut load_copies, mut drawn) = (Vec::new(), Vec::new(), 0);
        while drawn < SLICE {
            let (mut made, mut copies) = (Batch::new(), Vec::new());
            for _ in 0..batch {
                let place = prng.below(*ends.last().expect("there are queries"));
                let query = lists.query(ends.partition_point(|&end| end <= place));
                let copy = prng.below(tiles.into()) as u32;
                made.values.extend(query.iter().map(|id| copy * features + id));
                made.end_bag();
                copies.push(copy);
            }
            drawn += made.values.len();
            load.push(made);
            load_copies.push(copies);
        }
        tiled.loads.push(load);
        tiled.copies.push(load_copies);
    }
    tiled
}

impl Tiled {
    /// The slices with ids as `plan` names them.
    fn renamed(&self, plan: &Plan) -> Vec<Load> {
        let rename =
            |id: &u32| id / self.features * self.features + plan.remap()[(id % self.features) as usize];
        let batch = |batch: &Batch| Batch {
            values: batch.values.iter().map(rename).collect(),
            offsets: batch.offsets.clone(),
        };
        self.loads.iter().map(|load| load.iter().map(batch).collect()).collect()
    }

    /// Rows in the plan's order, and no sums.
    pub fn remap<'a>(
        &'a self,
        plan: &Plan,
        table: &Table,
        kernel: Kernel,
        ahead: usize,
    ) -> io::Result<Bar<'a>> {
        let stride = table.stride();
        let mut moved = Table::zeroed(self.features * self.tiles, table.dim(), table.format())?;
        for id in 0..moved.rows() {
            let new =
                (id / self.features * self.features + plan.remap()[(id % self.features) as usize]) as usize;
            let row = &table.bytes()[id as usize * stride..][..stride];
            moved.bytes_mut()[new * stride..][..stride].copy_from_slice(row);
        }
        let loads = self.renamed(plan);
        let mut out = Vec::new();
        let name = format!("{} + remap", table.format());
        let run = move |at: usize| {
            let start = seconds_run();
            for batch in &loads[at] {
                out.resize(batch.len() * moved.dim(), 0.0);
                let tuning = Tuning { prefetch: ahead };
                reduce_with(kernel, &moved, &batch.bags(), Pooling::Sum, tuning, &mut out)
                    .expect("ids are rows");
                black_box(&out);
            }
            let rows = loads[at].iter().map(|batch| batch.values.len()).sum();
            Sample { seconds: seconds_run() - start, rows }
        };
        Ok(Bar { name, row_bytes: stride, run: Box::new(run) })
    }

    /// Rows of the plan's arenas, one for each copy, in `format`.
    pub fn memo<'a>(
        &'a self,
        plan: Plan,
        budget: f64,
        table: &Table,
        format: RowFormat,
        kernel: Kernel,
        ahead: usize,
    ) -> io::Result<Bar<'a>> {
        let (dim, each) = (table.dim(), plan.arena_rows());
        let mut arenas = Table::zeroed(each * self.tiles, dim, format)?;
        let mut one = Table::zeroed(self.features, dim, table.format())?;
        for tile in 0..self.tiles as usize {
            let (from, to) = (one.len_bytes(), each as usize * arenas.stride());
            one.bytes_mut().copy_from_slice(&table.bytes()[tile * from..][..from]);
            arenas.bytes_mut()[tile * to..][..to].copy_from_slice(&plan.apply(&one, format)?.bytes()[..to]);
        }
        let (loads, stride) = (self.renamed(&plan), arenas.stride());
        let (mut ids, mut sorted, mut keys, mut offsets, mut out) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let run = move |at: usize| {
            let start = seconds_run();
            let mut rows = 0;
            for (batch, copies) in loads[at].iter().zip(&self.copies[at]) {
                keys.clear();
                offsets.clear();
                offsets.push(0);
                for (span, &copy) in batch.offsets.windows(2).zip(copies) {
                    let (id, key) = (copy * self.features, copy * each);
                    ids.clear();
                    ids.extend(batch.values[span[0] as usize..span[1] as usize].iter().map(|new| new - id));
                    let first = keys.len();
                    plan.keys(&ids, &mut sorted, &mut keys);
                    keys[first..].iter_mut().for_each(|row| *row += key);
                    offsets.push(keys.len() as u32);
                }
                rows += keys.len();
                out.resize(batch.len() * dim, 0.0);
                let bags = Bags::new(&keys, &offsets, None).expect("they were made so");
                let tuning = Tuning { prefetch: ahead };
                reduce_with(kernel, &arenas, &bags, Pooling::Sum, tuning, &mut out).expect("keys are rows");
                black_box(&out);
            }
            Sample { seconds: seconds_run() - start, rows }
        };
        Ok(Bar { name: format!("{format} + memo {budget}"), row_bytes: stride, run: Box::new(run) })
    }
}
