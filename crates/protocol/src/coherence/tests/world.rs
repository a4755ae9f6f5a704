//! Machines, a network that does what a script or a seed says, and the checker, which sees into all machines.
//!
//! The checker holds after every event: a copy that a box could answer from is what its home has now; a client's operation
//! ends once; a read that began after an answer was given does not see what is older; a counter counts what was answered once.
//!
//! Clocks differ in their beginning and in their rate, by less than the drift that leases allow for.

mod at_home;
mod checks;
mod late;
mod transactions;

use super::super::boxes::lent::{Fronted, Model};
use super::super::client::{Answer, Call, Client, Failed, OpId};
use super::super::controller::{Controller, Drain};
use super::super::holders::Boxes;
use super::super::home::items::{Items, Tree};
use super::super::home::{self, Home};
use super::super::lease::runs;
use super::super::table::Layout;
use super::super::{CacheBox, Compute, Config, Life, NodeId, Out, Planted};
use crate::wire::{BoxId, ClientId, Control, HomeId, Incarnation, Message, Opcode, Status, Verb, Version};
use base::{Nanos, Prng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Until [`World::release`].
    Held,
    Late(Nanos),
}

pub(super) const DELAY: Nanos = Nanos::from_micros(10);

type Script = Box<dyn FnMut(&NodeId, &NodeId, &Message, &mut Prng) -> Fate>;
type Result_ = Result<Answer, Failed>;

pub(super) struct World {
    pub(super) now: Nanos,
    pub(super) config: Config,
    planted: Option<Planted>,
    layout: Arc<Layout>,
    pub(super) clients: Vec<Client>,
    pub(super) boxes: BTreeMap<BoxId, Fronted<Option<Planted>>>,
    pub(super) homes: BTreeMap<HomeId, Home<Tree, Option<Planted>>>,
    pub(super) controllers: Vec<Controller<Option<Planted>>>,
    network: BTreeMap<(Nanos, u64), (NodeId, NodeId, Message)>,
    held: Vec<(NodeId, NodeId, Message)>,
    script: Script,
    sent: u64,
    controls: BTreeMap<Control, usize>,
    lives: u32,
    prng: Prng,
    pub(super) outcomes: BTreeMap<(usize, OpId), Result_>,
    started: BTreeMap<(usize, OpId), (Call, Version)>,
    /// All that clients asked for.
    keys: BTreeSet<Vec<u8>>,
    /// Per key, the highest version that any answer has shown.
    floor: BTreeMap<Vec<u8>, Version>,
    /// What increments that were answered have stored.
    counted: BTreeSet<(Vec<u8>, Version)>,
    pub(super) violations: Vec<String>,
    /// Homes that lost their items: copies of these may run for a lease.
    quiet_until: BTreeMap<HomeId, Nanos>,
    at_home: at_home::AtHome,
    /// Rounds in which a box could be stopped, by [`World::note_drained`].
    pub(super) drained: u64,
    /// A store that evicts: its copies are older than nothing.
    pub(super) evicts: bool,
    /// The homes' stores take time, until then.
    slow: Option<late::Slow>,
    /// Who does transactions at home 1.
    transactions: Option<transactions::Doing>,
    /// Every machine's rate differs from the world's by at most so many permille.
    skew: i128,
}

impl World {
    /// `tors` ToRs, `roots` roots, `homes` homes, a client per ToR.
    pub(super) fn new(
        config: Config,
        planted: Option<Planted>,
        (tors, roots, homes): (u16, u16, u16),
        seed: u64,
    ) -> World {
        config.check().expect("the configuration of a test works");
        let layout = Arc::new(Layout::two_levels(tors, roots, homes, 8).expect("a layout"));
        let mut world = World {
            now: Nanos::from_secs(1),
            clients: Vec::new(),
            boxes: BTreeMap::new(),
            homes: BTreeMap::new(),
            controllers: Vec::new(),
            network: BTreeMap::new(),
            held: Vec::new(),
            script: Box::new(|_, _, _, _| Fate::Arrives),
            sent: 0,
            controls: BTreeMap::new(),
            lives: 1,
            prng: Prng::for_entity(seed, 0, 0x77),
            outcomes: BTreeMap::new(),
            started: BTreeMap::new(),
            keys: BTreeSet::new(),
            floor: BTreeMap::new(),
            counted: BTreeSet::new(),
            violations: Vec::new(),
            quiet_until: BTreeMap::new(),
            at_home: at_home::AtHome::default(),
            drained: 0,
            evicts: false,
            slow: None,
            transactions: None,
            skew: if seed == 0 { 0 } else { 4 },
            layout,
            config,
            planted,
        };
        for tor in 1..=tors {
            let prng = Prng::for_entity(seed, u64::from(tor), 0x63);
            let id = ClientId(u64::from(tor));
            world.clients.push(Client::new(&world.config, id, BoxId(tor), world.layout.clone(), prng));
        }
        for id in world.layout.clone().boxes() {
            world.start_box(id, Life::First);
        }
        for id in world.layout.clone().homes() {
            world.start_home(id, Life::First);
        }
        world
    }

    pub(super) fn with_controllers(mut self, controllers: u8) -> World {
        for index in 0..controllers {
            let now = self.clock(NodeId::Controller(index));
            let layout = self.layout.clone();
            let of = (index, controllers);
            self.controllers.push(Controller::with_bugs(&self.config, of, layout, now, self.planted));
        }
        self
    }

    pub(super) fn script(
        &mut self,
        script: impl FnMut(&NodeId, &NodeId, &Message, &mut Prng) -> Fate + 'static,
    ) {
        self.script = Box::new(script);
    }

    /// All is well again; what is held stays so.
    pub(super) fn well(&mut self) {
        self.script(|_, _, _, _| Fate::Arrives);
    }

    /// What was held arrives now, in the order in which it was sent.
    pub(super) fn release(&mut self) {
        for (from, to, message) in std::mem::take(&mut self.held) {
            self.put(self.now.plus(DELAY), from, to, message);
        }
    }

    /// What is held, to be put into the network once more.
    pub(super) fn held_messages(&self) -> Vec<(NodeId, NodeId, Message)> {
        self.held.clone()
    }

    /// A box evicts all its copies.
    pub(super) fn drop_copy(&mut self, id: u16) {
        self.boxes.get_mut(&BoxId(id)).expect("it runs").evict_all();
    }

    /// All homes evict this key.
    pub(super) fn evict(&mut self, key: &str) {
        self.homes.values_mut().for_each(|home| home.items_mut().remove(key.as_bytes()));
    }

    pub(super) fn neighbour_is_down(&mut self, id: u16, neighbour: u16) {
        self.boxes.get_mut(&BoxId(id)).expect("it runs").set_neighbour(BoxId(neighbour), false);
    }

    pub(super) fn crash_box(&mut self, id: u16) {
        self.boxes.remove(&BoxId(id));
    }

    pub(super) fn restart_box(&mut self, id: u16) {
        self.start_box(BoxId(id), Life::Again);
    }

    /// All controllers are told that just these boxes are to be stopped.
    pub(super) fn drain(&mut self, ids: &[u16]) {
        let all = ids.iter().filter_map(|id| Boxes::of(BoxId(*id))).fold(Boxes::default(), Boxes::with);
        for index in 0..self.controllers.len() {
            let now = self.clock(NodeId::Controller(index as u8));
            self.controllers[index].set_draining(now, all);
        }
    }

    /// Counts boxes that may be stopped now.
    pub(super) fn note_drained(&mut self) {
        let drained = self.layout.boxes().filter(|id| self.drain_of(id.0) == Some(Drain::Drained));
        self.drained += drained.count() as u64;
    }

    /// How far a box is, as the newest of the active controllers says.
    pub(super) fn drain_of(&self, id: u16) -> Option<Drain> {
        let controllers = (0..).zip(&self.controllers).filter(|(_, controller)| controller.is_active());
        let (index, newest) = controllers.max_by_key(|(_, controller)| controller.epoch())?;
        let drains = newest.drains(self.clock(NodeId::Controller(index)));
        drains.into_iter().find(|(box_id, _)| box_id.0 == id).map(|(_, drain)| drain)
    }

    pub(super) fn crash_home(&mut self, id: u16) {
        self.homes.remove(&HomeId(id));
        self.forget_tickets(HomeId(id));
        self.quiet_until.insert(HomeId(id), Nanos::MAX);
    }

    pub(super) fn restart_home(&mut self, id: u16) {
        self.start_home(HomeId(id), Life::Again);
        // By the slowest clock.
        let quiet = self.config.lease.0 + self.config.lease.0 / 100;
        self.quiet_until.insert(HomeId(id), self.now.plus(Nanos(quiet)));
    }

    fn start_box(&mut self, id: BoxId, life: Life) {
        self.lives += 1;
        let now = self.clock(NodeId::Box(id));
        let who = (Incarnation(self.lives), life);
        let machine = CacheBox::with_bugs(&self.config, id, self.layout.clone(), who, now, self.planted);
        // Where boxes own keys, a faster tier answers for what it can.
        let tier = (self.config.compute == Compute::Own).then(|| Model::with_bugs(self.planted));
        self.boxes.insert(id, Fronted::new(machine, tier));
    }

    fn start_home(&mut self, id: HomeId, life: Life) {
        self.lives += 1;
        let now = self.clock(NodeId::Home(id));
        let who = (Incarnation(self.lives), life);
        let items = if self.slow.is_some() { Tree::late(1000) } else { Tree::new(1000) };
        let layout = self.layout.clone();
        let home = Home::with_bugs(&self.config, id, layout, who, now, items, self.planted);
        self.homes.insert(id, home);
    }

    /// Begins an operation of client `c`.
    pub(super) fn call(&mut self, c: usize, call: Call) -> OpId {
        let floor = self.floor.get(&call.key).copied().unwrap_or_default();
        let now = self.clock(NodeId::Client(self.clients[c].id()));
        let mut out = Vec::new();
        let op = self.clients[c].start(now, call.clone(), &mut out).expect("tests begin no more than fits");
        self.keys.insert(call.key.clone());
        self.started.insert((c, op), (call, floor));
        self.send_all(NodeId::Client(self.clients[c].id()), out);
        op
    }

    pub(super) fn get(&mut self, c: usize, key: &str) -> OpId {
        self.call(c, Call::new(Verb::Get, key.as_bytes()))
    }

    pub(super) fn set(&mut self, c: usize, key: &str, value: &str) -> OpId {
        self.call(c, Call::new(Verb::Set, key.as_bytes()).value(value.as_bytes()))
    }

    /// Lets what is on its way arrive, before anybody sends again.
    pub(super) fn settle(&mut self) {
        self.run(Nanos::from_micros(500));
    }

    pub(super) fn run(&mut self, span: Nanos) {
        let end = self.now.plus(span);
        while let Some(at) = self.next_at().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.step();
        }
        self.now = end;
        self.check();
    }

    /// What came of it: the value, or how it went. `None`: not over.
    pub(super) fn answer(&self, c: usize, op: OpId) -> Option<String> {
        Some(match self.outcomes.get(&(c, op))? {
            Ok(answer) if answer.status == Status::Ok && !answer.value.is_empty() => {
                String::from_utf8_lossy(&answer.value).into_owned()
            }
            Ok(answer) => format!("{:?}", answer.status),
            Err(failed) => format!("{failed:?}"),
        })
    }

    /// Begins it, lets it arrive and says what came of it.
    pub(super) fn read(&mut self, c: usize, key: &str) -> String {
        let op = self.get(c, key);
        self.settle();
        self.answer(c, op).unwrap_or_else(|| "nothing".into())
    }

    pub(super) fn write(&mut self, c: usize, key: &str, value: &str) -> String {
        let op = self.set(c, key, value);
        self.settle();
        self.answer(c, op).unwrap_or_else(|| "nothing".into())
    }

    /// Of box `id`, copies that it could answer from.
    pub(super) fn copies(&self, id: u16) -> usize {
        let now = self.clock(NodeId::Box(BoxId(id)));
        self.boxes.get(&BoxId(id)).map_or(0, |b| b.copies().filter(|kept| runs(kept.end(), now)).count())
    }

    pub(super) fn number(&self, c: usize, op: OpId) -> Option<u64> {
        Some(self.outcomes.get(&(c, op))?.as_ref().ok()?.number)
    }

    pub(super) fn by_box(&self, c: usize, op: OpId) -> bool {
        matches!(self.outcomes.get(&(c, op)), Some(Ok(answer)) if answer.from_box)
    }

    /// The box that owns this key, as its home has it.
    pub(super) fn owner(&self, key: &str) -> Option<u16> {
        self.homes.values().find_map(|home| home.owner_of(key.as_bytes())).map(|id| id.0)
    }

    /// Keys that were given away, writes that owners did, and keys lost with them; of those who run now.
    pub(super) fn ownership(&self) -> [u64; 3] {
        let sum = |of: fn(&home::Stats) -> u64| self.homes.values().map(|home| of(&home.stats())).sum();
        [sum(|s| s.given), self.boxes.values().map(|b| b.stats().owned).sum(), sum(|s| s.lost)]
    }

    /// Messages of this kind that were sent.
    pub(super) fn heard(&self, what: Control) -> usize {
        self.controls.get(&what).copied().unwrap_or(0)
    }

    /// A scenario says what it expects; otherwise that is a violation.
    pub(super) fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, is: T, should: T) {
        if is != should {
            self.violations.push(format!("{what}: {is:?}, expected {should:?}"));
        }
    }

    pub(super) fn assert_well(&self) {
        assert!(self.violations.is_empty(), "{:#?}", self.violations);
    }

    /// Operations that are not over.
    pub(super) fn under_way(&self) -> usize {
        self.clients.iter().map(Client::under_way).sum()
    }

    // ---- time

    fn rate(&self, node: NodeId) -> (i128, i128) {
        let number = match node {
            NodeId::Client(id) => id.0 as i128,
            NodeId::Box(id) => 100 + i128::from(id.0),
            NodeId::Home(id) => 201 + i128::from(id.0),
            NodeId::Controller(i) => 300 + i128::from(i),
        };
        let skew = if self.skew == 0 { 0 } else { number * 7 % (2 * self.skew + 1) - self.skew };
        (skew, number * 1_000_003)
    }

    pub(super) fn clock(&self, node: NodeId) -> Nanos {
        let (skew, offset) = self.rate(node);
        let now = i128::from(self.now.0);
        Nanos((now + now * skew / 1000 + offset) as u64)
    }

    /// When that node's clock shows `when`.
    fn real(&self, node: NodeId, when: Nanos) -> Option<Nanos> {
        if when == Nanos::MAX {
            return None;
        }
        let (skew, offset) = self.rate(node);
        let real = (i128::from(when.0) - offset) * 1000 / (1000 + skew) + 2;
        Some(Nanos(real.clamp(0, i128::from(u64::MAX)) as u64))
    }

    fn deadlines(&self) -> Vec<(NodeId, Nanos)> {
        let mut all: Vec<(NodeId, Nanos)> = Vec::new();
        all.extend(self.clients.iter().map(|m| (NodeId::Client(m.id()), m.next_deadline())));
        all.extend(self.boxes.iter().map(|(id, m)| (NodeId::Box(*id), m.next_deadline())));
        all.extend(self.homes.iter().map(|(id, m)| (NodeId::Home(*id), m.next_deadline())));
        all.extend(
            self.controllers
                .iter()
                .enumerate()
                .map(|(i, m)| (NodeId::Controller(i as u8), m.next_deadline())),
        );
        all.iter().filter_map(|(node, when)| Some((*node, self.real(*node, *when)?))).collect()
    }

    fn next_at(&self) -> Option<Nanos> {
        let timer = self.deadlines().into_iter().map(|(_, when)| when).min();
        let arrival = self.network.first_key_value().map(|((at, _), _)| *at);
        timer.into_iter().chain(arrival).chain(self.work_at()).min()
    }

    // ---- network

    fn step(&mut self) {
        let due: Vec<_> = self.deadlines().into_iter().filter(|(_, at)| *at <= self.now).collect();
        for (node, _) in due {
            self.act(node, None);
        }
        if let Some(entry) = self.network.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, message) = entry.remove();
            self.act(to, Some((from, message)));
        }
        self.work();
        self.check();
    }

    fn act(&mut self, node: NodeId, message: Option<(NodeId, Message)>) {
        let now = self.clock(node);
        let mut out = Vec::new();
        macro_rules! drive {
            ($machine:expr) => {
                match ($machine, &message) {
                    (Some(machine), Some((from, message))) => machine.handle(now, *from, message, &mut out),
                    (Some(machine), None) => machine.tick(now, &mut out),
                    (None, _) => {}
                }
            };
        }
        match node {
            NodeId::Client(id) => drive!(self.clients.iter_mut().find(|m| m.id() == id)),
            NodeId::Box(id) => drive!(self.boxes.get_mut(&id)),
            NodeId::Home(id) => drive!(self.homes.get_mut(&id)),
            NodeId::Controller(i) => drive!(self.controllers.get_mut(usize::from(i))),
        }
        self.send_all(node, out);
        self.collect();
    }

    fn send_all(&mut self, from: NodeId, out: Out) {
        for (to, message) in out {
            if let Opcode::Control(what) = message.header.opcode {
                *self.controls.entry(what).or_default() += 1;
            }
            match (self.script)(&from, &to, &message, &mut self.prng) {
                Fate::Arrives => self.put(self.now.plus(DELAY), from, to, message),
                Fate::Lost => {}
                Fate::Held => self.held.push((from, to, message)),
                Fate::Late(delay) => self.put(self.now.plus(delay), from, to, message),
                Fate::Twice => {
                    let late = Nanos(self.prng.below(2 * self.config.lease.0));
                    self.put(self.now.plus(DELAY), from, to, message.clone());
                    self.put(self.now.plus(late), from, to, message);
                }
            }
        }
    }

    pub(super) fn put(&mut self, at: Nanos, from: NodeId, to: NodeId, message: Message) {
        self.sent += 1;
        self.network.insert((at, self.sent), (from, to, message));
    }

    // ---- checks

    fn collect(&mut self) {
        self.collect_replies();
        self.collect_transactions();
        for c in 0..self.clients.len() {
            while let Some((op, outcome)) = self.clients[c].poll_outcome() {
                self.judge(c, op, &outcome);
                if self.outcomes.insert((c, op), outcome).is_some() {
                    self.violations.push(format!("operation {op:?} of client {c} ended twice"));
                }
            }
        }
    }
}
