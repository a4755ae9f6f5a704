//! A cache in the network: boxes beside switches answer for servers, coherently (Liu et al., "IncBricks", ASPLOS 2017).
//!
//! | file | what |
//! |---|---|
//! | [`rack`] | hosts, switches, boxes; legs of messages |
//! | [`flows`] | whole operations as rows of legs: what the planner weighs |
//! | [`parts`] | its box, switch, clients and servers as parts of other machines |
//! | [`planned`] | a workload on this rack: server, ToR boxes, root boxes |
//!
//! Nothing here knows the protocol. Its experiments (I-E1 to I-E5) run the published one, as `protocol::coherence::published` has it, on this hardware; they
//! are in the crate `plan` (`timed::incbricks`), which may know both.

pub mod flows;
pub mod parts;
pub mod planned;
pub mod rack;

pub use planned::{is_key_value, setting};
