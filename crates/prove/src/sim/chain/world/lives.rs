//! Lives of nodes in a [`World`]: what a step of the plan does to them, how they end, and how they begin anew.

use super::super::super::words;
use super::super::behind;
use super::super::disk::End;
use super::super::shape::Role;
use super::{Actor, Happening, World};
use base::Picos;
use base::key::Key;
use protocol::chain::operator::Phase;
use protocol::chain::{Client, Controller, Incarnation, NodeId, Operator, Out, Replica};
use sim::faults::{Step, Trouble};
use sim::nodes::Node;
use sim::random;
use std::sync::Arc;

impl World {
    pub(in crate::sim) fn fault(&mut self, step: Step) {
        let (count, script) = (self.shape.count(), Arc::clone(&self.script));
        if self.behind.is_none() {
            self.note(|shape| {
                format!("fault         {}", words::step(|node| shape.name(node), count, &script.plan, step))
            });
        }
        match step {
            Step::Crash(node) if node < count => self.crash(node),
            Step::Restart(node) if node < count => self.begin(node),
            Step::Power(nodes) => self.cut_power(nodes),
            Step::Trouble(node, trouble) if node < count => {
                self.places[node as usize].troubles.insert(trouble);
                self.places[node as usize].was_paused |= trouble == Trouble::Pause;
                self.trouble(node, trouble);
            }
            Step::Relief(node, trouble) if node < count => self.relieve(node, trouble),
            step => drop(self.network.step(step)),
        }
    }

    fn relieve(&mut self, node: Node, trouble: Trouble) {
        let now = self.now();
        self.places[node as usize].troubles.remove(&trouble);
        if matches!(trouble, Trouble::Full | Trouble::BadSync) {
            self.heal(node);
        }
        if trouble == Trouble::Pause {
            for what in std::mem::take(&mut self.places[node as usize].waiting) {
                self.queue.push(now, node, what);
            }
        }
        if std::mem::take(&mut self.places[node as usize].has_stopped) {
            self.begin(node);
        }
    }

    /// Whether this is wrong with a node now.
    pub(in crate::sim::chain) fn has_trouble(&self, node: Node, trouble: Trouble) -> bool {
        self.places[node as usize].troubles.contains(&trouble)
    }

    /// Whether a node was ever paused.
    pub(in crate::sim::chain) fn was_paused(&self, node: Node) -> bool {
        self.places[node as usize].was_paused
    }

    /// Whether a node is up, and in this life.
    pub(in crate::sim::chain) fn lives(&self, node: Node, life: u32) -> bool {
        let place = &self.places[node as usize];
        place.actor.is_some() && place.life == life
    }

    pub(in crate::sim::chain) fn crash(&mut self, node: Node) {
        if self.places[node as usize].actor.is_none() {
            return;
        }
        match self.shape.role(node) {
            Role::Client(_) => self.underway.forget(node),
            Role::Replica(_) => self.end_replica(node, End::Process),
            Role::Controller(_) | Role::Operator => {}
        }
        self.places[node as usize].actor = None;
        self.places[node as usize].timer = Picos::MAX;
    }

    /// A life of a node begins, if it is not up.
    pub(in crate::sim::chain) fn begin(&mut self, node: Node) {
        if self.places[node as usize].actor.is_some() {
            return;
        }
        let now = self.read_clock(node);
        let script = Arc::clone(&self.script);
        let config = &script.config;
        self.births += 1;
        let life = self.places[node as usize].life + 1;
        let id = self.shape.id(node, life);
        let actor = match (self.shape.role(node), id) {
            (Role::Client(_), NodeId::Client(number)) => {
                let luck = random::stream(self.script.seed, number, "retransmission").next_u64();
                let client =
                    Client::new(&self.script.client_config(), number, &self.shape.all_ids(), luck, now);
                let goes_by_home = self.behind.is_some() && behind::BESIDE.contains(&node);
                let client = if goes_by_home { client.follows_homes() } else { client };
                Actor::Client(Box::new(client.reads(self.script.reads)))
            }
            (Role::Replica(id), _) => {
                let life = Incarnation(self.births);
                let Some((recovered, image, log)) = self.open_disk(node, life) else { return };
                let controllers: Vec<u16> = (0..self.shape.controllers as u16).collect();
                let machine = Replica::new(
                    config,
                    id,
                    life,
                    &controllers,
                    Key::new(u128::from(self.births).to_le_bytes()),
                    recovered,
                    now,
                    image,
                    log,
                );
                Actor::Replica(Box::new(machine.with_bugs(self.script.planted)))
            }
            (Role::Controller(number), _) => {
                let controller = Controller::standby(config, number, &self.shape.replica_ids());
                Actor::Controller(Box::new(controller.with_bugs(self.script.planted)))
            }
            (Role::Operator, NodeId::Client(number)) => {
                let Some(goal) = self.script.orders.get(self.order) else { return };
                let controllers: Vec<u16> = (0..self.shape.controllers as u16).collect();
                let operator = Operator::new(&controllers, goal.clone(), config.heartbeat, number << 32, now);
                Actor::Operator(Box::new(operator))
            }
            (Role::Client(_) | Role::Operator, _) => unreachable!("a client is known by its number"),
        };
        let place = &mut self.places[node as usize];
        (place.actor, place.life, place.id) = (Some(actor), life, id);
        (place.has_stopped, place.is_storing, place.timer) = (false, false, Picos::MAX);
        if matches!(place.actor, Some(Actor::Controller(_))) {
            self.queue.push(self.queue.now(), node, Happening::Campaign { life });
        }
        self.acted(node, &mut Out::new());
    }

    /// After each call of the operator: when it has what it wanted, or will not have it, it wants the next thing.
    pub(in crate::sim::chain) fn look_at_operator(&mut self, node: Node) {
        let Some(Actor::Operator(operator)) = &self.places[node as usize].actor else { return };
        let phase = operator.phase();
        if !matches!(phase, Phase::Done | Phase::Refused(_)) {
            return;
        }
        let goal = self.script.orders[self.order].clone();
        self.note(|_| format!("operator      {phase:?}: {goal:?}"));
        self.crash(node);
        self.order += 1;
        let after =
            Picos(random::stream(self.script.seed, self.order as u64, "order").below(self.script.lease().0));
        self.queue.push(self.now().plus(after), node, Happening::Order);
    }

    /// Who is down comes up, and no fault is left.
    pub(in crate::sim) fn calm(&mut self) {
        self.is_calm = true;
        self.network.calm();
        // An operator that is interrupted leaves a chain that is whole.
        self.shape.operator().into_iter().for_each(|operator| self.crash(operator));
        for node in 0..self.shape.controllers().end {
            for trouble in Trouble::ALL {
                self.relieve(node, trouble);
            }
            if self.behind.is_none() || node != behind::HOME {
                self.begin(node);
            }
        }
    }
}
