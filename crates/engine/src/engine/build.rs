//! An engine, its services, their ports.

use super::{Engine, Handle, MAX_SERVICES};
use crate::call::{CALL_BYTES, CALLS, Callee};
use crate::context::Turn;
use crate::cores::{Core, CycleCore};
use crate::host::HostPort;
use crate::hosted::{Common, Desk, Hosted};
use crate::lines;
use crate::port::{EdgePort, port};
use crate::service::{Messages, Service, TaskService};
use crate::settings::{Counters, EngineOptions, ServiceOptions, Settings};
use crate::staged::Staged;
use crate::stages::StageRun;
use crate::tasks;
use ring::doorbell::Tracker;
use std::marker::PhantomData;
use std::sync::Arc;

impl Engine {
    /// An engine without services on this program's own core.
    ///
    /// # Panics
    /// When `in_flight` is 0 or above 65,000.
    pub fn new(options: EngineOptions) -> Engine {
        Engine::on(CycleCore::default(), options)
    }
}

impl<C: Core> Engine<C> {
    /// An engine without services on `core`.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn on(mut core: C, options: EngineOptions) -> Engine<C> {
        assert!((1..=65_000).contains(&options.in_flight), "{} requests in flight", options.in_flight);
        let bells = tasks::bells(&options);
        let common = Common {
            turn: Turn::new(core.now()),
            core,
            settings: Settings::default(),
            capacity: options.in_flight,
            in_flight: 0,
            desks: Vec::new(),
            stages: Arc::default(),
            queued: StageRun::default(),
            executed: StageRun::default(),
            counters: Counters::default(),
            heartbeat: Arc::default(),
        };
        Engine {
            common,
            tracker: Tracker::heap(bells),
            routes: vec![0; bells],
            services: Vec::new(),
            options,
            callees: 0,
            plan: Vec::with_capacity(MAX_SERVICES),
            turn: 0,
        }
    }

    /// Hosts a staged service.
    ///
    /// # Panics
    /// When the engine has 16 services.
    pub fn add<S: Service>(&mut self, service: S, options: ServiceOptions) -> Handle<S> {
        let hosted = Box::new(Staged::new(service, self.services.len(), self.options.in_flight));
        self.host(hosted, options)
    }

    /// Hosts a task service.
    ///
    /// # Panics
    /// When the engine has 16 services.
    pub fn add_task<S: TaskService>(&mut self, service: S, options: ServiceOptions) -> Handle<S> {
        self.add_task_over::<S, lines::Table>(service, options)
    }

    pub(crate) fn add_task_over<S: TaskService, L: lines::Lines>(
        &mut self,
        service: S,
        options: ServiceOptions,
    ) -> Handle<S> {
        let number = self.services.len();
        let hosted = tasks::hosted::<S, L, C>(service, number, &self.options, options.order);
        self.host(hosted, options)
    }

    fn host<S>(&mut self, hosted: Box<dyn Hosted<C>>, options: ServiceOptions) -> Handle<S> {
        assert!(self.services.len() < MAX_SERVICES, "an engine has {MAX_SERVICES} services at most");
        let number = self.services.len() as u16;
        self.services.push(hosted);
        self.common.desks.push(Desk {
            max_in_flight: options.in_flight,
            weight: options.weight.max(1),
            ..Desk::default()
        });
        Handle { number, _service: PhantomData }
    }

    /// Opens a port to a service, of `entries` requests and `arena_bytes` of replies (powers of two); `None` when the engine has
    /// as many ports as its options say. Those whose edges are gone do not count once all is answered that they had submitted; a port
    /// without room for its replies gives up with its edge what it has not admitted.
    pub fn open<S: Messages>(
        &mut self,
        to: Handle<S>,
        entries: u32,
        arena_bytes: u64,
    ) -> Option<EdgePort<S>> {
        if self.is_full() {
            self.detach_deserted();
        }
        if self.is_full() {
            return None;
        }
        Some(self.open_any(to, entries, arena_bytes).1)
    }

    fn is_full(&self) -> bool {
        self.tracker.attached() - self.callees >= self.options.ports
    }

    /// Gives back the places of edges that are gone. Only when one is wanted, so that passes do not look.
    fn detach_deserted(&mut self) {
        for at in 0..self.routes.len() {
            if self.tracker.is_deserted(at) && self.services[usize::from(self.routes[at])].detach(at as u32) {
                self.tracker.detach(at);
            }
        }
    }

    fn open_any<S: Messages>(&mut self, to: Handle<S>, entries: u32, arena_bytes: u64) -> (u32, EdgePort<S>) {
        let (index, bell) = self.tracker.attach(entries).expect("a doorbell for each port and service");
        self.routes[index] = to.number;
        let (edge, engine) = port::<S>(entries, arena_bytes, index, bell);
        self.services[usize::from(to.number)].attach(Box::new(engine));
        self.common.desks[usize::from(to.number)].more = true;
        (index as u32, edge)
    }

    /// A service as something that tasks of this engine call.
    pub fn callee<S: Messages>(&mut self, of: Handle<S>) -> Callee<S> {
        let at = usize::from(of.number);
        if let Some(callee) = self.callee_of::<S>(at) {
            return callee.clone();
        }
        let (index, edge) = self.open_any(of, CALLS, CALL_BYTES);
        self.callees += 1;
        self.services[at].set_local(index);
        self.callee_of(at).insert(Callee::over(edge)).clone()
    }

    fn callee_of<S: Messages>(&mut self, at: usize) -> &mut Option<Callee<S>> {
        self.services[at].callee().downcast_mut().expect("a handle of this engine")
    }

    /// Gives tasks their way to host threads ([`Cx::host`](crate::Cx::host)).
    pub fn set_host(&mut self, host: HostPort) {
        *self.common.turn.host.borrow_mut() = Some(host);
    }

    /// A service, for questions between passes.
    ///
    /// # Panics
    /// When the handle is another engine's.
    pub fn service<S: Messages>(&mut self, of: Handle<S>) -> &mut S {
        let service = self.services[usize::from(of.number)].service();
        service.downcast_mut().expect("a handle of this engine")
    }
}
