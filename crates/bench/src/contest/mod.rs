//! Comparisons of things that are measured in turns: short slices, so that all see the same machine, and neighbours in time can be divided.
//!
//! ```text
//!   round: for each cell (what is asked) for each side (who is asked): warm up · probe · slice · probe      in an order that cancels drift
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `ratio` | one metric of two sides, pair by pair |
//! | `show` | tables and plots that all comparisons share |
//!
//! Why so: what else runs on the machine, and where its host puts the cores, changes from second to second. Two slices side by side see nearly
//! the same machine. The probe says what the two cores shared before and after a slice; what to make of a change is the user's to say.
//!
//! Users: `bench --vs` and `bench --keys` with a list, `rpc bench --transports`, `txn bench`, `rec bench`, `probe`'s echo servers; of `prove`,
//! `lab bench`, `lab compute` and `soak attack`.

mod ratio;
pub mod show;

pub use ratio::{Ratio, maybe};

use base::Prng;
use indicatif::ProgressBar;
use ring::probe;
use serde::Serialize;
use serve::process::progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One probe of the machine takes this long.
const PROBE_TIME: Duration = Duration::from_millis(2);

/// In which order the turns of a round come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Cell after cell, each with all sides: forwards in one round and backwards in the next (A B B A), so that drift meets all.
    BackAndForth,
    /// Cell after cell, each with all sides in the same order: where one side leaves something behind for the other.
    Fixed,
    /// Cell after cell, each round beginning with another side: for more than two, none of which is always between the same neighbours.
    Rotated,
    /// Every turn of a round anywhere in it, drawn with this seed: for many cells, whose neighbours should be others each time.
    Shuffled(u64),
}

/// A slice to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// In which round, from 0.
    pub round: u32,
    /// What is asked.
    pub cell: usize,
    /// Who is asked.
    pub side: usize,
}

/// What came of a slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample<F> {
    /// In which round.
    pub round: u32,
    /// What the two cores shared before the slice and after it; unknown where they were not probed.
    pub distances: [Option<String>; 2],
    /// What was measured.
    #[serde(flatten)]
    pub figures: F,
}

impl<F> Sample<F> {
    /// What the cores shared all the time; none if that changed or is not known.
    pub fn distance(&self) -> Option<&str> {
        let [before, after] = &self.distances;
        before.as_deref().filter(|_| before == after)
    }
}

/// What a slice comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice<F> {
    /// Its figures.
    Measured(F),
    /// It is not to count.
    LeftOut,
    /// The comparison ends here, with what there is.
    Over,
}

/// All sides of a comparison.
pub trait Sides {
    /// What a slice gives.
    type Figures;
    /// Why it cannot go on.
    type Error;

    /// What the progress bar says.
    fn name(&self, turn: Turn) -> String;

    /// Whether the side can do what the cell asks.
    fn can(&self, _turn: Turn) -> bool {
        true
    }

    /// Goes before the probe and the slice, and counts for nothing.
    ///
    /// # Errors
    /// It cannot go on.
    fn warm_up(&mut self, _turn: Turn) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Measures.
    ///
    /// # Errors
    /// It cannot go on.
    fn slice(&mut self, turn: Turn) -> Result<Slice<Self::Figures>, Self::Error>;
}

/// Sides that are no more than a name and a slice.
pub fn by<F, E>(
    name: impl Fn(Turn) -> String,
    slice: impl FnMut(Turn) -> Result<Slice<F>, E>,
) -> impl Sides<Figures = F, Error = E> {
    By { name, slice }
}

struct By<N, S> {
    name: N,
    slice: S,
}

impl<F, E, N: Fn(Turn) -> String, S: FnMut(Turn) -> Result<Slice<F>, E>> Sides for By<N, S> {
    type Figures = F;
    type Error = E;

    fn name(&self, turn: Turn) -> String {
        (self.name)(turn)
    }

    fn slice(&mut self, turn: Turn) -> Result<Slice<F>, E> {
        (self.slice)(turn)
    }
}

/// See the file's head.
pub struct Contest<'a> {
    /// How many are asked.
    pub sides: usize,
    /// How many things they are asked.
    pub cells: usize,
    /// How often.
    pub rounds: u32,
    /// In which order.
    pub order: Order,
    /// The cores to probe before and after each slice, the caller's first.
    pub cores: Option<[usize; 2]>,
    /// Becomes true when it is to end, with what there is.
    pub stop: &'a AtomicBool,
    /// Moves from .1 to .2 of its length.
    pub bar: (&'a ProgressBar, f64, f64),
}

/// What all sides did in all cells.
#[derive(Clone, Debug)]
pub struct Samples<F> {
    cells: Vec<Vec<Vec<Sample<F>>>>,
    /// Rounds that were begun.
    pub rounds: u32,
}

impl<F> Samples<F> {
    /// Takes those of a side in a cell, round by round.
    pub fn take(&mut self, cell: usize, side: usize) -> Vec<Sample<F>> {
        std::mem::take(&mut self.cells[cell][side])
    }

    /// Of one cell, only rounds that all sides finished.
    pub fn whole_rounds(&mut self, cell: usize) -> Vec<Vec<Sample<F>>> {
        let sides = std::mem::take(&mut self.cells[cell]);
        let rounds = |side: &Vec<Sample<F>>| side.iter().map(|sample| sample.round).collect::<Vec<_>>();
        let all: Vec<Vec<u32>> = sides.iter().map(rounds).collect();
        let is_whole = |sample: &Sample<F>| all.iter().all(|rounds| rounds.contains(&sample.round));
        sides.into_iter().map(|side| side.into_iter().filter(is_whole).collect()).collect()
    }
}

impl<'a> Contest<'a> {
    /// Of so many sides and cells, without a probe.
    pub fn new(
        (sides, cells): (usize, usize),
        (rounds, order): (u32, Order),
        stop: &'a AtomicBool,
        bar: (&'a ProgressBar, f64, f64),
    ) -> Contest<'a> {
        Contest { sides, cells, rounds, order, cores: None, stop, bar }
    }

    /// Measures.
    ///
    /// # Errors
    /// The first that any side has.
    pub fn run<S: Sides>(&self, sides: &mut S) -> Result<Samples<S::Figures>, S::Error> {
        let none = || (0..self.sides).map(|_| Vec::new()).collect();
        let mut samples = Samples { cells: (0..self.cells).map(|_| none()).collect(), rounds: 0 };
        let mut random = Prng::new(if let Order::Shuffled(seed) = self.order { seed } else { 0 });
        let turns = f64::from(self.rounds) * (self.sides * self.cells) as f64;
        let mut made = 0;
        for round in 0..self.rounds {
            for turn in self.turns(round, &mut random) {
                made += 1;
                if !sides.can(turn) {
                    continue;
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(samples);
                }
                let (bar, from, to) = self.bar;
                let part = f64::from(made - 1) / turns;
                progress::show(bar, from + part * (to - from), &sides.name(turn));
                samples.rounds = round + 1;
                sides.warm_up(turn)?;
                let before = self.distance();
                let slice = sides.slice(turn)?;
                let distances = [before, self.distance()];
                match slice {
                    Slice::Measured(figures) => {
                        samples.cells[turn.cell][turn.side].push(Sample { round, distances, figures });
                    }
                    Slice::LeftOut => {}
                    Slice::Over => return Ok(samples),
                }
            }
        }
        Ok(samples)
    }

    fn turns(&self, round: u32, random: &mut Prng) -> Vec<Turn> {
        let (sides, shift) = (self.sides, round as usize);
        let side = |place: usize| match self.order {
            Order::BackAndForth if round % 2 == 1 => sides - 1 - place,
            Order::Rotated => (place + shift) % sides,
            _ => place,
        };
        let turn = |cell| (0..sides).map(move |place| Turn { round, cell, side: side(place) });
        let mut turns: Vec<Turn> = (0..self.cells).flat_map(turn).collect();
        if let Order::Shuffled(_) = self.order {
            for at in (1..turns.len()).rev() {
                turns.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        turns
    }

    fn distance(&self) -> Option<String> {
        Some(probe::ping_pong(self.cores?, PROBE_TIME)?.distance().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes its turns; is over at one, and leaves out another.
    #[derive(Default)]
    struct Noted {
        turns: Vec<(u32, usize, usize)>,
        over_at: usize,
        left_out: usize,
    }

    impl Sides for Noted {
        type Figures = usize;
        type Error = ();

        fn name(&self, _turn: Turn) -> String {
            String::new()
        }

        fn can(&self, turn: Turn) -> bool {
            (turn.cell, turn.side) != (1, 0)
        }

        fn slice(&mut self, turn: Turn) -> Result<Slice<usize>, ()> {
            self.turns.push((turn.round, turn.cell, turn.side));
            Ok(match self.turns.len() {
                count if count == self.over_at => Slice::Over,
                count if count == self.left_out => Slice::LeftOut,
                count => Slice::Measured(count),
            })
        }
    }

    fn run(order: Order, sides: &mut impl Sides<Figures = usize, Error = ()>) -> Samples<usize> {
        let (stop, bar) = (AtomicBool::new(false), progress::bar(true));
        Contest::new((2, 2), (2, order), &stop, (&bar, 0.0, 1.0)).run(sides).expect("nothing fails")
    }

    #[test]
    fn turns_come_in_the_order_that_is_asked_for() {
        let turns = |order| {
            let mut noted = Noted::default();
            run(order, &mut noted);
            noted.turns
        };
        assert_eq!(
            turns(Order::BackAndForth),
            [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 0, 0), (1, 1, 1)]
        );
        assert_eq!(turns(Order::Fixed), [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 1)]);
        assert_eq!(turns(Order::Rotated)[3..], [(1, 0, 1), (1, 0, 0), (1, 1, 1)]);
        let mut shuffled = turns(Order::Shuffled(3));
        shuffled.sort_unstable();
        assert_eq!(shuffled, [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 1)]);
    }

    #[test]
    fn what_ends_early_has_the_samples_that_there_are() {
        let mut samples = run(Order::BackAndForth, &mut Noted { over_at: 5, ..Noted::default() });
        assert_eq!(samples.rounds, 2);
        let rounds = |samples: Vec<Sample<usize>>| samples.iter().map(|s| s.round).collect::<Vec<_>>();
        let whole = samples.clone().whole_rounds(0);
        assert_eq!(whole.into_iter().map(rounds).collect::<Vec<_>>(), [[0], [0]]);
        assert_eq!(rounds(samples.take(0, 1)), [0, 1]);
        assert!(samples.take(1, 0).is_empty());
        let mut samples = run(Order::Fixed, &mut Noted { left_out: 1, ..Noted::default() });
        assert_eq!(rounds(samples.take(0, 0)), [1]);
        let mut samples =
            run(Order::Fixed, &mut by(|_| String::new(), |turn| Ok(Slice::Measured(turn.side))));
        assert_eq!(samples.take(1, 0).len(), 2);
    }

    #[test]
    fn a_distance_is_known_if_it_stayed() {
        let sample = |before: &str, after: &str| Sample {
            round: 0,
            distances: [before, after].map(|text| Some(text.to_owned())),
            figures: (),
        };
        assert_eq!(sample("same L3", "same L3").distance(), Some("same L3"));
        assert_eq!(sample("same L3", "across L3").distance(), None);
    }
}
