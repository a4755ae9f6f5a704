//! The host's half of the accelerator: what may be asked of it, over a ring pair for each of its threads.
//!
//! ```text
//!              ┌─ request ring, doorbell ──▶ lane thread 0 ── lanes ──▶ host memory (crossing), accelerator memory
//! host thread ─┤  ◀── response ring, notify ──
//!              └─ request ring, doorbell ──▶ lane thread 1 ── lanes ──▶ …
//! ```
//!
//! A request goes to the thread that has the fewest under way (the first of those that have as few). Requests may be submitted without waiting
//! ([`Accelerator::submit`] and [`Accelerator::poll`], [`Accelerator::submit_send`] and [`Accelerator::poll_sent`]): the rings are
//! the queues before the lanes. The other calls (in `asking`) wait for their own response and keep those of others for the polls.
//!
//! Why one value for one host thread, and not a handle for each: every ring keeps one producer and one consumer, and a host thread
//! that waits is woken by nobody else's response.
//!
//! Without threads ([`Accelerator::in_this_thread`]) the calls that wait, and the polls, do their work in turns: everything happens
//! in an order that the program decides.
//!
//! Errors: if a thread has died (a bug of ours: it takes any input) the calls that wait panic and say so; who does not wait
//! asks [`Accelerator::is_dead`].

use super::asking::Asking;
use super::executor::{Request, Response};
use super::lane_thread::{LaneThread, Setting, host_sleeper};
use super::live::Live;
use super::message::Placed;
use super::receive::{Ground, Registers, Workload};
use crate::crossing::{Counts, Crossing, Shared};
use crate::decode::{DecodeError, Limits};
use crate::encode::Settings;
use crate::memory::{Memory, Occupancy, OutOfMemory};
use ring::wait::{Sleeper, WaitPolicy};

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How an accelerator is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that have lanes, one at least.
    pub threads: usize,
    /// Deserialiser lanes of each thread (RPCAcc III-B: four).
    pub lanes: usize,
    /// Requests under way with each thread, a power of two.
    pub requests: u32,
    /// Limits of each message.
    pub limits: Limits,
    /// Host memory that decoded messages take chunks from.
    pub host: Arc<Memory>,
    /// Bytes of the accelerator's own memory.
    pub acc_bytes: usize,
    /// How both sides wait for the other.
    pub wait: WaitPolicy,
    /// The host sleeps on an eventfd, so that it can wait for other descriptors too: see [`Accelerator::arm`].
    pub eventfd: bool,
    /// Of the host's part of serialising.
    pub serialise: Arc<Settings>,
    /// The cores that its threads are pinned to, in turn, as far as the process may use them; without any they are not.
    pub cores: Vec<usize>,
    #[cfg(test)]
    pub(super) planted: Option<super::tests::Planted>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            lanes: 4,
            requests: 64,
            limits: Limits::default(),
            host: Arc::clone(Memory::process()),
            acc_bytes: if cfg!(miri) { 4 << 20 } else { 1 << 30 },
            wait: WaitPolicy::default(),
            eventfd: false,
            serialise: Arc::new(Settings::default()),
            cores: Vec::new(),
            #[cfg(test)]
            planted: None,
        }
    }
}

/// The name of a submitted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) thread: u16,
    pub(super) tag: ring::Tag,
}

/// As many messages are under way as the rings have room for.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy(pub Vec<u8>);

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the accelerator has no room for another message: take received ones first")
    }
}

/// What an accelerator does now and did so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// What crossed.
    pub crossed: Counts,
    /// Messages that were decoded, or refused.
    pub messages: u64,
    /// Fields that were moved to its memory.
    pub moved_to_acc: u64,
    /// Fields that were moved to the host's.
    pub moved_to_host: u64,
    /// Lanes in the middle of a message that takes several turns.
    pub lanes_busy: usize,
    /// Requests that have no response yet.
    pub in_flight: usize,
    /// Chunks of its memory.
    pub memory: Occupancy,
}

impl<C: Crossing> Ground<C> {
    fn figures(&self) -> Figures {
        let moved = |to: usize| self.work.moved[to].load(Ordering::Relaxed);
        Figures {
            crossed: self.crossing.counts(),
            messages: self.work.messages.load(Ordering::Relaxed),
            moved_to_acc: moved(0),
            moved_to_host: moved(1),
            lanes_busy: self.work.busy.load(Ordering::Relaxed),
            in_flight: self.work.under_way.load(Ordering::Relaxed),
            memory: self.acc.occupancy(),
        }
    }
}

/// An accelerator: lanes with a memory of their own.
pub struct Accelerator<C = Shared> {
    pub(super) threads: Vec<LaneThread<C>>,
    pub(super) received: VecDeque<(Ticket, Result<Placed, DecodeError>)>,
    pub(super) ground: Arc<Ground<C>>,
    wait: WaitPolicy,
    sleeper: Sleeper,
    /// After the threads, which are ended first when this is dropped: they may refer to messages that are being sent.
    pub(super) asking: Asking,
}

/// Bytes of a request's ring entry: what to do, an address and a length.
pub(super) const ENTRY: usize = 32;

impl Accelerator {
    /// Starts an accelerator that decodes with the table of `live`; its memory is ordinary memory.
    ///
    /// # Errors
    /// The system's, when memory or a thread cannot be had.
    pub fn start(live: Arc<Live>, options: Options) -> io::Result<Accelerator> {
        Accelerator::start_over(vec![live], options, Arc::new(Shared::default()))
    }
}

impl<C: Crossing + Send + Sync + 'static> Accelerator<C> {
    /// As [`Accelerator::start`], for several schemas, no two of the same layout; what crosses between the memories goes through
    /// `crossing`.
    ///
    /// # Errors
    /// As [`Accelerator::start`].
    ///
    /// # Panics
    /// Without a schema, or with two of one layout.
    pub fn start_over(
        lives: Vec<Arc<Live>>,
        options: Options,
        crossing: Arc<C>,
    ) -> io::Result<Accelerator<C>> {
        Accelerator::make(lives, &options, crossing, true)
    }

    /// An accelerator without threads: the polls, and the calls that wait, take its turns.
    ///
    /// # Errors
    /// As [`Accelerator::start`].
    ///
    /// # Panics
    /// As [`Accelerator::start_over`].
    pub fn in_this_thread(
        lives: Vec<Arc<Live>>,
        options: Options,
        crossing: Arc<C>,
    ) -> io::Result<Accelerator<C>> {
        Accelerator::make(lives, &options, crossing, false)
    }

    fn make(
        lives: Vec<Arc<Live>>,
        options: &Options,
        crossing: Arc<C>,
        threads: bool,
    ) -> io::Result<Accelerator<C>> {
        assert!(!lives.is_empty(), "an accelerator decodes with a table");
        for (at, live) in lives.iter().enumerate() {
            let twice = lives[..at].iter().any(|other| other.layout_hash() == live.layout_hash());
            assert!(!twice, "two schemas of one layout share one table");
        }
        let ground = Ground {
            crossing,
            lives: lives.into(),
            host: Arc::clone(&options.host),
            acc: Memory::acc(options.acc_bytes)?,
            limits: options.limits,
            registers: Arc::new(Registers::default()),
            work: Workload::default(),
            #[cfg(test)]
            planted: options.planted,
        };
        let ground = Arc::new(ground);
        let asking = Asking::new(&options.serialise, options.limits.depth)?;
        let (sleeper, waker) = host_sleeper(options.eventfd)?;
        let start = |number: usize| {
            let core = options.cores.get(number % options.cores.len().max(1)).copied();
            let (lanes, requests, wait) = (options.lanes, options.requests, options.wait);
            let setting = Setting { lanes, requests, wait, core };
            match threads {
                true => LaneThread::start(&ground, &setting, number, waker.clone()),
                false => Ok(LaneThread::here(&ground, &setting)),
            }
        };
        let count = options.threads.clamp(1, usize::from(u16::MAX));
        let threads = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Accelerator { threads, received: VecDeque::new(), ground, wait: options.wait, sleeper, asking })
    }

    /// What has crossed so far.
    pub fn crossing(&self) -> &C {
        &self.ground.crossing
    }

    pub(super) fn shared_crossing(&self) -> &Arc<C> {
        &self.ground.crossing
    }

    /// The table in use of the first schema.
    pub fn live(&self) -> &Arc<Live> {
        &self.ground.lives[0]
    }

    /// The tables in use, one for each schema.
    pub fn lives(&self) -> &[Arc<Live>] {
        &self.ground.lives
    }

    /// The table in use of the schema of that layout.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn live_with(&self, layout_hash: u64) -> &Live {
        let of = |live: &&Arc<Live>| live.layout_hash() == layout_hash;
        self.ground.lives.iter().find(of).expect("a message of a schema that this accelerator does not know")
    }

    /// The accelerator's memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.ground.acc
    }

    /// What may be changed while it runs.
    pub fn registers(&self) -> &Arc<Registers> {
        &self.ground.registers
    }

    /// What it does and did.
    pub fn figures(&self) -> Figures {
        self.ground.figures()
    }

    /// The same for other threads.
    pub fn watch(&self) -> Arc<dyn Fn() -> Figures + Send + Sync> {
        let ground = Arc::clone(&self.ground);
        Arc::new(move || ground.figures())
    }

    /// Requests that have no response yet.
    pub fn in_flight(&self) -> usize {
        self.ground.work.under_way.load(Ordering::Relaxed)
    }

    /// An empty message of `class` of the first schema, to be filled on the host and sent.
    ///
    /// # Errors
    /// The host's memory is full.
    pub fn message(&self, class: u32) -> Result<Placed, OutOfMemory> {
        self.message_of(0, class)
    }

    /// As [`Accelerator::message`], of another schema.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there is no such schema.
    pub fn message_of(&self, schema: u16, class: u32) -> Result<Placed, OutOfMemory> {
        let table = self.ground.lives[usize::from(schema)].table();
        Placed::new(table, class, &self.ground.host, &self.ground.acc)
    }

    /// A message of `class` of the first schema arrived from the network: decode it. See [`Accelerator::poll`].
    ///
    /// # Errors
    /// The rings are full; the bytes come back.
    ///
    /// # Panics
    /// If the table has no such class.
    pub fn submit(&mut self, class: u32, wire: Vec<u8>) -> Result<Ticket, Busy> {
        self.submit_of(0, class, wire)
    }

    /// As [`Accelerator::submit`], of another schema.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there, or if there is no such schema.
    pub fn submit_of(&mut self, schema: u16, class: u32, wire: Vec<u8>) -> Result<Ticket, Busy> {
        let classes = self.ground.lives[usize::from(schema)].classes();
        assert!(class < classes, "class {class} is not in this table");
        match self.post(Request::Receive { schema, class, wire }) {
            Ok(ticket) => {
                self.ground.crossing.doorbell(ENTRY);
                Ok(ticket)
            }
            Err(Request::Receive { wire, .. }) => Err(Busy(wire)),
            Err(_) => unreachable!("what was sent comes back"),
        }
    }

    /// A message that was submitted and is decoded now, if there is one, in any order.
    pub fn poll(&mut self) -> Option<(Ticket, Result<Placed, DecodeError>)> {
        if self.received.is_empty() {
            self.take_turns();
            self.collect();
        }
        self.received.pop_front()
    }

    /// Submits a message and waits for it.
    ///
    /// # Errors
    /// It is malformed, or a limit was met.
    ///
    /// # Panics
    /// As [`Accelerator::submit`], or if a thread of the accelerator has died.
    pub fn receive(&mut self, class: u32, mut wire: Vec<u8>) -> Result<Placed, DecodeError> {
        let ticket = loop {
            match self.submit(class, wire) {
                Ok(ticket) => break ticket,
                Err(Busy(back)) => wire = back,
            }
            self.wait_for(Accelerator::room);
        };
        let at = self.wait_for(|this| this.received.iter().position(|(done, _)| *done == ticket));
        self.received.remove(at).expect("it was just seen there").1
    }

    /// Posts a request to the thread that has the fewest under way.
    pub(super) fn post(&mut self, request: Request) -> Result<Ticket, Request> {
        let load = |&at: &usize| self.threads[at].client.in_flight();
        let at = (0..self.threads.len()).min_by_key(load).expect("there is a thread");
        #[cfg(test)]
        let at = if self.ground.planted == Some(super::tests::Planted::FirstThreadOnly) { 0 } else { at };
        let tag = self.threads[at].post(request)?;
        self.ground.work.under_way.fetch_add(1, Ordering::Relaxed);
        Ok(Ticket { thread: at as u16, tag })
    }

    /// Lets every thread's place work, if this thread drives them.
    pub(super) fn take_turns(&mut self) {
        self.threads.iter_mut().for_each(|thread| _ = thread.take_turn());
    }

    /// Lets the lanes of one thread's place take a turn, if the accelerator has no threads, and takes what came back.
    #[cfg(test)]
    pub(super) fn turn_of(&mut self, thread: usize) -> Option<(Ticket, Result<Placed, DecodeError>)> {
        self.threads[thread].take_turn();
        self.collect();
        self.received.pop_front()
    }

    /// Whether another message can be submitted.
    pub fn has_room(&self) -> bool {
        self.threads.iter().any(|thread| thread.client.free() > 0)
    }

    /// Something if a ring has room.
    pub(super) fn room(&mut self) -> Option<()> {
        self.has_room().then_some(())
    }

    pub(super) fn collect(&mut self) {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            while let Some((tag, response)) = thread.client.poll() {
                let ticket = Ticket { thread: number as u16, tag };
                self.ground.work.under_way.fetch_sub(1, Ordering::Relaxed);
                match response {
                    Response::Received(message) => self.received.push_back((ticket, message)),
                    other => self.asking.put(ticket, other),
                }
            }
        }
    }

    pub(super) fn wait_for<T>(&mut self, mut find: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            // Looked at before the rings: what a thread sent came before its end.
            let gone = self.is_dead();
            self.collect();
            if let Some(found) = find(self) {
                return found;
            }
            assert!(!gone, "the accelerator's thread has died");
            self.take_turns();
            let threads = &mut self.threads;
            let ready = || threads.iter_mut().any(LaneThread::wants_attention);
            self.sleeper.wait_until(self.wait, None, ready);
        }
    }

    /// Whether one of its threads has died: what was under way there has no response. What came before is there to be polled.
    pub fn is_dead(&self) -> bool {
        self.threads.iter().any(|thread| thread.client.is_abandoned())
    }

    /// Waits until a poll has something, as [`Options::wait`] says; at once if nothing is under way.
    ///
    /// # Panics
    /// If a thread of the accelerator has died.
    pub fn wait(&mut self) {
        self.wait_for(|this| {
            let there = !this.received.is_empty() || this.asking.has_sent();
            (there || this.in_flight() == 0).then_some(())
        });
    }

    /// Before sleeping on [`Accelerator::descriptor`]: whether there is nothing to poll, and the descriptor becomes readable when
    /// there is. [`Accelerator::disarm`] comes next.
    ///
    /// # Panics
    /// Without [`Options::eventfd`].
    pub fn arm(&mut self) -> bool {
        self.sleeper.arm();
        let held = !self.received.is_empty() || self.asking.has_sent();
        !held && !self.threads.iter_mut().any(LaneThread::wants_attention)
    }

    /// After sleeping.
    pub fn disarm(&mut self) {
        self.sleeper.disarm();
    }

    /// Readable when an armed accelerator has something, if it was started with [`Options::eventfd`].
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.sleeper.descriptor()
    }
}

impl<C> fmt::Debug for Accelerator<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way: u32 = self.threads.iter().map(|thread| thread.client.in_flight()).sum();
        write!(f, "Accelerator({under_way} requests under way, {:?})", self.ground.acc)
    }
}
