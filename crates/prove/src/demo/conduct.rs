//! What happens while all clients work, scene by scene: a method is moved, a compute unit is taken away, a box dies, a replica dies.

use super::clients::Kind;
use super::path::Paths;
use super::tally::Tally;
use crate::cluster::Members;
use crate::lab::run::record::now;
use base::trace::{Tracer, chrome};
use base::{Clock, Nanos};
use client::web::Web;
use protocol::coherence::NodeId;
use protocol::wire::{BoxId, HomeId};
use serve::admin::token_for;
use serve::cluster::file::Who;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Between two readings of traces.
const TRACE_INTERVAL: Nanos = Nanos::from_millis(1000);
/// Until what was lost is there again.
const OUTAGE: Duration = Duration::from_millis(800);
/// One request of this many is traced.
pub const SAMPLE: u64 = 8;
/// What a page of the node may have.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// What.
    pub what: String,
    /// From then on.
    pub at: Nanos,
    /// Until all was well again.
    pub until: Nanos,
}

/// The node, as its operator has it.
pub struct Operator {
    web: Web,
    admin: SocketAddr,
    /// Where the chain's replicas show what they saw of requests.
    replicas: Vec<SocketAddr>,
    token: String,
}

impl Operator {
    /// Of the node of these members.
    ///
    /// # Errors
    /// A sentence.
    pub fn of(members: &Members) -> Result<Operator, String> {
        let home = Who::Node(NodeId::Home(HomeId(1)));
        let admin = members.admin(home).ok_or("the node has no admin port")?;
        Ok(Operator {
            web: Web::new(Duration::from_secs(5), PAGE_BYTES_MAX),
            admin,
            replicas: members.replica_admins(),
            token: token_for(admin)?,
        })
    }

    /// Writes a register of the node.
    ///
    /// # Errors
    /// A sentence.
    pub fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let url = format!("http://{}/registers/{name}", self.admin);
        let page = self.web.put(&url, &self.token, value)?;
        if page.is_there {
            Ok(())
        } else {
            Err(format!("{name} = {value}: {} {}", page.status, page.text.trim()))
        }
    }

    /// What the node's services leave of requests, and after it what those replicas leave that live.
    ///
    /// # Errors
    /// A sentence, of the node.
    pub fn traces(&self) -> Result<Vec<String>, String> {
        let page = |at: &SocketAddr| Ok::<_, String>(self.web.get(&format!("http://{at}/trace"))?.text);
        let node = page(&self.admin)?;
        Ok([node].into_iter().chain(self.replicas.iter().filter_map(|at| page(at).ok())).collect())
    }
}

/// Something that is done at the beginning of a scene.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A method gets another place.
    MoveRank,
    /// The compute unit is away for a while.
    LoseUnit,
    /// A box is dead for a while.
    LoseBox,
    /// A replica is dead for a while.
    LoseReplica,
}

impl Act {
    const fn what(self) -> &'static str {
        match self {
            Act::MoveRank => "Rank reads its requests on a host thread now, not at the edge",
            Act::LoseUnit => "the compute unit was taken away, and given back",
            Act::LoseBox => "box 1 was killed, and started again",
            Act::LoseReplica => "replica 2 of the chain was killed, and started again",
        }
    }
}

/// A part of the time that all clients work.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// What is done first.
    pub acts: &'static [Act],
    /// What is so then.
    pub then: &'static str,
}

/// The scenes of the demonstration; each has as much of the time.
pub const DEMO: [Scene; 4] = [
    Scene { acts: &[], then: "everything runs" },
    Scene { acts: &[Act::MoveRank], then: "Rank has moved" },
    Scene { acts: &[Act::LoseUnit, Act::LoseBox], then: "all is whole again" },
    Scene { acts: &[Act::LoseReplica], then: "all is whole again" },
];

/// From the beginning to the end.
pub struct Conductor<'a> {
    /// Who may die.
    pub members: &'a mut Members,
    /// Who moves.
    pub operator: &'a Operator,
    /// What clients leave of their requests.
    pub clients: &'a Tracer,
    /// What traces show.
    pub paths: &'a mut Paths,
    /// Ctrl-C.
    pub interrupted: &'a AtomicBool,
    /// The share of all that is over, and what happens.
    pub tell: &'a dyn Fn(f64, &str),
    /// For pages: what is known so far.
    pub show: &'a dyn Fn(&Paths, &[Event]),
    /// A scene is over: which, and all that happened since the beginning.
    pub scene_over: &'a mut dyn FnMut(usize, &Paths, &[Event]),
    /// When it began.
    pub begun: Nanos,
    /// How long it is to be.
    pub span: Nanos,
    /// The last reading of traces.
    pub read: Nanos,
}

impl Conductor<'_> {
    /// Everything that happens in these scenes.
    ///
    /// # Errors
    /// Something did not become whole again, or could not be done.
    pub fn conduct(&mut self, scenes: &[Scene]) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        for service in ["cache", "shop", "media"] {
            self.operator.set(&format!("{service}.trace.sample"), &SAMPLE.to_string())?;
        }
        for (number, scene) in scenes.iter().enumerate() {
            for act in scene.acts {
                (self.tell)(self.share(), act.what());
                self.add(&mut events, *act)?;
            }
            self.pause((number + 1) as f64 / scenes.len() as f64, scene.then, &events)?;
            if !self.interrupted.load(Ordering::Relaxed) {
                self.look(&events);
                (self.scene_over)(number, self.paths, &events);
            }
        }
        self.look(&events);
        Ok(events)
    }

    fn add(&mut self, events: &mut Vec<Event>, act: Act) -> Result<(), String> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        let at = now();
        match act {
            Act::MoveRank => self.operator.set("rank.place.rec.preprocess", "host"),
            Act::LoseUnit => self.lose_unit(),
            Act::LoseBox => self.lose(Who::Node(NodeId::Box(BoxId(1)))),
            Act::LoseReplica => self.lose(Who::Replica(7, 2)),
        }?;
        events.push(Event { what: act.what().to_owned(), at, until: now() });
        Ok(())
    }

    fn lose_unit(&mut self) -> Result<(), String> {
        self.operator.set("media.acc.units", "0")?;
        std::thread::sleep(OUTAGE);
        self.operator.set("media.acc.units", "1")
    }

    fn lose(&mut self, who: Who) -> Result<(), String> {
        self.members.kill(who)?;
        std::thread::sleep(OUTAGE);
        self.members.start(who, false)?;
        let interrupted = self.interrupted;
        self.members.await_whole(&mut || interrupted.load(Ordering::Relaxed))
    }

    fn share(&self) -> f64 {
        now().since(self.begun).0 as f64 / self.span.0 as f64
    }

    fn pause(&mut self, until: f64, what: &str, events: &[Event]) -> Result<(), String> {
        while self.share() < until && !self.interrupted.load(Ordering::Relaxed) {
            (self.tell)(self.share(), what);
            self.members.check_alive()?;
            if now().since(self.read) >= TRACE_INTERVAL {
                self.look(events);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Reads traces, and shows what is known.
    fn look(&mut self, events: &[Event]) {
        self.read = now();
        // A reading that fails is made up for by the next.
        if let Ok(mut pages) = self.operator.traces() {
            pages.push(chrome(&self.clients.spans(), Clock::shared().monotonic()));
            let _ = self.paths.add(pages.iter().map(String::as_str));
        }
        (self.show)(self.paths, events);
    }
}

/// What an event meant for clients: those of which kind waited longest, and how long.
pub fn worst(event: &Event, tallies: &[(Kind, Tally)]) -> Option<(Kind, Nanos)> {
    let until = event.until.max(event.at.plus(Nanos::from_millis(500)));
    tallies
        .iter()
        .map(|(kind, tally)| (*kind, tally.longest_gap(event.at, until)))
        .max_by_key(|(_, gap)| *gap)
}
