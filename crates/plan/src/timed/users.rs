//! Users of a cache in the network: what they ask, how often, and what they saw; and whether the answers may be so.
//!
//! **Closed**: a client has so many operations under way, and begins one when another ends. **Open**: operations are due at random moments, so many per second
//! of all clients; a client begins one that is due as soon as fewer than so many are under way, and latency counts from when it was due, so that nothing is
//! left out when clients are late.
//!
//! Every write has a value of its own, a number in decimal digits. So each answer is held against what was asked: a read shows a value that somebody wrote
//! under this key ([`Judged::invented`]: none ever may), and not an older one than was known to be there when it was asked ([`Judged::stale`]); and
//! `sim::check` looks for an order of each key's operations that explains all answers ([`Outcome::disordered`]). What a protocol promises of the last two, the
//! experiments say.

use super::net::{Hardware, Net, User};
use base::{Nanos, Picos, Prng};
use model::load::{Seen, whole};
use model::random::exponential;
use model::{Sim, rerun};
use protocol::coherence::client::{Answer, Call, OpId};
use protocol::coherence::{Client, NodeId, Out};
use protocol::wire::{ClientId, Kind, Status, Verb};
use serve::inc::machine::Machine;
use sim::check::{Rules, check};
use sim::history::History;
use sim::kv::{Compute, Op, Ret, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// How operations come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many of each of these clients' operations always under way.
    Closed {
        /// The first so many clients.
        clients: usize,
        /// Of each.
        window: usize,
    },
    /// At random.
    Open {
        /// So many per second, of all clients together.
        rate: f64,
        /// Of a client under way at once at most.
        most: usize,
    },
}

/// An operation of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Reads.
    Get,
    /// Writes.
    Set,
    /// Reads, computes, and writes: as one operation.
    GetThenSet,
    /// Has it computed, with this operand.
    Compute(Verb, u64),
}

/// Draws what a client does next, and to which key.
pub type Draw = dyn Fn(&mut Prng, u32) -> (Doing, Vec<u8>);
/// What an item was before anybody wrote it: its value and version.
pub type Before = dyn Fn(&[u8]) -> (Vec<u8>, u64);

/// What users ask for.
pub struct Load {
    /// How often.
    pub pace: Pace,
    /// The next operation of the client of this number, counted from 1, and its key.
    pub draw: Box<Draw>,
    /// Past all boxes.
    pub no_cache: bool,
    /// Bytes of a value at least.
    pub value: usize,
    /// What is stored under a key when it is asked for the first time, with its version.
    pub before: Box<Before>,
}

/// The value that is a number, in so many bytes or more.
pub fn value_of(number: u64, len: usize) -> Vec<u8> {
    format!("{number:0len$}").into_bytes()
}

/// A client's machine.
pub trait Asks {
    /// Begins an operation.
    fn start(&mut self, now: Nanos, call: Call, out: &mut Out) -> OpId;

    /// One that ended: its answer, if there is one, and whether another box than the client's own gave it.
    fn ended(&mut self) -> Option<(OpId, Option<Answer>, bool)>;
}

impl Asks for Client {
    fn start(&mut self, now: Nanos, call: Call, out: &mut Out) -> OpId {
        Client::start(self, now, call, out).expect("fewer than it may have are under way")
    }

    fn ended(&mut self) -> Option<(OpId, Option<Answer>, bool)> {
        self.poll_outcome().map(|(id, outcome)| (id, outcome.ok(), false))
    }
}

/// Who answered reads and computations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// The client's own box.
    pub first_box: u64,
    /// Another.
    pub later_box: u64,
    /// The home.
    pub home: u64,
}

impl By {
    /// Any box.
    pub fn boxes(&self) -> u64 {
        self.first_box + self.later_box
    }

    fn times(self, times: u64) -> By {
        let By { first_box, later_box, home } = self;
        By { first_box: first_box * times, later_box: later_box * times, home: home * times }
    }
}

/// What became of answers, from a run's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Reads that were answered.
    pub reads: u64,
    /// Of these, with a value that nobody wrote under the key.
    pub invented: u64,
    /// With an older value than an operation had shown that ended before the read was asked.
    pub stale: u64,
}

/// What users saw after the warm-up.
pub struct Outcome {
    /// Reads, and computations.
    pub gets: Seen,
    /// Writes.
    pub sets: Seen,
    /// Of reads and computations.
    pub by: By,
    /// Packets of all nodes.
    pub packets: u64,
    /// All that was asked and answered, from the beginning.
    pub history: History<Op, Ret>,
    /// Of these.
    pub judged: Judged,
}

impl Outcome {
    /// Keys that operations were on, and of these such whose answers no order of operations explains.
    pub fn disordered(&self) -> (usize, usize) {
        let report = check(&self.history, &Rules::default());
        let bad = report.violations.len();
        (report.good + bad + report.gave_up.len(), bad)
    }

    /// All operations.
    pub fn all(&self) -> Seen {
        self.gets.clone().and(&self.sets)
    }
}

/// What users note.
struct Account {
    from: Picos,
    gets: Seen,
    sets: Seen,
    by: By,
    history: History<Op, Ret>,
    /// Operations begun, of all users.
    operations: u64,
    judged: Judged,
    /// The newest version of each key that an operation showed.
    newest: HashMap<Vec<u8>, u64>,
}

/// Keys of all writes, by their numbers; longer than a run where copies outlive it.
pub type Written = Rc<RefCell<Vec<Vec<u8>>>>;

/// Notes a write; its number.
pub fn write_down(written: &Written, key: &[u8]) -> u64 {
    written.borrow_mut().push(key.into());
    written.borrow().len() as u64
}

/// An operation under way.
struct Begun {
    number: u64,
    doing: Doing,
    key: Vec<u8>,
    /// What its latency counts from.
    due: Picos,
    /// What was known of its key.
    floor: u64,
}

/// A client's load.
struct Asker<C> {
    load: Rc<Load>,
    client: Rc<RefCell<C>>,
    number: u32,
    window: usize,
    prng: Prng,
    account: Rc<RefCell<Account>>,
    written: Written,
    /// In an open loop: due, and not begun.
    waiting: Option<Rc<RefCell<VecDeque<Picos>>>>,
    under_way: BTreeMap<OpId, Begun>,
}

impl<C: Asks> Asker<C> {
    fn go_on(&mut self, now: Picos, out: &mut Out) {
        while let Some((id, answer, later)) = { self.client.borrow_mut().ended() } {
            self.end(now, (id, answer, later), out);
        }
        while self.under_way.len() < self.window {
            let due = match &self.waiting {
                None => now,
                Some(waiting) => match waiting.borrow_mut().pop_front() {
                    Some(due) => due,
                    None => return,
                },
            };
            let (doing, key) = (self.load.draw)(&mut self.prng, self.number);
            self.begin(now, (doing, key, due), out);
        }
    }

    fn begin(&mut self, now: Picos, (doing, key, due): (Doing, Vec<u8>, Picos), out: &mut Out) {
        let account = &mut *self.account.borrow_mut();
        if !account.newest.contains_key(&key) {
            // What is there from before is as a write before all others.
            let (value, version) = (self.load.before)(&key);
            let id = u64::MAX - account.newest.len() as u64;
            account.history.call(now, 0, id, &key, Op::Set { value: Value::of(&value), ttl: None });
            account.history.returns(now, id, Ret::of(sim::kv::Status::Ok).versioned(version));
            account.newest.insert(key.clone(), version);
        }
        account.operations += 1;
        let number = account.operations;
        let (call, op) = match doing {
            Doing::Get | Doing::GetThenSet => (Call::new(Verb::Get, &key), Op::Get),
            Doing::Set => {
                let value = value_of(write_down(&self.written, &key), self.load.value);
                let op = Op::Set { value: Value::of(&value), ttl: None };
                (Call { kind: Kind::Number, ..Call::new(Verb::Set, &key).value(&value) }, op)
            }
            Doing::Compute(verb, by) => {
                let op = match verb {
                    Verb::CondPut => Op::CondPut { by, ttl: None },
                    _ => Op::Compute { how: Compute::Incr, by, init: None, ttl: None },
                };
                (Call::new(verb, &key).operand(by), op)
            }
        };
        let call = Call { no_cache: self.load.no_cache, ..call };
        account.history.call(now, self.number, number, &key, op);
        let floor = account.newest[&key];
        let id = self.client.borrow_mut().start(now.nanos(), call, out);
        self.under_way.insert(id, Begun { number, doing, key, due, floor });
    }

    fn end(&mut self, now: Picos, (id, answer, later): (OpId, Option<Answer>, bool), out: &mut Out) {
        let begun = self.under_way.remove(&id).expect("it was begun here");
        // What nobody knows the end of stays open in the history.
        let Some(answer) = answer else { return };
        self.account.borrow_mut().judge(now, &begun, &answer, &self.written);
        if begun.doing == Doing::GetThenSet {
            return self.begin(now, (Doing::Set, begun.key, begun.due), out);
        }
        let account = &mut *self.account.borrow_mut();
        if now < account.from {
            return;
        }
        let latency = now.since(begun.due);
        if begun.doing == Doing::Set {
            return account.sets.record(latency);
        }
        account.gets.record(latency);
        match (answer.from_box, later) {
            (false, _) => account.by.home += 1,
            (true, false) => account.by.first_box += 1,
            (true, true) => account.by.later_box += 1,
        }
    }
}

impl Account {
    fn judge(&mut self, now: Picos, begun: &Begun, answer: &Answer, written: &Written) {
        let status = match answer.status {
            Status::Ok => sim::kv::Status::Ok,
            Status::Miss => sim::kv::Status::Miss,
            Status::NotStored => sim::kv::Status::NotStored,
            _ => sim::kv::Status::Error,
        };
        let is_computed = matches!(begun.doing, Doing::Compute(..));
        let version = Some(answer.version.0).filter(|_| !is_computed && answer.status == Status::Ok);
        let value = match begun.doing {
            Doing::Get | Doing::GetThenSet => Some(Value::of(&answer.value)),
            Doing::Compute(Verb::Incr, _) => Some(Value::number(answer.number)),
            Doing::Compute(..) | Doing::Set => None,
        };
        let value = value.filter(|_| answer.status == Status::Ok);
        self.history.returns(now, begun.number, Ret { status, value, version });
        let newest = self.newest.get_mut(&begun.key).expect("it was put there when it was asked");
        *newest = version.unwrap_or(0).max(*newest);
        if matches!(begun.doing, Doing::Get | Doing::GetThenSet) && answer.status == Status::Ok {
            self.judged.reads += 1;
            self.judged.stale += u64::from(answer.version.0 < begun.floor);
            let number = std::str::from_utf8(&answer.value).ok().and_then(|text| text.parse::<usize>().ok());
            let key = |number: usize| written.borrow().get(number - 1).is_some_and(|key| *key == begun.key);
            self.judged.invented += u64::from(!number.is_some_and(|number| number == 0 || key(number)));
        }
    }
}

/// A run of a load: `warm_up` without account, then `span`.
pub struct Run {
    account: Rc<RefCell<Account>>,
    load: Rc<Load>,
    written: Written,
    seed: u64,
    begin: Picos,
    span: Picos,
}

impl Run {
    /// One that has not begun, on these keys' writes.
    pub fn new(load: Load, written: &Written, seed: u64, (warm_up, span): (Picos, Picos)) -> Run {
        let begin = rerun::warm_up(warm_up);
        let seen = || Seen::new(span);
        let account = Account {
            from: begin,
            gets: seen(),
            sets: seen(),
            by: By::default(),
            history: History::new(),
            operations: 0,
            judged: Judged::default(),
            newest: HashMap::new(),
        };
        let account = Rc::new(RefCell::new(account));
        Run { account, load: Rc::new(load), written: Rc::clone(written), seed, begin, span }
    }

    /// Joins a client, the one of this number, of so many; they begin at once.
    pub fn join<H: Hardware + 'static, C: Asks + Machine + 'static>(
        &self,
        net: &Rc<Net<H>>,
        sim: &Sim,
        (number, of): (u32, usize),
        client: C,
    ) {
        let client = Rc::new(RefCell::new(client));
        let id = NodeId::Client(ClientId(u64::from(number)));
        let mut asker = self.asker(&client, number);
        let waiting = asker.waiting.clone();
        let user: User = Box::new(move |now, out| asker.go_on(now, out));
        net.join(id, &client, Some(user));
        match (self.load.pace, waiting) {
            (Pace::Open { rate, .. }, Some(waiting)) => {
                let between = model::platform::picos(of as f64 / rate);
                let prng = Prng::for_entity(self.seed, u64::from(number), 3);
                sim.spawn(arrive(Rc::clone(net), sim.clone(), id, (waiting, between, prng)));
            }
            _ => net.call(id),
        }
    }

    /// Who asks of a client for it.
    fn asker<C: Asks>(&self, client: &Rc<RefCell<C>>, number: u32) -> Asker<C> {
        let (window, waiting) = match self.load.pace {
            Pace::Closed { clients, window } => (if number as usize <= clients { window } else { 0 }, None),
            Pace::Open { most, .. } => (most, Some(Rc::default())),
        };
        Asker {
            load: Rc::clone(&self.load),
            client: Rc::clone(client),
            number,
            window,
            prng: Prng::for_entity(self.seed, u64::from(number), 2),
            account: Rc::clone(&self.account),
            written: Rc::clone(&self.written),
            waiting,
            under_way: BTreeMap::new(),
        }
    }

    /// Runs it and ends it. `at_begin` is called when the warm-up is over. By how much what was counted stands for more, and what was seen.
    pub fn outcome<H: Hardware + 'static>(
        self,
        net: &Rc<Net<H>>,
        sim: &Sim,
        at_begin: impl FnOnce(),
    ) -> (u64, Outcome) {
        let before = Cell::new(0);
        let start = || {
            before.set(net.packets());
            at_begin();
        };
        let times = rerun::account(sim, self.begin, self.span, start, || {});
        let account = &mut *self.account.borrow_mut();
        let history = std::mem::take(&mut account.history);
        let judged = account.judged;
        let whole = |seen: &Seen| whole(&RefCell::new(seen.clone()), times);
        let outcome = Outcome {
            gets: whole(&account.gets),
            sets: whole(&account.sets),
            by: account.by.times(times),
            packets: (net.packets() - before.get()) * times,
            history,
            judged,
        };
        (times, outcome)
    }
}

/// Operations of an open loop become due.
async fn arrive<H: Hardware + 'static>(
    net: Rc<Net<H>>,
    sim: Sim,
    id: NodeId,
    (waiting, between, mut prng): (Rc<RefCell<VecDeque<Picos>>>, Picos, Prng),
) {
    loop {
        sim.sleep(exponential(&mut prng, between)).await;
        waiting.borrow_mut().push_back(sim.now());
        net.call(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::Version;

    /// Answers at once, and as it was told to.
    struct Scripted(VecDeque<Answer>, u64, Option<OpId>);

    impl Asks for Scripted {
        fn start(&mut self, _: Nanos, _: Call, _: &mut Out) -> OpId {
            self.1 += 1;
            self.2 = Some(OpId(self.1));
            OpId(self.1)
        }

        fn ended(&mut self) -> Option<(OpId, Option<Answer>, bool)> {
            let id = self.2.take()?;
            Some((id, self.0.pop_front(), false))
        }
    }

    #[test]
    fn answers_that_cannot_be_are_seen() {
        let answer = |value: &str, version| {
            let (value, version) = (value.into(), Version(version));
            Answer { value, version, ..Answer::of(Status::Ok) }
        };
        // As at the beginning, invented, a write, read back, older than what was seen.
        let script = [answer("0", 1), answer("9", 1), answer("", 2), answer("1", 2), answer("0", 1)];
        let turns = Cell::new(0);
        let draw = move |_: &mut Prng, _| {
            let turn = turns.replace(turns.get() + 1);
            (if turn == 2 { Doing::Set } else { Doing::Get }, b"k".to_vec())
        };
        let load = Load {
            pace: Pace::Closed { clients: 1, window: 1 },
            draw: Box::new(draw),
            no_cache: false,
            value: 1,
            before: Box::new(|_| (value_of(0, 1), 1)),
        };
        let run = Run::new(load, &Written::default(), 1, (Picos::ZERO, Picos::from_micros(1)));
        let client = Rc::new(RefCell::new(Scripted(script.into(), 0, None)));
        let mut asker = run.asker(&client, 1);
        for at in 0..6 {
            asker.go_on(Picos(at), &mut Out::new());
        }
        let account = run.account.borrow();
        assert_eq!(account.judged, Judged { reads: 4, invented: 1, stale: 1 });
        assert_eq!((account.gets.count(), account.sets.count(), account.by.home), (4, 1, 4));
        assert_eq!(check(&account.history, &Rules::default()).violations.len(), 1);
    }
}
