//! What the rows of an experiment rest on: every number of a platform that it reads is moved to both ends of its range, and the experiment run again.
//!
//! The runs are independent, and whoever asks may run them on threads: [`Question::ask`] runs it as it is, [`Question::within`] bounds what all of them
//! cost, [`Move::run`] runs each move, [`Question::answer`] puts together. Simulations that a number does not touch are taken from the first run
//! ([`crate::rerun`]). As in [`crate::platform::audit`], a class's share is that of squared swings; here over all rows.

use super::{Experiment, Row, Rows};
use crate::platform::audit::{Audit, Swing};
use crate::platform::{Class, LoadError, Platform, Platforms};
use crate::rerun::{self, Recording};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An experiment whose rows are doubted.
#[derive(Clone, Debug)]
pub struct Question {
    experiment: Experiment,
    seed: u64,
    platform: Platform,
    rows: Rows,
    /// The same rows, of runs as short as those of the moves.
    base: Rows,
    recording: Arc<Recording>,
    /// Names of the numbers that it read.
    read: Vec<String>,
}

/// A number moved to an end of its range; two by two, the lower end first.
#[derive(Clone, Debug)]
pub struct Move {
    /// Which number.
    pub number: String,
    /// To where, in its unit.
    pub value: f64,
    experiment: Experiment,
    seed: u64,
    platform: Platform,
    recording: Arc<Recording>,
}

/// Spans are not divided by more: what is left would be noise.
const MAX_DIVISOR: u64 = 32;

impl Move {
    /// The rows with the number there.
    ///
    /// # Errors
    /// The experiment's.
    pub fn run(&self) -> Result<Rows, LoadError> {
        let platforms = Platforms::shipped().with(self.platform.clone());
        rerun::reuse(&self.recording, || (self.experiment.run)(&platforms, self.seed))
    }
}

impl Question {
    /// Runs the experiment with this platform in place of the one of its name.
    ///
    /// # Errors
    /// The experiment's.
    pub fn ask(experiment: Experiment, platform: &Platform, seed: u64) -> Result<Question, LoadError> {
        let platforms = Platforms::shipped().with(platform.clone());
        let (rows, recording) = rerun::record(1, || (experiment.run)(&platforms, seed));
        let rows = rows?;
        let taken = platforms.taken().into_iter().find(|taken| taken.name == platform.name);
        let read = taken.map_or(vec![], |taken| taken.were_read());
        let (base, recording) = (rows.clone(), Arc::new(recording));
        Ok(Question { experiment, seed, platform: platform.unread(), rows, base, recording, read })
    }

    /// The same, with runs of the moves so short that all together have about so many events, if that can be: their spans are divided,
    /// and departures are from a run that is as short and has the same seed. The rows' own values stay those of the whole run.
    ///
    /// # Errors
    /// The experiment's.
    pub fn within(mut self, events: u64) -> Result<Question, LoadError> {
        let all = self.recording.events().saturating_mul(self.moves().len() as u64);
        let divisor = all.div_ceil(events.max(1)).min(MAX_DIVISOR);
        if divisor > self.recording.divisor() {
            let platforms = Platforms::shipped().with(self.platform.clone());
            let (base, recording) = rerun::record(divisor, || (self.experiment.run)(&platforms, self.seed));
            (self.base, self.recording) = (base?, Arc::new(recording));
        }
        Ok(self)
    }

    /// By how much the moves' spans are shorter than the experiment's.
    pub fn divisor(&self) -> u64 {
        self.recording.divisor()
    }

    /// The runs that an answer needs: of every number that was read and could be another, both ends.
    pub fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (name, number) in self.platform.numbers().filter(|(name, _)| self.read.iter().any(|r| r == name))
        {
            let (least, most) = number.range;
            let ends = if least < most { vec![least, most] } else { vec![] };
            moves.extend(ends.into_iter().map(|value| Move {
                number: name.into(),
                value,
                experiment: self.experiment,
                seed: self.seed,
                platform: self.platform.with(name, value),
                recording: Arc::clone(&self.recording),
            }));
        }
        moves
    }

    /// With the rows of each move, in their order.
    pub fn answer(self, moved: &[Rows]) -> Answer {
        let moves = self.moves();
        assert_eq!(moves.len(), moved.len(), "every move was run");
        let pairs = || moves.chunks_exact(2).zip(moved.chunks_exact(2));
        let numbered = self.rows.iter().enumerate();
        let rows = numbered.filter(|(_, row)| row.value.is_finite() && row.value != 0.0).map(|(at, row)| {
            let before = same(&self.base, at, row).map_or(f64::NAN, |row| row.value);
            let departure = |rows: &Rows| {
                let departure = same(rows, at, row).map_or(0.0, |there| there.value / before - 1.0);
                if departure.is_finite() { departure } else { 0.0 }
            };
            let swings = pairs().map(|(ends, rows)| Swing {
                class: self.class(&ends[0].number),
                number: ends[0].number.clone(),
                low: departure(&rows[0]),
                high: departure(&rows[1]),
            });
            (row.clone(), Audit::from_swings(row.value, swings.collect()))
        });
        let rows = rows.collect();
        Answer { experiment: self.experiment.id, platform: self.platform.name, read: self.read, rows }
    }

    fn class(&self, number: &str) -> Class {
        let (_, number) =
            self.platform.numbers().find(|(name, _)| *name == number).expect("it was read from there");
        number.class
    }
}

/// The row of this name, which is nearly always where it was: looking through all of them for each took longer than to run the experiment.
fn same<'r>(rows: &'r Rows, at: usize, row: &Row) -> Option<&'r Row> {
    let key = |row: &Row| (row.experiment, row.metric);
    let is_it =
        |there: &&Row| key(there) == key(row) && there.variant == row.variant && there.point == row.point;
    let there = rows.0.get(at).filter(is_it);
    there.or_else(|| rows.find(row.experiment, &row.variant, &row.point, row.metric))
}

/// What an experiment's rows rest on.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Which experiment.
    pub experiment: &'static str,
    /// Which platform was doubted.
    pub platform: String,
    /// Numbers of it that were read.
    pub read: Vec<String>,
    /// Every row with its audit; rows whose value is 0 have none.
    pub rows: Vec<(Row, Audit)>,
}

/// What one number does to all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// Its name.
    pub number: String,
    /// Its class.
    pub class: Class,
    /// How far it moves a row, root of the mean square over all rows.
    pub mean: f64,
    /// How far it moves the row that it moves most: at the lower end of its range, and at the upper.
    pub most: (f64, f64),
    /// Which row that is, as an index.
    pub row: usize,
}

impl Answer {
    /// Keeps only rows that `which` says.
    pub fn retain(&mut self, which: impl Fn(&Row) -> bool) {
        self.rows.retain(|(row, _)| which(row));
    }

    /// By number, the one that moves rows most first; those that move none are left out.
    pub fn doubts(&self) -> Vec<Doubt> {
        let mut doubts: BTreeMap<&str, (Doubt, f64)> = BTreeMap::new();
        for (at, (_, audit)) in self.rows.iter().enumerate() {
            for swing in &audit.swings {
                let (doubt, largest) = doubts.entry(&swing.number).or_insert_with(|| {
                    let number = swing.number.clone();
                    (Doubt { number, class: swing.class, mean: 0.0, most: (0.0, 0.0), row: 0 }, 0.0)
                });
                // So far the sum of squares.
                doubt.mean += swing.size() * swing.size();
                if swing.size() > *largest {
                    (*largest, doubt.most, doubt.row) = (swing.size(), (swing.low, swing.high), at);
                }
            }
        }
        let mut doubts: Vec<Doubt> = doubts.into_values().map(|(doubt, _)| doubt).collect();
        let rows = self.rows.len().max(1) as f64;
        doubts.iter_mut().for_each(|doubt| doubt.mean = (doubt.mean / rows).sqrt());
        doubts.retain(|doubt| doubt.mean > 0.0);
        doubts.sort_by(|a, b| b.mean.total_cmp(&a.mean).then_with(|| a.number.cmp(&b.number)));
        doubts
    }

    /// The share of the doubt in all rows that numbers of this class have; 0 where nothing moves a row.
    pub fn share(&self, class: Class) -> f64 {
        let doubts = self.doubts();
        let squares = |which: &dyn Fn(&&Doubt) -> bool| -> f64 {
            doubts.iter().filter(which).map(|doubt| doubt.mean * doubt.mean).sum()
        };
        let whole = squares(&|_| true);
        // The sum of nothing is −0.
        if whole == 0.0 { 0.0 } else { squares(&|doubt| doubt.class == class).abs() / whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::toy;

    #[test]
    fn a_row_rests_on_what_moves_it() {
        let question = Question::ask(toy::EXPERIMENT, &toy::platform(), 1).expect("it is complete");
        let moves = question.moves();
        assert_eq!(
            moves.iter().map(|m| (&*m.number, m.value)).collect::<Vec<_>>(),
            [("nic.latency", 50.0), ("nic.latency", 200.0), ("nic.rate", 5.0), ("nic.rate", 20.0)]
        );
        let rows: Vec<_> = moves.iter().map(|one| one.run().expect("it is complete")).collect();
        let mut answer = question.answer(&rows);
        assert_eq!(answer.rows.len(), 2);
        let doubts = answer.doubts();
        // Latency 100 ns and the service of 100 ns: half more or a quarter less by either; the rate moves throughput too.
        assert_eq!((&*doubts[0].number, doubts[0].most), ("nic.rate", (-0.5, 1.0)));
        assert!((answer.share(Class::Fitted) - 0.25 / (0.25 + 0.25 + 1.0)).abs() < 1e-9);
        answer.retain(|row| row.metric == "latency");
        let (_, audit) = &answer.rows[0];
        assert!((audit.doubtful() - 0.5).abs() < 1e-9, "{audit:?}");
    }
}
