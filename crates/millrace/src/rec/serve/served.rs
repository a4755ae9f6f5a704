//! A model as it is served: with names, and with what makes ids of features.

use base::hash::{Hasher64, WIRE_SEED};
use rec::Model;
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
    hasher: Hasher64,
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
            model,
            hasher: Hasher64::new(WIRE_SEED),
        }
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

    /// The row of a feature of a table: a number is an id; other words are hashed.
    pub fn id(&self, table: usize, feature: &str) -> Option<u32> {
        let rows = self.rows(table);
        if rows == 0 {
            return None;
        }
        match feature.parse::<u64>() {
            Ok(id) => u32::try_from(id).ok().filter(|&id| id < rows),
            // The upper bits of the product: as even as the hash, without a division.
            Err(_) => {
                Some(((u128::from(self.hasher.hash(feature.as_bytes())) * u128::from(rows)) >> 64) as u32)
            }
        }
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} version {} ({} tables)", self.name, self.version, self.tables())
    }
}
