//! The engine's thread: the engine with its one service, and what its passes follow.

use super::batch::Gathered;
use super::counters::Counters;
use super::inference::{IN_FLIGHT, Inference};
use super::preprocess::Preprocess;
use crate::admin::health::Beat;
use crate::engine_thread::Driven;
use crate::rec::registers::Id;
use base::Nanos;
use engine::{EdgePort, Engine, EngineOptions, Progress, ServiceOptions, Settings};
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An engine for inference.
pub struct Driver {
    /// The engine.
    pub engine: Engine,
    settings: Settings,
    counters: Arc<Counters>,
    policies: [WaitPolicy; 2],
}

impl Driver {
    /// An engine behind `N` ports of so many slots.
    ///
    /// # Panics
    /// When `slots` is no power of two.
    pub fn new<const N: usize>(
        slots: usize,
        preprocess: &Arc<Preprocess>,
        beat: Beat,
    ) -> (Driver, [EdgePort<Inference>; N]) {
        let counters = Arc::clone(&preprocess.counters);
        let batch = Gathered::new(Arc::clone(&counters), Arc::clone(&preprocess.registers), beat);
        let mut engine = Engine::new(EngineOptions { in_flight: IN_FLIGHT, ports: N });
        let service = Inference::new(N, Arc::clone(preprocess), batch);
        let inference = engine.add_task(service, ServiceOptions::default());
        // Answers go straight to the edges, so replies have no bytes.
        let ports = std::array::from_fn(|_| {
            engine.open(inference, slots as u32, 64).expect("as many ports as there are edges")
        });
        let policies = match preprocess.registers.is_on(Id::Spin) {
            true => [WaitPolicy::SPIN; 2],
            false => [WaitPolicy::default(), WaitPolicy::BLOCK],
        };
        (Driver { engine, settings: Settings::default(), counters, policies }, ports)
    }
}

impl Driven for Driver {
    fn pass(&mut self) -> Progress {
        let progress = self.engine.pass(&self.settings);
        // One writer.
        self.counters.passes.store(self.engine.counters().passes, Ordering::Relaxed);
        progress
    }

    fn has_work(&mut self) -> bool {
        self.engine.has_work()
    }

    fn next_deadline(&mut self) -> Nanos {
        self.engine.next_deadline()
    }

    fn idle(&mut self, steps: usize) -> bool {
        self.engine.idle(steps)
    }

    fn policies(&self) -> [WaitPolicy; 2] {
        self.policies
    }
}
