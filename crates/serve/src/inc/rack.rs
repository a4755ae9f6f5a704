//! The nodes of the laboratory: a thread each, at sockets that outlive them.
//!
//! The sockets are the laboratory's, so that nobody else gets a dead node's port. What arrives for the dead is thrown away before it
//! lives again.

use crate::inc::machine::Counters;
use crate::inc::node::{self, Equipment};
use crate::inc::registers::Registers;
use crate::inc::topology::{Shape, Topology};
use crate::inc::{IncError, plan};
use protocol::coherence::{Life, NodeId, Planted};
use protocol::planted::{Bugs, NoBugs};
use protocol::wire::Incarnation;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

#[derive(Debug)]
struct Living {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Counters>>,
}

/// All nodes, dead or alive.
#[derive(Debug)]
pub struct Rack<B = NoBugs> {
    topology: Arc<Topology>,
    /// What is wrong with its nodes on purpose.
    planted: B,
    sockets: BTreeMap<NodeId, UdpSocket>,
    living: BTreeMap<NodeId, Living>,
    lives: u32,
    /// Of all lives that are over.
    counted: BTreeMap<NodeId, Counters>,
}

impl Rack {
    /// Starts all nodes for the first time.
    pub fn start(shape: &Shape, registers: &Registers) -> Result<Rack, IncError> {
        let bound = plan::sockets(shape).map_err(IncError::Socket)?;
        Rack::of(Topology::two_levels(shape, |node| bound[&node].1, registers)?, bound, NoBugs)
    }
}

impl<B: Bugs<Planted> + Send + 'static> Rack<B> {
    /// Starts the nodes of a topology for the first time, at these sockets.
    pub fn of(
        topology: Topology,
        bound: BTreeMap<NodeId, (UdpSocket, SocketAddr)>,
        planted: B,
    ) -> Result<Rack<B>, IncError> {
        let nodes = topology.nodes();
        let mut rack = Rack {
            topology: Arc::new(topology),
            planted,
            sockets: bound.into_iter().map(|(node, (socket, _))| (node, socket)).collect(),
            living: BTreeMap::new(),
            lives: 0,
            counted: BTreeMap::new(),
        };
        nodes.into_iter().try_for_each(|node| rack.revive(node, Life::First))?;
        Ok(rack)
    }

    /// Who is where.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Starts a node that is not running, with a higher incarnation than any before.
    pub fn revive(&mut self, node: NodeId, life: Life) -> Result<(), IncError> {
        let socket = self.sockets[&node].try_clone().map_err(IncError::Socket)?;
        socket.set_nonblocking(true).map_err(IncError::Socket)?;
        while socket.recv(&mut [0; 1]).is_ok() {}
        self.lives += 1;
        let (life, topology) = ((Incarnation(self.lives), life), self.topology.clone());
        let equipment = Equipment {
            fast: None,
            watched: Vec::new(),
            orders: Default::default(),
            keys: topology.held_keys(),
            planted: self.planted.clone(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let thread =
            std::thread::spawn(move || node::run_with(equipment, &topology, node, socket, life, &over));
        self.living.insert(node, Living { stop, thread });
        Ok(())
    }

    /// Ends a node. It is gone when this returns.
    pub fn kill(&mut self, node: NodeId) -> Result<(), IncError> {
        let Some(living) = self.living.remove(&node) else { return Ok(()) };
        living.stop.store(true, Ordering::Relaxed);
        let counters = living.thread.join().expect("a node does not panic").map_err(IncError::Socket)?;
        let sums = self.counted.entry(node).or_insert_with(|| counters.iter().map(|c| (c.0, 0)).collect());
        for ((_, sum), (name, count)) in sums.iter_mut().zip(&counters) {
            // These are states, not sums.
            let is_state = matches!(*name, "items" | "epoch" | "live boxes" | "active");
            *sum = if is_state { *count } else { *sum + count };
        }
        Ok(())
    }

    /// Ends all.
    pub fn stop(&mut self) -> Result<(), IncError> {
        let nodes: Vec<NodeId> = self.living.keys().copied().collect();
        self.living.values().for_each(|living| living.stop.store(true, Ordering::Relaxed));
        nodes.into_iter().try_for_each(|node| self.kill(node))
    }

    /// What nodes counted in lives that are over.
    pub fn counted(&self) -> &BTreeMap<NodeId, Counters> {
        &self.counted
    }
}

impl<B> Drop for Rack<B> {
    /// A run that failed leaves no node behind.
    fn drop(&mut self) {
        self.living.values().for_each(|living| living.stop.store(true, Ordering::Relaxed));
    }
}
