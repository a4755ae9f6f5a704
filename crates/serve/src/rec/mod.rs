//! `millrace rec serve`: a recommendation model behind the fabric and behind the Open Inference Protocol.
//!
//! ```text
//!            sockets                                  tasks: parse, features to ids, checks; batches, reduction, MLPs
//!  fabric ─▶ front ─┐
//!                   ├▶ edge ══ port ══════════════════▶ engine ─┐ ◀══▶ host threads
//!  HTTP   ─▶ oip   ─┘                                           │
//!        ◀─────────────────────── scores ───────────────────────┘
//! ```
//! Threads: one for each edge; the engine core ([`crate::engine_cores`]) and the host threads are its process's, on which it is one service of tasks.
//! That is ORCA's division (section IV-D): the network's side hands requests over by rings, the engine does the whole inference, and its answer goes
//! straight back to the network's side. What people write is parsed and made the model's input where `place.rec.preprocess` says: on the edge's thread, on
//! the engine's core, or on a host thread.
//!
//! | file | what it is |
//! |---|---|
//! | `command` | the command; a server as a service of a process |
//! | `server` | edges and service, and their end |
//! | `edge`, `front`, `oip` | the sockets' side; over the fabric; over HTTP |
//! | `job` | a request on its way |
//! | `preprocess`, `words` | reading and checking requests; the fabric's messages |
//! | `inference`, `batch` | the engine's service; what is computed together |
//! | `shelf` | the models, and their replacement while requests go on |
//! | `source`, `repository`, `synthetic` | where they come from |
//! | `by_hand` | a server without threads |
//! | `held`, `counters`, `busy`, `refusal` | bounds, figures, processor time, errors |
//! | `traced` | requests that leave spans |
//! | `registers` | what can be tuned |
//! | `../../proto/recommend.proto` | the fabric's service; `recommend.rs` and `recommend.desc` beside it are made of it by `fabric::build` and committed |
//!
//! Bounds: `rec.ring` requests of each edge on their way, `rec.held` bytes of requests; what finds no room is refused at once.

mod batch;
mod busy;
mod by_hand;
mod command;
mod counters;
mod edge;
mod front;
mod held;
mod inference;
mod job;
pub mod metrics;
pub mod oip;
pub mod preprocess;
mod refusal;
pub mod registers;
pub mod repository;
mod server;
mod shelf;
mod source;
mod synthetic;
#[cfg(test)]
mod tests;
mod traced;
mod words;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../proto/recommend.rs");
}

pub use by_hand::ByHand;
pub use command::{Rec, Serve};
pub use counters::{Counted, Counters, Stages};
pub use refusal::Refusal;
pub use server::{Plan, ServeError, Server, Watched};
pub use shelf::{LoadError, Model, ModelSource, Offer, Shelf, Source};
pub use source::ModelArgs;
pub use synthetic::{Synthetic, budget, rows};
pub use words::take_stages;
