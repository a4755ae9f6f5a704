//! Where in a .proto file an element is: the source info of a descriptor set, which compilers add.
//!
//! Sources: descriptor.proto (`SourceCodeInfo`): a location is a path of field numbers and indices, with its span and comments.

use super::{Position, Problem, SchemaError};
use crate::wire::{self, WireError};

/// The parts of descriptor.proto that a path goes through.
const MESSAGE: u32 = 4;
const ENUM: u32 = 5;
const SERVICE: u32 = 6;
/// `source_code_info` of a file.
pub(crate) const SOURCE_INFO: u32 = 9;

/// The same error, with line and column if the set knows them.
pub(super) fn locate(set: &[u8], mut error: SchemaError) -> SchemaError {
    // What is no protobuf has no lines either.
    error.position = position(set, &error).unwrap_or(None);
    error
}

fn position(set: &[u8], error: &SchemaError) -> Result<Option<Position>, WireError> {
    let Some((_, name)) = error.element.rsplit_once(' ') else { return Ok(None) };
    // Options are field 4 of a method, and field 8 of a field.
    let option = match &error.problem {
        Problem::Contradiction(what) => Some([4, what.option()]),
        Problem::AccOnScalar => Some([8, super::options::ACC]),
        _ => None,
    };
    for file in parts(set, 1)?.into_iter().filter(|file| last(file, 1).is_ok_and(|b| text(b) == error.file)) {
        let package = text(last(file, 2)?);
        let mut locations = Vec::new();
        for info in parts(file, SOURCE_INFO)? {
            for location in parts(info, 1)? {
                locations.push((numbers(last(location, 1)?)?, location));
            }
        }
        for (path, location) in &locations {
            if name_of(file, package, path)?.as_deref() != Some(name) {
                continue;
            }
            let of_option = option.and_then(|option| {
                let begin = [path, &option[..]].concat();
                locations.iter().find(|(path, _)| path.starts_with(&begin))
            });
            let location = of_option.map_or(*location, |(_, location)| location);
            let span = numbers(last(location, 2)?)?;
            if let [line, column, ..] = span[..] {
                return Ok(Some(Position { line: line.saturating_add(1), column: column.saturating_add(1) }));
            }
        }
    }
    Ok(None)
}

/// The full name of the message, field, oneof, enum, value, service or method at a path; none if something else is there.
pub(crate) fn name_of(file: &[u8], package: &str, path: &[u32]) -> Result<Option<String>, WireError> {
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
        name.push_str(text(last(here, 1)?));
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
pub(crate) fn parts(bytes: &[u8], wanted: u32) -> Result<Vec<&[u8]>, WireError> {
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
pub(crate) fn last(bytes: &[u8], wanted: u32) -> Result<&[u8], WireError> {
    Ok(parts(bytes, wanted)?.pop().unwrap_or_default())
}

/// A packed list: a path or a span.
pub(crate) fn numbers(packed: &[u8]) -> Result<Vec<u32>, WireError> {
    let (mut found, mut at) = (vec![], 0);
    while at < packed.len() {
        found.push(wire::read_varint(packed, &mut at)? as u32);
    }
    Ok(found)
}

/// Text, or nothing if it is none.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
