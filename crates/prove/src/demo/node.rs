//! The node of the demonstration, as a program of a user's would make one: the items that memcached's clients and boxes see, a model, and the shop.
//!
//! ```text
//!  cache  kv   the home of the boxes; its items lie in the chain          memcached
//!  rank   rec  a random model, on the engine core                         in memory
//!  shop   rpc  `shop.rs`, on workers; boxes keep what may be kept         fabric, and gRPC by a gateway
//!  media  rpc  the same, behind an accelerator with a unit                fabric
//! ```

use super::shop::proto::shop::{PicturesServer, ShopServer};
use super::shop::{DENSE, Handlers, Packer};
use clap::Args;
use fabric::link::Address;
use rec::RowFormat;
use serve::inc::Topology;
use serve::kv::Kv;
use serve::kv::config::{Config, Listen};
use serve::kv::durable::{Durability, DurableArgs};
use serve::kv::home::HomeArgs;
use serve::kv::registers::Id;
use serve::node::Node;
use serve::rec::registers::Registers;
use serve::rec::{ModelArgs, Rec, Synthetic};
use serve::rpc::Rpc;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the shop finds the model: within the process.
const RANK: &str = "memory:shop-rank";
/// Workers that wait for others on behalf of the shop's calls.
const WORKERS: &str = "4";
/// No call of the shop takes longer.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes of memory for items that the store keeps of the chain's.
const MEMORY: u64 = 64 << 20;

/// What the parent tells it.
#[derive(Args, Clone, Debug)]
pub struct NodeArgs {
    /// The file of the cluster
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,

    /// For memcached's clients
    #[arg(long, value_name = "ADDR:PORT")]
    memcached: SocketAddr,

    /// For clients of the fabric
    #[arg(long, value_name = "ADDR:PORT")]
    fabric: SocketAddr,

    /// For those of pictures
    #[arg(long, value_name = "ADDR:PORT")]
    media: SocketAddr,

    /// For gRPC clients
    #[arg(long, value_name = "ADDR:PORT")]
    grpc: SocketAddr,

    /// It never ran before
    #[arg(long)]
    home_first: bool,
}

/// The words of [`NodeArgs`], but for what the cluster adds. Its ports: memcached, the shop, gRPC, pictures.
pub fn words(_folder: &Path, ports: &[SocketAddr]) -> Vec<String> {
    let mut words = vec!["demo".to_owned(), "node".to_owned()];
    for (flag, port) in ["--memcached", "--fabric", "--grpc", "--media"].iter().zip(ports) {
        words.extend([(*flag).to_owned(), port.to_string()]);
    }
    words
}

impl NodeArgs {
    /// Serves until it is stopped.
    ///
    /// # Errors
    /// What cannot be had.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let rank: Address = RANK.parse()?;
        let topology = Arc::new(Topology::read(&self.cluster)?);
        let shop = ShopServer::new(Handlers::new(&self.cluster, &rank));
        let shop = Rpc::of_kept(shop, topology, CALL_TIME_MAX)?;
        let media = Rpc::of_service(PicturesServer::new(Packer))?.kernels(Packer::kernels());
        let media = media.with("acc.on", "on")?.with("acc.units", "1")?.with("acc.memory", "32m")?;
        let store = self.store()?;
        let admin = store.home.admin().ok_or("the cluster's file has no admin port for the home")?;
        let node = Node::builder()
            .add("cache", Kv::new(store))
            .listen(&format!("tcp:{}", self.memcached))
            .add("rank", Rec::of_model(model(), Arc::new(Registers::default())))
            .listen(RANK)
            // One queue for all: its calls wait for others, and none is to wait behind them.
            .add("shop", shop.with("workers.count", WORKERS)?.with("workers.provisioning", "single")?)
            .listen(&format!("tcp:{}", self.fabric))
            .listen_as("grpc", &self.grpc.to_string())
            .add("media", media)
            .listen(&format!("tcp:{}", self.media))
            .admin(&admin.to_string());
        Ok(node.run()?)
    }

    fn store(&self) -> Result<Config, Box<dyn Error>> {
        let config = Config {
            listen: Listen { tcp: Vec::new(), ..Listen::default() },
            home: HomeArgs {
                boxes: Some(self.cluster.clone()),
                home: Some(1),
                home_first: self.home_first,
                ..HomeArgs::default()
            },
            durable: DurableArgs {
                durability: Durability::Chain,
                chain: vec![self.cluster.display().to_string().parse()?],
                ..DurableArgs::default()
            },
            ..Config::default()
        };
        config.registers.write(Id::StoreMemory, MEMORY)?;
        Ok(config)
    }
}

/// Small: it is made when the node starts.
fn model() -> ModelArgs {
    let synthetic = Synthetic {
        tables: 2,
        rows: 10_000,
        dim: 32,
        format: RowFormat::F32,
        dense: DENSE,
        bottom: vec![32],
        top: vec![32],
        memo: None,
        seed: 1,
    };
    ModelArgs { model: None, repository: None, row_format: None, name: None, max_memory: None, synthetic }
}
