//! Commands whose subcommands are in more than one crate.

// Comments are help for the terminal, where brackets are brackets.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod metrics;
pub mod output;
pub mod pages;
pub mod rec;
pub mod registers;
pub mod rpc;
pub mod txn;
