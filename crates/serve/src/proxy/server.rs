//! A running proxy: listeners, a thread that accepts, and workers.

use super::error::ProxyError;
use super::metrics;
use super::shared::{Options, Shared};
use super::worker::Worker;
use crate::admin::Routes;
use crate::guard::AbortOnPanic;
use crate::http::PortAt;
use crate::inc::machine::Counters;
use crate::inc::stream::Streams;
use crate::inc::{Topology, client, registers};
use crate::memcached::accept::{self, Door, Inbox, Purpose, pulses};
use crate::memcached::listen;
use crate::memcached::login::Entrance;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Connections that the system keeps for us until they are accepted.
const BACKLOG: i32 = 1024;

/// A running proxy. It stops when dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    inboxes: Vec<Arc<Inbox>>,
    stop: Arc<OwnedFd>,
    accept: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<io::Result<Counters>>>,
}

impl Proxy {
    /// Starts a proxy before the nodes of `topology` that asks box `tor`, or the first. When this returns, clients can connect.
    ///
    /// # Errors
    /// Says what could not be had and what to do.
    pub fn start(
        topology: &Topology,
        tor: Option<u16>,
        listen: &[SocketAddr],
        options: Options,
    ) -> Result<Proxy, ProxyError> {
        let listen: Vec<PortAt> = listen.iter().copied().map(PortAt::from).collect();
        Proxy::start_at(topology, tor, (&listen, Entrance::default()), options)
    }

    /// The same, with TLS where there is a certificate: the same one everywhere. Clients come in by `entrance`.
    ///
    /// # Errors
    /// As [`Proxy::start`].
    pub fn start_at(
        topology: &Topology,
        tor: Option<u16>,
        (listen, entrance): (&[PortAt], Entrance),
        options: Options,
    ) -> Result<Proxy, ProxyError> {
        let system = |what| move |e: io::Error| ProxyError::System(what, e);
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for PortAt { address, tls } in listen {
            let (socket, bound) = listen::tcp(*address, BACKLOG).map_err(ProxyError::Listen)?;
            listeners.push((if tls.is_some() { Purpose::Tls } else { Purpose::Stream }, socket));
            addresses.push(bound);
        }
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| ProxyError::System("make a descriptor", e.into()))?;
        let homes = topology.layout().homes().collect();
        let mut shared = Shared::new(options, topology.tor(tor)?, homes, topology.value_max());
        shared.tls = listen.iter().find_map(|at| at.tls.clone());
        shared.entrance = entrance;
        // From here on it cleans up after itself when something fails.
        let mut proxy = Proxy {
            shared: Arc::new(shared),
            addresses,
            inboxes: Vec::new(),
            stop: Arc::new(stop),
            accept: None,
            workers: Vec::new(),
        };
        for index in 0..options.threads {
            let inbox = Arc::new(Inbox::new().map_err(system("make a wake-up descriptor"))?);
            let driver = client::driver(topology, tor)?;
            let streams = Streams::of(topology).map_err(system("watch streams"))?;
            let operations = topology.config().operations;
            let ways = (driver, streams);
            let worker = Worker::new(proxy.shared.clone(), index, inbox.clone(), ways, operations)
                .map_err(system("make a worker"))?;
            let shared = proxy.shared.clone();
            let run = move || {
                let _guard = AbortOnPanic("the proxy");
                let counters = worker.run();
                // One that fails takes the others with it.
                shared.stop();
                counters
            };
            let thread = std::thread::Builder::new().name(format!("proxy-{index}")).spawn(run);
            proxy.workers.push(thread.map_err(system("start a thread"))?);
            proxy.inboxes.push(inbox);
        }
        let (shared, inboxes, stop) = (proxy.shared.clone(), proxy.inboxes.clone(), proxy.stop.clone());
        let run = move || {
            let _guard = AbortOnPanic("the proxy");
            let most = || shared.options.connections;
            accept::run(listeners, &inboxes, &Door { net: &shared.net, most: &most }, stop.as_fd());
        };
        let thread = std::thread::Builder::new().name("accept".into()).spawn(run);
        proxy.accept = Some(thread.map_err(system("start a thread"))?);
        Ok(proxy)
    }

    /// Where clients can connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What its threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What operators are shown of it.
    pub fn routes(&self, topology: &Topology) -> Routes {
        let collected = Arc::clone(&self.shared);
        Routes::default()
            .registers(Arc::new(registers::Shared(topology.registers())))
            .metrics(move |page| metrics::collect(&collected, page))
            .loops(pulses("proxy", &self.inboxes))
    }

    /// Whether it has ended by itself: a socket failed, and [`Proxy::stop`] says which.
    pub fn has_failed(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Answers what has arrived, then closes everything. Returns when that is done, with what commands, clients and sockets have counted.
    ///
    /// # Errors
    /// A socket had failed.
    pub fn stop(mut self) -> Result<Counters, ProxyError> {
        self.finish().map_err(|e| ProxyError::System("reach the boxes", e))?;
        let mut counters = vec![
            ("connections", self.shared.net.total_connections.read()),
            ("commands", self.shared.net.requests.read()),
        ];
        counters.extend(self.shared.commands.all());
        counters.extend(self.shared.client_counters());
        Ok(counters)
    }

    fn finish(&mut self) -> io::Result<()> {
        // Nobody may be handed to a worker that has ended, so accepting ends first.
        // Cannot fail: the counter is far from full.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        // A thread that panicked has said so already.
        let _ = self.accept.take().map(JoinHandle::join);
        self.shared.stop();
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        let mut result = Ok(());
        for (index, worker) in self.workers.drain(..).enumerate() {
            match worker.join() {
                Ok(Ok(counters)) => self.shared.publish(index, counters),
                Ok(Err(error)) => result = Err(error),
                Err(_) => result = Err(io::Error::other("a thread of the proxy panicked")),
            }
        }
        result
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        let _ = self.finish();
    }
}
