//! What the rows of an experiment rest on: every number of a platform that it reads is moved to both ends of its range, and the experiment run again.
//!
//! The runs are independent, and whoever asks may run them on threads: [`Question::ask`] runs it as it is, [`Move::run`] each move, [`Question::answer`] puts
//! together. As in [`crate::platform::audit`], a class's share is that of squared swings; here over all rows.

use super::{Experiment, Row, Rows};
use crate::platform::audit::{Audit, Swing};
use crate::platform::{Class, LoadError, Platform, Platforms};

/// An experiment whose rows are doubted.
#[derive(Clone, Debug)]
pub struct Question {
    experiment: Experiment,
    seed: u64,
    platform: Platform,
    rows: Rows,
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
}

impl Move {
    /// The rows with the number there.
    ///
    /// # Errors
    /// The experiment's.
    pub fn run(&self) -> Result<Rows, LoadError> {
        (self.experiment.run)(&Platforms::shipped().with(self.platform.clone()), self.seed)
    }
}

impl Question {
    /// Runs the experiment with this platform in place of the one of its name.
    ///
    /// # Errors
    /// The experiment's.
    pub fn ask(experiment: Experiment, platform: &Platform, seed: u64) -> Result<Question, LoadError> {
        let platforms = Platforms::shipped().with(platform.clone());
        let rows = (experiment.run)(&platforms, seed)?;
        let taken = platforms.taken().into_iter().find(|taken| taken.name == platform.name);
        let read = taken.map_or(vec![], |taken| taken.were_read());
        Ok(Question { experiment, seed, platform: platform.unread(), rows, read })
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
            }));
        }
        moves
    }

    /// With the rows of each move, in their order.
    pub fn answer(self, moved: &[Rows]) -> Answer {
        let moves = self.moves();
        assert_eq!(moves.len(), moved.len(), "every move was run");
        let pairs = || moves.chunks_exact(2).zip(moved.chunks_exact(2));
        let rows = self.rows.iter().filter(|row| row.value.is_finite() && row.value != 0.0).map(|row| {
            let departure = |rows: &Rows| {
                let there = rows.find(row.experiment, &row.variant, &row.point, row.metric);
                there.map_or(0.0, |there| there.value / row.value - 1.0)
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
        let names = self.rows.first().map(|(_, audit)| audit.swings.iter()).into_iter().flatten();
        let mut doubts: Vec<_> = names.map(|swing| self.doubt(&swing.number, swing.class)).collect();
        doubts.retain(|doubt| doubt.mean > 0.0);
        doubts.sort_by(|a, b| b.mean.total_cmp(&a.mean).then_with(|| a.number.cmp(&b.number)));
        doubts
    }

    fn doubt(&self, number: &str, class: Class) -> Doubt {
        let mut doubt = Doubt { number: number.into(), class, mean: 0.0, most: (0.0, 0.0), row: 0 };
        let (mut squares, mut largest) = (0.0, 0.0);
        for (at, (_, audit)) in self.rows.iter().enumerate() {
            let Some(swing) = audit.swings.iter().find(|swing| swing.number == number) else { continue };
            squares += swing.size() * swing.size();
            if swing.size() > largest {
                (largest, doubt.most, doubt.row) = (swing.size(), (swing.low, swing.high), at);
            }
        }
        doubt.mean = (squares / self.rows.len().max(1) as f64).sqrt();
        doubt
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
