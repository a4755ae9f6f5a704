//! What a seed draws of replicas behind homes, and how nodes of their chains are numbered: after the cluster's, one chain after the other.

use super::super::bugs::Bug;
use super::super::chain::behind;
use super::super::chain::{Script, Shape};
use super::super::homes::Homes;
use super::super::nodes::Numbers;
use base::{Nanos, Picos};
use sim::NodeSet;
use sim::faults::{Fault, Step, What};
use sim::network::Links;
use sim::nodes::Node;
use sim::random;
use std::sync::Arc;

/// One run over chains in so many has replicas.
const ONE_IN: u64 = 3;
/// In one of so many of these there are spares.
const MOVES_ONE_IN: u64 = 2;
/// Spares, then.
const SPARES: u32 = 2;

/// The chains of a run.
#[derive(Clone, Debug)]
pub struct Replicas {
    pub(super) shape: Shape,
    /// Of each home, in their order.
    pub(super) scripts: Vec<Arc<Script>>,
    /// The first node of the first chain.
    first: Node,
}

impl Replicas {
    /// If a run of this seed has some. A bug of replicas needs them, and one of maps needs maps.
    pub fn draw(
        seed: u64,
        numbers: &Numbers,
        (ops, until): (usize, Picos),
        (homes, planted): (Homes, Option<Bug>),
    ) -> Option<Replicas> {
        let mut random = random::stream(seed, 0, "replicas of chains");
        let is_drawn = random.below(ONE_IN) == 0;
        let are_wanted = match planted {
            Some(Bug::Replica(_)) => true,
            Some(Bug::Chain(_)) => false,
            _ => is_drawn,
        };
        if homes != Homes::Chained || !are_wanted {
            return None;
        }
        let spares = if random.below(MOVES_ONE_IN) == 0 { SPARES } else { 0 };
        let (replicas, controllers) = (2 + random.below(2) as u32, 1 + random.below(2) as u32);
        let shape =
            Shape { replicas, clients: behind::CLIENTS, spares, controllers, homes: 0, keys: Some(1) };
        let planted = planted.and_then(Bug::in_replica);
        let script = |home: Node| {
            let seed = random::stream(seed, u64::from(home), "chain's seed").next_u64();
            Arc::new(Script::behind_home(seed, &shape, (ops, until), planted))
        };
        let scripts = numbers.homes().map(script).collect();
        Some(Replicas { shape, scripts, first: numbers.count() })
    }

    /// What goes wrong with them.
    pub fn faults(&self) -> Vec<Fault> {
        let of_one = |(i, script): (u32, &Arc<Script>)| {
            let first = self.first + i * self.shape.count();
            let away = move |node: Node| node + first;
            let mine = NodeSet::below(self.shape.count());
            let set = move |nodes: NodeSet| {
                nodes.iter().filter(|node| mine.contains(*node)).map(away).collect::<NodeSet>()
            };
            let faults = script.plan.0.clone();
            faults.into_iter().map(move |fault| Fault { what: renumbered(fault.what, &away, &set), ..fault })
        };
        (0..).zip(&self.scripts).flat_map(of_one).collect()
    }

    /// Which chain a step is about, and there. One that is about all links is the cluster's.
    pub(super) fn step(&self, step: Step) -> Vec<(usize, Step)> {
        let count = self.shape.count();
        let mine = |i: usize| {
            let first = self.first + i as u32 * count;
            let place = move |node: Node| node.checked_sub(first).filter(|node| *node < count);
            let set = |nodes: NodeSet| nodes.iter().filter_map(place).collect::<NodeSet>();
            let there = match step {
                Step::Crash(node) => Step::Crash(place(node)?),
                Step::Restart(node) => Step::Restart(place(node)?),
                Step::Trouble(node, trouble) => Step::Trouble(place(node)?, trouble),
                Step::Relief(node, trouble) => Step::Relief(place(node)?, trouble),
                Step::Power(nodes) => Step::Power(Some(set(nodes)).filter(|nodes| !nodes.is_empty())?),
                Step::Begin(_, links, _) if links.from == NodeSet::ALL && links.to == NodeSet::ALL => {
                    return None;
                }
                Step::Begin(number, links, effect) => {
                    let (from, to) = (set(links.from), set(links.to));
                    if from.is_empty() && to.is_empty() {
                        return None;
                    }
                    Step::Begin(number, Links { from, to, ..links }, effect)
                }
                Step::End(number) => Step::End(number),
            };
            Some((i, there))
        };
        (0..self.scripts.len()).filter_map(mine).collect()
    }

    /// Nodes of all chains.
    pub fn count(&self) -> u32 {
        self.scripts.len() as u32 * self.shape.count()
    }

    /// In a trace.
    pub fn name(&self, node: Node) -> Option<String> {
        let node = node.checked_sub(self.first).filter(|node| *node < self.count())?;
        let (chain, node) = (node / self.shape.count(), node % self.shape.count());
        Some(format!("{} of chain {}", self.shape.name(node), chain + 1))
    }

    /// Which numbers are what, after what the cluster's are.
    pub fn legend(&self) -> String {
        let count = self.shape.count();
        let of_one = |i: u32| {
            let range = |nodes: std::ops::Range<Node>| {
                nodes.map(|node| node + self.first + i * count).collect::<NodeSet>().to_string()
            };
            let (shape, number) = (&self.shape, i + 1);
            let operator = shape
                .operator()
                .map_or(String::new(), |node| format!(", its operator {}", node + self.first + i * count));
            format!(
                "; of chain {number} the clients of home {number} {}, replicas {}, controllers {}{operator}",
                range(shape.clients()),
                range(shape.replicas()),
                range(shape.controllers())
            )
        };
        (0..self.scripts.len() as u32).map(of_one).collect()
    }

    fn longest(&self, of: impl Fn(&Script) -> Picos) -> Picos {
        self.scripts.iter().map(|script| of(script)).max().unwrap_or(Picos::ZERO)
    }

    /// After this all replicas are in their chains, and homes have claimed them.
    pub fn recovery(&self) -> Picos {
        self.longest(|script| script.recovery().plus(Picos(2 * script.bound().0)))
    }

    /// So much longer something takes that is asked when all is well, or when a replica has just died.
    pub fn bound(&self) -> Picos {
        self.longest(Script::bound_after_death)
    }

    /// So much longer clients wait: a replica may have to be left out.
    pub fn patience(&self) -> Nanos {
        Nanos(self.bound().0 / 1_000)
    }
}

fn renumbered(what: What, node: &impl Fn(Node) -> Node, set: &impl Fn(NodeSet) -> NodeSet) -> What {
    let links = |links: Links| Links { from: set(links.from), to: set(links.to), ..links };
    match what {
        What::Crash(of) => What::Crash(node(of)),
        What::Cut(of) => What::Cut(links(of)),
        What::Clog(of) => What::Clog(links(of)),
        What::Weather(of, weather) => What::Weather(links(of), weather),
        What::Stranger(of) => What::Stranger(links(of)),
        What::Power(of) => What::Power(set(of)),
        What::Trouble(of, trouble) => What::Trouble(node(of), trouble),
    }
}
