//! Tables and queries from a seed, with popularity, co-occurrence and bag lengths like those of real logs.
//!
//! ```text
//!  popularity   rank ──▶ Zipf's law of slope 0.6: the top 1 % of rows take about 15 % of accesses
//!  groups       neighbouring ranks, 2 to 10 (mean 6): what is asked together
//!  bag          groups one after another, of each every member with probability 0.7, until the length is reached
//!  length       median 6, p90 16, p99 60: lognormal between these, each pair of quantiles with a spread of its own (one spread cannot meet all three)
//!  id           ranks scattered over the rows by a permutation, so that ids say nothing about popularity or groups
//! ```
//! A group is taken with a probability by its members' mean popularity, not by their sum, or members of large groups would be asked more than their rank says.
//!
//! Bounds: a permutation and the groups' bounds in memory, about 5 bytes for each row; bags of at most [`MAX_BAG`] ids, and of half the rows.
//!
//! Cost: well below a microsecond for each id, most of it powers in the draw of a rank.

use crate::format::RowFormat;
use crate::lists::{Lists, ListsError};
use crate::table::Table;
use base::Prng;
use base::zipf::Zipf;
use std::io;

/// The longest bag.
pub const MAX_BAG: usize = 512;

/// Sizes of groups, each equally often.
const GROUP: std::ops::RangeInclusive<u32> = 2..=10;

/// The part of a group that a bag takes, but for the first member, which it always takes.
const TAKEN: f64 = 0.7;

/// Lengths that so many standard deviations lie below: half, nine of ten, 99 of 100.
const LENGTHS: [(f64, f64); 3] = [(0.0, 6.0), (1.281_551_6, 16.0), (2.326_347_9, 60.0)];

/// The slope of popularity.
pub const SLOPE: f64 = 0.6;

/// Purposes of random streams.
const PERMUTE: u64 = 1;
const ASK: u64 = 2;
const ROW: u64 = 3;

/// Draws bags.
#[derive(Clone, Debug)]
pub struct Generator {
    ids: Vec<u32>,
    /// Where in the ranks each group begins, and where the last ends.
    bounds: Vec<u32>,
    ranks: Zipf,
    prng: Prng,
}

impl Generator {
    /// Bags over `rows` rows. The same seed gives the same groups and popularity to every `stream`, and to each stream its own bags.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn new(rows: u32, seed: u64, stream: u64) -> Generator {
        let mut prng = Prng::for_entity(seed, 0, PERMUTE);
        let mut ids: Vec<u32> = (0..rows).collect();
        (1..ids.len()).for_each(|at| ids.swap(at, prng.below(at as u64 + 1) as usize));
        let mut bounds = vec![0];
        let mut end = 0;
        while end < rows {
            let size = GROUP.start() + prng.below(u64::from(GROUP.end() - GROUP.start()) + 1) as u32;
            end = rows.min(end.saturating_add(size));
            bounds.push(end);
        }
        Generator {
            ids,
            bounds,
            ranks: Zipf::new(rows.into(), SLOPE),
            prng: Prng::for_entity(seed, stream, ASK),
        }
    }

    /// Replaces `bag` by the next one: different ids, in no order.
    pub fn bag(&mut self, bag: &mut Vec<u32>) {
        bag.clear();
        let most = (self.ids.len() / 2).clamp(1, MAX_BAG);
        let len = (self.length() as usize).clamp(1, most);
        while bag.len() < len {
            let rank = self.ranks.sample(&mut self.prng) as u32;
            let group = self.bounds.partition_point(|&begin| begin <= rank) - 1;
            let (begin, end) = (self.bounds[group], self.bounds[group + 1]);
            // The last group may be smaller than any other.
            if !self.prng.chance(f64::from(*GROUP.start()) / f64::from((end - begin).max(*GROUP.start()))) {
                continue;
            }
            for member in begin..end {
                let id = self.ids[member as usize];
                if (member == rank || self.prng.chance(TAKEN)) && bag.len() < len && !bag.contains(&id) {
                    bag.push(id);
                }
            }
        }
    }

    /// A length.
    fn length(&mut self) -> f64 {
        // Box and Muller; the other number of the pair is not kept, so that a bag depends on nothing before its own draws.
        let radius = (-2.0 * (1.0 - self.prng.unit_f64()).ln()).sqrt();
        let z = radius * (std::f64::consts::TAU * self.prng.unit_f64()).cos();
        let line =
            |(x0, y0): (f64, f64), (x1, y1): (f64, f64)| y0.ln() + (z - x0) * (y1.ln() - y0.ln()) / (x1 - x0);
        let [median, p90, p99] = LENGTHS;
        (if z < p90.0 { line(median, p90) } else { line(p90, p99) }).exp().round()
    }
}

/// So many queries of weight 1.
///
/// # Errors
/// No rows or more than lists may have; more ids than lists hold.
pub fn lists(rows: u32, queries: usize, seed: u64) -> Result<Lists, ListsError> {
    let mut lists = Lists::new(rows)?;
    let mut generator = Generator::new(rows, seed, 0);
    let mut bag = Vec::new();
    for _ in 0..queries {
        generator.bag(&mut bag);
        lists.push(1, &bag)?;
    }
    Ok(lists)
}

/// A table of numbers between plus and minus `1/√dim`, as embeddings are initialised. A row depends on seed and place alone.
///
/// # Errors
/// The system has not so much memory.
pub fn table(rows: u32, dim: usize, format: RowFormat, seed: u64) -> io::Result<Table> {
    let reach = 1.0 / (dim.max(1) as f64).sqrt();
    Table::from_rows(rows, dim, format, |at, row| {
        let mut prng = Prng::for_entity(seed, at.into(), ROW);
        row.iter_mut().for_each(|x| *x = ((prng.unit_f64() * 2.0 - 1.0) * reach) as f32);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memo::{Growth, Limits};

    #[test]
    fn lengths_and_popularity_are_as_promised() {
        let rows = 20_000;
        let lists = lists(rows, 150_000, 1).expect("lists");
        let mut lengths: Vec<usize> = lists.iter().map(|(_, ids)| ids.len()).collect();
        lengths.sort_unstable();
        let quantile = |q: f64| lengths[(lengths.len() as f64 * q) as usize];
        assert_eq!(quantile(0.5), 6);
        assert!((15..=17).contains(&quantile(0.9)), "p90 {}", quantile(0.9));
        assert!((55..=65).contains(&quantile(0.99)), "p99 {}", quantile(0.99));
        let mut counts = vec![0u64; rows as usize];
        lists.iter().flat_map(|(_, ids)| ids).for_each(|&id| counts[id as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = counts.iter().sum();
        let top = counts[..rows as usize / 100].iter().sum::<u64>() as f64 / total as f64;
        assert!((0.13..0.17).contains(&top), "the top 1 % take {top:.3}");
        // The slope between the means of two stretches of ranks, 16 apart.
        let mean = |from: usize| counts[from..2 * from].iter().sum::<u64>() as f64 / from as f64;
        let slope = (mean(256) / mean(4096)).ln() / 16f64.ln();
        assert!((0.53..0.67).contains(&slope), "slope {slope:.3}");
    }

    #[test]
    fn ids_of_a_group_come_together() {
        let lists = lists(5_000, 20_000, 2).expect("lists");
        let (log, held_out) = lists.split(0.2, 1);
        let saved = |log: &Lists| {
            Growth::new(log, 2.0, Limits::default(), |_| ()).plan(2.0).accesses(&held_out).reduction()
        };
        assert!(saved(&log) > 0.3, "{}", saved(&log));
        // The same ids as often, but not together: next to nothing to save.
        let mut prng = Prng::new(3);
        let mut ids: Vec<u32> = log.iter().flat_map(|(_, ids)| ids).copied().collect();
        (1..ids.len()).for_each(|at| ids.swap(at, prng.below(at as u64 + 1) as usize));
        let mut loose = Lists::new(5_000).expect("5000");
        let mut rest = ids.as_slice();
        for (_, query) in log.iter() {
            let (ids, more) = rest.split_at(query.len());
            loose.push(1, ids).expect("a query");
            rest = more;
        }
        assert!(saved(&loose) < 0.05, "{}", saved(&loose));
    }

    #[test]
    fn a_seed_gives_the_same_and_a_stream_its_own() {
        assert_eq!(lists(1_000, 100, 7), lists(1_000, 100, 7));
        assert_ne!(lists(1_000, 100, 7), lists(1_000, 100, 8));
        let bags = |stream| {
            let (mut generator, mut bag) = (Generator::new(1_000, 7, stream), Vec::new());
            (0..9)
                .map(|_| {
                    generator.bag(&mut bag);
                    bag.clone()
                })
                .collect::<Vec<_>>()
        };
        assert_ne!(bags(0), bags(1));
        assert_eq!(lists(0, 1, 1), Err(crate::lists::Fault::Features(0).into()));
        assert_eq!(lists(1, 2, 1).map(|lists| lists.pins()), Ok(2), "even one row has bags");
        let rows = |seed| table(9, 4, RowFormat::F32, seed).expect("memory").bytes().to_vec();
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
    }
}
