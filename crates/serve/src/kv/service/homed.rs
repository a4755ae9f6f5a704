//! The service of a node that is the home of boxes: every command is admitted by the home before it is executed, and packets go to the home.
//!
//! ```text
//!  command ─▶ admit ─┬─ now ──▶ Commands::execute, into the port
//!                    └─ later ─▶ parked ··▶ its turn ··▶ reply kept ──▶ edge woken ──▶ Collect
//!  packets (edge 0) ─▶ Post ─▶ Serve ─▶ Home::handle, tick ─▶ messages ─▶ Post ─▶ edge 0
//! ```
//!
//! | command | for the home it is |
//! |---|---|
//! | get, gets, mg, me | a read; with gat, gats, or flags N, R or T a write |
//! | set and its family, delete, incr, decr, touch, ms, md, ma | a write |
//! | flush_all | a flush; one with a delay is a flush when its moment has come |
//! | all others | nothing: done at once |
//!
//! Invariants: 1. nothing of the store is changed that was not admitted, but by eviction and expiry; 2. a connection's commands are executed and answered in
//! order: behind one that waits all wait.
//!
//! Where items lie in a chain ([`super::chain_items`]) a command that was admitted goes there, with a place in its line; what it is answered, and how packets
//! ended, the home is told at the end of a pass ([`HomeStore::turn`]), and packets leave then.
//!
//! With a log ([`super::logged`]) a write is executed and logged when no box has a copy, and answered when that is durable; packets leave when the log is
//! durable up to all that
//! they can show.
//!
//! Bounds: packets that wait for the log by [`KEPT_MAX`]; beyond they are lost, as on any network.
//!
//! Cost: a command at a home of which no box holds anything looks up an ordered tree that is empty, twice.

mod steps;

use super::access::access;
use super::chain_items::Whose;
use super::chained::{Said, Told};
use super::commands::Commands;
use super::items::FLUSH;
use super::parked::{Late, LateReply, Next, Origin, Owned};
use super::planted::{Mistakes, Planted};
use super::stats::{ChainReport, HomeReport};
use super::{Reply, inline, refuse, silent};
use crate::kv::clocks::Clocks;
use crate::kv::home::Seat;
use crate::kv::post::Post;
use base::steady::Steady;
use base::{Clock, Nanos};
use protocol::chain::at_home::Step;
use protocol::coherence::home::items::Items;
use protocol::coherence::home::slow::{Ended, reads};
use protocol::coherence::home::{Access, Admitted};
use protocol::coherence::{Home, Out};
use protocol::memcache::emit::{self, SMALL_BOUND};
use protocol::memcache::{Command, KEY_MAX, Line};
use protocol::planted::NoBugs;
use ring::arena::Producer;
use std::collections::VecDeque;
use std::sync::Arc;

/// Packets that wait for the log at most.
const KEPT_MAX: usize = 1 << 16;

/// What a home of this service keeps its items in: a store, or a chain.
pub trait HomeStore: Items {
    /// What commands mean, and who waits.
    fn commands(&self) -> &Commands;

    /// The same.
    fn commands_mut(&mut self) -> &mut Commands;

    /// Does a command that was admitted, of a connection that has a line: its reply has the next place there.
    fn go_on(&mut self, origin: Origin, command: Owned);

    /// A pass is over; none where nothing came of it. What is said is to be told to the home, and then this is to be asked again, until nothing is said.
    fn turn(&mut self) -> Option<Vec<Told<Whose>>>;

    /// What the home is to admit, and to be told of, for transactions of clients.
    fn take_steps(&mut self) -> Vec<Step> {
        Vec::new()
    }

    /// What was counted of a chain, if they lie in one.
    fn chain(&self) -> Option<ChainReport> {
        None
    }
}

impl HomeStore for Commands {
    #[inline]
    fn commands(&self) -> &Commands {
        self
    }

    #[inline]
    fn commands_mut(&mut self) -> &mut Commands {
        self
    }

    fn go_on(&mut self, origin: Origin, command: Owned) {
        let (command, hash) = command.command();
        let reply = self.say(&command, hash);
        self.parked.answer(origin, reply);
    }

    #[inline]
    fn turn(&mut self) -> Option<Vec<Told<Whose>>> {
        self.durable.is_some().then(|| {
            self.turn_log();
            Vec::new()
        })
    }
}

/// See the head of the file.
pub struct Homed<S = Commands, B = NoBugs> {
    home: Home<S, B>,
    planted: B,
    post: Arc<Post>,
    out: Out,
    clocks: Clocks,
    /// Leases count by the system's clocks; nobody holds those against another that are told.
    steady: Option<Steady>,
    now: Nanos,
    /// Packets that leave when the log is durable up to there.
    kept: VecDeque<(u64, Out)>,
    kept_packets: usize,
}

impl<S: HomeStore> Homed<S> {
    /// The home that `seat` says, over these items.
    pub fn new(seat: &Seat, items: S, post: Arc<Post>) -> Homed<S> {
        let clocks = Clocks::system();
        // Before the home is told its first moment.
        let steady = Steady::new(Clock::shared());
        let mut homed = Homed::over(seat.home(clocks.now(), items), post, clocks, NoBugs);
        homed.steady = Some(steady);
        homed
    }
}

impl<S: HomeStore, B: Mistakes> Homed<S, B> {
    /// This home, with mistakes made on purpose.
    pub fn over(mut home: Home<S, B>, post: Arc<Post>, clocks: Clocks, planted: B) -> Homed<S, B> {
        let commands = home.items_mut().commands_mut();
        commands.gives_what_is_logged = planted.has(Planted::GivesWhatIsLogged);
        commands.put_off_flushes(planted.has(Planted::FlushStaysBehind));
        post.set_serves_from(home.serves_from());
        Homed {
            home,
            planted,
            post,
            out: Out::new(),
            now: clocks.now(),
            clocks,
            steady: None,
            kept: VecDeque::new(),
            kept_packets: 0,
        }
    }

    #[inline]
    pub fn commands(&self) -> &Commands {
        self.home.items().commands()
    }

    #[inline]
    pub fn commands_mut(&mut self) -> &mut Commands {
        self.home.items_mut().commands_mut()
    }

    /// The home.
    pub fn home(&self) -> &Home<S, B> {
        &self.home
    }

    /// A key that was lost with its owner, each once.
    pub fn poll_lost(&mut self) -> Option<Vec<u8>> {
        self.home.poll_lost()
    }

    /// What the home counts.
    pub fn report(&self) -> HomeReport {
        HomeReport::of(&self.home.stats(), self.commands().parked.lines(), &self.post.traffic())
    }

    /// What is counted of the chain that items lie in, if they do.
    pub fn chain(&self) -> Option<ChainReport> {
        self.home.items().chain()
    }

    /// Whether a command of this connection waits, or its reply.
    pub fn has_waiting(&self, origin: Origin) -> bool {
        self.commands().parked.has_line(origin)
    }

    /// Ends the process when the clock jumped: boxes would have copies for longer than the home thinks. As a crash, which they survive.
    #[inline]
    fn check_clock(&mut self) {
        if let Some(Err(jump)) = self.steady.as_mut().map(Steady::check) {
            crate::guard::end_process("the home", &jump);
        }
    }

    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        self.check_clock();
        self.now = self.now.max(now);
        self.commands_mut().tick(now);
        if self.post.tell_gone(&mut self.home.items_mut().commands_mut().parked) {
            self.settle(true);
        }
        if self.commands_mut().is_flush_to_be_begun() {
            self.flush_now();
        }
    }

    /// A flush whose moment has come. Where the home has no room for it, it is tried again.
    fn flush_now(&mut self) {
        match self.home.admit(self.now, Access::Flush, FLUSH, &mut self.out) {
            Admitted::Now => self.commands_mut().flush_now(),
            Admitted::Later => self.commands_mut().put_off.waits = true,
            Admitted::Busy | Admitted::NotHome => {}
        }
        self.settle(true);
    }

    #[inline]
    pub fn execute(
        &mut self,
        command: &Command<'static>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        let mut scratch = [0; KEY_MAX];
        let access = access(command, &mut scratch);
        if self.has_waiting(origin) || (access.is_some() && self.home.items().takes_time()) {
            return self.park(command, (hash, origin), out);
        }
        let Some(access) = access else {
            return self.commands_mut().execute(command, hash, out);
        };
        if access == Access::Flush && self.is_put_off(command) {
            return self.put_off(command, (hash, origin), out);
        }
        // Room for any of the short answers, before anything is done.
        out.reserve(SMALL_BOUND as u32)?;
        let ticket = self.commands_mut().parked.ticket();
        match self.home.admit(self.now, access, ticket, &mut self.out) {
            Admitted::Now => {
                self.settle(true);
                let reply = self.commands_mut().execute_logged(command, (hash, origin), out);
                self.settle_log();
                reply
            }
            Admitted::Later => {
                let head = self.copy(command, hash);
                self.commands_mut().parked.wait(origin, ticket, head);
                self.settle(true);
                silent(out, Some(Late::Waits))
            }
            Admitted::Busy => {
                self.settle(true);
                said(command, Line::Busy, out)
            }
            Admitted::NotHome => said(command, Line::NotHome, out),
        }
    }

    /// It stands in its connection's line.
    fn park(
        &mut self,
        command: &Command<'static>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        let reply = silent(out, Some(Late::Waits))?;
        let next = self.copy(command, hash);
        self.commands_mut().parked.push(origin, next);
        self.settle(true);
        Some(reply)
    }

    /// What stands in a line for `command`: without room for a copy of it, that it is not done.
    fn copy(&mut self, command: &Command<'static>, hash: u64) -> Next {
        let commands = self.commands_mut();
        match commands.parked.copy(command, hash) {
            Some(owned) => Next::Command(owned),
            None => Next::Said(commands.say_refused(command, Line::Busy.bytes()).bytes),
        }
    }

    /// The same of a command that is not done.
    pub fn park_refusal(
        &mut self,
        command: &Command<'_>,
        why: &[u8],
        origin: Origin,
        out: &mut Producer,
    ) -> Option<Reply> {
        let reply = silent(out, Some(Late::Waits))?;
        let commands = self.commands_mut();
        let said = commands.say_refused(command, why).bytes;
        commands.parked.push(origin, Next::Said(said));
        self.settle(true);
        Some(reply)
    }

    /// The replies to what waited.
    pub fn collect(&mut self, origin: Origin, out: &mut Producer) -> Option<Reply> {
        // Taken only where there is room to say so.
        out.reserve(0)?;
        let replies = self.commands_mut().parked.collect(origin);
        self.settle_log();
        self.post.set_waiting(self.commands().parked.lines());
        silent(out, Some(Late::Done(replies)))
    }

    /// The home hears what arrived, and does what is due.
    pub fn serve(&mut self, out: &mut Producer) -> Option<Reply> {
        let reply = silent(out, None)?;
        self.check_clock();
        // A lease runs from when its reply is made: what was read before the pass is late by then.
        let now = self.clocks.now();
        self.now = self.now.max(now);
        for (from, message) in self.post.take_arrived() {
            self.home.handle(self.now, from, &message, &mut self.out);
        }
        self.home.tick(self.now, &mut self.out);
        // Edge 0 asked, and sends what is said.
        self.settle(false);
        Some(reply)
    }

    fn is_put_off(&self, command: &Command<'_>) -> bool {
        let now = self.commands().now;
        matches!(command, Command::FlushAll { delay, .. } if delay.moment(now) > now)
    }

    /// A flush that is to come replaces one that was; at its moment it takes copies away first.
    fn put_off(
        &mut self,
        command: &Command<'static>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        let reply = self.commands_mut().execute_logged(command, (hash, origin), out);
        self.settle_log();
        reply
    }

    /// After whatever the home did: lines whose heads are done go on, messages leave, edges learn what is done.
    fn settle(&mut self, wakes: bool) {
        let mut has_moved = false;
        while let Some(origin) = self.commands_mut().parked.moved() {
            has_moved = true;
            self.go_on(origin);
        }
        self.keep_for_log();
        let deadline = self.home.next_deadline();
        if has_moved || !self.out.is_empty() || !wakes || deadline < self.post.deadline() {
            self.post.set_waiting(self.commands().parked.lines());
            self.post.set_serves_from(self.home.serves_from());
            self.post.leave(&mut self.out, deadline, wakes);
        }
    }

    /// Where there is a log: what it has to do with lines and packets.
    fn settle_log(&mut self) {
        if self.commands().durable.is_some() {
            self.settle(true);
        }
    }

    /// A pass is over: what was logged in it is made durable together; what became of what is asked of a chain is heard.
    pub fn end_pass(&mut self) {
        while let Some(told) = self.home.items_mut().turn() {
            let is_over = told.is_empty();
            if !is_over {
                // As when packets are served.
                self.check_clock();
                self.now = self.now.max(self.clocks.now());
            }
            told.into_iter().for_each(|told| self.tell(told));
            let is_over = !self.take_steps() && is_over;
            self.settle(true);
            if is_over {
                break;
            }
        }
    }

    /// What is said to who asked the chain: the home knows then how it ended, and answers packets.
    fn tell(&mut self, Told { whose, ended, said }: Told<Whose>) {
        match (whose, said) {
            (Whose::Command(promise, changes), Said::Reply(reply)) => {
                if let Some(access) = changes.access() {
                    self.home.ticket_done(access, &ended);
                }
                self.commands_mut().parked.fulfil(promise, reply);
            }
            (Whose::Packet(request), Said::Found(item)) => {
                self.home.read_done(self.now, &request, Ended::Done(item), &mut self.out);
            }
            (Whose::Packet(request), Said::Answer(answer)) => {
                self.home.write_done(&request, ended.map(|()| answer), &mut self.out);
            }
            (Whose::Packet(request), _) if reads(&request) => {
                let ended = ended.map(|()| unreachable!("what was read is said"));
                self.home.read_done(self.now, &request, ended, &mut self.out);
            }
            (Whose::Packet(request), _) => {
                let ended = ended.map(|()| unreachable!("what was done is answered"));
                self.home.write_done(&request, ended, &mut self.out);
            }
            (Whose::Command(..), _) => unreachable!("a command is answered with a reply"),
        }
    }

    /// Of what the home says nothing leaves before the log is durable up to now: it may show anything that was done.
    fn keep_for_log(&mut self) {
        let is_early = self.planted.has(Planted::PacketsBeforeDurable);
        let needs = if is_early { 0 } else { self.commands().last_position() };
        if !self.out.is_empty() && (!self.kept.is_empty() || !self.commands().parked.is_durable(needs)) {
            let packets = std::mem::take(&mut self.out);
            if self.kept_packets + packets.len() <= KEPT_MAX {
                self.kept_packets += packets.len();
                self.kept.push_back((needs, packets));
            }
        }
        while let Some((needs, _)) = self.kept.front()
            && self.commands().parked.is_durable(*needs)
            && let Some((_, mut packets)) = self.kept.pop_front()
        {
            self.kept_packets -= packets.len();
            self.out.append(&mut packets);
        }
    }

    /// What stands in a line is done, until something of it must wait.
    fn go_on(&mut self, origin: Origin) {
        while let Some(next) = self.commands_mut().parked.next(origin) {
            let owned = match next {
                Next::Command(owned) => owned,
                Next::Said(bytes) => {
                    self.commands_mut().parked.answer(origin, LateReply::of(bytes));
                    continue;
                }
            };
            let (command, _) = owned.command();
            let mut scratch = [0; KEY_MAX];
            let ticket = self.commands_mut().parked.ticket();
            let admitted = match access(&command, &mut scratch) {
                Some(access) => self.home.admit(self.now, access, ticket, &mut self.out),
                None => Admitted::Now,
            };
            let line = match admitted {
                Admitted::Now => {
                    self.home.items_mut().go_on(origin, owned);
                    continue;
                }
                Admitted::Later => {
                    return self.commands_mut().parked.wait(origin, ticket, Next::Command(owned));
                }
                Admitted::Busy => Line::Busy,
                Admitted::NotHome => Line::NotHome,
            };
            let commands = self.commands_mut();
            let reply = commands.say_refused(&command, line.bytes());
            commands.parked.answer(origin, reply);
        }
        if self.commands_mut().parked.is_to_be_collected(origin) {
            self.post.done(origin);
        }
    }
}

/// A line as the answer to a command.
fn said(command: &Command<'_>, line: Line, out: &mut Producer) -> Option<Reply> {
    let mut room = out.reserve(SMALL_BOUND as u32)?;
    let mut reply = emit::Reply::to(&mut room, command.asked());
    refuse(command, line.bytes(), &mut reply);
    let len = reply.len();
    Some(inline(room, len))
}
