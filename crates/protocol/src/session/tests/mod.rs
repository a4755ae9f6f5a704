//! Sessions over a simulated network: [`network`] does the harm, [`world`] plays a scenario and checks every message,
//! [`scenarios`] says what is played, [`planted`] that the checker finds bugs, [`handshake`] and [`codec`] look closer
//! at single datagrams.
//!
//! `MILLRACE_SEED` plays one seed only, `MILLRACE_CASES` sets how many.

mod codec;
mod handshake;
mod network;
mod planted;
mod scenarios;
mod world;

pub(in crate::session) use planted::Planted;
