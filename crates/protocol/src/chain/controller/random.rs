//! Replicas with clocks of their own, two controllers, a registry and a network, all at random from a seed.
//!
//! The replicas are as simple as can be: what they have is a number, that of the last write. A write needs all serving members of an epoch,
//! and one that its predecessor said has caught up; a read needs a lease. What must hold: a read finds the last write, a write finds that its
//! members have all before it, epochs are used once, nobody is left out while it may read, but by an order; and when everything is repaired,
//! the chain serves if one is left that served and has everything. An operator adds and removes replicas, asking whichever controller it likes.

use super::*;
use crate::chain::{Action, Durability, Order};
use base::prng::Prng;

/// Those that the chain begins with, and all that there are.
const FIRST: u16 = 3;
const REPLICAS: u16 = 5;
const CONTROLLERS: usize = 2;
const LEADERSHIP: Nanos = Nanos::from_millis(1500);

/// A replica, as far as a controller knows the difference.
#[derive(Clone, Debug)]
struct Replica {
    id: ReplicaId,
    up: bool,
    life: u64,
    /// Its clock's speed in parts of 10,000.
    speed: u64,
    beat: u64,
    /// When each beat was sent, on its own clock.
    sent: BTreeMap<u64, Nanos>,
    configuration: Configuration,
    lease_until: Nanos,
    /// The last write that it has, and what the log says of it.
    data: u64,
    data_epoch: Epoch,
    born: u64,
    joined: Option<ReplicaId>,
    /// Controllers that it cannot reach.
    cut: [bool; CONTROLLERS],
}

#[derive(Clone, Debug)]
struct Place {
    controller: Controller<Option<Planted>>,
    /// It cannot reach the registry.
    stalled: bool,
}

struct World {
    prng: Prng,
    now: Nanos,
    config: Config,
    planted: Option<Planted>,
    replicas: Vec<Replica>,
    controllers: Vec<Place>,
    stored: Option<Configuration>,
    leader: Option<(usize, Nanos)>,
    /// Number of the last write that was acknowledged.
    written: u64,
    orders: u64,
}

impl Replica {
    fn clock(&self, now: Nanos) -> Nanos {
        Nanos(now.0 / 10_000 * self.speed)
    }

    fn member(&self) -> Option<Member> {
        let place = self.configuration.position(self.id)?;
        Some(self.configuration.members[place]).filter(|member| member.incarnation.0 == self.life)
    }

    fn is_serving(&self) -> bool {
        self.up && self.member().is_some_and(|member| member.part == Part::Serving)
    }

    fn alive(&mut self, now: Nanos) -> Message {
        self.beat += 1;
        self.sent.insert(self.beat, self.clock(now));
        Message::Alive {
            epoch: self.configuration.epoch,
            incarnation: Incarnation(self.life),
            beat: self.beat,
            last: Lsn(self.data),
            last_epoch: self.data_epoch,
            committed: Lsn::ZERO,
            durability: Durability::PowerLoss,
            born: Incarnation(self.born),
            whole: true,
            joined: self.joined,
            missing: None,
            stalled_ms: 0,
        }
    }

    fn take(&mut self, message: &Message, lease: Nanos) {
        let Message::Lead { configuration, beat, incarnation, settled: _ } = message else { return };
        if !self.up || incarnation.0 != self.life || configuration.epoch < self.configuration.epoch {
            return;
        }
        if configuration.epoch > self.configuration.epoch {
            self.configuration = configuration.clone();
            self.joined = None;
        }
        self.lease_until = self.lease_until.max(self.sent[beat].plus(lease));
    }

    fn restart(&mut self) {
        self.up = true;
        self.life += 1;
        self.beat = 0;
        self.sent.clear();
        self.configuration = Configuration::default();
        self.lease_until = Nanos::ZERO;
        self.joined = None;
    }

    /// The next life makes another.
    fn lose_log(&mut self) {
        (self.data, self.data_epoch, self.born) = (0, Epoch(0), self.life + 1);
    }
}

impl World {
    fn new(seed: u64, planted: Option<Planted>) -> World {
        let config = Config::default();
        let mut prng = Prng::new(seed);
        let ids: Vec<_> = (1..=REPLICAS).map(ReplicaId).collect();
        let replica = |id: &ReplicaId| Replica {
            id: *id,
            up: true,
            life: 1,
            speed: 9_901 + prng.below(199),
            beat: 0,
            sent: BTreeMap::new(),
            configuration: Configuration::default(),
            lease_until: Nanos::ZERO,
            data: 0,
            data_epoch: Epoch(0),
            born: 1,
            joined: None,
            cut: [false; CONTROLLERS],
        };
        let replicas = ids.iter().map(replica).collect();
        let place = |number| {
            let first = &ids[..usize::from(FIRST)];
            let controller = Controller::standby(&config, number as u16, first).with_bugs(planted);
            Place { controller, stalled: false }
        };
        let controllers = (0..CONTROLLERS).map(place).collect();
        let now = Nanos::from_secs(1000);
        World {
            prng,
            now,
            config,
            planted,
            replicas,
            controllers,
            stored: None,
            leader: None,
            written: 0,
            orders: 0,
        }
    }

    /// A heartbeat's time, in the order in which things come.
    fn beat(&mut self) -> Result<(), String> {
        self.now = self.now.plus(Nanos(self.config.heartbeat.0 - 2_000_000 + self.prng.below(4_000_000)));
        self.lead();
        for i in 0..self.replicas.len() {
            if !self.replicas[i].up {
                continue;
            }
            let message = self.replicas[i].alive(self.now);
            for c in (0..CONTROLLERS).filter(|c| !self.replicas[i].cut[*c]).collect::<Vec<_>>() {
                let mut out = Vec::new();
                let from = NodeId::Replica(self.replicas[i].id);
                self.controllers[c].controller.handle(self.now, from, message.clone(), &mut out);
                self.deliver(c, out);
                self.store(c)?;
            }
        }
        for c in 0..CONTROLLERS {
            let mut out = Vec::new();
            self.controllers[c].controller.tick(self.now, &mut out);
            self.deliver(c, out);
            self.store(c)?;
        }
        Ok(())
    }

    /// Leadership, as a registry gives it: to one at a time, for a time.
    fn lead(&mut self) {
        let until = self.now.plus(LEADERSHIP);
        if let Some((c, ends)) = self.leader
            && self.now < ends
        {
            if !self.controllers[c].stalled {
                self.leader = Some((c, until));
                self.controllers[c].controller.extend(until);
            }
            return;
        }
        if let Some(c) = (0..CONTROLLERS).find(|c| !self.controllers[*c].stalled) {
            self.leader = Some((c, until));
            self.controllers[c].controller.lead(self.now, until, self.stored.clone());
        }
    }

    /// Compare-and-swap, which only the leader can do.
    fn store(&mut self, c: usize) -> Result<(), String> {
        let leads = self.leader.is_some_and(|(leader, until)| leader == c && self.now < until);
        let place = &mut self.controllers[c];
        let Some(proposal) = place.controller.proposal().cloned() else { return Ok(()) };
        if place.stalled || self.prng.chance(0.3) {
            return Ok(());
        }
        let before = self.stored.as_ref().map_or(Epoch(0), |stored| stored.epoch);
        let result = match leads && proposal.epoch.0 == before.0 + 1 {
            true => Ok(()),
            false => Err(self.stored.clone()),
        };
        if result.is_ok() {
            for replica in &self.replicas {
                let stays = proposal
                    .members
                    .iter()
                    .any(|m| (m.replica, m.incarnation.0) == (replica.id, replica.life));
                let by_order = proposal.left.iter().any(|member| member.replica == replica.id);
                if replica.is_serving()
                    && !stays
                    && !by_order
                    && replica.clock(self.now) < replica.lease_until
                {
                    return Err(format!("{} is left out of {proposal:?} while its lease runs", replica.id.0));
                }
            }
            self.stored = Some(proposal);
        }
        let mut out = Vec::new();
        self.controllers[c].controller.stored(self.now, result, &mut out);
        self.deliver(c, out);
        Ok(())
    }

    fn deliver(&mut self, c: usize, out: Out) {
        for (to, message) in out {
            let NodeId::Replica(_) = to else { continue };
            let replica = self.replicas.iter_mut().find(|replica| NodeId::Replica(replica.id) == to);
            let replica = replica.expect("controllers speak to replicas");
            if !replica.cut[c] && !self.prng.chance(0.1) {
                replica.take(&message, self.config.lease);
            }
        }
    }

    /// A write, by whoever takes itself for the head.
    fn write(&mut self, head: usize) -> Result<bool, String> {
        let at_head = &self.replicas[head];
        let configuration = at_head.configuration.clone();
        if !at_head.is_serving() || configuration.head().map(|member| member.replica) != Some(at_head.id) {
            return Ok(false);
        }
        let tail = configuration.tail().expect("who has a head has a tail").replica;
        let joined = self.replicas.iter().find(|replica| replica.id == tail).and_then(|tail| tail.joined);
        let needed: Vec<usize> = (0..self.replicas.len())
            .filter(|i| {
                let position = configuration.position(self.replicas[*i].id);
                let part = position.map(|place| configuration.members[place].part);
                part == Some(Part::Serving) || (part.is_some() && joined == Some(self.replicas[*i].id))
            })
            .collect();
        let acts = |i: &usize| {
            let replica = &self.replicas[*i];
            replica.up && replica.configuration.epoch == configuration.epoch && replica.member().is_some()
        };
        if !needed.iter().all(acts) {
            return Ok(false);
        }
        self.written += 1;
        for i in needed {
            let replica = &mut self.replicas[i];
            if replica.data + 1 != self.written {
                return Err(format!(
                    "{} serves in {configuration:?} with {} of {} writes",
                    replica.id.0,
                    replica.data,
                    self.written - 1
                ));
            }
            (replica.data, replica.data_epoch) = (self.written, configuration.epoch);
        }
        Ok(true)
    }

    fn read(&self, at: usize) -> Result<(), String> {
        let replica = &self.replicas[at];
        let may = replica.is_serving() && replica.clock(self.now) < replica.lease_until;
        match may && replica.data != self.written {
            true => Err(format!("{} reads write {} of {}", replica.id.0, replica.data, self.written)),
            false => Ok(()),
        }
    }

    /// The tail copies everything to the one behind it, and says so.
    fn catch_up(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let configuration = replica.configuration.clone();
        let Some(member) = replica.member().filter(|member| replica.up && member.part == Part::Syncing)
        else {
            return;
        };
        let tail = configuration.tail().map(|tail| tail.replica);
        let Some(tail) = (0..self.replicas.len()).find(|i| Some(self.replicas[*i].id) == tail) else {
            return;
        };
        if self.replicas[tail].is_serving() && self.replicas[tail].configuration.epoch == configuration.epoch
        {
            let (data, epoch) = (self.replicas[tail].data, self.replicas[tail].data_epoch);
            self.replicas[tail].joined = Some(member.replica);
            let replica = &mut self.replicas[at];
            (replica.data, replica.data_epoch) = (data, epoch);
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.prng.below(u64::from(REPLICAS)) as usize;
        let c = self.prng.below(CONTROLLERS as u64) as usize;
        match self.prng.below(100) {
            0..50 => {
                for _ in 0..=self.prng.below(8) {
                    self.beat()?;
                    self.write(at)?;
                    self.read(at)?;
                }
            }
            50..60 => {
                for at in 0..self.replicas.len() {
                    self.write(at)?;
                    self.read(at)?;
                }
            }
            60..72 => self.catch_up(at),
            72..77 => self.replicas[at].up = false,
            77..79 => self.replicas.iter_mut().for_each(|replica| replica.up = false),
            79 if !self.replicas[at].up => self.replicas[at].lose_log(),
            80..86 if !self.replicas[at].up => self.replicas[at].restart(),
            86..90 => self.replicas[at].cut[c] = true,
            90..94 => self.replicas[at].cut[c] = false,
            94..96 => self.controllers[c].stalled = true,
            96..98 => self.controllers[c].stalled = false,
            98 => self.restart_controller(c),
            _ => {}
        }
        if self.prng.chance(0.1) {
            self.order()?;
        }
        Ok(())
    }

    /// An operator gives an order, or one that was given before, to anybody.
    fn order(&mut self) -> Result<(), String> {
        let (c, id) = (self.prng.below(CONTROLLERS as u64) as usize, self.prng.below(5) as u16 + 1);
        let least = self.prng.below(3) as u16;
        let replica = ReplicaId(id);
        let action = match self.prng.chance(0.6) {
            true => {
                Action::Add(ReplicaAddress { replica, peers: format!("at {id}"), clients: String::new() })
            }
            false => Action::Remove(replica, least),
        };
        self.orders += u64::from(self.prng.chance(0.8));
        let order = Message::Order { token: 1, order: Some(Order { number: self.orders, action }) };
        let mut out = Vec::new();
        self.controllers[c].controller.handle(self.now, NodeId::Client(1), order, &mut out);
        self.deliver(c, out);
        self.store(c)
    }

    fn restart_controller(&mut self, c: usize) {
        let ids: Vec<_> = (1..=FIRST).map(ReplicaId).collect();
        self.controllers[c].controller =
            Controller::standby(&self.config, c as u16, &ids).with_bugs(self.planted);
        // What it led it does not know any more: somebody else will, later.
        self.controllers[c].stalled = true;
    }

    /// Everything is repaired; lost logs stay lost.
    fn calm(&mut self) -> Result<(), String> {
        for place in &mut self.controllers {
            place.stalled = false;
        }
        // A leader that was restarted does not know that it leads.
        self.leader = None;
        for replica in &mut self.replicas {
            replica.cut = [false; CONTROLLERS];
            if !replica.up {
                replica.restart();
            }
        }
        let can_serve = self.stored.as_ref().is_none_or(|stored| {
            let mut serving = stored.serving();
            serving.any(|member| {
                self.replicas
                    .iter()
                    .any(|replica| replica.id == member.replica && replica.born <= member.incarnation.0)
            })
        });
        for _ in 0..200 {
            self.beat()?;
            for at in 0..self.replicas.len() {
                self.catch_up(at);
            }
        }
        let mut wrote = false;
        for at in 0..self.replicas.len() {
            wrote |= self.write(at)?;
        }
        let serving = self.replicas.iter().filter(|replica| replica.is_serving()).count();
        let roster = self.stored.as_ref().map_or(0, |stored| stored.roster.len());
        let all = if roster == 0 { usize::from(FIRST) } else { roster };
        match (can_serve, wrote, serving) {
            (true, true, serving) if serving == all => Ok(()),
            (false, false, 0) => Ok(()),
            _ => Err(format!("can serve: {can_serve}, wrote: {wrote}, {serving} serve, {:?}", self.stored)),
        }
    }
}

fn run(seed: u64, planted: Option<Planted>) -> Result<(), String> {
    let mut world = World::new(seed, planted);
    for _ in 0..150 {
        world.step()?;
    }
    world.calm()
}

#[test]
fn nothing_is_lost_and_the_chain_comes_back() {
    for seed in 0..1000 {
        run(seed, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn planted_bugs_are_found() {
    for planted in
        [Planted::DeposeTooSoon, Planted::TrustEmptyLog, Planted::SwitchTooSoon, Planted::TellTooSoon]
    {
        assert!((0..400).any(|seed| run(seed, Some(planted)).is_err()), "{planted:?} is not found");
    }
}
