//! Real services of this machine by every way through them: the link, who handles, and how many requests are under way, one client thread. Each
//! connection of the store has one request under way, so that a request is a message of its own at both ends.
//!
//! The client has one core and the service's threads the other: where the scheduler would put threads is nothing that the model knows, and with two
//! processors it changes a request by a factor. Nobody looks before it sleeps, since whoever does keeps the processor from those that have work.

use super::{Bench, Kind, Row, code, datagrams};
use crate::host::calls::{self, DO, Work};
use base::{Clock, Nanos, Picos};
use bench::probe::cores;
use bench::probe::echo::one_way;
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, StartError, What};
use fabric::link::Address;
use fabric::server::{Options, Server};
use model::system::host::{Asleep, Handler, Host, Link, Node, Route, Threads};
use model::workload::{Class, Slo, Workload};
use ring::wait::{Outcome, WaitPolicy};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serve::kv;
use serve::kv::config::Config;
use serve::kv::registers::Id;
use serve::rpc::own::OwnServer;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Steps of a handler that works: about twenty microseconds.
const STEPS: u64 = 15_000;
const LINKS: [Link; 2] = [Link::SharedMemory, Link::Tcp];
const HANDLERS: [Handler; 3] = [Handler::Edge, Handler::Engine, Handler::HostThreads];
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// A placement, and what it serves.
struct Placed {
    route: Route,
    window: u64,
    class: Class,
    threads: Threads,
    row: Row,
}

fn class(name: &str, (request, reply): (u64, u64), fields: u64, cycles: f64) -> Class {
    Class {
        name: name.into(),
        share: 1.0,
        request,
        reply,
        lookups: if fields == 0 { 2 } else { 0 },
        lookup: if fields == 0 { 64 } else { 0 },
        rows: 0,
        row: 0,
        store: 0,
        copies: 0,
        cycles,
        fields,
        cacheable: false,
        calls: Vec::new(),
        slo: Slo::default(),
    }
}

impl Placed {
    fn new(service: &str, route: Route, window: u64, class: Class, threads: Threads) -> Placed {
        let Route { link, handler } = route;
        let row =
            Row::new(format!("{service}, {handler}, {link}, {window} under way"), Kind::Rate("K/s", 1e3));
        Placed { route, window, class, threads, row }
    }

    /// Requests per second.
    fn predict(&self, host: &Host) -> f64 {
        let workload = Workload {
            name: String::new(),
            title: String::new(),
            keys: 1,
            skew: 0.0,
            working_set: 16 << 10,
            window: self.window,
            rate: None,
            host_cores: None,
            places: None,
            classes: vec![self.class.clone()],
        };
        let setting = Node::new(host, self.threads, 1).setting(&workload, &[self.route]);
        let offered = model::alternative::Offered::Window(self.window);
        setting.run(&[1.0], offered, 1, Picos::from_millis(1), Picos::from_millis(20)).all.rate()
    }
}

/// A real service, at one placement after the other.
trait Subject: Send {
    /// Moves it.
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>>;

    /// Requests per second with so many under way.
    fn drive(&mut self, link: Link, window: u64, span: Nanos) -> Result<f64, Box<dyn Error>>;
}

/// All rows.
pub(super) fn check(bench: &mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut store = started(bench, Store::start)?;
    let mut rows = measure(bench, &mut store, store_placements())?;
    store.node.stop();
    for (service, steps) in [("call", 0), ("call that works", STEPS)] {
        let mut calls = started(bench, || Calls::start(steps))?;
        rows.extend(measure(bench, &mut calls, call_placements(service, steps))?);
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

fn store_placements() -> Vec<Placed> {
    let of = |handler: Handler, window: u64| {
        let route = Route { link: Link::Tcp, handler };
        let class = class("GET", (GET.len() as u64, GOT as u64), 0, 0.0);
        Placed::new("GET", route, window, class, Threads::asleep())
    };
    [Handler::Edge, Handler::Engine]
        .into_iter()
        .flat_map(|handler| [1, 4, 16].map(|window| of(handler, window)))
        .collect()
}

fn call_placements(service: &str, steps: u64) -> Vec<Placed> {
    let mut all = Vec::new();
    for link in LINKS {
        for handler in HANDLERS {
            for window in [1, 16] {
                // Frames of one connection share system calls, which the model does not know: only where the handler is most of a call.
                if window == 1 || link == Link::SharedMemory || steps > 0 {
                    // A step is four cycles, as the clock is counted.
                    let class = class(service, (64, 64), 1, 4.0 * steps as f64);
                    all.push(Placed::new(service, Route { link, handler }, window, class, Threads::asleep()));
                }
            }
        }
    }
    all
}

fn measure(
    bench: &mut Bench<'_>,
    subject: &mut dyn Subject,
    mut all: Vec<Placed>,
) -> Result<Vec<Row>, Box<dyn Error>> {
    for _ in 0..bench.rounds() {
        for placed in &mut all {
            subject.place(placed.route.handler)?;
            probe(bench)?;
            let before = placed.predict(&bench.host()?);
            let span = bench.span(Nanos::from_millis(60));
            let (link, window) = (placed.route.link, placed.window);
            let driven =
                cores::on(bench.cores.0, || subject.drive(link, window, span).map_err(|e| e.to_string()))?;
            let measured = driven?;
            probe(bench)?;
            let after = placed.predict(&bench.host()?);
            placed.row.note(before, Some(measured), after);
        }
    }
    Ok(all.into_iter().map(|placed| placed.row).collect())
}

/// Replaces the figures that these rest on.
fn probe(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
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
    code::node(bench.figures, Nanos::from_millis(1))
}

/// A store behind memcached's protocol.
struct Store {
    node: kv::Server,
    registers: Arc<kv::registers::Registers>,
}

const GET: &[u8] = b"get key:00000001\r\n";
const VALUE: usize = 64;
/// Bytes of a reply.
const GOT: usize = b"VALUE key:00000001 0 64\r\n".len() + VALUE + b"\r\nEND\r\n".len();

impl Store {
    fn start() -> Result<Store, Box<dyn Error>> {
        let mut config = Config::default();
        config.listen.tcp = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        config.registers.write(Id::StoreMemory, 64 << 20)?;
        config.registers.write(Id::EdgeThreads, 1)?;
        // Threads that share a processor do not keep it from each other by looking.
        config.registers.write(Id::WaitSpin, 0)?;
        config.registers.write(Id::WaitPause, 0)?;
        let registers = config.registers.clone();
        let store = Store { node: kv::Server::start(&config)?, registers };
        let set = format!("set key:00000001 0 0 {VALUE}\r\n{}\r\n", "v".repeat(VALUE));
        let mut connection = store.connect()?;
        connection.write_all(set.as_bytes())?;
        connection.read_exact(&mut [0; b"STORED\r\n".len()])?;
        Ok(store)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.node.tcp()[0])?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        Ok(stream)
    }
}

impl Subject for Store {
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>> {
        let mode = if handler == Handler::Edge { "shared" } else { "dedicated" };
        Ok(self.registers.set_live("engine.mode", mode)?)
    }

    fn drive(&mut self, _: Link, window: u64, span: Nanos) -> Result<f64, Box<dyn Error>> {
        let connections = (0..window).map(|_| self.connect()).collect::<io::Result<Vec<_>>>()?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, connection) in connections.iter().enumerate() {
            epoll::add(&set, connection, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
        }
        let (clock, mut room) = (Clock::shared(), [0; GOT]);
        connections.iter().try_for_each(|mut connection| connection.write_all(GET))?;
        let (start, mut answers) = (clock.now(), 0u64);
        let mut events = Vec::with_capacity(window as usize);
        let patience = Timespec { tv_sec: REPLY_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        while clock.now().since(start) < span {
            events.clear();
            epoll::wait(&set, spare_capacity(&mut events), Some(&patience))?;
            if events.is_empty() {
                return Err("the server did not answer a GET over TCP".into());
            }
            for event in events.drain(..) {
                let mut connection = &connections[event.data.u64() as usize];
                connection.read_exact(&mut room)?;
                connection.write_all(GET)?;
                answers += 1;
            }
        }
        Ok(answers as f64 / clock.now().since(start).as_secs_f64())
    }
}

/// A server of calls.
struct Calls {
    channels: [Channel; 2],
    // After the channels.
    server: OwnServer,
}

impl Calls {
    fn start(steps: u64) -> Result<Calls, Box<dyn Error>> {
        let mut server = Server::try_new(Options::default())?.service(Work(steps));
        let path = std::env::temp_dir().join(format!("millrace-check-{}-{steps}.sock", std::process::id()));
        for address in [format!("shm:{}", path.display()), "tcp:127.0.0.1:0".to_owned()] {
            server = server.listen(&address.parse::<Address>()?)?;
        }
        let server = OwnServer::start(server)?;
        for wait in ["wait.spin", "wait.pause", "wait.monitor"] {
            server.registers().set_live(wait, "0")?;
        }
        let connect = |at: usize| Channel::connect(&server.addresses()[at], &ChannelOptions::default());
        Ok(Calls { channels: [connect(0)?, connect(1)?], server })
    }
}

impl Subject for Calls {
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>> {
        let place = match handler {
            Handler::Edge => "edge",
            Handler::Engine => "engine",
            Handler::HostThreads => "host",
        };
        Ok(self.server.registers().set_live("place.handlers", place)?)
    }

    fn drive(&mut self, link: Link, window: u64, span: Nanos) -> Result<f64, Box<dyn Error>> {
        let channel = &mut self.channels[LINKS.iter().position(|other| *other == link).expect("one of them")];
        let method = channel.method(DO).ok_or("the server has no such method")?;
        let (clock, options, body) = (Clock::shared(), CallOptions::default(), calls::TEXT.as_bytes());
        let (mut under_way, mut answers) = (0u64, 0u64);
        let start = clock.now();
        loop {
            let is_over = clock.now().since(start) >= span;
            if is_over && under_way == 0 {
                break;
            }
            while !is_over && under_way < window {
                match channel.start(method, &options, 0, body) {
                    Ok(_) => under_way += 1,
                    Err(StartError::Full) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            channel.flush();
            let mut wrong = 0;
            let taken = channel.poll(64, |event| match event.what {
                What::Reply(reply) if reply == body => {}
                _ => wrong += 1,
            });
            if wrong > 0 {
                return Err("a call was not answered as it should be".into());
            }
            under_way -= taken as u64;
            if !is_over {
                answers += taken as u64;
            }
            if taken == 0 && channel.wait(WaitPolicy::BLOCK, Some(REPLY_TIMEOUT)) == Outcome::TimedOut {
                return Err("the server did not answer a call".into());
            }
        }
        Ok(answers as f64 / span.as_secs_f64())
    }
}
