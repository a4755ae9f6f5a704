//! What the .proto files say of each element, from the source info of a descriptor set.
//!
//! Sources: descriptor.proto (`SourceCodeInfo`): a location is a path of field numbers and indices, with the comments there.

use crate::schema::source_info::{SOURCE_INFO, last, name_of, numbers, parts, text};
use crate::schema::{FOR_OPTIONS, Schema, SchemaError};
use crate::wire;
use std::collections::HashMap;

/// Comments by the full name of the element.
pub(super) struct Comments(HashMap<String, String>);

impl Comments {
    pub(super) fn of(descriptor_set: &[u8]) -> Result<Comments, SchemaError> {
        let mut comments = Comments(HashMap::new());
        for file in parts(descriptor_set, 1)? {
            let package = text(last(file, 2)?);
            for info in parts(file, SOURCE_INFO)? {
                for location in parts(info, 1)? {
                    comments.add(file, package, location)?;
                }
            }
        }
        Ok(comments)
    }

    fn add(&mut self, file: &[u8], package: &str, location: &[u8]) -> Result<(), SchemaError> {
        let (leading, trailing) = (last(location, 3)?, last(location, 4)?);
        let comment = text(if leading.is_empty() { trailing } else { leading });
        if comment.is_empty() {
            return Ok(());
        }
        let path = numbers(last(location, 1)?)?;
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

/// A comment as the lines of a doc comment: what rustdoc would take for a code block or a link stays text.
fn tidy(comment: &str) -> String {
    let lines = comment.lines().map(|line| {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let line = line.strip_prefix("    ").map_or(line, str::trim_start);
        line.replace('[', "\\[").replace(']', "\\]").replace("```", "'''").replace('<', "\\<")
    });
    lines.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()
}

/// The same set without source info, and without files that are not in the schema that it makes. Files imported for their options are
/// in no schema, but a set without them is not whole for other readers.
pub(super) fn strip(descriptor_set: &[u8], schema: &Schema) -> Result<Vec<u8>, SchemaError> {
    let files = parts(descriptor_set, 1)?;
    let mut names: Vec<&str> = schema.files().iter().map(|file| file.name.as_str()).collect();
    // options.proto imports descriptor.proto, so it is asked about first.
    for option in FOR_OPTIONS.into_iter().rev() {
        let mut is_imported = false;
        for file in &files {
            let is_known = names.contains(&text(last(file, 1)?));
            is_imported |= is_known && parts(file, 3)?.iter().any(|name| text(name) == option);
        }
        if is_imported && !names.contains(&option) {
            names.push(option);
        }
    }
    let mut out = Vec::with_capacity(descriptor_set.len());
    for file in files {
        if !names.contains(&text(last(file, 1)?)) {
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
