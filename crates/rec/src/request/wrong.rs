//! What is wrong with a request: which tensor, and what was expected of it.

use super::served::Served;
use std::fmt;

/// See the head of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    /// As the request names it.
    tensor: Box<str>,
    what: What,
}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It is not there; what it should be.
    Missing(&'static str),
    /// It is there twice, or in two forms.
    Twice,
    /// The model takes no such tensor.
    NotWanted,
    /// The model has no such table; names that are near, or all.
    NoTable(Vec<String>),
    /// Its type.
    Type {
        /// What it should be.
        want: &'static str,
        /// What it is.
        have: String,
    },
    /// Its shape.
    Shape {
        /// What it should be.
        want: String,
        /// What it is.
        have: String,
    },
    /// How many of something there are.
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there should be.
        want: usize,
        /// How many there are.
        have: usize,
    },
    /// The number at this place is infinite or not a number.
    NotFinite(usize),
    /// The id at a place is none of the table.
    Id {
        /// Place in the values.
        at: usize,
        /// What is there.
        id: i64,
        /// Rows of the table.
        rows: u32,
    },
    /// The first offset, which is not 0.
    First(i64),
    /// The offset at this place is less than the one before it.
    Descends(usize),
    /// The offset at this place is greater than the number of values.
    Beyond {
        /// Place in the offsets.
        at: usize,
        /// How many values there are.
        values: usize,
    },
    /// The last offset is not the number of values.
    Ends {
        /// The last offset.
        last: usize,
        /// How many values there are.
        values: usize,
    },
    /// A feature as people write it.
    Feature {
        /// Of which query.
        query: usize,
        /// Its beginning.
        feature: String,
        /// What is wrong.
        why: &'static str,
    },
    /// There is no query.
    NoQueries,
    /// There are more queries than a request may hold.
    TooMany {
        /// How many it may.
        most: usize,
        /// How many there are.
        have: usize,
    },
    /// Its data are not what the type or the shape says.
    Data(String),
}

impl Wrong {
    /// With this tensor.
    #[cold]
    pub fn of(tensor: &str, what: What) -> Wrong {
        // A name from outside may be anything; an error shows its beginning.
        Wrong { tensor: tensor.chars().take(100).collect::<String>().into(), what }
    }

    /// That the model has no such table.
    #[cold]
    pub fn no_table(tensor: &str, table: &str, served: &Served) -> Wrong {
        let near: Vec<String> = served
            .names()
            .filter(|name| strsim::jaro_winkler(name, table) > 0.85)
            .take(3)
            .map(str::to_owned)
            .collect();
        let names = if near.is_empty() { served.names().take(8).map(str::to_owned).collect() } else { near };
        Wrong::of(tensor, What::NoTable(names))
    }

    /// What is wrong.
    pub fn what(&self) -> &What {
        &self.what
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor {}: ", self.tensor)?;
        match &self.what {
            What::Missing(want) => write!(f, "it is missing; expected {want}"),
            What::Twice => f.write_str("it is given twice, or as features too; give it once"),
            What::NotWanted => f.write_str("the model takes none"),
            What::NoTable(names) => write!(f, "the model has no such table; it has {}", names.join(", ")),
            What::Type { want, have } => write!(f, "expected type {want}, got {have}"),
            What::Shape { want, have } => write!(f, "expected {want}, got {have}"),
            What::Count { what, want, have } => write!(f, "expected {want} {what}, got {have}"),
            What::NotFinite(at) => write!(f, "expected finite numbers, number {at} is not"),
            What::Id { at, id, rows } => match rows {
                0 => write!(f, "expected no id, for the table is empty; value {at} is {id}"),
                _ => write!(f, "expected ids from 0 to {}, value {at} is {id}", rows - 1),
            },
            What::First(first) => write!(f, "expected 0 as the first offset, got {first}"),
            What::Descends(at) => {
                write!(f, "expected offsets that do not descend, offset {at} is less than the one before it")
            }
            What::Beyond { at, values } => {
                write!(f, "expected offsets up to the {values} values there are, offset {at} is greater")
            }
            What::Ends { last, values } => {
                write!(f, "expected the last offset to be the number of values, {values}; it is {last}")
            }
            What::Feature { query, feature, why } => write!(f, "query {query}: {feature:?} {why}"),
            What::NoQueries => f.write_str("expected at least one query, got none"),
            What::TooMany { most, have } => {
                write!(f, "expected at most {most} queries (register rec.queries), got {have}")
            }
            What::Data(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Wrong {}
