//! Links, by their contract: one conformance suite for every transport and mode, and what other processes can do to them.

mod conformance;
mod peers;
mod rig;
mod tls;
