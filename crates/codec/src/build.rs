//! Typed accessors from a build script.
//!
//! In the `Cargo.toml` of the crate that has the .proto files:
//!
//! ```toml
//! [dependencies]
//! codec = { package = "millrace-codec", version = "0.1" }
//!
//! [build-dependencies]
//! codec = { package = "millrace-codec", version = "0.1", features = ["compile"] }
//! ```
//!
//! in its `build.rs`:
//!
//! ```no_run
//! fn main() -> Result<(), codec::build::BuildError> {
//!     codec::build::Config::new().include("proto").compile(&["proto/photo.proto"])?;
//!     Ok(())
//! }
//! ```
//!
//! and in its code, if `photo.proto` says `package photo`:
//!
//! ```
//! # mod proto {
//! #     mod all { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/generated/gallery.rs")); }
//! #     pub mod photo { pub use super::all::gallery::Photo as Request; }
//! # }
//! # /*
//! mod proto {
//!     codec::include_proto!("photo");
//! }
//! # */
//! use codec::typed::{Message, MessageView};
//! use proto::photo::Request;
//!
//! let arena = codec::memory::Arena::default();
//! let mut request = Request::new(&arena)?;
//! request.set_title("sunset")?;
//! let mut encoder = codec::encode::Encoder::default();
//! let bytes = request.freeze().encode(&mut encoder)?;
//!
//! let mut decoder = codec::decode::Decoder::default();
//! let view = Request::decode(&mut decoder, bytes, &arena)?;
//! assert_eq!(view.title(), "sunset");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! (`crates/codec/examples/typed-build` is such a crate.) One file holds the accessors of all named files and of all
//! that they import; see [`generate`] for how things are called. It is named after the first file's package,
//! or after the file if it has none, or as [`Config::name`] says.

use crate::compile::{CompileError, Compiler};
use crate::generate::{self, ServiceWriter};
use crate::schema::Schema;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Why no accessors were written.
#[derive(Clone, PartialEq, Eq)]
pub enum BuildError {
    /// The .proto files.
    Compile(CompileError),
    /// No files were named.
    NoFiles,
    /// There is no `OUT_DIR`: this is not a build script, and [`Config::out_dir`] was not called.
    NoOutDir,
    /// A file could not be written.
    Write(PathBuf, io::ErrorKind),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Compile(error) => error.fmt(f),
            BuildError::NoFiles => f.write_str("no .proto files were named"),
            BuildError::NoOutDir => {
                f.write_str("OUT_DIR is not set: call out_dir, or run this from a build script")
            }
            BuildError::Write(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

/// As [`fmt::Display`]: a build script that fails prints its error so.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

impl<E: Into<CompileError>> From<E> for BuildError {
    fn from(error: E) -> BuildError {
        BuildError::Compile(error.into())
    }
}

/// What to compile, and where to.
#[derive(Clone, Debug, Default)]
pub struct Config {
    includes: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
    name: Option<String>,
}

impl Config {
    /// Nothing yet.
    pub fn new() -> Config {
        Config::default()
    }

    /// Adds a folder that imports are relative to. Without any it is the crate's own folder.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Config {
        self.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Writes to this folder instead of Cargo's `OUT_DIR`.
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Config {
        self.out_dir = Some(folder.as_ref().to_owned());
        self
    }

    /// Writes `name.rs` instead of naming it after the package.
    pub fn name(mut self, name: impl Into<String>) -> Config {
        self.name = Some(name.into());
        self
    }

    /// Compiles these files and writes the accessors; says where. Tells Cargo to run the build script again when one of the
    /// files, or of those that they import, has changed.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn compile(&self, files: &[impl AsRef<Path>]) -> Result<PathBuf, BuildError> {
        self.write(files, None)
    }

    /// The same, with code for the services, as `services` writes it.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn compile_with(
        &self,
        files: &[impl AsRef<Path>],
        services: &dyn ServiceWriter,
    ) -> Result<PathBuf, BuildError> {
        self.write(files, Some(services))
    }

    fn write(
        &self,
        files: &[impl AsRef<Path>],
        services: Option<&dyn ServiceWriter>,
    ) -> Result<PathBuf, BuildError> {
        let first = files.first().ok_or(BuildError::NoFiles)?.as_ref();
        let includes =
            if self.includes.is_empty() { vec![PathBuf::from(".")] } else { self.includes.clone() };
        let compiler = includes.iter().fold(Compiler::new(), |compiler, folder| compiler.include(folder));
        for file in files {
            println!("cargo:rerun-if-changed={}", find(&includes, file.as_ref()).display());
        }
        let set = compiler.descriptor_set(files)?;
        let schema = Schema::from_descriptor_set(&set)?;
        for path in schema.files().iter().map(|file| find(&includes, Path::new(&file.name))) {
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }

        let name = self.name.clone().unwrap_or_else(|| name_of(&schema, first));
        let folder = self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from));
        let folder = folder.ok_or(BuildError::NoOutDir)?;
        let descriptors = format!("{name}.desc");
        let generated = match services {
            Some(writer) => generate::generate_with(&set, &descriptors, writer)?,
            None => generate::generate(&set, &descriptors)?,
        };
        write(&folder.join(&descriptors), &generated.descriptors)?;
        let code = folder.join(format!("{name}.rs"));
        write(&code, generated.code.as_bytes())?;
        Ok(code)
    }
}

/// The path of a file that is named as it is, or as imports name it.
fn find(includes: &[PathBuf], file: &Path) -> PathBuf {
    let inside = includes.iter().map(|folder| folder.join(file));
    std::iter::once(file.to_owned())
        .chain(inside)
        .find(|path| path.exists())
        .unwrap_or_else(|| file.to_owned())
}

/// The package of a file, or the file's own name.
fn name_of(schema: &Schema, file: &Path) -> String {
    let found = schema
        .files()
        .iter()
        .filter(|known| file.ends_with(&known.name))
        .max_by_key(|known| known.name.len());
    match found {
        Some(known) if !known.package.is_empty() => known.package.clone(),
        _ => file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
    }
}

/// Writes a file if that changes it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    if fs::read(path).is_ok_and(|have| have == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|error| BuildError::Write(path.to_owned(), error.kind()))
}
