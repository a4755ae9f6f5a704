//! A rack of boxes and a home in this process, and a proxy before it.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

use super::served::Client;
use protocol::coherence::{Life, NodeId};
use protocol::wire::{BoxId, Incarnation};
use serve::inc::machine::Counters;
use serve::inc::node;
use serve::inc::registers::Registers;
use serve::inc::topology::{Shape, Topology};
use serve::proxy::{Options, Running};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A ToR for clients, a root, and a ToR with the home: what a client asks for passes all three.
pub const SHAPE: Shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 0 };

pub const OPTIONS: Options = Options { threads: 2, pipeline: 128, connections: 1024 };

/// What something has counted, by name.
pub type Counts = BTreeMap<&'static str, u64>;

type Thread = JoinHandle<std::io::Result<Counters>>;

pub struct Proxied {
    pub proxy: Running,
    pub topology: Arc<Topology>,
    /// Of nodes that do not run, so that nobody else has their ports.
    _silent: Vec<UdpSocket>,
    stop: Arc<AtomicBool>,
    nodes: Vec<(NodeId, Thread)>,
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
        let registers = Registers::default();
        // Nobody is slow here: what waits for a timeout is the machine's load.
        let patient = [("coherence.patience", "30000000"), ("coherence.lease", "30000000")];
        for (name, value) in patient.iter().chain(settings) {
            registers.set(name, value).expect("a register");
        }
        let bind = |node| (node, UdpSocket::bind("127.0.0.1:0").expect("a port"));
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
        let anywhere = ["127.0.0.1:0".parse().expect("an address")];
        let proxy = Running::start(&topology, Some(1), &anywhere, options).expect("a proxy on a free port");
        Proxied { proxy, topology, _silent: silent, stop, nodes }
    }

    pub fn address(&self) -> SocketAddr {
        self.proxy.addresses()[0]
    }

    pub fn client(&self) -> Client {
        Client::to(self.address())
    }

    /// Ends all; what the proxy and what the nodes have counted.
    pub fn end(self) -> (Counts, BTreeMap<NodeId, Counts>) {
        let Proxied { proxy, stop, nodes, .. } = self;
        let counted = proxy.stop().expect("no socket failed");
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
        for id in 1..=3 {
            let counted = &nodes[&NodeId::Box(BoxId(id))];
            assert!(counted["hits"] + counted["misses"] > 0, "box {id}: {counted:?}");
        }
        assert_eq!(
            (proxy["unanswered"], proxy["unknown_outcomes"], proxy["refused"]),
            (0, 0, 0),
            "{proxy:?}"
        );
    }
}
