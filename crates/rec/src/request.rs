//! What a request asks of a model: read from bytes, checked against the model, in the form that the engine takes.
//!
//! | file | what it is |
//! |---|---|
//! | `served` | a model with names, and with what makes ids of features |
//! | `queries` | checked queries, and their builder |
//! | `wrong` | which tensor is wrong, and what was expected of it |
//! | `body`, `numbers`, `tensors` | the Open Inference Protocol's infer request: the body, a tensor's data in JSON, its tensors as queries |
//!
//! Bytes in, values out: sockets and threads are `millrace rec serve`'s. The fuzz target `rec_request` comes in here.

mod body;
mod numbers;
mod queries;
mod served;
mod tensors;
#[cfg(test)]
mod tests;
mod wrong;

pub use body::{Data, MOST_INPUTS, Request, Tensor};
pub use numbers::Numbers;
pub use queries::{Builder, Queries};
pub use served::{NoRow, Served};
pub use tensors::queries;
pub use wrong::{What, Wrong};

use std::fmt;

/// Why bytes are no request for this model.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestError {
    /// A tensor is wrong.
    Wrong(Wrong),
    /// It is no request at all.
    Malformed(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Wrong(wrong) => wrong.fmt(f),
            RequestError::Malformed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<Wrong> for RequestError {
    fn from(wrong: Wrong) -> RequestError {
        RequestError::Wrong(wrong)
    }
}
