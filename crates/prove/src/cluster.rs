//! The cluster of `millrace soak kills` and `millrace demo`: two boxes before a node, their controller, and a chain of three with its own: one file, and a
//! process of this program for each member.
//!
//! Addresses are ports of loopback that nobody used when the file was written; memcached's clients find the node at one of them. Folder and processes:
//! [`serve::cluster::members`].

use base::Nanos;
use fabric::link::Address;
use protocol::chain::Transaction;
use protocol::coherence::NodeId;
use protocol::wire::BoxId;
use serve::cluster::file::{File, Means, Who};
use serve::cluster::look;
use serve::cluster::members::{Members as Processes, free_ports};
use serve::cluster::report::{Report, Verdict};
use serve::inc::Topology;
use serve::txn::{Client, Options};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Boxes before the node.
pub const BOXES: u32 = 2;
/// Replicas of the chain.
const REPLICAS: u16 = 3;
/// The chain's number.
const CHAIN: u32 = 7;
/// Ports that are found for it.
const PORTS: usize = 32;
/// Within this all must be whole; nothing that works takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at all members.
const LOOK: Duration = Duration::from_millis(20);

/// Times of the cluster, for what clients may stand still.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Of boxes and home.
    pub lease: Nanos,
    /// The longest pause between two sendings of in-network clients, boxes and home.
    pub retransmit: Nanos,
    /// Of the chain, with the drift of clocks.
    pub chain_lease: Nanos,
    /// The longest pause between two sendings of clients of the chain.
    pub chain_retransmit: Nanos,
    /// The node's items lie in the chain.
    pub is_joint: bool,
}

/// What the node's acknowledged writes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// The log of the node; transactions are on keys of the chain alone
    #[default]
    Log,
    /// The chain: all clients work on the same keys
    Chain,
}

impl Durability {
    /// As flags have it.
    fn name(self) -> &'static str {
        match self {
            Durability::Log => "log",
            Durability::Chain => "chain",
        }
    }
}

impl Durability {
    /// What the node is started with, besides its home: at `port`.
    pub fn node(self, folder: &Path, port: u16) -> Vec<String> {
        let (data, file) = (path(folder, "node"), path(folder, "cluster.toml"));
        let port = port.to_string();
        let words =
            ["up", "-l", "127.0.0.1", "-p", &port, "-m", "64", "--durability", self.name(), "--home", "1"];
        let more: &[&str] = match self {
            Durability::Log => &["--set", "log.size=8m", "--data-dir", &data],
            Durability::Chain => &["--chain-at", &file],
        };
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }
}

/// What the node is started with, given the folder and its ports on loopback, but for the cluster's file and whether it is its first life.
pub type NodeWords = Box<dyn Fn(&Path, &[SocketAddr]) -> Vec<String> + Send>;

/// See the head of the file.
pub struct Members {
    processes: Processes,
    /// The node's items lie in the chain.
    is_joint: bool,
    node_words: NodeWords,
    file: File,
    topology: Topology,
    /// Where the node may listen; memcached's clients find it at the first.
    node: Vec<SocketAddr>,
}

/// The cluster's file.
fn text(ports: &mut impl Iterator<Item = u16>) -> String {
    let mut at = || format!("127.0.0.1:{}", ports.next().expect("there are enough"));
    let mut text = "[cluster]\nkey = \"cluster.key\"\n".to_owned();
    let boxes = (1..=BOXES).map(|id| format!("[[box]]\nid = {id}"));
    for head in boxes.chain(["[[home]]\nid = 1\nbox = 1".to_owned(), "[[controller]]".to_owned()]) {
        text += &format!("{head}\naddress = \"{}\"\nadmin = \"{}\"\n", at(), at());
    }
    // What the home logs it gives to nobody, though boxes ask.
    text += "[coherence]\ncompute = \"own_lossy\"\n";
    text += &format!("[[chain]]\nnumber = {CHAIN}\nstate = [\"chain\"]\n");
    for id in 1..=REPLICAS {
        text += &format!(
            "[[chain.replica]]\nid = {id}\naddress = \"tcp:{}\"\npeers = \"tcp:{}\"\nadmin = \"{}\"\ndata = \"replica{id}\"\n",
            at(),
            at(),
            at()
        );
    }
    text + &format!("[[chain.controller]]\naddress = \"tcp:{}\"\nadmin = \"{}\"\n", at(), at())
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// What a member is started with, in its first life or another; the node with `node`.
pub fn words(who: Who, folder: &Path, node: Vec<String>, is_first: bool) -> Vec<String> {
    let (words, first) = match who {
        Who::Node(NodeId::Box(BoxId(id))) => (vec!["box".to_owned(), id.to_string()], "--first"),
        Who::Node(NodeId::Home(_)) => (node, "--home-first"),
        Who::Node(NodeId::Controller(number)) => (vec!["controller".to_owned(), number.to_string()], ""),
        Who::Replica(_, id) => {
            let words =
                ["chain", "replica", "--id", &id.to_string(), "--log-size", "8m", "--data-size", "8m"];
            (words.map(str::to_owned).into(), "")
        }
        Who::Controller(_, number) => {
            (["chain", "controller", "--number", &number.to_string()].map(str::to_owned).into(), "")
        }
        Who::Node(NodeId::Client(_)) => unreachable!("clients are no members"),
    };
    let first = (is_first && !first.is_empty()).then(|| first.to_owned());
    words.into_iter().chain(["--cluster".to_owned(), path(folder, "cluster.toml")]).chain(first).collect()
}

impl Members {
    /// A new cluster, of which nobody runs; its folder's name has `name`, and stays in the end if it `keeps` it. `is_joint`: the node's items lie in the
    /// chain.
    ///
    /// # Errors
    /// In words.
    pub fn new(name: &str, keeps: bool, is_joint: bool, node_words: NodeWords) -> Result<Members, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot find itself: {e}"))?;
        let processes = Processes::new(name, program, keeps)?;
        let mut ports = free_ports(PORTS).map_err(|error| format!("no ports: {error}"))?.into_iter();
        processes.write_file(&text(&mut ports))?;
        let path = processes.file();
        let file = File::read(&path).map_err(|error| error.to_string())?;
        let topology = Topology::read(&path).map_err(|error| error.to_string())?;
        let node = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect();
        Ok(Members { processes, is_joint, node_words, file, topology, node })
    }

    /// All who can die.
    pub fn all(&self) -> Vec<Who> {
        self.file.members.iter().map(|member| member.who).collect()
    }

    /// Where memcached's clients find the node.
    pub fn node(&self) -> SocketAddr {
        self.node[0]
    }

    /// Ports of the node's, that of memcached's clients first.
    pub fn ports(&self) -> &[SocketAddr] {
        &self.node
    }

    /// The cluster's file.
    pub fn cluster_file(&self) -> PathBuf {
        self.processes.file()
    }

    /// Where operators find a member.
    pub fn admin(&self, who: Who) -> Option<SocketAddr> {
        match self.file.members.iter().find(|member| member.who == who)?.means {
            Means::Admin(address) => Some(address),
            _ => None,
        }
    }

    /// Where operators find the replicas of the chain.
    pub fn replica_admins(&self) -> Vec<SocketAddr> {
        self.file
            .chains
            .iter()
            .flat_map(|chain| &chain.replicas)
            .filter_map(|replica| replica.admin)
            .collect()
    }

    /// Where clients of the chain find it.
    pub fn chain(&self) -> Vec<Address> {
        let replicas = self.file.chains.iter().flat_map(|chain| &chain.replicas);
        replicas.map(|replica| replica.address.clone()).collect()
    }

    /// The rack.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its times.
    pub fn times(&self) -> Times {
        let (rack, chain) = (self.topology.config(), protocol::chain::Config::default());
        Times {
            lease: rack.lease,
            retransmit: rack.retransmit_max,
            chain_lease: Nanos(
                chain.lease.0 + chain.lease.0 * chain.drift_percent / 100 + 2 * chain.heartbeat.0,
            ),
            chain_retransmit: chain.retransmit_max,
            is_joint: self.is_joint,
        }
    }

    /// Everybody begins for the first time, and all is whole.
    ///
    /// # Errors
    /// In words: somebody ended, or something is not whole in time.
    pub fn start_all(&mut self) -> Result<(), String> {
        let is_node = |who: &Who| matches!(who, Who::Node(NodeId::Home(_)));
        let (nodes, others): (Vec<Who>, Vec<Who>) = self.all().into_iter().partition(is_node);
        for who in others {
            self.start(who, true)?;
        }
        if self.is_joint {
            self.await_chain()?;
        }
        for who in nodes {
            self.start(who, true)?;
        }
        self.await_whole(&mut || false).map(drop)
    }

    /// Until the chain does transactions: a node that keeps its items there does not start before.
    fn await_chain(&mut self) -> Result<(), String> {
        let options = Options { patience: PATIENCE, by_homes: false, ..Options::default() };
        let begun = Instant::now();
        loop {
            let done = Client::connect(&self.chain(), &options)
                .and_then(|mut client| client.execute(Transaction::new().put("begun", "1")));
            match done {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > PATIENCE => return Err(format!("no chain: {error}")),
                Err(_) => self.processes.check_alive()?,
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Starts a member.
    ///
    /// # Errors
    /// In words.
    pub fn start(&mut self, who: Who, is_first: bool) -> Result<(), String> {
        let folder = self.processes.folder();
        let words = words(who, folder, (self.node_words)(folder, &self.node), is_first);
        self.processes.start(who, &words)
    }

    /// Kills a member on the spot: it is gone when this returns.
    ///
    /// # Errors
    /// In words: it had ended by itself.
    pub fn kill(&mut self, who: Who) -> Result<(), String> {
        self.processes.kill(who)
    }

    /// Whether all that were started, and not killed, run.
    ///
    /// # Errors
    /// In words: one has ended by itself.
    pub fn check_alive(&mut self) -> Result<(), String> {
        self.processes.check_alive()
    }

    /// Until every member does its part, or `is_over`.
    ///
    /// # Errors
    /// In words: somebody ended by itself, or something is not whole in time.
    pub fn await_whole(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let report = look(&self.file);
            if report.verdict() == Verdict::Whole || is_over() {
                return Ok(());
            }
            self.processes.check_alive()?;
            if begun.elapsed() > PATIENCE {
                return Err(self.not_whole(&report));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn not_whole(&self, report: &Report) -> String {
        let mut text = format!("not whole after {} s:\n{}", PATIENCE.as_secs(), report.text());
        for problem in &report.problems {
            if let Some(member) =
                self.file.members.iter().find(|member| member.who.to_string() == problem.about)
            {
                text += &format!("\n{} said:\n{}", problem.about, self.processes.last_words(member.who));
            }
        }
        text
    }
}
