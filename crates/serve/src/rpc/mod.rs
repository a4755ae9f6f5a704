//! `millrace rpc`: what a fabric server serves, calls by hand, and a server to try out.
//!
//! | file | what it is |
//! |---|---|
//! | `gateway` | gRPC clients in front of a fabric server |
//! | `list`, `call`, `serve` | a command each |
//! | `target` | the server that a command is about |
//! | `descriptions` | services and methods by name, from the server or from .proto files |
//! | `proto_text`, `json` | descriptors and messages as text |
//! | `demo` | what `serve` serves |
//! | `engine` | an engine core that runs handlers, when register `place.handlers` says so |
//! | `own` | a server in this process for whoever asks it himself |
//! | `replies` | a service whose replies the in-network cache keeps |
//! | `in_node` | a server and its gateways, as a service of a process |
//! | `admin` | what they show of themselves over HTTP |
//! | `batch` | how many frames are published together, as people write it |
//! | `error` | what can go wrong, and what to do about it |

mod admin;
pub mod batch;
pub mod call;
pub mod demo;
pub mod descriptions;
pub mod engine;
mod error;
pub mod gateway;
mod in_node;
pub mod json;
pub mod list;
pub mod metrics;
pub mod own;
pub mod proto_text;
pub mod replies;
pub mod serve;
pub mod target;

pub use codec::compile::OPTIONS;
pub use error::RpcError;
pub use in_node::{Keys, Rpc};
