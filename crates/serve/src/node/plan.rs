//! What a node is to serve where, checked as it is said.
//!
//! Invariant: no two services have a name, and no two listeners an address; a listener's service speaks its protocol; a service's engine core is there.

use crate::engine_cores::EnginePlan;
use crate::process::Stop;
use crate::process::listen::{access, use_certificate};
use crate::process::table::nearest;
use crate::rights::{Access, RightsArgs};
use crate::shell::{Served, Service, Shell, ShellError};
use base::tls::ServerFiles;
use fabric::link::{Address, Endpoint};
use std::net::{IpAddr, SocketAddr};

/// Engine cores of a node at most, and host threads.
const THREADS_MAX: usize = 64;

/// See the head of the file.
#[derive(Default)]
pub struct Plan {
    pub services: Vec<Planned>,
    pub admin: Option<SocketAddr>,
    pub rights: RightsArgs,
    /// The certificate of its listeners that speak TLS, and of the port for operators.
    pub tls: Option<ServerFiles>,
    pub engine: EnginePlan,
}

/// A service with its name.
pub struct Planned {
    pub name: String,
    pub service: Box<dyn Service>,
    /// The number of its engine core.
    pub engine_core: usize,
    /// Protocols and addresses.
    pub listeners: Vec<(&'static str, Address)>,
}

impl Plan {
    /// One more service.
    pub fn add(&mut self, name: &str, service: Box<dyn Service>) -> Result<(), String> {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(good) {
            return Err(format!(
                "{name:?} cannot name a service: lower-case letters, digits, '-' and '_' can"
            ));
        }
        if self.services.iter().any(|other| other.name == name) {
            return Err(format!("there are two services {name:?}"));
        }
        let (name, listeners) = (name.to_owned(), Vec::new());
        self.services.push(Planned { name, service, engine_core: 0, listeners });
        Ok(())
    }

    /// Where a service is in the list.
    pub fn find(&self, name: &str) -> Result<usize, String> {
        let names = || self.services.iter().map(|planned| &*planned.name);
        names().position(|known| known == name).ok_or_else(|| {
            let near = nearest(name, names());
            let all = names().collect::<Vec<_>>().join(", ");
            let near = near.map_or(format!("there are {all}"), |near| format!("did you mean {near:?}?"));
            format!("there is no service {name:?}; {near}")
        })
    }

    /// The `at`-th service listens here, too.
    pub fn listen(&mut self, at: usize, protocol: Option<&str>, address: &str) -> Result<(), String> {
        let address = parse(address)?;
        if let Some(other) = self.taken(&address) {
            return Err(format!("{address} is {other}'s already"));
        }
        let Planned { name, service, listeners, .. } = &mut self.services[at];
        let (kind, spoken) = (service.kind(), service.protocols());
        let protocol = match (protocol, spoken) {
            (_, []) => {
                return Err(format!(
                    "service {name:?} of kind {kind} has no listeners: it says itself where it is"
                ));
            }
            (None, [first, ..]) => first,
            (Some(wanted), _) => spoken.iter().find(|one| **one == wanted).ok_or_else(|| {
                format!(
                    "service {name:?} of kind {kind} does not speak {wanted:?}; it speaks {}",
                    spoken.join(", ")
                )
            })?,
        };
        service.listen(protocol, &address)?;
        listeners.push((protocol, address));
        Ok(())
    }

    /// The engine cores, as `said`; how many there are is said before services are put on them. Else the key that is wrong, and why.
    pub fn set_engine(&mut self, said: EnginePlan) -> Result<(), (&'static str, String)> {
        let EnginePlan { cores, pin, host_threads } = &said;
        if !(1..=THREADS_MAX).contains(cores) {
            return Err(("cores", format!("a node has 1 to {THREADS_MAX} engine cores, and not {cores}")));
        }
        if !pin.is_empty() && pin.len() != *cores {
            let has = pin.len();
            return Err((
                "pin",
                format!("pin says a processor for each engine core: {cores} of them, and not {has}"),
            ));
        }
        let allowed = base::cpu::allowed_cores();
        if let Some(other) = pin.iter().find(|pin| !allowed.contains(pin)) {
            return Err((
                "pin",
                format!("this process may not run on processor {other}; it may on {allowed:?}"),
            ));
        }
        if let Some(threads) = host_threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
            return Err((
                "host_threads",
                format!("a node has 1 to {THREADS_MAX} host threads, and not {threads}"),
            ));
        }
        self.engine = said;
        Ok(())
    }

    /// The `at`-th service is on this engine core.
    pub fn put_on(&mut self, at: usize, engine_core: usize) -> Result<(), String> {
        let cores = self.engine.cores;
        if engine_core >= cores {
            let name = &self.services[at].name;
            return Err(format!(
                "there is no engine core {engine_core} for service {name:?}: [engine] cores = {cores}, numbered from 0"
            ));
        }
        self.services[at].engine_core = engine_core;
        Ok(())
    }

    /// Operators find the node here.
    pub fn set_admin(&mut self, address: SocketAddr) -> Result<(), String> {
        match self.taken(&Address::Tcp(address.into())) {
            Some(other) => Err(format!("{address} is {other}'s already")),
            None => {
                self.admin = Some(address);
                Ok(())
            }
        }
    }

    /// A service that nobody could reach.
    pub fn silent(&self) -> Option<&Planned> {
        self.services.iter().find(|one| one.listeners.is_empty() && !one.service.is_placed())
    }

    /// Who has an address already.
    fn taken(&self, address: &Address) -> Option<String> {
        let admin = self.admin.map(|at| ("the admin port".to_owned(), Address::Tcp(at.into())));
        let services = self.services.iter().flat_map(|one| {
            one.listeners.iter().map(|(_, at)| (format!("service {:?}", one.name), at.clone()))
        });
        admin.into_iter().chain(services).find(|(_, other)| clash(address, other)).map(|(who, _)| who)
    }

    /// What would be served, a line for each service.
    pub fn lines(&self) -> Vec<String> {
        let line = |one: &Planned| {
            let listeners = one.listeners.iter().map(|(protocol, at)| format!(" {protocol} at {at}"));
            let core = match self.engine.cores {
                1 => String::new(),
                _ => format!(" on engine-{}", one.engine_core),
            };
            format!("{}: {}{core}{}", one.name, one.service.kind(), listeners.collect::<Vec<_>>().join(","))
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let admin = self.admin.map(|at| format!("admin: {scheme}://{at}"));
        self.services.iter().map(line).chain(admin).collect()
    }
}

/// An address; `HOST:PORT` alone is of TCP.
fn parse(text: &str) -> Result<Address, String> {
    match text.parse::<Address>() {
        Err(fabric::link::AddressError::Transport(_)) => format!("tcp:{text}").parse().map_err(|_| {
            format!("{text:?} is no address: write HOST:PORT, tcp:HOST:PORT, tls:HOST:PORT, udp:HOST:PORT, unix:/path or shm:/path")
        }),
        read => read.map_err(|error| error.to_string()),
    }
}

fn clash(one: &Address, other: &Address) -> bool {
    let same = |a: &Endpoint, b: &Endpoint| {
        let ip = |at: &Endpoint| at.resolve().ok().map(|at| at.ip());
        let meets = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() || b.is_unspecified();
        a.port != 0 && a.port == b.port && ip(a).zip(ip(b)).is_some_and(|(a, b)| meets(a, b))
    };
    match (one, other) {
        (Address::Tcp(a) | Address::Tls(a), Address::Tcp(b) | Address::Tls(b))
        | (Address::Udp(a), Address::Udp(b)) => same(a, b),
        (Address::Unix(a) | Address::Shm(a), Address::Unix(b) | Address::Shm(b)) => a == b,
        (Address::Memory(a), Address::Memory(b)) => a == b,
        _ => false,
    }
}

impl Plan {
    /// Serves it.
    pub fn start(self, stop: Stop) -> Result<Shell, ShellError> {
        let (services, engine, access) = self.settle()?;
        Shell::start(services, &engine, access, stop)
    }

    /// Reads the files of who may come in, as [`Plan::start`] does; serves nothing.
    pub fn check(self) -> Result<(), ShellError> {
        let (services, _, access) = self.settle()?;
        Shell::check(services, access)
    }

    /// Its certificate is the process's from here on.
    fn settle(self) -> Result<(Vec<Served>, EnginePlan, Access), ShellError> {
        self.tls.as_ref().map_or(Ok(()), use_certificate)?;
        let access = access(self.admin, self.tls.as_ref(), &self.rights)?;
        let services = self.services.into_iter().map(|Planned { name, service, engine_core, .. }| Served {
            name: Some(name),
            engine_core,
            service,
        });
        Ok((services.collect(), self.engine, access))
    }
}
