//! A worker: takes one request at a time from its ways, answers it, and sleeps when there is none.
//!
//! Why one at a time: a request that a worker took is out of reach for the others. So it takes the next only when the last is
//! answered, and only answers are collected to a burst.
//!
//! Invariants:
//! 1. Its lanes, its shared way and the queue have their turns one after the other: none waits while another is served twice.
//! 2. A request that was taken is answered exactly once, through the way it came, whatever its handler does; only when the front
//!    is gone is the answer dropped.
//! 3. Whoever sleeps for want of requests can take one at once; after such a wait it passes a wake-up on, in case that it was meant
//!    for more than it took: see [`ring::wait::wake_some`].

use super::Execute;
use super::queue;
use crate::frame::{END, Frame, Header, Kind};
use crate::port::{Packet, Port, SendError};
use crate::status::Code;
use base::{Clock, Nanos};
use ring::wait::{Sleeper, WaitPolicy, Waker, pass_on};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers that leave as one burst, at most.
const BURST: u32 = 16;
/// A burst that took longer leaves before the next request is begun.
const PATIENCE: Nanos = Nanos::from_micros(2);

/// Where the front leaves word for a worker.
pub(super) struct Desk {
    /// Counts what was left, so that a worker only looks when there is something.
    events: AtomicU32,
    stopped: AtomicBool,
    word: Mutex<Word>,
}

pub(super) struct Word {
    /// Lanes that were opened.
    pub(super) lanes: Vec<Port>,
    pub(super) policy: WaitPolicy,
}

impl Desk {
    pub(super) fn new(policy: WaitPolicy) -> Desk {
        let word = Mutex::new(Word { lanes: Vec::new(), policy });
        Desk { events: AtomicU32::new(0), stopped: AtomicBool::new(false), word }
    }

    /// Leaves word; the caller wakes the worker.
    pub(super) fn leave(&self, write: impl FnOnce(&mut Word)) {
        write(&mut self.word());
        self.events.fetch_add(1, Ordering::Release); // pairs with the worker's load
    }

    /// The worker is to leave when it finds nothing more; the caller wakes it.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn word(&self) -> MutexGuard<'_, Word> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn events(&self) -> u32 {
        self.events.load(Ordering::Acquire)
    }
}

/// One worker, as a value: a thread runs it, or a simulation takes its steps.
pub struct Worker {
    number: usize,
    /// The shared way, the way back for the queue, then lanes.
    ways: Vec<Port>,
    queue: queue::Receiver,
    /// Whose turn it is; after the last way, the queue's.
    turn: usize,
    desk: Arc<Desk>,
    events: u32,
    policy: WaitPolicy,
    /// Ways with answers since the last flush.
    dirty: Vec<usize>,
    sleeper: Sleeper,
    /// Of all workers.
    wakers: Arc<[Waker]>,
    has_waited: bool,
}

/// The way back for what came from the queue.
const QUEUE: usize = 1;

/// The way that a request came, and its answer goes.
#[derive(Clone, Copy, Debug)]
pub struct Via(usize);

impl Worker {
    pub(super) fn new(
        number: usize,
        ways: [Port; 2],
        queue: queue::Receiver,
        (desk, sleeper): (Arc<Desk>, Sleeper),
        wakers: Arc<[Waker]>,
    ) -> Worker {
        let mut worker = Worker {
            number,
            ways: ways.into(),
            queue,
            turn: 0,
            desk,
            events: 0,
            policy: WaitPolicy::default(),
            dirty: Vec::new(),
            sleeper,
            wakers,
            has_waited: false,
        };
        worker.read_word();
        worker
    }

    /// The next request, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<(Via, Packet)> {
        if self.desk.events() != self.events {
            self.read_word();
        }
        let taken = self.take_in_turn();
        if std::mem::take(&mut self.has_waited) {
            pass_on(&self.wakers, || self.queue.is_ready());
        }
        taken
    }

    #[inline]
    fn take_in_turn(&mut self) -> Option<(Via, Packet)> {
        let turns = self.ways.len() + 1;
        for turn in (self.turn..turns).chain(0..self.turn) {
            let taken = match self.ways.get_mut(turn) {
                Some(way) => way.recv().map(|packet| (Via(turn), packet)),
                None => self.queue.pop().map(|packet| (Via(QUEUE), packet)),
            };
            if taken.is_some() {
                self.turn = if turn + 1 < turns { turn + 1 } else { 0 };
                return taken;
            }
        }
        None
    }

    #[cold]
    fn read_word(&mut self) {
        self.flush();
        self.events = self.desk.events();
        let mut word = self.desk.word();
        self.ways.append(&mut word.lanes);
        self.policy = word.policy;
        drop(word);
        // A lane is closed when all its requests were answered, so there is nothing in it.
        let mut at = 0;
        self.ways.retain(|way| {
            at += 1;
            at <= 2 || !way.is_closed()
        });
        self.turn = 0;
    }

    /// Answers a request; the answer is on its way at the latest after [`Worker::flush`]. Waits while there is no room for it.
    #[inline]
    pub fn answer(&mut self, via: Via, answer: Packet) {
        let mut answer = answer;
        while let Err(SendError::Full(back)) = self.ways[via.0].try_send(answer) {
            answer = back;
            if !self.wait_for_room(via) {
                return;
            }
        }
        if self.dirty.last() != Some(&via.0) {
            self.dirty.push(via.0);
        }
    }

    /// Whether there is room; there is none any more if the front stops.
    #[cold]
    fn wait_for_room(&mut self, via: Via) -> bool {
        self.flush();
        let Worker { ways, sleeper, desk, policy, .. } = self;
        let way = &mut ways[via.0];
        // Apart: a request in the queue is for others, who are not in the middle of one.
        sleeper.wait_apart(*policy, None, || way.can_send() || desk.is_stopped());
        way.can_send()
    }

    /// Sends answers on their way.
    #[inline]
    pub fn flush(&mut self) {
        for way in self.dirty.drain(..) {
            self.ways[way].flush();
        }
    }

    /// Flushes, and sleeps until there may be something to take.
    pub fn wait(&mut self) {
        self.flush();
        let Worker { ways, queue, desk, events, sleeper, policy, .. } = self;
        let word = ways[0].next_word();
        sleeper.wait_on(*policy, None, word, || {
            let called = desk.events() != *events || desk.is_stopped();
            called || queue.is_ready() || ways.iter_mut().any(Port::is_ready)
        });
        self.has_waited = true;
    }

    /// Works until it is told to stop and finds nothing more.
    pub(super) fn run(mut self, execute: &dyn Execute) {
        let clock = Clock::shared();
        let mut work = execute.worker(self.number);
        let (mut burst, mut since) = (0, clock.now());
        loop {
            let Some((via, request)) = self.take() else {
                self.flush();
                if self.desk.is_stopped() {
                    return;
                }
                self.wait();
                (burst, since) = (0, clock.now());
                continue;
            };
            let answer = match catch_unwind(AssertUnwindSafe(|| work.execute(&request))) {
                Ok(answer) => answer,
                Err(_) => {
                    // What the handler left behind half done is not used again.
                    work = execute.worker(self.number);
                    internal(&request)
                }
            };
            self.answer(via, answer.with_tag(request.tag()));
            burst += 1;
            let now = clock.now();
            if burst == BURST || now.since(since) >= PATIENCE {
                self.flush();
                (burst, since) = (0, now);
            }
        }
    }
}

/// The reply to a request whose handler panicked.
fn internal(request: &Packet) -> Packet {
    let call = Frame::parse(request.bytes()).map_or(0, |frame| frame.header.call);
    let header = Header { flags: END, method: Code::Internal as u16, ..Header::new(Kind::Reply, call) };
    Packet::new(request.tag(), &[&header.emit(), b"the handler panicked"])
}
