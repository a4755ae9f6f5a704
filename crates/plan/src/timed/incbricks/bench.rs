//! The published rack with its machines: filled, played without time until it is as after a long run, and measured.
//!
//! One rack is measured several times, as a rack in a laboratory is: copies and directories stay from run to run, and what was under way when a run ended
//! is lost.
//!
//! After a long run a table has the most wanted of the keys that come by it (`Bench::fill` begins with them, their counts in proportion to how wanted they
//! are); which of them have a value just now is what [`Bench::settle`] plays.

use super::hardware::{Boxes, Legs, Valued, server_tor, slots};
use super::machines::{Below, Timeless};
use crate::timed::net::Net;
use crate::timed::users::{Doing, Load, Outcome, Pace, Run, Written, value_of, write_down};
use base::zipf::Zipf;
use base::{Nanos, Picos, Prng};
use model::kernel::ResourceId;
use model::platform::{LoadError, Platform};
use model::random::power;
use model::system::incbricks::rack::{Deployment, ROOTS, Rack, TORS};
use model::{Kernel, Sim, rerun};
use protocol::coherence::client::Call;
use protocol::coherence::compute::Item;
use protocol::coherence::published::lfu::HIGHEST;
use protocol::coherence::published::{Places, PublishedBox, PublishedClient, PublishedHome};
use protocol::coherence::table::{BoxPlace, Layout};
use protocol::coherence::{NodeId, Out};
use protocol::wire::{BoxId, ClientId, HomeId, Kind, Message, Verb, Version, key_hash};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Operations of a client in an open loop that may be under way at once.
const MOST: usize = 64;

/// Whether boxes take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Switches only forward.
    None,
    /// Every message goes to every box on its way.
    Boxes,
    /// The switch sends a GET to its box only if the box has the key (§4.5 of the paper).
    Filtered,
}

/// Reads and writes of keys.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Of popularity.
    pub zipf: Zipf,
    /// Its theta.
    pub skew: f64,
    /// Share of reads.
    pub reads: f64,
}

impl Traffic {
    /// The platform's, with this skew.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, skew: f64) -> Result<Traffic, LoadError> {
        let keys = platform.count("load.keys")?;
        Ok(Traffic { zipf: Zipf::new(keys, skew), skew, reads: platform.ratio("load.reads")? })
    }
}

/// Entries of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Of each ToR's box.
    pub tor: u64,
    /// Of each root's.
    pub root: u64,
}

impl Entries {
    /// The platform's.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform) -> Result<Entries, LoadError> {
        Ok(Entries { tor: platform.count("cache.tor_entries")?, root: platform.count("cache.root_entries")? })
    }
}

/// Which keys there are, and where they live.
#[derive(Clone, Debug)]
pub struct Keyspace {
    deployment: Deployment,
    servers: u64,
    client_tors: usize,
    layout: Arc<Layout>,
}

impl Keyspace {
    /// The key of a rank for a client. Within clusters each server has all ranks to itself; else they are spread over all servers and both roots, in turn: a
    /// key of 16 bytes is such that its hash says so.
    pub fn key(&self, client: usize, rank: u64) -> Vec<u8> {
        let root = rank / self.servers % ROOTS as u64;
        let home = match self.deployment {
            Deployment::Within => (client % self.client_tors) as u64,
            Deployment::Cross | Deployment::Full => rank % self.servers,
        };
        let slot = (root * self.servers + home) as usize;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&rank.to_le_bytes());
        for last in 0_u64.. {
            key[8..].copy_from_slice(&last.to_le_bytes());
            if self.layout.slot_of(key_hash(&key)) == slot {
                break;
            }
        }
        key.to_vec()
    }
}

/// A rack with its machines.
#[derive(Clone)]
pub struct Bench<'a> {
    /// Its numbers.
    pub platform: &'a Platform,
    /// Who is where.
    pub deployment: Deployment,
    /// What is asked for.
    pub traffic: Traffic,
    valued: Valued,
    seed: u64,
    clients: usize,
    keys: Keyspace,
    places: Places,
    boxes: Boxes,
    homes: Rc<[Rc<RefCell<Timeless<PublishedHome>>>]>,
    written: Written,
    /// Of messages on their way where no time passes; empty between operations.
    network: Rc<RefCell<(Out, VecDeque<Sent>)>>,
}

/// From whom, to whom, what.
type Sent = (NodeId, NodeId, Message);

/// What was seen of a run.
pub struct Ran {
    /// What users saw.
    pub users: Outcome,
    /// Writes that homes were asked for, and invalidations that they sent.
    pub told: (u64, u64),
    /// Busy, on average: cores of all servers.
    pub server_cores: f64,
    /// Share of time that threads of clients were busy.
    pub client_threads: f64,
    /// Share of time that the cores of the busiest box were busy.
    pub busiest_box: f64,
    /// Bits per second from the servers to their switches.
    pub server_bits: f64,
    /// Packets that switches forwarded, per operation.
    pub packets: f64,
    /// Keys that operations were on, and of these such whose answers no order explains.
    pub disordered: (usize, usize),
}

impl Ran {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.users.gets.rate() + self.users.sets.rate()
    }
}

/// What is under every key at the beginning.
fn stock() -> Item {
    Item { value: value_of(0, 1), flags: 0, kind: Kind::Number, version: Version(1), end: Nanos::MAX }
}

fn layout_of(rack: &Rack) -> Layout {
    let id = |switch: usize| BoxId(switch as u16 + 1);
    let roots: Vec<_> = (TORS..TORS + ROOTS).map(id).collect();
    let tors = (0..TORS).map(|tor| BoxPlace { id: id(tor), above: roots.clone() });
    let boxes: Vec<_> = tors.chain(roots.iter().map(|id| BoxPlace { id: *id, above: vec![] })).collect();
    let home = |server: usize| (HomeId(server as u16 + 1), id(server_tor(rack, server)));
    let homes: Vec<_> = (0..rack.servers()).map(home).collect();
    Layout::new(&boxes, &homes, slots(homes.len())).expect("two levels are a layout")
}

impl<'a> Bench<'a> {
    /// One whose boxes keep nothing.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn empty(
        platform: &'a Platform,
        deployment: Deployment,
        (traffic, valued): (Traffic, Valued),
        entries: Entries,
        seed: u64,
    ) -> Result<Bench<'a>, LoadError> {
        let rack = Rack::new(platform, deployment, seed)?;
        let layout = Arc::new(layout_of(&rack));
        let (clients, client_tors) = (rack.clients(), rack.client_tors());
        let id = |client: usize| ClientId(client as u64 + 1);
        let places = (0..clients).map(|client| (id(client), BoxId(rack.tor_of(client) as u16 + 1)));
        let places: Places = Arc::new(places.collect());
        let room = |at: usize| (if at < TORS { entries.tor } else { entries.root }) as usize;
        let one =
            |at: usize| PublishedBox::new(BoxId(at as u16 + 1), layout.clone(), places.clone(), room(at));
        let boxes = (0..TORS + ROOTS).map(|at| Rc::new(RefCell::new(Timeless(one(at))))).collect();
        let homes = homes_of(&layout, &places);
        let servers = rack.servers() as u64;
        let keys = Keyspace { deployment, servers, client_tors, layout };
        let (written, network) = (Written::default(), Rc::default());
        Ok(Bench {
            platform,
            deployment,
            traffic,
            valued,
            seed,
            clients,
            keys,
            places,
            boxes,
            homes,
            written,
            network,
        })
    }

    /// One that has been in use for long: `settle` operations of each ToR with clients were done without time, after its tables had been filled.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn used(
        platform: &'a Platform,
        deployment: Deployment,
        traffic: Traffic,
        entries: Entries,
        (settle, seed): (u64, u64),
    ) -> Result<Bench<'a>, LoadError> {
        let bench = Bench::empty(platform, deployment, (traffic, Valued::Item), entries, seed)?;
        let (of, tors) = (&bench.traffic, bench.keys.client_tors);
        // Within clusters nothing passes a root.
        let root = if deployment == Deployment::Within { 0 } else { entries.root };
        let ranks = of.zipf.ranks();
        let identity = format!(
            "{deployment:?} {} {} {ranks} {} {root} {settle} {seed} {} {tors} {}",
            of.skew, of.reads, entries.tor, bench.clients, bench.keys.servers
        );
        let (boxes, homes, written) = rerun::prepared(&identity, || {
            bench.fill(entries);
            bench.settle(settle * tors as u64, &mut Prng::for_entity(seed, 0, 3));
            bench.machines()
        });
        bench.boxes.iter().zip(boxes).for_each(|(at, machine)| at.borrow_mut().0 = machine);
        bench.homes.iter().zip(homes).for_each(|(at, machine)| at.borrow_mut().0 = machine);
        bench.written.replace(written);
        Ok(bench)
    }

    /// Its boxes, its homes, and the keys that were written, as they are.
    fn machines(&self) -> (Vec<PublishedBox>, Vec<PublishedHome>, Vec<Vec<u8>>) {
        let boxes = self.boxes.iter().map(|machine| machine.borrow().0.clone()).collect();
        let homes = self.homes.iter().map(|machine| machine.borrow().0.clone()).collect();
        (boxes, homes, self.written.borrow().clone())
    }

    /// The same machines, with another platform's costs.
    #[must_use]
    pub fn on<'b>(&self, platform: &'b Platform) -> Bench<'b> {
        Bench { platform, ..self.clone() }
    }

    /// Every box has the most wanted keys that come by it.
    fn fill(&self, entries: Entries) {
        let largest = entries.tor.max(entries.root);
        // No box is passed by fewer than one in `ROOTS` of the keys, unless none of them passes it.
        for rank in 0..self.traffic.zipf.ranks().min(largest * ROOTS as u64) {
            // Of the least wanted two uses are known, of others more.
            let wanted = power(largest as f64 / (rank + 1) as f64, self.traffic.skew);
            let uses = (2.0 * wanted).clamp(2.0, f64::from(HIGHEST)) as u16;
            for client in 0..self.keys.client_tors {
                self.has_read(client, &self.keys.key(client, rank), uses);
            }
        }
    }

    /// As if a client had read a key some times: boxes on its way with room have it, and if one has, the home knows the client.
    fn has_read(&self, client: usize, key: &[u8], uses: u16) {
        let id = ClientId(client as u64 + 1);
        let home = self.home_of(key);
        let on_way = home.borrow().0.way(id, key).to_vec();
        let keeps = |at: &BoxId| {
            let mut one = self.boxes[usize::from(at.0) - 1].borrow_mut();
            one.0.keep(key, &stock(), uses)
        };
        if on_way.iter().filter(|at| keeps(at)).count() > 0 {
            home.borrow_mut().0.note(id, key);
        }
    }

    /// ToRs' boxes have the first so many keys, and nobody was noted as having read them.
    pub fn hold(&self, count: u64) {
        for tor in 0..TORS {
            for rank in 0..count {
                let mut one = self.boxes[tor].borrow_mut();
                one.0.keep(&self.keys.key(tor, rank), &stock(), 1);
            }
        }
    }

    /// `operations` of all clients, one after the other, without time.
    pub fn settle(&self, operations: u64, prng: &mut Prng) {
        let mut clients: Vec<Below> = (0..self.clients).map(|client| self.client(client)).collect();
        for _ in 0..operations {
            let client = prng.below(self.clients as u64) as usize;
            let key = self.keys.key(client, self.traffic.zipf.sample(prng));
            let is_read = prng.unit_f64() < self.traffic.reads;
            let doing = if is_read { Doing::Get } else { Doing::Set };
            self.play(&mut clients[client], (doing, &key), |_, _, _| ());
        }
    }

    /// Does one operation without time; what every message is handed to hears of it first: from whom, to whom.
    pub fn play(
        &self,
        client: &mut Below,
        (doing, key): (Doing, &[u8]),
        mut hears: impl FnMut(NodeId, NodeId, &Message),
    ) {
        let call = match doing {
            Doing::Set => {
                let value = value_of(write_down(&self.written, key), 1);
                Call { kind: Kind::Number, ..Call::new(Verb::Set, key).value(&value) }
            }
            _ => Call::new(Verb::Get, key),
        };
        let (out, network) = &mut *self.network.borrow_mut();
        client.client.start(call, out);
        let from = NodeId::Client(client.client.id());
        network.extend(out.drain(..).map(|(to, message)| (from, to, message)));
        while let Some((from, to, message)) = network.pop_front() {
            hears(from, to, &message);
            match to {
                NodeId::Box(id) => self.boxes[usize::from(id.0) - 1].borrow_mut().0.handle(message, out),
                NodeId::Home(id) => self.homes[usize::from(id.0) - 1].borrow_mut().0.handle(message, out),
                _ => client.client.handle(message, out),
            }
            network.extend(out.drain(..).map(|(next, message)| (to, next, message)));
        }
        client.client.poll_outcome().expect("nothing is lost here");
    }

    /// Values that the box of a switch keeps.
    pub fn kept(&self, switch: usize) -> usize {
        self.boxes[switch].borrow().0.len()
    }

    /// Of what is random.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Which keys there are.
    pub fn keys(&self) -> &Keyspace {
        &self.keys
    }

    /// A client of this number, counted from 0, that has asked nothing.
    pub fn client(&self, number: usize) -> Below {
        let id = ClientId(number as u64 + 1);
        let client = PublishedClient::new(id, self.keys.layout.clone(), self.places.clone());
        Below { client, own: self.places.get(&id).copied().unwrap_or(BoxId::NONE) }
    }

    /// The same rack, or one whose clients are below no boxes, with homes that nobody has written to.
    #[must_use]
    pub fn with(&self, caching: Caching) -> Bench<'a> {
        if caching != Caching::None {
            return self.clone();
        }
        let places = Places::default();
        Bench { homes: homes_of(&self.keys.layout, &places), places, ..self.clone() }
    }

    /// What messages cost, and the simulation that has its kernel.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn hardware(&self, caching: Caching) -> Result<(Sim, Legs), LoadError> {
        let mut rack = Rack::new(self.platform, self.deployment, self.seed)?;
        let sim = Sim::new(std::mem::replace(&mut rack.kernel, Kernel::new(0)));
        let filter = (caching == Caching::Filtered).then(|| self.boxes.clone());
        Ok((sim, Legs::new(rack, filter, self.valued, self.keys.layout.clone())))
    }

    fn home_of(&self, key: &[u8]) -> &Rc<RefCell<Timeless<PublishedHome>>> {
        &self.homes[usize::from(self.keys.layout.home_of(key_hash(key)).0) - 1]
    }

    /// Reads and writes in the traffic's proportion.
    pub fn reads_and_writes(&self) -> impl Fn(&mut Prng, u32) -> (Doing, Vec<u8>) + use<> {
        let (traffic, keys) = (self.traffic.clone(), self.keys.clone());
        move |prng, client| {
            let key = keys.key(client as usize - 1, traffic.zipf.sample(prng));
            (if prng.unit_f64() < traffic.reads { Doing::Get } else { Doing::Set }, key)
        }
    }

    /// Runs it: what `draw` says, so much of it; `warm_up` without account, then `span`.
    ///
    /// # Errors
    /// The platform lacks a number.
    ///
    /// # Panics
    /// If a read shows what nobody wrote.
    pub fn run(
        &self,
        caching: Caching,
        pace: Pace,
        draw: impl Fn(&mut Prng, u32) -> (Doing, Vec<u8>) + 'static,
        spans: (Picos, Picos),
    ) -> Result<Ran, LoadError> {
        let (sim, legs) = self.hardware(caching)?;
        let net = Net::new(&sim, legs);
        let of = self.with(caching);
        let homes = &of.homes;
        for (at, one) in (1..).zip(self.boxes.iter()) {
            net.join(NodeId::Box(BoxId(at)), one, None);
        }
        for (at, one) in (1..).zip(homes.iter()) {
            net.join(NodeId::Home(HomeId(at)), one, None);
        }
        let (stored, layout) = (homes.clone(), self.keys.layout.clone());
        let before = move |key: &[u8]| {
            let home = &stored[usize::from(layout.home_of(key_hash(key)).0) - 1].borrow().0;
            let item = home.stored(key).expect("everything has a value");
            (item.value.clone(), item.version.0)
        };
        let load = Load { pace, draw: Box::new(draw), no_cache: false, value: 1, before: Box::new(before) };
        let run = Run::new(load, &self.written, self.seed, spans);
        for number in 0..self.clients {
            let client = Timeless(of.client(number));
            run.join(&net, &sim, (number as u32 + 1, self.clients), client);
        }
        let counts = || {
            let all = homes.iter().map(|home| home.borrow().0.counts());
            all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
        };
        let begun = Cell::new((0, 0));
        let (times, users) = run.outcome(&net, &sim, || begun.set(counts()));
        assert_eq!(users.judged.invented, 0, "a read shows what was written");
        let (end, begun) = (counts(), begun.get());
        let told = ((end.0 - begun.0) * times, (end.1 - begun.1) * times);
        Ok(self.account(&sim, &net.hardware.rack, (users, told), spans.1))
    }

    fn account(&self, sim: &Sim, rack: &Rack, (users, told): (Outcome, (u64, u64)), span: Picos) -> Ran {
        let seconds = span.as_secs_f64();
        let operations = users.gets.count() + users.sets.count();
        sim.with(|k| {
            let busy = |at: &ResourceId| k.usage(*at).busy.as_secs_f64() / seconds;
            let share = |at: &ResourceId| busy(at) / k.servers(*at) as f64;
            let threads = rack.client_threads();
            let bytes: u64 = rack.server_uplinks().iter().map(|at| k.usage(*at).units).sum();
            Ran {
                told,
                server_cores: rack.server_cores().iter().map(busy).sum(),
                client_threads: threads.iter().map(share).sum::<f64>() / threads.len() as f64,
                busiest_box: rack.box_cores().iter().map(share).fold(0.0, f64::max),
                server_bits: bytes as f64 * 8.0 / seconds,
                packets: k.usage(rack.pipeline()).uses as f64 / operations.max(1) as f64,
                disordered: users.disordered(),
                users,
            }
        })
    }
}

/// Homes of a layout, stocked.
fn homes_of(layout: &Arc<Layout>, places: &Places) -> Rc<[Rc<RefCell<Timeless<PublishedHome>>>]> {
    let one = |id| PublishedHome::new(id, layout.clone(), places.clone()).with_stock(stock());
    layout.homes().map(|id| Rc::new(RefCell::new(Timeless(one(id))))).collect()
}

/// How an open loop of so many operations per second begins them.
pub fn open(rate: f64) -> Pace {
    Pace::Open { rate, most: MOST }
}
