//! A box, home or controller of a topology, from a bound socket to its counters at the end.

use super::driver::Driver;
use super::items::Shelf;
use super::machine::{Counters, Machine};
use super::metrics::Seen;
use super::tiered::Tiered;
use super::topology::Topology;
use crate::admin::ask::Questions;
use crate::admin::health::Beat;
use base::Clock;
use protocol::coherence::guard::Keys;
use protocol::coherence::{CacheBox, Controller, Guard, Home, Life, NodeId, Planted};
use protocol::planted::{Bugs, NoBugs};
use protocol::wire::Incarnation;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use xdp::{Live, Tier};

/// Runs `node` of a topology made in this process at `socket` until `stop`, and says what it counted. Whatever it knew is gone then; nobody is told.
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
    let equipment = Equipment::<NoBugs> { keys: topology.held_keys(), ..Equipment::default() };
    run_with(equipment, topology, node, socket, life, stop)
}

/// What a node may have besides.
#[derive(Default)]
pub struct Equipment<B = NoBugs> {
    /// A box's fast tier, empty, with what it goes by.
    pub fast: Option<(Tier, Live)>,
    /// Where it is asked what it counted.
    pub questions: Option<Questions<Seen>>,
    /// Says that it turns.
    pub beat: Beat,
    /// By which it and the others know each other; none: by their addresses alone.
    pub keys: Option<Keys>,
    /// What is wrong with its machine on purpose.
    pub planted: B,
}

/// The same, equipped.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_with<B: Bugs<Planted>>(
    equipment: Equipment<B>,
    topology: &Topology,
    node: NodeId,
    socket: UdpSocket,
    (incarnation, life): (Incarnation, Life),
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let Equipment { fast, questions, beat, keys, planted } = equipment;
    let asked = (questions, beat);
    let (config, layout) = (topology.config(), topology.layout().clone());
    let now = Clock::shared().now();
    let mut guard = Guard::new(node, incarnation, keys);
    match node {
        NodeId::Box(id) => {
            let cache = CacheBox::with_bugs(config, id, layout, (incarnation, life), now, planted);
            match fast {
                Some((tier, live)) => {
                    guard.share(|key, last| tier.seal_as(id, key, last));
                    let guard = (node, guard);
                    drive(Tiered::new(cache, tier, live), guard, topology, (socket, asked), stop)
                }
                None => drive(cache, (node, guard), topology, (socket, asked), stop),
            }
        }
        NodeId::Home(id) => {
            let items = Shelf::new(topology.memory());
            let home = Home::with_bugs(config, id, layout, (incarnation, life), now, items, planted);
            drive(home, (node, guard), topology, (socket, asked), stop)
        }
        NodeId::Controller(index) => {
            let all = topology.controllers();
            let controller = Controller::new(config, index, all, layout, now);
            drive(controller, (node, guard), topology, (socket, asked), stop)
        }
        NodeId::Client(_) => unreachable!("a client is no node of a topology"),
    }
}

fn drive<M: Machine>(
    machine: M,
    (node, guard): (NodeId, Guard),
    topology: &Topology,
    (socket, (questions, beat)): (UdpSocket, (Option<Questions<Seen>>, Beat)),
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let mut driver = Driver::new(machine, socket, topology.book().clone(), guard)?;
    driver.run_with(stop, |driver| {
        beat.turn();
        if let Some(questions) = &questions {
            questions.answer(|| Seen::of(node, driver));
        }
    })?;
    Ok(driver.counters())
}
