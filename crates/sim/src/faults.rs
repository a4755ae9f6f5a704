//! A plan of faults: what goes wrong when, for how long, drawn from a seed, and written in one line.
//!
//! Each fault is whole in itself (a crash carries the time its node stays down, a cut the time until it heals), so that a
//! shrinker may take any away and what is left still makes sense: nothing stays broken because the fault that would have mended it is
//! gone. [`Plan::steps`] turns faults into moments.
//!
//! Text, faults separated by spaces, times in picoseconds, `+∞` for what never ends:
//! ```text
//! crash@5000+200:3    cut@100+50:0-2>3,5    cut@100+50:0-2<>3    clog@9+1:1>2    weather@7+3:*>*:delay=5,lose=100
//! stranger@5+90:0-2<>3
//! power@8+100:4-6     pause@4+20:5          full@3+9:4             badsync@3+9:4  rot@5+0:4   lost@6+1:4
//! slow@3+9:4
//! ```

mod text;

use crate::network::{Effect, Links, Network, Weather};
use crate::nodes::{Node, NodeSet};
use crate::random;
use base::{Picos, Prng};

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins.
    pub at: Picos,
    /// How long it lasts; [`Picos::MAX`] for ever.
    pub lasts: Picos,
    /// What it is.
    pub what: What,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A node loses what it has in memory, and starts anew when the fault ends.
    Crash(Node),
    /// Nothing that is sent on these links gets through.
    Cut(Links),
    /// What is sent on these links waits until the fault ends.
    Clog(Links),
    /// Another weather on these links.
    Weather(Links, Weather),
    /// Somebody without a key listens on these links, and repeats and forges when the fault ends what he heard.
    Stranger(Links),
    /// The machines of these nodes lose power: as a crash of each, and their media lose what was not made durable.
    Power(NodeSet),
    /// Something is wrong with a node or its medium.
    Trouble(Node, Trouble),
}

/// What may be wrong with a node that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// It does nothing until the fault ends, and then all that came meanwhile.
    Pause,
    /// Its medium has no room for what is written.
    Full,
    /// Its medium fails to make durable what was written.
    BadSync,
    /// Bytes on its medium change, when the fault begins.
    Rot,
    /// Its medium is lost with all that is on it, when the fault begins.
    Lost,
    /// Its medium takes longer than anybody waits to make durable what was written.
    Slow,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Trouble; 6] =
        [Trouble::Pause, Trouble::Full, Trouble::BadSync, Trouble::Rot, Trouble::Lost, Trouble::Slow];

    /// As plans call it.
    pub const fn name(self) -> &'static str {
        match self {
            Trouble::Pause => "pause",
            Trouble::Full => "full",
            Trouble::BadSync => "badsync",
            Trouble::Rot => "rot",
            Trouble::Lost => "lost",
            Trouble::Slow => "slow",
        }
    }
}

impl Fault {
    /// When it ends.
    pub fn ends(&self) -> Picos {
        self.at.plus(self.lasts)
    }
}

/// What a world does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The node is gone.
    Crash(Node),
    /// The node starts, with nothing in memory.
    Restart(Node),
    /// For [`Network::begin`], with the fault's number.
    Begin(u32, Links, Effect),
    /// For [`Network::end`].
    End(u32),
    /// Media of these nodes lose what was not made durable. A crash of each that is up follows.
    Power(NodeSet),
    /// Something is wrong with the node from now on.
    Trouble(Node, Trouble),
    /// It is well again.
    Relief(Node, Trouble),
}

impl Network {
    /// Does a step that is about links; returns false for one that is about a node, which is the world's to do.
    pub fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Begin(number, links, effect) => self.begin(number, links, effect),
            Step::End(number) => self.end(number),
            Step::Crash(_) | Step::Restart(_) | Step::Power(_) | Step::Trouble(..) | Step::Relief(..) => {
                return false;
            }
        }
        true
    }
}

/// Faults, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(pub Vec<Fault>);

/// Within what a plan is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Faults begin here at the earliest.
    pub from: Picos,
    /// All have ended here: what comes after is for liveness.
    pub until: Picos,
    /// Faults at most.
    pub faults: u32,
    /// How long one lasts at most.
    pub longest: Picos,
    /// Nodes that may crash.
    pub crash: NodeSet,
    /// Nodes that may lose power and have trouble with their media.
    pub machines: NodeSet,
    /// What trouble they may have, one as likely as the other; what is there twice is twice as likely.
    pub troubles: &'static [Trouble],
    /// Nodes whose links may be cut and clogged and have weather.
    pub links: NodeSet,
    /// No weather is worse than this in anything.
    pub worst: Weather,
}

impl Plan {
    /// The plan of `seed` within `bounds`.
    pub fn draw(seed: u64, bounds: &Bounds) -> Plan {
        let mut random = random::stream(seed, 0, "faults");
        let count = random.below(u64::from(bounds.faults) + 1);
        Plan((0..count).map(|number| bounds.draw_fault(seed, number)).collect())
    }

    /// What happens when, in the order of time; at the same time, ends come first, else in the order of faults. Crashes
    /// of one node that overlap are one.
    pub fn steps(&self) -> Vec<(Picos, Step)> {
        let mut steps = Vec::new();
        for (number, fault) in (0u32..).zip(&self.0) {
            let (links, effect) = match fault.what {
                What::Crash(_) => continue,
                What::Power(nodes) => {
                    steps.push((fault.at, Step::Power(nodes)));
                    continue;
                }
                What::Trouble(node, trouble) => {
                    steps.push((fault.at, Step::Trouble(node, trouble)));
                    if fault.ends() < Picos::MAX {
                        steps.push((fault.ends(), Step::Relief(node, trouble)));
                    }
                    continue;
                }
                What::Cut(links) => (links, Effect::Cut),
                What::Clog(links) => (links, Effect::Clog(fault.ends())),
                What::Weather(links, weather) => (links, Effect::Weather(weather)),
                What::Stranger(links) => (links, Effect::Overheard),
            };
            steps.push((fault.at, Step::Begin(number, links, effect)));
            if fault.ends() < Picos::MAX {
                steps.push((fault.ends(), Step::End(number)));
            }
        }
        for (node, from, until) in self.outages() {
            steps.push((from, Step::Crash(node)));
            if until < Picos::MAX {
                steps.push((until, Step::Restart(node)));
            }
        }
        // A fault that lasts no time must begin before it ends, whence the stable order; it is found by its number.
        steps.sort_by_key(|&(at, step)| (at, self.rank(at, step)));
        steps
    }

    /// At one moment: ends of what began earlier, then begins, then ends of what began now.
    fn rank(&self, at: Picos, step: Step) -> u8 {
        match step {
            Step::Restart(_) => 0,
            Step::End(number) if self.0[number as usize].at < at => 0,
            Step::Begin(..) | Step::Crash(_) | Step::Power(_) | Step::Trouble(..) => 1,
            Step::End(_) | Step::Relief(..) => 2,
        }
    }

    /// The times in which nodes are down: none overlap or touch for the same node.
    fn outages(&self) -> Vec<(Node, Picos, Picos)> {
        let mut crashes: Vec<(Node, Picos, Picos)> = Vec::new();
        for fault in &self.0 {
            let nodes = match fault.what {
                What::Crash(node) => NodeSet::one(node),
                What::Power(nodes) => nodes,
                _ => continue,
            };
            // A node that is down for no time at all still loses its memory.
            crashes
                .extend(nodes.iter().map(|node| (node, fault.at, fault.ends().max(fault.at.plus(Picos(1))))));
        }
        crashes.sort_unstable();
        let mut outages: Vec<(Node, Picos, Picos)> = Vec::new();
        for (node, from, until) in crashes {
            match outages.last_mut() {
                Some(last) if last.0 == node && from <= last.2 => last.2 = last.2.max(until),
                _ => outages.push((node, from, until)),
            }
        }
        outages
    }
}

impl Bounds {
    /// Fault `number` has a stream of its own, so that it is the same whatever the others are.
    fn draw_fault(&self, seed: u64, number: u64) -> Fault {
        let mut random = random::stream(seed, number, "fault");
        let window = self.until.since(self.from);
        let at = self.from.plus(Picos(random.below(window.0.max(1))));
        let longest = self.longest.min(self.until.since(at));
        // As many short ones as long ones: the exponent is drawn first.
        let bits = random.below(u64::from(longest.0.max(1).ilog2()) + 1);
        let lasts = Picos(random.below(2 << bits)).min(longest);
        let crashes = u64::from(!self.crash.is_empty());
        let machines = 2 * u64::from(!self.machines.is_empty());
        let what = match random.below(3 + crashes + machines) {
            0 => What::Cut(self.draw_links(&mut random)),
            1 => What::Clog(self.draw_links(&mut random)),
            2 => What::Weather(self.draw_links(&mut random), self.worst.draw_milder(&mut random)),
            3 if crashes == 1 => What::Crash(pick(self.crash, &mut random)),
            kind if kind == 3 + crashes => What::Power(match random.below(3) {
                0 => self.machines,
                1 => self.machines.iter().filter(|_| random.below(2) == 0).collect(),
                _ => NodeSet::one(pick(self.machines, &mut random)),
            }),
            _ => {
                let node = pick(self.machines, &mut random);
                What::Trouble(node, self.troubles[random.below(self.troubles.len() as u64) as usize])
            }
        };
        Fault { at, lasts, what }
    }

    /// One link, or the links between one node and the rest, or between two halves.
    fn draw_links(&self, random: &mut Prng) -> Links {
        if self.links.is_empty() {
            return Links { from: NodeSet::EMPTY, to: NodeSet::EMPTY, both_ways: false };
        }
        let both_ways = random.below(2) == 0;
        let one = pick(self.links, random);
        match random.below(3) {
            0 => Links { both_ways, ..Links::one(one, pick(self.links, random)) },
            1 => {
                let from = NodeSet::one(one);
                Links { from, to: self.links.without(from), both_ways }
            }
            _ => {
                let from: NodeSet = self.links.iter().filter(|_| random.below(2) == 0).collect();
                Links { from, to: self.links.without(from), both_ways }
            }
        }
    }
}

/// One of `set`, which is not empty.
fn pick(set: NodeSet, random: &mut Prng) -> Node {
    let nth = random.below(u64::from(set.len())) as usize;
    set.iter().nth(nth).expect("the number is below the length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::PerMillion;
    use proptest::prelude::*;

    fn bounds() -> Bounds {
        Bounds {
            from: Picos(1_000),
            until: Picos(1_000_000),
            faults: 12,
            longest: Picos(300_000),
            crash: NodeSet::below(3),
            machines: NodeSet::EMPTY,
            troubles: &[],
            links: NodeSet::below(6),
            worst: Weather { jitter: Picos(500), lose: PerMillion(9), ..Weather::fair(Picos(10)) },
        }
    }

    #[test]
    fn the_plan_of_a_seed_is_part_of_the_contract() {
        let plan = Plan::draw(4, &bounds());
        assert_eq!(
            plan.to_string(),
            "cut@171288+3:0,2-5>1 crash@95331+2:0 crash@547464+1762:1 cut@705231+138:0-1>2-5 crash@139293+8:0 \
             crash@969711+7:2 weather@371000+42242:0,3-4>1-2,5:delay=10"
        );
    }

    #[test]
    fn it_reads_what_people_write() {
        let text = "stranger@5+90:0-2<>3 crash@5000+200:3 cut@100+50:0-2>3,5 cut@1+∞:0<>* clog@9+1:1>2 weather@7+3:*>*:delay=5,lose=100 \
                    power@8+100:4-6 pause@4+20:5 full@3+9:4 badsync@3+9:4 rot@5+0:4 lost@6+1:4 slow@3+9:4";
        let plan: Plan = text.parse().expect("good");
        assert_eq!(plan.to_string(), text);
        assert_eq!(plan.0[1], Fault { at: Picos(5_000), lasts: Picos(200), what: What::Crash(3) });
        for bad in [
            "crash",
            "crash@1+2:128",
            "crash@1:2",
            "cut@1+2:3",
            "flood@1+2:3",
            "weather@1+2:1>2",
            "cut@1+x:1>2",
        ] {
            assert!(bad.parse::<Plan>().is_err(), "{bad}");
        }
    }

    #[test]
    fn crashes_that_overlap_are_one() {
        let plan: Plan =
            "crash@10+10:1 crash@15+20:1 crash@15+1:2 crash@35+5:1 crash@50+∞:1".parse().expect("good");
        let want = [
            (10, Step::Crash(1)),
            (15, Step::Crash(2)),
            (16, Step::Restart(2)),
            (40, Step::Restart(1)),
            (50, Step::Crash(1)),
        ];
        assert_eq!(plan.steps(), want.map(|(at, step)| (Picos(at), step)));
    }

    #[test]
    fn a_power_cut_takes_media_first_and_then_nodes() {
        let plan: Plan = "power@10+5:1,2 crash@9+3:2 pause@10+0:3".parse().expect("good");
        let both: NodeSet = [1, 2].into_iter().collect();
        let want = [
            (9, Step::Crash(2)),
            (10, Step::Power(both)),
            (10, Step::Trouble(3, Trouble::Pause)),
            (10, Step::Crash(1)),
            (10, Step::Relief(3, Trouble::Pause)),
            (15, Step::Restart(1)),
            (15, Step::Restart(2)),
        ];
        assert_eq!(plan.steps(), want.map(|(at, step)| (Picos(at), step)));
    }

    proptest! {
        #[test]
        fn drawn_plans_are_in_bounds_and_round_trip(seed: u64, with_machines: bool) {
            let mut bounds = bounds();
            if with_machines {
                bounds.machines = NodeSet::below(2);
                bounds.troubles = &Trouble::ALL;
            }
            let plan = Plan::draw(seed, &bounds);
            prop_assert_eq!(plan.to_string().parse::<Plan>(), Ok(plan.clone()));
            prop_assert!(plan.0.len() <= 12);
            for fault in &plan.0 {
                prop_assert!(fault.at >= bounds.from && fault.ends() <= bounds.until && fault.lasts <= bounds.longest);
            }
        }

        #[test]
        fn what_begins_ends(seed: u64, keep: u32) {
            let mut number = 0;
            let mut plan = Plan::draw(seed, &bounds());
            plan.0.retain(|_| { number += 1; keep >> number & 1 == 1 });
            let steps = plan.steps();
            prop_assert!(steps.is_sorted_by_key(|step| step.0));
            let mut network = Network::new(1, 6, Weather::default());
            let mut down = NodeSet::EMPTY;
            for (_, step) in steps {
                match step {
                    Step::Crash(node) => {
                        prop_assert!(!down.contains(node));
                        down = down.with(node);
                    }
                    Step::Restart(node) => {
                        prop_assert!(down.contains(node));
                        down = down.without(NodeSet::one(node));
                    }
                    step => prop_assert!(network.step(step), "{step:?}"),
                }
            }
            prop_assert!(down.is_empty());
            prop_assert!((0..36).all(|i| network.reaches(i / 6, i % 6)));
        }

        #[test]
        fn reading_never_panics(text in "[a-z@+:<>=,*0-9∞ -]{0,60}") {
            if let Ok(plan) = text.parse::<Plan>() {
                prop_assert_eq!(plan.to_string().parse(), Ok(plan));
            }
        }
    }
}
