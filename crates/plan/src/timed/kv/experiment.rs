//! M-E4: GETs and SETs of a whole node in modelled time, beside the planner's arithmetic for the same threads, requests and numbers.
//!
//! The placements are those of `millrace model check-host`: one client thread with a processor, the node's threads together on another, nobody looks before it
//! sleeps; each connection has one request under way. Both sides rest on the same numbers of the platform. Where they differ, it is by what the code does
//! with what is there when it looks: replies and wake-ups that share a turn, calls that nobody has to be woken for. `in 1 GiB` is a store of that size, whose
//! misses the arithmetic takes one after the other and the engine together, for all requests of a group.
//!
//! Every reply is compared with what a node by hand answers that is not timed.

use super::{Client, Counts, Setup, Timed};
use crate::host::{Ask, arithmetic};
use base::{Nanos, Picos};
use model::experiment::Rows;
use model::load::Seen;
use model::platform::{LoadError, Platforms};
use model::rerun;
use model::system::host::{Handler, Host, Link, Node as Machine, Route, Threads};
use protocol::planted::NoBugs;
use serve::kv::by_hand::{Node, Place, Width};
use serve::kv::config::Config;
use serve::kv::registers::Id;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const EXPERIMENT: &str = "M-E4";
const WARM_UP: Picos = Picos::from_millis(1);
const SPAN: Picos = Picos::from_millis(20);
const WINDOWS: [u64; 3] = [1, 4, 16];
/// Nothing comes short.
pub const WIDE: Width = Width { room: 1 << 20, call: 1 << 20 };

/// What is asked, and how large the store is.
const CASES: [(Ask, &str, u64); 3] =
    [(Ask::Get, "GET", 16 << 10), (Ask::Get, "GET in 1 GiB", 1 << 30), (Ask::Set, "SET of 4 KiB", 16 << 10)];

/// What one of them came to.
#[derive(Debug)]
pub struct Measured {
    /// What clients saw.
    pub seen: Seen,
    /// Requests per second.
    pub rate: f64,
    /// Replies that were not as they should be.
    pub wrong: u64,
    /// Of the node.
    pub counts: Counts,
}

/// What clients saw together.
struct Account {
    seen: Seen,
    is_on: bool,
    wrong: u64,
}

/// A client that asks the same again and again.
struct Same {
    request: Rc<[u8]>,
    /// What it should hear.
    reply: Rc<[u8]>,
    heard: Vec<u8>,
    asked: Picos,
    account: Rc<RefCell<Account>>,
}

impl Client for Same {
    fn begin(&mut self, now: Picos) -> Vec<u8> {
        self.asked = now;
        self.request.to_vec()
    }

    fn hears(&mut self, bytes: &[u8], now: Picos) -> Vec<u8> {
        self.heard.extend_from_slice(bytes);
        if self.heard.len() < self.reply.len() {
            return Vec::new();
        }
        let mut account = self.account.borrow_mut();
        account.wrong += u64::from(*self.heard != *self.reply);
        if account.is_on {
            account.seen.record(now.since(self.asked));
        }
        drop(account);
        self.heard.clear();
        self.begin(now)
    }
}

/// One service whose edges do its work, or the thread of its core.
pub fn place(handler: Handler) -> Place {
    let config = Config::default();
    let mode = u64::from(handler != Handler::Edge);
    for (id, value) in [(Id::EngineMode, mode), (Id::StoreMemory, 16 << 20), (Id::StorePages, 0)] {
        config.registers.write(id, value).expect("within its range");
    }
    Place { config, core: 0 }
}

/// What a node answers to these bytes of one client that is not timed: stepped until nothing is left to do.
pub fn untimed(places: &[Place], asked: &[&[u8]]) -> Vec<Vec<u8>> {
    let node = Node::new(1, places, Nanos::ZERO, (Some(1), NoBugs)).expect("a store of this size");
    let peer = node.connect(0, WIDE).expect("a descriptor");
    let mut answers = Vec::new();
    for bytes in asked {
        peer.send(bytes);
        let mut heard = Vec::new();
        while node.wants_turn(0) {
            node.step_edge(0);
            peer.take(usize::MAX, &mut heard);
        }
        answers.push(heard);
    }
    answers
}

/// A request, and what a node that is not timed answers to it.
#[derive(Clone, Debug)]
pub struct Asked {
    request: Rc<[u8]>,
    reply: Rc<[u8]>,
}

impl Asked {
    /// Of this kind.
    ///
    /// # Panics
    /// The system has no descriptors or memory left.
    pub fn new(ask: Ask) -> Asked {
        let request = ask.request();
        let answers = untimed(&[place(Handler::Edge)], &[&Ask::stored(), &request]);
        Asked { reply: answers[1].as_slice().into(), request: request.into() }
    }
}

/// One placement with so many requests under way, of a store of so many bytes.
///
/// # Panics
/// The system has no descriptors or memory left.
pub fn measure(host: &Host, (asked, working_set): (&Asked, u64), handler: Handler, window: u64) -> Measured {
    let setup = Setup {
        host,
        threads: Threads::asleep(),
        working_set,
        places: vec![place(handler)],
        planted: NoBugs,
        width: WIDE,
    };
    let node = Timed::new(setup).expect("a store of this size");
    node.fill(0, &Ask::stored()).expect("a descriptor");
    let account = Rc::new(RefCell::new(Account { seen: Seen::new(SPAN), is_on: false, wrong: 0 }));
    let client = |_| {
        let (Asked { request, reply }, account) = (asked.clone(), Rc::clone(&account));
        (0, Same { request, reply, heard: Vec::new(), asked: Picos::ZERO, account })
    };
    node.begin((0..window).map(client).collect()).expect("descriptors");
    let before = Cell::new(Counts::default());
    let begins = || {
        account.borrow_mut().is_on = true;
        before.set(node.counts());
    };
    let times = rerun::account(node.sim(), rerun::warm_up(WARM_UP), SPAN, begins, || {});
    let (counts, before) = (node.counts(), before.get());
    let counts = Counts {
        steps: counts.steps - before.steps,
        requests: counts.requests - before.requests,
        wakes: counts.wakes - before.wakes,
    };
    let account = account.borrow();
    let rate = (account.seen.count() * times) as f64 / SPAN.as_secs_f64();
    Measured { rate, seen: account.seen.clone(), wrong: account.wrong, counts }
}

/// The experiment. Nothing in it is drawn from the seed.
///
/// # Errors
/// `this-host` lacks a number.
pub fn run(platforms: &Platforms, _seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named("this-host")?;
    let host = Host::of(&platform)?;
    let mut rows = Rows::default();
    for (ask, what, working_set) in CASES {
        let asked = Asked::new(ask);
        for handler in [Handler::Edge, Handler::Engine] {
            for window in WINDOWS {
                let timed = measure(&host, (&asked, working_set), handler, window);
                let (machine, class) = (Machine::new(&host, Threads::asleep(), 1), ask.class());
                let stages = [(handler, machine.handling(&class, working_set))];
                let route = Route { link: Link::Tcp, handler };
                let planned = arithmetic(machine, (&class, route), &stages, window);
                report(&mut rows, (&format!("{what}, {handler}"), window), &timed, &planned);
            }
        }
    }
    Ok(rows)
}

fn report(rows: &mut Rows, (variant, window): (&str, u64), timed: &Measured, planned: &Seen) {
    let point = format!("{window} under way");
    let at = (EXPERIMENT, variant, &*point);
    rows.add(at, "throughput", "Kops", timed.rate / 1e3);
    rows.add(at, "throughput by arithmetic", "Kops", planned.rate() / 1e3);
    rows.add(at, "mean latency", "us", timed.seen.mean() * 1e6);
    rows.add(at, "mean latency by arithmetic", "us", planned.mean() * 1e6);
    rows.add(at, "p99", "us", timed.seen.quantile(0.99) * 1e6);
    rows.add(at, "p99 by arithmetic", "us", planned.quantile(0.99) * 1e6);
    let Counts { steps, requests, wakes } = timed.counts;
    rows.add(at, "requests of a step", "requests", requests as f64 / steps.max(1) as f64);
    rows.add(at, "wake-ups for a request", "wake-ups", wakes as f64 / requests.max(1) as f64);
    let right = timed.seen.count().saturating_sub(timed.wrong) as f64 / timed.seen.count().max(1) as f64;
    rows.add(at, "replies as of a node that is not timed", "%", 100.0 * right);
}
