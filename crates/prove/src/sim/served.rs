//! Homes that are nodes: their disks and chains, which take their time, and connections of memcached's clients.
//!
//! ```text
//!  operation by ticket ─▶ command on a connection ─▶ node ─▶ reply, in the connection's order ─▶ record
//!  node ─▶ sync, snapshot, walk ··▶ Happening::Disk ─▶ node
//! ```
//! Of a node with a log nobody knows what became of commands that were not answered when it died: they may have been logged.

use super::chains::{self, Step};
use super::disks::{Deed, Disk};
use super::flushes::Flushes;
use super::homes::{Behind, Homes};
use super::issue::Running;
use super::memcached;
use super::nodes::Machine;
use super::replicas::{Chain, Handle, Tally};
use super::warm::Memories;
use super::words;
use super::workload::is_unsure;
use super::world::{Happening, World};
use base::{Picos, Prng};
use protocol::coherence::Out;
use protocol::coherence::client::{Call, Failed, OpId};
use protocol::memcache::Line;
use protocol::memcache::client::Expect;
use protocol::wire::Verb;
use sim::faults::Trouble;
use sim::nodes::Node;
use sim::random;
use std::collections::{BTreeMap, HashMap, VecDeque};
use store::redo::media::Fault;

/// Connections that operations share; those that must end in time have their own.
const SHARED: u64 = 3;
/// Until the idle engine comes to a snapshot again.
const IDLE: Picos = Picos::from_micros(20);
/// One in so many syncs takes this much longer than is usual.
const LATE_ONE_IN: u64 = 16;
/// So many times.
const LATE_TIMES: u64 = 8;

/// A command that was sent.
#[derive(Debug)]
struct Asked {
    id: OpId,
    expect: Expect,
    is_alone: bool,
}

#[derive(Debug)]
struct Kept {
    disk: Disk,
    luck: Prng,
    /// By deed: its end is an event.
    under_way: [bool; 3],
    /// It takes longer than anybody waits for this.
    slow: Option<Deed>,
    /// It was to fail: a log that does is no surprise.
    may_fail: bool,
    /// Some of it has decayed: a home that does not start is no surprise.
    has_rotted: bool,
    /// When its home died last.
    ended: Picos,
}

/// The chain of a home.
#[derive(Debug)]
pub struct Chained {
    pub chain: Chain,
    luck: Prng,
    /// Its next step comes within this; else there is none.
    next_within: u64,
    /// Steps that were to come: the last counts.
    pub turns: u64,
    /// When it was last not known what became of something: the home died, or the chain did not answer.
    pub unknown: Picos,
    /// A replica died: each of its next steps may take a lease.
    is_slow: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Served {
    disks: BTreeMap<Node, Kept>,
    pub chains: BTreeMap<Node, Chained>,
    /// Writes of which chains said that nobody knows.
    pub unanswered: u64,
    connections: HashMap<(Node, u32), VecDeque<Asked>>,
    asked: u64,
    /// Of a chain of replicas nobody has everything: it serves no more, as it must.
    pub is_lost: bool,
    /// What happened in chains of replicas, at the end.
    pub tally: Tally,
    /// What they are to flush later.
    pub flushes: Flushes,
    /// Those of homes whose memory outlives them.
    pub memories: Memories,
    /// Lives that began with what there was.
    pub recoveries: u64,
    /// Snapshots that became the newest.
    pub snapshots: u64,
}

impl Served {
    /// What is behind a home.
    pub fn behind(&mut self, node: Node, (homes, seed, log): (Homes, u64, usize)) -> Behind<'_> {
        let luck = || random::stream(seed, u64::from(node), "disk's luck");
        let disk = || Kept {
            disk: Disk::new(log),
            luck: luck(),
            under_way: [false; 3],
            slow: None,
            may_fail: false,
            has_rotted: false,
            ended: Picos::ZERO,
        };
        let chain = || Chained {
            chain: Chain::Map(chains::Chain::draw(
                &mut random::stream(seed, u64::from(node), "chain's habits"),
                is_unsure(seed, homes),
            )),
            luck: luck(),
            next_within: u64::MAX,
            turns: 0,
            unknown: Picos::ZERO,
            is_slow: false,
        };
        match homes {
            Homes::Bare => Behind::Nothing,
            Homes::Cache => self.memories.behind(node, seed),
            Homes::Logged => Behind::Disk(&mut self.disks.entry(node).or_insert_with(disk).disk),
            Homes::Chained => Behind::Chain(self.chains.entry(node).or_insert_with(chain).chain.clone()),
        }
    }

    /// The chain of a home, which is a map.
    pub fn map_of(&self, node: Node) -> Option<&chains::Chain> {
        self.chains.get(&node).and_then(|kept| kept.chain.map())
    }

    /// The chain of a home, which is one of replicas.
    pub fn replicas_of(&self, node: Node) -> Option<&Handle> {
        match &self.chains.get(&node)?.chain {
            Chain::Replicas(replicas) => Some(replicas),
            Chain::Map(_) => None,
        }
    }

    /// This one is behind a home from the beginning.
    pub fn put_behind(&mut self, node: Node, chain: Chain) {
        let (luck, ended) = (Prng::new(0), Picos::ZERO);
        let kept = Chained { chain, luck, next_within: u64::MAX, turns: 0, unknown: ended, is_slow: false };
        self.chains.insert(node, kept);
    }

    /// The second of what a run counts of homes that survive.
    pub fn second_mark(&self) -> u64 {
        self.snapshots + self.unanswered
    }
}

impl World<'_> {
    // ---- disks

    /// After whatever a node did: what its disk does from now on, and whether it works.
    pub(super) fn drive_disk(&mut self, node: Node) {
        let (now, is_calm, usual) = (self.now(), self.is_calm, self.script.disk.1);
        let lease = self.script.config.lease;
        let Some(kept) = self.served.disks.get_mut(&node) else { return };
        let Kept { disk, luck, under_way, slow, may_fail, .. } = kept;
        let place = &mut self.places[node as usize];
        let Some(Machine::Home(home)) = &mut place.machine else { return };
        let Some(machine) = home.node_mut() else { return };
        if let Some(why) = machine.failed() {
            let what = format!("the log of {} fails: {why}", self.numbers.name(node));
            return if *may_fail { self.stop(node, what) } else { self.broken(what, b"") };
        }
        for (deed, is_wanted) in [
            (Deed::Sync, disk.does(Deed::Sync)),
            (Deed::Publish, disk.does(Deed::Publish)),
            (Deed::Walk, machine.has_more()),
        ] {
            if !is_wanted || std::mem::replace(&mut under_way[deed as usize], true) {
                continue;
            }
            let takes = luck.below(usual.0);
            let is_late = !is_calm && luck.below(LATE_ONE_IN) == 0;
            let takes = match (*slow == Some(deed) && !is_calm, is_late) {
                (true, _) => takes + Picos::from(lease).0,
                (false, true) => LATE_TIMES * takes,
                (false, false) => takes,
            };
            let at = now.plus(if deed == Deed::Walk { IDLE } else { Picos(1 + takes) });
            self.queue.push(at, node, Happening::Disk { life: place.life, deed });
        }
    }

    /// A disk has done something, or the engine is idle.
    pub(super) fn disk_is_done(&mut self, node: Node, life: u32, deed: Deed) {
        let place = &self.places[node as usize];
        let Some(kept) = self.served.disks.get_mut(&node).filter(|_| place.life == life) else { return };
        if place.machine.is_none() {
            return;
        }
        kept.under_way[deed as usize] = false;
        kept.disk.done(deed);
        if deed == Deed::Publish {
            self.served.snapshots += 1;
            self.note(|names| format!("{:<13} has a snapshot", names.name(node)));
        }
        self.act(node, 0, None);
    }

    /// After whatever a node did, or its chain: when that does something next.
    pub(super) fn drive_chain(&mut self, node: Node) {
        let (now, usual, lease) = (self.now(), self.script.disk.1, self.script.config.lease);
        let is_calm = self.is_calm;
        let Some(kept) = self.served.chains.get_mut(&node) else { return };
        let Chain::Map(chain) = &kept.chain else { return self.drive_replicas(node) };
        let most = match (chain.is_busy(), chain.has_late()) {
            (true, _) if kept.is_slow && !is_calm => Picos::from(lease).0,
            (true, _) => usual.0 / 4,
            (false, true) => Picos::from(lease).0,
            (false, false) => return,
        };
        // Who waits for nothing late waits for nobody.
        if most < kept.next_within {
            kept.next_within = most;
            kept.turns += 1;
            let at = now.plus(Picos(1 + kept.luck.below(most)));
            self.queue.push(at, node, Happening::Chain(kept.turns));
        }
    }

    /// A chain does something.
    pub(super) fn chain_steps(&mut self, node: Node, turn: u64) {
        let (now, is_calm) = (self.now(), self.is_calm);
        let Some(kept) = self.served.chains.get_mut(&node).filter(|kept| kept.turns == turn) else { return };
        let Chain::Map(chain) = &kept.chain else { return self.replicas_step(node) };
        kept.next_within = u64::MAX;
        let step = chain.step(&mut kept.luck, is_calm);
        if step == Step::Unknown {
            (kept.unknown, self.served.unanswered) = (now, self.served.unanswered + 1);
        }
        let strays = chain.take_strays();
        self.note(|names| format!("{:<13} has a chain that did: {step:?}", names.name(node)));
        self.collect_strays(strays);
        match step {
            Step::Answered if self.places[node as usize].machine.is_some() => self.act(node, 0, None),
            _ => {
                self.look_at_home(node, &Out::new());
                self.drive_chain(node);
            }
        }
    }

    /// A node ends, or power fails there. What was to fail does not any more.
    pub(super) fn end_disk(&mut self, node: Node) {
        let now = self.now();
        if let Some(Chained { chain, luck, unknown, .. }) = self.served.chains.get_mut(&node) {
            chain.end(now, luck);
            *unknown = now;
        }
        if let Some(Kept { disk, luck, under_way, may_fail, ended, .. }) = self.served.disks.get_mut(&node) {
            disk.end(luck);
            (*under_way, *may_fail, *ended) = ([false; 3], false, now);
        }
    }

    /// Its log failed: a server ends then, as a crash, and is started when its medium works, or at the end of faults.
    fn stop(&mut self, node: Node, why: String) {
        self.note(|_| why);
        self.crash(node);
    }

    /// Whether a home with a log has died since: what it was asked then and did not answer, it may have logged. With a chain, whether that did not answer.
    pub(super) fn has_died_since(&self, node: Node, at: Picos) -> bool {
        let chained = self.served.chains.get(&node);
        if chained.is_some_and(|kept| kept.unknown >= at && kept.unknown > Picos::ZERO) {
            return true;
        }
        self.served.disks.get(&node).is_some_and(|kept| kept.ended >= at && kept.ended > Picos::ZERO)
    }

    /// Something is wrong with the disk of a node from now on.
    pub(super) fn trouble(&mut self, node: Node, trouble: Trouble) {
        if let Some(chained) = self.served.chains.get_mut(&node) {
            chained.is_slow |= trouble == Trouble::Slow;
        }
        let Some(kept) = self.served.disks.get_mut(&node) else { return };
        let fault = match trouble {
            Trouble::Slow => {
                kept.slow = Some([Deed::Sync, Deed::Publish][kept.luck.below(2) as usize]);
                return;
            }
            Trouble::BadSync => Fault::Error,
            Trouble::Full => Fault::Full,
            Trouble::Rot => return self.rot(node),
            Trouble::Pause | Trouble::Lost => return,
        };
        if self.places[node as usize].machine.is_some() {
            kept.may_fail = true;
            kept.disk.spoil(kept.luck.below(4), fault);
        }
    }

    /// Bytes decay. Not while the end of the log is known by its records alone: that it is lost then nobody can know (`docs/durability.md`).
    fn rot(&mut self, node: Node) {
        let Some(Machine::Home(home)) = &mut self.places[node as usize].machine else { return };
        if let Some(kept) = self.served.disks.get_mut(&node)
            && home.node_mut().is_some_and(|machine| machine.is_marked())
        {
            kept.has_rotted = true;
            kept.disk.rot(&mut kept.luck);
        }
    }

    /// What is on the disk of a home is damaged, and its server says so: its operator has it begin with nothing, if that is no surprise.
    pub(super) fn begins_with_nothing(&mut self, node: Node, log: usize) -> bool {
        let Some(kept) = self.served.disks.get_mut(&node).filter(|kept| kept.has_rotted) else {
            return false;
        };
        (kept.disk, kept.has_rotted) = (Disk::new(log), false);
        true
    }

    /// It is well again; a node that ended for it starts.
    pub(super) fn relieve(&mut self, node: Node, trouble: Trouble) {
        if let Some(chained) = self.served.chains.get_mut(&node) {
            chained.is_slow &= trouble != Trouble::Slow;
            self.drive_chain(node);
        }
        let Some(kept) = self.served.disks.get_mut(&node) else { return };
        if trouble == Trouble::Slow {
            kept.slow = None;
        }
        if matches!(trouble, Trouble::BadSync | Trouble::Full) {
            kept.disk.heal();
            self.begin(node);
        }
    }

    // ---- commands

    /// A client of memcached's protocol asks a node.
    pub(super) fn ask_node(&mut self, node: Node, call: Call, number: usize, must: Option<Picos>) {
        if call.verb == Verb::Flush {
            self.served.flushes.is_replaced(node);
        }
        let (text, expect) = memcached::command(&call);
        self.ask_by_text(node, (call, text, expect), number, must);
    }

    /// The same, with the text of it.
    pub(super) fn ask_by_text(
        &mut self,
        node: Node,
        (call, text, expect): (Call, &'static [u8], Expect),
        number: usize,
        must: Option<Picos>,
    ) {
        let now = self.places[node as usize].clock.read(self.now());
        let served = &mut self.served;
        served.asked += 1;
        let (id, is_alone) = (OpId(served.asked), must.is_some());
        let connection = if is_alone { SHARED + served.asked } else { served.asked % SHARED } as u32;
        served.connections.entry((node, connection)).or_default().push_back(Asked { id, expect, is_alone });
        self.note(|names| {
            let (name, call) = (names.name(node), words::call(&call));
            format!("{name:<13} is asked operation {number} by connection {connection}: {call}")
        });
        self.underway.begin(node, id, Running::new(call, number, now, must));
        let mut out = Out::new();
        let Some(Machine::Home(home)) = self.machine(node) else { return };
        home.node_mut().expect("it is a node").ask(now, connection, text, &mut out);
        self.acted(node, None, &mut out);
    }

    /// Takes what a node has answered.
    pub(super) fn collect_said(&mut self, node: Node) {
        while let Some(Machine::Home(home)) = self.machine(node)
            && let Some(said) = home.node_mut().and_then(|machine| machine.poll_said())
        {
            let asked =
                self.served.connections.get_mut(&(node, said.connection)).and_then(VecDeque::pop_front);
            let running = asked.as_ref().and_then(|asked| self.underway.end(node, asked.id));
            let (Some(Asked { id, expect, is_alone }), Some(running)) = (asked, running) else {
                let what = format!(
                    "{} answers what nobody asked: {}",
                    self.numbers.name(node),
                    said.bytes.escape_ascii()
                );
                return self.broken(what, b"");
            };
            self.print.number(id.0);
            if is_alone {
                self.check_in_time(node, &running);
            } else if said.bytes.ends_with(Line::UnknownOutcome.bytes()) {
                // Nobody hears of it any more.
                continue;
            }
            match memcached::answer(&running.call, expect, &said.bytes) {
                Ok(Some(answer)) => self.succeeded(node, &running, &answer, false),
                Ok(None) => self.failed(node, running, Failed::NotDone),
                Err(what) => return self.broken(what, &running.call.key),
            }
        }
    }

    /// A node died: nobody hears of what was asked there.
    pub(super) fn hang_up(&mut self, node: Node) {
        self.served.connections.retain(|(of, _), _| *of != node);
    }
}
