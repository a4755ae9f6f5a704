//! Who asks a chain that is behind a home in `millrace sim --durability chain`: the home, as its server's thread does it
//! ([`serve::kv::Work`]); clients that go by the home, which pass what it is asked and answers through this; and one that goes past it.
//!
//! ```text
//!  home's machine ─ send, relay ─▶ Home: claims the chain, then Work ─▶ Client, node 0 ─▶ replicas
//!  transactions ─▶ Client, nodes 1 and 2 ─ NodeId::Home ─▶ home's machine
//!  those past it ─▶ Client, node 3 ───────────────────────────────────────────────────▶ replicas
//! ```
//! A life of the home begins with a claim in the place of the one that counts ([`Claiming::replace`]); what it is asked meanwhile waits. If another comes
//! between, or nobody answers, it is done again under another number, as by a process that is started again. What a life had under way when it ended may
//! come to the chain long after; nobody hears of it.
//!
//! What must hold besides what `watch` looks at: no client is told of more than is committed.

use super::world::{Actor, World};

use base::Nanos;
use protocol::chain::at_home;
use protocol::chain::client::Failure;
use protocol::chain::message::RequestId;
use protocol::chain::{Claim, Client, Lsn, Message, NodeId, Out, Outcome, Transaction};
use protocol::coherence::home::slow::Ended;
use serve::kv::service::chained::Answer;
use serve::kv::{AtChain, Claiming, Figures, Relayed, Work};
use serve::txn::{Ticket, TxnError};
use sim::nodes::Node;
use sim::random;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The client that a home has.
pub const HOME: Node = 0;
/// Clients that go by the home.
pub const BESIDE: Range<Node> = 1..3;
/// A client that goes past it.
const PAST: Node = 3;
/// All of these.
pub const CLIENTS: u32 = PAST + 1;

/// What a home wants of its chain.
#[derive(Debug)]
pub enum Asked {
    /// A transaction of its own, by its number.
    Own(u64, Transaction),
    /// One of a client.
    Relay(RequestId, Transaction),
}

/// How far a home has come.
enum Stage {
    /// It asks which claim counts.
    Asks,
    /// It makes another the one that does, with this number.
    Claims(u64),
    /// It has.
    Works(Box<Work>),
}

/// A life of a home.
struct Home {
    stage: Stage,
    /// Until it has claimed the chain.
    waits: Vec<Asked>,
    is_first: bool,
}

/// What is to be heard outside.
#[derive(Debug, Default)]
pub struct News {
    /// By the home: of its own transactions.
    pub done: Vec<(u64, Answer)>,
    /// By the home: of clients'.
    pub relayed: Vec<(RequestId, Relayed)>,
    /// The home is asked for this.
    pub for_home: Vec<(RequestId, Transaction)>,
    /// What clients began under these numbers has ended.
    pub ended: Vec<(usize, Ended<Outcome>)>,
}

/// What happened in a chain.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Entries that are committed.
    pub committed: u64,
    /// Events.
    pub events: u64,
    /// Configurations that were stored.
    pub configurations: u64,
    /// Orders that were obeyed or refused.
    pub orders: u64,
}

/// See the head of the file.
pub struct Behind {
    home: Option<Home>,
    figures: Arc<Figures>,
    /// Claims that were tried.
    claims: u64,
    /// What clients have under way, by client and ticket.
    running: HashMap<(Node, Ticket), usize>,
    /// Who asked the home.
    askers: HashMap<RequestId, Node>,
    /// As what the chain knows those of which no client knows what became.
    unknown: HashMap<usize, RequestId>,
    /// What the home's server would write to its log.
    said: Vec<String>,
    news: News,
}

impl Behind {
    /// Of a chain with this number, and a home that is not up.
    pub fn new(chain: u32) -> Behind {
        Behind {
            home: None,
            figures: Arc::new(Figures::of(chain)),
            claims: 0,
            running: HashMap::new(),
            askers: HashMap::new(),
            unknown: HashMap::new(),
            said: Vec::new(),
            news: News::default(),
        }
    }

    /// A client's message for the home. One that is down hears nothing.
    pub fn ask_home(&mut self, node: Node, message: Message) {
        if let (Message::Request { id, transaction }, true) = (message, self.home.is_some()) {
            self.askers.insert(id, node);
            self.news.for_home.push((id, transaction));
        }
    }

    /// When a node has a question, beside what its machine has to do.
    pub fn next_question(&self, node: Node) -> Option<Nanos> {
        match &self.home.as_ref().filter(|_| node == HOME)?.stage {
            Stage::Works(work) => work.next_question(),
            Stage::Asks | Stage::Claims(_) => None,
        }
    }
}

impl World {
    // ---- from outside

    /// What is to be heard.
    pub fn take_news(&mut self) -> News {
        self.behind.as_mut().map(|behind| std::mem::take(&mut behind.news)).unwrap_or_default()
    }

    /// A life of the home begins.
    pub fn home_begins(&mut self, is_first: bool) {
        self.begin(HOME);
        let behind = self.behind.as_mut().expect("it is behind a home");
        behind.home = Some(Home { stage: Stage::Asks, waits: Vec::new(), is_first });
        let (now, mut out) = (self.read_clock(HOME), Out::new());
        let client = self.client(HOME).expect("it has just begun");
        client.start(now, Claim::ask(), &mut out).expect("nothing is under way");
        self.acted(HOME, &mut out);
    }

    /// It ends, with all that it had under way.
    pub fn home_ends(&mut self) {
        self.crash(HOME);
        let Some(behind) = &mut self.behind else { return };
        behind.home = None;
        (behind.news.done, behind.news.relayed, behind.news.for_home) = Default::default();
        BESIDE.for_each(|node| self.client(node).into_iter().for_each(Client::home_is_lost));
    }

    /// The home wants this.
    pub fn home_asks(&mut self, asked: Vec<Asked>) {
        let now = self.read_clock(HOME);
        let Some(home) = self.behind.as_mut().and_then(|behind| behind.home.as_mut()) else { return };
        match &mut home.stage {
            Stage::Works(work) => asked.into_iter().for_each(|asked| hand(now, work, asked)),
            Stage::Asks | Stage::Claims(_) => home.waits.extend(asked),
        }
        self.acted(HOME, &mut Out::new());
    }

    /// A client wants this, by the home or past it.
    pub fn client_asks(&mut self, number: usize, transaction: Transaction, is_stray: bool) {
        let beside = BESIDE.end - BESIDE.start;
        let node = if is_stray { PAST } else { BESIDE.start + number as u32 % beside };
        let (now, mut out) = (self.read_clock(node), Out::new());
        let started = self.client(node).expect("clients live").start(now, transaction, &mut out);
        let behind = self.behind.as_mut().expect("it is behind a home");
        match started {
            Ok(ticket) => drop(behind.running.insert((node, ticket), number)),
            Err(_) => behind.news.ended.push((number, Ended::NotDone)),
        }
        self.acted(node, &mut out);
    }

    /// The home answers a client.
    pub fn home_answers(&mut self, id: RequestId, answer: at_home::Answer) {
        let Some(&node) = self.behind.as_ref().and_then(|behind| behind.askers.get(&id)) else { return };
        let message = match answer {
            at_home::Answer::Done(outcome) => Message::Reply { id, outcome },
            at_home::Answer::Refused(why) => Message::Refused { id, why },
        };
        let (now, mut out) = (self.read_clock(node), Out::new());
        self.client(node).expect("clients live").handle(now, NodeId::Home, message, &mut out);
        self.acted(node, &mut out);
    }

    /// What became of a transaction of which no client knows; none if it was not done.
    pub fn outcome_of(&self, number: usize) -> Option<Outcome> {
        let id = self.behind.as_ref()?.unknown.get(&number)?;
        self.watch.outcome_of(*id).cloned()
    }

    /// What a transaction that only reads finds in what is committed.
    pub fn look(&self, transaction: &Transaction) -> Outcome {
        let found = |key: &Vec<u8>| {
            let (version, value) = self.watch.read(key)?;
            Some(protocol::chain::transaction::Found { version, value })
        };
        let reads = transaction.reads.iter().map(found).collect();
        Outcome {
            lsn: self.watch.committed(),
            abort: None,
            reads,
            sums: Vec::new(),
            durability: protocol::chain::Durability::Volatile,
            copies: 1,
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        Counts {
            committed: self.watch.committed().0,
            events: self.events,
            configurations: self.registry.stored,
            orders: self.order as u64,
        }
    }

    /// What happened since the last time, if that is wanted.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    // ---- what clients hear

    /// After each call of a client.
    pub(super) fn collect_behind(&mut self, node: Node) {
        let mut out = Out::new();
        let told = if node == HOME { self.home_hears(&mut out) } else { self.client_hears(node) };
        let said = self.behind.as_mut().map(|behind| std::mem::take(&mut behind.said)).unwrap_or_default();
        said.into_iter().for_each(|what| self.note(|_| format!("home          says: {what}")));
        if told > self.watch.committed() {
            let name = self.shape.name(node);
            self.broken(format!("{name} is answered as of LSN {}, which nobody has committed", told.0));
        }
        self.send_all(node, &mut out);
    }

    /// The latest LSN that it was told of.
    fn client_hears(&mut self, node: Node) -> Lsn {
        let mut told = Lsn(0);
        while let Some(client) = self.client(node)
            && let Some((ticket, result)) = client.next_done()
        {
            let id = client.id_of(ticket);
            let behind = self.behind.as_mut().expect("it is behind a home");
            let Some(number) = behind.running.remove(&(node, ticket)) else { continue };
            let ended = match result {
                Ok(outcome) => {
                    told = told.max(outcome.lsn);
                    Ended::Done(outcome)
                }
                Err(Failure::Unknown) => {
                    behind.unknown.extend(id.map(|id| (number, id)));
                    Ended::Unknown
                }
                Err(Failure::NotDone | Failure::Refused(_)) => Ended::NotDone,
            };
            behind.news.ended.push((number, ended));
        }
        told
    }

    fn home_hears(&mut self, out: &mut Out) -> Lsn {
        let now = self.read_clock(HOME);
        let mut told = Lsn(0);
        loop {
            let Some(Actor::Client(client)) = &mut self.places[HOME as usize].actor else { return told };
            let Some(behind) = &mut self.behind else { return told };
            let Some(home) = &mut behind.home else { return told };
            if let Stage::Works(work) = &mut home.stage {
                let mut mouth = Mouth { client, now, out, told };
                work.turn(now, &mut mouth);
                while work.has_more() {
                    work.turn(now, &mut mouth);
                }
                told = mouth.told;
                behind.said.extend(work.take_said().into_iter().map(|(_, what)| what));
                behind.news.done.append(&mut work.take_done());
                behind.news.relayed.append(&mut work.take_relayed());
                return told;
            }
            let Some((_, result)) = client.next_done() else { return told };
            self.hear_of_claim(now, result, out);
        }
    }

    /// The home knows which claim counts, or that its own does.
    fn hear_of_claim(&mut self, now: Nanos, result: Result<Outcome, Failure>, out: &mut Out) {
        let patience = self.script.config.patience;
        let Some(behind) = &mut self.behind else { return };
        let Some(home) = &mut behind.home else { return };
        let Some(Actor::Client(client)) = &mut self.places[HOME as usize].actor else { return };
        match (&home.stage, result) {
            (Stage::Asks, Ok(outcome)) => {
                let found = outcome.reads.into_iter().next().flatten();
                let before = found.and_then(|found| Some((found.version.0, Claim::parse(&found.value)?)));
                behind.claims += 1;
                let number = random::stream(self.script.seed, behind.claims, "claim").next_u64().max(1);
                let claiming = Claiming { address: String::new(), is_first: home.is_first };
                home.is_first = false;
                let claim = claiming.replace(before, number);
                let claim = claim.unwrap_or_else(|_| panic!("a chain that no home has claimed is claimed"));
                client.start(now, claim, out).expect("nothing else is under way");
                home.stage = Stage::Claims(number);
            }
            (Stage::Claims(number), Ok(Outcome { abort: None, .. })) => {
                let mut work = Work::new(*number, patience, Arc::clone(&behind.figures));
                home.waits.drain(..).for_each(|asked| hand(now, &mut work, asked));
                home.stage = Stage::Works(Box::new(work));
                BESIDE.for_each(|node| self.client(node).into_iter().for_each(Client::home_is_found));
            }
            // Another claim came between, or nobody answers: its process is started again.
            _ => {
                home.is_first = false;
                client.start(now, Claim::ask(), out).expect("nothing else is under way");
                home.stage = Stage::Asks;
            }
        }
    }
}

fn hand(now: Nanos, work: &mut Work, asked: Asked) {
    match asked {
        Asked::Own(number, transaction) => work.send(now, number, transaction),
        Asked::Relay(id, transaction) => work.relay(now, id, transaction),
    }
}

/// The client of a home, as its work has it.
struct Mouth<'a> {
    client: &'a mut Client,
    now: Nanos,
    out: &'a mut Out,
    /// The latest LSN that it was told of.
    told: Lsn,
}

impl Mouth<'_> {
    fn explain(&self, ticket: Ticket, failure: Failure) -> TxnError {
        let why = String::new();
        match failure {
            Failure::Refused(refusal) => TxnError::Refused(refusal),
            Failure::NotDone => TxnError::NotDone(why),
            Failure::Unknown => TxnError::Unknown { id: self.client.id_of(ticket), why },
        }
    }
}

impl AtChain for Mouth<'_> {
    fn start(&mut self, transaction: Transaction) -> Result<Ticket, TxnError> {
        self.client.start(self.now, transaction, self.out).map_err(|_| TxnError::TooMany)
    }

    fn relay(&mut self, id: RequestId, transaction: Transaction) -> Result<Ticket, TxnError> {
        self.client.relay(self.now, id, transaction, self.out).map_err(|_| TxnError::TooMany)
    }

    fn ask(&mut self, id: RequestId) -> Result<Ticket, TxnError> {
        self.client.ask(self.now, id, self.out).map_err(|_| TxnError::TooMany)
    }

    fn poll(&mut self) -> Option<(Ticket, Result<Outcome, TxnError>)> {
        let (ticket, result) = self.client.next_done()?;
        if let Ok(outcome) = &result {
            self.told = self.told.max(outcome.lsn);
        }
        Some((ticket, result.map_err(|failure| self.explain(ticket, failure))))
    }
}
