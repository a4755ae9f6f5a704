//! The key-value service: memcached commands on a store, as the engine executes them.
//!
//! ```text
//!  Kv ── alone ──▶ Commands: the store, and what commands do to it
//!     ├─ with a log ──▶ Logged: holds replies ──▶ Commands
//!     ├─ over a chain ──▶ OverChain: promises replies ──▶ ChainItems ──▶ Chained ──▶ Commands on one item at a time
//!     └─ with boxes before it ──▶ Homed: admits each command ──▶ Commands or ChainItems, now or in its turn
//! ```
//! One file per family of commands: `classic`, `meta`, `stats`, `listing`; `commands` has what they share. `homed` is the home of a rack's boxes
//! (`docs/design/010-one-store.md`), `items` its store; `logged` has what becomes of commands where a log has what they did, `over_chain`, `chain_items` and
//! `chained` where items lie in a chain of replicas; `parked` what waits for
//! boxes, log or chain; `access`
//! what commands want of items. This file has the request and reply as they travel in the
//! port's slots, and the room that a reply needs.
//!
//! Invariant: nothing is executed before the room for its reply is reserved. Small replies and values up to
//! [`INLINE_VALUE`] go into the port's arena; a larger value is *detached*: copied once to the heap, or shared where the
//! store keeps it in a mapping of its own, and sent from there.
//!
//! Bounds: detached bytes on their way to an edge are at most [`DETACHED_MAX`], or one value.

mod access;
mod assemble;
pub mod by_home;
mod chain_items;
pub mod chained;
mod classic;
mod commands;
mod homed;
mod items;
mod listing;
mod logged;
mod meta;
mod over_chain;
mod parked;
pub mod planted;
pub mod prefixes;
mod put_off;
mod shown;
mod simulated;
mod stats;
mod warm;
mod watched;

use crate::memcached::output::Body;
use base::Nanos;
use base::hash::Hasher64;
use chain_items::ChainItems;
use commands::Commands;
use engine::{Messages, Service};
use homed::Homed;
use logged::Logged;
use over_chain::OverChain;
use planted::Mistakes;
use protocol::memcache::emit::{self, SMALL_BOUND};
use protocol::memcache::{Asks, Binary, Command, Get, KEY_MAX, Line, Meta, Stats, StoreVerb};
use protocol::planted::NoBugs;
use ring::arena::{Producer, Reservation, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Hit;

pub use assemble::{Assembled, assemble, assemble_by_hand};
pub use listing::Listing;
pub use parked::{Late, LateReply, Origin, Parked};
pub use stats::{ChainReport, Counters, HomeReport, KvReport};
pub use warm::Began;

/// Longest value that travels in the arena.
pub const INLINE_VALUE: usize = 16 << 10;

/// Detached bytes that may be on their way to the edges at once.
pub const DETACHED_MAX: u64 = 8 << 20;

/// Room for a reply with a value that travels in the arena.
const VALUE_BOUND: usize = SMALL_BOUND + INLINE_VALUE + 16;

/// Room for the largest family of statistics.
const STATS_BOUND: usize = 16 << 10;

/// What a request that lists statistics costs, in small requests.
const STATS_COST: usize = 32;

/// What a slice of a listing costs.
const SLICE_COST: usize = 16;

/// Bytes in a request or reply that cost as much as a small request.
const BYTES_PER_COST: usize = 4 << 10;

/// A command on its way to the engine, with the hash of its key; or a slice of a listing.
pub struct Request {
    hash: u64,
    /// Whose it is, where replies come later.
    origin: Origin,
    work: Work,
}

const _: () =
    assert!(size_of::<Request>() <= 112, "with its time and the ring's word, a request has two cache lines");

enum Work {
    Command(Command<'static>),
    /// The same, to be counted by the prefix of its key, or shown to watchers. Boxed, or all would be longer than two cache lines.
    Counted(Box<Counted>),
    Slice(Listing),
    /// The replies to commands that waited.
    Collect,
    /// Packets that arrived for the home, what is due there, and what threads of log or chain have done.
    Serve,
}

/// A command, and the number of its connection.
struct Counted {
    command: Command<'static>,
    number: i32,
}

impl Request {
    /// The request for `command`, whose key is hashed here, on the edge's core.
    #[inline]
    pub fn new(command: Command<'static>, origin: Origin, hasher: &Hasher64) -> Request {
        let plain = |key: &[u8]| hasher.hash(key);
        let coded = |meta: &Meta<'_>| hasher.hash(meta.key(&mut [0; KEY_MAX]));
        let hash = match &command {
            Command::Get(get) => plain(get.key),
            Command::Store(store) => plain(store.key),
            Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => {
                plain(key)
            }
            Command::MetaGet(get) => coded(&get.meta),
            Command::MetaSet(set) => coded(&set.meta),
            Command::MetaDelete(delete) => coded(&delete.meta),
            Command::MetaArith(arith) => coded(&arith.meta),
            Command::MetaDebug(meta) => coded(meta),
            Command::TooLarge(large) => coded(&large.meta),
            _ => 0,
        };
        Request { hash, origin, work: Work::Command(command) }
    }

    /// The request for the next slice of `listing`.
    pub fn slice(listing: Listing) -> Request {
        Request { hash: 0, origin: Origin::default(), work: Work::Slice(listing) }
    }

    /// The request for what commands of `origin` that waited were answered.
    pub fn collect(origin: Origin) -> Request {
        Request { hash: 0, origin, work: Work::Collect }
    }

    /// The request that the home hears what arrived.
    pub fn serve() -> Request {
        Request { hash: 0, origin: Origin::default(), work: Work::Serve }
    }

    /// The same, of connection `number`, to be counted by the prefix of its key or shown to watchers.
    pub fn counted(self, number: i32) -> Request {
        match self.work {
            Work::Command(command) => {
                Request { work: Work::Counted(Box::new(Counted { command, number })), ..self }
            }
            _ => self,
        }
    }

    /// The hash of its key; 0 where it has none.
    #[inline(always)]
    pub fn key_hash(&self) -> u64 {
        self.hash
    }

    /// Whose it is.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The word for what it asks, as clients write it.
    pub fn name(&self) -> &'static str {
        let command = match &self.work {
            Work::Command(command) => command,
            Work::Counted(counted) => &counted.command,
            Work::Slice(_) => return "slice",
            Work::Collect => return "collect",
            Work::Serve => return "packets",
        };
        match command {
            Command::Get(Get { touch: None, with_cas: false, .. }) | Command::GetEnd => "get",
            Command::Get(Get { touch: None, .. }) => "gets",
            Command::Get(_) => "gat",
            Command::Store(store) => {
                ["set", "add", "replace", "append", "prepend", "cas"][store.verb as usize]
            }
            Command::Delete { .. } => "delete",
            Command::Arith { decrement: false, .. } => "incr",
            Command::Arith { .. } => "decr",
            Command::Touch { .. } => "touch",
            Command::MetaGet(_) => "mg",
            Command::MetaSet(_) => "ms",
            Command::MetaDelete(_) => "md",
            Command::MetaArith(_) => "ma",
            Command::MetaDebug(_) => "me",
            Command::MetaNoop => "mn",
            Command::FlushAll { .. } => "flush_all",
            Command::Stats(_) | Command::Binary(Binary { asks: Asks::Stats(_), .. }) => "stats",
            Command::TooLarge(_) | Command::Malformed { .. } => "refused",
            _ => "other",
        }
    }

    /// What it takes of its connection's quantum; 1 for a small request. The bytes of its reply come on top: [`cost_of_bytes`].
    #[inline]
    pub fn cost(&self) -> usize {
        match &self.work {
            Work::Command(Command::Store(store)) => 1 + store.value.len() / BYTES_PER_COST,
            Work::Command(Command::MetaSet(set)) => 1 + set.value.len() / BYTES_PER_COST,
            Work::Command(
                Command::Stats(Stats::General | Stats::Settings)
                | Command::Binary(Binary { asks: Asks::Stats(Stats::General | Stats::Settings), .. }),
            ) => STATS_COST,
            Work::Command(_) | Work::Counted(_) | Work::Collect | Work::Serve => 1,
            Work::Slice(_) => SLICE_COST,
        }
    }
}

/// A reply on its way to the edge.
pub struct Reply {
    /// Its bytes in the port's arena; none where the client wants no reply.
    pub span: Span,
    /// What few replies have.
    pub beside: Option<Box<Beside>>,
}

/// What does not fit the arena, or is not for the client.
pub struct Beside {
    /// A value that stands between the reply's bytes.
    pub value: Option<Detached>,
    /// The listing goes on here.
    pub next: Option<Listing>,
    /// It waits for boxes, log or chain, or did.
    pub late: Option<Late>,
}

impl Reply {
    /// A value that stands between its bytes.
    #[inline]
    pub fn detached(&self) -> Option<&Detached> {
        self.beside.as_ref()?.value.as_ref()
    }

    /// Its bytes, altogether.
    pub fn bytes(&self) -> usize {
        self.span.len() + self.detached().map_or(0, |value| value.body.len())
    }
}

/// What replies of so many bytes cost their connection beyond the requests themselves.
pub fn cost_of_bytes(bytes: usize) -> usize {
    bytes / BYTES_PER_COST
}

/// A value outside the arena.
pub struct Detached {
    /// Bytes of the span that come before it.
    pub at: usize,
    /// The value.
    pub body: Body,
    _in_ring: InRing,
}

/// Counts a detached value while it is between the engine and the edge's write.
struct InRing {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for InRing {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The service.
pub struct Kv<B = NoBugs>(Keeper<B>);

#[expect(clippy::large_enum_variant, reason = "a server has one, and looks into it for every command")]
enum Keeper<B> {
    Alone(Commands),
    Logged(Box<Logged>),
    Home(Box<Homed<Commands, B>>),
    Chain(Box<OverChain>),
    HomeOverChain(Box<Homed<ChainItems<B>, B>>),
}

impl<B: Mistakes> Kv<B> {
    #[inline]
    fn commands(&self) -> &Commands {
        match &self.0 {
            Keeper::Alone(commands) => commands,
            Keeper::Logged(logged) => &logged.commands,
            Keeper::Home(homed) => homed.commands(),
            Keeper::Chain(over) => over.commands(),
            Keeper::HomeOverChain(homed) => homed.commands(),
        }
    }

    #[inline]
    fn commands_mut(&mut self) -> &mut Commands {
        match &mut self.0 {
            Keeper::Alone(commands) => commands,
            Keeper::Logged(logged) => &mut logged.commands,
            Keeper::Home(homed) => homed.commands_mut(),
            Keeper::Chain(over) => over.commands_mut(),
            Keeper::HomeOverChain(homed) => homed.commands_mut(),
        }
    }

    /// Follows the memory register, as far as the store can.
    pub fn apply_memory_limit(&mut self, bytes: usize) -> Result<(), store::ConfigError> {
        self.commands_mut().apply_memory_limit(bytes)
    }

    /// Leaves the items to the next process, if their memory lies in files, or makes the rest of its log durable. What boxes own of them is not in the store,
    /// and so is not left.
    pub fn leave_memory(&mut self) {
        let commands = self.commands_mut();
        if let Some(durable) = &mut commands.durable {
            durable.finish();
        }
        commands.leave_memory();
    }

    /// What the store, the commands and the home count.
    pub fn report(&mut self) -> KvReport {
        let (home, chain) = match &self.0 {
            Keeper::Home(homed) => (Some(homed.report()), None),
            Keeper::HomeOverChain(homed) => (Some(homed.report()), homed.chain()),
            Keeper::Chain(over) => (None, Some(over.report())),
            Keeper::Alone(_) | Keeper::Logged(_) => (None, None),
        };
        KvReport { home, chain, ..self.commands_mut().report() }
    }
}

/// The value of a hit as something that outlives the store's next step.
fn share(hit: &Hit<'_>) -> Body {
    match hit.large() {
        Some(large) => large,
        None => Arc::new(hit.value().to_vec()),
    }
}

/// Finishes a reply whose bytes are all in the arena.
fn inline(room: Reservation<'_>, len: usize) -> Reply {
    Reply { span: room.commit(len as u32), beside: None }
}

/// Finishes a reply with a value that may stand outside the arena.
fn with_value(room: Reservation<'_>, len: usize, value: Option<Detached>) -> Reply {
    let beside = value.map(|value| Box::new(Beside { value: Some(value), next: None, late: None }));
    Reply { span: room.commit(len as u32), beside }
}

/// A reply without bytes.
fn silent(out: &mut Producer, late: Option<Late>) -> Option<Reply> {
    let beside = late.map(|late| Box::new(Beside { value: None, next: None, late: Some(late) }));
    Some(Reply { span: out.reserve(0)?.commit(0), beside })
}

/// Writes that `command` was not done, and why.
fn refuse(command: &Command<'_>, why: &[u8], reply: &mut emit::Reply<'_>) {
    if command.noreply() {
        return;
    }
    reply.said(why);
    // A retrieval is still waiting for its end.
    if matches!(command, Command::Get(get) if get.last) {
        reply.line(Line::End);
    }
}

impl<B: 'static> Messages for Kv<B> {
    type Request = Request;
    type Reply = Reply;
}

impl<B: Mistakes + Send + 'static> Service for Kv<B> {
    /// Bucket, then item.
    const TOUCHES: usize = 2;

    #[inline]
    fn touch_key(request: &Request) -> u64 {
        request.hash
    }

    #[inline]
    fn touch(&self, step: usize, key: u64) {
        let store = &self.commands().store;
        if step == 0 { store.stage_bucket(key) } else { store.stage_item(key) }
    }

    #[inline]
    fn tick(&mut self, now: Nanos) {
        match &mut self.0 {
            Keeper::Alone(commands) => commands.tick(now),
            Keeper::Logged(logged) => logged.tick(now),
            Keeper::Home(homed) => homed.tick(now),
            Keeper::Chain(over) => over.tick(now),
            Keeper::HomeOverChain(homed) => homed.tick(now),
        }
    }

    #[inline]
    fn execute(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        match (&mut self.0, &request.work) {
            (Keeper::Alone(commands), Work::Command(command)) => commands.execute(command, request.hash, out),
            (Keeper::Home(homed), Work::Command(command)) => {
                homed.execute(command, (request.hash, request.origin), out)
            }
            (Keeper::Logged(logged), Work::Command(command)) => {
                logged.execute(command, (request.hash, request.origin), out)
            }
            (Keeper::Chain(over), Work::Command(command)) => {
                over.execute(command, (request.hash, request.origin), out)
            }
            (Keeper::Chain(over), Work::Collect) => over.collect(request.origin, out),
            (Keeper::Logged(logged), Work::Collect) => logged.collect(request.origin, out),
            // What it is for comes at the end of the pass.
            (Keeper::Logged(_) | Keeper::Chain(_), Work::Serve) => silent(out, None),
            (Keeper::HomeOverChain(homed), Work::Command(command)) => {
                homed.execute(command, (request.hash, request.origin), out)
            }
            (Keeper::HomeOverChain(homed), Work::Collect) => homed.collect(request.origin, out),
            (Keeper::HomeOverChain(homed), Work::Serve) => homed.serve(out),
            (Keeper::Home(homed), Work::Collect) => homed.collect(request.origin, out),
            (Keeper::Home(homed), Work::Serve) => homed.serve(out),
            (_, Work::Counted(counted)) => self.execute_counted(counted, request, out),
            (_, Work::Slice(listing)) => self.commands_mut().slice(listing, out),
            (Keeper::Alone(_), Work::Collect | Work::Serve) => unreachable!("asked where replies come later"),
        }
    }

    fn expire(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        const WHY: &[u8] = b"SERVER_ERROR deadline exceeded\r\n";
        let Work::Command(command) = &request.work else { return self.execute(request, out) };
        match &mut self.0 {
            Keeper::Home(homed) if homed.has_waiting(request.origin) => {
                return homed.park_refusal(command, WHY, request.origin, out);
            }
            Keeper::HomeOverChain(homed) if homed.has_waiting(request.origin) => {
                return homed.park_refusal(command, WHY, request.origin, out);
            }
            Keeper::Logged(logged) if logged.commands.parked.has_line(request.origin) => {
                return logged.expire(command, WHY, request.origin, out);
            }
            Keeper::Chain(over) if over.commands().parked.has_line(request.origin) => {
                return over.expire(command, WHY, request.origin, out);
            }
            _ => {}
        }
        let mut room = out.reserve(SMALL_BOUND as u32)?;
        let mut reply = emit::Reply::to(&mut room, command.asked());
        refuse(command, WHY, &mut reply);
        let len = reply.len();
        Some(inline(room, len))
    }

    fn idle(&mut self, budget: usize) -> bool {
        // What the log has to do while nobody asks for anything is the same.
        self.end_pass();
        let commands = self.commands_mut();
        commands.tell_while_idle();
        let more = commands.durable.as_ref().is_some_and(|durable| durable.has_more);
        commands.store.maintain(commands.now, budget * 64) || more
    }

    #[inline]
    fn end_pass(&mut self) {
        match &mut self.0 {
            Keeper::Alone(_) => {}
            Keeper::Logged(logged) => logged.end_pass(),
            Keeper::Home(homed) => homed.end_pass(),
            Keeper::Chain(over) => over.end_pass(),
            Keeper::HomeOverChain(homed) => homed.end_pass(),
        }
    }
}

/// How a store's SET is spelled in memcached's classic verbs.
fn verb_of(verb: StoreVerb) -> store::Verb {
    match verb {
        StoreVerb::Set | StoreVerb::Cas => store::Verb::Set,
        StoreVerb::Add => store::Verb::Add,
        StoreVerb::Replace => store::Verb::Replace,
        StoreVerb::Append => store::Verb::Append,
        StoreVerb::Prepend => store::Verb::Prepend,
    }
}
