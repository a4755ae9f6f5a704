//! The service of a server that is the home of boxes, as a machine: what its edges, a pass of the engine and the log's threads do to it, one call each. No
//! thread, no socket, no clock: the simulator runs it in virtual time (`millrace sim --durability`).
//!
//! ```text
//!  handle: packets, or what is due, or that a disk is done ─▶ Post ─▶ Serve ┐
//!  ask: a command of a connection ────────────────────────────────────────┼─▶ end of the pass ─▶ Collect ─▶ replies, packets
//! ```
//! Everything below is what runs in a server: [`service`](super::service), [`store::durable`]. What is here only is who calls it when.

use super::chain_client::Transactions;
use super::clocks::Clocks;
use super::config::Config;
use super::durable::{AnyMedia, AnyShelf, Opened};
use super::home::whose;
use super::post::Post;
use super::registers::Id;
use super::service::by_home::Callers;
use super::service::planted::Mistakes;
use super::service::{Began, Kv, Late, LateReply, Origin, Reply, Request};
use base::Nanos;
use base::hash::Hasher64;
use engine::Service as _;
use protocol::coherence::{self, Life, NodeId, Out};
use protocol::memcache::{Parser, Step};
use protocol::wire::{BoxId, HomeId, Incarnation, Message, Version};
use ring::arena::{self, Consumer, Producer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use store::durable::{Reader, Shelf, recover};
use store::redo::{Judge, Log, Media};
use store::warm;

/// Bytes of the arena for replies.
const ARENA: u64 = 64 << 10;
/// The longest value of the store.
const MAX_VALUE: usize = 1 << 10;
/// What the idle engine gives the service at once.
const IDLE_BUDGET: usize = 64;
/// The log's identity.
const IDENTITY: u64 = 7;

/// Whose home it is, and in which life.
#[derive(Clone, Debug)]
pub struct Place {
    /// Times and bounds.
    pub config: coherence::Config,
    /// Its name.
    pub id: HomeId,
    /// Who there is.
    pub layout: Arc<coherence::table::Layout>,
    /// Which life of it.
    pub life: (Incarnation, Life),
}

/// What acknowledged writes survive on.
pub struct Disk {
    /// For the log.
    pub medium: Box<dyn Media + Send>,
    /// There is no log on it yet.
    pub is_new: bool,
    /// The newest snapshot, if there is one.
    pub snapshot: Option<Vec<u8>>,
    /// Where the next ones go.
    pub shelf: Box<dyn Shelf + Send>,
}

/// Memory that outlives the process, if it ends in order.
#[derive(Debug)]
pub struct Memory {
    /// Where it lies.
    pub place: warm::Place,
    /// Bytes of it, at most.
    pub limit: usize,
}

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Of which connection. Its commands are answered in their order.
    pub connection: u32,
    /// As it goes over the wire.
    pub bytes: Vec<u8>,
}

/// See the head of the file.
pub struct Machine<B> {
    kv: Kv<B>,
    post: Arc<Post>,
    clocks: Clocks,
    hasher: Hasher64,
    arena: (Producer, Consumer),
    said: VecDeque<Said>,
    has_more: bool,
}

impl<B: Mistakes + Send + 'static> Machine<B> {
    /// A life begins, at `now`; with a disk it goes on with what is there.
    ///
    /// # Errors
    /// In words: what is on the disk is damaged. The disk is what it was.
    pub fn new(place: &Place, now: Nanos, disk: Option<Disk>, planted: B) -> Result<Machine<B>, String> {
        let (config, clocks, post) =
            (settings(disk.is_some()), Clocks::told(now), Arc::new(Post::unattended()));
        let opened = disk.map(|disk| open(&config, disk));
        let (store, opened) = match opened {
            Some(opened) => opened.map(|(store, opened)| (Some((store, Began::default())), Some(opened)))?,
            None => (None, None),
        };
        let made = Kv::home(place, (&config, store), opened, (&post, &clocks), planted)?;
        Ok(Machine::of(made, post, clocks))
    }

    /// The same, with memory that the process before may have left ([`Machine::leave`]).
    ///
    /// # Errors
    /// In words: it is not this home's, or another process has it. It is what it was.
    pub fn with_memory(place: &Place, now: Nanos, memory: Memory, planted: B) -> Result<Machine<B>, String> {
        let (config, clocks, post) = (settings(false), Clocks::told(now), Arc::new(Post::unattended()));
        config.registers.write(Id::StoreMemory, memory.limit as u64).map_err(|error| error.to_string())?;
        let asked = warm::Asked {
            place: memory.place,
            whose: whose(place.id, &place.layout),
            is_first: place.life.1 == Life::First,
        };
        let resumed =
            Kv::<B>::resume(&config, &asked, &clocks, &planted).map_err(|refusal| refusal.to_string())?;
        let made = Kv::home(place, (&config, Some(resumed)), None, (&post, &clocks), planted)?;
        Ok(Machine::of(made, post, clocks))
    }

    /// Ends in order, at `now`: what lies in memory that outlives the process is left to the next one. Nobody asks for anything any more.
    pub fn leave(mut self, now: Nanos) {
        self.clocks.tell(now);
        self.kv.tick(now);
        self.kv.leave_memory();
    }

    /// Whether it began with what an earlier life left in memory.
    pub fn began_warm(&mut self) -> bool {
        self.kv.report().began.is_warm()
    }

    /// The same, with items in a chain, whose transactions are done there; and those that callers ask for, whenever the machine is called.
    ///
    /// # Errors
    /// In words.
    pub fn over_chain(
        place: &Place,
        now: Nanos,
        (transactions, callers): (Box<dyn Transactions>, Box<dyn Callers>),
        planted: B,
    ) -> Result<Machine<B>, String> {
        let (config, clocks, post) = (settings(false), Clocks::told(now), Arc::new(Post::unattended()));
        let made = Kv::home_over_chain(place, &config, (transactions, callers), (&post, &clocks), planted)?;
        Ok(Machine::of(made, post, clocks))
    }

    fn of((kv, hasher): (Kv<B>, Hasher64), post: Arc<Post>, clocks: Clocks) -> Machine<B> {
        let arena = arena::heap(ARENA);
        Machine { kv, post, clocks, hasher, arena, said: VecDeque::new(), has_more: false }
    }

    /// Packets arrived, or something is due, or the disk is done with something.
    pub fn handle(&mut self, now: Nanos, packet: Option<(NodeId, &Message)>, out: &mut Out) {
        self.post.arrive(&mut packet.map(|(from, message)| (from, message.clone())).into_iter().collect());
        self.execute(now, &Request::serve());
        self.end_pass(out);
    }

    /// A command comes by a connection; `text` is all of it, and stays, as an edge's buffer does.
    ///
    /// # Panics
    /// It is no command.
    pub fn ask(&mut self, now: Nanos, connection: u32, text: &'static [u8], out: &mut Out) {
        let step = Parser::new(MAX_VALUE).next(text);
        let Step::Command { command, consumed } = step else { panic!("{step:?} is no command") };
        assert_eq!(consumed, text.len(), "one command at a time");
        let origin = Origin::new(0, connection, 0);
        if let Some(bytes) = self.execute(now, &Request::new(command, origin, &self.hasher)) {
            self.said.push_back(Said { connection, bytes });
        }
        self.end_pass(out);
    }

    /// What was answered, in order for each connection.
    pub fn poll_said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// When it wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.post.deadline()
    }

    /// Whether it would go on with a snapshot if it were called now.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether all that is durable is said to be so where its records do not lie: if they decay, that is found.
    pub fn is_marked(&self) -> bool {
        self.kv.is_marked()
    }

    /// Why its log takes nothing more, if so: nobody is answered any more.
    pub fn failed(&self) -> Option<&str> {
        self.post.failed()
    }

    /// The second that it is at `now`, as its items' ends are counted.
    pub fn second(&self, now: Nanos) -> u32 {
        self.clocks.second(now)
    }

    /// What is there of a key, if items lie in its store: its version and value.
    pub fn peek(&self, key: &[u8]) -> Option<(Version, &[u8])> {
        self.kv.peek(key)
    }

    /// Forgets a key, as a store that is full.
    pub fn evict(&mut self, key: &[u8]) {
        self.kv.evict(key);
    }

    /// The box that owns a key.
    pub fn owner_of(&self, key: &[u8]) -> Option<BoxId> {
        self.kv.owner_of(key)
    }

    /// Whether it goes by a table that says that a box is to be stopped, and may have to wait for it.
    pub fn may_wait_for(&self, id: BoxId, now: Nanos) -> bool {
        self.kv.may_wait_for(id, now)
    }

    /// A key that was lost with its owner, each once.
    pub fn poll_lost(&mut self) -> Option<Vec<u8>> {
        self.kv.poll_lost()
    }

    /// Snapshots made in this life.
    pub fn snapshots(&mut self) -> u64 {
        self.kv.report().durable.map_or(0, |durable| durable.snapshots)
    }

    /// A request is executed; what is answered at once.
    fn execute(&mut self, now: Nanos, request: &Request) -> Option<Vec<u8>> {
        self.clocks.tell(now);
        self.kv.tick(now);
        let Reply { span, beside } = self.kv.execute(request, &mut self.arena.0).expect("room for a reply");
        let consumer = &mut self.arena.1;
        let bytes = consumer.bytes(span).expect("it was written just now").to_vec();
        consumer.release(span);
        consumer.publish();
        let beside = beside.map(|beside| *beside);
        match beside.and_then(|beside| beside.late) {
            Some(Late::Waits) => None,
            Some(Late::Done(replies)) => {
                let connection = request.origin().place().0;
                self.said.extend(replies.into_iter().filter(|reply| !reply.is_silent()).map(|reply| {
                    let LateReply { bytes, value, .. } = reply;
                    assert!(value.is_none(), "values are short");
                    Said { connection, bytes }
                }));
                None
            }
            None => (!bytes.is_empty()).then_some(bytes),
        }
    }

    /// The pass is over; whose replies are ready collects them, and the engine has nothing else to do.
    fn end_pass(&mut self, out: &mut Out) {
        let now = self.clocks.now();
        self.kv.end_pass();
        loop {
            let done = self.post.take_done(0);
            if done.is_empty() {
                break;
            }
            for origin in done {
                self.execute(now, &Request::collect(origin));
            }
        }
        self.kv.idle(IDLE_BUDGET);
        self.has_more = self.kv.has_more();
        out.append(&mut self.post.take_leaving());
    }
}

/// A small server.
fn settings(has_log: bool) -> Config {
    let config = Config::default();
    let small = [
        (Id::StoreMemory, 8 << 20),
        (Id::StoreMaxValue, MAX_VALUE as u64),
        (Id::StorePages, 0),
        (Id::StoreMode, u64::from(has_log)),
        (Id::LogCheckpointPercent, 30),
        (Id::LogCheckpointStep, 4 << 10),
    ];
    for (id, value) in small {
        config.registers.write(id, value).expect("within its range");
    }
    config
}

/// Recovery, as a server's that starts.
fn open(config: &Config, disk: Disk) -> Result<(store::Store, Opened), String> {
    let Disk { medium, is_new, snapshot, shelf } = disk;
    let mut medium: AnyMedia = medium;
    if is_new {
        medium = Log::create(medium, IDENTITY).map_err(|error| error.to_string())?.into_media();
    }
    let (log, recovery) = Log::open(medium, IDENTITY, Judge::Proof).map_err(|error| error.to_string())?;
    let mut store = Kv::<protocol::planted::NoBugs>::store(config).map_err(|error| error.to_string())?;
    let reader = snapshot.as_deref().map(Reader::new).transpose().map_err(|error| error.to_string())?;
    let shelf: AnyShelf = shelf;
    let (journal, found) =
        recover(&mut store, (log, &recovery), IDENTITY, reader, shelf).map_err(|error| error.to_string())?;
    Ok((store, Opened { journal, found, recovery: Duration::ZERO }))
}
