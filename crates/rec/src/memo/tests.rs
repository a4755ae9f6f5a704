use super::grow::{cost, target, worth};
use super::*;
use crate::bags::Bags;
use crate::format::RowFormat;
use crate::reduce::{Pooling, Tuning, reduce};
use crate::table::Table;
use base::Prng;
use proptest::prelude::*;
use std::cmp::Reverse;

/// Lists over up to 24 ids whose queries come from few places, so that pairs come again.
fn lists() -> impl Strategy<Value = Lists> {
    (2..24u32).prop_flat_map(|features| {
        let query = (1..5u32, 0..features, prop::collection::vec(0..6u32, 1..7));
        prop::collection::vec(query, 1..50).prop_map(move |queries| {
            let mut lists = Lists::new(features).expect("some");
            for (weight, at, steps) in queries {
                let ids: Vec<u32> = steps.iter().map(|step| (at / 3 * 3 + step) % features).collect();
                lists.push(weight, &ids).expect("a query");
            }
            lists
        })
    })
}

fn sets(lists: &Lists) -> Lists {
    let mut sets = Lists::new(lists.features()).expect("some");
    (0..lists.len()).for_each(|at| sets.push(lists.weight(at), &lists.set(at)).expect("a query"));
    sets
}

fn grow(lists: &Lists, ratio: f64) -> Growth {
    Growth::new(lists, ratio, Limits::default(), |_| ())
}

/// The definition: all pairs, each counted from the queries, in every step.
fn naive(lists: &Lists, ratio: f64) -> Vec<Merge> {
    let rows = lists.features();
    let most = target(rows, ratio);
    let mut clusters: Vec<Vec<u32>> = (0..rows).map(|id| vec![id]).collect();
    let mut total = u64::from(rows);
    let mut merges = Vec::new();
    loop {
        let mut best = None;
        for b in 0..clusters.len() {
            for a in 0..b {
                let (x, y) = (&clusters[a], &clusters[b]);
                let asks = |at: usize, ids: &[u32]| lists.query(at).iter().any(|id| ids.contains(id));
                let both = (0..lists.len()).filter(|&at| asks(at, x) && asks(at, y));
                let benefit: u64 = both.map(|at| u64::from(lists.weight(at))).sum();
                let cost = cost(x.len() as u32, y.len() as u32);
                if let (Some(cost), true) = (cost, benefit > 0 && !x.is_empty()) {
                    let merge = Merge { parts: (a as u32, b as u32), benefit, cost };
                    best = best.max(Some((worth(benefit, cost), Reverse(a), Reverse(b), Bare(merge))));
                }
            }
        }
        let Some((.., Bare(merge))) = best else { return merges };
        total += merge.cost;
        if total > most {
            return merges;
        }
        let mut joined = std::mem::take(&mut clusters[merge.parts.0 as usize]);
        joined.append(&mut clusters[merge.parts.1 as usize]);
        clusters.push(joined);
        merges.push(merge);
    }
}

/// A merge that takes no part in comparisons.
struct Bare(Merge);

impl PartialEq for Bare {
    fn eq(&self, _: &Bare) -> bool {
        true
    }
}
impl Eq for Bare {}
impl PartialOrd for Bare {
    fn partial_cmp(&self, other: &Bare) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Bare {
    fn cmp(&self, _: &Bare) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

fn table(rows: u32, dim: usize, format: RowFormat, seed: u64) -> Table {
    let mut prng = Prng::new(seed);
    Table::from_rows(rows, dim, format, |_, row| {
        row.iter_mut().for_each(|x| *x = prng.unit_f64() as f32 * 2.0 - 1.0);
    })
    .expect("memory")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn greedy_is_the_definition(lists in lists(), ratio in 1.0..20.0) {
        let growth = grow(&lists, ratio);
        prop_assert_eq!(growth.merges(), naive(&lists, ratio));
    }

    #[test]
    fn what_is_saved_is_the_sum_of_benefits(lists in lists(), ratio in 1.0..20.0) {
        let growth = grow(&lists, ratio);
        let accesses = growth.plan(ratio).accesses(&sets(&lists));
        let saved: u64 = growth.merges().iter().map(|merge| merge.benefit).sum();
        prop_assert_eq!(accesses.plain - accesses.planned, saved);
    }

    #[test]
    fn a_smaller_budget_is_a_beginning(lists in lists(), small in 1.0..5.0, more in 0.0..15.0) {
        let plan = grow(&lists, small + more).plan(small);
        prop_assert_eq!(&plan, &grow(&lists, small).plan(small));
        prop_assert!(f64::from(plan.arena_rows()) <= f64::from(plan.rows()) * small);
    }

    #[test]
    fn limits_leave_pairs_out_and_nothing_else(lists in lists(), ratio in 1.0..20.0) {
        let limits = Limits { pairs: 1, query: 4 };
        let growth = Growth::new(&lists, ratio, limits, |_| ());
        let plan = growth.plan(ratio);
        prop_assert!(f64::from(plan.arena_rows()) <= f64::from(plan.rows()) * ratio);
        let accesses = plan.accesses(&sets(&lists));
        let saved: u64 = growth.merges().iter().map(|merge| merge.benefit).sum();
        prop_assert!(accesses.plain - accesses.planned >= saved);
    }

    #[test]
    fn reducing_keys_over_the_arena_is_reducing_ids_over_the_table(
        lists in lists(),
        ratio in 1.0..20.0,
        dim in (1..9usize).prop_map(|half| half * 2),
        (from, to) in (0..4usize, 0..4usize).prop_map(|(a, b)| (RowFormat::ALL[a], RowFormat::ALL[b])),
        seed: u64,
    ) {
        let rows = lists.features();
        let table = table(rows, dim, from, seed);
        let planned = Planned::new(grow(&lists, ratio).plan(ratio), &table, to).expect("memory");
        let plan = planned.plan();
        let mut prng = Prng::new(seed);
        // Random bags, some empty, ids repeat: those of the log and others.
        let (mut values, mut offsets) = (Vec::new(), vec![0]);
        for nth in 0..40 {
            match nth % 2 {
                0 => values.extend((0..prng.below(60)).map(|_| prng.below(rows.into()) as u32)),
                _ => values.extend_from_slice(lists.query(prng.below(lists.len() as u64) as usize)),
            }
            offsets.push(values.len() as u32);
        }
        let weights: Vec<f32> = values.iter().map(|_| prng.unit_f64() as f32 - 0.5).collect();
        let named: Vec<u32> = values.iter().map(|&id| plan.remap()[id as usize]).collect();
        for weights in [None, Some(&weights[..])] {
            for pooling in [Pooling::Sum, Pooling::Mean, Pooling::Max, Pooling::Min] {
                let bags = Bags::new(&values, &offsets, weights).expect("bags");
                let remapped = Bags::new(&named, &offsets, weights).expect("bags");
                let mut expected = vec![0.0; bags.len() * dim];
                reduce(&table, &bags, pooling, Tuning::default(), &mut expected).expect("ids");
                let mut scratch = PlanScratch::default();
                // Behind others, as in a request of several tables.
                let (mut keys, mut ends, mut sorted) = (vec![7; 3], vec![9; 2], Vec::new());
                planned.keys(&remapped, pooling, &mut sorted, &mut keys, &mut ends);
                let counts: Vec<u32> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let keys = Bags::keys(&keys[3..], &ends[2..], weights, &counts).expect("keys");
                for bags in [&bags, &keys] {
                    let mut got = vec![f32::NAN; expected.len()];
                    planned.reduce(bags, pooling, Tuning::default(), &mut scratch, &mut got).expect("ids");
                    for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                        // A row's error is half a step of a range of at most 2 for each of its members, and there may be as many rows as ids.
                        let step = match to { RowFormat::F32 => 2e-6, RowFormat::F16 => 2e-3, RowFormat::Int8 => 5e-3, RowFormat::Int4 => 0.08 };
                        let bound = step * (counts[at / dim] + 1) as f32;
                        prop_assert!((got - expected).abs() <= bound, "{pooling:?} {at}: {got} {expected} ± {bound}");
                    }
                }
            }
        }
    }

    #[test]
    fn keys_are_rows_of_the_arena_and_never_more_than_ids(lists in lists(), ratio in 1.0..20.0, seed: u64) {
        let plan = grow(&lists, ratio).plan(ratio);
        let mut prng = Prng::new(seed);
        let mut ids: Vec<u32> = (0..prng.below(80)).map(|_| prng.below(plan.rows().into()) as u32).collect();
        let (mut keys, mut again, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        plan.keys(&ids, &mut scratch, &mut keys);
        prop_assert!(keys.iter().all(|&row| row < plan.arena_rows()) && keys.len() <= ids.len());
        ids.sort_unstable();
        plan.keys(&ids, &mut scratch, &mut again);
        prop_assert_eq!(&keys, &again, "order does not count");
        // Each row comes back to a cluster and a mask: together they are the ids.
        let mut found: Vec<u32> = keys.iter().flat_map(|&row| members(&plan, row)).collect();
        found.sort_unstable();
        prop_assert_eq!(&found, &ids);
        keys.clear();
        plan.singles(&ids, &mut keys);
        let single: Vec<u32> = keys.iter().flat_map(|&row| members(&plan, row)).collect();
        prop_assert_eq!(single, ids);
    }

    #[test]
    fn a_file_gives_the_plan_back_and_one_flipped_byte_nothing(
        lists in lists(), ratio in 1.0..20.0, hash: u64, at: prop::sample::Index, flip in 1..=255u8,
    ) {
        let plan = grow(&lists, ratio).plan(ratio);
        let mut bytes = plan.save(hash);
        prop_assert_eq!(Plan::load(&bytes, plan.rows(), hash), Ok(plan.clone()));
        prop_assert_eq!(Plan::load(&bytes, plan.rows(), !hash), Err(PlanError::Table(hash, !hash)));
        let more = plan.rows() + 1;
        prop_assert_eq!(Plan::load(&bytes, more, hash), Err(PlanError::Rows(plan.rows(), more)));
        let at = at.index(bytes.len());
        prop_assert!(Plan::load(&bytes[..at], plan.rows(), hash).is_err());
        bytes[at] ^= flip;
        prop_assert!(Plan::load(&bytes, plan.rows(), hash).is_err());
        // With a right checksum nothing may panic, and what is accepted is a plan.
        let body = bytes.len() - 4;
        let sum = crc32c::crc32c(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
        if let Ok(plan) = Plan::load(&bytes, plan.rows(), hash) {
            let ids: Vec<u32> = (0..plan.rows()).collect();
            let mut keys = Vec::new();
            plan.keys(&ids, &mut Vec::new(), &mut keys);
            prop_assert!(keys.iter().all(|&row| row < plan.arena_rows()));
        }
    }
}

/// The ids, by their new names, whose sum a row of the arena is.
fn members(plan: &Plan, row: u32) -> Vec<u32> {
    let group = plan.groups().iter().rposition(|group| group.base <= row).expect("the first begins at 0");
    let Group { offset, size, base } = plan.groups()[group];
    let each = (1 << size) - 1;
    let (nth, mask) = ((row - base) / each, (row - base) % each + 1);
    assert!(nth < plan.clusters(group));
    (0..size).filter(|bit| mask >> bit & 1 == 1).map(|bit| offset + nth * size + bit).collect()
}

#[test]
fn a_pair_that_is_always_asked_together_becomes_a_row() {
    let mut lists = Lists::new(5).expect("5");
    lists.push(3, &[4, 1]).expect("a query");
    lists.push(1, &[0, 2]).expect("a query");
    let growth = grow(&lists, 1.25);
    assert_eq!(growth.merges(), [Merge { parts: (1, 4), benefit: 3, cost: 1 }]);
    let plan = growth.plan(1.25);
    assert_eq!(plan.groups(), [Group { offset: 0, size: 2, base: 0 }, Group { offset: 2, size: 1, base: 3 }]);
    // The pair first, then single ids: as often as they are asked, then by id; the unasked last.
    assert_eq!((plan.remap(), plan.arena_rows()), (&[2, 0, 3, 4, 1][..], 6));
    let accesses = plan.accesses(&lists);
    assert_eq!(accesses, Accesses { plain: 8, planned: 5 });
    // Half of the queries have an id that the table has not.
    let mut others = Lists::new(9).expect("9");
    others.push(1, &[8, 1, 4]).expect("a query");
    assert_eq!(plan.accesses(&others), Accesses { plain: 3, planned: 2 });
}

#[test]
fn no_budget_is_names_alone() {
    let mut lists = Lists::new(3).expect("3");
    lists.push(9, &[2, 1]).expect("a query");
    for ratio in [1.0, 0.0, -1.0, f64::NAN] {
        let plan = grow(&lists, 9.0).plan(ratio);
        assert_eq!((plan.arena_rows(), plan.remap()), (3, &[2, 0, 1][..]));
    }
}

#[test]
fn forged_groups_are_refused() {
    let load = |rows: u32, groups: &[(u32, u32)], remap: &[u32]| {
        let mut bytes = b"MRPLAN01".to_vec();
        bytes.extend_from_slice(&7u64.to_le_bytes());
        let sizes = groups.iter().flat_map(|&(size, clusters)| [size, clusters]);
        let words = [rows, groups.len() as u32].into_iter().chain(sizes).chain(remap.iter().copied());
        words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        Plan::load(&bytes, rows, 7)
    };
    assert!(load(3, &[(2, 1), (1, 1)], &[2, 0, 1]).is_ok());
    for groups in
        [&[(1, 1), (2, 1)][..], &[(0, 3)], &[(32, 1)], &[(3, 0)], &[(2, 1)], &[(2, 2)], &[(3, u32::MAX)]]
    {
        assert_eq!(load(3, groups, &[2, 0, 1]), Err(PlanError::Groups), "{groups:?}");
    }
    // Rows of the arena beyond 32 bits: three clusters of 31.
    let ids: Vec<u32> = (0..93).collect();
    assert_eq!(load(93, &[(31, 3)], &ids), Err(PlanError::Groups));
    assert!(load(62, &[(31, 2)], &ids[..62]).is_ok());
    assert_eq!(load(3, &[(1, 3)], &[2, 0, 2]), Err(PlanError::Remap));
    assert_eq!(load(3, &[(1, 3)], &[2, 0, 3]), Err(PlanError::Remap));
    assert_eq!(load(3, &[(1, 3)], &[2, 0]), Err(PlanError::Length(44)));
}
