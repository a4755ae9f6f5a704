//! `millrace lab`: a rack on one machine, from network namespaces or in one process, with load, deaths and a verdict.
//!
//! ```text
//!   plan ──▶ network: what is where, computed ──▶ ip ──▶ namespaces     site: all of it, and processes in it
//!                                                           ▲
//!   run: clients that record ──▶ histories ──▶ sim::check   └── state: found again by name, by down, status, exec
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `plan`, `network`, `place` | options; namespaces, cables, addresses and routes as values; names of nodes |
//! | `ip`, `namespace`, `process` | the `ip` command; network namespaces and who is in them; processes with logs |
//! | `site`, `state`, `command` | a lab that stands; what it leaves on disk; what it starts |
//! | `up`, `hold` | `up`, `down`, `status`, `exec`; the process that holds XDP programs |
//! | `link` | a cable that delays and loses, as a program |
//! | `run` | load, kills, verdict: in namespaces, or over loopback in this process |
//! | `bench` | latency and processor time with and without boxes, and against memcached |
//! | `compute` | computations at the client, the server and the box |
//! | `calls` | a call whose reply is kept, beside the server's and gRPC's |
//! | `sweep` | what boxes keep, over their size and the skew of keys, in virtual time |
//! | `error` | what can go wrong, and what to do about it |

pub mod bench;
pub mod calls;
mod command;
pub mod compute;
mod error;
mod hold;
pub(crate) mod ip;
pub mod link;
mod namespace;
pub mod network;
pub mod place;
mod plan;
pub mod process;
pub mod run;
pub mod site;
mod state;
pub mod sweep;
mod up;

pub use error::LabError;
pub use plan::Plan;
pub use site::Site;

/// A rack on this machine: namespaces, nodes, load, crashes, and a verdict.
///
/// `run` builds one, puts load on it, kills nodes, judges what the clients saw, and takes it down; `--loopback` does so in this process and
/// needs no root. `up` builds one that stands until `down`.
#[derive(clap::Args, Debug)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Up(Box<up::Up>),
    Down(up::Down),
    Status(up::Status),
    Exec(up::Exec),
    Run(Box<run::Run>),
    Bench(Box<bench::Bench>),
    Compute(Box<compute::Compute>),
    #[command(name = "rpc")]
    Calls(calls::Calls),
    Sweep(sweep::Sweep),
    Link(link::carry::Carry),
    #[command(hide = true)]
    Hold(hold::Hold),
    #[command(hide = true)]
    Client(Box<run::solo::Solo>),
}

impl Lab {
    /// Runs it.
    ///
    /// # Errors
    /// Whatever went wrong; [`LabError::exit_code`] is the exit status.
    pub fn run(&self) -> Result<(), LabError> {
        match &self.command {
            Command::Up(up) => up.run(),
            Command::Down(down) => down.run(),
            Command::Status(status) => status.run(),
            Command::Exec(exec) => exec.run(),
            Command::Run(run) => run.run(),
            Command::Bench(bench) => bench.run(),
            Command::Compute(compute) => compute.run(),
            Command::Calls(calls) => calls.run(),
            Command::Sweep(sweep) => Ok(sweep.run()?),
            Command::Link(carry) => carry.run(),
            Command::Hold(hold) => hold.run(),
            Command::Client(solo) => solo.run(),
        }
    }
}
