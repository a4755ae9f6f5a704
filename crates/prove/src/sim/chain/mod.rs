//! `millrace sim --chain`: transactions over a chain of replicas under faults, in virtual time, judged transaction by transaction.
//!
//! ```text
//!  play ──┬── script    what the seed draws: bounds, media, keys, transactions, faults
//!         ├── world     nodes, clocks, bytes on the wire, crashes, power cuts, pauses, phases
//!         │    ├── serve     a replica's log and checkpoints: when they become durable, and when they fail
//!         │    ├── registry  configurations, and who leads
//!         │    ├── issue     transactions: one outcome each, in time
//!         │    ├── behind    who asks it instead, where it is behind a home (`sim --durability chain`)
//!         │    └── watch     what holds after every event
//!         └── record ──▶ sim::txn   strictly serializable, by replay in the order of LSNs and by search
//! ```
//! The machines are those of production ([`protocol::chain`]), and so is every byte on the wire. What is measured is in
//! `docs/measurements/sim-chain.md`.

pub(super) mod behind;
mod disk;
mod issue;
mod play;
pub(crate) mod record;
mod registry;
mod script;
mod serve;
mod shape;
#[cfg(test)]
mod tests;
mod watch;
mod world;

pub use play::Case;
pub(super) use script::Script;
pub use shape::Shape;
pub(super) use world::World;
