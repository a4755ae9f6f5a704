//! `millrace chain`: transactions over a chain of replicas, as processes. The machines are `protocol::chain`, logs and images are `store`'s.
//!
//! | file | what it is |
//! |---|---|
//! | `replica`, `node`, `in_node` | `chain replica`: from flags to a running replica; its loop; it as a service of a process |
//! | `members` | chains in the file of a cluster: who is a member, and where |
//! | `traced` | the spans that transactions leave at a replica |
//! | `service` | the clients' calls (`txn.proto`) to the machine and back |
//! | `gate` | who has a right to what of these calls |
//! | `links` | messages between replicas and controllers, over any fabric transport |
//! | `disk`, `media` | log, image and checkpoints in a directory, behind the machine's traits; what they are kept on |
//! | `info`, `metrics` | what a replica says of itself: `Txn.Info`, Prometheus text |
//! | `controller`, `registry` | `chain controller`, `chain reset`: who is in the chain; where that is kept |
//! | `up` | `chain up`: all of it on one machine |
//! | `local` | a chain within this process, for tests and examples |
//! | `status` | `chain status`, `chain checksum` |
//! | `export`, `backup` | what a replica gives of itself in pieces; `chain backup`, `restore`, `verify` |
//! | `registers`, `error` | what can be tuned; what can go wrong, and what to do about it |
//!
//! The protocol, and why it is strictly serializable: `docs/design/006-chain.md`. How it is operated: `docs/chain-operate.md`.

mod backup;
pub mod controller;
pub mod disk;
pub mod error;
mod export;
mod gate;
mod in_node;
mod info;
pub mod links;
mod local;
pub mod media;
pub mod members;
pub mod metrics;
pub mod node;
pub mod registers;
pub mod registry;
pub mod replica;
pub mod service;
pub mod status;
mod traced;
mod unclaim;
pub mod up;

pub use controller::Controlling;
pub use error::ChainError;
pub use in_node::Serving;
pub use local::Local;

/// Transactions over a chain of replicas with a persistent redo log.
///
/// Each replica has every item in memory and every transaction in its log before it is acknowledged. The first of the chain orders
/// transactions, the last commits them; a controller decides who is in the chain. `millrace txn` is the client.
///
/// Exit status: 0 done, 1 not, 2 wrong usage, 3 replicas differ (`checksum`), 4 a log or image failed (`replica`), 5 nobody answers.
#[derive(clap::Args, Debug)]
pub struct Chain {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Up(Box<up::Up>),
    Replica(Box<replica::ReplicaNode>),
    Controller(Box<controller::ControllerNode>),
    Reset(Box<controller::Reset>),
    Status(status::StatusCommand),
    Checksum(status::Checksum),
    Unclaim(unclaim::Unclaim),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Verify(backup::Verify),
}

impl Chain {
    /// Runs it.
    ///
    /// # Errors
    /// Whatever went wrong; [`ChainError::exit_code`] is the exit status.
    pub fn run(&self) -> Result<(), ChainError> {
        match &self.command {
            Command::Up(up) => up.run(),
            Command::Replica(replica) => replica.run(),
            Command::Controller(controller) => controller.run().map_err(ChainError::Controller),
            Command::Reset(reset) => reset.run().map_err(ChainError::Controller),
            Command::Status(status) => status.run(),
            Command::Checksum(checksum) => checksum.run(),
            Command::Unclaim(unclaim) => unclaim.run(),
            Command::Backup(backup) => backup.run(),
            Command::Restore(restore) => restore.run(),
            Command::Verify(verify) => verify.run(),
        }
    }
}
