//! A small chain, what is on its way in it, and everything that can happen next.

mod next;

use base::Nanos;
use base::key::Key;
use protocol::chain::image::plain::Plain;
use protocol::chain::log::memory::Memory;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::replica::Recovered;
use protocol::chain::{
    Config, Controller, Durability, Epoch, Incarnation, Lsn, Message, NodeId, Out, Outcome, Planted, Replica,
    ReplicaId, SessionId, Transaction,
};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const KEY: &str = "k";
/// From head to tail.
pub const REPLICAS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

type Machine = Replica<Plain, Memory, Option<Planted>>;

/// A replica and what it hashes to, which is counted once and not in every state that has it.
#[derive(Clone)]
pub struct Node {
    pub machine: Machine,
    pub lives: bool,
    /// The controller hears it, and is heard.
    pub is_heard: bool,
    pub hash: u64,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// So many replicas crash.
    pub crashes: u32,
    /// So many lose their way to the controller.
    pub cut_offs: u32,
    /// So many messages arrive twice.
    pub doubles: u32,
}

/// What a client does next to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Adds one to the key.
    Add,
    /// Reads it, at this replica.
    Read(ReplicaId),
}

/// A client does this, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    pub steps: &'static [Step],
    pub session: SessionId,
    /// Steps begun.
    pub begun: usize,
    /// The newest write that was answered to anybody when the step under way began.
    pub floor: Option<Lsn>,
    /// The configuration in force when it was sent last.
    pub asked_in: Epoch,
    pub refused: bool,
}

#[derive(Clone)]
pub struct State {
    pub nodes: [Arc<Node>; 3],
    pub controller: Controller<Option<Planted>>,
    pub clients: [Script; 2],
    /// In the order of their hashes: what is on its way has no order.
    pub network: Vec<(u64, NodeId, NodeId, Arc<Message>)>,
    pub now: Nanos,
    /// Each write that was answered: which, and what it came to.
    pub answered: BTreeMap<Lsn, (RequestId, Vec<i64>)>,
    pub seen: Lsn,
    /// That may still happen.
    pub faults: Faults,
    /// It will be noticed that somebody is silent.
    pub unnoticed: bool,
    /// Times that nothing moved.
    pub waits: u32,
    pub config: Arc<Config>,
    /// The mistake that its machines make.
    pub planted: Option<Planted>,
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Its place in the tables.
pub fn at(replica: ReplicaId) -> usize {
    usize::from(replica.0) - 1
}

/// The epoch of a message that one who acts by a later one drops.
fn epoch_of(message: &Message) -> Option<Epoch> {
    match message {
        Message::Append { epoch, .. }
        | Message::Ack { epoch, .. }
        | Message::Connect { epoch, .. }
        | Message::Resume { epoch, .. }
        | Message::AskCommitted { epoch, .. }
        | Message::Committed { epoch, .. } => Some(*epoch),
        Message::Lead { configuration, .. } => Some(configuration.epoch),
        _ => None,
    }
}

fn machine(config: &Config, planted: Option<Planted>, id: ReplicaId) -> Machine {
    let recovered = Recovered { born: Incarnation(1), ..Recovered::default() };
    let log = Memory::new(Durability::PowerLoss, 64);
    let secret = Key::new([0; 16]);
    Replica::new(config, id, Incarnation(1), &[0], secret, recovered, Nanos::ZERO, Plain::new(8, 96), log)
        .with_bugs(planted)
}

impl State {
    /// A chain that serves, with a session for each client.
    pub fn new(scripts: [&'static [Step]; 2], faults: Faults, planted: Option<Planted>) -> State {
        let config = Arc::new(Config { session_window: 2, sessions: 2, ..Config::default() });
        let node = |id| {
            let machine = machine(&config, planted, id);
            Arc::new(Node { machine, lives: true, is_heard: true, hash: 0 })
        };
        let script = |steps| Script {
            steps,
            session: SessionId(0),
            begun: 0,
            floor: None,
            asked_in: Epoch(0),
            refused: false,
        };
        let mut controller = Controller::standby(&config, 0, &REPLICAS).with_bugs(planted);
        controller.lead(Nanos::ZERO, Nanos::MAX, None);
        let mut state = State {
            nodes: REPLICAS.map(node),
            controller,
            clients: scripts.map(script),
            network: vec![],
            now: Nanos::ZERO,
            answered: BTreeMap::new(),
            seen: Lsn::ZERO,
            faults,
            unnoticed: false,
            waits: 0,
            config,
            planted,
        };
        state.set_up();
        (0..2).for_each(|c| state.begin(c));
        state
    }

    /// Until all three serve, time goes by; then sessions are opened.
    fn set_up(&mut self) {
        let is_up = |state: &State| {
            let serving = state.controller.configuration().map_or(0, |c| c.serving().count());
            serving == 3
                && state.nodes.iter().all(|node| {
                    let view = node.machine.view();
                    view.connected && view.settled && view.lease_until > state.now
                })
        };
        for _ in 0..1000 {
            if is_up(self) {
                break;
            }
            self.now = self.now.plus(self.config.heartbeat);
            self.settle();
        }
        assert!(is_up(self), "the chain does not come up: {:?}", self.controller.view(self.now));
        for c in 0..2 {
            let head = self.head().expect("somebody leads");
            self.send(NodeId::Client(c), vec![(NodeId::Replica(head), Message::Open { token: 9 })]);
            self.settle();
        }
        assert!(self.clients.iter().all(|client| client.session != SessionId(0)), "no session was opened");
        self.network.clear();
    }

    /// Everything that can happen without a crash happens, in some order.
    fn settle(&mut self) {
        for _ in 0..1000 {
            for id in REPLICAS {
                self.sync(id);
                self.tick(id);
            }
            if self.network.is_empty() {
                return;
            }
            self.deliver(0, false).expect("nothing goes wrong yet");
        }
        panic!("it does not come to rest");
    }

    fn head(&self) -> Option<ReplicaId> {
        self.controller.configuration()?.head().map(|head| head.replica)
    }

    fn epoch(&self) -> Epoch {
        self.controller.configuration().map_or(Epoch(0), |configuration| configuration.epoch)
    }

    /// The next step of client `c`, if there is one.
    fn begin(&mut self, c: usize) {
        let script = &mut self.clients[c];
        if script.begun < script.steps.len() {
            script.begun += 1;
            script.floor = Some(self.seen);
            self.ask(c);
        }
    }

    /// Client `c` sends what it has begun, to whoever it should be now.
    fn ask(&mut self, c: usize) {
        let Some(mut to) = self.head() else { return };
        let epoch = self.epoch();
        let script = &mut self.clients[c];
        (script.asked_in, script.refused) = (epoch, false);
        let mut id = RequestId { session: script.session, sequence: script.begun as u64 };
        let transaction = match script.steps[script.begun - 1] {
            Step::Add => Transaction::new().add(KEY, 1),
            Step::Read(replica) => {
                id.session = SessionId(0);
                if self.nodes[at(replica)].lives {
                    to = replica;
                }
                Transaction::new().get(KEY)
            }
        };
        self.send(
            NodeId::Client(c as u64),
            vec![(NodeId::Replica(to), Message::Request { id, transaction })],
        );
    }

    fn send(&mut self, from: NodeId, out: Out) {
        for (to, message) in out {
            if matches!(to, NodeId::Replica(to) if !self.nodes[at(to)].lives) {
                continue;
            }
            let hash = hash_of(&(from, to, &message));
            let place = self.network.partition_point(|other| other.0 < hash);
            self.network.insert(place, (hash, from, to, Arc::new(message)));
        }
    }

    /// Does something with a replica, then serves what is due there.
    fn with(&mut self, id: ReplicaId, act: impl FnOnce(&mut Machine, Nanos, &mut Out)) {
        let node = Arc::make_mut(&mut self.nodes[at(id)]);
        let mut out = Vec::new();
        act(&mut node.machine, self.now, &mut out);
        if node.machine.next_deadline() <= self.now {
            node.machine.tick(self.now, &mut out);
        }
        node.machine.forget_stats();
        node.hash = hash_of(&(&node.machine, node.lives, node.is_heard));
        self.depart(id, out);
    }

    fn tick(&mut self, id: ReplicaId) {
        if self.nodes[at(id)].lives {
            self.with(id, |machine, now, out| machine.tick(now, out));
        }
    }

    /// The log is made durable, and the machine sees it.
    fn sync(&mut self, id: ReplicaId) {
        if self.nodes[at(id)].lives {
            self.with(id, |machine, now, out| {
                machine.log_mut().sync();
                machine.tick(now, out);
            });
        }
    }

    /// What a replica says leaves; the controller hears it at once.
    fn depart(&mut self, id: ReplicaId, out: Out) {
        let (alive, others): (Out, Out) =
            out.into_iter().partition(|(to, _)| matches!(to, NodeId::Controller(_)));
        self.send(NodeId::Replica(id), others);
        let mut said = Vec::new();
        let is_heard = self.nodes[at(id)].is_heard;
        for (_, message) in alive.into_iter().filter(|_| is_heard) {
            self.controller.handle(self.now, NodeId::Replica(id), message, &mut said);
        }
        self.govern(said);
    }

    /// The registry takes what is proposed; what is news to a replica is sent.
    fn govern(&mut self, mut said: Out) {
        while self.controller.proposal().is_some() {
            said.clear();
            self.controller.stored(self.now, Ok(()), &mut said);
        }
        let is_news = |(to, message): &(NodeId, Message)| {
            let (NodeId::Replica(to), Message::Lead { configuration, settled, .. }) = (to, message) else {
                return false;
            };
            let node = &self.nodes[at(*to)];
            let view = node.machine.view();
            let is_more = *settled && !view.settled || view.lease_until <= self.now;
            node.is_heard
                && (configuration.epoch > view.epoch || configuration.epoch == view.epoch && is_more)
        };
        said.retain(is_news);
        self.send(NodeId::Controller(0), said);
    }

    /// Message `i` arrives.
    fn deliver(&mut self, i: usize, stays: bool) -> Result<(), String> {
        let (_, from, to, message) = if stays { self.network[i].clone() } else { self.network.remove(i) };
        let message = Arc::unwrap_or_clone(message);
        match to {
            NodeId::Replica(id) => self.with(id, |machine, now, out| machine.handle(now, from, message, out)),
            NodeId::Client(c) => self.hear(c as usize, message)?,
            NodeId::Controller(_) | NodeId::Home => {}
        }
        Ok(())
    }

    fn hear(&mut self, c: usize, message: Message) -> Result<(), String> {
        let script = &mut self.clients[c];
        match message {
            Message::Opened { session, .. } => script.session = session,
            Message::Reply { id, outcome } => return self.answer(c, id, outcome),
            Message::Refused { id, why } if id.sequence == script.begun as u64 && script.floor.is_some() => {
                if !matches!(why, Refusal::Elsewhere(_) | Refusal::Busy) {
                    return Err(format!("client {c} was refused: {why:?}"));
                }
                script.refused = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, c: usize, id: RequestId, outcome: Outcome) -> Result<(), String> {
        if id.session != SessionId(0) {
            let sums = outcome.sums.clone();
            let known = self.answered.entry(outcome.lsn).or_insert_with(|| (id, sums.clone()));
            if *known != (id, sums) {
                return Err(format!("{id:?} was answered {outcome:?}, but {known:?} was"));
            }
            let twice = self.answered.iter().find(|(lsn, known)| known.0 == id && **lsn != outcome.lsn);
            if let Some((lsn, _)) = twice {
                return Err(format!("{id:?} was answered with {lsn:?} and {:?}", outcome.lsn));
            }
        }
        let script = &mut self.clients[c];
        let Some(floor) = script.floor.filter(|_| id.sequence == script.begun as u64) else { return Ok(()) };
        let showed = match script.steps[script.begun - 1] {
            Step::Add => outcome.lsn,
            Step::Read(_) => outcome.reads[0].as_ref().map_or(Lsn::ZERO, |found| found.version),
        };
        let is_write = script.steps[script.begun - 1] == Step::Add;
        if outcome.abort.is_some() || showed < floor || (is_write && showed == floor) {
            return Err(format!("client {c} was answered {outcome:?}, after {floor:?} had been answered"));
        }
        script.floor = None;
        self.seen = self.seen.max(showed);
        self.begin(c);
        Ok(())
    }

    pub fn living(&self) -> impl Iterator<Item = (ReplicaId, &Machine)> {
        REPLICAS
            .into_iter()
            .map(|id| (id, &self.nodes[at(id)]))
            .filter(|(_, node)| node.lives)
            .map(|(id, node)| (id, &node.machine))
    }

    pub fn hash(&self) -> u64 {
        let nodes = self.nodes.each_ref().map(|node| node.hash);
        let network: Vec<u64> = self.network.iter().map(|message| message.0).collect();
        let rest = (&self.answered, self.seen, self.faults, self.unnoticed, self.now);
        hash_of(&(nodes, network, &self.controller, &self.clients, rest))
    }
}
