//! A server that one thread drives by hand: the fabric's edge and the engine core, one turn each. For who times what a request takes in code, with no other
//! thread in it; nothing is listened on, and what has its place on host threads is not served.

use super::Counters;
use super::edge::Edge;
use super::front::Front;
use super::held::Held;
use super::inference::Inference;
use super::preprocess::Preprocess;
use super::registers::{Id, Registers};
use super::server::{ServeError, inference};
use super::shelf::{Shelf, Source};
use crate::engine_cores::{EngineCore, Members, OnCore};
use base::{Clock, Nanos};
use engine::CycleCore;
use fabric::link::Link;
use std::sync::Arc;

/// See the head of the file.
pub struct ByHand {
    fabric: fabric::server::Server,
    edge: Arc<Edge>,
    core: Arc<EngineCore>,
    members: Members,
    on_core: Arc<OnCore<Inference>>,
}

impl ByHand {
    /// With a model, and registers that may change.
    ///
    /// # Errors
    /// As [`ServeError`] says.
    pub fn new(source: Source, registers: &Arc<Registers>) -> Result<ByHand, ServeError> {
        let counters = Arc::<Counters>::default();
        let shelf = Arc::new(Shelf::new(source, &counters).map_err(ServeError::Model)?);
        let (registers, tracer) = (Arc::clone(registers), Default::default());
        let held = Arc::new(Held::new(registers.size(Id::Held)));
        let preprocess = Arc::new(Preprocess { shelf, counters, registers, tracer });
        let core = EngineCore::by_hand_on(CycleCore::default(), 0);
        let (on_core, [port]) = inference(&preprocess, &core).map_err(ServeError::Engine)?;
        let edge = Arc::new(Edge::new(0, port, &on_core, &held, &preprocess));
        let fabric = fabric::server::Server::try_new(Default::default()).map_err(ServeError::Thread)?;
        let fabric = fabric.service(Front(Arc::clone(&edge)));
        Ok(ByHand { fabric, edge, core, members: Members::default(), on_core })
    }

    /// A client comes over this link.
    pub fn accept(&mut self, link: Box<dyn Link>) {
        self.fabric.accept(link, Clock::shared().now());
    }

    /// A turn of the edge, and a pass of the core.
    pub fn turn(&mut self, now: Nanos) {
        self.fabric.poll(now);
        self.edge.ring();
        self.core.pass(&mut self.members);
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        self.on_core.leave();
    }
}
