//! `millrace sim --node`: a whole key-value node under faults, in virtual time, judged operation by operation.
//!
//! ```text
//!  play ──┬── script    what the seed draws: cores, services, edges, registers, clients, requests, faults, orders
//!         ├── world     who runs when, stops and starts, phases
//!         │    ├── faults   what a plan means where streams connect clients and a node
//!         │    ├── issue    what clients do
//!         │    ├── client   a connection: requests as bytes, replies as answers, in order, one each
//!         │    ├── tongue   the three protocols as clients write and read them
//!         │    └── watch    what holds after every step, and at rest
//!         └── history ──▶ sim::check   every key linearizable, expiry included
//! ```
//! The node is that of production below its sockets and threads ([`serve::kv::by_hand`]). What is measured is in `docs/measurements/sim.md`.

mod client;
mod faults;
mod issue;
mod play;
mod script;
#[cfg(test)]
mod tests;
mod tongue;
mod watch;
mod world;

pub use play::Case;
