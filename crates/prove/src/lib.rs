//! Proofs: what is done to the servers and their machines, and what must hold all the same.
//!
//! | module | what it is |
//! |---|---|
//! | [`sim`] | `millrace sim`: whole clusters in virtual time under faults, from a seed |
//! | [`lab`] | `millrace lab`: a rack on this machine, of namespaces or in this process, with load, deaths and a verdict |
//! | [`soak`] | `millrace soak`, `rpc soak`: what is promised under abuse, over real sockets, for as long as one likes |
//! | [`demo`] | `millrace demo`: the whole on this machine: a rack, a chain and a node, driven, moved, and hurt |
//! | [`check`] | `millrace check`: a judge of histories in files |

pub mod check;
mod cluster;
pub mod demo;
pub mod lab;
pub mod sim;
pub mod soak;
