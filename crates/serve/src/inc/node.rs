//! A box, home or controller of a topology, from a bound socket to its counters at the end: a thread, or of a box one for each of its cores.

use super::TopologyError;
use super::book::{self, Book};
use super::cores::{self, Core};
use super::driver::Driver;
use super::group;
use super::items::StoreItems;
use super::machine::{Counters, Machine, add_up};
use super::metrics::Seen;
use super::orders::{Ordered, Orders};
use super::tiered::{Table, Tiered};
use super::topology::Topology;
use crate::admin::ask::Questions;
use crate::admin::health::Beat;
use base::Clock;
use base::steady::Steady;
use protocol::coherence::boxes::shards::Shard;
use protocol::coherence::guard::{Keys, Numbering};
use protocol::coherence::{CacheBox, Controller, Guard, Home, Life, NodeId, Planted};
use protocol::planted::{Bugs, NoBugs};
use protocol::wire::Incarnation;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use xdp::{Live, Tier};

/// Runs `node` of a topology made in this process at `socket` until `stop`, and says what it counted. Whatever it knew is gone then; nobody is told.
///
/// `incarnation` must be higher than in all its earlier lives.
///
/// # Errors
/// The socket failed.
///
/// # Panics
/// If `node` is a client: those are [`super::Client`].
pub fn run(
    topology: &Topology,
    node: NodeId,
    socket: UdpSocket,
    life: (Incarnation, Life),
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let equipment = Equipment::<NoBugs> { keys: topology.held_keys(), ..Equipment::default() };
    run_with(equipment, topology, node, socket, life, stop)
}

/// A socket at the address of `node`. Where others than this machine reach it, the cluster has a key or was told that it needs none.
///
/// # Errors
/// As [`Topology::bind`].
pub fn bind(topology: &Topology, node: NodeId) -> Result<UdpSocket, TopologyError> {
    topology.bind(node)
}

/// What a node may have besides.
#[derive(Default)]
pub struct Equipment<B = NoBugs> {
    /// A box's fast tier, empty, with what it goes by.
    pub fast: Option<(Tier, Live)>,
    /// Who asks its threads, one of each core; those that are left out are not asked.
    pub watched: Vec<Watched>,
    /// What is changed of a controller while it runs.
    pub orders: Orders,
    /// By which it and the others know each other; none: by their addresses alone.
    pub keys: Option<Keys>,
    /// What is wrong with its machine on purpose.
    pub planted: B,
}

/// How a thread is watched.
#[derive(Default)]
pub struct Watched {
    /// Where it is asked what it counted.
    pub questions: Option<Questions<Seen>>,
    /// Says that it turns.
    pub beat: Beat,
}

/// The same, equipped.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_with<B: Bugs<Planted> + Send>(
    equipment: Equipment<B>,
    topology: &Topology,
    node: NodeId,
    socket: UdpSocket,
    (incarnation, life): (Incarnation, Life),
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let Equipment { fast, watched, orders, keys, planted } = equipment;
    let (config, layout) = (topology.config(), topology.layout().clone());
    let steady = Steady::new(Clock::shared());
    let (now, life) = (Clock::shared().now(), (incarnation, life));
    let mut watched = watched.into_iter();
    let mut endpoint = |socket, guard| {
        let watched = watched.next().unwrap_or_default();
        Endpoint { node, socket, guard, watched, steady, book: topology.book().clone() }
    };
    let mut guard = Guard::new(node, incarnation, keys);
    match node {
        NodeId::Box(id) => {
            let new = || CacheBox::with_bugs(config, id, layout.clone(), life, now, planted.clone());
            let sockets = group::beside(socket, topology.cores(node))?;
            if let Some((tier, _)) = &fast {
                guard.share(|key, last| tier.seal_as(id, key, last));
            } else if sockets.len() > 1 {
                guard.share(|_, last| counting_from(last));
            }
            let mut endpoints: Vec<Endpoint> =
                sockets.into_iter().map(|socket| endpoint(socket, guard.clone())).collect();
            match endpoints.len() {
                1 => run_whole(new(), fast, endpoints.pop().expect("there is one"), stop),
                _ => run_cores(new, fast, endpoints, planted.clone(), stop),
            }
        }
        NodeId::Home(id) => {
            let items = StoreItems::new(topology.memory())
                .map_err(|e| io::Error::other(format!("coherence.memory: {e}")))?;
            let mut home = Home::with_bugs(config, id, layout, life, now, items, planted);
            if let Some(here) = topology.book().address_of(node).filter(|_| topology.is_elsewhere(id)) {
                home = home.elsewhere(here);
            }
            endpoint(socket, guard).drive(home, stop, || ())
        }
        NodeId::Controller(index) => {
            let mut controller = Controller::new(config, index, topology.controllers(), layout, now);
            controller.set_draining(now, topology.draining());
            endpoint(socket, guard).drive(Ordered::new(controller, orders), stop, || ())
        }
        NodeId::Client(_) => unreachable!("a client is no node of a topology"),
    }
}

/// Numbers what several cores seal as one node.
fn counting_from(last: u64) -> Numbering {
    let last = AtomicU64::new(last);
    Arc::new(move || last.fetch_add(1, Relaxed) + 1)
}

/// What a machine is driven at, and by whom it is watched.
struct Endpoint {
    node: NodeId,
    socket: UdpSocket,
    book: Book,
    guard: Guard,
    watched: Watched,
    /// Of before the machine was made.
    steady: Steady,
}

impl Endpoint {
    /// Until `stop`; `each` is called after every turn.
    fn drive<M: Machine>(self, machine: M, stop: &AtomicBool, each: impl Fn()) -> io::Result<Counters> {
        let Endpoint { node, socket, book, guard, watched: Watched { questions, beat }, steady } = self;
        let mut driver = Driver::new(machine, socket, &book, guard)?.steady_since(steady);
        driver.run_with(stop, |driver| {
            beat.turn();
            if let Some(questions) = &questions {
                questions.answer(|| Seen::of(node, driver));
            }
            each();
        })?;
        Ok(driver.counters())
    }
}

/// A box of one core.
fn run_whole<B: Bugs<Planted>>(
    cache: CacheBox<B>,
    fast: Option<(Tier, Live)>,
    endpoint: Endpoint,
    stop: &AtomicBool,
) -> io::Result<Counters> {
    match fast {
        Some((tier, live)) => {
            endpoint.drive(Tiered::new(cache, Table::First(Box::new(tier), live)), stop, || ())
        }
        None => endpoint.drive(cache, stop, || ()),
    }
}

/// A box of as many cores as there are endpoints: a thread each. The first that fails ends all.
fn run_cores<B: Bugs<Planted> + Send>(
    new: impl Fn() -> CacheBox<B>,
    fast: Option<(Tier, Live)>,
    endpoints: Vec<Endpoint>,
    planted: B,
    stop: &AtomicBool,
) -> io::Result<Counters> {
    let of = u8::try_from(endpoints.len()).expect("a register bounds them");
    let mut tables: Vec<Option<Table>> = match fast {
        Some((mut tier, live)) => {
            let others = tier.split(of).into_iter().map(Table::Other);
            std::iter::once(Table::First(Box::new(tier), live)).chain(others).map(Some).collect()
        }
        None => (0..of).map(|_| None).collect(),
    };
    let over = AtomicBool::new(false);
    let run = |machine: Shard, cache: CacheBox<B>, table, ends, endpoint: Endpoint, planted| {
        let _ended = Ended(&over);
        let cache = cache.as_shard(machine);
        let each = || {
            over.fetch_or(stop.load(Relaxed), Relaxed);
        };
        match table {
            Some(table) => {
                let core = Core::new(Tiered::new(cache, table), machine, ends, planted);
                endpoint.drive(core, &over, each)
            }
            None => endpoint.drive(Core::new(cache, machine, ends, planted), &over, each),
        }
    };
    let ends = cores::star(of)?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (((shard, table), ends), endpoint) in
            Shard::all(of).zip(tables.drain(..)).zip(ends).zip(endpoints)
        {
            let (cache, planted, run) = (new(), planted.clone(), &run);
            let name = format!("{}/{}", book::name(endpoint.node), shard.index());
            let core = move || run(shard, cache, table, ends, endpoint, planted);
            threads.push(thread::Builder::new().name(name).spawn_scoped(scope, core).inspect_err(|_| {
                over.store(true, Relaxed);
            })?);
        }
        let mut sums = Counters::new();
        for thread in threads {
            add_up(&mut sums, &thread.join().expect("a core does not panic")?);
        }
        Ok(sums)
    })
}

/// Whoever of several cores ends, in whatever way, ends all.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
