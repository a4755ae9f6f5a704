//! The Open Inference Protocol, version 2, over HTTP.
//!
//! | file | what it is |
//! |---|---|
//! | `reply` | scores and errors as bodies |
//! | `routes` | paths |
//! | `port` | the HTTP server |

mod reply;
mod routes;

pub use routes::Http;
