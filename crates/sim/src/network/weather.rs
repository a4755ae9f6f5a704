//! What a link does to messages, in integers, so that it can be written down and read back without a loss.

use base::{Picos, Prng};
use std::fmt;
use std::str::FromStr;

/// A probability, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerMillion(pub u32);

impl PerMillion {
    /// `percent` in a hundred.
    pub const fn percent(percent: u32) -> PerMillion {
        PerMillion(percent * 10_000)
    }

    /// Whether it happens this time. Draws once.
    #[inline]
    pub fn strikes(self, random: &mut Prng) -> bool {
        random.below(1_000_000) < u64::from(self.0)
    }
}

/// What a link does to messages. As text: `delay=5000000,jitter=100,late=1000,late_by=9000,lose=5,double=5,damage=5`, without
/// what is zero, `fair` if all is; times in picoseconds, chances in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// What every message takes.
    pub delay: Picos,
    /// Up to this much more, evenly: messages overtake each other.
    pub jitter: Picos,
    /// How many take up to `late_by` more than that.
    pub late: PerMillion,
    /// See `late`.
    pub late_by: Picos,
    /// How many are lost.
    pub lose: PerMillion,
    /// How many arrive twice.
    pub double: PerMillion,
    /// How many copies arrive damaged.
    pub damage: PerMillion,
}

impl Weather {
    /// Everything arrives, in order, after `delay`.
    pub const fn fair(delay: Picos) -> Weather {
        let never = PerMillion(0);
        Weather {
            delay,
            jitter: Picos(0),
            late: never,
            late_by: Picos(0),
            lose: never,
            double: never,
            damage: never,
        }
    }

    /// A weather no worse than this one in anything; about half of what can be wrong is.
    pub fn draw_milder(&self, random: &mut Prng) -> Weather {
        let mut milder = |worst: u64| {
            let (is_on, value) = (random.below(2) == 0, random.below(worst.saturating_add(1)));
            if is_on { value } else { 0 }
        };
        Weather {
            jitter: Picos(milder(self.jitter.0)),
            late: PerMillion(milder(self.late.0.into()) as u32),
            late_by: Picos(milder(self.late_by.0)),
            lose: PerMillion(milder(self.lose.0.into()) as u32),
            double: PerMillion(milder(self.double.0.into()) as u32),
            damage: PerMillion(milder(self.damage.0.into()) as u32),
            delay: self.delay,
        }
    }

    /// How long one message takes.
    pub(super) fn draw_delay(&self, random: &mut Prng) -> Picos {
        let jitter = Picos(random.below(self.jitter.0.saturating_add(1)));
        let late = if self.late.strikes(random) { random.below(self.late_by.0.saturating_add(1)) } else { 0 };
        self.delay.plus(jitter).plus(Picos(late))
    }

    fn fields(&self) -> [(&'static str, u64); 7] {
        [
            ("delay", self.delay.0),
            ("jitter", self.jitter.0),
            ("late", self.late.0.into()),
            ("late_by", self.late_by.0),
            ("lose", self.lose.0.into()),
            ("double", self.double.0.into()),
            ("damage", self.damage.0.into()),
        ]
    }
}

impl fmt::Display for Weather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (name, value) in self.fields().into_iter().filter(|field| field.1 != 0) {
            write!(f, "{comma}{name}={value}")?;
            comma = ",";
        }
        if comma.is_empty() { f.write_str("fair") } else { Ok(()) }
    }
}

impl FromStr for Weather {
    type Err = String;

    fn from_str(text: &str) -> Result<Weather, String> {
        let mut weather = Weather::default();
        for field in text.split(',').filter(|_| text != "fair") {
            let (name, value) =
                field.split_once('=').ok_or_else(|| format!("{field:?} is not name=number"))?;
            let number: u64 = value.parse().map_err(|_| format!("{value:?} is no number"))?;
            let chance = || {
                let chance = u32::try_from(number).ok().filter(|&n| n <= 1_000_000);
                chance.map(PerMillion).ok_or_else(|| format!("{number} is more than a million in a million"))
            };
            match name {
                "delay" => weather.delay = Picos(number),
                "jitter" => weather.jitter = Picos(number),
                "late" => weather.late = chance()?,
                "late_by" => weather.late_by = Picos(number),
                "lose" => weather.lose = chance()?,
                "double" => weather.double = chance()?,
                "damage" => weather.damage = chance()?,
                _ => return Err(format!("a weather has no {name:?}")),
            }
        }
        Ok(weather)
    }
}
