//! An engine, its services, their ports.

use super::{Engine, Handle, MAX_IN_FLIGHT, MAX_SERVICES};
use crate::call::{CALL_BYTES, CALLS, Callee};
use crate::context::Turn;
use crate::cores::{Core, CycleCore};
use crate::host::HostPort;
use crate::hosted::{Account, Common, Desk, Hosted};
use crate::lines;
use crate::port::{EdgePort, port};
use crate::service::{Messages, Service, TaskService};
use crate::settings::{EngineOptions, Scheduler, ServiceOptions};
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
        assert!((1..=MAX_IN_FLIGHT).contains(&options.in_flight), "{} requests in flight", options.in_flight);
        let bells = tasks::bells(&options);
        let common = Common {
            turn: Turn::new(core.now()),
            core,
            serving: 0,
            account: Account::default(),
            capacity: options.in_flight,
            in_flight: 0,
            desks: Vec::new(),
            queued: StageRun::default(),
            executed: StageRun::default(),
            heartbeat: Arc::default(),
        };
        Engine {
            common,
            tracker: Tracker::heap(bells),
            routes: vec![0; bells],
            services: Vec::new(),
            options,
            scheduler: Scheduler::default(),
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
        let (number, bound) = (self.vacant(), self.bound(&options));
        self.host(number, Box::new(Staged::new(service, number, bound)), options)
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
        let (number, bound) = (self.vacant(), self.bound(&options));
        let hosted = tasks::hosted::<S, L, C>(service, number, &self.options, (options.order, bound));
        self.host(number, hosted, options)
    }

    /// Whether another service may be added.
    pub fn has_place(&self) -> bool {
        self.services.iter().flatten().count() < MAX_SERVICES
    }

    /// The lowest number that no service has.
    fn vacant(&self) -> usize {
        assert!(self.has_place(), "an engine has {MAX_SERVICES} services at most");
        self.services.iter().position(Option::is_none).unwrap_or(self.services.len())
    }

    fn bound(&self, options: &ServiceOptions) -> usize {
        options.in_flight.clamp(1, self.common.capacity.min(MAX_IN_FLIGHT))
    }

    fn host<S>(&mut self, number: usize, hosted: Box<dyn Hosted<C>>, options: ServiceOptions) -> Handle<S> {
        if number == self.services.len() {
            self.services.push(None);
            self.common.desks.push(Desk::default());
        }
        self.services[number] = Some(hosted);
        let (max_in_flight, generation) = (self.bound(&options), self.common.desks[number].generation);
        *self.common.account_of(number) = Account::default();
        let account = std::mem::take(&mut self.common.desks[number].account);
        let weight = options.weight.max(1);
        self.common.desks[number] = Desk { generation, account, max_in_flight, weight, ..Desk::default() };
        Handle { number: number as u16, generation, _service: PhantomData }
    }

    /// Where a service is.
    pub(super) fn number<S>(&self, of: Handle<S>) -> usize {
        let number = usize::from(of.number);
        let generation = self.common.desks.get(number).map(|desk| desk.generation);
        assert!(generation == Some(of.generation), "a handle of this engine, and of a service that it has");
        number
    }

    pub(super) fn hosted(&mut self, number: usize) -> &mut dyn Hosted<C> {
        &mut **self.services[number].as_mut().expect("a service with this number")
    }

    /// Ends a service and gives it back. Its ports are closed: what they asked and was not answered never is; so with calls to it.
    ///
    /// # Panics
    /// When the handle is another engine's, or the service was removed before.
    pub fn remove<S: Messages>(&mut self, of: Handle<S>) -> S {
        let number = self.number(of);
        if self.hosted(number).callee().downcast_ref::<Option<Callee<S>>>().is_some_and(Option::is_some) {
            self.callees -= 1;
        }
        for at in (0..self.routes.len()).filter(|&at| usize::from(self.routes[at]) == number) {
            self.tracker.detach(at);
        }
        let service = self.services[number].take().expect("a service with this number");
        let service = service.leave(&mut self.common);
        *self.common.account_of(number) = Account::default();
        let desk = &mut self.common.desks[number];
        *desk = Desk { generation: desk.generation.wrapping_add(1), ..Desk::default() };
        *service.downcast().expect("a handle of this engine")
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
        Some(self.open_any(to, entries, arena_bytes)?.1)
    }

    fn is_full(&self) -> bool {
        self.tracker.attached() - self.callees >= self.options.ports
    }

    /// Gives back the places of edges that are gone. Only when one is wanted, so that passes do not look.
    fn detach_deserted(&mut self) {
        for at in 0..self.routes.len() {
            if self.tracker.is_deserted(at) && self.hosted(usize::from(self.routes[at])).detach(at as u32) {
                self.tracker.detach(at);
            }
        }
    }

    /// `None` when doorbells are still held by edges of services that were removed.
    fn open_any<S: Messages>(
        &mut self,
        to: Handle<S>,
        entries: u32,
        arena_bytes: u64,
    ) -> Option<(u32, EdgePort<S>)> {
        let number = self.number(to);
        let (index, bell) = self.tracker.attach(entries)?;
        self.routes[index] = to.number;
        let (edge, engine) = port::<S>(entries, arena_bytes, index, bell);
        self.hosted(number).attach(Box::new(engine));
        self.common.desks[number].more = true;
        Some((index as u32, edge))
    }

    /// A service as something that tasks of this engine call.
    ///
    /// # Panics
    /// When the handle is another engine's, or edges of removed services hold all doorbells.
    pub fn callee<S: Messages>(&mut self, of: Handle<S>) -> Callee<S> {
        let at = self.number(of);
        if let Some(callee) = self.callee_of::<S>(at) {
            return callee.clone();
        }
        let (index, edge) = self.open_any(of, CALLS, CALL_BYTES).expect("a doorbell for each service");
        self.callees += 1;
        self.hosted(at).set_local(index);
        self.callee_of(at).insert(Callee::over(edge)).clone()
    }

    fn callee_of<S: Messages>(&mut self, at: usize) -> &mut Option<Callee<S>> {
        self.hosted(at).callee().downcast_mut().expect("a handle of this engine")
    }

    /// Gives tasks their way to host threads ([`Cx::host`](crate::Cx::host)).
    pub fn set_host(&mut self, host: HostPort) {
        *self.common.turn.host.borrow_mut() = Some(host);
    }

    /// A service, for questions between passes.
    ///
    /// # Panics
    /// When the handle is another engine's, or the service was removed.
    pub fn service<S: Messages>(&mut self, of: Handle<S>) -> &mut S {
        let number = self.number(of);
        self.hosted(number).service().downcast_mut().expect("a handle of this engine")
    }
}
