//! `images crossings`: what crosses between the two memories for a request, by the service and by an accelerator alone, in every strategy.
//!
//! The count alone is the codec's own ([`Passage`]), which its bench prints too. The service has the same messages come over a network, through server and
//! handler, with other requests before and behind.

use crate::client::{Client, request};
use crate::pictures::{KEY, Picture};
use crate::proto::photo::{Photo, User};
use crate::replace::{One, one};
use crate::served::{Served, Transport};
use crate::service::{token, work};
use base::Prng;
use bench::report::environment::facts;
use bench::report::{Block, Report, Section, Table};
use clap::Args;
use codec::crossing::{Counts, Shared};
use codec::encode::Strategy;
use codec::memory::Place;
use codec::place::{Accelerator, FieldUnit, Live, Options, Passage};
use codec::typed::Message;
use codec::unit::{self, Kernel, kernels::SealingKey};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Between two changes: so many requests without an objection make the next change count as the first (`codec::place::Votes`).
pub const CALM: u64 = 130;

/// Every strategy, with its word in the register `acc.serialise`.
pub const STRATEGIES: [(Strategy, &str); 3] =
    [(Strategy::CpuOnly, "cpu"), (Strategy::AcceleratorOnly, "walk"), (Strategy::MemoryAffinity, "affinity")];

/// How a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who serialises the reply.
    pub strategy: Strategy,
    /// A unit does the work; else the host.
    pub on_unit: bool,
    /// Where the avatar was put when it came.
    pub landed: Place,
}

impl Way {
    /// Whether the avatar is on the wrong side when the work begins.
    pub fn is_slow(&self) -> bool {
        self.on_unit != (self.landed == Place::Acc)
    }

    /// Fields that are moved for it: the avatar, if it is on the wrong side, and what a unit made, if the CPU serialises.
    pub fn moves(&self) -> u64 {
        u64::from(self.is_slow()) + u64::from(self.on_unit && self.strategy == Strategy::CpuOnly)
    }
}

/// What crosses for a request that is served in this way, with nothing else on the link.
///
/// # Panics
/// Without memory or threads.
pub fn alone(way: Way, id: u64, picture: &Picture) -> Counts {
    let live = Arc::new(Live::new(User::types().table().clone()));
    live.set_target(User::AVATAR, way.landed);
    let options = Options { threads: 0, acc_bytes: 16 << 20, ..Options::default() };
    let mut accelerator =
        Accelerator::in_this_thread(vec![live], options, Arc::new(Shared::default())).expect("memory");
    let key = SealingKey::new(&KEY, 1000 + id as u32);
    let mut unit = FieldUnit::new("alone", &accelerator, unit::Options::default());
    unit.program(work(&key)).expect("a thread");
    let wire = request(id, &token(id), &picture.raw);
    let passage = Passage::of(&mut accelerator, User::CLASS, wire, way.strategy, |accelerator, user| {
        let mut photo = accelerator.message(Photo::CLASS)?;
        let to = if way.on_unit { Place::Acc } else { Place::Host };
        let moved = accelerator.move_field(user, &[User::AVATAR], to)?;
        assert_eq!(moved, way.is_slow());
        let room = work(&key).output_bound(picture.raw.len());
        if way.on_unit {
            unit.run(user, &[User::AVATAR], &mut photo, &[Photo::SEALED], room as u32)?;
            if way.strategy == Strategy::CpuOnly {
                accelerator.move_field(&mut photo, &[Photo::SEALED], Place::Host)?;
            }
        } else {
            let mut sealed = vec![0; room];
            let len = work(&key).run(&picture.raw, &mut sealed)?;
            Photo::placed_mut(&mut photo).expect("of this class").set_sealed(&sealed[..len])?;
        }
        let mut edit = Photo::placed_mut(&mut photo).expect("of this class");
        edit.set_id(id);
        edit.set_made_by(if way.on_unit { "unit" } else { "host" })?;
        Ok(Some(photo))
    });
    passage.expect("a good message").all()
}

/// Show what crosses for a request, by the service and by an accelerator alone
#[derive(Args, Clone, Debug)]
pub struct Crossings {
    /// What carries the calls
    #[arg(long, value_enum, default_value = "grpc")]
    pub transport: Transport,
    /// Pixels of a picture's side
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=2048))]
    pub side: u32,
    /// Seed of the picture
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Writes a page; where the name ends in .csv its figures as rows
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// What crossed for one request.
struct Row {
    word: &'static str,
    what: &'static str,
    served: One,
    alone: Counts,
}

impl Row {
    fn is_equal(&self) -> bool {
        self.served.crossed == self.alone
    }
}

impl Crossings {
    /// Runs it. An error, with the table, where the two differ.
    ///
    /// # Errors
    /// In words.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report, String> {
        let picture = Picture::drawn(self.side, &mut Prng::new(self.seed));
        let mut rows = Vec::new();
        for (number, (strategy, word)) in (0..).zip(STRATEGIES) {
            rows.extend(self.rows(strategy, word, number, &picture, stop)?);
        }
        let differ = rows.iter().filter(|row| !row.is_equal()).count();
        let report = self.page(&rows, differ);
        if differ > 0 {
            return Err(format!("{}\n{}", report.text(), report.verdict.1));
        }
        Ok(report)
    }

    /// Of one strategy: with the unit, then as it goes, then as it comes back.
    fn rows(
        &self,
        strategy: Strategy,
        word: &'static str,
        number: u32,
        picture: &Picture,
        stop: &AtomicBool,
    ) -> Result<Vec<Row>, String> {
        let folder = std::env::temp_dir().join(format!("millrace-crossed-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let listen = [(self.transport, self.transport.anywhere(&folder))];
        let started = Served::start(&listen, &SealingKey::new(&KEY, number));
        let served = started.map_err(|error| error.to_string())?;
        served.set("acc.serialise", word);
        served.set_unit(true);
        let mut client = Client::connect(&served.address(self.transport))?;
        let mut rows = Vec::new();
        for id in 0..2 * CALM + 2 {
            if stop.load(Ordering::Relaxed) {
                return Err("stopped: nothing was written".to_owned());
            }
            if id == CALM || id == 2 * CALM {
                served.set_unit(id != CALM);
            }
            let asked = one(&served, &mut client, id, picture)?;
            let (what, on_unit, landed) = match id {
                1 => ("on the unit", true, Place::Acc),
                CALM => ("the unit gone, the first", false, Place::Acc),
                _ if id == CALM + 1 => ("the next", false, Place::Host),
                _ if id == 2 * CALM => ("the unit back, the first", true, Place::Host),
                _ if id == 2 * CALM + 1 => ("the next", true, Place::Acc),
                _ => continue,
            };
            let way = Way { strategy, on_unit, landed };
            if asked.moves != way.moves() {
                return Err(format!(
                    "{word}, {what}: {} fields were moved, not {}",
                    asked.moves,
                    way.moves()
                ));
            }
            rows.push(Row { word, what, served: asked, alone: alone(way, id, picture) });
        }
        served.stop().map_err(|error| error.to_string())?;
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(rows)
    }

    fn page(&self, rows: &[Row], differ: usize) -> Report {
        let verdict = match differ {
            0 => "As much crosses by the service as alone, in every line".to_owned(),
            differ => format!("In {differ} lines the two differ"),
        };
        Report {
            title: "What crosses for a request".to_owned(),
            subtitle: format!(
                "a picture of {side} x {side} over {:?}; of each pair, the service's count and that of an accelerator alone (codec::place::Passage)",
                self.transport,
                side = self.side,
            ),
            verdict: (differ == 0, verdict),
            sections: vec![Section {
                title: "Crossings".to_owned(),
                blocks: vec![Block::Table(table(rows))],
            }],
            environment: facts(),
        }
    }
}

/// Both sides of each pair of columns.
fn table(rows: &[Row]) -> Table {
    let kinds: [(&str, fn(&Counts) -> String); 4] = [
        ("transactions", |counts| counts.transactions().to_string()),
        ("to the host", |counts| format!("{} of {} B", counts.writes, counts.write_bytes)),
        ("from the host", |counts| format!("{} of {} B", counts.reads, counts.read_bytes)),
        ("bells, notices", |counts| format!("{}, {}", counts.doorbells, counts.notifications)),
    ];
    let pairs = kinds.iter().flat_map(|(name, _)| [(*name).to_owned(), "alone".to_owned()]);
    let mut table =
        Table::new(["serialised by", "request", "ran on"].map(str::to_owned).into_iter().chain(pairs));
    for row in rows {
        let ran = if row.served.on_unit { "unit" } else { "host" };
        let counted = kinds.iter().flat_map(|(_, say)| [say(&row.served.crossed), say(&row.alone)]);
        table.row([row.word, row.what, ran].map(str::to_owned).into_iter().chain(counted));
    }
    table
}
