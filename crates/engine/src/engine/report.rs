//! What is set, and what an engine says of itself and of each service.

use super::{Engine, Handle};
use crate::cores::Core;
use crate::heartbeat::Heartbeat;
use crate::service::Messages;
use crate::settings::{Counters, Scheduler, Settings};
use crate::stages::Stages;
use base::Nanos;
use std::sync::Arc;

impl<C: Core> Engine<C> {
    /// From now on a service's passes are like this.
    ///
    /// # Panics
    /// When the handle is another engine's, or of a service that was removed; so with all that take one.
    pub fn set_settings<S: Messages>(&mut self, of: Handle<S>, settings: Settings) {
        let number = self.number(of);
        self.common.desks[number].source = None;
        self.common.account_of(number).settings = settings;
    }

    /// From now on each pass of a service is like `source` says then: for what an operator may change meanwhile.
    pub fn follow<S: Messages>(&mut self, of: Handle<S>, source: impl FnMut() -> Settings + Send + 'static) {
        let number = self.number(of);
        self.common.desks[number].source = Some(Box::new(source));
    }

    /// How services share passes.
    pub fn set_scheduler(&mut self, scheduler: Scheduler) {
        self.scheduler = scheduler;
    }

    /// Requests of edges that may be in flight, over all services. A service that was added before keeps its own bound.
    pub fn set_in_flight(&mut self, in_flight: usize) {
        self.common.capacity = in_flight.max(1);
    }

    /// A service's stage histograms, shared.
    pub fn stages<S: Messages>(&mut self, of: Handle<S>) -> Arc<Stages> {
        let number = self.number(of);
        self.common.account_of(number).stages.clone()
    }

    /// A service's totals since it was added.
    pub fn counters<S: Messages>(&mut self, of: Handle<S>) -> Counters {
        let number = self.number(of);
        self.common.account_of(number).counters
    }

    /// Totals over all services that the engine has now.
    pub fn totals(&mut self) -> Counters {
        let mut all = Counters::default();
        for number in 0..self.common.desks.len() {
            all += self.common.account_of(number).counters;
        }
        all
    }

    /// Whether it lives, for other threads to ask.
    pub fn heartbeat(&self) -> Arc<Heartbeat> {
        self.common.heartbeat.clone()
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
