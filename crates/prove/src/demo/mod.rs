//! `millrace demo`: the whole on this machine, as processes of this program on loopback: driven by every kind of client, checked, moved and hurt.
//!
//! ```text
//!  memcached ──────────────────────────────▶ node ── cache: the home of the boxes ──┬──▶ replica 1 ─▶ 2 ─▶ 3, and their controller
//!  in-network ──▶ box 1, box 2 ────────────▶   │                                    │
//!  fabric ─────▶ box 1 ────────────────────▶   ├── shop: edge ─▶ workers ───────────┘
//!  gRPC ───────▶ its gateway ──────────────▶   ├── rank: edge ─▶ engine core
//!  fabric ─────────────────────────────────▶   └── media: lanes ─▶ edge ─▶ compute unit
//! ```
//! | file | what it is |
//! |---|---|
//! | `shop` | the shop's handlers |
//! | `node` | the node: `millrace demo node`, which this starts |
//! | `clients`, `compare` | who asks (gRPC by `bench::grpc`) |
//! | `book`, `tally` | what they may see, and what they saw |
//! | `conduct` | what happens meanwhile |
//! | `path` | the hops of each kind of request, from its traces |
//! | `show`, `draw` | what is printed; the page and the picture of the path |
//! | `tour` | the same in six scenes, each explained: `millrace tour` |
//!
//! `millrace demo kv` is a node alone, with memcached traffic ([`bench::demo`]).

mod book;
mod clients;
mod compare;
mod conduct;
mod draw;
pub mod node;
mod path;
mod shop;
mod show;
mod tally;
pub mod tour;

use crate::cluster::Members;
use crate::lab::run::load::Pace;
use crate::lab::run::record::now;
use crate::soak::link::Link;
use base::Nanos;
use bench::report::{self, Undelivered};
use book::{Book, GOODS, STOCK, TEXTS, USERS, good, text_key, user};
use clap::{Args, Subcommand};
use client::Cluster;
use client::cache::Topology;
use clients::{Kind, Places, Work, set};
use compare::compare;
use conduct::{Conductor, DEMO, Event, Operator, SAMPLE, Scene};
use fabric::monitor::Monitor;
use node::NodeArgs;
use path::Paths;
use serve::process::parse::duration_of;
use serve::process::{interrupt, progress};
use show::Outcome;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tally::Tally;

/// In-network clients: one behind each box.
const BEHIND_BOXES: u32 = 2;
/// Requests of another kind for each write of a text.
const READS_PER_WRITE: u64 = 4;
/// Between two looks whether it is to end, while it is left running.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Start a small datacenter on this machine, drive it with every kind of client for about 20 seconds, move a method, kill a box and a
/// replica, and show what happened.
///
/// Two boxes, a node with a store, a shop and a model, a chain of three replicas, and controllers: each a process, all on loopback, on
/// free ports, with embedded defaults. The same items are read and written by memcached, in-network, fabric and gRPC clients, and by
/// transactions; every value is checked, and a wrong one makes the exit status 1. A page shows the path of each kind of request, from
/// its traces; it is written anew every second.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Demo {
    #[command(subcommand)]
    part: Option<Part>,

    #[command(flatten)]
    whole: Whole,
}

/// Demonstrations of a part.
#[derive(Subcommand, Debug)]
enum Part {
    Kv(bench::demo::Demo),
    /// The node of the demonstration
    #[command(hide = true)]
    Node(NodeArgs),
}

#[derive(Args, Debug)]
struct Whole {
    /// About how long clients work (10s, 1m)
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "20s", value_parser = duration_of(4..=3600))]
    duration: Duration,

    /// Requests of each kind in a second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,

    /// Where to write the page
    #[arg(long, value_name = "FILE", default_value = "millrace-demo.html")]
    report: PathBuf,

    /// Leave it running in the end, until Ctrl-C, and say what to try
    #[arg(long)]
    keep: bool,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Why the demonstration failed.
#[derive(Debug)]
pub enum DemoError {
    /// Of a node alone.
    Kv(bench::demo::DemoError),
    /// The node did not serve.
    Node(String),
    /// It could not be run.
    Run(String),
    /// Values that cannot have been there.
    Wrong(u64),
    /// The page could not be written; everything else was done.
    Page(Undelivered),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Kv(error) => error.fmt(f),
            DemoError::Node(why) | DemoError::Run(why) => f.write_str(why),
            DemoError::Wrong(wrong) => write!(f, "{wrong} values were wrong; this is a fault of millrace"),
            DemoError::Page(undelivered) => {
                write!(f, "the result above is complete, but {undelivered}; name another place with --report")
            }
        }
    }
}

impl std::error::Error for DemoError {}

impl Demo {
    /// Runs it.
    ///
    /// # Errors
    /// When something failed or a value was wrong.
    pub fn run(&self) -> Result<(), DemoError> {
        match &self.part {
            Some(Part::Kv(demo)) => demo.run().map_err(DemoError::Kv),
            Some(Part::Node(args)) => args.run().map_err(|error| DemoError::Node(error.to_string())),
            None => self.whole.run(),
        }
    }
}

impl Whole {
    fn run(&self) -> Result<(), DemoError> {
        let failed = |error: std::io::Error| DemoError::Run(format!("Ctrl-C cannot be caught: {error}"));
        let interrupted = interrupt::flag().map_err(failed)?;
        let bar = progress::bar(self.json);
        let tell = |share: f64, what: &str| progress::show(&bar, share, what);
        let unfinished = |outcome: Outcome| show::unfinished(&show::page(&outcome));
        let played = self.play(&DEMO, &interrupted, &tell, &unfinished, &mut |_, _| {});
        bar.finish_and_clear();
        let (outcome, members) = played.map_err(DemoError::Run)?;
        report::deliver(
            &outcome,
            self.json,
            || show::text(&outcome),
            || show::page(&outcome),
            Some(&self.report),
        )
        .map_err(DemoError::Page)?;
        self.end(&outcome, members, &interrupted)
    }

    /// Leaves it running, if that is wanted; then says what it came to.
    fn end(&self, outcome: &Outcome, members: Members, interrupted: &AtomicBool) -> Result<(), DemoError> {
        if self.keep && !interrupted.load(Ordering::Relaxed) {
            print!("{}", show::to_try(&members));
            while !interrupted.load(Ordering::Relaxed) {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        drop(members);
        match outcome.wrong() {
            0 => Ok(()),
            wrong => Err(DemoError::Wrong(wrong)),
        }
    }

    /// Starts everything, has clients work through the scenes, and compares what they see. `page` is made of what is known so far, about every
    /// second; `scene_over` is called with what came of a scene when that is over.
    fn play(
        &self,
        scenes: &[Scene],
        interrupted: &AtomicBool,
        tell: &dyn Fn(f64, &str),
        page: &dyn Fn(Outcome) -> String,
        scene_over: &mut dyn FnMut(usize, Outcome),
    ) -> Result<(Outcome, Members), String> {
        let begun = now();
        tell(0.0, "nine processes start");
        let mut members = Members::new("demo", false, true, Box::new(node::words))?;
        members.start_all()?;
        let places = places(&members)?;
        let (clients, operator) = (places.monitor.tracer(), Operator::of(&members)?);
        let book = Book::default();
        tell(0.0, "the shop is filled");
        fill(&places, &book)?;
        let started = now().since(begun);
        let shown: Vec<(Kind, Mutex<Tally>)> =
            self.kinds().map(|(kind, _)| (kind, Mutex::default())).collect();
        let (mut paths, over) = (Paths::default(), AtomicBool::new(false));
        let (begun, span) = (now(), Nanos::from(self.duration));
        let write = |paths: &Paths, events: &[Event]| {
            let so_far = Outcome::of(tallies(&shown), paths, events.to_vec(), begun);
            // The last one is written with what may go wrong; those before it are a help.
            let _ = std::fs::write(&self.report, page(so_far));
        };
        let mut before = Before { tallies: tallies(&shown), events: 0 };
        let mut over_with = |number: usize, paths: &Paths, events: &[Event]| {
            let (since, happened) = before.since(tallies(&shown), events);
            scene_over(number, Outcome::of(since, paths, happened, begun));
        };
        let events = std::thread::scope(|scope| {
            for ((kind, number), (_, tally)) in self.kinds().zip(&shown) {
                let work = Work {
                    kind,
                    number,
                    places: &places,
                    book: &book,
                    pace: self.pace(kind),
                    over: &over,
                    shown: tally,
                };
                scope.spawn(move || work.run());
            }
            let mut conductor = Conductor {
                members: &mut members,
                operator: &operator,
                clients: &clients,
                paths: &mut paths,
                interrupted,
                tell,
                show: &write,
                scene_over: &mut over_with,
                begun,
                span,
                read: Nanos(0),
            };
            let events = conductor.conduct(scenes);
            over.store(true, Ordering::Relaxed);
            events
        })?;
        let took = now().since(begun);
        tell(1.0, "all clients compare what they see");
        let mut outcome = Outcome::of(tallies(&shown), &paths, events, begun);
        (outcome.started, outcome.took) = (started, took);
        outcome.compared = Some(compare(&places)?);
        outcome.audit = Some(audit(&members.cluster_file(), &book)?);
        Ok((outcome, members))
    }

    /// One client of each kind, and one behind each box; of a kind they have numbers.
    fn kinds(&self) -> impl Iterator<Item = (Kind, u32)> {
        Kind::ALL.into_iter().flat_map(|kind| {
            let clients = if kind == Kind::InNetwork { BEHIND_BOXES } else { 1 };
            (0..clients).map(move |number| (kind, number))
        })
    }

    fn pace(&self, kind: Kind) -> Pace {
        match kind {
            Kind::InNetwork => Pace::of(self.rate, BEHIND_BOXES),
            Kind::Set | Kind::SetProfile => Pace::of((self.rate / READS_PER_WRITE).max(1), 1),
            _ => Pace::of(self.rate, 1),
        }
    }
}

/// What was so at the end of the scene before.
struct Before {
    tallies: Vec<(Kind, Tally)>,
    events: usize,
}

impl Before {
    /// What came since then; now is the end of the next scene.
    fn since(&mut self, now: Vec<(Kind, Tally)>, events: &[Event]) -> (Vec<(Kind, Tally)>, Vec<Event>) {
        let since =
            now.iter().zip(&self.tallies).map(|((kind, now), (_, before))| (*kind, now.since(before)));
        let since = (since.collect(), events[self.events..].to_vec());
        *self = Before { tallies: now, events: events.len() };
        since
    }
}

/// Where clients find what.
fn places(members: &Members) -> Result<Places, String> {
    let fabric =
        |at: usize| format!("tcp:{}", members.ports()[at]).parse().map_err(|error| format!("{error}"));
    Ok(Places {
        memcached: members.ports()[0],
        fabric: fabric(1)?,
        grpc: members.ports()[2],
        media: fabric(3)?,
        topology: Topology::read(&members.cluster_file()).map_err(|error| error.to_string())?,
        monitor: traced()?,
    })
}

/// By kind.
fn tallies(shown: &[(Kind, Mutex<Tally>)]) -> Vec<(Kind, Tally)> {
    let of = |wanted: Kind| {
        let mut sum = Tally::default();
        for (_, tally) in shown.iter().filter(|(kind, _)| *kind == wanted) {
            sum.add(&tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
        (wanted, sum)
    };
    Kind::ALL.into_iter().map(of).collect()
}

/// Where clients leave spans of some of their calls.
fn traced() -> Result<Monitor, String> {
    let monitor = Monitor::default();
    monitor.set_tracer(monitor.tracer().of("client"));
    let sampled = monitor.registers().write(fabric::registers::Id::TraceSample, SAMPLE);
    sampled.map_err(|error| error.to_string())?;
    Ok(monitor)
}

/// The first texts of each user, and what is in stock.
fn fill(places: &Places, book: &Book) -> Result<(), String> {
    let mut link = Link::open(&places.memcached.to_string()).map_err(|bye| format!("it {bye}"))?;
    for at in 0..TEXTS {
        let (number, text) = book.next_profile(at);
        set(&mut link, &text_key(at), &text)?;
        book.stored(at, number);
    }
    for at in 0..GOODS {
        set(&mut link, &shop::key("stock", &good(at)), STOCK.to_string().as_bytes())?;
    }
    Ok(())
}

/// What all orders came to, when all is over: of each good what is in stock and sold is what there was, and as much was ordered as was acknowledged.
fn audit(cluster: &Path, book: &Book) -> Result<show::Audit, String> {
    let said = |error: client::Error| error.to_string();
    let mut cluster = Cluster::builder().cluster(cluster).connect().map_err(said)?;
    let mut number = |key: Vec<u8>| -> Result<i64, String> {
        let Some(item) = cluster.get(&key).map_err(said)? else { return Ok(0) };
        let text = String::from_utf8_lossy(&item.value).into_owned();
        text.trim().parse().map_err(|_| format!("{} is {text:?}", String::from_utf8_lossy(&key)))
    };
    let mut audit = show::Audit { acknowledged: book.orders(), ..show::Audit::default() };
    for at in 0..GOODS {
        let (stock, sold) = (number(shop::key("stock", &good(at)))?, number(shop::key("sold", &good(at)))?);
        audit.sold += sold;
        audit.unbalanced += u64::from(stock + sold != STOCK);
    }
    for at in 0..USERS {
        audit.orders += number(shop::key("orders", &user(at)))?;
    }
    Ok(audit)
}
