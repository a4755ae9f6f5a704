//! What an engine says of itself.

use super::Engine;
use crate::cores::Core;
use crate::heartbeat::Heartbeat;
use crate::settings::Counters;
use crate::stages::Stages;
use base::Nanos;
use std::sync::Arc;

impl<C: Core> Engine<C> {
    /// The stage histograms, shared.
    pub fn stages(&self) -> Arc<Stages> {
        self.common.stages.clone()
    }

    /// Whether it lives, for other threads to ask.
    pub fn heartbeat(&self) -> Arc<Heartbeat> {
        self.common.heartbeat.clone()
    }

    /// Totals since the start, over all services.
    pub fn counters(&self) -> Counters {
        self.common.counters
    }

    /// Tasks in flight, those that other tasks called aside.
    pub fn in_flight(&self) -> usize {
        self.common.in_flight
    }

    /// The time by the engine's core: what requests are stamped with.
    pub fn now(&mut self) -> Nanos {
        self.common.core.now()
    }

    /// The core.
    pub fn core(&mut self) -> &mut C {
        &mut self.common.core
    }
}
