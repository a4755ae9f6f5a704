//! What both ends of a connection agree on before and while calls flow.

mod error;
pub mod handshake;
mod opening;
pub mod switch;

pub use error::ConnectError;
pub use opening::{Opened, Opening};
