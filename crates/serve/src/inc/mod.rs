//! `millrace inc`: the in-network cache of `protocol::coherence` on real sockets: its nodes. `millrace lab` puts load on them and judges.
//!
//! The topology, its clients, and what drives a machine at a socket are in `client::cache`.
//!
//! | file | what it is |
//! |---|---|
//! | `node`, `registers` | a node of a topology; its registers at an admin port |
//! | `group`, `cores` | sockets of one port, and what stands at each, for a box of several cores |
//! | `metrics` | Prometheus text |
//! | `items` | what a home keeps its items in |
//! | `tiered`, `fast` | a box with its XDP tier; the options that ask for one |
//! | `orders` | what is changed of a controller that runs |
//! | `told` | the cluster's file as a controller tells it |
//! | `plan`, `run`, `one`, `ask` | commands: `topology`; `run`; `millrace box`, `home`, `controller`; one per operation |
//! | `in_node`, `life` | nodes as a service of a process; the number of their lives |
//! | `rack` | all nodes of a topology in this process, to be killed and revived |
//! | `error` | what can go wrong, and what to do about it |
//!
//! What the machines promise, and why: `docs/design/004-box.md`.

mod ask;
pub mod cores;
mod error;
mod fast;
pub mod group;
mod in_node;
pub mod items;
mod life;
pub mod metrics;
pub mod node;
pub mod one;
pub mod orders;
pub mod plan;
pub mod rack;
pub mod registers;
pub mod run;
#[cfg(test)]
mod tests;
pub mod tiered;
mod told;

pub use ::client::cache::{Client, ClientError, Item, Swap, Topology, TopologyError};
pub use ::client::cache::{book, client, datagrams, driver, machine, stream, times, topology, wire};
pub use error::IncError;
pub use in_node::Nodes;
pub(crate) use in_node::incarnation;

/// A cache in the network that stays coherent: boxes on the way to homes, over UDP.
///
/// Clients ask their box; it answers from its copy, or sends the request on to the item's home and keeps the answer. Homes do all writes, and
/// wait until no box has the old value. So every operation on a key is linearizable, whatever is lost and whoever crashes.
///
/// All nodes and clients read one topology file. Nodes and clients prove with the key that it names who they are; nothing is encrypted: keep it on
/// loopback or a network that you
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
    Run(Box<run::Run>),
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
