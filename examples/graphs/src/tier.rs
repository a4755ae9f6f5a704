//! A graph of tiers: each is a service, a thread that serves it, and channels to the tiers that it asks.
//!
//! A tier's thread polls its server and its channels, and sleeps on both. With more threads than cores nobody spins: whoever would be waited for may
//! need the core.

use super::Failure;
use super::asks::{Asks, Started, To};
use super::book::{Book, Pages, add};
use super::parts::Timed;
use super::traces::Traces;
use base::{Clock, Nanos};
use fabric::channel::{Channel, Options};
use fabric::link::Address;
use fabric::server::Server;
use fabric::service::{Service, ServiceDescriptor};
use fabric::stub::NotServed;
use ring::wait::WaitPolicy;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How tiers are joined, and who watches them.
pub struct Rig {
    /// memory, shm, unix, udp or tcp.
    pub transport: String,
    /// Where sockets and shared memory have their names.
    pub folder: PathBuf,
    pub wait: WaitPolicy,
    pub traces: Option<Traces>,
}

impl Rig {
    fn address(&self, graph: &str, tier: &str) -> Result<Address, Failure> {
        let text = match self.transport.as_str() {
            // Graphs of one process, in tests several at once.
            "memory" => format!("memory:{}-{graph}-{tier}", self.folder.display()),
            "udp" | "tcp" => format!("{}:127.0.0.1:0", self.transport),
            transport => format!("{transport}:{}", self.folder.join(format!("{graph}-{tier}")).display()),
        };
        Ok(text.parse()?)
    }

    /// Connects a client to the tier where requests come in.
    ///
    /// # Errors
    /// It is not there.
    pub fn client(&self, address: &Address) -> Result<Channel, Failure> {
        let monitor = self.traces.as_ref().map(|traces| traces.client.clone());
        Ok(Channel::connect(address, &Options { monitor, ..Options::default() })?)
    }
}

/// Tiers that run. Dropped, they end.
pub struct Graph<'r> {
    name: &'static str,
    rig: &'r Rig,
    tiers: Vec<Tier>,
}

struct Tier {
    name: &'static str,
    address: Address,
    book: Arc<Book>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a tier's service asks others by.
pub struct Beside<'a> {
    pub asks: Asks,
    channels: &'a [Channel],
}

/// Another tier, and the generated client for it.
#[derive(Clone, Copy)]
pub struct Peer<C> {
    pub client: C,
    channel: usize,
    service: &'static ServiceDescriptor,
}

impl<C> Peer<C> {
    /// The method of that name.
    pub fn to(&self, method: &str) -> To {
        let found = self.service.methods.iter().position(|described| described.name == method);
        To {
            channel: self.channel,
            service: self.service,
            method: found.expect("the service has this method"),
        }
    }
}

impl Beside<'_> {
    /// The tier that is asked as number `channel`.
    ///
    /// # Errors
    /// It is another.
    pub fn peer<C>(
        &self,
        channel: usize,
        service: &'static ServiceDescriptor,
        client: impl FnOnce(&Channel) -> Result<C, NotServed>,
    ) -> Result<Peer<C>, NotServed> {
        Ok(Peer { client: client(&self.channels[channel])?, channel, service })
    }
}

impl<'r> Graph<'r> {
    pub fn new(name: &'static str, rig: &'r Rig) -> Graph<'r> {
        Graph { name, rig, tiers: Vec::new() }
    }

    /// Adds a tier that asks others, which are there already, and starts it.
    ///
    /// # Errors
    /// It cannot listen, or connect.
    pub fn add<S: Service + 'static>(
        &mut self,
        name: &'static str,
        asked: &[&str],
        make: impl FnOnce(&Beside<'_>) -> Result<S, NotServed>,
    ) -> Result<(), Failure> {
        let monitor = self.rig.traces.as_ref().map(|traces| traces.of(name));
        let options = Options { monitor: monitor.clone(), ..Options::default() };
        let connect = |asked: &&str| Channel::connect(self.address(asked), &options);
        let mut channels: Vec<Channel> = asked.iter().map(connect).collect::<Result<_, _>>()?;
        let (asks, book) = (Asks::default(), Arc::new(Book::default()));
        let service = make(&Beside { asks: asks.clone(), channels: &channels })?;
        let mut server = Server::new(Default::default()).service(Timed::new(service, Arc::clone(&book)));
        if let Some(monitor) = &monitor {
            server = server.monitor(monitor);
        }
        let mut server = server.listen(&self.rig.address(self.name, name)?)?;
        asks.run_on(server.spawner());
        let address = server.addresses().next().expect("it listens on one").clone();
        let (stop, policy) = (Arc::new(AtomicBool::new(false)), self.rig.wait);
        let (over, mut started) = (Arc::clone(&stop), Started::new(asks, Arc::clone(&book)));
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || serve(&mut server, &mut started, &mut channels, policy, &over))?;
        self.tiers.push(Tier { name, address, book, stop, thread: Some(thread) });
        Ok(())
    }

    /// Where a tier serves.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn address(&self, name: &str) -> &Address {
        let found = self.tiers.iter().find(|tier| tier.name == name);
        &found.unwrap_or_else(|| panic!("{name} is added before who asks it")).address
    }

    /// How many tiers there are.
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// What all tiers noted since it was taken last.
    pub fn take(&self) -> Pages {
        let mut pages = Pages::default();
        self.tiers.iter().for_each(|tier| add(&mut pages, tier.book.take()));
        pages
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        self.tiers.iter().for_each(|tier| tier.stop.store(true, Ordering::Relaxed));
        for tier in &mut self.tiers {
            let ended = tier.thread.take().map(JoinHandle::join);
            assert!(
                std::thread::panicking() || !matches!(ended, Some(Err(_))),
                "{} does not panic",
                tier.name
            );
        }
    }
}

fn serve(
    server: &mut Server,
    started: &mut Started,
    channels: &mut [Channel],
    policy: WaitPolicy,
    stop: &AtomicBool,
) {
    let clock = Clock::shared();
    while !stop.load(Ordering::Relaxed) {
        let done = server.poll(clock.now()) + started.turn(channels);
        if done == 0 {
            // Room in a channel wakes nobody.
            let nap = Nanos::from_millis(if started.has_waiting() { 1 } else { 100 });
            server.wait_beside(policy, clock.now().plus(nap), channels);
        }
    }
}
