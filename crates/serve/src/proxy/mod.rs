//! `millrace proxy`: memcached clients in front of the in-network cache.
//!
//! ```text
//!   any memcached client ══ TCP ══▶ connection ─▶ flow ─▶ command ─▶ coherence::Client ══ UDP ══▶ box ─ box ─ home
//!                                   what arrived  order   meaning    many operations
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `translate` | what a client wrote, as a task and the form of its reply |
//! | `command` | a task: memcached's meaning in operations of the cache, sans-IO |
//! | `flow` | a connection's order: what may be under way together |
//! | `reply` | outcomes as memcached's texts |
//! | `connection`, `worker`, `server`, `in_node` | a socket; a thread with sockets and a client; all of them; they as a service of a process |
//! | `shared`, `stats`, `metrics`, `error` | counters and bounds, `stats`, the admin port's metrics, what can go wrong |
//!
//! The grammar is `protocol::memcache`'s, for nodes and proxies alike. What differs through a proxy: `docs/memcached-differences.md`.

pub mod command;
mod connection;
mod error;
mod flow;
mod in_node;
pub mod metrics;
mod reply;
mod server;
pub mod shared;
mod stats;
mod translate;
mod worker;

pub use error::ProxyError;
pub use in_node::Proxying;
pub use server::Proxy as Running;
pub use shared::Options;

use crate::admin;
use crate::inc::{IncError, Topology};
use crate::memcached::login::LoginArgs;
use crate::process::listen::ListenArgs;
use crate::process::logger::LogArgs;
use crate::process::parse::address;
use crate::process::{Stop, say};
use crate::shell::Shell;
use fabric::link::TlsOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Let any memcached client use the in-network cache.
///
/// Listens for the memcached protocol, text and meta, on TCP, and asks a box of the topology for what clients want: boxes on the way answer from
/// their copies, homes do all writes, and every command on a key stays linearizable, whoever else uses the cache. Put it on the machines of
/// the clients, or next to their box.
///
/// Reads that a client pipelines are under way together; a write waits for what came before it on its connection, and what comes after
/// waits for it. Replies come in order.
///
/// What cannot be done is said: `SERVER_ERROR nobody answered; it was not done`, or `… it may have been done` for a write that was sent
/// and not answered within coherence.patience. A value of more than 65056 bytes does not fit a packet: it goes by a
/// stream to its home, up to coherence.value_max, where the topology says streams; else `SERVER_ERROR object too large for cache`.
/// All that differs from memcached is in docs/memcached-differences.md, "Through the proxy".
///
/// `stats` tells what the proxy counts: commands by outcome, and with inc_ before their names the operations and datagrams of its clients.
/// Ctrl-C or SIGTERM end it: what has arrived is answered first, and the counters are printed.
///
/// Beyond loopback it wants a certificate (--tls-cert), or to be told that it may do without (--insecure). Clients log in where there are users (-Y, -S).
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  millrace inc topology > rack.toml
  millrace inc run --topology rack.toml --all --first &
  millrace proxy --topology rack.toml --listen 127.0.0.1:11211 &
  printf 'set colour 0 0 4\\r\\nblue\\r\\nget colour\\r\\nquit\\r\\n' | nc 127.0.0.1 11211")]
pub struct Proxy {
    #[command(flatten)]
    keys: Keys,

    /// Where memcached clients connect; loopback unless told otherwise. Port 0 picks a free one. May be repeated
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:11211", value_parser = address)]
    listen: Vec<SocketAddr>,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = admin::parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    listening: ListenArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// What config files say, too.
#[derive(clap::Args, Clone, Debug)]
struct Keys {
    /// The file that the nodes have, too; or http://HOST:PORT[,…]: admin ports of the rack's controllers
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,

    /// The box to ask; the first, unless said
    #[arg(long = "box", value_name = "ID")]
    tor: Option<u16>,

    /// Threads, each with a socket to the box and its own connections; one per core, unless said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Commands of one connection that may wait for an answer; the rest waits in its socket
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pipeline: u16,

    /// Connections; more are told so and closed
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections: u64,

    #[command(flatten)]
    login: LoginArgs,
}

impl Proxy {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// The file is wrong, or an address cannot be had, or a socket failed.
    pub fn run(&self) -> Result<(), ProxyError> {
        self.log.start("proxy");
        self.listening.apply()?;
        let topology = Topology::find(&self.keys.topology, ::client::controllers::TIMEOUT)?;
        let stop = Stop::on_signals().map_err(IncError::Signal)?;
        let has_tls = TlsOptions::of_process().certificate.is_some();
        let listen = self.listen.iter().map(|address| (*address, has_tls)).collect();
        let shell = Shell::of(
            Proxying::new(self.keys.clone(), topology, listen),
            self.listening.access(self.admin)?,
            stop,
        )?;
        if let Some(admin) = shell.admin() {
            say(&format!("metrics at {}/metrics", admin.url()));
        }
        Ok(shell.wait()?)
    }
}
