//! How much of an answer rests on what kind of number.
//!
//! Each number that the answer read is moved to both ends of its range, one at a time; the span of answers is its *swing*. The share of a class
//! is the share of its numbers' squared swings in all: as if the numbers were independent and the answer linear in them, which is not so and
//! still tells where the doubt is.

use super::{Class, LoadError, Platform};

/// What one number does to an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Swing {
    /// Its name.
    pub number: String,
    /// Its class.
    pub class: Class,
    /// The answer at the lower end of its range, relative to the answer.
    pub low: f64,
    /// And at the upper end.
    pub high: f64,
}

impl Swing {
    /// The larger of the two departures.
    pub fn size(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
}

/// What an answer rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// The answer.
    pub answer: f64,
    /// Of each number that was read, the largest first.
    pub swings: Vec<Swing>,
}

impl Audit {
    /// Of the answer that `answer` gives.
    ///
    /// # Errors
    /// Those of `answer`.
    pub fn of(
        platform: &Platform,
        answer: impl Fn(&Platform) -> Result<f64, LoadError>,
    ) -> Result<Audit, LoadError> {
        let fresh = platform.unread();
        let whole = answer(&fresh)?;
        let mut swings = Vec::new();
        for name in fresh.were_read() {
            let number = fresh.number(&name)?.clone();
            let at = |value: f64| Ok::<f64, LoadError>(answer(&fresh.with(&name, value))? / whole - 1.0);
            let (low, high) = (at(number.range.0)?, at(number.range.1)?);
            swings.push(Swing { number: name, class: number.class, low, high });
        }
        Ok(Audit::from_swings(whole, swings))
    }

    /// Of an answer and what its numbers do to it, in any order.
    pub fn from_swings(answer: f64, mut swings: Vec<Swing>) -> Audit {
        swings.sort_by(|a, b| b.size().total_cmp(&a.size()).then_with(|| a.number.cmp(&b.number)));
        Audit { answer, swings }
    }

    /// The share of the doubt that numbers of this class have; 0 where nothing moves the answer.
    pub fn share(&self, class: Class) -> f64 {
        let squares = |of: &dyn Fn(&&Swing) -> bool| -> f64 {
            self.swings.iter().filter(of).map(|swing| swing.size() * swing.size()).sum()
        };
        let whole = squares(&|_| true);
        if whole == 0.0 { 0.0 } else { squares(&|swing| swing.class == class) / whole }
    }

    /// The share of numbers that were guessed, chosen or fitted.
    pub fn doubtful(&self) -> f64 {
        Class::ALL.into_iter().filter(|class| class.is_doubtful()).map(|class| self.share(class)).sum()
    }
}
