//! A rack of boxes and a home in this process, and a proxy before it. The home is a thread of its own, or a node that is one, with a stream for values that
//! are too long for a packet.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

use super::served::Client;
use protocol::coherence::{Life, NodeId};
use protocol::wire::Incarnation;
use serve::inc::machine::Counters;
use serve::inc::node;
use serve::inc::registers::Registers;
use serve::inc::topology::{Shape, Topology};
use serve::kv::Server;
use serve::kv::home::HomeArgs;
use serve::proxy::{Options, Running};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A ToR for clients, a root, and a ToR with the home: what a client asks for passes all three.
pub const SHAPE: Shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 0 };

pub const OPTIONS: Options = Options { threads: 2, pipeline: 128, connections: 1024 };

/// What something has counted, by name.
pub type Counts = BTreeMap<&'static str, u64>;

type Thread = JoinHandle<std::io::Result<Counters>>;

pub struct Proxied {
    pub proxy: Running,
    /// As clients read it.
    pub topology: Arc<Topology>,
    /// The home, if it is a node; its files.
    pub node: Option<Server>,
    _folder: Option<TempDir>,
    /// Of nodes that do not run, so that nobody else has their ports.
    _silent: Vec<UdpSocket>,
    stop: Arc<AtomicBool>,
    nodes: Vec<(NodeId, Thread)>,
}

/// All but the proxy.
struct Racked {
    topology: Arc<Topology>,
    node: Option<Server>,
    folder: Option<TempDir>,
    silent: Vec<UdpSocket>,
    stop: Arc<AtomicBool>,
    nodes: Vec<(NodeId, Thread)>,
}

impl Racked {
    fn new(shape: Shape, settings: &[(&str, &str)], ip: IpAddr, runs: impl Fn(NodeId) -> bool) -> Racked {
        let registers = Registers::default();
        // Nobody is slow here: what waits for a timeout is the machine's load.
        let patient = [("coherence.patience", "30000000"), ("coherence.lease", "30000000")];
        for (name, value) in patient.iter().chain(settings) {
            registers.set(name, value).expect("a register");
        }
        let bind = |node| (node, UdpSocket::bind((ip, 0)).expect("a port"));
        let sockets: BTreeMap<NodeId, UdpSocket> = shape.nodes().into_iter().map(bind).collect();
        let address = |node: NodeId| sockets[&node].local_addr().expect("it is bound");
        let topology = Arc::new(Topology::two_levels(&shape, address, &registers).expect("it fits together"));
        let stop = Arc::new(AtomicBool::new(false));
        let (mut nodes, mut silent) = (Vec::new(), Vec::new());
        for (node, socket) in sockets {
            if !runs(node) {
                silent.push(socket);
                continue;
            }
            let (topology, stop) = (topology.clone(), stop.clone());
            let life = (Incarnation(1), Life::First);
            nodes.push((node, std::thread::spawn(move || node::run(&topology, node, socket, life, &stop))));
        }
        Racked { topology, node: None, folder: None, silent, stop, nodes }
    }

    /// The home, as a node that listens at `ip`.
    fn start_node(&mut self, ip: IpAddr) {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        self.topology.write(&file).expect("two files");
        // Its socket was the home's: nobody else is given a port so soon.
        self.silent.clear();
        let mut config = super::served::config(&[]);
        config.listen.tcp = vec![SocketAddr::new(ip, 0)];
        config.listen.udp = vec![SocketAddr::new(ip, 0)];
        config.home = HomeArgs { boxes: Some(file.clone()), home_first: true, ..HomeArgs::default() };
        let node = Server::start(&config).expect("a node");
        let (home, _) = self.topology.homes()[0];
        let read = Topology::read(&file).expect("it was written");
        self.topology = Arc::new(read.with_streams([(home, node.tcp()[0])]).expect("an address"));
        (self.node, self.folder) = (Some(node), Some(folder));
    }

    fn proxied(self, options: Options) -> Proxied {
        let Racked { topology, node, folder, silent, stop, nodes } = self;
        let ip = topology.book().iter().next().expect("it has nodes").1.ip();
        let proxy = Running::start(&topology, Some(1), &[SocketAddr::new(ip, 0)], options);
        let proxy = proxy.expect("a proxy on a free port");
        Proxied { proxy, topology, node, _folder: folder, _silent: silent, stop, nodes }
    }
}

impl Proxied {
    pub fn behind_three_boxes() -> Proxied {
        Proxied::with(SHAPE, OPTIONS, &[], |_| true)
    }

    /// With these registers; of the nodes only those for which `runs` says so.
    pub fn with(
        shape: Shape,
        options: Options,
        settings: &[(&str, &str)],
        runs: impl Fn(NodeId) -> bool,
    ) -> Proxied {
        let racked = Racked::new(shape, settings, Ipv4Addr::LOCALHOST.into(), runs);
        racked.proxied(options)
    }

    /// Two boxes, before clients and before the home, which is a node; the proxy and `topology` know its stream.
    pub fn before_a_node(ip: IpAddr, settings: &[(&str, &str)]) -> Proxied {
        let shape = Shape { tors: 2, roots: 0, homes: 1, controllers: 0 };
        let mut racked = Racked::new(shape, settings, ip, |node| matches!(node, NodeId::Box(_)));
        racked.start_node(ip);
        racked.proxied(OPTIONS)
    }

    /// Where memcached clients reach the home itself.
    pub fn home(&self) -> SocketAddr {
        self.node.as_ref().expect("the home is a node").tcp()[0]
    }

    pub fn address(&self) -> SocketAddr {
        self.proxy.addresses()[0]
    }

    pub fn client(&self) -> Client {
        Client::to(self.address())
    }

    /// Ends all; what the proxy and what the nodes have counted.
    pub fn end(self) -> (Counts, BTreeMap<NodeId, Counts>) {
        let Proxied { proxy, stop, nodes, node, .. } = self;
        let counted = proxy.stop().expect("no socket failed");
        drop(node);
        stop.store(true, Ordering::Relaxed);
        let count = |(node, thread): (NodeId, Thread)| {
            let counters = thread.join().expect("no panic").expect("no socket failed");
            (node, counters.into_iter().collect())
        };
        (counted.into_iter().collect(), nodes.into_iter().map(count).collect())
    }

    /// Ends all, and sees that requests went through each box, and were answered.
    pub fn end_with_all_boxes_used(self) {
        self.client().still_works();
        let (proxy, nodes) = self.end();
        for (id, counted) in nodes.iter().filter(|(node, _)| matches!(node, NodeId::Box(_))) {
            assert!(counted["hits"] + counted["misses"] > 0, "{id:?}: {counted:?}");
        }
        assert_eq!(
            (proxy["unanswered"], proxy["unknown_outcomes"], proxy["refused"]),
            (0, 0, 0),
            "{proxy:?}"
        );
    }
}
