//! Files of published results.
//!
//! ```toml
//! system = "off-path SmartNIC study"
//! source = "Wei et al., OSDI 2023"
//!
//! [[result]]
//! id = "S-R1"
//! what = "READ latency of the SmartNIC's host path over the RNIC's"
//! where = "Fig. 3, §3.1"
//! class = "prediction"                     # calibration, prediction, restates, not-modelled
//! value = 1.3                              # or a range, or order = ["place", "place", …], rising
//! of = "F1 | SNIC ① | READ 64 B | latency" # experiment | variant | point | metric
//! over = "F1 | RNIC ① | READ 64 B | latency"
//!
//! [[result]]
//! id = "S-R4"
//! what = "the same below 512 B"
//! where = "§3.1"
//! class = "prediction"
//! range = [0.74, 0.81]                     # must hold at both ends of what it covers:
//! of = ["F1 | SNIC ① | READ 0 B | …", "F1 | SNIC ① | READ 256 B | …"]
//!
//! [[result]]
//! id = "S-R12"
//! what = "…"
//! where = "§3.2"
//! class = "not-modelled"
//! why = "the authors have no cause for it either"
//! ```
//!
//! *calibration*: a constant is fitted on it, and its error says nothing; *prediction*: nothing was; *restates*: it repeats an input or another result, and
//! counts for nothing. [`super::fit`] fits constants again, all at once. A prediction that is a range and is looked at in one place says why (`why`) there
//! is no other.

use serde::Deserialize;
use std::fmt;

/// What may be concluded from a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Constants are fitted on it.
    Calibration,
    /// Nothing is.
    Prediction,
    /// It repeats an input of the model, or another result: that it comes out shows nothing.
    Restates,
    /// The model says nothing about it, and the file says why.
    NotModelled,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Standing::Calibration => "calibration",
            Standing::Prediction => "prediction",
            Standing::Restates => "restates",
            Standing::NotModelled => "not modelled",
        })
    }
}

/// Where a row is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Place {
    /// Setup.
    pub experiment: String,
    /// Of its variants.
    pub variant: String,
    /// Of its axes.
    pub point: String,
    /// What.
    pub metric: String,
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Place, String> {
        let parts: Vec<_> = text.split('|').map(|part| part.trim().to_string()).collect();
        let [experiment, variant, point, metric] = <[String; 4]>::try_from(parts)
            .map_err(|_| format!("{text:?} must be \"experiment | variant | point | metric\""))?;
        Ok(Place { experiment, variant, point, metric })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} | {} | {}", self.experiment, self.variant, self.point, self.metric)
    }
}

/// A published result.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Entry")]
pub struct Published {
    /// Of the system's review.
    pub id: String,
    /// In words.
    pub what: String,
    /// Figure, table, section.
    pub source: String,
    /// What may be concluded from it.
    pub standing: Standing,
    /// What is held against it, and how; not for what is not modelled.
    pub claim: Option<Claim>,
    /// Why it is not modelled, or what to know about it.
    pub why: Option<String>,
}

impl Published {
    /// Setups whose rows it names.
    pub fn experiments(&self) -> Vec<&str> {
        let places: Vec<&Place> = match &self.claim {
            None => vec![],
            Some(Claim::Within { of, over, .. }) => of.iter().chain(over).collect(),
            Some(Claim::Rising(places)) => places.iter().collect(),
        };
        places.into_iter().map(|place| place.experiment.as_str()).collect()
    }
}

/// What was published, in a form that can be checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// Rows' values, or their ratios to another's, lie here.
    Within {
        /// The least and the most; the same for a value.
        range: (f64, f64),
        /// Which rows: one for a value, for a range the ends of what it covers.
        of: Vec<Place>,
        /// Divided by this one.
        over: Option<Place>,
    },
    /// These rows' values rise.
    Rising(Vec<Place>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    what: String,
    #[serde(rename = "where")]
    source: String,
    class: Standing,
    value: Option<f64>,
    range: Option<(f64, f64)>,
    order: Option<Vec<Place>>,
    of: Option<Of>,
    over: Option<Place>,
    why: Option<String>,
}

/// One place, or several.
#[derive(Deserialize)]
#[serde(try_from = "toml::Value")]
struct Of(Vec<Place>);

impl TryFrom<toml::Value> for Of {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Of, String> {
        let place = |one: &toml::Value| match one {
            toml::Value::String(text) => Place::try_from(text.clone()),
            other => Err(format!("{other:?} is no place: \"experiment | variant | point | metric\"")),
        };
        match &value {
            toml::Value::Array(all) if !all.is_empty() => {
                all.iter().map(place).collect::<Result<_, _>>().map(Of)
            }
            one => place(one).map(|place| Of(vec![place])),
        }
    }
}

impl TryFrom<Entry> for Published {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Published, String> {
        let Entry { id, what, source, class: standing, value, range, order, of, over, why } = entry;
        let range = range.or(value.map(|value| (value, value)));
        let claim = match (range, of, order) {
            (Some(range), Some(Of(of)), None) if range.0 < range.1 || range.0 == range.1 && of.len() == 1 => {
                Some(Claim::Within { range, of, over })
            }
            (None, None, Some(places)) if places.len() > 1 && over.is_none() => Some(Claim::Rising(places)),
            (None, None, None) if over.is_none() => None,
            _ => {
                return Err(format!(
                    "{id} must have value, with one of; or range, with of; or order; not both"
                ));
            }
        };
        match (standing, &claim, &why) {
            (Standing::NotModelled, None, Some(_)) => {}
            (Standing::NotModelled, ..) => {
                return Err(format!("{id} is not modelled: it needs why, and no value"));
            }
            (_, None, _) => return Err(format!("{id} needs a value, a range or an order")),
            (Standing::Restates, _, None) => {
                return Err(format!("{id} restates something: say in why what it is"));
            }
            (Standing::Prediction, Some(Claim::Within { range, of, .. }), None)
                if range.0 < range.1 && of.len() == 1 =>
            {
                let both =
                    "of = [first, last]: both ends of what it covers; or says in why that it is of one place";
                return Err(format!("{id} is a range: it needs {both}"));
            }
            _ => {}
        }
        Ok(Published { id, what, source, standing, claim, why })
    }
}

/// All of a system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Its name.
    pub system: String,
    /// The publication.
    pub source: String,
    /// What it says.
    #[serde(rename = "result")]
    pub all: Vec<Published>,
}

impl Results {
    /// Of a file's text; `file` is for errors.
    ///
    /// # Errors
    /// A sentence with file and line.
    pub fn parse(text: &str, file: &str) -> Result<Results, String> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("{file}:{}: {}", 1 + text[..at].matches('\n').count(), error.message())
        })
    }
}
