//! `millrace inc`: the in-network cache of `protocol::coherence` on real sockets: nodes and clients. `millrace lab` puts load on them and judges.
//!
//! ```text
//!   topology (a file) ──▶ book: who is where ─┐
//!                     └─▶ machine: box, home, controller, client ──▶ driver: a thread and a UDP socket
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `topology`, `registers`, `book` | which nodes there are, how they are tuned, where they are |
//! | `machine`, `driver`, `wire`, `datagrams`, `node` | a machine, at a socket, sealed, many datagrams at a time, as a node of a topology |
//! | `group`, `cores` | sockets of one port, and what stands at each, for a box of several cores |
//! | `padding` | how much a client pads its requests |
//! | `times`, `metrics` | how long datagrams take; Prometheus text |
//! | `items` | what a home keeps its items in |
//! | `client`, `pipelined` | the library for Rust programs: with waiting, and without |
//! | `stream`, `ways` | memcached connections to homes, for what is too long for a packet; both ways of a client |
//! | `tiered`, `fast` | a box with its XDP tier; the options that ask for one |
//! | `orders` | what is changed of a controller that runs |
//! | `plan`, `run`, `one`, `ask` | commands: `topology`; `run`; `millrace box`, `home`, `controller`; one per operation |
//! | `in_node`, `life` | nodes as a service of a process; the number of their lives |
//! | `rack` | all nodes of a topology in this process, to be killed and revived |
//! | `error` | what can go wrong, and what to do about it |
//!
//! What the machines promise, and why: `docs/design/004-box.md`.

mod ask;
pub mod book;
pub mod client;
pub mod cores;
pub mod datagrams;
pub mod driver;
mod error;
mod fast;
pub mod group;
mod in_node;
pub mod items;
mod life;
pub mod machine;
pub mod metrics;
pub mod node;
pub mod one;
pub mod orders;
pub mod padding;
mod pipelined;
pub mod plan;
pub mod rack;
pub mod registers;
pub mod run;
mod secret;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod tiered;
pub mod times;
pub mod topology;
mod ways;
pub mod wire;

pub use client::{Client, ClientError, Item, Swap};
pub use error::IncError;
pub use in_node::Nodes;
pub(crate) use in_node::incarnation;
pub use topology::Topology;

/// A cache in the network that stays coherent: boxes on the way to homes, over UDP.
///
/// Clients ask their box; it answers from its copy, or sends the request on to the item's home and keeps the answer. Homes do all writes, and
/// wait until no box has the old value. So every operation on a key is linearizable, whatever is lost and whoever crashes.
///
/// All nodes and clients read one topology file. Nodes and clients prove with the key that it names who they are; nothing is encrypted: keep it on loopback or a network that you
/// trust.
///
/// Exit status of operations: 0 done, 3 nothing there, 4 the condition does not hold, 5 nobody answered, 1 all else, 2 wrong usage.
#[derive(clap::Args, Debug)]
pub struct Inc {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Topology(plan::Plan),
    Run(run::Run),
    #[command(flatten)]
    Ask(ask::Ask),
}

impl Inc {
    /// Runs it.
    ///
    /// # Errors
    /// Whatever went wrong; [`IncError::exit_code`] is the exit status.
    pub fn run(&self) -> Result<(), IncError> {
        match &self.command {
            Command::Topology(plan) => plan.run(),
            Command::Run(run) => run.run(),
            Command::Ask(ask) => ask.run(),
        }
    }
}
