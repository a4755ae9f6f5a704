//! Fields by name.
//!
//! Cost: the few fields of a usual message are looked at one after the other; those of a message with many are put into a table
//! when its class is first met, so that a hostile text does not make every name a long search.

use crate::schema::{Field, Types};
use crate::table::Kind;
use std::collections::HashMap;

/// A message with more fields has a table of their names.
const FEW: usize = 16;

/// Which names count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// As in JSON, or as in the .proto file.
    Json,
    /// As in the .proto file; a group also by the name of its type.
    Text,
}

/// The names met so far.
pub(super) struct Names<'t> {
    types: &'t Types,
    which: Which,
    tables: HashMap<u32, HashMap<&'t str, usize>>,
}

impl<'t> Names<'t> {
    pub fn new(types: &'t Types, which: Which) -> Names<'t> {
        Names { types, which, tables: HashMap::new() }
    }

    /// The field of that name in a class, with its index.
    pub fn field(&mut self, class: u32, name: &str) -> Option<(usize, &'t Field)> {
        let (types, which) = (self.types, self.which);
        let fields = &types.schema().messages()[class as usize].fields;
        let index = if fields.len() <= FEW {
            // The first choice of all fields comes before the second choice of any.
            let by = |choice: usize| {
                fields.iter().position(|field| names(types, class, field, which)[choice] == Some(name))
            };
            by(0).or_else(|| by(1))
        } else {
            let table = self.tables.entry(class).or_insert_with(|| {
                let mut table = HashMap::with_capacity(2 * fields.len());
                for choice in [0, 1] {
                    for (index, field) in fields.iter().enumerate() {
                        if let Some(name) = names(types, class, field, which)[choice] {
                            table.entry(name).or_insert(index);
                        }
                    }
                }
                table
            });
            table.get(name).copied()
        };
        index.map(|index| (index, &fields[index]))
    }

    /// The extension of a class with that full name: the class that it is a field of, its index there, itself.
    pub fn extension(&mut self, class: u32, name: &str) -> Option<(u32, usize, &'t Field)> {
        let extensions = self.types.schema().extensions(class)?;
        self.field(extensions, name).map(|(index, field)| (extensions, index, field))
    }
}

/// A field's names, the preferred one first.
fn names<'t>(types: &'t Types, class: u32, field: &'t Field, which: Which) -> [Option<&'t str>; 2] {
    match which {
        Which::Json => [Some(&field.json_name), Some(&field.name)],
        Which::Text => [Some(&field.name), group_name(types, class, field)],
    }
}

/// The name of a group's type, if the field is called as that in lower case and both are declared in the same place, as protoc
/// makes them from `group`: text format calls the field so.
pub(super) fn group_name<'t>(types: &'t Types, class: u32, field: &'t Field) -> Option<&'t str> {
    if field.kind != Kind::Group {
        return None;
    }
    let messages = types.schema().messages();
    let of = &messages[class as usize];
    let group = &messages[field.message? as usize];
    let (scope, type_name) = group.name.rsplit_once('.').unwrap_or(("", &group.name));
    let alike = of.extends.is_none() && scope == of.name && field.name == type_name.to_ascii_lowercase();
    alike.then_some(type_name)
}
