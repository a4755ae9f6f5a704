//! From .proto files to a [`Schema`], without protoc.
//!
//! Shape: protox parses and checks; our part is where sources come from (`sources`) and edition 2023 (`editions`), which
//! protox does not know: such a file goes through it as proto2, and its descriptor is marked as an edition's afterwards.
//! `millrace/options.proto` and a descriptor.proto that knows features are embedded, and come before any include folder.
//!
//! Errors: [`CompileError`], with file and line.
//!
//! Sources: descriptor.proto is protobuf's own (BSD licence, in its head).

mod editions;
mod sources;

use std::path::{Path, PathBuf};

use crate::schema::{Schema, SchemaError};
use crate::wire::{self, WireError};
use sources::Sources;

/// The text of `millrace/options.proto`: what other compilers of .proto files that import it need.
pub const OPTIONS: &str = include_str!("../../proto/millrace/options.proto");

/// Why .proto files make no schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// A file that cannot be read, parsed or checked: `file:line:column: what`.
    Source(String),
    /// Files that are right, but not for us.
    Schema(SchemaError),
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CompileError::Source(text) => f.write_str(text),
            CompileError::Schema(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<SchemaError> for CompileError {
    fn from(error: SchemaError) -> CompileError {
        CompileError::Schema(error)
    }
}

impl From<protox::Error> for CompileError {
    fn from(error: protox::Error) -> CompileError {
        // Its Debug form is the one with file, line and column.
        CompileError::Source(format!("{error:?}"))
    }
}

impl From<WireError> for CompileError {
    fn from(error: WireError) -> CompileError {
        CompileError::Source(error.to_string())
    }
}

/// Where .proto files are. Files given as text come before folders, folders in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    includes: Vec<PathBuf>,
    texts: Vec<(String, String)>,
}

impl Compiler {
    /// No files but the embedded ones and `google/protobuf/*.proto`.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// Adds a folder that imports are relative to.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Compiler {
        self.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Adds a file by its name and text.
    pub fn source(mut self, name: impl Into<String>, text: impl Into<String>) -> Compiler {
        self.texts.push((name.into(), text.into()));
        self
    }

    /// The schema of these files and all that they import. Names are as imports write them, or paths in an include folder.
    pub fn compile(&self, files: &[impl AsRef<Path>]) -> Result<Schema, CompileError> {
        Ok(Schema::from_descriptor_set(&self.descriptor_set(files)?)?)
    }

    /// The same as a serialised `google.protobuf.FileDescriptorSet`, imports included.
    pub fn descriptor_set(&self, files: &[impl AsRef<Path>]) -> Result<Vec<u8>, CompileError> {
        let sources = Sources::new(&self.includes, &self.texts);
        let editions = sources.editions();
        let mut compiler = protox::Compiler::with_file_resolver(sources);
        // With both, protox hands the pool's bytes out as they are, options of all kinds included.
        compiler.include_imports(true).include_source_info(true);
        // Options are read with the descriptor.proto that is there first: it must be the one that knows features.
        compiler.open_file("google/protobuf/descriptor.proto")?;
        compiler.open_files(files)?;
        let set = compiler.encode_file_descriptor_set();
        let editions = editions.borrow();
        Ok(mark_editions(&set, |name| editions.contains(name))?)
    }
}

/// Marks the files that `is_edition` names as edition 2023: the last value of a field is the one that counts, so it is appended.
fn mark_editions(set: &[u8], is_edition: impl Fn(&str) -> bool) -> Result<Vec<u8>, WireError> {
    /// `syntax = "editions"`, `edition = EDITION_2023`.
    const MARK: &[u8] = b"\x62\x08editions\x70\xe8\x07";
    let mut out = Vec::with_capacity(set.len());
    let mut at = 0;
    while at < set.len() {
        wire::read_tag(set, &mut at)?;
        let file = wire::read_bytes(set, &mut at)?;
        let mark = if is_edition(file_name(file)?) { MARK } else { b"" };
        out.push(0x0a);
        let mut len = file.len() + mark.len();
        while len >= 0x80 {
            out.push(len as u8 | 0x80);
            len >>= 7;
        }
        out.push(len as u8);
        out.extend_from_slice(file);
        out.extend_from_slice(mark);
    }
    Ok(out)
}

/// The name in a `FileDescriptorProto`.
fn file_name(file: &[u8]) -> Result<&str, WireError> {
    let mut at = 0;
    while at < file.len() {
        let (number, wire_type) = wire::read_tag(file, &mut at)?;
        if (number, wire_type) == (1, 2) {
            return Ok(std::str::from_utf8(wire::read_bytes(file, &mut at)?).unwrap_or(""));
        }
        wire::skip(file, &mut at, number, wire_type)?;
    }
    Ok("")
}

#[cfg(test)]
mod tests;
