//! Commands: those of each product in a file, which is there by the product's feature (`products`), and those that every product has.

// Comments are help for the terminal, where brackets are brackets.
#![allow(rustdoc::broken_intra_doc_links)]

#[cfg(feature = "kv")]
pub mod kv;
#[cfg(feature = "lab")]
pub mod lab;
pub mod metrics;
#[cfg(feature = "model")]
pub mod model;
pub mod output;
pub mod pages;
pub mod products;
#[cfg(feature = "rec")]
pub mod rec;
pub mod registers;
#[cfg(feature = "rpc")]
pub mod rpc;
#[cfg(feature = "kv")]
pub mod txn;

/// What went wrong, and the exit status that says so.
pub struct Failure {
    pub error: Box<dyn std::error::Error>,
    pub code: u8,
}

impl<E: Into<Box<dyn std::error::Error>>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure { error: error.into(), code: 1 }
    }
}

/// How a command ended that only prints.
pub fn printed<T>(result: Result<T, Box<dyn std::error::Error>>) -> Result<T, Failure> {
    result
        .map_err(|error| Failure { code: if output::is_closed(&*error) { output::CLOSED } else { 1 }, error })
}
