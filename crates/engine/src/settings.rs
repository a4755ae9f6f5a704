//! What may be set, and what is counted.

use base::Nanos;

/// The largest group.
pub(crate) const MAX_GROUP: usize = 64;

/// How the engine hides the latency of the memory that staged requests need. Tasks always overlap, a group of them at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Not at all: execute one request after the other. The baseline.
    Plain,
    /// Touch a whole group step by step (group prefetching), then execute it. Best for single-step operations.
    #[default]
    Staged,
    /// One coroutine per request, polled in turn, a group of them at any time.
    Coroutine,
}

/// How the services of one engine share its passes ([`Engine::set_scheduler`](crate::Engine::set_scheduler)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// In turn, with equal shares.
    #[default]
    RoundRobin,
    /// In turn, with shares as their weights ([`ServiceOptions::weight`]).
    Weighted,
    /// The one with the fewest requests waiting goes first and takes what it wants, the next what is left; nobody gets less
    /// than a quarter of an equal share.
    ShortestQueue,
}

/// What may be changed of one service between two passes ([`Engine::set_settings`](crate::Engine::set_settings),
/// [`Engine::follow`](crate::Engine::follow)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How latency is hidden.
    pub form: Form,
    /// Requests touched together, and tasks polled in turn; 1 to 64.
    pub group: usize,
    /// Requests admitted from one port before the next has its turn.
    pub quantum: usize,
    /// Requests that waited longer are answered by [`Service::expire`](crate::Service::expire), and tasks that have not finished by
    /// then are ended; zero waits for ever.
    pub deadline: Nanos,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { form: Form::Staged, group: 16, quantum: 64, deadline: Nanos::ZERO }
    }
}

/// What is fixed when an engine is made.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Requests in flight at most, over all services; [`Engine::set_in_flight`](crate::Engine::set_in_flight) changes it.
    pub in_flight: usize,
    /// Ports at most, over all services, and one more for each service that others call.
    pub ports: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { in_flight: 256, ports: 64 }
    }
}

/// Which tasks of a service wait for which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those of one key run one after the other, as admitted; all others overlap and finish as they are ready.
    #[default]
    Key,
    /// As [`Order::Key`], and those of one port run and finish one after the other too.
    Port,
}

/// How one service is hosted.
#[derive(Clone, Copy, Debug)]
pub struct ServiceOptions {
    /// Its share under [`Scheduler::Weighted`]; at least 1.
    pub weight: u32,
    /// Requests of edges in flight at most, within what the engine allows when the service is added: so that sleepers of one service
    /// leave room for the others. Its tables have that many places.
    pub in_flight: usize,
    /// Which tasks wait for which. Staged requests are always executed as admitted.
    pub order: Order,
}

impl Default for ServiceOptions {
    fn default() -> ServiceOptions {
        ServiceOptions { weight: 1, in_flight: usize::MAX, order: Order::Key }
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests answered.
    pub answered: usize,
    /// Of which services: a bit for each ([`Handle::bit`](crate::Handle::bit)).
    pub services: u16,
    /// Ports that wait for their edge to make room for replies.
    pub blocked: usize,
    /// Whether another pass, now, would find something to do.
    pub more: bool,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests executed; tasks that finished.
    pub executed: u64,
    /// Requests whose deadline passed before they were executed; tasks that it ended.
    pub expired: u64,
    /// Requests over which a handler panicked and which were answered so.
    pub panicked: u64,
    /// Times a port had to wait for room for its replies.
    pub blocked: u64,
    /// Passes that answered something; of an engine, each as often as there were services of which it did.
    pub passes: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.executed += other.executed;
        self.expired += other.expired;
        self.panicked += other.panicked;
        self.blocked += other.blocked;
        self.passes += other.passes;
    }
}

impl Counters {
    pub(crate) fn answered(&self) -> u64 {
        self.executed + self.expired + self.panicked
    }
}
