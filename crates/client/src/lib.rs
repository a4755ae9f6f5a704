//! Clients of millrace, for programs: a cluster is found by its file, a controller, etcd or replicas, and followed when it moves.
//!
//! ```no_run
//! use client::Cluster;
//!
//! let mut cluster = Cluster::builder().etcd(["http://10.0.0.1:2379", "http://10.0.0.2:2379"]).chain(7).connect()?;
//! cluster.set(b"ann", b"10")?;
//! let moved = cluster.transaction().expect_at_least(b"ann", 4).add(b"ann", -4).add(b"bob", 4).commit()?;
//! assert_eq!(moved.sums, [6, 4]);
//! # Ok::<(), client::Error>(())
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`Cluster`], [`Builder`] | a cluster, found: its store, its cache |
//! | [`Store`], [`Pending`] | keys and transactions of a chain |
//! | [`kv`] | a client of one key-value server: shared memory, Unix sockets, TCP, TLS |
//! | [`cache`] | the in-network cache: a client of its boxes and homes, and the file that says where they are |
//! | [`replies`] | calls whose replies the cache may have |
//! | [`chain`] | the client beneath a store: transactions with and without waiting, replicas found and followed |
//! | [`mod@file`], [`table`] | the file of a cluster as clients read it; tables of TOML whose every complaint has a line |
//! | [`rights`] | the file that says who may do what at a server |
//! | [`controllers`] | the same file, as controllers have it |
//! | [`etcd`], [`web`] | what is asked over HTTP: etcd's gateway, admin ports |
//!
//! Calls wait for their outcome; nothing runs behind a program's back but threads that connect. What is retried and what is not, and what each error means:
//! `docs/clients.md`.
//!
//! Nothing here serves anything: servers import this crate for the words that they share with their clients.

pub mod cache;
pub mod chain;
mod cluster;
pub mod controllers;
mod error;
pub mod etcd;
pub mod file;
pub mod kv;
pub mod replies;
pub mod rights;
mod store;
pub mod table;
pub mod web;

pub use cluster::{Builder, Cluster};
pub use error::Error;
pub use store::{Item, Pending, Store};
pub use web::Tls;

/// What came of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap<V = u64> {
    /// It is stored, as this version.
    Stored(V),
    /// Another version is there.
    Exists,
    /// Nothing is there.
    Missing,
}
