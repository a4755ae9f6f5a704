//! Stubs from a build script: messages and services.
//!
//! In the `Cargo.toml` of the crate that has the .proto files:
//!
//! ```toml
//! [dependencies]
//! codec = { package = "millrace-codec", version = "0.1" }
//! fabric = { package = "millrace-fabric", version = "0.1" }
//!
//! [build-dependencies]
//! fabric = { package = "millrace-fabric", version = "0.1", features = ["compile"] }
//! ```
//!
//! in its `build.rs`:
//!
//! ```no_run
//! fn main() -> Result<(), fabric::build::BuildError> {
//!     fabric::build::Config::new().include("proto").compile(&["proto/echo.proto"])?;
//!     Ok(())
//! }
//! ```
//!
//! and in its code, if `echo.proto` says `package demo`, as for messages alone:
//!
//! ```ignore
//! mod proto {
//!     codec::include_proto!("demo");
//! }
//! ```
//!
//! (`crates/fabric/examples/stub-build` is such a crate.) For `service Echo { rpc Say(SayRequest) returns (SayReply); }` there is then, beside
//! the messages:
//!
//! | item | what it is |
//! |---|---|
//! | `trait Echo` | what a server implements; a method that it leaves out answers UNIMPLEMENTED |
//! | `EchoServer<T>` | makes a [`Service`](crate::service::Service) of an implementation |
//! | `EchoClient` | the methods' numbers at a peer, and the calls: `say`, that waits, and `say_async` |
//! | `ECHO` | the [`ServiceDescriptor`](crate::service::ServiceDescriptor): names, schema hash |
//!
//! [`Config::deferred`] names unary methods whose handler answers later, from any thread.

mod service;

use service::Stubs;
use std::path::{Path, PathBuf};

pub use codec::build::BuildError;

/// What to compile, and where to; as [`codec::build::Config`], and services.
#[derive(Clone, Debug, Default)]
pub struct Config {
    messages: codec::build::Config,
    deferred: Vec<String>,
}

impl Config {
    /// Nothing yet.
    pub fn new() -> Config {
        Config::default()
    }

    /// Adds a folder that imports are relative to. Without any it is the crate's own folder.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Config {
        self.messages = self.messages.include(folder);
        self
    }

    /// Writes to this folder instead of Cargo's `OUT_DIR`.
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Config {
        self.messages = self.messages.out_dir(folder);
        self
    }

    /// Writes `name.rs` instead of naming it after the package.
    pub fn name(mut self, name: impl Into<String>) -> Config {
        self.messages = self.messages.name(name);
        self
    }

    /// The handler of this unary method (`/shop.Cart/Pay`) answers later, by a
    /// [`Deferred`](crate::stub::Deferred), from whatever thread.
    pub fn deferred(mut self, method: impl Into<String>) -> Config {
        self.deferred.push(method.into());
        self
    }

    /// Compiles these files and writes messages and stubs; says where.
    ///
    /// # Errors
    /// See [`BuildError`].
    ///
    /// # Panics
    /// If [`Config::deferred`] named what is no unary method: a build script's author sees it.
    pub fn compile(&self, files: &[impl AsRef<Path>]) -> Result<PathBuf, BuildError> {
        let stubs = Stubs::new(&self.deferred);
        let written = self.messages.compile_with(files, &stubs)?;
        stubs.finish();
        Ok(written)
    }
}
