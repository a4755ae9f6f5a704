//! A cluster in virtual time: nodes, the network between them, the faults of a plan, and clients that do what a script says.
//!
//! ```text
//!   0 ─── safety: operations, faults ─── until │ calm, all up, a lease … │ liveness: must succeed │ a box dies: must succeed │ end
//! ```
//! Messages are bytes on every hop (`packets`): sealed where the run has a key, damaged perhaps, repeated and forged by strangers, and opened.
//! A timer is an event at the moment at
//! which the node's clock shows its deadline.
//!
//! Invariants looked at after every event are in `watch`; operations in `issue`; this file has time, messages, crashes.
//!
//! Bounds: [`MOST_EVENTS_PER_OP`]; a world in which more happens does not come to rest, which is a violation.

use super::bugs::Bug;
use super::clock::Clock;
use super::cores::Between;
use super::disks::Deed;
use super::flushes;
use super::homes::Behind;
use super::issue::Underway;
use super::moves::{self, Moves};
use super::nodes::{self, Machine, Numbers, Place, Role};
use super::packets::{Datagram, Stranger};
use super::record::Record;
use super::replicas::Replicas;
use super::replies::Replies;
use super::script::{DELAY, Script};
use super::served::Served;
use super::topology::Topology;
use super::transactions::Transacted;
use super::watch::Watch;
use super::words;
use base::{Nanos, Picos};
use protocol::coherence::boxes::shards::Aside;
use protocol::coherence::{Book, NodeId, Out};
use protocol::wire::Message;
use sim::faults::{Step, What};
use sim::network::{Network, Weather};
use sim::nodes::Node;
use sim::{Fingerprint, Queue, random};
use std::collections::HashSet;

/// Events of a run at most, for each operation; usual are 12.
const MOST_EVENTS_PER_OP: u64 = 2_000;

/// What happens.
#[derive(Debug)]
pub enum Happening {
    /// A datagram arrives.
    Arrival { from: NodeId, datagram: Datagram },
    /// What one core of a box tells another, in this life.
    Aside { life: u32, by: u8, at: u8, aside: Aside },
    /// A node's timer, of this life.
    Timer { life: u32 },
    /// An operation of the script, by its place there.
    Issue(usize),
    /// Copies may be kept elsewhere, by the place in the script.
    Ranges(usize),
    /// Boxes are to be stopped, by the place in the script.
    Drains(usize),
    /// A home goes on elsewhere, by the place in the script.
    Moves(usize),
    /// A step of the plan.
    Fault(Step),
    /// Operations of [`super::record::WORLD`] are over: what was lost is gone everywhere.
    Lost(Vec<usize>),
    /// The next phase begins.
    Phase(Phase),
    /// The disk of a home has done something, of this life.
    Disk { life: u32, deed: Deed },
    /// The chain of a home does something, if it was not to do it before.
    Chain(u64),
    /// Something of a flush that is put off at a home.
    PutOff(flushes::Step),
    /// The handler of a method goes on, by the method's number.
    Handler(u64),
}

/// What follows the safety phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults end, who is down comes up.
    Calm,
    /// Every client writes once, whatever comes of it: whose session a home forgot when it crashed learns so by a write of which it
    /// cannot know whether it was done.
    Sessions,
    /// New operations, which must succeed.
    Liveness,
    /// A box dies.
    BoxDies,
    /// New operations, which must succeed nevertheless.
    WithoutIt,
}

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When; the end of the run where only the judge found it.
    pub at: Picos,
    /// What, in some lines.
    pub text: String,
}

/// The cluster.
pub struct World<'a> {
    pub(super) topology: &'a Topology,
    pub(super) script: &'a Script,
    pub(super) numbers: Numbers,
    pub(super) queue: Queue<Happening>,
    pub(super) network: Network,
    pub(super) places: Vec<Place>,
    /// When the timer of each node is due.
    timers: Vec<Picos>,
    births: u32,
    pub(super) between: Between,
    pub(super) moves: Moves,
    pub(super) record: Record,
    pub(super) stranger: Stranger,
    pub(super) underway: Underway,
    pub(super) served: Served,
    pub(super) transacted: Transacted,
    pub(super) replies: Replies,
    pub(super) watch: Watch,
    pub(super) is_calm: bool,
    pub(super) violation: Option<Violation>,
    pub(super) print: Fingerprint,
    pub(super) events: u64,
    pub(super) trace: Option<Vec<String>>,
    pub(super) out: Out,
}

impl<'a> World<'a> {
    /// Everybody up, nothing under way. `only` are the operations to be done, where not all.
    pub fn new(
        topology: &'a Topology,
        script: &'a Script,
        only: Option<&[usize]>,
        traced: bool,
    ) -> World<'a> {
        let numbers = Numbers::of(topology);
        let count = numbers.count();
        let place = |node| {
            let clock = Clock::draw(&mut random::stream(script.seed, node, "clock"));
            let clock = flushes::clock(script, node as Node, clock);
            let id = NodeId::Controller(0);
            let book = Book::default();
            Place { guards: Vec::new(), book, heard: HashSet::new(), machine: None, clock, life: 0, id }
        };
        let mut world = World {
            network: Network::new(script.seed, count, Weather::fair(DELAY)),
            places: (0..u64::from(count)).map(place).collect(),
            timers: vec![Picos::MAX; count as usize],
            births: 0,
            between: Between::default(),
            moves: Moves::default(),
            record: Record::default(),
            stranger: Stranger::default(),
            underway: Underway::default(),
            served: Served::default(),
            transacted: Transacted::default(),
            replies: Replies::default(),
            watch: Watch::new(topology, script, &numbers),
            is_calm: false,
            violation: None,
            print: Fingerprint::new(),
            events: 0,
            trace: traced.then(Vec::new),
            out: Out::new(),
            queue: Queue::new(),
            numbers,
            topology,
            script,
        };
        world.put_replicas_behind_homes();
        (0..count).for_each(|node| world.begin(node));
        world.plan_flushes();
        for (i, (at, _)) in script.ranges.iter().enumerate() {
            world.queue.push(*at, count, Happening::Ranges(i));
        }
        for (i, (at, _)) in script.drains.iter().enumerate() {
            world.queue.push(*at, count, Happening::Drains(i));
        }
        for (i, one) in script.moves.iter().enumerate() {
            world.queue.push(one.at, count, Happening::Moves(i));
        }
        for (at, step) in script.plan.steps() {
            world.queue.push(at, count, Happening::Fault(step));
        }
        let all: Vec<usize> = (0..script.intents.len()).collect();
        for &i in only.unwrap_or(&all) {
            if let Some(intent) = script.intents.get(i) {
                world.queue.push(intent.at, intent.client, Happening::Issue(i));
            }
        }
        world.queue.push(script.until, count, Happening::Phase(Phase::Calm));
        world
    }

    /// Lets everything happen, until the end or a violation.
    pub fn run(&mut self) {
        let most = MOST_EVENTS_PER_OP * (self.script.intents.len() as u64 + 100);
        while self.violation.is_none()
            && let Some(event) = self.queue.pop()
        {
            self.events += 1;
            self.note_event(&event);
            if self.events > most {
                self.broken(format!("after {most} events it has not come to rest"), b"");
            }
            let node = event.source;
            match event.what {
                Happening::Arrival { from, datagram } => self.arrive(node, from, &datagram),
                Happening::Aside { life, by, at, aside } => self.hear_aside(node, life, (by, at), aside),
                Happening::Timer { life } => self.timer(node, life, event.at),
                Happening::Issue(i) => self.issue(i),
                Happening::Ranges(i) => self.set_ranges(i),
                Happening::Drains(i) => self.order_drains(i),
                Happening::Moves(i) => self.move_home(i),
                Happening::Fault(step) if !self.is_calm => self.fault(step),
                Happening::Fault(_) => {}
                Happening::Lost(numbers) => self.lost_everywhere(&numbers),
                Happening::Phase(phase) => self.enter(phase),
                Happening::Disk { life, deed } => self.disk_is_done(node, life, deed),
                Happening::Chain(turn) => self.chain_steps(node, turn),
                Happening::PutOff(step) => self.put_off(node, step),
                Happening::Handler(number) => self.handler_goes_on(number),
            }
            if self.is_over() {
                break;
            }
        }
        if self.violation.is_none() {
            self.check_all_ended();
        }
        self.note_replicas();
        self.settle();
    }

    /// Now.
    pub(super) fn now(&self) -> Picos {
        self.queue.now()
    }

    /// A promise is broken; `key` is the one that it is about, if it is about one.
    pub(super) fn broken(&mut self, what: String, key: &[u8]) {
        if self.violation.is_some() {
            return;
        }
        let mut text = what;
        for line in self.record.last_of(key, 8) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        self.violation = Some(Violation { at: self.now(), text });
    }

    pub(super) fn note(&mut self, line: impl FnOnce(&Numbers) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>15}  {}", words::moment(self.queue.now()), line(&self.numbers)));
        }
    }

    fn note_event(&mut self, event: &sim::Event<Happening>) {
        let kind = match &event.what {
            Happening::Arrival { .. } => 1,
            Happening::Timer { .. } => 2,
            Happening::Issue(_) => 3,
            Happening::Fault(_) => 4,
            Happening::Lost(_) => 5,
            Happening::Phase(_) => 6,
            Happening::Aside { .. } => 7,
            Happening::Ranges(_) => 8,
            Happening::Disk { .. } => 9,
            Happening::Chain(_) => 10,
            Happening::Drains(_) => 11,
            Happening::Moves(_) => 12,
            Happening::PutOff(_) => 13,
            Happening::Handler(_) => 14,
        };
        self.print.event(event, kind);
        if let Happening::Arrival { datagram, .. } = &event.what {
            self.print.bytes(datagram.bytes());
        }
    }

    // ---- messages and timers

    fn timer(&mut self, node: Node, life: u32, at: Picos) {
        let place = &self.places[node as usize];
        if place.machine.is_none() || place.life != life || self.timers[node as usize] != at {
            return;
        }
        self.timers[node as usize] = Picos::MAX;
        self.act(node, 0, None);
        let place = &self.places[node as usize];
        let now = place.clock.read(at);
        if place.machine.as_ref().is_some_and(|m| m.next_deadline() <= now) {
            self.broken(format!("{} has not done what was due", self.numbers.name(node)), b"");
        }
    }

    /// A message, or time, reaches a node that is up; of a box, core `at`.
    pub(super) fn act(&mut self, node: Node, at: u8, message: Option<(NodeId, &Message)>) {
        let mut out = std::mem::take(&mut self.out);
        let place = &mut self.places[node as usize];
        let now = place.clock.read(self.queue.now());
        let Some(machine) = &mut place.machine else { return };
        match message {
            Some((from, message)) => machine.handle(at, now, from, message, &mut out),
            None => machine.tick(now, &mut out),
        }
        self.acted(node, message.map(|(_, message)| message), &mut out);
        self.out = out;
    }

    /// After whatever a machine did: its messages, its timer, its operations that ended, and what must hold.
    pub(super) fn acted(&mut self, node: Node, message: Option<&Message>, out: &mut Out) {
        match self.numbers.role(node) {
            Role::Client(_) => self.collect(node, message),
            Role::Box(_) => {
                self.send_asides(node);
                self.look_at_box(node, out);
            }
            Role::Home(_) => {
                self.note_lost(node);
                self.collect_tickets(node);
                self.collect_transacted(node);
                self.look_at_home(node, out);
                self.drive_disk(node);
                self.drive_chain(node);
            }
            Role::Controller(_) => self.look_at_controller(node),
        }
        self.follow_moves(node);
        self.send_all(node, out);
        self.set_timer(node);
    }

    fn set_timer(&mut self, node: Node) {
        let place = &self.places[node as usize];
        let Some(machine) = &place.machine else { return };
        let Some(at) = place.clock.when(machine.next_deadline()) else { return };
        let at = at.max(self.queue.now());
        if at < self.timers[node as usize] {
            self.timers[node as usize] = at;
            self.queue.push(at, node, Happening::Timer { life: place.life });
        }
    }

    // ---- crashes

    fn fault(&mut self, step: Step) {
        let (plan, replicas) = (&self.script.plan, self.script.replicas.as_ref());
        self.note(|names| {
            let of_chains = replicas.map_or(0, Replicas::count);
            let name = |node| replicas.and_then(|all| all.name(node)).unwrap_or_else(|| names.name(node));
            format!("fault         {}", words::step(name, names.count() + of_chains, plan, step))
        });
        if self.happens_to_replicas(step) {
            return;
        }
        match step {
            Step::Crash(node) if node < self.numbers.count() => self.crash(node),
            Step::Restart(node) if node < self.numbers.count() => self.begin(node),
            Step::Trouble(node, trouble) => self.trouble(node, trouble),
            Step::Relief(node, trouble) => self.relieve(node, trouble),
            step => {
                let is_stranger = |number: u32| matches!(plan.0.get(number as usize), Some(fault) if matches!(fault.what, What::Stranger(_)));
                self.network.step(step);
                if let Step::End(number) = step
                    && is_stranger(number)
                {
                    self.speak_as_stranger();
                }
            }
        }
    }

    pub(super) fn crash(&mut self, node: Node) {
        match self.numbers.role(node) {
            Role::Home(id) => {
                let is_kept = self.draw_end(node);
                self.forget_tickets(node, is_kept);
                self.forget_transactions(node);
                self.home_ends(node, id, is_kept);
                self.end_disk(node);
            }
            Role::Client(_) => {
                self.underway.forget(node);
                self.replies.forget(node);
            }
            Role::Box(_) | Role::Controller(_) => {}
        }
        self.places[node as usize].machine = None;
        self.timers[node as usize] = Picos::MAX;
    }

    pub(super) fn begin(&mut self, node: Node) {
        if self.places[node as usize].machine.is_some() {
            return;
        }
        self.births += 1;
        let role = self.numbers.role(node);
        let place = &mut self.places[node as usize];
        let mut now = place.clock.read(self.queue.now());
        let moved = if let Role::Home(id) = role { self.moves.of(id) } else { None };
        // What it would have been told before it did not hear: it is as if it had been started then.
        now = Nanos(now.0.saturating_sub(moved.map_or(0, |(_, early)| early.0)));
        let (script, kept) = (self.script, (self.script.homes, self.script.seed, self.script.disk.0));
        let behind = if let Role::Home(_) = role { self.served.behind(node, kept) } else { Behind::Nothing };
        let begun = nodes::begin(node, place, script, self.topology, role, (now, self.births), behind);
        if let Err(why) = begun {
            let what = format!("{} cannot start: {why}", self.numbers.name(node));
            if self.served.memories.is_refused(node) {
                self.note(|_| what);
            } else if self.begins_with_nothing(node, kept.2) {
                self.note(|_| what);
                self.home_has_nothing(node);
            } else {
                return self.broken(what, b"");
            }
            self.places[node as usize].life -= 1;
            self.births -= 1;
            return self.begin(node);
        }
        let planted = script.planted.and_then(Bug::in_cache);
        let place = &mut self.places[node as usize];
        place.book = moves::book(&self.numbers, planted);
        if let (Some(Machine::Home(home)), Some((here, _))) = (&mut place.machine, moved) {
            home.is_elsewhere(here);
        }
        match role {
            Role::Home(id) => {
                self.home_begins(node, id);
                self.replicas_have_a_home(node);
            }
            Role::Controller(_) => {
                self.read_ranges(node);
                self.read_drains(node);
            }
            Role::Client(_) | Role::Box(_) => {}
        }
        self.set_timer(node);
        self.ask_again(node);
    }

    /// Who is down comes up, and no fault is left.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        self.network.calm();
        (0..self.numbers.count()).for_each(|node| self.begin(node));
    }

    /// The machine of a node, if it is up.
    pub(super) fn machine(&mut self, node: Node) -> Option<&mut Machine> {
        self.places[node as usize].machine.as_mut()
    }
}
