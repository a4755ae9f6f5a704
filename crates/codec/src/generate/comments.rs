//! What the .proto files say of each element, from the source info of a descriptor set.
//!
//! Sources: descriptor.proto (`SourceCodeInfo`): a location is a path of field numbers and indices, with the comments there.

use crate::schema::{Schema, SchemaError};
use crate::wire;
use std::collections::HashMap;

/// Comments by the full name of the element.
pub(super) struct Comments(HashMap<String, String>);

/// The parts of descriptor.proto that a path goes through: field number, and whether what is there is a message.
const MESSAGE: u32 = 4;
const ENUM: u32 = 5;
const SERVICE: u32 = 6;
const SOURCE_INFO: u32 = 9;

impl Comments {
    pub(super) fn of(descriptor_set: &[u8]) -> Result<Comments, SchemaError> {
        let mut comments = Comments(HashMap::new());
        for file in parts(descriptor_set, 1)? {
            let package = text(first(file, 2)?);
            for info in parts(file, SOURCE_INFO)? {
                for location in parts(info, 1)? {
                    comments.add(file, package, location)?;
                }
            }
        }
        Ok(comments)
    }

    fn add(&mut self, file: &[u8], package: &str, location: &[u8]) -> Result<(), SchemaError> {
        let (leading, trailing) = (first(location, 3)?, first(location, 4)?);
        let comment = text(if leading.is_empty() { trailing } else { leading });
        if comment.is_empty() {
            return Ok(());
        }
        let mut path = vec![];
        let packed = first(location, 1)?;
        let mut at = 0;
        while at < packed.len() {
            path.push(wire::read_varint(packed, &mut at)? as u32);
        }
        if let Some(name) = name_of(file, package, &path)? {
            self.0.insert(name, tidy(comment));
        }
        Ok(())
    }

    /// The comment of an element.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The full name of the message, field, oneof, enum, value, service or method at a path; none if something else is there.
fn name_of(file: &[u8], package: &str, path: &[u32]) -> Result<Option<String>, SchemaError> {
    let mut name = package.to_owned();
    let (mut here, mut inside) = (file, Inside::File);
    for step in path.chunks(2) {
        let &[number, index] = step else { return Ok(None) };
        let Some(next) = inside.step(number) else { return Ok(None) };
        let inner = parts(here, number)?;
        let Some(&part) = inner.get(index as usize) else { return Ok(None) };
        (here, inside) = (part, next);
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(text(first(here, 1)?));
    }
    Ok((inside != Inside::File).then_some(name))
}

/// What a path has led to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    File,
    Message,
    Enum,
    Service,
    /// A field, oneof, value or method: nothing in it has a name.
    Leaf,
}

impl Inside {
    /// What field `number` of it holds, if that has a name.
    fn step(self, number: u32) -> Option<Inside> {
        match (self, number) {
            (Inside::File, MESSAGE) | (Inside::Message, 3) => Some(Inside::Message),
            (Inside::File, ENUM) | (Inside::Message, 4) => Some(Inside::Enum),
            (Inside::File, SERVICE) => Some(Inside::Service),
            (Inside::Message, 2 | 8) | (Inside::Enum | Inside::Service, 2) => Some(Inside::Leaf),
            _ => None,
        }
    }
}

/// All length-delimited values of a field.
fn parts(bytes: &[u8], wanted: u32) -> Result<Vec<&[u8]>, SchemaError> {
    let (mut found, mut at) = (vec![], 0);
    while at < bytes.len() {
        let (number, wire_type) = wire::read_tag(bytes, &mut at)?;
        if number == wanted && wire_type == 2 {
            found.push(wire::read_bytes(bytes, &mut at)?);
        } else {
            wire::skip(bytes, &mut at, number, wire_type)?;
        }
    }
    Ok(found)
}

/// The last value of a field, or nothing.
fn first(bytes: &[u8], wanted: u32) -> Result<&[u8], SchemaError> {
    Ok(parts(bytes, wanted)?.pop().unwrap_or_default())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// A comment as the lines of a doc comment: what rustdoc would take for a code block or a link stays text.
fn tidy(comment: &str) -> String {
    let lines = comment.lines().map(|line| {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let line = line.strip_prefix("    ").map_or(line, str::trim_start);
        line.replace('[', "\\[").replace(']', "\\]").replace("```", "'''").replace('<', "\\<")
    });
    lines.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()
}

/// The same set without source info, and without files that are not in the schema that it makes.
pub(super) fn strip(descriptor_set: &[u8], schema: &Schema) -> Result<Vec<u8>, SchemaError> {
    let mut out = Vec::with_capacity(descriptor_set.len());
    for file in parts(descriptor_set, 1)? {
        let name = text(first(file, 1)?);
        if !schema.files().iter().any(|known| known.name == name) {
            continue;
        }
        let (mut kept, mut at) = (vec![], 0);
        while at < file.len() {
            let start = at;
            let (number, wire_type) = wire::read_tag(file, &mut at)?;
            wire::skip(file, &mut at, number, wire_type)?;
            if number != SOURCE_INFO {
                kept.extend_from_slice(&file[start..at]);
            }
        }
        out.push(0x0a);
        let mut len = kept.len();
        while len >= 0x80 {
            out.push(len as u8 | 0x80);
            len >>= 7;
        }
        out.push(len as u8);
        out.extend_from_slice(&kept);
    }
    Ok(out)
}
