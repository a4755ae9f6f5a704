//! `millrace tour`: the demonstration in six scenes, each said, shown and measured by itself.
//!
//! It is the same datacenter with the same clients, which all work all the time; a scene looks at some of them, after something was done to it.

use super::clients::Kind;
use super::conduct::{Act, Scene};
use super::draw;
use super::show::{self, Outcome};
use super::{DemoError, Whole};
use bench::report::{self, Block, Drawing, Report, Section, environment};
use clap::Args;
use serde::Serialize;
use serve::process::parse::duration_of;
use serve::process::{interrupt, progress};
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

/// A scene of the tour.
struct Stop {
    title: &'static str,
    /// What is seen, and why it is so.
    words: &'static str,
    /// Whose requests.
    kinds: &'static [Kind],
    scene: Scene,
    /// Where to go from here.
    next: &'static str,
}

const STOPS: [Stop; 6] = [
    Stop {
        title: "A store for the clients that you have",
        words: "One node answers memcached's protocol. Its cores read requests from sockets and execute them at once, without a lock between them. \
                These keys are of a chain of three replicas: what is acknowledged survives the death of any of them, which is why a set costs more than a get.",
        kinds: &[Kind::Get, Kind::Set],
        scene: Scene { acts: &[], then: "memcached clients read and write" },
        next: "millrace up, and docs/tutorials/cache.md",
    },
    Stop {
        title: "Every protocol, the same items",
        words: "A memcached client, a client of the fabric, a gRPC client with a stock library and a transaction go to the same process and the same store. \
                PlaceOrder is a method of one .proto that says `transaction`: it takes from the stock and adds to orders and to what was sold, all or nothing.",
        kinds: &[Kind::Get, Kind::Profile, Kind::GrpcProfile, Kind::SetProfile, Kind::Order],
        scene: Scene { acts: &[], then: "fabric, gRPC and transactions on the same items" },
        next: "millrace rpc, and docs/tutorials/rpc.md",
    },
    Stop {
        title: "Answered on the way",
        words: "Two boxes stand between clients and the node. They keep copies of items, and replies of methods that say `cacheable`; a write drops every copy before it is \
                acknowledged, so no read is stale. What they answer does not reach the node: compare the times with the first scene, and see the share.",
        kinds: &[Kind::InNetwork, Kind::Profile],
        scene: Scene { acts: &[], then: "boxes answer what they have copies of" },
        next: "millrace up --boxes, and docs/tutorials/rack.md",
    },
    Stop {
        title: "Work where it is best",
        words: "Two things are moved while requests are under way: reading and checking the requests of Rank goes from the thread of their sockets to a host thread, by one register; \
                and the compute unit that packs pictures is taken away and given back. The handlers are the same code in both places, and nothing is lost.",
        kinds: &[Kind::Rank, Kind::Pack],
        scene: Scene {
            acts: &[Act::MoveRank, Act::LoseUnit],
            then: "Rank has moved; the compute unit is back",
        },
        next: "millrace registers, and docs/tutorials/recommend.md",
    },
    Stop {
        title: "A box dies",
        words: "Box 1 is killed with SIGKILL and started again. Copies are lost, values are not: the controller takes it out of the table and clients go round it. \
                Look at the longest time without an answer.",
        kinds: &[Kind::InNetwork, Kind::Profile],
        scene: Scene { acts: &[Act::LoseBox], then: "box 1 is back" },
        next: "millrace lab run, which kills more and judges every answer",
    },
    Stop {
        title: "A replica dies",
        words: "Replica 2 of the chain is killed with SIGKILL. The others go on without it, after a lease; when it is back it is given what it missed. \
                In the end all orders are counted: as many as were acknowledged, and of each good what is in stock and sold is what there was.",
        kinds: &[Kind::Set, Kind::Order],
        scene: Scene { acts: &[Act::LoseReplica], then: "replica 2 is back" },
        next: "millrace soak kills, and docs/tutorials/transactions.md",
    },
];

/// Six scenes of ten seconds: what millrace is, on this machine, with the figures of each.
///
/// Starts a small datacenter (as `millrace demo`: two boxes, a node, a chain of three replicas, controllers, all processes on loopback) and
/// looks at it scene by scene: memcached clients, all protocols on the same items, boxes that answer on the way, work that moves, a box that
/// dies, a replica that dies. Every value is checked. A page shows what was seen so far while it goes on.
#[derive(Args, Debug)]
pub struct Tour {
    /// How long each scene is (10s, 1m)
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration_of(1..=600))]
    scene: Duration,

    /// Requests of each kind in a second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,

    /// Where to write the page
    #[arg(long, value_name = "FILE", default_value = "millrace-tour.html")]
    report: PathBuf,

    /// Leave it running in the end, until Ctrl-C, and say what to try
    #[arg(long)]
    keep: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What came of a scene.
#[derive(Serialize)]
struct SceneResult {
    title: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
}

/// What came of all.
#[derive(Serialize)]
struct TourResult {
    scenes: Vec<SceneResult>,
    /// Of the whole time.
    whole: Outcome,
}

impl Tour {
    /// Runs it.
    ///
    /// # Errors
    /// When something failed or a value was wrong.
    pub fn run(&self) -> Result<(), DemoError> {
        let failed = |error: std::io::Error| DemoError::Run(format!("Ctrl-C cannot be caught: {error}"));
        let interrupted = interrupt::flag().map_err(failed)?;
        let whole = Whole {
            duration: self.scene * STOPS.len() as u32,
            rate: self.rate,
            report: self.report.clone(),
            keep: self.keep,
            json: self.json,
        };
        let bar = progress::bar(self.json);
        let tell = |share: f64, what: &str| progress::show(&bar, share, what);
        let scenes = RefCell::new(Vec::new());
        let unfinished = |outcome: Outcome| show::unfinished(&page(&scenes.borrow(), &outcome));
        let mut scene_over = |number: usize, outcome: Outcome| {
            let stop = &STOPS[number];
            let seen = SceneResult { title: stop.title, outcome: outcome.only(stop.kinds) };
            if !self.json {
                bar.suspend(|| print!("{}", text(number, &seen)));
            }
            scenes.borrow_mut().push(seen);
        };
        let script = STOPS.each_ref().map(|stop| stop.scene);
        let played = whole.play(&script, &interrupted, &tell, &unfinished, &mut scene_over);
        bar.finish_and_clear();
        let (outcome, members) = played.map_err(DemoError::Run)?;
        let toured = TourResult { scenes: scenes.into_inner(), whole: outcome };
        let page = || page(&toured.scenes, &toured.whole);
        report::deliver(&toured, self.json, || ending(&toured.whole), page, Some(&self.report))
            .map_err(DemoError::Page)?;
        whole.end(&toured.whole, members, &interrupted)
    }
}

/// A scene, for a terminal.
fn text(number: usize, seen: &SceneResult) -> String {
    let stop = &STOPS[number];
    let mut out = format!("\n  {} of {}: {}\n", number + 1, STOPS.len(), stop.title);
    for line in lines(stop.words) {
        out += &format!("  {line}\n");
    }
    out += &format!("\n{}", seen.outcome.requests());
    if !seen.outcome.events.is_empty() {
        out += &format!("\n{}", seen.outcome.happenings());
    }
    out + &format!("\n  next: {}\n", stop.next)
}

/// Words in lines that a terminal has room for.
fn lines(words: &str) -> Vec<String> {
    const WIDTH: usize = 96;
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

fn ending(whole: &Outcome) -> String {
    let mut out = String::from("\n");
    for line in whole.sums().into_iter().chain([whole.verdict().1]) {
        out += &format!("  {line}\n");
    }
    out
}

/// The page, with the scenes that are over.
fn page(scenes: &[SceneResult], whole: &Outcome) -> Report {
    let mut sections: Vec<Section> =
        scenes.iter().zip(&STOPS).map(|(seen, stop)| scene(seen, stop)).collect();
    let sums = whole.sums();
    if !sums.is_empty() {
        let blocks = sums.into_iter().map(Block::Text).collect();
        sections.push(Section { title: "In the end".into(), blocks });
    }
    Report {
        title: "A tour of millrace".into(),
        subtitle: "Two boxes, a node with a store, a shop and a model, a chain of three replicas, controllers: processes on loopback, looked at in six scenes.".into(),
        verdict: whole.verdict(),
        sections,
        environment: environment::facts(),
    }
}

fn scene(seen: &SceneResult, stop: &Stop) -> Section {
    let outcome = &seen.outcome;
    let mut blocks = vec![
        Block::Text(stop.words.to_owned()),
        Block::Table(outcome.requests()),
        Block::Plot(Drawing::picture(draw::paths(&outcome.rows))),
    ];
    if !outcome.events.is_empty() {
        blocks.push(Block::Table(outcome.happenings()));
    }
    blocks.push(Block::Text(format!("Next: {}", stop.next)));
    Section { title: stop.title.to_owned(), blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_between_words_and_none_is_lost() {
        for stop in &STOPS {
            let broken = lines(stop.words);
            assert!(broken.iter().all(|line| line.chars().count() <= 96 && !line.starts_with(' ')));
            assert_eq!(broken.join(" "), stop.words.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
}
