//! Calls and replies: client threads call, server threads reply, both in batches, as the authors' benchmark does.
//!
//! ```text
//!   caller ─ call ─▶ client thread: post │ join batch ─ full ─▶ cross ─▶ server thread: complete, handle, post │ join batch ─ full ─▶ cross
//!      ▲                                                                                                                             │
//!      └───────────────────────────── client thread: complete ◀──────────────────────────────────────────────────────────────────────┘
//! ```
//! A thread does one thing at a time, in order of arrival. A batch leaves when it is full: nobody sends a part of one. Whoever is last in a batch does
//! what is to be done once for it. Members of a batch go on in any order among themselves, all at the same moment.
//!
//! Bounds: `window` calls of a thread are under way; a client that would begin one more is blocked until one ends.

use super::machine::{Machine, Side};
use crate::kernel::{ProgramId, ResourceId, Service};
use crate::load::{Seen, whole};
use crate::platform::picos;
use crate::random::exponential;
use crate::rerun;
use crate::sim::{Mailbox, Sim};
use base::{Picos, Prng};
use std::cell::RefCell;
use std::rc::Rc;

/// How clients call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    /// As many as can be under way.
    Saturate,
    /// So many per second and thread, evenly but for a jitter: a client that is behind calls at once and then goes on at its pace.
    Paced(f64),
    /// So many per second and thread, at random; a call's time counts from when it should have begun.
    Random(f64),
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    /// Bytes of a call.
    pub request: u64,
    /// Bytes of a reply.
    pub reply: u64,
    /// Work of the server's thread, beside sending and receiving.
    pub handler: Picos,
    /// Calls of a thread that may be under way.
    pub window: u64,
    /// How much longer or shorter than the mean a gap of an even client may be, as a share of it. With none, calls and replies would keep one
    /// phase at their thread for ever, which no clock does.
    pub jitter: f64,
}

/// A use of hardware in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Servers of the resource that were busy, in the mean.
    pub busy: f64,
    /// Units per second.
    pub units: f64,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Echo {
    /// Calls, all threads together.
    pub seen: Seen,
    /// Client threads' time.
    pub client_threads: f64,
    /// Server threads' time.
    pub server_threads: f64,
    /// Reads of the coherent interconnect.
    pub reads: Use,
    /// Its writes.
    pub writes: Use,
    /// Its link, the busier direction.
    pub link: Use,
    /// The busiest pipeline of a NIC.
    pub pipeline: Use,
    /// PCIe towards the host.
    pub pcie_to_host: Use,
    /// And towards the device.
    pub pcie_to_device: Use,
}

/// A thread, what it does for a message and for a batch, and who waits for the batch to be full.
struct End {
    thread: ResourceId,
    each: Picos,
    last: Picos,
    cross: ProgramId,
    batch: usize,
    waiting: RefCell<Vec<Mailbox<()>>>,
}

impl End {
    /// A message leaves from here and arrives.
    async fn send(&self, sim: &Sim, me: &Mailbox<()>) {
        let full = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.push(me.clone());
            (waiting.len() == self.batch).then(|| std::mem::take(&mut *waiting))
        };
        let work = if full.is_some() { self.each.plus(self.last) } else { self.each };
        sim.serve(self.thread, Service::Fixed(work), 1).await;
        if let Some(batch) = full {
            sim.perform(self.cross, 0).await;
            batch.iter().for_each(|member| member.send(()));
        }
        me.receive().await;
    }
}

/// A connection: a client's thread, a server's, and the calls between.
struct Connection {
    sim: Sim,
    client: End,
    server: End,
    complete: Picos,
    jitter: f64,
    begin: Picos,
    seen: Rc<RefCell<Seen>>,
}

impl Connection {
    /// One that calls whenever it is told to: the time from which the call counts.
    async fn caller(self: Rc<Self>, idle: Mailbox<Mailbox<Picos>>) {
        let (orders, wake) = (Mailbox::new(&self.sim), Mailbox::new(&self.sim));
        loop {
            idle.send(orders.clone());
            let started = orders.receive().await;
            self.call(started, &wake).await;
        }
    }

    async fn call(&self, started: Picos, wake: &Mailbox<()>) {
        self.client.send(&self.sim, wake).await;
        self.server.send(&self.sim, wake).await;
        self.sim.serve(self.client.thread, Service::Fixed(self.complete), 1).await;
        let now = self.sim.now();
        if now >= self.begin {
            self.seen.borrow_mut().record(now.since(started));
        }
    }

    /// Tells idle callers when to call.
    async fn drive(self: Rc<Self>, drive: Drive, phase: f64, idle: Mailbox<Mailbox<Picos>>, mut prng: Prng) {
        let gap = match drive {
            Drive::Saturate => Picos::ZERO,
            Drive::Paced(rate) | Drive::Random(rate) => picos(1.0 / rate),
        };
        let mut due = Picos((gap.0 as f64 * phase) as u64);
        loop {
            let caller = idle.receive().await;
            self.sim.sleep_until(due).await;
            let now = self.sim.now();
            let (started, next) = match drive {
                Drive::Saturate => (now, now),
                Drive::Paced(_) => {
                    let share = 1.0 + self.jitter * (2.0 * prng.unit_f64() - 1.0);
                    (now, now.plus(Picos((gap.0 as f64 * share) as u64)))
                }
                Drive::Random(_) => (due, due.plus(exponential(&mut prng, gap))),
            };
            caller.send(started);
            due = next;
        }
    }
}

/// Runs calls on a machine, without account for `warm_up`, then for `span`.
pub fn echo(
    mut machine: Machine,
    calls: Calls,
    drive: Drive,
    seed: u64,
    (warm_up, span): (Picos, Picos),
) -> Echo {
    let batch = machine.interface.batch;
    let crossings =
        [machine.cross(Side::Client, batch, calls.request), machine.cross(Side::Server, batch, calls.reply)];
    let reply_work = machine.complete(calls.request).plus(calls.handler).plus(machine.post(calls.reply));
    let works = [machine.post(calls.request), reply_work];
    let warm_up = rerun::warm_up(warm_up);
    let (last, complete) = (machine.close(), machine.complete(calls.reply));
    let Machine { kernel, clients, servers, nics, endpoint, pcie, .. } = machine;
    let sim = Sim::new(kernel);
    let seen = Rc::new(RefCell::new(Seen::new(span)));
    for (i, threads) in clients.iter().zip(&servers).enumerate() {
        let [client, server] = [(*threads.0, 0), (*threads.1, 1)].map(|(thread, side)| End {
            thread,
            each: works[side],
            last,
            cross: crossings[side],
            batch: batch as usize,
            waiting: RefCell::default(),
        });
        let seen = Rc::clone(&seen);
        let connection = Rc::new(Connection {
            sim: sim.clone(),
            client,
            server,
            complete,
            jitter: calls.jitter,
            begin: warm_up,
            seen,
        });
        let idle = Mailbox::new(&sim);
        (0..calls.window).for_each(|_| sim.spawn(Rc::clone(&connection).caller(idle.clone())));
        let prng = Prng::for_entity(seed, i as u64, 2);
        let phase = i as f64 / clients.len() as f64;
        sim.spawn(connection.drive(drive, phase, idle, prng));
    }
    let times = rerun::account(&sim, warm_up, span, || {}, || {});
    let usage = |at: ResourceId| {
        let usage = sim.with(|kernel| kernel.usage(at));
        let seconds = span.as_secs_f64();
        Use { busy: usage.busy.as_secs_f64() / seconds, units: usage.units as f64 / seconds }
    };
    let busier = |a: Use, b: Use| if b.busy > a.busy { b } else { a };
    let threads = |of: &[ResourceId]| of.iter().map(|at| usage(*at).busy).sum();
    let pipelines = nics.iter().flat_map(|nic| [nic.send, nic.receive]).map(usage);
    let seen = whole(&seen, times);
    Echo {
        seen,
        client_threads: threads(&clients),
        server_threads: threads(&servers),
        reads: usage(endpoint.reads),
        writes: usage(endpoint.writes),
        link: busier(usage(endpoint.to_fpga), usage(endpoint.to_host)),
        pipeline: pipelines.fold(Use::default(), busier),
        pcie_to_host: usage(pcie.to_host),
        pcie_to_device: usage(pcie.to_device),
    }
}
