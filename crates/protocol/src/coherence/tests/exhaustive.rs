//! Every order of events of a small world: two boxes in a line, two clients, one key, no clock; every message may overtake every
//! other, and a bounded number is doubled or lost.
//!
//! ```text
//!   client 1 ── box 1 ── box 2 ── home          client 2 asks box 2
//! ```
//!
//! The checker holds in every state: a copy is what the home has; a read does not see what is older than what was answered
//! before it began. And where nothing was lost every end is a good one: all operations are over and nothing waits.
//!
//! Ownership of the key has orders of its own: clients count through their boxes, and may ask the home again for what they sent.
//! Then every increment counts once.
//!
//! A client of another protocol, at the home, begins what its script says at any moment, and is judged like the others.
//!
//! Number of states: pinned, so that a change of the protocol that opens or closes orders is seen.

use super::super::compute::number;
use super::super::home::Home;
use super::super::home::items::{Items, Replied, Tree};
use super::super::table::{BoxPlace, Layout};
use super::super::{CacheBox, Config, Life, NodeId, Out, Planted};
use crate::wire::{
    BoxId, ClientId, Flags, HomeId, Incarnation, Message, OpNumber, Opcode, Round, Status, Verb, Version,
};
use base::Nanos;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const NOW: Nanos = Nanos(1_000_000);
const KEY: &[u8] = b"k";
const HOME: HomeId = HomeId(1);

/// A client does this, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Script {
    verbs: Vec<Verb>,
    session: Round,
    /// Operations begun.
    begun: usize,
    /// The newest version that was answered when the one under way began.
    floor: Option<Version>,
}

#[derive(Clone, Hash)]
struct State {
    boxes: [CacheBox<Option<Planted>>; 2],
    home: Home<Tree, Option<Planted>>,
    clients: [Script; 2],
    /// By ticket.
    at_home: Script,
    /// In the order of their hashes: what is on its way has no order.
    network: Vec<(u64, NodeId, NodeId, Message)>,
    seen: Version,
    doubles: u32,
    losses: u32,
    /// Times that a client asks the home for what it sent to its box.
    repeats: u32,
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl State {
    fn new(scripts: [&[Verb]; 2], (doubles, losses): (u32, u32), planted: Option<Planted>) -> State {
        let config = Config { copies: 2, fills: 1, holders: 4, ..Config::default() };
        let places =
            [BoxPlace { id: BoxId(1), above: vec![BoxId(2)] }, BoxPlace { id: BoxId(2), above: vec![] }];
        let layout = Arc::new(Layout::new(&places, &[(HOME, BoxId(2))], 1).expect("a layout"));
        let who = (Incarnation(1), Life::First);
        let boxes =
            [1, 2].map(|id| CacheBox::with_bugs(&config, BoxId(id), layout.clone(), who, NOW, planted));
        let mut home = Home::with_bugs(&config, HOME, layout, who, NOW, Tree::new(4), planted);
        let clients = [0, 1].map(|c| {
            let mut message = Message::request(Verb::Session, &[]);
            message.header.client = ClientId(c + 1);
            message.header.home = HOME;
            let mut out = Vec::new();
            home.handle(NOW, NodeId::Client(ClientId(c + 1)), &message, &mut out);
            let session = out[0].1.header.round;
            Script { verbs: scripts[c as usize].to_vec(), session, begun: 0, floor: None }
        });
        let at_home = Script { verbs: vec![], session: Round(0), begun: 0, floor: None };
        let mut state = State {
            boxes,
            home,
            clients,
            at_home,
            network: vec![],
            seen: Version(0),
            doubles,
            losses,
            repeats: 0,
        };
        (0..2).for_each(|c| state.begin(c));
        state
    }

    /// The next operation of client `c`, if there is one.
    fn begin(&mut self, c: usize) {
        let script = &mut self.clients[c];
        if script.begun < script.verbs.len() {
            script.begun += 1;
            script.floor = Some(self.seen);
            self.ask(c, true);
        }
    }

    /// Client `c` asks for what it has begun: its box, if that may know and this is the `first` time.
    fn ask(&mut self, c: usize, first: bool) {
        let script = &self.clients[c];
        let verb = &script.verbs[script.begun - 1];
        let id = ClientId(c as u64 + 1);
        let mut message = Message::request(*verb, KEY);
        message.header.client = id;
        message.header.home = HOME;
        message.header.operation = OpNumber(script.begun as u64);
        let mut to = NodeId::Box(BoxId(c as u16 + 1));
        if *verb != Verb::Get {
            message.header.round = script.session;
            message.value = format!("{c} {}", script.begun).into_bytes();
            to = NodeId::Home(HOME);
        }
        if *verb == Verb::Incr {
            (message.header.operand, message.value) = (1, b"1".to_vec());
            if first {
                message.header.flags = Flags::OWNABLE;
                to = NodeId::Box(BoxId(c as u16 + 1));
            }
        }
        self.send(NodeId::Client(id), vec![(to, message)]);
    }

    /// The client at the home begins its next operation.
    fn ask_by_ticket(&mut self) -> Result<(), String> {
        let script = &mut self.at_home;
        let mut request = Message::request(script.verbs[script.begun], KEY);
        script.begun += 1;
        script.floor = Some(self.seen);
        match script.verbs[script.begun - 1] {
            Verb::Incr => (request.header.operand, request.value) = (1, b"1".to_vec()),
            Verb::Set => request.value = format!("at home {}", script.begun).into_bytes(),
            _ => {}
        }
        let mut out = Vec::new();
        self.home.ask(NOW, request, &mut out);
        self.send(NodeId::Home(HOME), out);
        self.check()
    }

    fn send(&mut self, from: NodeId, out: Out) {
        for (to, message) in out {
            let packet = (hash_of(&(from, to, &message)), from, to, message);
            let at = self.network.partition_point(|other| other.0 < packet.0);
            self.network.insert(at, packet);
        }
    }

    /// Message `i` arrives.
    fn deliver(&mut self, i: usize, stays: bool) -> Result<(), String> {
        let (_, from, to, message) = if stays { self.network[i].clone() } else { self.network.remove(i) };
        let mut out = Vec::new();
        match to {
            NodeId::Box(id) => self.boxes[usize::from(id.0) - 1].handle(NOW, from, &message, &mut out),
            NodeId::Home(_) => self.home.handle(NOW, from, &message, &mut out),
            NodeId::Client(id) => self.answered(id.0 as usize - 1, &message)?,
            NodeId::Controller(_) => {}
        }
        self.send(to, out);
        self.check()
    }

    fn answered(&mut self, c: usize, reply: &Message) -> Result<(), String> {
        let script = &mut self.clients[c];
        let mine = reply.header.operation == OpNumber(script.begun as u64);
        let Some(floor) = script.floor.filter(|_| mine) else { return Ok(()) };
        script.floor = None;
        self.judge(floor, reply)?;
        self.begin(c);
        Ok(())
    }

    fn judge(&mut self, floor: Version, reply: &Message) -> Result<(), String> {
        let showed = reply.header.version;
        let wrong = match reply.header.opcode {
            Opcode::Reply(Verb::Get) => {
                showed < floor || (showed == Version(0) && reply.header.status == Status::Ok)
            }
            _ => reply.header.status != Status::Ok || showed <= floor,
        };
        if wrong {
            return Err(format!("somebody was answered {reply:?} after {floor}"));
        }
        self.seen = self.seen.max(showed);
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        while let Some(Replied { reply, .. }) = self.home.items_mut().poll_reply() {
            let Some(floor) = self.at_home.floor.take() else {
                return Err(format!("{reply:?} is a second answer"));
            };
            self.judge(floor, &reply)?;
        }
        let item = self.home.items_mut().read(KEY, NOW);
        for (i, machine) in self.boxes.iter_mut().enumerate() {
            machine.forget_stats();
            for kept in machine.copies() {
                if item.as_ref().is_none_or(|item| (item.version, &item.value) != (kept.version, &kept.value))
                {
                    return Err(format!("box {} has {}, its home {item:?}", i + 1, kept.version));
                }
            }
        }
        self.home.forget_stats();
        let owner = |id: u16| self.boxes[usize::from(id) - 1].owned(KEY, NOW).is_some();
        match [1, 2].into_iter().find(|id| owner(*id) && self.home.owner_of(KEY) != Some(BoxId(*id))) {
            Some(id) => Err(format!("box {id} would answer as owner")),
            None => Ok(()),
        }
    }

    /// What the key counts, wherever it is.
    fn counted(&self) -> Option<u64> {
        let owned = self.boxes.iter().find_map(|machine| machine.owned(KEY, NOW)).map(|kept| &kept.value);
        number(owned.or(self.home.items().peek(KEY).map(|item| &item.value))?)
    }

    fn next(&self) -> Vec<Result<State, String>> {
        let mut all = Vec::new();
        let mut add = |mut next: State, i, stays| all.push(next.deliver(i, stays).map(|()| next));
        for i in 0..self.network.len() {
            // Of two that are the same one may as well come first.
            if i > 0 && self.network[i - 1].0 == self.network[i].0 {
                continue;
            }
            add(self.clone(), i, false);
            if self.doubles > 0 {
                add(State { doubles: self.doubles - 1, ..self.clone() }, i, true);
            }
        }
        if self.at_home.floor.is_none() && self.at_home.begun < self.at_home.verbs.len() {
            let mut next = self.clone();
            all.push(next.ask_by_ticket().map(|()| next));
        }
        if self.repeats > 0 {
            let waits = |c: &usize| {
                self.clients[*c].floor.is_some()
                    && self.clients[*c].verbs[self.clients[*c].begun - 1] == Verb::Incr
            };
            for c in (0..2).filter(waits) {
                let mut next = State { repeats: self.repeats - 1, ..self.clone() };
                next.ask(c, false);
                all.push(Ok(next));
            }
        }
        if self.losses > 0 {
            for i in 0..self.network.len() {
                let mut next = State { losses: self.losses - 1, ..self.clone() };
                next.network.remove(i);
                all.push(Ok(next));
            }
        }
        all
    }

    /// Nothing is on its way: is all over?
    fn is_good_end(&self) -> bool {
        let scripts = || self.clients.iter().chain([&self.at_home]);
        let over = self.home.is_idle() && scripts().all(|c| c.floor.is_none() && c.begun == c.verbs.len());
        let verbs = || scripts().flat_map(|client| &client.verbs);
        let increments = verbs().filter(|verb| **verb == Verb::Incr).count() as u64;
        // A box that was given the key and does not know it would be asked for it when time goes on.
        let nobody_knows = self.counted().is_none() && self.home.owner_of(KEY).is_some();
        let right = increments == 0
            || verbs().any(|verb| *verb == Verb::Set)
            || nobody_knows
            || self.counted() == Some(increments);
        over && right
    }
}

/// How many states there are, or what is wrong in one.
fn explore(first: State) -> Result<usize, String> {
    let may_stop = first.losses > 0;
    let mut seen = HashSet::from([hash_of(&first)]);
    let mut stack = vec![first];
    while let Some(state) = stack.pop() {
        let may_begin = state.at_home.begun < state.at_home.verbs.len() && state.at_home.floor.is_none();
        if state.network.is_empty() && !may_begin && !may_stop && !state.is_good_end() {
            return Err("nothing is on its way, and not all is over".into());
        }
        for next in state.next() {
            let next = next?;
            if seen.insert(hash_of(&next)) {
                stack.push(next);
            }
        }
    }
    Ok(seen.len())
}

use Verb::{Get, Incr, Set};

#[test]
fn every_order_of_reads_and_writes() {
    let states = explore(State::new([&[Get, Get, Set, Get], &[Set, Get, Set, Get]], (0, 0), None));
    assert_eq!(states, Ok(9765));
}

#[test]
fn every_order_with_one_message_doubled() {
    let states = explore(State::new([&[Get], &[Set, Get, Set]], (1, 0), None));
    assert_eq!(states, Ok(31_109));
    let states = explore(State::new([&[Get, Get], &[Set, Set]], (1, 0), None));
    assert_eq!(states, Ok(68_314));
}

#[test]
fn every_order_with_one_message_lost() {
    let states = explore(State::new([&[Get, Get, Set], &[Set, Get, Set]], (0, 1), None));
    assert_eq!(states, Ok(4984));
}

/// Client 1 counts until its box owns the key, and on; client 2 wants to know, or counts as well.
fn counting(scripts: [&[Verb]; 2], doubles: u32, repeats: u32, planted: Option<Planted>) -> State {
    State { repeats, ..State::new(scripts, (doubles, 0), planted) }
}

#[test]
fn every_order_of_ownership() {
    // Of a first copy that comes late or twice, a write that is repeated at the home, a read or write by the other box.
    let states = explore(counting([&[Incr, Incr, Incr], &[Get]], 1, 0, None));
    assert_eq!(states, Ok(27_346));
    let states = explore(counting([&[Incr, Incr, Incr], &[]], 1, 1, None));
    assert_eq!(states, Ok(23_272));
    let states = explore(counting([&[Incr, Incr, Incr], &[Incr]], 0, 1, None));
    assert_eq!(states, Ok(11_343));
    let lost = State { losses: 1, ..counting([&[Incr, Incr, Incr], &[Get, Incr]], 0, 0, None) };
    assert_eq!(explore(lost), Ok(3822));
}

/// The same with a client at the home.
fn beside(at_home: &[Verb], mut state: State) -> State {
    state.at_home.verbs = at_home.to_vec();
    state
}

#[test]
fn every_order_with_tickets() {
    let states = explore(beside(&[Set, Get], State::new([&[Get, Get], &[Set, Get, Set]], (0, 0), None)));
    assert_eq!(states, Ok(23_498));
    let states = explore(beside(&[Get, Set, Get], State::new([&[Get, Get], &[Set, Get]], (0, 0), None)));
    assert_eq!(states, Ok(10_500));
    let states = explore(beside(&[Set], State::new([&[Get], &[Set]], (1, 0), None)));
    assert_eq!(states, Ok(19_744));
    let states = explore(beside(&[Get, Incr], counting([&[Incr, Incr, Incr], &[]], 0, 0, None)));
    assert_eq!(states, Ok(253));
    let states = explore(beside(&[Incr], counting([&[Incr, Incr, Incr], &[Get]], 0, 0, None)));
    assert_eq!(states, Ok(2346));
}

#[test]
fn mistakes_with_tickets_are_found_in_some_order() {
    for planted in [Planted::TicketSkipsBoxes, Planted::TicketOvertakes, Planted::OwnVersions] {
        let scripts: [&[Verb]; 2] = [&[Get, Get], &[Set, Get, Set]];
        let found = explore(beside(&[Set, Get], State::new(scripts, (0, 0), Some(planted))));
        assert!(found.is_err(), "{}", planted.name());
    }
    let planted = Some(Planted::TicketReadsOwned);
    assert!(explore(beside(&[Get], counting([&[Incr, Incr, Incr], &[]], 0, 0, planted))).is_err());
}

#[test]
fn mistakes_of_owners_are_found_in_some_order() {
    let found = |other, doubles, repeats, planted| {
        let scripts: [&[Verb]; 2] = [&[Incr, Incr, Incr], other];
        assert!(explore(counting(scripts, doubles, repeats, Some(planted))).is_err(), "{}", planted.name());
    };
    found(&[Get], 0, 0, Planted::AckBeforeReturn);
    found(&[Get, Get], 0, 0, Planted::ReadWhileOwned);
    found(&[Get, Incr], 0, 0, Planted::NoVersionBlock);
    found(&[Get], 0, 1, Planted::ReturnWithoutRecords);
    found(&[Get], 1, 0, Planted::GrantWithoutSessions);
}

#[test]
fn mistakes_are_found_in_some_order() {
    for planted in [
        Planted::SkipInvalidation,
        Planted::TokenSurvives,
        Planted::AckWithoutRemoving,
        Planted::AckBeforeChildren,
        Planted::LoseSharer,
        Planted::GrantWhileWriting,
        Planted::TwoWritesAtOnce,
    ] {
        let found = explore(State::new([&[Get, Get, Set], &[Set, Get, Set]], (0, 0), Some(planted)));
        assert!(found.is_err(), "{}", planted.name());
    }
    let planted = Some(Planted::FillWithoutToken);
    let found = explore(State::new([&[Get], &[Set, Get, Set]], (1, 0), planted));
    assert!(found.is_err());
}
