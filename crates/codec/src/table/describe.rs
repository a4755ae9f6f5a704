//! The table in words, for documentation and for debugging.

use std::fmt::{self, Write};

use super::{Entry, Flags, Message, Table};
use crate::schema::{self, Schema};

/// The flags and what they are called.
const FLAGS: [(Flags, &str); 7] = [
    (Flags::ACC, "acc"),
    (Flags::UTF8, "utf8"),
    (Flags::PACKED, "packed"),
    (Flags::ONEOF, "oneof"),
    (Flags::REQUIRED, "required"),
    (Flags::IMPLICIT, "implicit"),
    (Flags::CLOSED, "closed"),
];

impl Table {
    /// Every record of the table, with the names of the schema that it was made from. Numbers behind `@` are lines.
    ///
    /// # Panics
    /// If the schema has not the messages that the table has.
    pub fn describe(&self, schema: &Schema) -> String {
        assert_eq!(self.classes() as usize, schema.messages().len(), "this table is of another schema");
        let mut out = String::new();
        self.describe_to(schema, &mut out).expect("a string takes all that is written to it");
        out
    }

    fn describe_to(&self, schema: &Schema, out: &mut String) -> fmt::Result {
        let (classes, lines) = (self.classes(), self.lines().len());
        writeln!(out, "{classes} messages, {lines} lines, layout {:016x}", self.layout_hash())?;
        for names in schema.messages() {
            let message = self.message(names.class);
            self.describe_message(message, names, out)?;
            for (index, entry) in self.entries(message).iter().enumerate() {
                describe_entry(index, entry, &names.fields[index], schema, out)?;
            }
        }
        self.describe_enums(schema, out)
    }

    fn describe_message(&self, message: &Message, names: &schema::Message, out: &mut String) -> fmt::Result {
        write!(out, "\n@{} message {} (class {})", 1 + message.class, names.name, message.class)?;
        for (flag, text) in [(Message::MAP_ENTRY, "map entry"), (Message::PLAIN, "plain")] {
            if message.flags & flag != 0 {
                write!(out, ", {text}")?;
            }
        }
        let Message { size, words, unknown, entries, lookup, dense, .. } = message;
        writeln!(out, "\n  object: {size} bytes, {words} presence words, unknown fields at {unknown}")?;
        write!(out, "  entries @{entries}, lookup @{lookup} for numbers below {dense}")?;
        if message.required != 0 {
            write!(out, ", required @{}:", message.required)?;
            for word in 0..usize::from(*words) {
                write!(out, " {:#x}", self.required(message, word))?;
            }
        }
        writeln!(out)
    }

    fn describe_enums(&self, schema: &Schema, out: &mut String) -> fmt::Result {
        let mut shown = std::collections::BTreeMap::new();
        for names in schema.messages() {
            for (entry, field) in self.entries(self.message(names.class)).iter().zip(&names.fields) {
                if let Some(known) = field.enumeration.filter(|_| entry.flags.has(Flags::CLOSED)) {
                    shown.insert(entry.aux, &schema.enums()[known as usize].name);
                }
            }
        }
        for (line, name) in shown {
            writeln!(out, "\n@{line} closed enum {name}: {:?}", self.enum_values(self.closed_enum(line)))?;
        }
        Ok(())
    }
}

fn describe_entry(
    index: usize,
    entry: &Entry,
    field: &schema::Field,
    schema: &Schema,
    out: &mut String,
) -> fmt::Result {
    let kind = match (entry.is_map(), entry.is_repeated()) {
        (true, _) => "map".to_owned(),
        (_, true) => format!("{:?}[]", entry.kind()).to_lowercase(),
        _ => format!("{:?}", entry.kind()).to_lowercase(),
    };
    let (number, wire_type) = (entry.number(), entry.tag & 7);
    let (start, end) = (entry.offset, entry.offset as usize + entry.slot());
    write!(
        out,
        "  [{index}] {number}:{wire_type} {} {kind}, bytes {start}..{end}, next {}",
        field.name, entry.next
    )?;
    if entry.kind().is_message() {
        write!(out, ", of {}", schema.messages()[entry.aux as usize].name)?;
    }
    for (_, text) in FLAGS.iter().filter(|(flag, _)| entry.flags.has(*flag)) {
        write!(out, ", {text}")?;
    }
    if entry.flags.has(Flags::CLOSED) {
        write!(out, " @{}", entry.aux)?;
    }
    writeln!(out)
}
