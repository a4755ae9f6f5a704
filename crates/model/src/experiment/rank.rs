//! How much of a system's answers could have been had by choosing numbers: constants that were free, beside results that they could be chosen by.
//!
//! A constant is *free* if a published result has something to do with its value (classes fitted and chosen). A result is *independent* if it does not repeat
//! an input or another result; orders that one sentence of a paper states are one. With more than one free constant for every [`RESULTS_OF_ONE`] results,
//! that the results come out says little.

use super::published::{Claim, Results, Standing};
use crate::platform::{Class, LoadError, NumberPlace, Platforms};
use crate::system::System;
use std::collections::{BTreeMap, BTreeSet};

/// Independent results that a free constant takes.
pub const RESULTS_OF_ONE: usize = 3;

/// A system's free constants and its independent results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// As commands call the system.
    pub system: &'static str,
    /// Numbers of its platforms, each where it is stated.
    pub numbers: BTreeMap<NumberPlace, Class>,
    /// Independent results: single numbers, ranges, and orders by who states them.
    pub results: [usize; 3],
    /// Results that repeat others.
    pub restated: usize,
}

impl Account {
    /// Of a system on these platforms.
    ///
    /// # Errors
    /// A file is wrong: a sentence.
    pub fn of(system: &System, platforms: &Platforms) -> Result<Account, String> {
        let numbers = numbers(system, platforms).map_err(|error| error.to_string())?;
        let results = system.results()?;
        let restated = results.all.iter().filter(|result| result.standing == Standing::Restates).count();
        Ok(Account { system: system.name, numbers, results: independent(&results), restated })
    }

    /// Constants whose values owe something to results.
    pub fn free(&self) -> impl Iterator<Item = (&NumberPlace, Class)> {
        self.numbers.iter().filter(|(_, class)| class.is_free()).map(|(place, class)| (place, *class))
    }

    /// Numbers of a class.
    pub fn count(&self, class: Class) -> usize {
        self.numbers.values().filter(|its| **its == class).count()
    }

    /// Free constants beyond one for every [`RESULTS_OF_ONE`] independent results.
    pub fn too_many(&self) -> usize {
        self.free().count().saturating_sub(self.results.iter().sum::<usize>() / RESULTS_OF_ONE)
    }
}

/// Numbers of a system's platforms by where they are stated: one that several take over from a base is there once.
pub(super) fn numbers(
    system: &System,
    platforms: &Platforms,
) -> Result<BTreeMap<NumberPlace, Class>, LoadError> {
    let mut numbers = BTreeMap::new();
    for name in system.platforms {
        let platform = platforms.named(name)?;
        numbers.extend(platform.numbers().map(|(_, number)| (number.origin.clone(), number.class)));
    }
    Ok(numbers)
}

fn independent(results: &Results) -> [usize; 3] {
    let (mut count, mut sentences) = ([0; 3], BTreeSet::new());
    let counts = |standing| matches!(standing, Standing::Calibration | Standing::Prediction);
    for result in results.all.iter().filter(|result| counts(result.standing)) {
        match &result.claim {
            Some(Claim::Within { range, .. }) => count[usize::from(range.0 < range.1)] += 1,
            Some(Claim::Rising(_)) => drop(sentences.insert(result.id.split(' ').next())),
            None => {}
        }
    }
    count[2] = sentences.len();
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::ALL;

    #[test]
    fn orders_of_a_sentence_are_one_and_what_is_restated_none() {
        let text = |id: &str, class: &str, claim: &str| {
            format!(
                "[[result]]\nid = \"{id}\"\nwhat = \"w\"\nwhere = \"w\"\nclass = \"{class}\"\nwhy = \"y\"\n{claim}\n"
            )
        };
        let order = "order = [\"F1 | a | x | m\", \"F1 | b | x | m\"]";
        let parts = [
            text("T-1 a", "prediction", order),
            text("T-1 b", "prediction", order),
            text("T-2 a", "calibration", "value = 1\nof = \"F1 | a | x | m\""),
            text("T-2 b", "restates", "value = 1\nof = \"F1 | a | x | m\""),
            text("T-3", "prediction", "range = [1, 2]\nof = \"F1 | a | x | m\""),
            text("T-4", "not-modelled", ""),
        ];
        let results =
            Results::parse(&format!("system = \"s\"\nsource = \"s\"\n{}", parts.concat()), "t.toml");
        assert_eq!(independent(&results.expect("it is right")), [1, 1, 1]);
    }

    #[test]
    fn every_free_constant_has_a_range_and_is_counted_once() {
        let platforms = Platforms::shipped();
        for system in ALL {
            let account = Account::of(system, &platforms).expect("its files are sound");
            for (constant, _) in account.free() {
                let (least, most) = platforms.number(constant).expect("it is there").range;
                assert!(least < most, "{constant} is free, so that it has a range");
            }
        }
        // Numbers of the base of three platforms.
        let orca = ALL.iter().find(|system| system.name == "orca").expect("there is one");
        let account = Account::of(orca, &platforms).expect("its files are sound");
        assert_eq!(account.numbers.keys().filter(|place| place.number == "network.latency").count(), 1);
    }
}
