//! A machine of parts, in one kernel, and the routes that follow from them.
//!
//! ```text
//!   clients ── link ── box ── link ──┬── card ── host          each part: what passing it does (a hop), what it can answer (offers)
//!                                    └── card ── host, …       as many servers and boxes side by side as their counts say
//! ```
//! **Parts** come from systems' modules (`parts.rs` of each): a model reads the numbers of its family's platforms and says, as steps, what its clients, its
//! cable, its box, its server do. Parts of a server that are of one family are one device for its model, so that they share memory and buses.
//!
//! **A route** is the way from the clients over all parts to a place that the server offers, and back; boxes of some layers take part in it: they answer
//! what they have, and forward the rest. Offered are each layer alone and all together. Writes have copies dropped before they are answered, by
//! a message to every box of the first layer that takes part.
//!
//! **Several side by side.** Requests are spread evenly; each has one of every part, so many equal machines are so many programs. Clients are one
//! resource however many.
//!
//! Not modelled: boxes that answer part of a connection (only datagrams and single messages pass a box that takes part); replication of what is
//! stored behind other parts than those of one system; latencies that two parts' numbers both contain, as a card's whole way through the network.
//!
//! Files: [`piece`] what parts are made of, [`caches`] what boxes answer, `route` programs.

pub mod caches;
pub mod piece;
mod route;

use crate::alternative::{Power, Setting};
use crate::component::Network;
use crate::kernel::Kernel;
use crate::platform::parts::{Kind, Part, View};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::system::{host, incbricks, offpath, orca};
use crate::workload::Workload;
use caches::Could;
use piece::{ARGUMENTS, Clients, Parts, Passed, Server, Task, Told};

/// Equal parts side by side at most: each is resources and programs of its own.
const SIDE_BY_SIDE_MAX: u64 = 256;

/// What a system's model can make.
struct Model {
    /// Of platforms of this family.
    family: &'static str,
    /// Machines that ask, where nothing says how many.
    machines: u64,
    clients: Option<MakeClients>,
    link: Option<Make<Network>>,
    cache: Option<Make<Box<dyn Passed>>>,
    server: fn(Kernel, &Platform, &Task<'_>, &mut Server) -> Result<Kernel, LoadError>,
}

/// What makes one of this name.
type Make<T> = fn(&mut Kernel, &Platform, &str) -> Result<T, LoadError>;
/// What makes so many machines.
type MakeClients = fn(&mut Kernel, &Platform, u64) -> Result<Box<dyn Clients>, LoadError>;

const MODELS: &[Model] = &[
    Model {
        family: "host",
        machines: 1,
        clients: Some(host::parts::clients),
        link: Some(host::parts::link),
        cache: Some(host::parts::cache),
        server: host::parts::server,
    },
    Model {
        family: "in-network-cache",
        machines: 1,
        clients: Some(incbricks::parts::clients),
        link: Some(incbricks::parts::link),
        cache: Some(incbricks::parts::cache),
        server: incbricks::parts::server,
    },
    Model {
        family: "off-path-smartnic",
        machines: offpath::parts::CLIENTS,
        clients: Some(offpath::parts::clients),
        link: None,
        cache: None,
        server: offpath::parts::server,
    },
    Model {
        family: "coherent-accelerator",
        machines: 1,
        clients: Some(orca::parts::clients),
        link: None,
        cache: None,
        server: orca::parts::server,
    },
];

fn model(part: &Part) -> &'static Model {
    let found = MODELS.iter().find(|model| model.family == part.family);
    found.expect("a part's family makes it: its platform's file was checked")
}

/// The parts that a family's platforms have at the root of their numbers; empty where no machine is made of parts.
fn of_family(platform: &Platform) -> Vec<Part> {
    let kinds: &[Kind] = match &*platform.family {
        "host" => &[Kind::Clients, Kind::Host],
        "off-path-smartnic" => &[Kind::Clients, Kind::NicSoc, Kind::Host],
        "coherent-accelerator" => &[Kind::Clients, Kind::NicSoc, Kind::CoherentAccelerator, Kind::Host],
        _ => &[],
    };
    let part = |kind: &Kind| Part { name: String::new(), kind: *kind, family: platform.family.clone() };
    kinds.iter().map(part).collect()
}

/// What is between clients and servers.
enum Between {
    /// Cables side by side.
    Link(Vec<Network>),
    /// A layer of caches.
    Boxes(Layer),
}

impl Between {
    fn layer(&self) -> Option<&Layer> {
        match self {
            Between::Boxes(layer) => Some(layer),
            Between::Link(_) => None,
        }
    }
}

struct Layer {
    /// Counted from the clients.
    number: usize,
    name: String,
    boxes: Vec<Box<dyn Passed>>,
    could: Could,
}

/// A machine: see the head of this file.
struct Machine {
    kernel: Kernel,
    clients: Box<dyn Clients>,
    between: Vec<Between>,
    servers: Vec<Server>,
    /// As it travels here.
    workload: Workload,
    told: Told,
    power: Option<Vec<Power>>,
}

/// Alternatives of a workload on a platform's machine.
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    Ok(Machine::new(platform, workload, seed)?.setting())
}

/// Whether a platform that says its parts has all numbers that they need; others are checked by whoever composes them.
///
/// # Errors
/// It lacks one.
pub fn check(platform: &Platform) -> Result<(), LoadError> {
    if platform.parts.is_empty() {
        return Ok(());
    }
    let (name, text) = crate::workload::shipped::SHIPPED[0];
    let workload = Workload { host_cores: None, ..Workload::parse(text, name)? };
    Machine::new(platform, &workload, 1).map(|_| ())
}

/// Makes parts out of a platform's numbers, and remembers which were read.
struct Maker<'a> {
    platform: &'a Platform,
    parts: &'a [Part],
}

impl Maker<'_> {
    fn view<T>(
        &self,
        parts: &[&Part],
        make: impl FnOnce(&View) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let view = self.platform.view(parts);
        let made = make(&view);
        self.platform.was_viewed(&view);
        made
    }

    /// So many of it are side by side.
    fn count(&self, part: &Part, otherwise: u64) -> Result<u64, LoadError> {
        let name = part.number("count");
        if part.name.is_empty() || !self.platform.has(&name) {
            return Ok(otherwise);
        }
        match self.platform.count_or_none(&name)? {
            count @ 1..=SIDE_BY_SIDE_MAX => Ok(count),
            count => {
                let why = format!("{name} is {count}; from 1 to {SIDE_BY_SIDE_MAX} can be side by side");
                Err(self.platform.wrong(&name, why))
            }
        }
    }

    fn of(&self, kind: Kind) -> &Part {
        self.parts.iter().find(|part| part.kind == kind).expect("a platform's parts were checked")
    }

    /// Bytes around every message that caches can read, and what they are told: of the first layer, or none.
    fn told(&self) -> Result<Told, LoadError> {
        let Some(part) = self.parts.iter().find(|part| part.kind == Kind::Box) else {
            return Ok(Told::default());
        };
        self.view(&[part], |view| {
            let bare = view.platform.bytes("packet.header")?;
            Ok(Told { bare, key: bare + view.platform.bytes("packet.key")? })
        })
    }

    fn between(&self, kernel: &mut Kernel, part: &Part, workload: &Workload) -> Result<Between, LoadError> {
        let count = self.count(part, 1)?;
        let name = |at: u64| if count == 1 { part.name.clone() } else { format!("{} {at}", part.name) };
        self.view(&[part], |view| {
            let platform = &view.platform;
            let made = "a part's kind was checked";
            if part.kind == Kind::Link {
                let make = model(part).link.expect(made);
                let all = (0..count).map(|at| make(kernel, platform, &name(at)));
                return Ok(Between::Link(all.collect::<Result<_, _>>()?));
            }
            let make = model(part).cache.expect(made);
            let boxes = (0..count).map(|at| make(kernel, platform, &name(at))).collect::<Result<_, _>>()?;
            let could = Could::of(workload, platform.bytes("box.memory_size")?, count as f64);
            let before = self.parts.iter().take_while(|other| other.name != part.name);
            let number = before.filter(|other| other.kind == Kind::Box).count();
            Ok(Between::Boxes(Layer { number, name: part.name.clone(), boxes, could }))
        })
    }

    /// Server parts by family, the one with what is nearest to the clients last: it says what every request passes.
    fn devices(&self) -> Vec<Vec<&Part>> {
        let mut devices: Vec<Vec<&Part>> = Vec::new();
        for part in self.parts.iter().rev().filter(|part| part.kind.is_of_server()) {
            match devices.iter().position(|device| device[0].family == part.family) {
                Some(at) => {
                    let mut device = devices.remove(at);
                    device.insert(0, part);
                    devices.push(device);
                }
                None => devices.push(vec![part]),
            }
        }
        devices
    }

    fn server(&self, mut kernel: Kernel, task: &Task<'_>) -> Result<(Kernel, Server), LoadError> {
        let mut server = Server::default();
        for device in self.devices() {
            let has = |kind| device.iter().any(|part| part.kind == kind);
            let parts = Parts {
                card: has(Kind::NicSoc),
                accelerator: has(Kind::CoherentAccelerator),
                host: has(Kind::Host),
            };
            let task = Task { parts, ..*task };
            let make = model(device[0]).server;
            kernel = self.view(&device, |view| make(kernel, &view.platform, &task, &mut server))?;
        }
        Ok((kernel, server))
    }

    /// Watts that a part's own numbers say, spread over what is busy in it.
    fn watts(
        &self,
        part: &Part,
        busy: &[crate::ResourceId],
        kernel: &Kernel,
    ) -> Result<Option<Power>, LoadError> {
        let names = ["watts.idle", "watts.busy"].map(|name| part.number(name));
        if part.name.is_empty() || !names.iter().all(|name| self.platform.has(name)) {
            return Ok(None);
        }
        let of = |name: &String| self.platform.value(name, Dimension::Power);
        let (idle, most) = (of(&names[0])?, of(&names[1])?);
        let servers: usize = busy.iter().map(|at| kernel.servers(*at)).sum();
        let each = (most - idle).max(0.0) / servers.max(1) as f64;
        Ok(Some(Power { name: part.name.clone(), idle, busy: busy.iter().map(|at| (*at, each)).collect() }))
    }
}

impl Machine {
    fn new(platform: &Platform, asked: &Workload, seed: u64) -> Result<Machine, LoadError> {
        let implied = of_family(platform);
        let parts = if platform.parts.is_empty() { &implied } else { &platform.parts };
        let maker = Maker { platform, parts };
        let mut kernel = Kernel::new(seed);
        let told = maker.told()?;
        let mut workload = asked.clone();
        for class in &mut workload.classes {
            class.request += told.bare;
            class.reply += told.bare;
        }
        let count = maker.count(maker.of(Kind::Host), 1)?;
        let has_between = parts.iter().any(|part| matches!(part.kind, Kind::Link | Kind::Box));
        let (asking, host) = (maker.of(Kind::Clients), maker.of(Kind::Host));
        let is_local = !has_between
            && count == 1
            && [asking, host].iter().all(|part| part.family == "host")
            && !parts.iter().any(|part| part.kind == Kind::NicSoc);
        let mut clients = None;
        if !is_local {
            let machines = maker.count(asking, model(asking).machines)?;
            let make = model(asking).clients.expect("a part's kind was checked");
            clients = Some(maker.view(&[asking], |view| make(&mut kernel, &view.platform, machines))?);
        }
        let passed = parts.iter().filter(|part| matches!(part.kind, Kind::Link | Kind::Box));
        let between =
            passed.map(|part| maker.between(&mut kernel, part, asked)).collect::<Result<Vec<_>, _>>()?;
        let can_read = !has_between && clients.as_ref().is_some_and(|clients| clients.can_read());
        let none = Parts::default();
        let told_there = (told.bare, told.key);
        let task =
            Task { workload: &workload, servers: count, parts: none, is_local, can_read, told: told_there };
        let mut servers: Vec<Server> = Vec::new();
        for at in 0..count {
            let label = if count == 1 { String::new() } else { format!("{} {at}", host.name) };
            kernel.label(&label);
            let (next, server) = maker.server(kernel, &task)?;
            kernel = next;
            servers.push(server);
        }
        kernel.label("");
        let local = servers.iter_mut().find_map(|server| server.clients.take());
        let clients = clients.or(local).expect("clients are beside the host or before it");
        let power = power(&maker, &kernel, &between, &servers)?;
        Ok(Machine { kernel, clients, between, servers, workload, told, power })
    }
}

/// What all parts but clients draw; nothing where it is not known of one of them.
fn power(
    maker: &Maker<'_>,
    kernel: &Kernel,
    between: &[Between],
    servers: &[Server],
) -> Result<Option<Vec<Power>>, LoadError> {
    let mut all = Vec::new();
    let layers = between.iter().filter_map(Between::layer);
    let boxes = maker.parts.iter().filter(|part| part.kind == Kind::Box);
    for (part, layer) in boxes.zip(layers) {
        for one in &layer.boxes {
            let Some(power) = maker.watts(part, &[one.cores()], kernel)? else { return Ok(None) };
            all.push(power);
        }
    }
    let host = maker.of(Kind::Host);
    for server in servers {
        let is_known = maker
            .parts
            .iter()
            .filter(|part| part.kind.is_of_server())
            .all(|part| part.family == "coherent-accelerator");
        match maker.watts(host, &server.host_cores, kernel)? {
            // What a file says of the server is of all of it.
            Some(power) => all.push(power),
            None if is_known => all.extend(server.power.iter().cloned()),
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

/// Arguments of operations are drawn below this.
fn arguments(servers: &[Server]) -> u64 {
    servers.iter().filter_map(|server| server.arguments).min().unwrap_or(ARGUMENTS)
}

#[cfg(test)]
mod tests;
