//! The cores behind a server: which worker gets a request (balancing), and through which rings (provisioning).
//!
//! Shape:
//! ```text
//!           submit                                               Worker 0   take, execute, answer
//! front  ──────────▶ balance ─▶ provision ═══ ways, queue ═══▶   Worker 1
//! (the server's      per service                                 …
//! thread)  ◀────────────────── collect ◀══════ ways ════════════
//! ```
//! The front is the core of a set of [ports](crate::port), and workers are its application threads. Everything can be changed between
//! two requests: each service's balancer, the provisioning, sizes and modes of rings, how workers wait.
//!
//! Invariants:
//! 1. Each request that was taken gets exactly one answer, with the request's tag, while the workers run. A handler that panics
//!    gives `INTERNAL`, and its worker goes on.
//! 2. A worker has taken one request at most that it has not answered; all others are in rings.
//!
//! Bounds: see `provision`. What finds no room is given back, and the front waits for answers.
//!
//! Cost: `docs/measurements/fabric-balance.md`.
//!
//! Tests: `tests.rs`; in virtual time, with the same code, `benches/balance`.

pub mod balance;
pub mod provision;
mod queue;
mod worker;

pub use balance::{Balancing, Route};
pub use provision::Provisioning;
pub use worker::{Via, Worker};

use crate::port::polling::Thresholds;
use crate::port::{OpenError, Packet, PortId, PortOptions, Ports, PortsOptions};
use balance::Balancer;
use base::{Nanos, cpu};
use provision::{Way, Ways};
use ring::Full;
use ring::wait::{Outcome, WaitPolicy, Waker, waiting, wake_some};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use worker::Desk;

/// What workers run: makes each of them its own [`Work`].
pub trait Execute: Send + Sync {
    /// The work of worker `number`, made on its thread; made anew after a panic.
    fn worker(&self, number: usize) -> Box<dyn Work>;
}

/// Decode, handle, encode, with whatever memory of its own it keeps from one request to the next.
pub trait Work {
    /// The answer to a request. It gets the request's tag.
    fn execute(&mut self, request: &Packet) -> Packet;
}

/// Bounds, and registers as they are at first.
#[derive(Clone, Debug)]
pub struct WorkersOptions {
    /// Services, each with its balancer; requests name them by number.
    pub services: u16,
    /// Every service's balancer at first.
    pub balancing: Balancing,
    /// The way to the workers at first.
    pub provisioning: Provisioning,
    /// Entries, bytes and mode of each way. Workers tell of answers as the mode says.
    pub ring: PortOptions,
    /// Entries of the single queue.
    pub queue_entries: u32,
    /// Lanes at most, over all workers, for provisioning per connection.
    pub lanes: u32,
    /// How workers wait.
    pub wait: WaitPolicy,
    /// When the front looks at every way for answers.
    pub thresholds: Thresholds,
    /// Cores that workers are pinned to, in turn; none for wherever the system likes.
    pub cores: Vec<usize>,
    /// Of balancers that draw.
    pub seed: u64,
}

impl Default for WorkersOptions {
    fn default() -> WorkersOptions {
        WorkersOptions {
            services: 1,
            balancing: Balancing::ShortestQueue,
            provisioning: Provisioning::PerCore,
            ring: PortOptions { entries: 1024, ..PortOptions::default() },
            queue_entries: 1024,
            lanes: 1024,
            wait: WaitPolicy::default(),
            thresholds: Thresholds::default(),
            cores: Vec::new(),
            seed: 1,
        }
    }
}

/// The front's hold on its workers. Dropped, it stops and joins them.
pub struct Workers {
    ports: Ports,
    ways: Ways,
    queue: queue::Sender,
    /// Requests in the queue that no worker was woken for yet.
    unannounced: usize,
    in_flight: usize,
    balancers: Vec<Balancer>,
    provisioning: Provisioning,
    ring: PortOptions,
    /// Some way's rings are not as `ring` says yet.
    is_replacing: bool,
    max_lanes: usize,
    seats: Vec<Seat>,
    /// Requests that each worker's ways hold.
    outstanding: Vec<u32>,
    wakers: Arc<[Waker]>,
    threads: Vec<JoinHandle<()>>,
}

/// What the front knows of a worker.
struct Seat {
    desk: Arc<Desk>,
    core: PortId,
}

impl Workers {
    /// `n` workers (at least one), each a thread that runs `service`.
    ///
    /// # Errors
    /// The system's: no thread or descriptor can be had, or a core is not allowed.
    pub fn new(n: usize, options: &WorkersOptions, service: Arc<dyn Execute>) -> io::Result<Workers> {
        let allowed = cpu::allowed_cores();
        if let Some(core) = options.cores.iter().find(|core| !allowed.contains(core)) {
            let why = format!("workers cannot be pinned to core {core}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let ports = Ports::with_descriptor(&Workers::ports_options(n, options))?;
        let (mut workers, values) = Workers::over(ports, n, options);
        for (number, worker) in values.into_iter().enumerate() {
            let service = service.clone();
            let core = options.cores.get(number % options.cores.len().max(1)).copied();
            let run = move || {
                if let Some(core) = core {
                    // Allowed when we looked; if it is not any more, working elsewhere is better than not at all.
                    let _ = cpu::pin_to(core);
                }
                worker.run(&*service);
            };
            let name = format!("worker-{number}");
            workers.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(workers)
    }

    /// The front, and `n` workers (at least one) that somebody else drives: a simulation.
    pub fn without_threads(n: usize, options: &WorkersOptions) -> (Workers, Vec<Worker>) {
        Workers::over(Ports::new(&Workers::ports_options(n, options)), n, options)
    }

    fn ports_options(n: usize, options: &WorkersOptions) -> PortsOptions {
        let ways = u32::try_from(2 * n.max(1)).expect("fewer workers than there are ports");
        let max_ports = ways + options.lanes;
        PortsOptions { max_ports, thresholds: options.thresholds, ..PortsOptions::default() }
    }

    fn over(mut ports: Ports, n: usize, options: &WorkersOptions) -> (Workers, Vec<Worker>) {
        let n = n.max(1);
        let (queue, receiver) = queue::queue(options.queue_entries, options.ring.boxed_bytes);
        let (sleepers, wakers): (Vec<_>, Vec<_>) = (0..n).map(|_| waiting()).unzip();
        let wakers: Arc<[Waker]> = wakers.into();
        let mut ways = Ways::default();
        let (mut seats, mut workers) = (Vec::new(), Vec::new());
        for (number, sleeper) in sleepers.into_iter().enumerate() {
            let mut open = |way| {
                let port = ports.open_beside(&options.ring, &wakers[number]);
                let port = port.expect("there are ports for all workers");
                ways.add(port.id(), way);
                port
            };
            let own = [open(Way::Core(number)), open(Way::Queue(number))];
            let desk = Arc::new(Desk::new(options.wait));
            seats.push(Seat { desk: desk.clone(), core: own[0].id() });
            workers.push(Worker::new(number, own, receiver.clone(), (desk, sleeper), wakers.clone()));
        }
        let balancers = (0..options.services.max(1))
            .map(|service| Balancer::new(options.balancing, options.seed.wrapping_add(u64::from(service))));
        let front = Workers {
            ports,
            ways,
            queue,
            unannounced: 0,
            in_flight: 0,
            balancers: balancers.collect(),
            provisioning: options.provisioning,
            ring: options.ring,
            is_replacing: false,
            max_lanes: options.lanes as usize,
            seats,
            outstanding: vec![0; n],
            wakers,
            threads: Vec::new(),
        };
        (front, workers)
    }

    /// Gives a request to a worker, who sees it at the latest after [`Workers::flush`] or [`Workers::collect`].
    ///
    /// # Errors
    /// [`Full`] with the request: whoever it is for has no room; collect answers first.
    ///
    /// # Panics
    /// When there is no such service.
    #[inline]
    pub fn submit(&mut self, route: &Route, request: Packet) -> Result<(), Full<Packet>> {
        if self.provisioning == Provisioning::Single {
            self.queue.push(request)?;
            self.unannounced += 1;
        } else {
            let worker = self.balancers[usize::from(route.service)].pick(route, &self.outstanding);
            let id = self.way(route.connection, worker);
            self.ports.try_send(id, request).map_err(|refused| Full(refused.into_packet()))?;
            self.ways.sent(id);
            self.outstanding[worker] += 1;
            self.balancers[usize::from(route.service)].took(worker);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Gives a request to the worker that `line` is mapped to, whatever balancer and provisioning say: those of one line are executed one
    /// after the other, as they were submitted.
    ///
    /// # Errors
    /// As [`Workers::submit`].
    pub fn submit_in_line(&mut self, line: u64, request: Packet) -> Result<(), Full<Packet>> {
        let worker = balance::by_hash(line, self.seats.len());
        let id = self.seats[worker].core;
        self.ports.try_send(id, request).map_err(|refused| Full(refused.into_packet()))?;
        self.ways.sent(id);
        self.outstanding[worker] += 1;
        self.in_flight += 1;
        Ok(())
    }

    /// What leads to a worker.
    #[inline]
    fn way(&mut self, connection: u32, worker: usize) -> PortId {
        if self.provisioning == Provisioning::PerCore {
            return self.seats[worker].core;
        }
        match self.ways.lane(connection, worker) {
            Some(lane) => lane,
            None => self.open_lane(connection, worker).unwrap_or(self.seats[worker].core),
        }
    }

    #[cold]
    fn open_lane(&mut self, connection: u32, worker: usize) -> Option<PortId> {
        if self.ways.lanes() == self.max_lanes {
            return None;
        }
        let port = self.ports.open_beside(&self.ring, &self.wakers[worker]).ok()?;
        let id = port.id();
        self.ways.add(id, Way::Lane { connection, worker });
        self.leave_word(worker, |word| word.lanes.push(port));
        Some(id)
    }

    fn leave_word(&self, worker: usize, write: impl FnOnce(&mut worker::Word)) {
        self.seats[worker].desk.leave(write);
        self.wakers[worker].wake();
    }

    /// Shows workers what was submitted.
    #[inline]
    pub fn flush(&mut self) {
        self.ports.flush();
        if self.unannounced > 0 {
            wake_some(&self.wakers, self.unannounced);
            self.unannounced = 0;
        }
    }

    /// Flushes, hands at most `max` answers to `each`, and returns how many.
    pub fn collect(&mut self, now: Nanos, max: usize, mut each: impl FnMut(Packet)) -> usize {
        self.flush();
        let Workers { ports, ways, outstanding, .. } = self;
        let answers = ports.poll(now, max, |id, answer| {
            match ways.answered(id) {
                Way::Core(worker) | Way::Lane { worker, .. } => outstanding[worker] -= 1,
                Way::Queue(_) => {}
            }
            each(answer);
        });
        self.in_flight -= answers;
        self.close_lanes();
        if self.is_replacing {
            self.replace_rings();
        }
        answers
    }

    fn close_lanes(&mut self) {
        while let Some((id, worker)) = self.ways.next_to_close() {
            self.ports.close(id);
            self.leave_word(worker, |_| ());
        }
    }

    /// Requests that were not answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Requests that each worker's ways hold; those in the single queue are nobody's.
    pub fn outstanding(&self) -> &[u32] {
        &self.outstanding
    }

    /// Whether the service's balancer goes by [`Route::key`] now.
    #[inline]
    pub fn asks_for_key(&self, service: u16) -> bool {
        self.balancers.get(usize::from(service)).is_some_and(Balancer::asks_for_key)
    }

    /// Another balancer for a service, from its next request on.
    pub fn set_balancing(&mut self, service: u16, balancing: Balancing) {
        if let Some(balancer) = self.balancers.get_mut(usize::from(service)) {
            balancer.set(balancing);
        }
    }

    /// A service's balancer.
    pub fn balancing(&self, service: u16) -> Option<Balancing> {
        self.balancers.get(usize::from(service)).map(Balancer::balancing)
    }

    /// Another provisioning, from the next request on. Ways that it has no use for are closed when their requests are answered.
    pub fn set_provisioning(&mut self, provisioning: Provisioning) {
        self.provisioning = provisioning;
        if provisioning != Provisioning::PerConnection {
            self.ways.retire(|_| true);
            self.close_lanes();
        }
    }

    /// The provisioning.
    pub fn provisioning(&self) -> Provisioning {
        self.provisioning
    }

    /// A connection is closed: its lanes are, when its requests are answered.
    pub fn close_connection(&mut self, connection: u32) {
        self.ways.retire(|other| other == connection);
        self.close_lanes();
    }

    /// Lanes that are open.
    pub fn lanes(&self) -> usize {
        self.ways.lanes()
    }

    /// Other sizes or another mode for all ways, while they are in use. The queue stays as it is.
    pub fn set_ring(&mut self, ring: PortOptions) {
        self.ring = ring;
        self.is_replacing = true;
        self.replace_rings();
    }

    /// Replaces all rings that are not as they should be; those that are still being replaced have their turn later.
    #[cold]
    fn replace_rings(&mut self) {
        let wanted = self.ring;
        let ids: Vec<_> = self.ways.ids().filter(|&id| self.ports.ring(id) != Some(wanted)).collect();
        self.is_replacing = false;
        for id in ids {
            self.is_replacing |= self.ports.replace(id, &wanted) == Err(OpenError::Moving);
        }
    }

    /// Another wait policy for all workers.
    pub fn set_wait(&mut self, policy: WaitPolicy) {
        for worker in 0..self.seats.len() {
            self.leave_word(worker, |word| word.policy = policy);
        }
    }

    /// When to look at every way for answers.
    pub fn set_thresholds(&mut self, thresholds: Thresholds) {
        self.ports.set_thresholds(thresholds);
    }

    /// Flushes, and waits for answers, or for what `also` says. See [`Ports::wait`].
    pub fn wait(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        also: impl FnMut() -> bool,
    ) -> Outcome {
        self.flush();
        self.ports.wait(policy, timeout, also)
    }

    /// Before sleeping on [`Workers::descriptor`]: whether there is nothing to collect. See [`Ports::arm`].
    pub fn arm(&mut self) -> bool {
        self.flush();
        self.ports.arm()
    }

    /// Awake again.
    pub fn disarm(&mut self) {
        self.ports.disarm();
    }

    /// Readable when armed workers have answers; those with threads have one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ports.descriptor()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.flush();
        self.seats.iter().for_each(|seat| seat.desk.stop());
        for waker in self.wakers.iter() {
            waker.wake();
        }
        for thread in self.threads.drain(..) {
            // Handlers' panics are caught; one outside of them was printed when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
