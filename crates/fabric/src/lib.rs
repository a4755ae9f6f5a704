//! RPC over threads, processes and networks, under one API.
//!
//! | module | one word |
//! |---|---|
//! | [`status`] | how a call ended, with gRPC's codes |
//! | [`service`] | what a server runs |
//! | [`stub`] | what generated stubs are made of |
//! | [`channel`] | the client side: calls out, events in |
//! | [`server`] | the server side: a value that a thread drives |
//! | [`connection`] | the handshake, and switching to another link |
//! | [`frame`] | the 16-byte header of everything that travels, and metadata |
//! | [`link`] | the transports behind one trait |
//! | [`port`] | the rings between application threads and the thread that owns links, in three modes |
//! | [`shared`] | one channel for many threads, and for futures |
//! | [`workers`] | cores behind a server: balancing times provisioning |
//! | [`batch`] | when to show what was put into a ring |
//! | [`monitor`] | counters, stage histograms, sampled traces |
//! | [`registers`] | what can be changed while it runs |
//! | `build` | stubs from .proto files, in a build script; with feature `compile` |
//!
//! `docs/design/003-fabric.md` says why it is as it is and maps the mechanisms of Dagger and ORCA to files.

pub mod batch;
#[cfg(feature = "compile")]
pub mod build;
pub mod channel;
pub mod connection;
pub mod frame;
pub mod link;
pub mod monitor;
pub mod port;
pub mod registers;
pub mod server;
pub mod service;
pub mod shared;
pub mod status;
pub mod stub;
pub mod workers;
