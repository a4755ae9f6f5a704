//! A controller with its links: a loop for a thread of its own.
//!
//! Replicas dial it. It says a line whenever something changed that an operator wants to know: who leads, who is in the chain, why nobody
//! serves, what the registry fails at.

use super::driver::Driver;
use super::error::ControllerError;
use super::metrics::Seen;
use crate::admin::ask::Questions;
use crate::admin::health::Beat;
use crate::chain::links::Links;
use crate::chain::registry::Registry;
use ::client::chain::directory::{self, Directory, Place};
use base::key::Key;
use base::steady::Steady;
use base::{Clock, Nanos};
use fabric::link::Address;
use protocol::chain::controller::View;
use protocol::chain::{
    Config, Configuration, Member, Message, NodeId, Out, Part, ReplicaAddress, ReplicaId, Slots,
};
use ring::wait::{Sleeper, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whoever is asked something, or told to stop, notices within this.
const NOTICE: Nanos = Nanos::from_millis(20);

/// What a controller is started with.
pub struct Setting {
    /// Of the machines; its times must be those of the replicas.
    pub config: Config,
    /// Its number; each controller of a chain has its own.
    pub number: u16,
    /// What all members have, and nobody else.
    pub key: Key,
    /// All replicas, in the order in which a new chain has them.
    pub replicas: Vec<ReplicaAddress>,
    /// Where it listens.
    pub listen: Address,
    /// Where configurations are kept.
    pub registry: Box<dyn Registry>,
}

/// A controller that runs.
pub struct Process {
    pub(super) driver: Driver,
    pub(super) clock: Clock,
    /// Since before it began.
    steady: Steady,
    pub(super) chain: u32,
    /// Of a new chain.
    slots: Slots,
    pub(super) number: u16,
    pub(super) questions: Option<Questions<Seen>>,
    /// Says that it turns.
    pub(super) beat: Beat,
    /// Those of before the first order.
    replicas: Vec<ReplicaAddress>,
    links: Links,
    sleeper: Sleeper,
    name: String,
    said: Vec<String>,
    /// What clients were told last, while it leads.
    published: Option<String>,
    out: Out,
    came: Vec<(NodeId, Message)>,
}

impl Process {
    /// Listens, and begins to campaign for leadership.
    ///
    /// # Errors
    /// The address cannot be had, or the system gives no thread or descriptor.
    pub fn open(setting: Setting) -> Result<Process, ControllerError> {
        let steady = Steady::new(Clock::shared());
        let Setting { config, number, key, replicas, listen, registry } = setting;
        let peers = replicas.iter().map(|replica| (NodeId::Replica(replica.replica), None));
        let links = Links::new(&key, config.chain, NodeId::Controller(number), Some(&listen), "", peers)
            .map_err(|error| ControllerError::Listen(listen.clone(), error))?;
        let (sleeper, waker) = waiting_on_eventfd().map_err(ControllerError::System)?;
        let wake = move || {
            waker.wake();
        };
        let driver = Driver::start(&config, number, replicas.clone(), registry, wake)
            .map_err(ControllerError::System)?;
        Ok(Process {
            driver,
            clock: Clock::shared(),
            steady,
            chain: config.chain,
            slots: config.slots,
            number,
            questions: None,
            beat: Beat::default(),
            replicas,
            links,
            sleeper,
            name: name(number, config.chain),
            said: Vec::new(),
            published: None,
            out: Vec::new(),
            came: Vec::new(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<&Address> {
        self.links.address()
    }

    /// Its name, as its lines begin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes turns until it is told to stop, or the clock jumps; then leadership is given up. `say` is called for each line.
    pub fn run(&mut self, stop: &AtomicBool, mut say: impl FnMut(&str)) {
        // Nothing else is read after the flag is seen, so no order is needed.
        while !stop.load(Ordering::Relaxed) {
            if let Err(jump) = self.steady.check() {
                say(&format!("{}: {jump}", self.name));
                return;
            }
            self.beat.turn();
            if self.turn(&mut say) == 0 {
                self.rest();
            }
            self.answer_questions();
        }
    }

    /// Does what there is to do; how much that was.
    pub(super) fn turn(&mut self, say: &mut impl FnMut(&str)) -> usize {
        let now = self.clock.now();
        let mut done = self.links.poll(now, &mut self.came);
        for (from, message) in self.came.drain(..) {
            self.driver.handle(now, from, message, &mut self.out);
        }
        done += self.driver.turn(now, &mut self.out);
        for (to, message) in self.out.drain(..) {
            self.links.send(now, to, &message);
        }
        self.links.flush(now);
        if done > 0 || self.said.is_empty() || self.links.has_notices() {
            self.tell(now, say);
            self.publish(now);
        }
        done
    }

    /// Tells clients who look in the registry where replicas serve, when that has changed.
    fn publish(&mut self, now: Nanos) {
        if !self.driver.leads(now) {
            self.published = None;
            return;
        }
        let text = self.directory(now).text();
        if self.published.as_ref() != Some(&text) {
            self.driver.publish(text.clone());
            self.published = Some(text);
        }
    }

    /// Where the replicas serve that have said so, from head to tail; then those that are left out.
    pub(super) fn directory(&self, now: Nanos) -> Directory {
        let configuration = self.driver.view(now).configuration.unwrap_or_default();
        let part = |member: &Member| match member.part {
            Part::Serving => directory::Part::Serving,
            Part::Syncing => directory::Part::Syncing,
        };
        let is_in = |replica| configuration.members.iter().any(|member| member.replica == replica);
        let members = configuration.members.iter().map(|member| (member.replica, part(member)));
        let roster = if configuration.roster.is_empty() { &self.replicas } else { &configuration.roster };
        let out = roster.iter().map(|at| at.replica).filter(|replica| !is_in(*replica));
        let out = out.map(|replica| (replica, directory::Part::Out));
        let place = |(replica, part): (ReplicaId, directory::Part)| {
            let address = self.links.serves(NodeId::Replica(replica))?.parse().ok()?;
            Some(Place { replica, address, part })
        };
        let replicas = members.chain(out).filter_map(place).collect();
        Directory { chain: self.chain, epoch: configuration.epoch, replicas }
    }

    /// Says what has changed.
    fn tell(&mut self, now: Nanos, say: &mut impl FnMut(&str)) {
        let view = self.driver.view(now);
        let mut lines = lines(&view, self.driver.leads(now), self.driver.trouble());
        lines.extend(
            view.configuration.and_then(|configuration| other_slots(&self.slots, &configuration.slots)),
        );
        for line in lines.iter().filter(|line| !self.said.contains(line)) {
            say(&format!("{}: {line}", self.name));
        }
        self.said = lines;
        for notice in self.links.take_notices() {
            say(&format!("{}: {notice}", self.name));
        }
    }

    /// Sleeps until there is something to do.
    pub(super) fn rest(&mut self) {
        self.sleeper.arm();
        // Both are asked after they were armed: what came before would not wake us.
        if !self.driver.has_events() && self.links.arm() {
            let next = self.driver.next_deadline().min(self.links.next_deadline());
            let span = next.since(self.clock.now()).min(NOTICE);
            let registry = self.sleeper.descriptor().expect("made with an eventfd");
            let descriptors = self.links.descriptors().chain([registry]);
            let mut fds: Vec<_> = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let span =
                Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as _ };
            // Errors mean the same as a wake-up: look again.
            let _ = poll(&mut fds, Some(&span));
        }
        self.links.disarm();
        self.sleeper.disarm();
    }
}

/// What its lines begin with.
pub fn name(number: u16, chain: u32) -> String {
    format!("controller {number} of chain {chain}")
}

/// What an operator is told of a chain that was begun with other slots than he says.
fn other_slots(told: &Slots, has: &Slots) -> Option<String> {
    (told != has).then(|| {
        format!(
            "it was begun with the slots {has}, and goes by them, not by {told}: nothing moves its items to another chain. Give its slots in the cluster's file as they are"
        )
    })
}

/// How things are, in lines.
fn lines(view: &View, leads: bool, trouble: Option<&str>) -> Vec<String> {
    let mut lines = vec![if leads { "it leads".to_owned() } else { "it does not lead".to_owned() }];
    if leads {
        lines.extend(view.configuration.as_ref().map(describe));
        let ordered = view.configuration.iter().filter_map(|configuration| configuration.ordered.as_ref());
        lines.extend(ordered.map(|order| format!("it obeys {order}")));
        lines.extend(view.held_back.then(|| {
            "the members hear of it when those that the order left out have, or their leases are over"
                .to_owned()
        }));
        lines.extend(view.waiting.as_ref().map(|waiting| format!("nobody serves: {waiting}")));
        lines.extend(view.slow.iter().map(slow));
    }
    lines.extend(trouble.map(str::to_owned));
    lines
}

/// What an operator is told of a medium that is slow: rounded, so that it is said again when it is twice as long.
fn slow((replica, stalled): &(ReplicaId, Nanos)) -> String {
    let ms = 1 << (stalled.0 / 1_000_000).max(1).ilog2();
    format!(
        "replica {} is slow, and alive: its log has been at one write for {ms} ms and more. The chain waits for it; look at its disk",
        replica.0
    )
}

/// `epoch 5: 1 (head), 3 (tail), 2 (catching up)`
pub fn describe(configuration: &Configuration) -> String {
    let part = |member: &Member| {
        let is = |other: Option<Member>| other == Some(*member);
        let part = match (member.part, is(configuration.head()), is(configuration.tail())) {
            (Part::Syncing, ..) => " (catching up)",
            (_, true, true) => " (head and tail)",
            (_, true, false) => " (head)",
            (_, false, true) => " (tail)",
            (_, false, false) => "",
        };
        format!("{}{part}", member.replica.0)
    };
    let members: Vec<String> = configuration.members.iter().map(part).collect();
    format!("epoch {}: replicas {}", configuration.epoch.0, members.join(", "))
}
