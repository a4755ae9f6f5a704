//! Real services of this machine by every way through them: the link, who handles, and how many requests are under way, one client thread. Each
//! connection of the store has one request under way, so that a request is a message of its own at both ends.
//!
//! The client has one core and the service's threads the other: where the scheduler would put threads is nothing that the model knows, and with two
//! processors it changes a request by a factor. Nobody looks before it sleeps, since whoever does keeps the processor from those that have work.
//!
//! | file | services |
//! |---|---|
//! | `store` | GETs of small values, SETs of large ones |
//! | `calls` | calls whose handler does nothing, and works |
//! | `inference` | a recommendation model |

mod calls;
#[cfg(feature = "rec")]
mod inference;
mod store;

use super::{Bench, Kind, Row, code, datagrams};
use base::{Nanos, Picos};
use bench::probe::cores;
use bench::probe::echo::one_way;
use calls::Calls;
#[cfg(feature = "rec")]
use inference::Inference;
use model::alternative::{Alternative, Offered, Part};
use model::load::Seen;
use model::system::host::{Asleep, Handler, Host, Link, Node, Route, Threads};
use model::workload::Class;
use std::error::Error;
use std::time::Duration;
pub use store::Ask;
use store::Store;

/// Steps of a handler that works: about twenty microseconds.
const STEPS: u64 = 15_000;
const LINKS: [Link; 2] = [Link::SharedMemory, Link::Tcp];
const HANDLERS: [Handler; 3] = [Handler::Edge, Handler::Engine, Handler::HostThreads];
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// What all of them touch: it is in the nearest caches.
const WORKING_SET: u64 = 16 << 10;

/// Requests per second.
type Driven = Result<f64, Box<dyn Error>>;

/// A placement, and what it serves.
struct Placed {
    route: Route,
    window: u64,
    class: Class,
    row: Row,
    /// The same by the node's own code in modelled time, where that runs there.
    in_time: Option<Row>,
}

impl Placed {
    fn new(class: &Class, route: Route, window: u64) -> Placed {
        let (class, Route { link, handler }) = (class.clone(), route);
        let what = format!("{}, {handler}, {link}, {window} under way", class.name);
        let row = Row::new(what, Kind::Rate("K/s", 1e3));
        let row = row.among(format!("{}, {link}, {window}", class.name));
        Placed { route, window, class, row, in_time: None }
    }

    /// The service's code runs in modelled time.
    fn and_in_time(self) -> Placed {
        let row = Row::new(format!("{}, its code in time", self.row.what), Kind::Rate("K/s", 1e3));
        Placed { in_time: Some(row), ..self }
    }

    /// Requests per second.
    fn predict(&self, host: &Host, service: &dyn Service) -> f64 {
        let node = Node::new(host, Threads::asleep(), 1);
        let stages = service.stages(&node, &self.class, self.route.handler);
        arithmetic(node, (&self.class, self.route), &stages, self.window).rate()
    }
}

/// What clients of a node see who keep so many requests of this class under way by this route, of which these handle each, one after the other.
pub fn arithmetic(
    mut node: Node<'_>,
    (class, route): (&Class, Route),
    stages: &[(Handler, Picos)],
    window: u64,
) -> Seen {
    let program = node.through(class, route.link, stages);
    let part = Part { class: class.name.clone(), share: 1.0, program };
    let only = Alternative {
        name: route.name(),
        what: route.what(),
        place: route.handler.place(),
        parts: vec![part],
    };
    let setting = node.with(vec![only], 1);
    let (warm_up, span) = (Picos::from_millis(1), Picos::from_millis(20));
    setting.run(&[1.0], Offered::Window(window), 1, warm_up, span).all
}

/// A real service, at one placement after the other.
trait Service: Send {
    /// Moves it.
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>>;

    /// Requests per second with so many under way.
    fn drive(&mut self, link: Link, window: u64, span: Nanos) -> Driven;

    /// What its own code does in modelled time, where that runs there: requests per second.
    fn in_time(&self, _: &Host, _: Handler, _window: u64) -> Option<f64> {
        None
    }

    /// Times what of it the platform's figures do not have.
    fn probe(&mut self, _: Nanos) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    /// Who works on a request, one after the other, and for how long, by what was timed last.
    fn stages(&self, node: &Node<'_>, class: &Class, handler: Handler) -> Vec<(Handler, Picos)> {
        vec![(handler, node.handling(class, WORKING_SET))]
    }
}

/// All rows.
pub(super) fn check(bench: &mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for ask in [Ask::Get, Ask::Set] {
        let mut store = started(bench, || Store::start(ask))?;
        rows.extend(measure(bench, &mut store, of_store(&ask.class()))?);
        store.stop();
    }
    for (name, steps) in [("call", 0), ("call that works", STEPS)] {
        let mut calls = started(bench, || Calls::start(steps))?;
        // A step is four cycles, as the clock is counted.
        let class = Class { cycles: 4.0 * steps as f64, fields: 1, ..Class::of_bytes(name, (64, 64)) };
        rows.extend(measure(bench, &mut calls, of_calls(&class, steps > 0))?);
    }
    #[cfg(feature = "rec")]
    {
        let mut inference = started(bench, Inference::start)?;
        rows.extend(measure(bench, &mut inference, of_calls(&Inference::class(), true))?);
    }
    Ok(rows)
}

/// A service whose threads all have the second core: they have their processor from the thread that starts them.
fn started<T: Send>(
    bench: &Bench<'_>,
    start: impl FnOnce() -> Result<T, Box<dyn Error>> + Send,
) -> Result<T, Box<dyn Error>> {
    Ok(cores::on(bench.cores.1, || start().map_err(|error| error.to_string()))??)
}

fn of_store(class: &Class) -> Vec<Placed> {
    let at = |handler: Handler| {
        [1, 4, 16].map(|window| Placed::new(class, Route { link: Link::Tcp, handler }, window).and_in_time())
    };
    [Handler::Edge, Handler::Engine].into_iter().flat_map(at).collect()
}

/// Frames of one connection share system calls, which the model does not know: many over TCP only where `works` says that the handler is most of a call.
fn of_calls(class: &Class, works: bool) -> Vec<Placed> {
    let mut all = Vec::new();
    for link in LINKS {
        for handler in HANDLERS {
            let windows =
                [1, 16].into_iter().filter(|&window| window == 1 || link == Link::SharedMemory || works);
            all.extend(windows.map(|window| Placed::new(class, Route { link, handler }, window)));
        }
    }
    all
}

fn measure(
    bench: &mut Bench<'_>,
    service: &mut dyn Service,
    mut all: Vec<Placed>,
) -> Result<Vec<Row>, Box<dyn Error>> {
    for _ in 0..bench.rounds() {
        for placed in &mut all {
            let Route { link, handler } = placed.route;
            service.place(handler)?;
            probe(bench, service)?;
            let host = bench.host()?;
            let before = (placed.predict(&host, service), service.in_time(&host, handler, placed.window));
            let span = bench.span(Nanos::from_millis(60));
            let window = placed.window;
            let driven =
                cores::on(bench.cores.0, || service.drive(link, window, span).map_err(|e| e.to_string()))?;
            let measured = driven?;
            probe(bench, service)?;
            let host = bench.host()?;
            placed.row.note(before.0, Some(measured), placed.predict(&host, service));
            if let (Some(row), Some(before)) = (&mut placed.in_time, before.1) {
                row.note(before, Some(measured), service.in_time(&host, handler, window).unwrap_or(before));
            }
        }
    }
    Ok(all.into_iter().flat_map(|placed| [Some(placed.row), placed.in_time]).flatten().collect())
}

/// Replaces the figures that these rest on.
fn probe(bench: &mut Bench<'_>, service: &mut dyn Service) -> Result<(), Box<dyn Error>> {
    datagrams::probe(bench, Asleep::Both)?;
    let span = Nanos::from_millis(4);
    let [send, receive] = one_way::message(bench.cores, span, 64, 32)?;
    bench.figures.note("kernel.tcp_send", &send, "ns", "bursts over loopback");
    bench.figures.note("kernel.tcp_receive", &receive, "ns", "bursts over loopback");
    let [send, receive] = one_way::bell(bench.cores, Nanos::from_millis(2))?;
    bench.figures.note("kernel.bell_send", &send, "ns", "a byte through a Unix socket");
    bench.figures.note("kernel.bell_receive", &receive, "ns", "a byte through a Unix socket");
    code::rings(bench.figures, Nanos::from_millis(1));
    if let Some(game) = ring::probe::ping_pong([bench.cores.0, bench.cores.1], Duration::from_millis(2)) {
        bench.figures.note("cores.ping_pong", &[game.round_trip.0 as f64], "ns", "one line both ways");
    }
    code::node(bench.figures, Nanos::from_millis(1))?;
    service.probe(Nanos::from_millis(1))
}
