//! What a seed draws before anything runs: bounds and times of the machines, keys, operations, and the plan of faults.
//!
//! Each operation is drawn from a stream of its own, as each fault is, so that a shrinker may take any away and the others stay what
//! they are.
//!
//! Times are short against the leases, so that much goes wrong in few events: a lease is 6 to 20 ms, an operation begins every
//! 0.2 to 0.6 ms, most of a fault's ways to be late are about a lease long.

use super::bugs::Bug;
use super::drains;
use super::flushes::{self, PutOff};
use super::homes::Homes;
use super::moves::{self, Move};
use super::nodes::Numbers;
use super::ranges;
use super::replicas::Replicas;
use super::replies::Method;
use super::topology::{MOST_KEYS, Topology};
use super::transactions;
use super::workload::{self, Workload};
use base::key::Key;
use base::{Nanos, Picos, Prng};
use protocol::chain::Transaction;
use protocol::coherence::client::Call;
use protocol::coherence::holders::Boxes;
use protocol::coherence::ranges::Ranges;
use protocol::coherence::table::Layout;
use protocol::coherence::{Compute, Config, Policy};
use protocol::wire::Verb;
use sim::faults::{Bounds, Fault, Plan, Trouble, What};
use sim::network::{Links, PerMillion, Weather};
use sim::nodes::Node;
use sim::{NodeSet, random};
use std::sync::Arc;

/// What a message takes where nothing is wrong.
pub const DELAY: Picos = Picos::from_micros(20);
/// Between two operations, on average, one of these.
const GAPS: [Picos; 3] = [Picos::from_micros(200), Picos::from_micros(300), Picos::from_micros(600)];
/// Percent of reads that a box must answer: with the last a few that it does not send a client past it.
const WORTHS: [u32; 4] = [0, 10, 90, 99];
/// Ends of homes that are nodes, and troubles of their disks, at most.
const MOST_ENDS: u64 = 5;
/// Bytes of a log: some seconds' worth, or so little that there are many snapshots.
const LOGS: [usize; 3] = [4 << 10, 6 << 10, 32 << 10];
/// A sync takes less than one of these, mostly.
const SYNCS: [Picos; 3] = [Picos::from_micros(20), Picos::from_micros(100), Picos::from_micros(300)];
/// Syncs that an operation waits for, one after the other, at most: its own, and those of what it must be told of, at each message.
const MOST_SYNCS: u64 = 12;
/// Faults at most, besides the weather.
const FAULTS: u32 = 6;

/// Something to be done.
#[derive(Clone, Debug)]
pub struct Intent {
    /// When.
    pub at: Picos,
    /// By which client.
    pub client: Node,
    /// What.
    pub want: Want,
    /// Not by that client, but by one of another protocol, at the key's home itself; a flush, at all homes.
    pub by_ticket: bool,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub enum Want {
    /// An operation on a key; a CAS expects the version that its client saw last.
    Call(Call),
    /// Every home is to forget everything.
    Flush,
    /// The home of a key forgets it, as a full store would. By no client.
    Evict(Vec<u8>),
    /// A method whose replies may be kept, or one that writes what they are about: see `replies`.
    Method(Method),
    /// A transaction, of keys of one home, by a client beside that home; or straight to the chain, which is to refuse it.
    Transaction { transaction: Transaction, is_stray: bool },
}

impl Want {
    /// The same where homes are such. Of a minimum, a maximum and bits it is seen at a home with a table whether they changed something; a node says it to
    /// nobody.
    fn at(self, homes: Homes) -> Want {
        match self {
            Want::Call(mut call)
                if homes != Homes::Bare && matches!(call.verb, Verb::Min | Verb::Max | Verb::Or) =>
            {
                (call.verb, call.operand) = (Verb::Incr, 1 + call.operand % 5);
                Want::Call(call)
            }
            want => want,
        }
    }
}

/// All that is drawn.
#[derive(Clone, Debug)]
pub struct Script {
    /// Of what.
    pub seed: u64,
    /// For all machines.
    pub config: Config,
    /// By which nodes and clients prove who they are; in half of all runs there is none.
    pub key: Option<Key>,
    /// In half of all runs, not where all want one key, a third of the operations is done by clients of another protocol.
    pub has_tickets: bool,
    /// In three of four runs of homes over chains a quarter of the operations is transactions.
    pub has_transactions: bool,
    /// In half of all runs the boxes lend what they own to faster tiers.
    pub has_fast_tiers: bool,
    /// Of each box; in half of all runs several, each with a machine of its own.
    pub cores: u8,
    /// The topology's, with where copies may be kept at first.
    pub layout: Arc<Layout>,
    /// When all controllers are told that they may be kept elsewhere.
    pub ranges: Vec<(Picos, Ranges)>,
    /// When all controllers are told which boxes are to be stopped.
    pub drains: Vec<(Picos, Boxes)>,
    /// When homes go on elsewhere.
    pub moves: Vec<Move>,
    /// Flushes that are put off at homes.
    pub flushes: Vec<PutOff>,
    /// What homes are.
    pub homes: Homes,
    /// Bytes of the logs of homes that have one, and what their disks take for a sync, mostly.
    pub disk: (usize, Picos),
    /// The replicas behind homes over chains, in a third of their runs; else there are maps.
    pub replicas: Option<Replicas>,
    /// What is wrong with them on purpose.
    pub planted: Option<Bug>,
    /// In the order of their names.
    pub keys: Vec<Vec<u8>>,
    /// In no order.
    pub intents: Vec<Intent>,
    /// What goes wrong.
    pub plan: Plan,
    /// Then everything is well again.
    pub until: Picos,
}

impl Script {
    /// Of this seed, with so many operations.
    pub fn draw(
        seed: u64,
        topology: &Topology,
        ops: usize,
        (homes, planted): (Homes, Option<Bug>),
    ) -> Script {
        let mut random = random::stream(seed, 0, "script");
        let worth = one_of(&mut random::stream(seed, 0, "worth"), &WORTHS);
        let config = Config { worth, ..draw_config(&mut random, ops) };
        // In some runs all want one key, and everything comes late and twice: what is old meets what is new.
        let is_crowded = random.below(4) == 0;
        let count = match topology.keys {
            Some(count) => count,
            None if is_crowded => 1,
            // Few more often than many: more happens to each.
            None => 1 + draw_twice_below(&mut random, MOST_KEYS),
        };
        let keys: Vec<_> = (0..count).map(|i| format!("k{i}").into_bytes()).collect();
        let until = Picos(one_of(&mut random, &GAPS).0 * ops.max(1) as u64);
        let numbers = Numbers::of(topology);
        let key = draw_key(seed);
        let mut plan = draw_plan(seed, &mut random, &config, &numbers, (until, is_crowded));
        plan.0.extend(key.iter().flat_map(|_| draw_strangers(seed, &numbers, until)));
        if homes != Homes::Bare {
            plan.0.extend(draw_ends(seed, &numbers, (homes, until, config.lease)));
        }
        let mix = workload::mix_of(seed, homes, is_crowded);
        let workload = Workload::draw(&mut random, &keys, &config, mix);
        let clients = u64::from(numbers.clients().end);
        let has_tickets = !is_crowded && random::stream(seed, 0, "tickets").below(2) == 0;
        let has_transactions =
            homes == Homes::Chained && random::stream(seed, 0, "transactions").below(4) > 0;
        let has_fast_tiers = random::stream(seed, 0, "fast tiers").below(2) == 0;
        let (layout, ranges) = ranges::draw(seed, topology, until);
        let moves = moves::draw(seed, topology, (until, config.lease), homes);
        let draw = |i: usize| {
            let mut random = random::stream(seed, i as u64, "operation");
            let (at, client) = (Picos(random.below(until.0)), random.below(clients));
            let want = workload.draw_want(&mut random, i).at(homes);
            let client = workload.draw_client(&mut random, &want, client, clients) as Node;
            let by_ticket = has_tickets && random::stream(seed, i as u64, "by ticket").below(3) == 0;
            let want =
                if has_transactions { transactions::draw(seed, i, want, (&keys, &layout)) } else { want };
            Intent { at, client, want, by_ticket }
        };
        let intents = (0..ops).map(draw).collect();
        Script {
            seed,
            intents,
            config,
            key,
            has_tickets,
            has_transactions,
            has_fast_tiers,
            cores: draw_cores(seed),
            layout,
            ranges,
            drains: drains::draw(seed, topology, until),
            moves,
            flushes: flushes::draw(seed, &numbers, until, homes),
            homes,
            disk: draw_disk(seed),
            replicas: None,
            planted,
            keys,
            plan,
            until,
        }
        .over(Replicas::draw(seed, &numbers, (ops, until), (homes, planted)))
    }

    /// The same over these replicas, with what goes wrong there; clients wait for longer.
    fn over(mut self, replicas: Option<Replicas>) -> Script {
        if let Some(replicas) = &replicas {
            self.plan.0.extend(replicas.faults());
            self.config.patience = self.config.patience.plus(replicas.patience());
        }
        self.replicas = replicas;
        self
    }

    /// An operation that nothing hinders has ended after this: a lease, a retransmission, and the way.
    pub fn bound(&self) -> Picos {
        let lease = self.config.lease.0 + self.config.lease.0 / 50;
        let syncs = if self.homes.survive() { MOST_SYNCS * self.disk.1.0 } else { 0 };
        let usual =
            Picos::from(Nanos(lease + 2 * self.config.retransmit_max.0)).plus(Picos(40 * DELAY.0 + syncs));
        usual.plus(self.replicas.as_ref().map_or(Picos::ZERO, Replicas::bound))
    }
}

pub(super) fn one_of<T: Copy>(random: &mut Prng, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn draw_config(random: &mut Prng, ops: usize) -> Config {
    let lease = Nanos::from_millis(one_of(random, &[6, 12, 20]));
    let retransmit = Nanos::from_millis(one_of(random, &[1, 2, 4]));
    Config {
        lease,
        min_grant: Nanos(lease.0 / 20),
        retransmit,
        retransmit_max: Nanos(retransmit.0 * 4),
        policy: one_of(random, &[Policy::Inclusive, Policy::Inclusive, Policy::Exclusive]),
        admission: one_of(random, &[0, 0, 0, 2]),
        copies: one_of(random, &[2, 4, 16]),
        fills: one_of(random, &[8, 64]),
        fill_patience: lease,
        holders: one_of(random, &[3, 64]),
        rounds: 128,
        queue: 4 * ops + 64,
        queue_per_key: 4 * ops + 64,
        sessions: 64,
        window: one_of(random, &[4, 64]),
        operations: ops + 64,
        patience: Nanos(3 * lease.0 + 20_000_000),
        bypass: lease,
        worth: 0,
        compute: one_of(
            random,
            &[Compute::TryFirst, Compute::TryFirst, Compute::AtHome, Compute::Own, Compute::Own],
        ),
        owned: one_of(random, &[1, 64]),
        heartbeat: Nanos::from_millis(12),
        health: Nanos::from_millis(30),
    }
}

/// A number below `bound`, small ones more likely.
fn draw_twice_below(random: &mut Prng, bound: u64) -> u64 {
    let below = 1 + random.below(bound);
    random.below(below)
}

/// The weather is the plan's first fault, so that it can be taken away like any other.
fn draw_plan(
    seed: u64,
    random: &mut Prng,
    config: &Config,
    numbers: &Numbers,
    (until, is_crowded): (Picos, bool),
) -> Plan {
    let lease = Picos::from(config.lease);
    let rough = Weather {
        delay: DELAY,
        jitter: Picos::from_micros(200),
        late: PerMillion::percent(12),
        late_by: Picos(lease.0 * 3 / 2),
        lose: PerMillion::percent(8),
        double: PerMillion::percent(10),
        damage: PerMillion::percent(3),
    };
    let belated = Weather {
        late: PerMillion::percent(40),
        lose: PerMillion::percent(0),
        double: PerMillion::percent(40),
        ..rough
    };
    let (is_fair, nobody_dies) = (random.below(8) == 0, random.below(4) == 0);
    let weather = match (is_crowded, is_fair) {
        (true, _) => Some(belated),
        (false, true) => None,
        (false, false) => Some(rough.draw_milder(random)),
    };
    let everywhere =
        |weather| Fault { at: Picos::ZERO, lasts: until, what: What::Weather(Links::ALL, weather) };
    let mut faults: Vec<Fault> = weather.into_iter().map(everywhere).collect();
    let worst = if is_crowded { belated } else { rough };
    let bounds = Bounds {
        from: Picos(1),
        until,
        faults: FAULTS,
        longest: Picos(2 * lease.0),
        crash: if nobody_dies || is_crowded { NodeSet::EMPTY } else { numbers.all() },
        machines: NodeSet::EMPTY,
        troubles: &[],
        links: numbers.all(),
        worst,
    };
    faults.extend(Plan::draw(seed, &bounds).0);
    Plan(faults)
}

/// Cores of each box.
fn draw_cores(seed: u64) -> u8 {
    let mut random = random::stream(seed, 0, "cores");
    if random.below(2) == 0 { 1 } else { 2 + random.below(3) as u8 }
}

/// How large a home's log is, and how long making it durable takes.
fn draw_disk(seed: u64) -> (usize, Picos) {
    let mut random = random::stream(seed, 0, "disk");
    (one_of(&mut random, &LOGS), one_of(&mut random, &SYNCS))
}

fn draw_key(seed: u64) -> Option<Key> {
    let mut random = random::stream(seed, 0, "key");
    let bytes = std::array::from_fn(|_| random.below(256) as u8);
    (random.below(2) == 0).then(|| Key::new(bytes))
}

/// Ends of homes that are nodes, most of them short; and, where they have logs, disks that are slow or fail.
fn draw_ends(
    seed: u64,
    numbers: &Numbers,
    (homes, until, lease): (Homes, Picos, Nanos),
) -> impl Iterator<Item = Fault> {
    let mut random = random::stream(seed, 0, "ends of homes");
    let all = numbers.homes();
    let kinds = match homes {
        Homes::Logged => 5,
        // A chain is slow while it lacks a replica.
        Homes::Chained => 4,
        Homes::Bare | Homes::Cache => 1,
    };
    (0..random.below(MOST_ENDS + 1)).flat_map(move |_| {
        let node = all.start + random.below(u64::from(all.end - all.start)) as Node;
        let at = Picos(1 + random.below(until.0 - 1));
        let lasts = Picos(random.below(Picos::from(lease).0)).min(until.since(at));
        let (what, dies_within) = match random.below(kinds) {
            3 => (What::Trouble(node, Trouble::Slow), random.below(4) > 0),
            4 => (
                What::Trouble(
                    node,
                    [Trouble::BadSync, Trouble::Full, Trouble::Rot][random.below(3) as usize],
                ),
                false,
            ),
            _ => (What::Crash(node), false),
        };
        // What a slow disk has not done is best lost while it has not.
        let end = at.plus(Picos(random.below(lasts.0 + 1)));
        let death =
            Fault { at: end, lasts: Picos(lasts.0 / 4).min(until.since(end)), what: What::Crash(node) };
        [Fault { at, lasts, what }].into_iter().chain(dies_within.then_some(death))
    })
}

/// Somebody who has no key, on any of the links for some of the time.
fn draw_strangers(seed: u64, numbers: &Numbers, until: Picos) -> impl Iterator<Item = Fault> {
    let mut random = random::stream(seed, 0, "strangers");
    let all = numbers.all();
    (0..random.below(4)).map(move |_| {
        let at = Picos(1 + random.below(until.0 / 2));
        let lasts = Picos(1 + random.below(until.since(at).0 - 1));
        Fault { at, lasts, what: What::Stranger(Links { from: all, to: all, both_ways: false }) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_another_does_not() {
        let topology: Topology = "rooted".parse().expect("a name");
        let draw = |seed| format!("{:?}", Script::draw(seed, &topology, 10, Default::default()));
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn plans_end_before_the_liveness_phase() {
        let topology: Topology = "tree".parse().expect("a name");
        for seed in 0..50 {
            let script = Script::draw(seed, &topology, 50, Default::default());
            script.config.check().expect("a configuration that works");
            assert!(script.plan.0.iter().all(|fault| fault.ends() <= script.until), "{}", script.plan);
            assert!(script.intents.iter().all(|intent| intent.at < script.until));
        }
    }
}
