//! Clusters grown from a log: the pair of clusters that saves most accesses for each new row is merged, again and again.
//!
//! ```text
//!  benefit(A, B) = Σ weight(q), q asks members of both      accesses that the merge saves
//!  cost(A, B)    = (2^(a+b) − 1) − (2^a − 1) − (2^b − 1)    rows that it adds
//! ```
//! Begins with a cluster for each id; a merged cluster is asked by the queries that asked either part. Stops when the best pair would need more rows than
//! there may be. Since each step is the same whatever the budget, the plan for a smaller budget is a beginning of the same sequence: one growth serves all.
//!
//! Shape: clusters have names, ids first and then a new one for each merge, so an entry of the heap that names a merged cluster is recognised as dead. Each
//! query keeps the names of the clusters it asks; a merge walks the queries of the new cluster once and so finds the benefits of all its pairs. That is
//! exact and cheaper than keeping pair counts: no map of pairs exists.
//!
//! Invariants: (1) a live pair with a benefit is in the heap exactly as it counts now, unless [`Limits`] left it out; (2) the sum of benefits is what
//! [`super::Plan::accesses`] says is saved on the log that was grown from, if its queries are sets.
//!
//! Order among equals: the pair with the lower names first, so that a growth is the same everywhere.
//!
//! Bounds: memory for ids of the log twice, and 16 bytes for each live pair times two at most; [`Limits::pairs`] bounds the pairs.
//!
//! Cost: 20 thousand lists with 328 thousand ids to nine times the rows: see `docs/measurements/rec-memo.md`.

use super::{MAX_CLUSTER, Plan};
use crate::lists::Lists;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a growth leaves out of a large log.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// If the log may have more pairs than this, only some are candidates: those asked at least twice, and of each id or merged cluster its
    /// best partners, so many that all ids together stay within this.
    pub pairs: usize,
    /// A query of more different ids than this is no source of pairs: it would have millions and say little about any of them.
    pub query: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { pairs: 1 << 25, query: 1024 }
    }
}

/// One step of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// What is merged: an id, or [`Growth::rows`] plus the place of an earlier merge. The lower name first.
    pub parts: (u32, u32),
    /// Accesses that it saves.
    pub benefit: u64,
    /// Rows that it adds.
    pub cost: u64,
}

/// All steps to the greatest budget.
#[derive(Clone, Debug)]
pub struct Growth {
    rows: u32,
    /// How often each id is asked.
    heat: Vec<u64>,
    merges: Vec<Merge>,
}

/// An entry of the heap: the greatest first, of equals the lowest names.
type Candidate = (u64, Reverse<u32>, Reverse<u32>);

/// Rows that merging clusters of these sizes adds; `None` if the result would be too large to be a cluster.
pub(super) fn cost(a: u32, b: u32) -> Option<u64> {
    // (2^(a+b) − 1) − (2^a − 1) − (2^b − 1), factored.
    (a + b <= MAX_CLUSTER).then(|| ((1 << a) - 1) * ((1 << b) - 1))
}

/// Rows that `ratio` times `rows` are.
pub(super) fn target(rows: u32, ratio: f64) -> u64 {
    // A conversion from f64 saturates, and makes 0 of what is no number.
    ((f64::from(rows) * ratio) as u64).clamp(rows.into(), u32::MAX.into())
}

/// A benefit for each row of cost, as bits in the order of the numbers (they are positive).
pub(super) fn worth(benefit: u64, cost: u64) -> u64 {
    (benefit as f64 / cost as f64).to_bits()
}

impl Growth {
    /// Grows clusters over the queries of `lists` until the arena has `ratio` times as many rows as the table. `progress` is told from time to time which
    /// part of the way is gone, 0 to 1.
    pub fn new(lists: &Lists, ratio: f64, limits: Limits, mut progress: impl FnMut(f64)) -> Growth {
        let rows = lists.features();
        let most = target(rows, ratio);
        let mut state = State::new(lists, limits);
        state.seed();
        let mut merges = Vec::new();
        let mut total = u64::from(rows);
        while let Some((_, Reverse(a), Reverse(b))) = state.heap.pop() {
            if state.sizes[a as usize] == 0 || state.sizes[b as usize] == 0 {
                continue;
            }
            let cost = cost(state.sizes[a as usize], state.sizes[b as usize])
                .expect("pairs too large are no candidates");
            if total + cost > most {
                break;
            }
            total += cost;
            let benefit = state.merge(a, b);
            merges.push(Merge { parts: (a, b), benefit, cost });
            if merges.len().is_multiple_of(64) {
                progress((total - u64::from(rows)) as f64 / (most - u64::from(rows)).max(1) as f64);
            }
        }
        Growth { rows, heat: heat(lists), merges }
    }

    /// Rows of the table.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// All steps, in order.
    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// The plan for a budget of `ratio` times the table's rows, at most the budget that was grown to.
    pub fn plan(&self, ratio: f64) -> Plan {
        let most = target(self.rows, ratio);
        let fits = |total: &mut u64, merge: &Merge| {
            *total += merge.cost;
            (*total <= most).then_some(())
        };
        let steps = self.merges.iter().scan(u64::from(self.rows), fits).count();
        self.after(steps)
    }

    /// The plan after so many steps.
    fn after(&self, steps: usize) -> Plan {
        let mut clusters: Vec<Vec<u32>> = (0..self.rows).map(|id| vec![id]).collect();
        for merge in &self.merges[..steps] {
            let mut joined = std::mem::take(&mut clusters[merge.parts.0 as usize]);
            joined.append(&mut clusters[merge.parts.1 as usize]);
            clusters.push(joined);
        }
        clusters.retain(|members| !members.is_empty());
        clusters.iter_mut().for_each(|members| members.sort_unstable());
        let heat = |members: &[u32]| members.iter().map(|&id| self.heat[id as usize]).sum::<u64>();
        clusters.sort_by_cached_key(|members| (Reverse(members.len()), Reverse(heat(members)), members[0]));
        let mut remap = vec![0; self.rows as usize];
        clusters.iter().flatten().zip(0..).for_each(|(&old, new)| remap[old as usize] = new);
        let sizes: Vec<(u32, u32)> = clusters
            .chunk_by(|a, b| a.len() == b.len())
            .map(|group| (group[0].len() as u32, group.len() as u32))
            .collect();
        Plan::from_parts(remap, &sizes).expect("clusters are disjoint, sorted by size and within the budget")
    }
}

/// How often each id is asked.
fn heat(lists: &Lists) -> Vec<u64> {
    let mut heat = vec![0; lists.features() as usize];
    for (weight, ids) in lists.iter() {
        ids.iter().for_each(|&id| heat[id as usize] += u64::from(weight));
    }
    heat
}

struct State {
    /// For each name the queries that ask it, ascending; empty once it is merged.
    asked_by: Vec<Vec<u32>>,
    /// For each name how many ids; 0 once it is merged.
    sizes: Vec<u32>,
    /// For each query where its names begin, and how many are left.
    spans: Vec<(usize, u32)>,
    names: Vec<u32>,
    weights: Vec<u64>,
    heap: BinaryHeap<Candidate>,
    /// Entries at which the dead are thrown out.
    sweep_at: usize,
    /// How many partners a cluster may have, if not all.
    partners: Option<usize>,
    /// Benefits with the cluster in hand, by name; all 0 between.
    sums: Vec<u64>,
    touched: Vec<u32>,
}

impl State {
    fn new(lists: &Lists, limits: Limits) -> State {
        let features = lists.features() as usize;
        let mut state = State {
            asked_by: vec![Vec::new(); features],
            sizes: vec![1; features],
            spans: Vec::new(),
            names: Vec::new(),
            weights: Vec::new(),
            heap: BinaryHeap::new(),
            sweep_at: 1 << 20,
            partners: None,
            sums: vec![0; features],
            touched: Vec::new(),
        };
        let mut pairs = 0;
        for at in 0..lists.len() {
            let set = lists.set(at);
            // Neither has a pair to offer.
            if set.len() < 2 || set.len() > limits.query {
                continue;
            }
            pairs += set.len() * (set.len() - 1) / 2;
            let query = state.spans.len() as u32;
            set.iter().for_each(|&id| state.asked_by[id as usize].push(query));
            state.spans.push((state.names.len(), set.len() as u32));
            state.names.extend_from_slice(&set);
            state.weights.push(lists.weight(at).into());
        }
        if pairs > limits.pairs {
            state.partners = Some((limits.pairs / features).clamp(4, 64));
        }
        state
    }

    /// Offers all pairs of ids.
    fn seed(&mut self) {
        let mut found = Vec::new();
        for id in 0..self.asked_by.len() as u32 {
            let queries = std::mem::take(&mut self.asked_by[id as usize]);
            self.count(id, &queries);
            self.asked_by[id as usize] = queries;
            // Each pair once, from its lower id; where partners are limited a pair counts if it is among the best of either.
            let all = self.partners.is_none();
            self.drain(id, |other| all && other < id, &mut found);
        }
        self.heap = BinaryHeap::from(found);
        self.sweep_at = self.sweep_at.max(2 * self.heap.len());
    }

    /// Merges two clusters and offers all pairs of the new one; the benefit.
    fn merge(&mut self, a: u32, b: u32) -> u64 {
        let new = self.sizes.len() as u32;
        self.sizes.push(self.sizes[a as usize] + self.sizes[b as usize]);
        self.sums.push(0);
        let mut benefit = 0;
        let parts = [a, b].map(|part| {
            self.sizes[part as usize] = 0;
            std::mem::take(&mut self.asked_by[part as usize])
        });
        let queries = union(&parts[0], &parts[1]);
        for &query in &queries {
            let (start, len) = &mut self.spans[query as usize];
            let names = &mut self.names[*start..*start + *len as usize];
            let mut places = (0..names.len()).filter(|&at| names[at] == a || names[at] == b);
            let first = places.next().expect("the query asks one of them");
            let second = places.next();
            names[first] = new;
            if let Some(second) = second {
                names.swap(second, *len as usize - 1);
                *len -= 1;
                benefit += self.weights[query as usize];
            }
        }
        self.count(new, &queries);
        self.asked_by.push(queries);
        let mut found = Vec::new();
        self.drain(new, |_| false, &mut found);
        self.heap.extend(found);
        if self.heap.len() > self.sweep_at {
            self.heap.retain(|(_, a, b)| self.sizes[a.0 as usize] > 0 && self.sizes[b.0 as usize] > 0);
            self.sweep_at = (1 << 20).max(2 * self.heap.len());
        }
        benefit
    }

    /// Adds up into `sums` the benefit of `name` with every other cluster that its `queries` ask.
    fn count(&mut self, name: u32, queries: &[u32]) {
        for &query in queries {
            let (start, len) = self.spans[query as usize];
            let weight = self.weights[query as usize];
            for &other in &self.names[start..start + len as usize] {
                let sum = &mut self.sums[other as usize];
                if *sum == 0 && other != name {
                    self.touched.push(other);
                }
                *sum += weight;
            }
        }
        self.sums[name as usize] = 0;
    }

    /// Turns what was counted for `name` into candidates and clears it.
    fn drain(&mut self, name: u32, skip: impl Fn(u32) -> bool, found: &mut Vec<Candidate>) {
        let least = if self.partners.is_some() { 2 } else { 1 };
        let begin = found.len();
        for other in self.touched.drain(..) {
            let benefit = std::mem::take(&mut self.sums[other as usize]);
            let cost = cost(self.sizes[name as usize], self.sizes[other as usize]);
            if let (Some(cost), false) = (cost, benefit < least || skip(other)) {
                found.push((worth(benefit, cost), Reverse(name.min(other)), Reverse(name.max(other))));
            }
        }
        if let Some(most) = self.partners
            && found.len() - begin > most
        {
            found[begin..].select_nth_unstable_by_key(most, |&candidate| Reverse(candidate));
            found.truncate(begin + most);
        }
    }
}

/// What is in either of two ascending lists.
fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        out.push(x.min(y));
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
}
