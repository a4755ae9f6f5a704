//! Connections with queues, lanes that finish in any order, ends of connections and of the accelerator: each request is handled and answered in
//! the order of coming, once; what an ended connection held is given back. Each bug that is planted in the queue must be found.

use super::*;
use proptest::prelude::*;
use std::rc::Rc;

/// Bugs of the queue that the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// Of two requests that can be handled the later one is first.
    HandlesOutOfOrder,
    /// Of two replies that are there the later one is first.
    LeavesOutOfOrder,
    /// A reply leaves a second time, as that of the next request.
    LeavesTwice,
    /// When the accelerator dies, what it was serialising gets no reply.
    FailForgetsSending,
    /// Requests that were handled are not among those that an ended connection held: their bytes are never given back.
    HeadsOfUnhandledOnly,
}

const PLANTED: [Planted; 5] = [
    Planted::HandlesOutOfOrder,
    Planted::LeavesOutOfOrder,
    Planted::LeavesTwice,
    Planted::FailForgetsSending,
    Planted::HeadsOfUnhandledOnly,
];

/// What [`Queue::next`] does first.
pub(super) fn before_handling<H, P, S>(queue: &mut Queue<H, P, S>) {
    let at = queue.handled;
    let ready = |entry: Option<&Entry<H, P, S>>| {
        entry.is_some_and(|entry| matches!(entry.stage, Stage::Decoded(_) | Stage::Whole))
    };
    if queue.planted == Some(Planted::HandlesOutOfOrder)
        && ready(queue.entries.get(at))
        && ready(queue.entries.get(at + 1))
    {
        queue.entries.swap(at, at + 1);
    }
}

/// What [`Queue::leave`] does first.
pub(super) fn before_leaving<H, P, S>(queue: &mut Queue<H, P, S>) {
    let is_done = |entry: Option<&Entry<H, P, S>>| {
        entry.is_some_and(|entry| matches!(entry.stage, Stage::Done(_) | Stage::Deferred))
    };
    if queue.planted == Some(Planted::LeavesOutOfOrder) && is_done(queue.entries.get(1)) {
        queue.entries.swap(0, 1);
    }
}

/// What [`Queue::leave`] does last.
pub(super) fn after_leaving<H, P, S>(queue: &mut Queue<H, P, S>, reply: Option<&[u8]>) {
    if queue.planted == Some(Planted::LeavesTwice)
        && let (Some(reply), Some(Entry { stage: Stage::Done(next), .. })) =
            (reply, queue.entries.front_mut())
    {
        *next = reply.to_vec();
    }
}

/// A request's head: its place in the order of its connection, and what stands for its memory.
struct Head {
    place: u64,
    _memory: Rc<()>,
}

/// What stands for a message in one of the two memories.
struct Message {
    place: u64,
    _memory: Rc<()>,
}

/// What the lanes have of a connection: its generation, so that what ended finds nobody, and the request's number.
type InLanes = (usize, u64, u64);

struct Connection {
    generation: u64,
    queue: Queue<Head, Message, Message>,
    came: u64,
    handled: u64,
    left: u64,
}

/// The server's part of it, as `Beyond` has it, and the checks.
struct World {
    memory: Rc<()>,
    planted: Option<Planted>,
    connections: Vec<Connection>,
    decoding: Vec<InLanes>,
    sending: Vec<InLanes>,
    held: usize,
    is_dead: bool,
}

const CONNECTIONS: usize = 2;
const DEAD: &[u8] = b"the accelerator has died";

impl World {
    fn new(planted: Option<Planted>) -> World {
        let mut world = World {
            memory: Rc::new(()),
            planted,
            connections: Vec::new(),
            decoding: Vec::new(),
            sending: Vec::new(),
            held: 0,
            is_dead: false,
        };
        for _ in 0..CONNECTIONS {
            let fresh = world.connection(0);
            world.connections.push(fresh);
        }
        world
    }

    fn connection(&self, generation: u64) -> Connection {
        let queue = Queue { planted: self.planted, ..Queue::default() };
        Connection { generation, queue, came: 0, handled: 0, left: 0 }
    }

    fn message(&self, place: u64) -> Message {
        Message { place, _memory: Rc::clone(&self.memory) }
    }

    fn put(&mut self, at: usize, whole: bool) {
        let stage = if whole || self.is_dead { Stage::Whole } else { Stage::Decoding };
        let is_decoding = matches!(stage, Stage::Decoding);
        let connection = &mut self.connections[at];
        let head = Head { place: connection.came, _memory: Rc::clone(&self.memory) };
        let number = connection.queue.put(head, stage);
        connection.came += 1;
        self.held += 1;
        if is_decoding {
            self.decoding.push((at, connection.generation, number));
        }
    }

    /// Lanes have done something of a connection that is still there, or is not.
    fn set(&mut self, (at, generation, number): InLanes, decoded: bool) {
        if self.connections[at].generation != generation {
            return;
        }
        let place = self.connections[at].queue.head(number).place;
        let stage = match decoded {
            true => Stage::Decoded(self.message(place)),
            false => Stage::Done(place.to_le_bytes().to_vec()),
        };
        self.connections[at].queue.set(number, stage);
    }

    fn handle(&mut self, at: usize) -> Result<(), &'static str> {
        let connection = &mut self.connections[at];
        let Some((number, stage)) = connection.queue.next() else { return Ok(()) };
        let place = connection.queue.head(number).place;
        if place != connection.handled {
            return Err("handled out of order");
        }
        if matches!(&stage, Stage::Decoded(of) if of.place != place) {
            return Err("handled with another's message");
        }
        connection.handled += 1;
        let generation = connection.generation;
        let stage = match place % 4 {
            _ if self.is_dead => Stage::Done(DEAD.to_vec()),
            0 => Stage::Unsent(self.message(place)),
            1 => Stage::Done(place.to_le_bytes().to_vec()),
            2 => Stage::Deferred,
            _ => {
                self.sending.push((at, generation, number));
                Stage::Sending
            }
        };
        self.connections[at].queue.set(number, stage);
        Ok(())
    }

    fn send_again(&mut self, at: usize) -> Result<(), &'static str> {
        let connection = &mut self.connections[at];
        let Some((number, reply)) = connection.queue.unsent() else { return Ok(()) };
        if connection.queue.head(number).place != reply.place {
            return Err("another's reply is sent");
        }
        connection.queue.set(number, Stage::Sending);
        self.sending.push((at, connection.generation, number));
        Ok(())
    }

    fn leave(&mut self, at: usize) -> Result<(), &'static str> {
        let connection = &mut self.connections[at];
        let Some((head, reply)) = connection.queue.leave() else { return Ok(()) };
        self.held -= 1;
        if head.place != connection.left {
            return Err("answered out of order");
        }
        connection.left += 1;
        match reply {
            None if head.place % 4 != 2 => Err("lost"),
            Some(reply) if reply != head.place.to_le_bytes() && reply != DEAD => Err("another's reply"),
            _ => Ok(()),
        }
    }

    /// As `Beyond::closed`; whoever comes next gets the place.
    fn close(&mut self, at: usize) {
        let fresh = self.connection(self.connections[at].generation + 1);
        let ended = std::mem::replace(&mut self.connections[at], fresh);
        self.held -= ended.queue.heads().count();
    }

    fn die(&mut self) {
        self.is_dead = true;
        self.decoding.clear();
        self.sending.clear();
        self.connections.iter_mut().for_each(|connection| connection.queue.fail(|_| DEAD.to_vec()));
        // What was not handled counts as that.
        self.connections.iter_mut().for_each(|connection| connection.handled = connection.came);
    }

    fn step(&mut self, choice: u8, more: bool) -> Result<(), &'static str> {
        let (at, of) = (usize::from(choice / 16) % CONNECTIONS, usize::from(choice / 32));
        match choice % 16 {
            0..=2 if more => self.put(at, false),
            3 if more => self.put(at, true),
            4 if more && of == 7 => self.close(at),
            5 if more && choice == 0xf5 => self.die(),
            6 | 7 if !self.decoding.is_empty() => {
                let of = self.decoding.swap_remove(of % self.decoding.len());
                self.set(of, true);
            }
            8 | 9 if !self.sending.is_empty() => {
                let of = self.sending.swap_remove(of % self.sending.len());
                self.set(of, false);
            }
            10 => self.send_again(at)?,
            11..=13 => self.handle(at)?,
            _ => self.leave(at)?,
        }
        Ok(())
    }

    /// Everything comes to its end.
    fn end(mut self) -> Result<(), &'static str> {
        let came: u64 = self.connections.iter().map(|connection| connection.came).sum();
        // Lanes have requests of ended connections, too.
        for _ in 0..=4 * came as usize + self.decoding.len() + self.sending.len() {
            for choice in [6, 8, 10, 11, 14, 16 + 10, 16 + 11, 16 + 14] {
                self.step(choice, false)?;
            }
        }
        if self.connections.iter().any(|connection| connection.left != connection.came) {
            return Err("lost");
        }
        (0..CONNECTIONS).for_each(|at| self.close(at));
        if self.held != 0 {
            return Err("bytes are not given back");
        }
        drop(self.connections);
        if Rc::strong_count(&self.memory) != 1 { Err("memory is not given back") } else { Ok(()) }
    }
}

fn play(choices: &[u8], planted: Option<Planted>) -> Result<(), &'static str> {
    let mut world = World::new(planted);
    choices.iter().try_for_each(|&choice| world.step(choice, true))?;
    world.end()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_handled_and_answered_in_their_order(choices in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(play(&choices, None), Ok(()));
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut prng = base::prng::Prng::new(16);
    let games: Vec<Vec<u8>> = (0..300).map(|_| (0..200).map(|_| prng.next_u64() as u8).collect()).collect();
    for planted in PLANTED {
        let found = games.iter().filter(|choices| play(choices, Some(planted)).is_err()).count();
        assert!(found > 0, "{planted:?} was not found in {} games", games.len());
    }
    assert!(games.iter().all(|choices| play(choices, None).is_ok()));
}

#[test]
fn a_dead_accelerators_requests_are_answered_once_and_in_order() {
    let mut queue = Queue::<u64, u64, u64>::default();
    queue.put(0, Stage::Whole);
    queue.put(1, Stage::Decoding);
    queue.put(2, Stage::Decoded(2));
    let (number, _) = queue.next().expect("the first is whole");
    queue.set(number, Stage::Done(b"reply".to_vec()));
    queue.fail(|_| b"failed".to_vec());
    let replies: Vec<_> = std::iter::from_fn(|| queue.leave()).map(|(_, reply)| reply).collect();
    assert_eq!(replies, [Some(b"reply".to_vec()), Some(b"failed".to_vec()), Some(b"failed".to_vec())]);
}
