//! Transactions over a chain of replicas, from the side of whoever asks.
//!
//! | file | what it is |
//! |---|---|
//! | `../../proto/txn.proto` | the service that each replica serves; `txn.rs` and `txn.desc` beside it are made of it by `fabric::build` and committed |
//! | `words`, `info` | its messages to and from those of `protocol::chain` |
//! | `client` | a client: transactions that wait, or many under way |
//! | `shards` | a client of all chains of a cluster: transactions go by the slots of their keys |
//! | `places`, `place`, `search` | the replicas that a client knows, and a channel to each; who is at addresses |
//! | `find`, `directory` | how a chain's replicas are found: addresses, the cluster's file, a controller, etcd; what the last two say |
//! | `error`, `reply` | why there is no outcome; outcomes as text and JSON |

mod client;
pub mod directory;
mod error;
pub mod find;
pub mod info;
mod place;
mod places;
pub mod reply;
mod search;
mod shards;
pub mod words;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../proto/txn.rs");
}

pub use client::{Client, Options, Ticket};
pub use error::{Across, TxnError};
pub use find::Source;
pub use places::Caller;
pub use shards::Shards;
