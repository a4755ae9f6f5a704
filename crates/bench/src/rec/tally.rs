//! Stages of requests, as replies tell them.

use crate::report::StageBreakdown;
use crate::tally::{self, Merge, histogram};
use hdrhistogram::Histogram;
use serve::rec::Stages;

/// What a load gives.
pub type Tally = tally::Tally<StageTally>;

/// Names of stages, in order.
const NAMES: [&str; 6] = ["queue", "parse", "preprocess", "wait", "reduce", "mlp"];

/// Times of each stage.
#[derive(Clone, Debug)]
pub struct StageTally {
    stages: Vec<Histogram<u64>>,
    totals: [u64; 6],
    together: u64,
}

impl Default for StageTally {
    fn default() -> StageTally {
        StageTally { stages: vec![histogram(); NAMES.len()], totals: [0; 6], together: 0 }
    }
}

impl StageTally {
    /// A reply.
    pub fn note(&mut self, of: &Stages) {
        let times = [of.queue, of.parse, of.preprocess, of.wait, of.reduce, of.mlp];
        for ((histogram, total), time) in self.stages.iter_mut().zip(&mut self.totals).zip(times) {
            histogram.saturating_record(time.0.max(1));
            *total += time.0;
        }
        self.together += u64::from(of.together);
    }
}

/// With those of another connection.
impl Merge for StageTally {
    fn merge(&mut self, other: &StageTally) {
        for (mine, theirs) in self.stages.iter_mut().zip(&other.stages) {
            mine.add(theirs).expect("the same bounds");
        }
        self.totals.iter_mut().zip(other.totals).for_each(|(mine, theirs)| *mine += theirs);
        self.together += other.together;
    }
}

impl StageTally {
    /// Queries that were computed together, on average over requests.
    pub fn together(&self) -> f64 {
        self.together as f64 / (self.stages[0].len() as f64).max(1.0)
    }

    /// As figures.
    pub fn breakdown(&self) -> Vec<StageBreakdown> {
        let of = |((name, histogram), total): ((&&str, &Histogram<u64>), &u64)| StageBreakdown {
            name: (*name).to_owned(),
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            total_ns: *total,
        };
        NAMES.iter().zip(&self.stages).zip(&self.totals).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Nanos;

    #[test]
    fn stages_add_up() {
        let mut one = StageTally::default();
        one.note(&Stages { mlp: Nanos(3000), together: 2, ..Stages::default() });
        let mut both = one.clone();
        both.merge(&one);
        let mlp = both.breakdown().pop().expect("the last");
        assert_eq!((&mlp.name[..], mlp.count, mlp.total_ns, both.together()), ("mlp", 2, 6000, 2.0));
    }
}
