//! The Open Inference Protocol, version 2, over HTTP and over gRPC.
//!
//! | file | what it is |
//! |---|---|
//! | `describe` | what the server and its model are, and what was counted, for both |
//! | `routes` | paths of HTTP |
//! | `reply` | scores and errors as bodies |
//! | `front` | the service on the fabric, which clients of gRPC reach through its port |
//! | `messages` | its messages to tensors, and answers to messages |
//! | `../../../proto/inference.proto` | that service; `inference.rs` and `inference.desc` beside it are made of it by `fabric::build` and committed |

pub mod describe;
mod front;
mod guard;
pub(super) mod messages;
mod reply;
mod routes;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../../proto/inference.rs");
}

pub use front::Front;
pub use routes::Http;
