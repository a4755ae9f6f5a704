//! Bars on real query lists: the rows asked, the same with neighbours side by side, and sums that stand ready.
//!
//! The lists' table is small, so it is laid as many times as fit the big one: a query falls on a copy drawn uniformly. A plan is made for one
//! copy; each copy has its own rows and its own sums. Ids come with their new names, as from a dictionary that a server needs anyway;
//! finding a bag's keys is timed.

use crate::bars::{Bar, Sample, seconds_run};
use crate::loads::{Batch, Load, SLICE};
use base::Prng;
use rec::{Kernel, Lists, Plan, Pooling, RowFormat, Table, Tuning, reduce_with};
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
        let name = format!("{} + remap", table.format());
        Ok(reducing(name, moved, self.renamed(plan), kernel, ahead))
    }

    /// Rows of the plan's arenas, one for each copy, in `format`. Finding keys is `timed`, or done before.
    pub fn memo<'a>(
        &'a self,
        plan: Plan,
        budget: f64,
        table: &Table,
        format: RowFormat,
        timed: bool,
        (kernel, ahead): (Kernel, usize),
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
        let name = match timed {
            true => format!("{format} + memo {budget}, keys too"),
            false => format!("{format} + memo {budget}"),
        };
        if !timed {
            let mut scratch = Scratch::default();
            let slices = loads.iter().zip(&self.copies);
            let keys = slices.map(|(load, copies)| {
                let batches = load.iter().zip(copies);
                batches.map(|(batch, copies)| self.keys(&plan, batch, copies, &mut scratch)).collect()
            });
            return Ok(reducing(name, arenas, keys.collect(), kernel, ahead));
        }
        let mut scratch = Scratch::default();
        let mut out = Vec::new();
        let run = move |at: usize| {
            let start = seconds_run();
            let mut rows = 0;
            for (batch, copies) in loads[at].iter().zip(&self.copies[at]) {
                let keys = self.keys(&plan, batch, copies, &mut scratch);
                rows += keys.values.len();
                out.resize(batch.len() * dim, 0.0);
                let tuning = Tuning { prefetch: ahead };
                reduce_with(kernel, &arenas, &keys.bags(), Pooling::Sum, tuning, &mut out)
                    .expect("keys are rows");
                black_box(&out);
                scratch.spare = Some(keys);
            }
            Sample { seconds: seconds_run() - start, rows }
        };
        Ok(Bar { name, row_bytes: stride, run: Box::new(run) })
    }

    /// The rows of the arenas that a batch takes.
    fn keys(&self, plan: &Plan, batch: &Batch, copies: &[u32], scratch: &mut Scratch) -> Batch {
        let mut keys = scratch.spare.take().unwrap_or_else(Batch::new);
        keys.values.clear();
        keys.offsets.truncate(1);
        for (span, &copy) in batch.offsets.windows(2).zip(copies) {
            let ids = &batch.values[span[0] as usize..span[1] as usize];
            scratch.ids.clear();
            scratch.ids.extend(ids.iter().map(|new| new - copy * self.features));
            let first = keys.values.len();
            plan.keys(&scratch.ids, &mut scratch.sorted, &mut keys.values);
            keys.values[first..].iter_mut().for_each(|row| *row += copy * plan.arena_rows());
            keys.end_bag();
        }
        keys
    }
}

/// What keys are made with, again and again.
#[derive(Default)]
struct Scratch {
    ids: Vec<u32>,
    sorted: Vec<u32>,
    spare: Option<Batch>,
}

/// A bar that reduces `loads` over a table of its own.
fn reducing<'a>(name: String, table: Table, loads: Vec<Load>, kernel: Kernel, ahead: usize) -> Bar<'a> {
    let mut out = Vec::new();
    let row_bytes = table.stride();
    let run = move |at: usize| {
        let start = seconds_run();
        for batch in &loads[at] {
            out.resize(batch.len() * table.dim(), 0.0);
            let tuning = Tuning { prefetch: ahead };
            reduce_with(kernel, &table, &batch.bags(), Pooling::Sum, tuning, &mut out).expect("ids are rows");
            black_box(&out);
        }
        let rows = loads[at].iter().map(|batch| batch.values.len()).sum();
        Sample { seconds: seconds_run() - start, rows }
    };
    Bar { name, row_bytes, run: Box::new(run) }
}
