//! The Open Inference Protocol, version 2, over HTTP.
//!
//! | file | what it is |
//! |---|---|
//! | `request` | the body of an infer request: JSON, and tensors in binary behind it |
//! | `numbers` | a tensor's data in JSON, flat or nested |
//! | `tensors` | its tensors as queries |
//! | `reply` | scores and errors as bodies |
//! | `routes` | paths |
//! | `port` | the HTTP server |

mod numbers;
mod port;
mod reply;
pub mod request;
mod routes;
pub mod tensors;

pub use port::Port;
pub use request::Request;
pub use routes::Http;
