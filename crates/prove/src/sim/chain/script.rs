//! What a seed draws before anything runs: bounds and times of the machines, media, keys, transactions, and the plan of faults.
//!
//! Each transaction is drawn from a stream of its own, as each fault is, so that a shrinker may take any away and the others stay what they
//! are. Every transaction that writes can be told from all others by what it writes: values differ, and so do amounts.

use super::shape::{MOST_KEYS, Shape};
use base::{Nanos, Picos, Prng};
use protocol::chain::claim::CLAIM;
use protocol::chain::client::Reads;
use protocol::chain::operator::Goal;
use protocol::chain::transaction::{Change, Condition};
use protocol::chain::{Claim, Config, Durability, Planted, ReplicaAddress, ReplicaId, Slots, Transaction};
use sim::faults::{Bounds, Fault, Plan, Trouble, What};
use sim::network::{Links, PerMillion, Weather};
use sim::nodes::Node;
use sim::workload::Mix;
use sim::{NodeSet, random};

/// What a message takes where nothing is wrong.
pub const DELAY: Picos = Picos::from_micros(20);
/// Between two operations, on average, one of these.
const GAPS: [Picos; 3] = [Picos::from_micros(200), Picos::from_micros(400), Picos::from_micros(800)];
/// Faults at most, besides the weather.
const FAULTS: u32 = 6;
/// Orders at most, where there are spares.
const ORDERS: u32 = 8;
/// What a client has under way at most that is told from outside what to do: more than a home has.
const CLIENT_WINDOW: usize = 1024;
/// Sessions that a chain behind a home has room for: more than its clients open in all their lives.
const SESSIONS: usize = 64;
/// A transaction under this claim is under the last one that its client made, if it made one.
pub const OWN: u64 = u64::MAX;
/// A precondition on this version stands for one on the version that its client saw last.
pub const SEEN: u64 = u64::MAX;

/// Something to be done.
#[derive(Clone, Debug)]
pub struct Intent {
    /// When.
    pub at: Picos,
    /// By which client.
    pub client: Node,
    /// What.
    pub transaction: Transaction,
}

/// A replica's media.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// What they survive.
    pub class: Durability,
    /// Bytes that the log has for records.
    pub log: usize,
    /// How long making something durable takes at most.
    pub sync: Picos,
    /// A checkpoint is made after so many entries.
    pub checkpoint: u64,
}

/// All that is drawn.
#[derive(Clone, Debug)]
pub struct Script {
    /// Of what.
    pub seed: u64,
    /// For all machines.
    pub config: Config,
    /// The mistake that they make.
    pub planted: Option<Planted>,
    /// Of each replica.
    pub disks: Vec<Disk>,
    /// Whom clients ask who only read.
    pub reads: Reads,
    /// In the order of their names.
    pub keys: Vec<Vec<u8>>,
    /// In no order.
    pub intents: Vec<Intent>,
    /// What goes wrong.
    pub plan: Plan,
    /// What the operator wants, one after the other.
    pub orders: Vec<Goal>,
    /// Then everything is well again.
    pub until: Picos,
    /// What a client has under way at most.
    client_window: usize,
}

impl Script {
    /// Of this seed, with so many transactions.
    pub fn draw(seed: u64, shape: &Shape, ops: usize, planted: Option<Planted>) -> Script {
        let mut random = random::stream(seed, 0, "chain script");
        let config = draw_config(&mut random, shape.clients as usize, ops);
        let count = shape.keys.unwrap_or_else(|| 1 + draw_twice_below(&mut random, MOST_KEYS));
        let keys: Vec<_> = (0..count).map(|i| format!("k{i}").into_bytes()).collect();
        let until = Picos(one_of(&mut random, &GAPS).0 * ops.max(1) as u64);
        let all = NodeSet::below(shape.count());
        let plan = draw_plan(seed, &mut random, &config, shape, (until, all));
        let usual = one_of(&mut random, &CLASSES);
        let disks = (0..shape.replicas + shape.spares).map(|_| draw_disk(&mut random, usual)).collect();
        let workload = Workload::draw(&mut random, &keys);
        let draw = |i: usize| {
            let mut random = random::stream(seed, i as u64, "transaction");
            let at = Picos(random.below(until.0));
            let client = random.below(shape.clients.into()) as Node;
            let transaction = workload.draw_transaction(&mut random, i);
            Intent { at, client, transaction: draw_claim(seed, shape, i, client, transaction) }
        };
        let reads = one_of(&mut random, &[Reads::Tail, Reads::Spread]);
        let orders = draw_orders(seed, shape);
        Script {
            seed,
            intents: (0..ops).map(draw).collect(),
            config,
            planted,
            disks,
            reads,
            keys,
            plan,
            orders,
            until,
            client_window: ops + 64,
        }
    }

    /// Behind a home, for so many operations until then. Its clients do what they are told, and live; what goes wrong are faults of another plan, too.
    pub fn behind_home(
        seed: u64,
        shape: &Shape,
        (ops, until): (usize, Picos),
        planted: Option<Planted>,
    ) -> Script {
        let mut random = random::stream(seed, 0, "chain behind a home");
        let config = draw_config(&mut random, shape.clients as usize, 4 * ops);
        // Sessions are forgotten in runs of `millrace sim --chain`, and by maps.
        let config = Config { sessions: SESSIONS, ..config };
        let usual = one_of(&mut random, &CLASSES);
        let mortal = (shape.replicas().start..shape.count()).collect();
        Script {
            seed,
            intents: Vec::new(),
            planted,
            disks: (0..shape.replicas + shape.spares).map(|_| draw_disk(&mut random, usual)).collect(),
            reads: one_of(&mut random, &[Reads::Tail, Reads::Spread]),
            keys: Vec::new(),
            plan: draw_plan(seed, &mut random, &config, shape, (until, mortal)),
            orders: draw_orders(seed, shape),
            until,
            config,
            client_window: CLIENT_WINDOW,
        }
    }

    /// For clients, which have as much under way as is asked of them.
    pub fn client_config(&self) -> Config {
        Config { window: self.client_window, ..self.config.clone() }
    }

    /// A lease, on whatever clock.
    pub fn lease(&self) -> Picos {
        let lease = self.config.lease.0;
        Picos::from(Nanos(lease + lease * self.config.drift_percent / 50))
    }

    /// When the faults are over, all replicas are in the chain after this: leases that nobody knows of run out, the controller waits for more
    /// of them, and each that was away is given what it lacks.
    pub fn recovery(&self) -> Picos {
        let joins = self.disks.len() as u64 + 1;
        let gather = Picos::from(self.config.gather);
        Picos(self.lease().0 * (4 + 2 * joins)).plus(gather).plus(Picos::from_millis(40))
    }

    /// Something that is asked when all is well is answered within this.
    pub fn bound(&self) -> Picos {
        let again = Picos::from(Nanos(4 * self.config.retransmit_max.0));
        // All clients ask at once, of logs that are slow.
        self.lease().plus(again).plus(Picos::from_millis(50))
    }

    /// The same where a replica has just died: it is left out first, and the new chain must be heard of.
    pub fn bound_after_death(&self) -> Picos {
        Picos(self.bound().0 + 3 * self.lease().0).plus(Picos::from_millis(10))
    }
}

fn one_of<T: Copy>(random: &mut Prng, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// A number below `bound`, small ones more likely.
fn draw_twice_below(random: &mut Prng, bound: u64) -> u64 {
    let below = 1 + random.below(bound);
    random.below(below)
}

fn draw_config(random: &mut Prng, clients: usize, ops: usize) -> Config {
    let lease = Nanos::from_millis(one_of(random, &[6, 12, 20]));
    let retransmit = Nanos::from_millis(one_of(random, &[1, 2, 4]));
    Config {
        chain: 7,
        slots: Slots::default(),
        window: one_of(random, &[2, 4, 64]),
        window_bytes: one_of(random, &[200, 1 << 20]),
        queue: 4 * ops + 256,
        queue_bytes: 1 << 20,
        sessions: one_of(random, &[clients.max(3), 64, 64]),
        session_window: one_of(random, &[2, 8]),
        retransmit,
        retransmit_max: Nanos(retransmit.0 * 4),
        chunk_bytes: one_of(random, &[1 << 10, 4 << 10, 16 << 10]),
        chunks: one_of(random, &[1, 2, 4]),
        kept: one_of(random, &[1, 8, 1024]),
        heartbeat: Nanos(lease.0 / one_of(random, &[3, 6])),
        lease,
        drift_percent: 2,
        gather: one_of(random, &[lease, Nanos(lease.0 / 4)]),
        patience: Nanos(8 * lease.0 + 20_000_000),
    }
}

const CLASSES: [Durability; 4] =
    [Durability::PowerLoss, Durability::PowerLoss, Durability::ProcessCrash, Durability::Volatile];

fn draw_disk(random: &mut Prng, usual: Durability) -> Disk {
    let class = if random.below(6) == 0 { one_of(random, &CLASSES) } else { usual };
    Disk {
        class,
        log: one_of(random, &[8, 24, 96]) << 10,
        sync: Picos::from_micros(one_of(random, &[10, 50, 200])),
        checkpoint: one_of(random, &[4, 16, 1000]),
    }
}

/// The weather is the plan's first fault, so that it can be taken away like any other.
fn draw_plan(
    seed: u64,
    random: &mut Prng,
    config: &Config,
    shape: &Shape,
    (until, mortal): (Picos, NodeSet),
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
    let (is_fair, nobody_dies) = (random.below(4) == 0, random.below(6) == 0);
    let weather = (!is_fair).then(|| rough.draw_milder(random));
    let everywhere =
        |weather| Fault { at: Picos::ZERO, lasts: until, what: What::Weather(Links::ALL, weather) };
    let mut faults: Vec<Fault> = weather.into_iter().map(everywhere).collect();
    let all = NodeSet::below(shape.count());
    // Who is cut off from the chain, but not from clients, must notice.
    let chain: NodeSet = shape.replicas().chain(shape.controllers()).collect();
    let links = one_of(random, &[all, chain, chain]);
    let bounds = Bounds {
        from: Picos(1),
        until,
        faults: FAULTS,
        longest: Picos(4 * lease.0),
        crash: if nobody_dies { NodeSet::EMPTY } else { mortal },
        machines: if nobody_dies { NodeSet::EMPTY } else { shape.replicas().collect() },
        troubles: TROUBLES,
        links,
        worst: rough,
    };
    faults.extend(Plan::draw(seed, &bounds).0);
    Plan(faults)
}

/// Replicas that come, go, and take the places of others; each as if all before had been obeyed.
fn draw_orders(seed: u64, shape: &Shape) -> Vec<Goal> {
    if shape.spares == 0 {
        return Vec::new();
    }
    let mut random = random::stream(seed, 0, "orders");
    let (mut here, all) = (shape.replica_ids(), shape.all_ids());
    let count = 1 + random.below(u64::from(ORDERS));
    let draw = |_| {
        let away: Vec<ReplicaId> = all.iter().copied().filter(|id| !here.contains(id)).collect();
        let least = 1 + random.below(here.len() as u64) as u16;
        let kind = random.below(4);
        // The last one stays.
        let may_come = kind != 0 || here.len() == 1;
        let comes = (may_come && !away.is_empty()).then(|| one_of(&mut random, &away));
        let goes = (kind != 1 && here.len() > 1 || comes.is_none()).then(|| one_of(&mut random, &here));
        here.retain(|id| Some(*id) != goes);
        here.extend(comes);
        Goal {
            add: comes.map(address),
            serves: comes.is_some() && random.below(8) > 0,
            remove: goes.map(|id| (id, least)),
        }
    };
    (0..count).map(draw).collect()
}

/// What a home does instead: now and then it claims the chain, gives it up, or looks who has it.
fn draw_claim(
    seed: u64,
    shape: &Shape,
    number: usize,
    client: Node,
    transaction: Transaction,
) -> Transaction {
    if client >= shape.homes {
        return transaction;
    }
    let mut random = random::stream(seed, number as u64, "claim");
    let claim = Claim { number: number as u64 + 1, address: String::new() };
    match random.below(24) {
        0..3 => claim.make(),
        3 => Transaction::new().delete(CLAIM),
        4 => Claim::ask(),
        // Some forget that they should, or read what anybody may.
        5 => transaction,
        _ => transaction.under(OWN),
    }
}

/// Where a replica is: nobody dials here.
fn address(replica: ReplicaId) -> ReplicaAddress {
    ReplicaAddress { replica, peers: format!("at {}", replica.0), clients: String::new() }
}

/// Pauses more often than the rest, lost media less often.
const TROUBLES: &[Trouble] = &[
    Trouble::Pause,
    Trouble::Pause,
    Trouble::Pause,
    Trouble::Pause,
    Trouble::Full,
    Trouble::BadSync,
    Trouble::BadSync,
    Trouble::Rot,
    Trouble::Rot,
    Trouble::Lost,
    Trouble::Slow,
    Trouble::Slow,
];

/// What transactions are drawn from.
struct Workload<'a> {
    keys: &'a [Vec<u8>],
    popular: Mix<usize>,
    kinds: Mix<Kind>,
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Put,
    /// One key more, another less, if it has enough.
    Transfer,
    /// If the version is as it was seen.
    Swap,
    Delete,
    /// A bit of everything.
    Mixed,
}

const MIXES: [[u64; 6]; 3] = [[30, 20, 20, 10, 5, 15], [60, 20, 5, 5, 5, 5], [10, 5, 70, 5, 5, 5]];
const KINDS: [Kind; 6] = [Kind::Read, Kind::Put, Kind::Transfer, Kind::Swap, Kind::Delete, Kind::Mixed];

impl<'a> Workload<'a> {
    fn draw(random: &mut Prng, keys: &'a [Vec<u8>]) -> Workload<'a> {
        let kinds: Vec<_> = one_of(random, &MIXES).into_iter().zip(KINDS).collect();
        let skewed = random.below(2) == 0;
        let weight = |rank: usize| if skewed { 5040 / (rank as u64 + 1) } else { 1 };
        let popular: Vec<_> = (0..keys.len()).map(|rank| (weight(rank), rank)).collect();
        Workload { keys, popular: Mix::new(&popular), kinds: Mix::new(&kinds) }
    }

    /// Some keys, each once.
    fn draw_keys(&self, random: &mut Prng, most: u64) -> Vec<Vec<u8>> {
        let mut ranks: Vec<usize> = (0..1 + random.below(most)).map(|_| *self.popular.draw(random)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks.into_iter().map(|rank| self.keys[rank].clone()).collect()
    }

    /// The `number`-th transaction.
    fn draw_transaction(&self, random: &mut Prng, number: usize) -> Transaction {
        let unique = 1000 * (number as i64 + 1);
        let mut keys = self.draw_keys(random, 3);
        let mut txn = Transaction::default();
        let put = |key: Vec<u8>, i: usize| (key, Change::Put(format!("{}", unique + i as i64).into_bytes()));
        match self.kinds.draw(random) {
            Kind::Read => txn.reads = keys,
            Kind::Put => txn.writes = keys.into_iter().enumerate().map(|(i, key)| put(key, i)).collect(),
            Kind::Transfer => {
                let to = keys.pop().expect("there is one");
                txn.writes.push((to, Change::Add(unique)));
                if let Some(from) = keys.pop() {
                    txn.conditions.push((from.clone(), Condition::AtLeast(unique / 8)));
                    txn.writes.push((from, Change::Add(-unique)));
                }
            }
            Kind::Swap => {
                txn.conditions.push((keys[0].clone(), Condition::Version(SEEN)));
                txn.reads.push(keys[0].clone());
                txn.writes = keys.into_iter().enumerate().map(|(i, key)| put(key, i)).collect();
            }
            Kind::Delete => {
                // What is put beside tells it from others.
                let last = keys.pop().expect("there is one");
                txn.writes = keys.into_iter().map(|key| (key, Change::Delete)).collect();
                txn.writes.push(put(last, 0));
            }
            Kind::Mixed => {
                for (i, key) in keys.into_iter().enumerate() {
                    match random.below(6) {
                        0 => txn.conditions.push((key.clone(), Condition::Exists)),
                        1 => txn.conditions.push((key.clone(), Condition::AtLeast(unique / 2))),
                        2 => txn.reads.push(key.clone()),
                        _ => {}
                    }
                    match random.below(3) {
                        0 => txn.writes.push(put(key, i)),
                        1 => txn.writes.push((key, Change::Add(unique + i as i64))),
                        _ if !txn.reads.contains(&key) => txn.reads.push(key),
                        _ => {}
                    }
                }
            }
        }
        if !txn.reads.is_empty() || random.below(2) == 0 {
            return txn;
        }
        // What it writes over is worth knowing.
        txn.reads = txn.writes.iter().map(|(key, _)| key.clone()).collect();
        txn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::NAMED[0].1
    }

    #[test]
    fn a_seed_draws_the_same_again_and_another_does_not() {
        let draw = |seed| format!("{:?}", Script::draw(seed, &shape(), 10, None));
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn what_is_drawn_makes_sense() {
        for seed in 0..50 {
            let script = Script::draw(seed, &shape(), 50, None);
            script.config.check().expect("a configuration that works");
            assert!(script.plan.0.iter().all(|fault| fault.ends() <= script.until), "{}", script.plan);
            for intent in &script.intents {
                intent.transaction.check().expect("a transaction");
                assert!(intent.at < script.until);
            }
        }
    }

    #[test]
    fn transactions_that_write_differ() {
        let script = Script::draw(5, &shape(), 300, None);
        let mut writes: Vec<String> = script
            .intents
            .iter()
            .filter(|i| !i.transaction.only_reads())
            .map(|i| format!("{:?}", i.transaction.writes))
            .collect();
        let count = writes.len();
        writes.sort_unstable();
        writes.dedup();
        assert_eq!(writes.len(), count);
    }
}
