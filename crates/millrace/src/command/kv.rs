//! Commands of product `kv`: stores for memcached clients, the in-network cache, chains of replicas and transactions.

use super::Failure;
use super::txn::Txn;
use bench::load::{self, BenchArgs};
use clap::Subcommand;
use serve::chain::Chain;
use serve::cluster::Cluster;
use serve::inc::Inc;
use serve::inc::one::{BoxNode, ControllerNode, HomeNode};
use serve::key::Key;
use serve::node::Up;
use serve::proxy::Proxy;
use serve::wire::Wire;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum Command {
    Up(Box<Up>),
    Bench(Box<BenchArgs>),
    Inc(Inc),
    Chain(Chain),
    Cluster(Cluster),
    #[command(name = "box")]
    CacheBox(BoxNode),
    Home(HomeNode),
    Controller(ControllerNode),
    Key(Key),
    Proxy(Proxy),
    Txn(Box<Txn>),
    Wire(Wire),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Up(up) => up.run()?,
            Command::Bench(args) => load::run(&args)?,
            Command::Inc(inc) => inc.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() })?,
            Command::Chain(chain) => {
                chain.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() })?
            }
            Command::Cluster(cluster) => return Ok(ExitCode::from(cluster.run()?)),
            Command::CacheBox(node) => node.run()?,
            Command::Home(node) => node.run()?,
            Command::Controller(node) => node.run()?,
            Command::Key(key) => key.run()?,
            Command::Proxy(proxy) => proxy.run()?,
            Command::Txn(txn) => return Ok(txn.run()),
            Command::Wire(wire) => wire.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
