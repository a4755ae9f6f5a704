//! A model as it is served: with names, and with what makes ids of features.

use crate::features::Dictionary;
use crate::model::{Access, Model};
use std::collections::HashMap;

/// See the head of the file. It never changes: another model is another value.
pub struct Served {
    /// Its name, in paths and requests.
    pub name: String,
    /// Its version, in paths and replies.
    pub version: String,
    /// Grows with every model that is loaded; the shelf sets it.
    pub generation: u64,
    model: Model,
    places: HashMap<String, usize>,
    /// Of each table.
    words: Vec<Words>,
}

/// What makes rows of a table's features.
enum Words {
    /// It has no row.
    None,
    /// Numbers are rows; other words are hashed.
    Hashed(Dictionary),
    /// The dictionary says it of all.
    Known(Dictionary),
}

impl Served {
    /// `model` under its own name and version.
    pub fn new(model: Model) -> Served {
        let places = model.tables().iter().enumerate().map(|(at, table)| (table.name.clone(), at)).collect();
        Served {
            name: model.name.clone(),
            version: model.version.clone(),
            generation: 0,
            places,
            words: model
                .tables()
                .iter()
                .map(|table| match table.rows() {
                    0 => Words::None,
                    rows => Words::Hashed(Dictionary::hashing(rows)),
                })
                .collect(),
            model,
        }
    }

    /// With a table's dictionary.
    ///
    /// # Panics
    /// If there is no such table, or the dictionary is for one of another length.
    pub fn set_dictionary(&mut self, table: usize, mut dictionary: Dictionary) {
        if let Some(remap) = self.remap(table) {
            dictionary.rename(remap);
        }
        self.words[table] = Words::Known(dictionary);
    }

    /// For each row of a table that is planned its name in the plan, of which keys are made.
    fn remap(&self, table: usize) -> Option<&[u32]> {
        match self.model.tables()[table].access() {
            Access::Rows(_) => None,
            Access::Planned(planned) => Some(planned.plan().remap()),
        }
    }

    /// Gives rows of a table the names of its plan, if it has one.
    ///
    /// Cost: a read at random for each. They overlap here, between the texts of features they would not.
    ///
    /// # Panics
    /// If one is no row of the table.
    pub fn rename(&self, table: usize, rows: &mut [u32]) {
        if let Some(remap) = self.remap(table) {
            rows.iter_mut().for_each(|row| *row = remap[*row as usize]);
        }
    }

    /// Whether a table's features have a dictionary.
    pub fn has_dictionary(&self, table: usize) -> bool {
        matches!(self.words[table], Words::Known(_))
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Names of the tables, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.model.tables().iter().map(|table| &table.name[..])
    }

    /// How many tables there are.
    pub fn tables(&self) -> usize {
        self.model.tables().len()
    }

    /// How many rows a table has.
    pub fn rows(&self, table: usize) -> u32 {
        self.model.tables()[table].rows()
    }

    /// The table with this name, or `t{k}` by place.
    pub fn table(&self, name: &str) -> Option<usize> {
        let by_place = || {
            let digits = name.strip_prefix('t').filter(|d| !d.starts_with('+'))?;
            digits.parse().ok().filter(|&table: &usize| table < self.tables())
        };
        self.places.get(name).copied().or_else(by_place)
    }

    /// The row of a feature of a table: what its dictionary says, or without one a number is an id and other words are hashed. `Ok(None)`: the feature counts
    /// for nothing. A dictionary holds its plan's names, so that renaming costs nothing; rows of a table without one are yet to be renamed
    /// ([`Served::rename`]).
    ///
    /// # Errors
    /// It is a number, and no row.
    pub fn id(&self, table: usize, feature: &str) -> Result<Option<u32>, NoRow> {
        match &self.words[table] {
            Words::None => Err(NoRow),
            Words::Known(dictionary) => Ok(dictionary.id(feature)),
            Words::Hashed(dictionary) => match feature.parse::<u64>() {
                Err(_) => Ok(dictionary.id(feature)),
                Ok(id) => u32::try_from(id).ok().filter(|&id| id < self.rows(table)).map(Some).ok_or(NoRow),
            },
        }
    }
}

/// A number that is no row of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRow;

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} version {} ({} tables)", self.name, self.version, self.tables())
    }
}
