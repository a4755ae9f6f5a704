//! This machine as a platform of the model, and the model held against it.
//!
//! ```text
//!   millrace probe ──┐
//!   code costs ──────┴─▶ figures ──▶ platform `this-host` (TOML) ──▶ model::system::host ──▶ predictions ──┐
//!   the real store, rings and server ──────────────────────────────────────────────────────────────────────┴─▶ check-host
//! ```
//! Predictions use figures of the probe and the bare time of our code in the first-level cache; never what they predict.

mod calls;
mod check;
mod code;
mod figures;
mod this_host;

pub use check::CheckHost;
pub(crate) use check::{Ask, arithmetic};
pub use this_host::ThisHost;
