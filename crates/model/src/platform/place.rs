//! Where a number is: a platform's name and the number's, written `bluefield2-ib | nic.latency`.

use super::unit::{Dimension, Unit};
use super::{Class, LoadError, Number, Platform, Platforms};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// A number of a platform, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct NumberPlace {
    /// Which platform.
    pub platform: String,
    /// Which of its numbers.
    pub number: String,
}

impl TryFrom<String> for NumberPlace {
    type Error = String;

    fn try_from(text: String) -> Result<NumberPlace, String> {
        match text.split_once('|').map(|(platform, number)| (platform.trim(), number.trim())) {
            Some((platform, number)) if !platform.is_empty() && !number.is_empty() => {
                Ok(NumberPlace { platform: platform.into(), number: number.into() })
            }
            _ => Err(format!("{text:?} must be \"platform | number\"")),
        }
    }
}

impl fmt::Display for NumberPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {}", self.platform, self.number)
    }
}

impl Number {
    /// One that somebody gives: assumed, and stated wherever it is put.
    pub fn given(value: f64, unit: Unit, source: &str, range: (f64, f64)) -> Number {
        let (class, source, origin) = (Class::Assumed, source.into(), NumberPlace::default());
        Number { value, unit, class, source, origin, range, line: 0 }
    }

    /// Whether it could be `value`, in its unit.
    ///
    /// # Errors
    /// A reason why not.
    pub fn accepts(&self, value: f64) -> Result<(), String> {
        let (unit, (least, most)) = (self.unit.name, self.range);
        match value {
            v if !v.is_finite() || v < 0.0 => Err(format!("{v} {unit} cannot be")),
            v if self.unit.dimension == Dimension::Count && v.fract() != 0.0 => {
                Err(format!("{v} is no whole number"))
            }
            v if !(least..=most).contains(&v) => {
                Err(format!("{v} {unit} is not in its range [{least}, {most}]"))
            }
            _ => Ok(()),
        }
    }
}

impl Platform {
    /// Puts values in place: of its own numbers, and of those that it takes over. Its own name for one is stronger than that of who states it.
    pub(super) fn set(&mut self, values: &BTreeMap<NumberPlace, f64>) {
        if values.is_empty() {
            return;
        }
        for (name, number) in &mut self.numbers {
            let own = NumberPlace { platform: self.name.clone(), number: name.clone() };
            if let Some(value) = values.get(&own).or_else(|| values.get(&number.origin)) {
                number.value = *value;
            }
        }
    }
}

impl Platforms {
    /// The number there.
    ///
    /// # Errors
    /// There is no such platform, or no such number.
    pub fn number(&self, at: &NumberPlace) -> Result<Number, LoadError> {
        Ok(self.named(&at.platform)?.number(&at.number)?.clone())
    }

    /// Whether the number there was read.
    pub fn was_read(&self, at: &NumberPlace) -> bool {
        let all = self.taken();
        let of = all.iter().find(|platform| platform.name == at.platform);
        of.is_some_and(|platform| platform.were_read().contains(&at.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_two_names() {
        let at = NumberPlace::try_from("bluefield2-ib | nic.latency".to_string()).expect("it is one");
        assert_eq!(at.to_string(), "bluefield2-ib | nic.latency");
        for wrong in ["nic.latency", "| nic.latency", "bluefield2-ib |"] {
            assert!(NumberPlace::try_from(wrong.to_string()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_checked_and_put_in_place() {
        let all = Platforms::shipped();
        let at = |text: &str| NumberPlace::try_from(text.to_string()).expect("it is one");
        let (latency, units) = (at("bluefield2-ib | nic.latency"), at("bluefield2-ib | nic.shared_units"));
        let number = all.number(&units).expect("it is there");
        assert!(number.accepts(27.0).is_ok());
        for (value, why) in [(27.5, "whole"), (99.0, "range"), (-1.0, "cannot"), (f64::NAN, "cannot")] {
            assert!(number.accepts(value).is_err_and(|said| said.contains(why)), "{value}");
        }
        let changed = all.with_values([(&latency, 100.0), (&units, 27.0)]).expect("both are there");
        assert!(!changed.was_read(&latency));
        let platform = changed.named("bluefield2-ib").expect("it is there");
        assert_eq!(platform.count("nic.shared_units"), Ok(27));
        assert!(changed.was_read(&units) && !changed.was_read(&latency));
        assert!(all.with_values([(&at("bluefield2-ib | no.such"), 1.0)]).is_err());
        // Who takes a number over has the new value, too, unless it is given one of its own.
        let latency = at("bluefield2-eth | network.latency");
        let span =
            |of: &Platforms, name: &str| of.named(name).and_then(|platform| platform.span("network.latency"));
        let moved = all
            .with_values([(&latency, 500.0), (&at("u280-ddr4 | network.latency"), 700.0)])
            .expect("they are there");
        assert_eq!(span(&moved, "harp-upi"), Ok(base::Picos::from_nanos(500)));
        assert_eq!(span(&moved, "u280-ddr4"), Ok(base::Picos::from_nanos(700)));
        assert_eq!(all.number(&at("u280-ddr4 | network.latency")).map(|number| number.origin), Ok(latency));
    }
}
