//! Schedules from a seed: clients that insist, losses, crashes, power cuts, partitions, checkpoints, a controller that decides.

use super::serving::{config, id, token};
use super::world::{Fate, Machine, World, ms};
use crate::chain::message::RequestId;
use crate::chain::transaction::{Change, Condition};
use crate::chain::{Config, Image, Planted, SessionId, Transaction};
use base::{Nanos, Prng};

const KEYS: u64 = 5;
const CLIENTS: u64 = 3;

fn key(prng: &mut Prng) -> Vec<u8> {
    vec![b'a' + prng.below(KEYS) as u8]
}

fn keys(prng: &mut Prng, most: u64) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..=prng.below(most)).map(|_| key(prng)).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn transaction(prng: &mut Prng) -> Transaction {
    let change = |prng: &mut Prng| match prng.below(4) {
        0 => Change::Delete,
        1 => Change::Put(prng.below(100).to_string().into_bytes()),
        _ => Change::Add(prng.below(9) as i64 - 4),
    };
    let writes = keys(prng, 3).into_iter().map(|key| (key, change(prng))).collect();
    let reads = if prng.chance(0.5) { keys(prng, 2) } else { vec![] };
    let is_bound = prng.chance(0.2);
    let conditions = if is_bound { vec![(key(prng), Condition::AtLeast(1))] } else { vec![] };
    Transaction { conditions, reads, writes, ..Transaction::default() }
}

/// Loses, doubles and delays messages between replicas, and cuts some off now and then.
fn disturb(w: &mut World) {
    let mut prng = Prng::new(w.prng.next_u64());
    let loss = [0.0, 0.01, 0.1][prng.below(3) as usize];
    let isolated = prng.chance(0.3).then(|| prng.below(3) as u16 + 1);
    w.script(move |from, to, _| {
        use crate::chain::{NodeId, ReplicaId};
        let is_it = |node| isolated.is_some_and(|id| node == NodeId::Replica(ReplicaId(id)));
        let is_client = matches!(from, NodeId::Client(_)) || matches!(to, NodeId::Client(_));
        if !is_client && is_it(from) != is_it(to) || prng.chance(loss) {
            return Fate::Lost;
        }
        let late = Nanos::from_micros(prng.below(300));
        match prng.below(20) {
            0 => Fate::Twice(Nanos(late.0 * 100)),
            1 => Fate::Late(Nanos(late.0 * 20)),
            _ => Fate::Late(late),
        }
    });
}

struct Traffic {
    sessions: Vec<(u64, SessionId, u64)>,
    reads: u64,
}

impl Traffic {
    /// Clients ask something.
    fn go_on(&mut self, w: &mut World) {
        for (client, session, sequence) in &mut self.sessions {
            let to = w.prng.below(3) as u16 + 1;
            let waiting = w.clients.asked.iter().filter(|((c, id), asked)| {
                c == client && id.session == *session && asked.outcome.is_none() && !asked.is_lost
            });
            let mut prng = Prng::new(w.prng.next_u64());
            if waiting.count() < 2 {
                *sequence += 1;
                w.insist(*client, to, id(*session, *sequence), &transaction(&mut prng));
            }
            if prng.chance(0.7) {
                self.reads += 1;
                let reads = Transaction { reads: keys(&mut prng, 3), ..Transaction::default() };
                w.ask(*client, prng.below(3) as u16 + 1, token(self.reads), &reads);
            }
        }
    }
}

/// One of the things that can go wrong.
fn fail(w: &mut World) {
    let id = w.prng.below(3) as u16 + 1;
    match w.prng.below(10) {
        0 | 1 => w.crash(id, true),
        2 => (1..=3).for_each(|id| w.crash(id, true)),
        3 | 4 => disturb(w),
        5 => w.well(),
        6 => w.checkpoint(id),
        7 => w.sync = [Nanos::from_micros(100), ms(1), ms(8)][w.prng.below(3) as usize],
        8 => w.restart(id),
        _ => {}
    }
    let down: Vec<u16> = w.disks.keys().copied().collect();
    for id in down {
        if w.prng.chance(0.4) {
            w.start(id);
        }
    }
}

/// A run of some seconds.
pub(super) fn run(seed: u64, planted: Option<Planted>) -> World {
    let lease = ms(150);
    let config = Config { lease, heartbeat: ms(30), window: 8, sessions: 3, ..config() };
    let mut w = World::planted(config, planted, 3, seed);
    w.govern();
    let serves = |machine: &Machine| machine.view().part.is_some() && machine.view().connected;
    assert!(w.run_until(|w| w.running.values().all(serves)));
    let sessions = (1..=CLIENTS).map(|client| (client, w.open(client, 1), 0)).collect();
    let mut traffic = Traffic { sessions, reads: 0 };
    disturb(&mut w);
    for _ in 0..60 {
        traffic.go_on(&mut w);
        if w.prng.chance(0.15) {
            fail(&mut w);
        }
        let span = Nanos::from_micros(200 + w.prng.below(60_000));
        w.run(span);
        if !w.judge.violations.is_empty() {
            return w;
        }
    }
    calm(&mut w);
    w.judge_answers();
    w
}

/// All is well again: everybody joins, everything is answered, all images are the same.
fn calm(w: &mut World) {
    w.well();
    w.sync = Nanos::from_micros(100);
    (1..=3).for_each(|id| w.start(id));
    let is_calm = w.run_until(|w| {
        let views: Vec<_> = w.running.values().map(|machine| machine.view()).collect();
        let unanswered =
            w.clients.asked.iter().any(|((_, id), asked)| {
                id.session != SessionId(0) && asked.outcome.is_none() && !asked.is_lost
            });
        let serve = views.iter().all(|view| view.connected && view.applied == views[0].last && !view.copying);
        serve && w.serving().len() == 3 && !unanswered
    });
    if !is_calm {
        let views: Vec<_> = w.running.values().map(|machine| machine.view()).collect();
        let configuration = w.governor.configuration.clone();
        let asked: Vec<RequestId> = w
            .clients
            .asked
            .iter()
            .filter(|(_, a)| a.outcome.is_none() && !a.is_lost)
            .map(|((_, id), _)| *id)
            .collect();
        w.judge.violation(format!("no rest: {configuration:?} {views:#?} {asked:?}"));
        return;
    }
    let digests: Vec<u64> = w.running.values().map(|machine| machine.image().digest()).collect();
    if digests.iter().any(|digest| *digest != digests[0]) {
        w.judge.violation(format!("{digests:?}"));
    }
}

#[test]
fn all_schedules_are_strictly_serializable_and_come_to_rest() {
    let one = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in one.map_or(1..=150, |seed| seed..=seed) {
        let w = run(seed, None);
        assert!(w.judge.violations.is_empty(), "seed {seed}: {:#?}", w.judge.violations);
    }
}
