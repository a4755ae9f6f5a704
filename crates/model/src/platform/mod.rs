//! Platforms: the numbers of a machine, each with its unit, its class, its source and the range that is believable.
//!
//! ```toml
//! name = "bluefield2-ib"
//! title = "BlueField-2 with InfiniBand"
//! family = "off-path-smartnic"       # which composition of components reads the numbers
//!
//! [nic]
//! rate = { value = 195, unit = "Mpps", class = "published", source = "OSDI'23 §2.1", range = [190, 220] }
//! ```
//!
//! A file may complete a shipped one: `base = "bluefield2-eth"` takes over all its numbers, and those that the file states replace or join them.
//!
//! Or it may say which parts its machine consists of, and whose numbers each has: see [`parts`].
//!
//! The number above is `nic.rate`; tables nest. A file without any of the five parts of a number, with a value outside its range, or with a unit of
//! another kind than a component asks for, is refused with line and reason.
//!
//! A platform remembers which numbers were read, so that an answer can say what it rests on: see [`audit`].

pub mod audit;
pub mod edit;
mod load;
pub mod parts;
mod place;
mod platforms;
pub mod shipped;
pub mod unit;

use base::Picos;
pub use load::LoadError;
pub use place::NumberPlace;
pub use platforms::Platforms;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use unit::{Dimension, Unit};

/// Where a number comes from, the most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// By us, on the machine itself.
    Measured,
    /// By the system's authors.
    Published,
    /// By the part's vendor.
    Datasheet,
    /// Such that a published result comes out, by whatever means: it could not have been told without that result.
    Fitted,
    /// By us, with a published result in sight that another choice would have missed.
    Chosen,
    /// By somebody who had to, without looking at what comes of it.
    Assumed,
}

impl Class {
    /// All.
    pub const ALL: [Class; 6] =
        [Class::Measured, Class::Published, Class::Datasheet, Class::Fitted, Class::Chosen, Class::Assumed];

    /// Whether it was free: its value owes something to results that the model is held against.
    pub const fn is_free(self) -> bool {
        matches!(self, Class::Fitted | Class::Chosen)
    }

    /// Whether it was guessed or free: what an answer had better not rest on.
    pub const fn is_doubtful(self) -> bool {
        self.is_free() || matches!(self, Class::Assumed)
    }

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Measured => "measured",
            Class::Published => "published",
            Class::Datasheet => "datasheet",
            Class::Fitted => "fitted",
            Class::Chosen => "chosen",
            Class::Assumed => "assumed",
        }
    }
}

/// A number of a platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// In `unit`.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// Where it comes from, in general.
    pub class: Class,
    /// … and in particular.
    pub source: String,
    /// Which file states it, and under which name: that of a base or of a part's platform, where it was taken over from there.
    pub origin: NumberPlace,
    /// The least and the most that it could be, in `unit`.
    pub range: (f64, f64),
    /// Of the file, for errors.
    pub line: usize,
}

impl Number {
    /// In the base unit of its dimension.
    pub fn base(&self) -> f64 {
        self.value * self.unit.scale
    }
}

/// The family of platforms that say their parts.
pub const COMPOSED: &str = "composed";

/// A checked platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// As commands call it.
    pub name: String,
    /// As people call it.
    pub title: String,
    /// The composition that it is an instance of; [`COMPOSED`] where it says its parts.
    pub family: String,
    /// Its parts, in the order in which a request meets them; empty where its family says them.
    pub parts: Vec<parts::Part>,
    numbers: BTreeMap<String, Number>,
    read: RefCell<BTreeSet<String>>,
}

impl Platform {
    /// Of a file's text; `file` is for errors.
    ///
    /// # Errors
    /// With line and reason.
    pub fn parse(text: &str, file: &str) -> Result<Platform, LoadError> {
        load::parse(text, file)
    }

    /// A number, which then counts as read.
    ///
    /// # Errors
    /// It is not there.
    pub fn number(&self, name: &str) -> Result<&Number, LoadError> {
        let number = self
            .numbers
            .get(name)
            .ok_or_else(|| LoadError::Missing { platform: self.name.clone(), number: name.into() })?;
        if !self.read.borrow().contains(name) {
            self.read.borrow_mut().insert(name.into());
        }
        Ok(number)
    }

    /// A number of this dimension, in its base unit.
    ///
    /// # Errors
    /// It is not there, or of another dimension.
    pub fn value(&self, name: &str, dimension: Dimension) -> Result<f64, LoadError> {
        let number = self.number(name)?;
        if number.unit.dimension == dimension {
            Ok(number.base())
        } else {
            Err(LoadError::Dimension {
                platform: self.name.clone(),
                line: number.line,
                number: name.into(),
                unit: number.unit.name,
                wanted: dimension.units(),
            })
        }
    }

    /// A span of time.
    ///
    /// # Errors
    /// See [`Platform::value`]; so in all that follow.
    pub fn span(&self, name: &str) -> Result<Picos, LoadError> {
        Ok(picos(self.value(name, Dimension::Time)?))
    }

    /// Cycles of `clock`, as a span of time.
    pub fn cycles(&self, name: &str, clock: &str) -> Result<Picos, LoadError> {
        let hertz = self.value(clock, Dimension::Frequency)?;
        Ok(picos(self.value(name, Dimension::Cycles)? / hertz))
    }

    /// How long one of these takes, which so many of are done in a second by all servers together.
    pub fn service(&self, rate: &str, servers: u64) -> Result<Picos, LoadError> {
        Ok(picos(servers as f64 / self.value(rate, Dimension::Frequency)?))
    }

    /// Bits per second.
    pub fn bandwidth(&self, name: &str) -> Result<f64, LoadError> {
        self.value(name, Dimension::Bandwidth)
    }

    /// Bytes.
    pub fn bytes(&self, name: &str) -> Result<u64, LoadError> {
        Ok(self.value(name, Dimension::Size)?.round() as u64)
    }

    /// A count of what is there: at least 1. What is made of it needs one, a server or a token.
    pub fn count(&self, name: &str) -> Result<u64, LoadError> {
        match self.count_or_none(name)? {
            0 => Err(self.wrong(name, load::no_count(name))),
            count => Ok(count),
        }
    }

    /// A count of what a machine may have or lack.
    pub fn count_or_none(&self, name: &str) -> Result<u64, LoadError> {
        Ok(self.value(name, Dimension::Count)?.round() as u64)
    }

    /// An error about a number that is there, with its line.
    pub(crate) fn wrong(&self, name: &str, why: String) -> LoadError {
        match self.number(name) {
            Ok(number) => LoadError::File { file: self.name.clone(), line: number.line, why },
            Err(missing) => missing,
        }
    }

    /// A ratio.
    pub fn ratio(&self, name: &str) -> Result<f64, LoadError> {
        self.value(name, Dimension::Ratio)
    }

    /// Whether there is such a number: what a machine may have or lack, as local memory.
    pub fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// All numbers by name.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, &Number)> {
        self.numbers.iter().map(|(name, number)| (name.as_str(), number))
    }

    /// Names of the numbers that were read so far.
    pub fn were_read(&self) -> Vec<String> {
        self.read.borrow().iter().cloned().collect()
    }

    /// The same platform, and nothing read.
    #[must_use]
    pub fn unread(&self) -> Platform {
        Platform { read: RefCell::default(), ..self.clone() }
    }

    /// The same platform with a number that somebody gives instead of its own, or beside the others; nothing read.
    #[must_use]
    pub fn given(&self, name: &str, number: Number) -> Platform {
        let mut changed = self.unread();
        let origin = NumberPlace { platform: self.name.clone(), number: name.into() };
        changed.numbers.insert(name.into(), Number { origin, ..number });
        changed
    }

    /// The same platform with one value changed, and nothing read: for sweeps, fits and audits. The range is not looked at.
    ///
    /// # Panics
    /// If there is no such number.
    #[must_use]
    pub fn with(&self, name: &str, value: f64) -> Platform {
        let mut changed = self.unread();
        changed.numbers.get_mut(name).unwrap_or_else(|| panic!("{} has no {name}", self.name)).value = value;
        changed
    }
}

/// Seconds as picoseconds, rounded.
pub fn picos(seconds: f64) -> Picos {
    Picos((seconds * 1e12).round() as u64)
}

/// How long `bytes` take at so many bits per second.
pub fn transfer(bytes: u64, bits_per_second: f64) -> Picos {
    picos(bytes as f64 * 8.0 / bits_per_second)
}

#[cfg(test)]
mod tests;
