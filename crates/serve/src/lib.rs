//! Servers: each a folder with its command, threads, sockets, registers and metrics; beside them what all of them share.
//!
//! | module | what it is |
//! |---|---|
//! | [`node`] | several services in one process: `millrace up`, config files, nodes of Rust programs |
//! | [`kv`] | the key-value server for memcached clients |
//! | [`inc`] | the in-network cache of `protocol::coherence` on sockets: boxes, homes, controller, clients |
//! | [`proxy`] | memcached clients before that cache |
//! | [`chain`], [`txn`] | chains of replicas; transactions over them, from the side of whoever asks |
//! | [`cluster`] | the file of a cluster: how all its members are; who joins and who goes |
//! | [`rec`] | recommendation inference |
//! | [`rpc`] | services of the fabric: a server to try out, a gateway for gRPC, calls by hand |
//! | `memcached` | connections of memcached clients: what it and the proxy share |
//! | [`shell`] | services of a process: one port for operators, one log, one stop |
//! | [`process`] | what all commands do alike: stopping, logging, progress, parsing |
//! | [`admin`], [`metrics`], [`http`] | operators' ports: metrics, registers, health |
//! | `engine_cores` | the engine cores of a process, the services on them, host threads |
//! | `descriptors`, `guard`, `gzip`, `reach`, [`complain!`] | descriptors kept for operators; panics; gzip; warnings; what commands say on standard error |
//! | [`rights`] | the file of who may do what |
//! | [`recorder`] | requests, recorded into a file for the planner |
//! | [`otlp`] | metrics and spans to an OpenTelemetry collector |
//! | [`trace`] | `millrace trace`: what became of single requests |
//! | [`key`], [`wire`] | `millrace key`, `millrace wire` |
//!
//! Nothing here measures, judges or plans: `bench`, `prove` and `plan` import this crate. Folders of services do not import each other; the exceptions
//! are listed in `crates/millrace/tests/tidy`.

pub mod admin;
pub mod chain;
pub mod cluster;
pub mod complain;
pub(crate) mod descriptors;
pub mod engine_cores;
pub(crate) mod guard;
#[cfg(feature = "rpc")]
pub(crate) mod gzip;
pub mod http;
pub mod inc;
pub mod key;
pub mod kv;
pub mod memcached;
pub mod metrics;
pub mod node;
pub mod otlp;
pub mod process;
pub mod proxy;
pub(crate) mod reach;
#[cfg(feature = "rec")]
pub mod rec;
pub mod recorder;
pub mod rights;
#[cfg(feature = "rpc")]
pub mod rpc;
pub mod shell;
pub mod trace;
pub mod txn;
pub mod wire;
