//! A box, home or controller of a topology, from a bound socket to its counters at the end.

use super::driver::Driver;
use super::items::Shelf;
use super::machine::{Counters, Machine};
use super::tiered::Tiered;
use super::topology::Topology;
use base::Clock;
use protocol::coherence::{CacheBox, Controller, Home, Life, NodeId};
use protocol::wire::Incarnation;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use xdp::{Live, Tier};

/// Runs `node` at `socket` until `stop`, and says what it counted. Whatever it knew is gone then; nobody is told.
///
/// `incarnation` must be higher than in all its earlier lives.
///
/// # Errors
/// The socket failed.
///
/// # Panics
/// If `node` is a client: those are [`super::Client`].
pub fn run(
    topology: &Topology,
    node: NodeId,
    socket: UdpSocket,
    life: (Incarnation, Life),
    stop: &AtomicBool,
) -> io::Result<Counters> {
    run_with(Equipment::default(), topology, node, socket, life, stop)
}

/// What a node may have besides.
#[derive(Default)]
pub struct Equipment {
    /// A box's fast tier, empty, with what it goes by.
    pub fast: Option<(Tier, Live)>,
}

/// The same, equipped.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_with(
    equipment: Equipment,
    topology: &Topology,
    node: NodeId,
    socket: UdpSocket,
    (incarnation, life): (Incarnation, Life),
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let (config, layout) = (topology.config(), topology.layout().clone());
    let now = Clock::shared().now();
    match node {
        NodeId::Box(id) => {
            let cache = CacheBox::new(config, id, layout, (incarnation, life), now);
            match equipment.fast {
                Some((tier, live)) => drive(Tiered::new(cache, tier, live), topology, socket, stop),
                None => drive(cache, topology, socket, stop),
            }
        }
        NodeId::Home(id) => {
            let items = Shelf::new(topology.memory());
            drive(Home::new(config, id, layout, (incarnation, life), now, items), topology, socket, stop)
        }
        NodeId::Controller(index) => {
            let all = topology.controllers();
            drive(Controller::new(config, index, all, layout, now), topology, socket, stop)
        }
        NodeId::Client(_) => unreachable!("a client is no node of a topology"),
    }
}

fn drive<M: Machine>(
    machine: M,
    topology: &Topology,
    socket: UdpSocket,
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let mut driver = Driver::new(machine, socket, topology.book().clone())?;
    driver.run(stop)?;
    Ok(driver.counters())
}
