//! Commands whose subcommands are in more than one crate.

pub mod rec;
pub mod registers;
pub mod rpc;
pub mod txn;
