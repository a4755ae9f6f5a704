//! Replicas behind homes over chains, in a third of their runs: each home has a chain of its own, the machines of `millrace sim --chain` with their logs,
//! images, media, controllers and registry, in half of these runs with spares that an operator moves in and others out. Else a home has a map
//! ([`super::chains`]).
//!
//! ```text
//!  home ─ send, relay ─▶ Chain ─▶ chain::World at the same moment ─▶ News ─▶ home, clients of transactions, record
//!  Happening::Chain: when something happens there next          a fault of the plan ─▶ the world whose nodes it names
//! ```
//! The worlds of chains have queues and networks of their own, and no clock: one event of the cluster's queue lets one of them go on to now. Their nodes are
//! numbered after the cluster's, so that one plan has all faults, and the shrinker takes away any.
//!
//! What a home *has*, for whoever looks at copies in boxes, is what its chain has committed: what the first replica has applied. While a write is under way
//! no box has a copy of its item, so it does not matter when that is.
//!
//! What must hold besides: all that `chain::watch` looks at, after every event there; when faults are over, that all replicas that belong to a chain serve;
//! they do so when one of each dies with a box; at the end, that images are what the committed entries make. A chain of which media were lost so that nobody
//! has everything serves no more, as it must: the run is over then.

mod plan;

pub use plan::Replicas;

use super::chain::World as Replicated;
use super::chain::behind::{Asked, News};
use super::chains::{self, Wrongly};
use super::nodes::Machine;
use super::transactions::id_of;
use super::world::{Happening, World};
use base::{Picos, Prng};
use protocol::chain::at_home;
use protocol::chain::message::RequestId;
use protocol::chain::{Outcome, Transaction};
use protocol::coherence::Out;
use protocol::planted::NoBugs;
use protocol::wire::Version;
use serve::kv::service::chained::item::{self, Seen};
use serve::kv::service::chained::{Answer, is_there};
use serve::kv::{Relayed, Transactions};
use sim::faults::Step;
use sim::nodes::Node;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What happened in chains of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// So many there were.
    pub chains: u64,
    /// Deaths of replicas, by faults of the plan.
    pub deaths: u64,
    /// Entries that were committed.
    pub committed: u64,
    /// Configurations that were stored.
    pub configurations: u64,
    /// Orders of operators that were obeyed or refused.
    pub orders: u64,
}

// ---- a chain behind a home

/// What is behind a home, as a life of it has it.
#[derive(Clone, Debug)]
pub enum Chain {
    /// A map that does what chains promise, and many odd things that they may.
    Map(chains::Chain),
    /// Replicas.
    Replicas(Handle),
}

impl Chain {
    /// For a life that begins: the `claim`-th in the world. Replicas are claimed by messages.
    pub fn claimed(&self, claim: u64, wrongly: Option<Wrongly>) -> Chain {
        match self {
            Chain::Map(map) => Chain::Map(map.claimed(claim, wrongly)),
            Chain::Replicas(replicas) => Chain::Replicas(replicas.clone()),
        }
    }

    /// As a home has it.
    pub fn transactions(&self) -> Box<dyn Transactions> {
        match self {
            Chain::Map(map) => Box::new(map.clone()),
            Chain::Replicas(replicas) => Box::new(replicas.clone()),
        }
    }

    /// The map, if it is one.
    pub fn map(&self) -> Option<&chains::Chain> {
        if let Chain::Map(map) = self { Some(map) } else { None }
    }

    /// The version and value of an item at that second.
    pub fn peek(&self, key: &[u8], second: u32) -> Option<(Version, Vec<u8>)> {
        match self {
            Chain::Map(map) => map.peek(key, second),
            Chain::Replicas(replicas) => replicas.peek(key, second),
        }
    }

    /// The home ends.
    pub fn end(&self, now: Picos, luck: &mut Prng) {
        match self {
            Chain::Map(map) => map.end(luck),
            Chain::Replicas(replicas) => replicas.end(now),
        }
    }
}

struct State {
    world: Replicated,
    asked: Vec<Asked>,
    /// What clients want, by number, and whether past the home.
    wanted: Vec<(usize, Transaction, bool)>,
    answers: Vec<(RequestId, at_home::Answer)>,
    done: Vec<(u64, Answer)>,
    relayed: Vec<(RequestId, Relayed)>,
    /// Entries that were committed when this was looked at last.
    committed: u64,
    has_begun: bool,
    deaths: u64,
}

/// A chain of replicas behind a home.
#[derive(Clone)]
pub struct Handle(Arc<Mutex<State>>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chain of replicas")
    }
}

impl Handle {
    fn new(world: Replicated) -> Handle {
        Handle(Arc::new(Mutex::new(State {
            world,
            asked: Vec::new(),
            wanted: Vec::new(),
            answers: Vec::new(),
            done: Vec::new(),
            relayed: Vec::new(),
            committed: 0,
            has_begun: false,
            deaths: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client wants this.
    pub fn ask(&self, number: usize, transaction: Transaction, is_stray: bool) {
        self.state().wanted.push((number, transaction, is_stray));
    }

    /// The home answers a client.
    pub fn answer(&self, id: RequestId, answer: Result<at_home::Answer, String>) {
        let answer = answer.expect("all keys are this chain's");
        self.state().answers.push((id, answer));
    }

    /// What became of a client's transaction, whoever knows; none if it was not done.
    pub fn outcome_of(&self, number: usize) -> Option<Outcome> {
        self.state().world.outcome_of(number)
    }

    fn peek(&self, key: &[u8], second: u32) -> Option<(Version, Vec<u8>)> {
        let outcome = self.state().world.look(&item::read(key));
        let seen = Seen::of(outcome, &NoBugs).filter(|seen| is_there(seen, second))?;
        seen.item.map(|item| (Version(item.state.version), item.value))
    }

    fn begin(&self, now: Picos) {
        let mut state = self.state();
        state.world.run_until(now);
        let is_first = !std::mem::replace(&mut state.has_begun, true);
        state.world.home_begins(is_first);
    }

    fn end(&self, now: Picos) {
        let mut state = self.state();
        state.world.run_until(now);
        state.world.home_ends();
        state.asked.clear();
        state.answers.clear();
        state.done.clear();
        state.relayed.clear();
    }

    /// When something happens there next: at once, if somebody wants something.
    fn next_at(&self, now: Picos) -> Option<Picos> {
        let mut state = self.state();
        let is_asked = !state.asked.is_empty() || !state.wanted.is_empty() || !state.answers.is_empty();
        if is_asked { Some(now) } else { state.world.next_at() }
    }

    /// Lets everything happen up to now; whether more is committed than before.
    fn run(&self, now: Picos) -> (News, bool) {
        let mut state = self.state();
        let State { world, asked, wanted, answers, committed, .. } = &mut *state;
        world.run_until(now);
        if !asked.is_empty() {
            world.home_asks(std::mem::take(asked));
        }
        answers.drain(..).for_each(|(id, answer)| world.home_answers(id, answer));
        wanted.drain(..).for_each(|(number, txn, is_stray)| world.client_asks(number, txn, is_stray));
        let news = world.take_news();
        let before = std::mem::replace(committed, world.counts().committed);
        let is_more = before < *committed;
        (news, is_more)
    }
}

impl Transactions for Handle {
    fn send(&mut self, transactions: Vec<(u64, Transaction)>) {
        let own = transactions.into_iter().map(|(number, one)| Asked::Own(number, one));
        self.state().asked.extend(own);
    }

    fn take_done(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.state().done)
    }

    fn relay(&mut self, transactions: Vec<(RequestId, Transaction)>) {
        let theirs = transactions.into_iter().map(|(id, one)| Asked::Relay(id, one));
        self.state().asked.extend(theirs);
    }

    fn take_relayed(&mut self) -> Vec<(RequestId, Relayed)> {
        std::mem::take(&mut self.state().relayed)
    }
}

// ---- in the cluster's world

impl World<'_> {
    /// Before anybody is up.
    pub(super) fn put_replicas_behind_homes(&mut self) {
        let Some(replicas) = &self.script.replicas else { return };
        for (home, script) in self.numbers.homes().zip(&replicas.scripts) {
            let world = Replicated::behind_home(replicas.shape, script, self.trace.is_some());
            self.served.put_behind(home, Chain::Replicas(Handle::new(world)));
        }
    }

    fn all_replicas(&self) -> Vec<(Node, Handle)> {
        let homes = self.numbers.homes();
        homes.filter_map(|home| Some((home, self.served.replicas_of(home)?.clone()))).collect()
    }

    /// A life of a home begins.
    pub(super) fn replicas_have_a_home(&mut self, home: Node) {
        let now = self.now();
        if let Some(chain) = self.served.replicas_of(home).cloned() {
            chain.begin(now);
            self.drive_replicas(home);
        }
    }

    /// When the chain of a home is to go on.
    pub(super) fn drive_replicas(&mut self, home: Node) {
        let now = self.now();
        let Some(kept) = self.served.chains.get_mut(&home) else { return };
        let Chain::Replicas(chain) = &kept.chain else { return };
        if let Some(at) = chain.next_at(now) {
            kept.turns += 1;
            self.queue.push(at.max(now), home, Happening::Chain(kept.turns));
        }
    }

    /// It goes on.
    pub(super) fn replicas_step(&mut self, home: Node) {
        let now = self.now();
        let Some(chain) = self.served.replicas_of(home).cloned() else { return };
        let (news, is_more) = chain.run(now);
        self.look_at_replicas(home, &chain);
        let unknown = news.done.iter().filter(|(_, answer)| matches!(answer, Answer::Unknown)).count();
        if unknown > 0
            && let Some(kept) = self.served.chains.get_mut(&home)
        {
            (kept.unknown, self.served.unanswered) = (now, self.served.unanswered + unknown as u64);
        }
        let wakes = !news.done.is_empty() || !news.relayed.is_empty() || !news.for_home.is_empty();
        chain.state().done.extend(news.done);
        chain.state().relayed.extend(news.relayed);
        if let Some(Machine::Home(machine)) = self.machine(home)
            && let Some(clients) = machine.clients()
        {
            news.for_home.into_iter().for_each(|(id, transaction)| clients.ask(id, transaction));
        }
        for (number, ended) in news.ended {
            self.transaction_ended(id_of(number), ended);
        }
        if wakes && self.machine(home).is_some() {
            return self.act(home, 0, None);
        }
        if is_more {
            self.look_at_home(home, &Out::new());
        }
        self.drive_replicas(home);
    }

    /// What happened there, and whether something is wrong.
    fn look_at_replicas(&mut self, home: Node, chain: &Handle) {
        let (lines, violation) = {
            let mut state = chain.state();
            (state.world.take_trace(), state.world.violation.clone())
        };
        let name = self.numbers.name(home);
        if let Some(trace) = &mut self.trace {
            trace.extend(lines.into_iter().map(|line| format!("{line}   (chain of {name})")));
        }
        if let Some(violation) = violation {
            self.broken(format!("the chain of {name}: {}", violation.text), b"");
        }
    }

    /// A step of the plan, if it is about nodes of chains.
    pub(super) fn happens_to_replicas(&mut self, step: Step) -> bool {
        let Some(replicas) = &self.script.replicas else { return false };
        let now = self.now();
        let chains = self.all_replicas();
        let steps = replicas.step(step);
        for (i, step) in &steps {
            let (home, chain) = &chains[*i];
            {
                let mut state = chain.state();
                let is_death = matches!(step, Step::Crash(node) if replicas.shape.replicas().contains(node));
                state.deaths += u64::from(is_death);
                state.world.run_until(now);
                state.world.fault(*step);
            }
            self.look_at_replicas(*home, chain);
            self.drive_replicas(*home);
        }
        !steps.is_empty() && !matches!(step, Step::End(_))
    }

    /// Who is down comes up, no fault is left, and operators give no orders.
    pub(super) fn replicas_are_calm(&mut self) {
        self.with_replicas(|world| world.calm());
    }

    /// All replicas that belong to a chain serve, unless nobody has everything.
    pub(super) fn replicas_serve(&mut self) {
        let is_lost = self.all_replicas().iter().any(|(_, chain)| chain.state().world.is_lost());
        if is_lost {
            self.note(|_| "a chain has lost what it had: nobody serves".to_owned());
            self.served.is_lost = true;
            return;
        }
        self.with_replicas(|world| world.check_all_serve());
    }

    /// One of each chain dies.
    pub(super) fn replicas_die(&mut self) {
        self.with_replicas(|world| world.one_dies());
    }

    /// At the end: images are what the committed entries make.
    pub(super) fn replicas_rest(&mut self) {
        let rest = self.script.replicas.as_ref().map_or(Picos::ZERO, Replicas::bound);
        let until = self.now().plus(rest);
        self.with_replicas(|world| {
            world.run_until(until);
            world.check_images();
        });
    }

    fn with_replicas(&mut self, deed: impl Fn(&mut Replicated)) {
        let now = self.now();
        for (home, chain) in self.all_replicas() {
            {
                let mut state = chain.state();
                state.world.run_until(now);
                deed(&mut state.world);
            }
            self.look_at_replicas(home, &chain);
            self.drive_replicas(home);
        }
    }

    /// What happened in chains is part of what happened.
    pub(super) fn note_replicas(&mut self) {
        for (_, chain) in self.all_replicas() {
            let state = chain.state();
            self.print.number(state.world.print.value());
            let counts = state.world.counts();
            self.print.number(counts.committed);
            self.events += counts.events;
            let tally = &mut self.served.tally;
            tally.chains += 1;
            tally.deaths += state.deaths;
            tally.committed += counts.committed;
            tally.configurations += counts.configurations;
            tally.orders += counts.orders;
        }
    }
}
