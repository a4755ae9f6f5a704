//! What happens while all clients work: a method is moved, a compute unit is taken away, a box dies, a replica dies.

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
    /// When it began.
    pub begun: Nanos,
    /// How long it is to be.
    pub span: Nanos,
    /// The last reading of traces.
    pub read: Nanos,
}

impl Conductor<'_> {
    /// Everything that happens, in a quarter of the time each.
    ///
    /// # Errors
    /// Something did not become whole again, or could not be done.
    pub fn conduct(&mut self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        for service in ["cache", "shop", "media"] {
            self.operator.set(&format!("{service}.trace.sample"), &SAMPLE.to_string())?;
        }
        self.pause(0.25, "everything runs", &events)?;
        self.add(&mut events, "Rank reads its requests on a host thread now, not at the edge", |this| {
            this.operator.set("rank.place.rec.preprocess", "host")
        })?;
        self.pause(0.5, "Rank has moved", &events)?;
        self.add(&mut events, "the compute unit was taken away, and given back", |this| this.lose_unit())?;
        let killed = [
            ("box 1 was killed, and started again", Who::Node(NodeId::Box(BoxId(1)))),
            ("replica 2 of the chain was killed, and started again", Who::Replica(7, 2)),
        ];
        for (number, (what, who)) in killed.into_iter().enumerate() {
            (self.tell)(self.share(), what);
            self.add(&mut events, what, |this| this.lose(who))?;
            self.pause(0.75 + 0.25 * number as f64, "all is whole again", &events)?;
        }
        self.look(&events);
        Ok(events)
    }

    fn add(
        &mut self,
        events: &mut Vec<Event>,
        what: &str,
        work: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        let at = now();
        work(self)?;
        events.push(Event { what: what.to_owned(), at, until: now() });
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
