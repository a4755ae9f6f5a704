//! `millrace rpc gateway`: unmodified gRPC clients reach a fabric service.
//!
//! ```text
//! gRPC client ══ HTTP/2 ══▶ stream ──▶ bridge ──▶ channel ══ shm, udp, … ══▶ fabric server
//!                                       └──▶ cache ══ in-network ══▶ box or home: replies that are kept, asked first
//! ```
//!
//! One thread: h2 cuts the streams, each is a local task, and the `bridge` shares one channel among them. The messages are not
//! looked at, but unpacked and packed where a client compresses his (`encoding`): a gRPC body and a fabric body are the same protobuf bytes.
//! Reflection and health are answered here (`built_in`). A fabric server over TCP has one, too, for clients of gRPC that come to its own port
//! ([`Gateway::hand_over`]).

mod adopted;
mod bridge;
mod built_in;
mod cache;
mod clients;
mod encoding;
mod health;
pub mod metrics;
mod reflection;
mod stream;
mod wire;

use super::RpcError;
use crate::admin::health::Readiness;
use crate::admin::{Routes, parse_address};
use crate::engine_cores::EngineCore;
use crate::process::listen::{ListenArgs, NO_CERTIFICATE, certificate_for};
use crate::process::logger::LogArgs;
use crate::process::systemd;
use crate::process::table::{Table, Wrong};
use crate::process::{Stop, say};
use crate::reach::{self, Protection};
use crate::shell::{Failure, Loop, Service, Shell};
use base::registers::Shown;
use base::rights::ServiceRights;
use base::tls::{ServerTls, TlsError};
use base::trace::Tracer;
use bridge::Bridge;
use cache::Cache;
use clap::Args;
use client::cache::Topology;
use clients::{Clients, HandedOverStreams, Limits};
use fabric::link::{Address, ForeignStream, TlsOptions};
use fabric::monitor::Monitor;
use fabric::server::{Gate, Server};
use health::Health;
use metrics::Standing;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use stream::Backend;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How often the gateway's thread shows that it turns.
const BEAT_INTERVAL: Duration = Duration::from_millis(250);

/// Clients that a server has handed over and the gateway has not taken; more are closed.
const HANDED_OVER_MAX: usize = 64;

/// The name of HTTP/2 in a TLS handshake, which clients of gRPC want to hear.
const ALPN: &[&[u8]] = &[b"h2"];

/// How long calls that are under way have in the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// What both the command and config files say.
#[derive(Args, Clone, Debug)]
struct Keys {
    /// Give up connecting to the server after this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    connect_timeout: u64,

    /// Serve at most this many connections; at more, the one that was idle for longest makes room
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections: usize,

    /// Ask the in-network cache of this topology (a file, or http://HOST:PORT of its controllers) first for replies of cacheable methods; the
    /// server must keep them there (`millrace rpc serve --cache`)
    #[arg(long, value_name = "TOPOLOGY")]
    cache: Option<PathBuf>,

    /// The box to ask; the first, unless said
    #[arg(long = "box", value_name = "ID", requires = "cache")]
    tor: Option<u16>,
}

/// The server that a config file names.
#[derive(Args, Debug)]
struct Target {
    /// The fabric server: shm:/path, unix:/path, udp:host:port, tcp:host:port
    #[arg(long, value_name = "ADDRESS")]
    to: Address,

    #[command(flatten)]
    keys: Keys,
}

/// Let gRPC clients call a fabric server
///
/// Listens for gRPC (HTTP/2) and passes every call on: unary and streaming, with deadlines, metadata, cancellation, status codes and
/// gzip. Answers server reflection and health checks. Ends at Ctrl-C or SIGTERM, when the calls under way are answered.
#[derive(Args, Debug)]
pub struct Command {
    /// Where gRPC clients connect; port 0 picks a free one
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,

    /// The fabric server: shm:/path, unix:/path, udp:host:port, tcp:host:port
    #[arg(value_name = "ADDRESS")]
    to: Address,

    #[command(flatten)]
    keys: Keys,

    /// HTTP port for metrics, registers, health, and traces; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    listening: ListenArgs,

    #[command(flatten)]
    log: LogArgs,
}

impl Command {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn run(&self) -> Result<(), RpcError> {
        self.log.start("gateway");
        self.listening.apply()?;
        let stop = Stop::on_signals().map_err(RpcError::Signal)?;
        let mut gateway = Gateway::new(self.to.clone(), Monitor::default(), &self.keys)?;
        gateway.listen.push((self.listen, TlsOptions::of_process().certificate.is_some()));
        let shell = Shell::of(gateway, self.listening.access(self.admin)?, stop)?;
        for address in shell.addresses() {
            say(&format!("gRPC on {} for {}", address.trim_start_matches("grpc://"), self.to));
        }
        if let Some(admin) = shell.admin() {
            say(&format!("metrics at {}/metrics", admin.url()));
        }
        Ok(shell.wait()?)
    }
}

/// A gateway, running or not.
pub struct Gateway {
    to: Address,
    connect_timeout: Duration,
    connections: usize,
    /// Of the cache to ask first, and the box.
    cache: Option<(Arc<Topology>, Option<u16>)>,
    monitor: Monitor,
    /// And whether TLS is spoken there.
    listen: Vec<(SocketAddr, bool)>,
    is_shown: bool,
    standing: Arc<Standing>,
    /// What its health is, once it was told.
    readiness: Option<Readiness>,
    /// Who may call what, where there is a file of rights.
    gate: Option<Gate>,
    /// From servers that it is behind.
    hand_over: mpsc::Sender<ForeignStream>,
    handed_over: Option<HandedOverStreams>,
    bound: Vec<(TcpListener, Option<Arc<ServerTls>>)>,
    found: Vec<SocketAddr>,
    /// Tells its thread to end.
    end: watch::Sender<bool>,
    thread: Option<Loop<()>>,
}

impl Gateway {
    /// To the server at `to`; it listens nowhere yet.
    fn new(to: Address, monitor: Monitor, keys: &Keys) -> Result<Gateway, RpcError> {
        let topology = keys.cache.as_ref().map(|cache| Topology::read(cache)).transpose();
        let topology = topology.map_err(|error| RpcError::Server(error.to_string()))?;
        let connect_timeout = Duration::from_millis(keys.connect_timeout);
        let gateway =
            Gateway { connect_timeout, connections: keys.connections, ..Gateway::before(to, monitor) };
        Ok(match topology {
            Some(topology) => gateway.with_cache(Arc::new(topology), keys.tor),
            None => gateway,
        })
    }

    /// To a server in this process, which `monitor` watches, too.
    pub fn before(to: Address, monitor: Monitor) -> Gateway {
        let (hand_over, handed_over) = mpsc::channel(HANDED_OVER_MAX);
        Gateway {
            to,
            connect_timeout: Duration::from_secs(2),
            connections: 1024,
            cache: None,
            monitor,
            listen: Vec::new(),
            is_shown: false,
            standing: Arc::default(),
            readiness: None,
            gate: None,
            hand_over,
            handed_over: Some(handed_over),
            bound: Vec::new(),
            found: Vec::new(),
            end: watch::Sender::new(false),
            thread: None,
        }
    }

    /// Asks the cache of this topology first for replies of cacheable methods, by this box or the first.
    #[must_use]
    pub fn with_cache(self, topology: Arc<Topology>, tor: Option<u16>) -> Gateway {
        Gateway { cache: Some((topology, tor)), ..self }
    }

    /// For a server that it is before: gives it the clients of gRPC that come to the server's own port.
    pub fn hand_over(&self) -> HandOver {
        HandOver(self.hand_over.clone())
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn of(table: &Table<'_>) -> Result<Gateway, Wrong> {
        let target: Target = table.flags(&["kind"])?;
        let gateway = Gateway::new(target.to, Monitor::default(), &target.keys)
            .map_err(|error| table.wrong(error.to_string()))?;
        table.registers(gateway.monitor.registers(), &[])?;
        Ok(gateway)
    }

    /// Its clients' calls come through this gate.
    pub fn set_gate(&mut self, gate: Option<Gate>) {
        self.gate = gate;
    }

    /// As [`Service::open`], where somebody else shows the monitor.
    pub fn open_beside(&mut self, is_shown: bool) -> Result<Routes, RpcError> {
        self.bind()?;
        Ok(self.routes(is_shown))
    }

    /// What operators are shown of it.
    pub fn routes(&mut self, is_shown: bool) -> Routes {
        self.is_shown = is_shown;
        let collected = Arc::clone(&self.standing);
        let routes = Routes::default()
            .metrics(move |page| collected.collect(page))
            .loops([self.standing.beat.pulse("gateway")]);
        if self.is_standby() {
            return routes;
        }
        let (checked, to) = (Arc::clone(&self.standing), self.to.to_string());
        routes.ready(move || match checked.is_connected.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(format!("no connection to {to}: the next call tries again")),
        })
    }

    /// Whether it has no listener of its own: it is connected by the first call of a client that was handed over, and until then nothing waits for it.
    fn is_standby(&self) -> bool {
        self.listen.is_empty()
    }

    /// Of its listeners that speak TLS, if there is one.
    ///
    /// # Errors
    /// It cannot be used, or is wanted and not there.
    fn certificate(&self) -> Result<Option<Arc<ServerTls>>, RpcError> {
        match certificate_for(ALPN).map_err(|error| RpcError::Server(error.to_string()))? {
            None if self.listen.iter().any(|(_, has_tls)| *has_tls) => {
                Err(RpcError::Server(NO_CERTIFICATE.to_owned()))
            }
            found => Ok(found),
        }
    }

    /// Takes its addresses.
    ///
    /// # Errors
    /// One cannot be had.
    pub fn bind(&mut self) -> Result<(), RpcError> {
        let certificate = self.certificate()?;
        for (address, has_tls) in &self.listen {
            let failed = |cause| RpcError::Gateway { address: *address, cause };
            let tls = certificate.clone().filter(|_| *has_tls);
            let protection = if tls.is_some() { Protection::Tls } else { Protection::None };
            reach::check("the gateway", *address, protection)
                .map_err(|exposed| RpcError::Server(exposed.to_string()))?;
            let listener = systemd::bind_tcp(*address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            let found = listener.local_addr().map_err(failed)?;
            self.found.push(found);
            self.bound.push((listener, tls));
        }
        Ok(())
    }
}

/// The way of clients from a server's own port to its gateway.
pub struct HandOver(mpsc::Sender<ForeignStream>);

impl HandOver {
    /// Has a server that listens nowhere yet give up the clients that come over TCP, or TLS, and speak gRPC.
    ///
    /// # Errors
    /// The certificate cannot be used any more.
    pub fn from(self, mut server: Server) -> Result<Server, TlsError> {
        server.options_mut().link.tls.certificate = certificate_for(ALPN)?;
        Ok(server.http2(move |foreign| {
            if self.0.try_send(foreign).is_err() {
                log::debug!("a client of gRPC was closed: too many wait for the gateway, or it has ended");
            }
        }))
    }
}

impl Service for Gateway {
    fn kind(&self) -> &'static str {
        "gateway"
    }

    fn role(&self) -> String {
        "gRPC clients before a server of the fabric".to_owned()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["grpc"]
    }

    fn listen(&mut self, _protocol: &str, address: &Address) -> Result<(), String> {
        let (Address::Tcp(endpoint) | Address::Tls(endpoint)) = address else {
            return Err("gRPC clients come over TCP: HOST:PORT, or with TLS tls:HOST:PORT".to_owned());
        };
        let resolved = endpoint.resolve().map_err(|why| format!("{address}: {why}"))?;
        self.listen.push((resolved, matches!(address, Address::Tls(_))));
        Ok(())
    }

    fn registers(&self) -> Vec<Shown> {
        self.monitor.registers().show()
    }

    fn trace(&mut self, tracer: Tracer) {
        self.monitor.set_tracer(tracer);
    }

    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        self.set_gate(Some(Gate::new(rights)));
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        Ok(self.certificate().map(drop)?)
    }

    fn open(&mut self, _core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure> {
        let own = self.open_beside(is_shown)?;
        Ok(super::admin::routes(&self.monitor, None).service(None, own))
    }

    fn health(&mut self, health: &dyn Fn() -> io::Result<Readiness>) -> Result<(), Failure> {
        self.readiness = Some(health().map_err(|cause| RpcError::Server(cause.to_string()))?);
        Ok(())
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        let thread = self.spawn(stop).map_err(|cause| {
            let address =
                self.found.first().copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
            RpcError::Gateway { address, cause }
        })?;
        self.thread = Some(thread);
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        self.found.iter().map(|address| format!("grpc://{address}")).collect()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.end.send_replace(true);
        self.thread.as_mut().and_then(Loop::finish);
        Ok(())
    }
}

impl Gateway {
    /// Starts its thread, and returns when that has tried to reach the server.
    fn spawn(&mut self, stop: &Stop) -> io::Result<Loop<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (to, cache, standing) = (self.to.clone(), self.cache.clone(), Arc::clone(&self.standing));
        let (timeout, limits) = (self.connect_timeout, Limits::of(self.connections));
        let (bound, ended, is_shown) = (std::mem::take(&mut self.bound), self.end.subscribe(), self.is_shown);
        let monitor = is_shown.then(|| self.monitor.clone());
        let readiness = self.readiness.take().expect("it was told before it is started");
        let handed_over = self.handed_over.take().expect("it is started once");
        let (is_standby, gate) = (self.is_standby(), self.gate.take());
        let (tell, told) = sync_channel(1);
        let thread = Loop::start("gateway", stop, move |_| {
            let serve = async {
                let cache = cache.and_then(|(topology, tor)| {
                    let started = Cache::start(&topology, tor, Arc::clone(&standing));
                    started.inspect_err(|error| log::error!("the cache is not asked: {error}")).ok()
                });
                let bridge = Bridge::new(to, timeout, monitor, standing, cache);
                if !is_standby && let Err(status) = bridge.connect().await {
                    log::warn!("{status}; the gateway will try again with each call");
                }
                let _ = tell.send(());
                let listener =
                    |(listener, tls)| io::Result::Ok((tokio::net::TcpListener::from_std(listener)?, tls));
                let listeners: io::Result<Vec<_>> = bound.into_iter().map(listener).collect();
                let listeners = listeners.expect("nonblocking listeners");
                let health = Health::new(readiness, ended.clone());
                let keeps_connected = is_shown && !is_standby;
                let backend = Rc::new(Backend { bridge, health, gate });
                serve(backend, (listeners, handed_over), limits, keeps_connected, ended).await;
            };
            tokio::task::LocalSet::new().block_on(&runtime, serve);
        })?;
        // It ends only when it is told to.
        let _ = told.recv();
        Ok(thread)
    }
}

/// Serves until it is told to end, then answers the calls that are under way.
async fn serve(
    backend: Rc<Backend>,
    (listeners, mut handed_over): (Vec<clients::Listener>, HandedOverStreams),
    limits: Limits,
    keeps_connected: bool,
    mut ended: watch::Receiver<bool>,
) {
    let bridge = &backend.bridge;
    let standing = Arc::clone(&bridge.standing);
    let mut clients = Clients::new(Rc::clone(&backend), limits);
    let looks = backend.health.run(bridge);
    tokio::pin!(looks);
    let mut beats = tokio::time::interval(BEAT_INTERVAL);
    let mut attempt: Option<JoinHandle<_>> = None;
    loop {
        tokio::select! {
            never = clients.serve(&listeners, &mut handed_over) => match never {},
            never = &mut looks => match never {},
            // Whoever could tell it is gone: it ends as well.
            _ = ended.wait_for(|ended| *ended) => break,
            _ = beats.tick() => {
                standing.beat.turn();
                // Whoever is told that the gateway is not ready sends no calls, and calls are what connects it.
                let is_lost = keeps_connected && !standing.is_connected.load(Ordering::Relaxed);
                if is_lost && attempt.as_ref().is_none_or(JoinHandle::is_finished) {
                    let bridge = Rc::clone(bridge);
                    attempt = Some(tokio::task::spawn_local(async move { bridge.connect().await }));
                }
            }
        }
    }
    drop((listeners, handed_over));
    // Those that take longer are cut off.
    let drained = tokio::time::timeout(DRAIN_TIMEOUT, clients.drain());
    tokio::select! {
        _ = drained => {}
        never = looks => match never {},
    }
}
