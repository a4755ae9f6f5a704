//! A cache in the network: boxes beside switches answer for servers, coherently (Liu et al., "IncBricks", ASPLOS 2017).
//!
//! | file | what |
//! |---|---|
//! | [`rack`] | hosts, switches, boxes; legs of messages |
//! | [`lfu`], [`copies`] | a box's table; who has a copy of what |
//! | [`world`] | the published protocol, in virtual time |
//! | [`run`] | load, and what was seen |
//! | [`flows`] | whole operations as rows of legs: breakdowns, and what the planner weighs |
//! | [`experiments`] | I-E1 … I-E5 |
//! | [`parts`] | its box, switch, clients and servers as parts of other machines |
//! | [`planned`] | a workload on this rack: server, ToR boxes, root boxes |

pub mod copies;
pub mod experiments;
pub mod flows;
pub mod lfu;
pub mod parts;
pub mod planned;
pub mod rack;
pub mod run;
pub mod world;

pub use planned::{is_key_value, setting};
