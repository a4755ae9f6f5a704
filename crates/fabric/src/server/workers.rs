//! Workers behind a server: the executor that is made of [`crate::workers`].
//!
//! Shape:
//! ```text
//!  submit:  a packed request  ──▶ front ══ ways ══▶ Handler::execute
//!  collect:          a Reply  ◀── front ══ ways ══◀──┘
//!                             retiring fronts  ◀── of another number of workers, until their last answer
//! ```
//! Why retire: the number of workers is a register; those that were there answer what they have and then leave.
//!
//! Bounds: [`RETIRING`] fronts beside the one in use; a further change waits until one is gone.
//!
//! Time: handlers read the process's clock, so a server whose time is given (a simulation) runs its handlers itself.

use super::carried::{Courier, Handler};
use super::executor::{Executor, Full, Origin};
use super::places;
use super::router::Router;
use crate::frame::Frame;
use crate::link::Mode;
use crate::port::polling::Thresholds;
use crate::port::{self, Packet, PortOptions};
use crate::registers::{Id, Registers, wait_policy};
use crate::workers::{Balancing, Execute, Provisioning, Route, Work, Workers, WorkersOptions};
use base::units::Nanos;
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;

/// Fronts that wait for their last answers.
const RETIRING: usize = 4;
/// Answers taken from a front in one look.
const MOST: usize = 256;

/// Workers of a server.
#[derive(Clone, Debug, Default)]
pub struct WorkersPlan {
    /// How many; with 0 the server's own thread runs the handlers.
    pub count: usize,
    /// Their rings, waiting, cores, and the balancer of services without one of their own. How many services there are is the server's to say.
    pub options: WorkersOptions,
    /// Services with a balancer of their own. Where requests have their key is their methods' to say (option `(millrace.key)`).
    pub services: Vec<ServicePlan>,
}

/// How the requests of one service are spread.
#[derive(Clone, Debug)]
pub struct ServicePlan {
    /// Its full name: `shop.Cart`. A service that is not served is nobody's.
    pub name: String,
    /// Its balancer; without one that of all.
    pub balancing: Option<Balancing>,
}

/// See the head of the file.
pub(super) struct Pool {
    router: Arc<Router>,
    plan: WorkersPlan,
    front: Option<Workers>,
    /// How many workers the front has.
    running: usize,
    retiring: Vec<Workers>,
    /// The number of workers is not what the plan says yet.
    is_late: bool,
    courier: Courier,
}

impl Pool {
    pub(super) fn new(router: Arc<Router>, plan: &WorkersPlan) -> io::Result<Pool> {
        let mut plan = plan.clone();
        plan.options.services = router.services().len() as u16;
        let mut pool = Pool {
            router,
            plan,
            front: None,
            running: 0,
            retiring: Vec::new(),
            is_late: false,
            courier: Courier::default(),
        };
        pool.front = pool.make()?;
        pool.running = pool.plan.count;
        Ok(pool)
    }

    /// As many workers as the plan says.
    fn make(&self) -> io::Result<Option<Workers>> {
        if self.plan.count == 0 {
            return Ok(None);
        }
        let handlers = Arc::new(Handlers(Arc::clone(&self.router)));
        let mut front = Workers::new(self.plan.count, &self.plan.options, handlers)?;
        for (service, own) in self.own() {
            front.set_balancing(service, own.balancing.unwrap_or(self.plan.options.balancing));
        }
        Ok(Some(front))
    }

    /// Services with a plan of their own.
    fn own(&self) -> impl Iterator<Item = (u16, &ServicePlan)> {
        let number = |name: &str| self.router.services().iter().position(|info| info.name == name);
        self.plan.services.iter().filter_map(move |own| Some((number(&own.name)? as u16, own)))
    }

    /// Puts as many workers to work as the plan says. Those that were there answer what they have.
    fn resize(&mut self) {
        self.is_late = self.retiring.len() == RETIRING && self.running != self.plan.count;
        if self.is_late || self.running == self.plan.count {
            return;
        }
        // If the system gives no threads it goes on with those that are there; the next change tries again.
        let Ok(front) = self.make() else { return };
        self.running = self.plan.count;
        self.retiring.extend(std::mem::replace(&mut self.front, front));
    }

    fn balance(&mut self, balancing: Balancing) {
        self.plan.options.balancing = balancing;
        let fixed: Vec<u16> =
            self.own().filter(|(_, own)| own.balancing.is_some()).map(|(service, _)| service).collect();
        let Some(front) = &mut self.front else { return };
        for service in (0..self.plan.options.services).filter(|service| !fixed.contains(service)) {
            front.set_balancing(service, balancing);
        }
    }

    fn fronts(&mut self) -> impl Iterator<Item = &mut Workers> {
        self.front.iter_mut().chain(&mut self.retiring)
    }
}

impl Executor for Pool {
    fn takes(&self) -> bool {
        self.front.is_some()
    }

    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full> {
        let front = self.front.as_mut().ok_or(Full)?;
        let frame = Frame::parse(request).expect("the server parsed it");
        let line = self.router.line(&frame, origin.connection);
        if line.is_some() && !self.retiring.is_empty() {
            // Those before it in its line may be there still.
            return Err(Full);
        }
        let packet = self.courier.pack(origin, request);
        if let Some(line) = line {
            return front.submit_in_line(line, packet).map_err(|_| Full);
        }
        let entry = self.router.entry(frame.header.method).expect("the server found it");
        let (service, key) = (entry.service_number, entry.descriptor.options.key);
        let key = key.filter(|_| front.asks_for_key(service)).and_then(|key| key.hash(frame.body));
        front.submit(&Route { connection: origin.connection as u32, service, key }, packet).map_err(|_| Full)
    }

    fn in_flight(&self) -> usize {
        self.front.iter().chain(&self.retiring).map(Workers::in_flight).sum()
    }

    fn flush(&mut self) {
        self.fronts().for_each(Workers::flush);
    }

    fn collect(&mut self, now: Nanos, each: &mut dyn FnMut(u64, &[u8])) -> usize {
        let courier = std::mem::take(&mut self.courier);
        let take = |front: &mut Workers| {
            front.collect(now, MOST, |answer| {
                if !answer.bytes().is_empty() {
                    each(courier.connection(&answer), answer.bytes());
                }
            })
        };
        let count = self.fronts().map(take).sum();
        self.courier = courier;
        if !self.retiring.is_empty() {
            // Dropped, they stop and join their workers, who have nothing left to do.
            self.retiring.retain(|front| front.in_flight() > 0);
            if self.is_late {
                self.resize();
            }
        }
        count
    }

    fn closed(&mut self, connection: u64) {
        self.fronts().for_each(|front| front.close_connection(connection as u32));
    }

    fn follow(&mut self, registers: &Registers) {
        let wanted = options_of(registers);
        let options = &mut self.plan.options;
        let ring = std::mem::replace(&mut options.ring, wanted.ring) != wanted.ring;
        (options.provisioning, options.wait) = (wanted.provisioning, wanted.wait);
        options.thresholds = wanted.thresholds;
        if let Some(front) = &mut self.front {
            front.set_provisioning(wanted.provisioning);
            front.set_wait(wanted.wait);
            front.set_thresholds(wanted.thresholds);
            if ring {
                front.set_ring(wanted.ring);
            }
        }
        self.balance(wanted.balancing);
        self.plan.count = places::workers(registers, self.router.needs_workers());
        self.resize();
    }

    fn arm(&mut self) -> bool {
        self.fronts().all(|front| front.arm())
    }

    fn disarm(&mut self) {
        self.fronts().for_each(Workers::disarm);
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.front.iter().chain(&self.retiring).filter_map(Workers::descriptor));
    }
}

/// What registers say of workers.
fn options_of(registers: &Registers) -> WorkersOptions {
    let size = registers.read(Id::BatchSize) as u32;
    let mode = match Mode::ALL[registers.size(Id::PortMode)] {
        Mode::Inline => port::Mode::Inline,
        Mode::Doorbell => port::Mode::Doorbell { batch: size },
        Mode::Coherent => port::Mode::Coherent,
    };
    WorkersOptions {
        balancing: Balancing::ALL[registers.size(Id::WorkersBalancer)],
        provisioning: Provisioning::ALL[registers.size(Id::WorkersProvisioning)],
        ring: PortOptions {
            mode,
            entries: registers.read(Id::RingEntries) as u32,
            boxed_bytes: registers.size(Id::RingArena),
        },
        wait: wait_policy(registers),
        thresholds: Thresholds {
            busy_per_sec: registers.read(Id::PollThreshold),
            hysteresis_percent: registers.read(Id::PollHysteresis) as u32,
        },
        ..WorkersOptions::default()
    }
}

/// What workers run.
struct Handlers(Arc<Router>);

impl Execute for Handlers {
    fn worker(&self, _number: usize) -> Box<dyn Work> {
        Box::new(Handler::new(Arc::clone(&self.0)))
    }
}

impl Work for Handler {
    fn execute(&mut self, request: &Packet) -> Packet {
        self.execute_on_host(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_name_what_there_is() {
        let registers = Registers::default();
        for (at, balancing) in Balancing::ALL.into_iter().enumerate() {
            registers.set_live("workers.balancer", &balancing.name().replace('-', "_")).expect("a balancer");
            assert_eq!(
                (options_of(&registers).balancing, registers.size(Id::WorkersBalancer)),
                (balancing, at)
            );
        }
        for provisioning in Provisioning::ALL {
            let name = provisioning.name().replace('-', "_");
            registers.set_live("workers.provisioning", &name).expect("a provisioning");
            assert_eq!(options_of(&registers).provisioning, provisioning);
        }
        for mode in Mode::ALL {
            registers.set_live("port.mode", mode.name()).expect("a mode");
            assert_eq!(options_of(&registers).ring.mode.name(), mode.name());
        }
    }
}
