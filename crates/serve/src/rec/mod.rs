//! `millrace rec serve`: a recommendation model behind the fabric and behind the Open Inference Protocol.
//!
//! ```text
//!            sockets              parse, features to ids, checks        batches, reduction, MLPs
//!  fabric ─▶ front  ══ ring ══▶ ┐
//!                               ├ preprocess ════════ ring ═══════════▶ engine ─┐
//!  HTTP   ─▶ oip    ══ ring ══▶ ┘                                               │
//!        ◀──────────────────────────────── scores ──────────────────────────────┘
//! ```
//! Each box is a thread. That is ORCA's pipeline (section IV-D): the network's side hands requests over by rings, one core parses what people write and makes
//! the model's input of it, the engine does the whole inference, and its answer goes straight back to the network's side.
//!
//! | file | what it is |
//! |---|---|
//! | `command` | the command; a server as a service of a process |
//! | `server` | all threads, and their end |
//! | `rings` | what is between them |
//! | `edge`, `front`, `oip` | the sockets' side; over the fabric; over HTTP |
//! | `job` | a request on its way |
//! | `preprocess`, `words` | the preprocessing core; the fabric's messages |
//! | `engine` | the engine core |
//! | `shelf`, `source`, `synthetic` | the model and its replacement while requests go on; where it comes from |
//! | `held`, `counters`, `busy`, `refusal` | bounds, figures, processor time, errors |
//! | `registers` | what can be tuned |
//! | `../../proto/recommend.proto` | the fabric's service; `recommend.rs` and `recommend.desc` beside it are made of it by `fabric::build` and committed |
//!
//! Bounds: rings of `rec.ring` requests, `rec.held` bytes of requests; what finds no room is refused at once.

mod busy;
mod command;
mod counters;
mod edge;
mod engine;
mod front;
mod held;
mod job;
pub mod metrics;
pub mod oip;
pub mod preprocess;
mod refusal;
pub mod registers;
mod rings;
mod server;
mod shelf;
mod source;
mod synthetic;
#[cfg(test)]
mod tests;
mod words;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../proto/recommend.rs");
}

pub use command::{Rec, Serve};
pub use counters::{Counters, Stages};
pub use refusal::Refusal;
pub use server::{Plan, ServeError, Server, Watched};
pub use shelf::{Shelf, Source};
pub use source::ModelArgs;
pub use synthetic::{Synthetic, budget, rows};
pub use words::take_stages;
