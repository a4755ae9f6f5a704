//! Replicas, a network that does what a script or a seed says, logs that become durable late, and crashes that lose what is not.
//!
//! A test says the configurations ([`World::configure`]), or leaves that to the world ([`World::govern`], in `govern`). Clients (`clients`) say
//! whom they ask, or try until they are answered. The judge (`judge`) looks into all machines after every event.

use super::clients::Clients;
use super::govern::Governor;
use super::judge::Judge;
use crate::chain::image::plain::Plain;
use crate::chain::log::memory::Memory;
use crate::chain::replica::{Recovered, View};
use crate::chain::{
    Config, Configuration, Durability, Epoch, Image, Incarnation, Log, Lsn, Member, Message, NodeId, Out,
    Part, Planted, Replica, ReplicaId,
};
use base::key::Key;
use base::{Nanos, Prng};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Machine = Replica<Plain, Memory, Option<Planted>>;
type Script = Box<dyn FnMut(NodeId, NodeId, &Message) -> Fate>;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Late(Nanos),
    Twice(Nanos),
}

/// What survives a crash.
pub(super) struct Disk {
    pub(super) log: Memory,
    /// The last checkpoint.
    pub(super) image: Plain,
    /// The life that made it, if it is not the next.
    born: Option<Incarnation>,
}

impl Disk {
    /// Nothing was ever there.
    pub(super) fn new(world: &World) -> Disk {
        Disk { log: Memory::new(world.class, world.log_capacity), image: Plain::new(SLOTS, 128), born: None }
    }
}

/// Items that an image has room for.
const SLOTS: usize = 96;

/// What happens by itself.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most of them are messages, and there are few at a time")]
enum Event {
    Arrives(NodeId, NodeId, Message),
    /// The sync of this life is done.
    Synced(u16, Incarnation),
}

pub(super) struct World {
    pub(super) now: Nanos,
    pub(super) config: Config,
    pub(super) planted: Option<Planted>,
    pub(super) prng: Prng,
    pub(super) running: BTreeMap<u16, Machine>,
    pub(super) disks: BTreeMap<u16, Disk>,
    checkpoints: BTreeMap<u16, Plain>,
    lives: u64,
    /// The life that made each replica's log.
    born: BTreeMap<u16, Incarnation>,
    events: BTreeMap<(Nanos, u64), Event>,
    numbered: u64,
    script: Script,
    pub(super) delay: Nanos,
    /// How long a sync takes, at most.
    pub(super) sync: Nanos,
    /// Replicas that do not make durable what they log.
    pub(super) stuck_disks: BTreeSet<u16>,
    /// Replicas whose checkpoints are not made.
    pub(super) no_checkpoints: BTreeSet<u16>,
    pub(super) class: Durability,
    log_capacity: usize,
    pub(super) governor: Governor,
    pub(super) clients: Clients,
    pub(super) judge: Judge,
}

pub(super) fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

impl World {
    /// Replicas 1 to `replicas` run, with nothing, and no configuration.
    pub(super) fn new(config: Config, replicas: u16, seed: u64) -> World {
        World::with_log(config, replicas, seed, 4096)
    }

    /// Their logs have room for so many entries.
    pub(super) fn with_log(config: Config, replicas: u16, seed: u64, log_capacity: usize) -> World {
        World::with_all((config, None), replicas, seed, log_capacity)
    }

    /// Their machines make this mistake.
    pub(super) fn planted(config: Config, planted: Option<Planted>, replicas: u16, seed: u64) -> World {
        World::with_all((config, planted), replicas, seed, 4096)
    }

    fn with_all(
        (config, planted): (Config, Option<Planted>),
        replicas: u16,
        seed: u64,
        log_capacity: usize,
    ) -> World {
        config.check().expect("the configuration of a test works");
        let mut world = World {
            now: Nanos::from_secs(1),
            prng: Prng::for_entity(seed, 0, 0x636e),
            running: BTreeMap::new(),
            disks: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            lives: 0,
            born: BTreeMap::new(),
            events: BTreeMap::new(),
            numbered: 0,
            script: Box::new(|_, _, _| Fate::Arrives),
            delay: Nanos::from_micros(20),
            sync: Nanos::from_micros(200),
            stuck_disks: BTreeSet::new(),
            no_checkpoints: BTreeSet::new(),
            class: Durability::PowerLoss,
            log_capacity,
            governor: Governor::default(),
            clients: Clients::default(),
            judge: Judge::default(),
            config,
            planted,
        };
        for id in 1..=replicas {
            world.disks.insert(id, Disk::new(&world));
            world.start(id);
        }
        world
    }

    pub(super) fn script(&mut self, script: impl FnMut(NodeId, NodeId, &Message) -> Fate + 'static) {
        self.script = Box::new(script);
    }

    /// All messages arrive from now on.
    pub(super) fn well(&mut self) {
        self.script(|_, _, _| Fate::Arrives);
    }

    /// Whatever these replicas send to others or to the controller is lost, and so is what is sent to them. Clients reach them.
    pub(super) fn cut_off(&mut self, ids: &[u16]) {
        let ids: BTreeSet<u16> = ids.iter().copied().collect();
        let is_in = move |node: NodeId| matches!(node, NodeId::Replica(ReplicaId(id)) if ids.contains(&id));
        self.script(move |from, to, _| {
            let is_client = |node| matches!(node, NodeId::Client(_));
            let apart = is_in(from) != is_in(to) && !is_client(from) && !is_client(to);
            if apart { Fate::Lost } else { Fate::Arrives }
        });
    }

    /// A new configuration, which replicas hear of when they say that they live; all at once do so.
    pub(super) fn configure(&mut self, serving: &[u16], syncing: Option<u16>) {
        let member = |id: u16, part| {
            let incarnation = self.running.get(&id).map_or(Incarnation(0), Machine::incarnation);
            Member { replica: ReplicaId(id), incarnation, part }
        };
        let mut members: Vec<_> = serving.iter().map(|id| member(*id, Part::Serving)).collect();
        members.extend(syncing.map(|id| member(id, Part::Syncing)));
        let epoch = Epoch(self.governor.configuration.epoch.0 + 1);
        let reset = self.governor.configuration.reset;
        let slots = self.config.slots.clone();
        self.decide(Configuration { epoch, reset, members, slots, ..Configuration::default() });
    }

    /// It is in force.
    pub(super) fn decide(&mut self, configuration: Configuration) {
        self.governor.configuration = configuration;
        let ids: Vec<u16> = self.running.keys().copied().collect();
        for id in ids {
            self.lead(id, 0);
        }
    }

    /// Sends a replica the configuration, and a lease if it asked with `beat`.
    pub(super) fn lead(&mut self, id: u16, beat: u64) {
        let Some(machine) = self.running.get(&id) else { return };
        let lead = Message::Lead {
            configuration: self.governor.configuration.clone(),
            beat,
            incarnation: machine.incarnation(),
            settled: self.governor.is_settled(self.now),
        };
        self.send(NodeId::Controller(1), NodeId::Replica(ReplicaId(id)), lead);
    }

    pub(super) fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        match (self.script)(from, to, &message) {
            Fate::Lost => {}
            Fate::Arrives => self.put(self.delay, Event::Arrives(from, to, message)),
            Fate::Late(after) => self.put(self.delay.plus(after), Event::Arrives(from, to, message)),
            Fate::Twice(after) => {
                self.put(self.delay.plus(after), Event::Arrives(from, to, message.clone()));
                self.put(self.delay, Event::Arrives(from, to, message));
            }
        }
    }

    fn put(&mut self, after: Nanos, event: Event) {
        self.numbered += 1;
        self.events.insert((self.now.plus(after), self.numbered), event);
    }

    /// Power or process gone. Of what was not durable, `lucky` decides how much reached the disk.
    pub(super) fn crash(&mut self, id: u16, lucky: bool) {
        let Some(machine) = self.running.remove(&id) else { return };
        let view = machine.view();
        let mut log = machine.log().clone();
        let upto = if lucky { self.prng.below(view.last.0 - log.durable().0 + 1) } else { 0 };
        log.crash_after(Lsn(log.durable().0 + upto));
        let empty = Plain::new(SLOTS, 128);
        let is_lost = view.copying || view.unsaved || self.class == Durability::Volatile;
        let image = self.checkpoints.remove(&id).filter(|_| !is_lost).unwrap_or(empty);
        let born = self.born.get(&id).copied().filter(|_| self.class != Durability::Volatile);
        self.disks.insert(id, Disk { log, image, born });
    }

    /// Another life of a replica.
    pub(super) fn start(&mut self, id: u16) {
        let Some(Disk { log, mut image, born }) = self.disks.remove(&id) else { return };
        self.lives += 1;
        image.index(image.applied()).expect("a checkpoint is an image");
        self.checkpoints.insert(id, image.clone());
        let (replica, life) = (ReplicaId(id), Incarnation(self.lives));
        let born = born.unwrap_or(life);
        self.born.insert(id, born);
        let recovered = Recovered { born, missing: log.damaged().collect(), floor: image.applied() };
        let secret = Key::new(u128::from(self.lives).to_le_bytes());
        let machine =
            Replica::new(&self.config, replica, life, &[1], secret, recovered, self.now, image, log)
                .with_bugs(self.planted);
        self.running.insert(id, machine);
    }

    pub(super) fn restart(&mut self, id: u16) {
        self.crash(id, false);
        self.start(id);
    }

    pub(super) fn view(&self, id: u16) -> View {
        self.running[&id].view()
    }

    pub(super) fn machine(&mut self, id: u16) -> &mut Machine {
        self.running.get_mut(&id).expect("it runs")
    }

    /// A checkpoint of a replica; its log forgets what neighbours do not need.
    pub(super) fn checkpoint(&mut self, id: u16) {
        let Some(machine) = self.running.get_mut(&id) else { return };
        let view = machine.view();
        if view.copying || view.applied < self.checkpoints[&id].applied() && !view.unsaved {
            return;
        }
        self.checkpoints.insert(id, machine.image().clone());
        if view.unsaved {
            machine.checkpointed();
        }
        machine.log_mut().forget_below(view.needed);
        self.act(id, |machine, now, out| machine.tick(now, out));
    }

    /// Lets a machine do something, then does what its driver does.
    pub(super) fn act(&mut self, id: u16, act: impl FnOnce(&mut Machine, Nanos, &mut Out)) {
        let Some(machine) = self.running.get_mut(&id) else { return };
        let mut out = Vec::new();
        act(machine, self.now, &mut out);
        let life = machine.incarnation();
        let log = machine.log_mut();
        let must_sync = log.last().0 > log.durable() && !log.is_syncing() && !self.stuck_disks.contains(&id);
        if must_sync {
            log.begin_sync();
            let takes = Nanos(1 + self.prng.below(self.sync.0));
            self.put(takes, Event::Synced(id, life));
        }
        for (to, message) in out {
            self.send(NodeId::Replica(ReplicaId(id)), to, message);
        }
        if self.running[&id].view().unsaved && !self.no_checkpoints.contains(&id) {
            self.checkpoint(id);
        }
        self.judge_now(id);
    }

    /// Everything up to this moment happens.
    pub(super) fn run(&mut self, span: Nanos) {
        let until = self.now.plus(span);
        while self.step(until) {}
        self.now = until;
    }

    /// Everything happens until this is so, for ten seconds at most.
    pub(super) fn run_until(&mut self, is_so: impl Fn(&World) -> bool) -> bool {
        let until = self.now.plus(Nanos::from_secs(10));
        while !is_so(self) {
            if !self.step(until) {
                return false;
            }
        }
        true
    }

    /// The next event, if it comes before `until`.
    fn step(&mut self, until: Nanos) -> bool {
        let event = self.events.first_key_value().map_or(Nanos::MAX, |((at, _), _)| *at);
        let timer =
            self.running.iter().map(|(id, machine)| (machine.next_deadline().max(self.now), *id)).min();
        let timer_at = timer.map_or(Nanos::MAX, |(at, _)| at);
        let clients = self.clients.next_deadline();
        let governor = self.governor.next;
        let next = event.min(timer_at).min(clients).min(governor).max(self.now);
        if next >= until {
            return false;
        }
        self.now = next;
        if event <= next {
            let (_, event) = self.events.pop_first().expect("it is there");
            self.happen(event);
        } else if clients <= next {
            self.try_again();
        } else if governor <= next {
            self.govern_now();
        } else if let Some((_, id)) = timer {
            self.act(id, |machine, now, out| machine.tick(now, out));
        }
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Synced(id, life) => {
                if let Some(machine) =
                    self.running.get_mut(&id).filter(|machine| machine.incarnation() == life)
                {
                    machine.log_mut().end_sync();
                    self.act(id, |machine, now, out| machine.tick(now, out));
                }
            }
            Event::Arrives(from, NodeId::Replica(ReplicaId(id)), message) => {
                self.act(id, |machine, now, out| machine.handle(now, from, message, out));
            }
            Event::Arrives(NodeId::Replica(from), NodeId::Controller(_), message) => {
                self.hear_alive(from.0, &message);
            }
            Event::Arrives(_, NodeId::Client(client), message) => self.hear_answer(client, message),
            Event::Arrives(..) => {}
        }
    }

    /// A member of the configuration in force that serves.
    pub(super) fn serving(&self) -> Vec<u16> {
        self.governor.configuration.serving().map(|member| member.replica.0).collect()
    }
}
