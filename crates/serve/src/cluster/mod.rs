//! `millrace cluster`: a cluster by its one file: boxes, homes and controllers of a rack, replicas and controllers of chains.
//!
//! ```text
//!   cluster.toml ──▶ file: members ──▶ ask: each by what it has ──▶ report: rows, problems, verdict ──▶ status: table, JSON, exit status
//!                                                                       └──▶ change: may it go? the file without it, or with another
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `file` | who is a member, and how it is asked; `text`: the same text without a member, or with one more |
//! | `ask` | all members at once, in bounded time |
//! | `report` | what the answers say: a row for each member, and what is wrong; `text`: as people and programs read it |
//! | `status` | `cluster status` |
//! | `change` | `cluster drain`, `remove`, `add` |
//! | `moves` | `cluster move` |
//! | `order` | what a chain is told by these: orders to its controllers |
//! | `members` | members as processes of this machine, for soak tests |
//! | `rack` | what a rack is told: a box is to be stopped, or to serve |
//! | `homes` | `cluster move` of a home: its old life ends, then the rack is told where the next is |
//!
//! Nothing here decides anything about the cluster: controllers do, and of chains they obey orders.
//! Members are asked by what each has anyway: replicas by `Txn.Info`, as `chain
//! status` does, all others at their admin ports. Their operator's page: `docs/cluster.md`.

mod ask;
mod change;
pub mod file;
mod homes;
pub mod live;
pub mod members;
mod moves;
mod order;
mod rack;
pub mod report;
mod status;

use crate::process::table::Wrong;
use crate::process::tls::TlsClientArgs;
use std::path::PathBuf;
use std::{fmt, io};

/// Look after a whole cluster by its one file: boxes, homes, controllers and chains of replicas.
///
/// Members take from the same file who they are: `millrace box 1 --cluster FILE`, `millrace up --cluster FILE`, `millrace chain replica
/// --cluster FILE --id 1`, `millrace chain controller --cluster FILE`.
///
/// Members are named box:1, home:1, controller:0, chain:7/replica:2, chain:7/controller:0.
///
/// Exit status of `status`: 0 whole, 1 degraded, 2 a part serves nothing; of the others: 0 done, or it may be done; 1 not, and why; 2 wrong usage.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  millrace cluster status cluster.toml
  millrace cluster status cluster.toml --watch
  millrace cluster drain cluster.toml box:1 && systemctl stop millrace-box-1
  millrace cluster drain cluster.toml chain:7/replica:2 && systemctl stop millrace-replica-2
  millrace cluster remove cluster.toml chain:7/replica:2
  millrace cluster move cluster.toml home:1 10.0.0.9:7104
  millrace cluster move cluster.toml chain:7/replica:1 --to 4 --address tcp:10.0.0.4:7401 --peers tcp:10.0.0.4:7411")]
pub struct Cluster {
    #[command(flatten)]
    tls: TlsClientArgs,

    #[command(subcommand)]
    command: Command,
}

/// How all members of a cluster are, now: they are asked at once.
pub fn look(file: &file::File) -> report::Report {
    report::Report::of(file, &ask::ask_all(&file.members))
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Status(status::Status),
    Drain(change::Drain),
    Remove(change::Remove),
    Add(change::Add),
    Move(moves::Move),
}

impl Cluster {
    /// Runs it: the exit status.
    ///
    /// # Errors
    /// The file is wrong, or it could not be done.
    pub fn run(&self) -> Result<u8, ClusterError> {
        self.tls.apply().map_err(ClusterError::Refused)?;
        match &self.command {
            Command::Status(status) => status.run(),
            Command::Drain(drain) => drain.run().map(|()| 0),
            Command::Remove(remove) => remove.run().map(|()| 0),
            Command::Add(add) => add.run().map(|()| 0),
            Command::Move(moving) => moving.run().map(|()| 0),
        }
    }
}

/// Why it could not be done, and what to do about it.
#[derive(Debug)]
pub enum ClusterError {
    /// The file, with the line.
    File(Wrong),
    /// The rack in the file.
    Rack(crate::inc::TopologyError),
    /// The file has no members.
    Empty(PathBuf),
    /// It has no such member; those that it has.
    NoMember(String, Vec<String>),
    /// It is not done, for this reason.
    Refused(String),
    /// The file cannot be written.
    Write(PathBuf, io::Error),
    /// Signals cannot be caught.
    Signals(io::Error),
    /// Standard output is gone.
    Output(io::Error),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::File(wrong) => wrong.fmt(f),
            ClusterError::Rack(error) => error.fmt(f),
            ClusterError::Empty(path) => {
                write!(f, "{} names no members: write [[box]], [[home]] or [[chain]]", path.display())
            }
            ClusterError::NoMember(name, all) => {
                write!(f, "there is no member {name:?}; there are {}", all.join(", "))
            }
            ClusterError::Refused(why) => f.write_str(why),
            ClusterError::Write(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            ClusterError::Signals(error) => write!(f, "signals cannot be caught: {error}"),
            ClusterError::Output(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl std::error::Error for ClusterError {}
