//! Routes as programs: the hops of all parts between clients and who answers, in one row.

use super::piece::{Door, Hop, Offer, Passed, Round, Server, Told, Way};
use super::{Between, Layer, Machine, arguments, caches};
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::kernel::{ProgramId, Step};
use crate::system::host::Link;
use crate::workload::Class;

/// One of everything, and which layers of caches take part.
struct Route<'m> {
    machine: &'m Machine,
    /// Of several side by side the one of this number, modulo how many there are.
    lane: usize,
    /// Of each layer.
    taking_part: &'m [bool],
    link: Link,
}

impl<'m> Route<'m> {
    fn server(&self) -> &'m Server {
        let all = &self.machine.servers;
        &all[self.lane % all.len()]
    }

    fn cache(&self, layer: &'m Layer) -> &'m dyn Passed {
        &*layer.boxes[self.lane % layer.boxes.len()]
    }

    /// The layer, if this is one that takes part.
    fn taking_part(&self, one: &'m Between) -> Option<&'m Layer> {
        match one {
            Between::Boxes(layer) if self.taking_part[layer.number] => Some(layer),
            _ => None,
        }
    }

    fn pass(&self, one: &'m Between, bytes: u64, is_forth: bool) -> Vec<Step> {
        match one {
            Between::Link(all) => {
                let link = &all[self.lane % all.len()];
                vec![if is_forth { link.send(bytes) } else { link.reply(bytes) }]
            }
            Between::Boxes(layer) => {
                let cache = self.cache(layer);
                let mut steps = cache.pass(bytes);
                if self.taking_part(one).is_some() {
                    steps.extend(cache.enter(bytes));
                    steps.extend(cache.leave(bytes));
                }
                steps
            }
        }
    }

    /// Over all of these, the clients' first.
    fn forth(&self, all: &'m [Between], bytes: u64) -> Vec<Step> {
        all.iter().flat_map(|one| self.pass(one, bytes, true)).collect()
    }

    /// Back over all of these, the clients' last.
    fn back(&self, all: &'m [Between], bytes: u64) -> Vec<Step> {
        all.iter().rev().flat_map(|one| self.pass(one, bytes, false)).collect()
    }

    /// A round to the server and back; `told` comes before the reply leaves.
    fn round(&self, class: &Class, round: &Round, told: Option<Step>) -> Vec<Step> {
        let Round { door, request, reply, .. } = *round;
        let class = Class { request, reply, ..class.clone() };
        let asked = self.machine.clients.asks(&class, self.link, door);
        let hop = self.server().hop(door, request, reply);
        let between = &self.machine.between;
        let served = round.steps.iter().copied().chain(told).collect();
        let (forth, back) = (self.forth(between, request), self.back(between, reply));
        [asked.forth, forth, hop.forth, served, hop.back, back, asked.card, hop.acknowledged, asked.back]
            .concat()
    }

    /// The layer that is at this place between, and what is before it.
    fn split(&self, layer: usize) -> (&'m [Between], &'m Layer, &'m [Between]) {
        let between = &self.machine.between;
        let is_it = |one: &Between| matches!(one, Between::Boxes(of) if of.number == layer);
        let at = between.iter().position(is_it).expect("a layer is between");
        let Between::Boxes(of) = &between[at] else { unreachable!("it was found as a layer") };
        (&between[..at], of, &between[at + 1..])
    }

    /// A request that a box of this layer answers.
    fn at_box(&self, class: &Class, layer: usize) -> Vec<Step> {
        let asked = self.machine.clients.asks(class, self.link, Door::Cores);
        let (before, of, _) = self.split(layer);
        let cache = self.cache(of);
        let (request, reply) = (class.request, class.reply);
        let here = [cache.pass(request), cache.enter(request), cache.leave(reply)].concat();
        [asked.forth, self.forth(before, request), here, self.back(before, reply), asked.card, asked.back]
            .concat()
    }

    /// The server has the box of this layer, the first that takes part, drop a copy: with a key to there, without one back.
    fn invalidation(&self, layer: usize) -> Vec<Step> {
        let Told { key, bare } = self.machine.told;
        let server = self.server();
        let Hop { forth, back, .. } = server.hop(Door::Cores, bare, key);
        let (_, of, beyond) = self.split(layer);
        let cache = self.cache(of);
        let there = [cache.pass(key), cache.enter(key), cache.leave(bare)].concat();
        let answer = beyond.iter().flat_map(|one| match self.taking_part(one) {
            Some(layer) => [self.cache(layer).pass(bare), self.cache(layer).bounce(bare)].concat(),
            None => self.pass(one, bare, true),
        });
        [server.tells.clone(), back, self.back(beyond, key), there, answer.collect(), forth].concat()
    }
}

impl Machine {
    /// The routes, as alternatives.
    pub(super) fn setting(mut self) -> Setting {
        let mut alternatives = Vec::new();
        for offer in 0..self.servers[0].offers.len() {
            for taking_part in self.layers_that_take_part(offer) {
                alternatives.push(self.alternative(offer, &taking_part));
            }
        }
        let places = self.workload.places.clone();
        let allows = |place: Place| places.as_ref().is_none_or(|all| all.contains(&place));
        alternatives.retain(|(_, through)| through.iter().all(|place| allows(*place)));
        Setting {
            alternatives: alternatives.into_iter().map(|(alternative, _)| alternative).collect(),
            host_cores: self.servers.iter().flat_map(|server| server.host_cores.iter().copied()).collect(),
            power: self.power.unwrap_or_default(),
            arguments: arguments(&self.servers),
            kernel: self.kernel,
        }
    }

    fn layers(&self) -> Vec<&Layer> {
        self.between.iter().filter_map(Between::layer).collect()
    }

    /// None, each alone, all: where there is something that they may answer, and it comes in messages that they can read.
    fn layers_that_take_part(&self, offer: usize) -> Vec<Vec<bool>> {
        let count = self.layers().len();
        let mut all = vec![vec![false; count]];
        let is_cacheable = self.workload.classes.iter().any(|class| class.cacheable);
        if count == 0 || !is_cacheable || self.servers[0].offers[offer].link != Link::Udp {
            return all;
        }
        all.extend((0..count).map(|one| (0..count).map(|layer| layer == one).collect()));
        if count > 1 {
            all.push(vec![true; count]);
        }
        all
    }

    /// How many of the part that there are most of: so many lanes.
    fn lanes(&self) -> usize {
        let counts = self.between.iter().map(|one| match one {
            Between::Link(all) => all.len(),
            Between::Boxes(layer) => layer.boxes.len(),
        });
        counts.chain([self.servers.len()]).max().unwrap_or(1)
    }

    /// An alternative, and the places that its requests may come to.
    fn alternative(&mut self, offer: usize, taking_part: &[bool]) -> (Alternative, Vec<Place>) {
        let names: Vec<String> = self
            .layers()
            .iter()
            .zip(taking_part)
            .filter(|(_, is)| **is)
            .map(|(layer, _)| layer.name.clone())
            .collect();
        let Offer { name, what, place, .. } = self.servers[0].offers[offer].clone();
        let lanes = self.lanes();
        let mut parts = Vec::new();
        for lane in 0..lanes {
            for class in 0..self.workload.classes.len() {
                parts.extend(self.class_parts((offer, class), lane, taking_part).into_iter().map(
                    |(share, program)| {
                        let of = &self.workload.classes[class];
                        Part { class: of.name.clone(), share: of.share * share / lanes as f64, program }
                    },
                ));
            }
        }
        if names.is_empty() {
            return (Alternative { name, what, place, parts }, vec![place]);
        }
        let boxes = names.join(" and ");
        let what = format!("{boxes} answers what it has; the rest: {what}");
        let through = vec![Place::NetworkBox, place];
        (
            Alternative { name: format!("{boxes}, else {name}"), what, place: Place::NetworkBox, parts },
            through,
        )
    }

    /// A class's operations in a lane: those that boxes answer, and the others.
    fn class_parts(
        &mut self,
        (offer, class): (usize, usize),
        lane: usize,
        taking_part: &[bool],
    ) -> Vec<(f64, ProgramId)> {
        let mut programs: Vec<(f64, Vec<Step>)> = Vec::new();
        let of = &self.workload.classes[class];
        let route = |machine| Route { machine, lane, taking_part, link: self.servers[0].offers[offer].link };
        let mut left = 1.0;
        if of.cacheable {
            let layers: Vec<_> = (0..taking_part.len()).filter(|layer| taking_part[*layer]).collect();
            let all = self.layers();
            let each;
            (each, left) = caches::answered(1.0, layers.iter().map(|layer| all[*layer].could));
            for (layer, share) in layers.iter().zip(each) {
                programs.push((share, route(self).at_box(of, *layer)));
            }
        }
        let first = taking_part.iter().position(|takes_part| *takes_part);
        let held = match first {
            Some(layer) if of.store > 0 => self.layers()[layer].could.hold,
            _ => 0.0,
        };
        let mut each = None;
        if let Some(layer) = first.filter(|_| held > 0.0) {
            let (count, steps) = (self.layers()[layer].boxes.len(), route(self).invalidation(layer));
            each = Some(Step::Each(self.kernel.program("invalidation", steps), count as u32));
        }
        let server = &self.servers[lane % self.servers.len()];
        let of = &self.workload.classes[class];
        let route = Route { machine: self, lane, taking_part, link: server.offers[offer].link };
        let whole = |way: &Way, told: Option<Step>| {
            let last = way.rounds.len() - 1;
            let rounds = way.rounds.iter().enumerate();
            let of = |(at, round): (usize, &Round)| route.round(of, round, told.filter(|_| at == last));
            rounds.flat_map(of).collect::<Vec<_>>()
        };
        for way in &server.offers[offer].ways[class] {
            programs.push((left * way.share * (1.0 - held), whole(way, None)));
            if each.is_some() {
                programs.push((left * way.share * held, whole(way, each)));
            }
        }
        let name = of.name.clone();
        let programs = programs.into_iter().filter(|(share, _)| *share > 0.0);
        programs.map(|(share, steps)| (share, self.kernel.program(&name, steps))).collect()
    }
}
