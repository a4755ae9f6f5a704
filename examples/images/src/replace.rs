//! `images replace`: requests flow while the compute unit is taken away and given back.
//!
//! Shape of a run: a third of the requests with the unit, a third without, a third with it again; once with automatic field updating and once
//! without. Each run is repeated; times are the median of each request over the repetitions, what crosses is the same in each (checked). Every reply
//! is checked against the picture that was sent.

use crate::client::Client;
use crate::pictures::{KEY, Picture};
use crate::served::{Served, Transport};
use crate::service::token;
use base::{Clock, Nanos, Prng};
use bench::report::chart::{self, Series};
use bench::report::environment::facts;
use bench::report::format::digits;
use bench::report::{Block, Report, Section, Table};
use clap::Args;
use codec::crossing::Counts;
use codec::unit::kernels::SealingKey;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Take the compute unit away and give it back while requests flow
#[derive(Args, Clone, Debug)]
pub struct Replace {
    /// What carries the calls
    #[arg(long, value_enum, default_value = "tcp")]
    pub transport: Transport,
    /// Requests of a run
    #[arg(long, default_value_t = 480, value_parser = clap::value_parser!(u32).range(30..=1 << 20))]
    pub requests: u32,
    /// Pixels of a picture's side
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=2048))]
    pub side: u32,
    /// Repetitions of each run, of which the median is told
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Seed of the pictures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Writes a page with plots; where the name ends in .svg, the plots alone, in .csv its figures as rows
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Between two requests: each finds the threads asleep.
const PAUSE: Duration = Duration::from_micros(500);
/// Requests of each way before a run.
const WARM_UP: u64 = 8;
/// Requests shown before and behind a change.
const BEFORE: usize = 6;
const BEHIND: usize = 12;

/// A served request.
pub struct One {
    pub on_unit: bool,
    /// Fields that had to be moved for it.
    pub moves: u64,
    pub crossed: Counts,
    /// As the client waited.
    total: Nanos,
    /// Of that, compressing and encrypting.
    work: Nanos,
}

/// What is told of one request.
#[derive(Clone, Debug)]
struct Row {
    on_unit: bool,
    moves: u64,
    crossed: Counts,
    /// All but the kernel, and all: the median over the repetitions.
    rest: Nanos,
    total: Nanos,
}

impl Row {
    /// Bytes that crossed, in either direction.
    fn bytes(&self) -> u64 {
        let counts = &self.crossed;
        counts.write_bytes + counts.read_bytes + counts.doorbell_bytes + counts.notify_bytes
    }

    /// What the paper's PCIe would take for them: 1250 ns a transaction, 12.8 GB/s (RPCAcc Table I). A model, not a measurement.
    fn modelled(&self) -> Nanos {
        Nanos(self.crossed.transactions() * 1250 + self.bytes() * 10 / 128)
    }
}

/// Sends one request checks its reply, and says what it took.
///
/// # Errors
/// In words: how the call ended, or what is wrong with the reply.
pub fn one(served: &Served, client: &mut Client, id: u64, picture: &Picture) -> Result<One, String> {
    let (clock, before, moves) = (Clock::shared(), served.figures().lanes.crossed, served.moves());
    let start = clock.now();
    let photo = client.seal(id, &token(id), &picture.raw)?;
    let total = clock.now().since(start);
    let photo = photo.view();
    if photo.id() != id {
        return Err(format!("request {id} was answered as {}", photo.id()));
    }
    picture.is_in(photo.sealed(), &KEY).map_err(|wrong| format!("request {id}: {wrong}"))?;
    Ok(One {
        on_unit: photo.made_by() == "unit",
        moves: served.moves() - moves,
        crossed: served.figures().lanes.crossed - before,
        total,
        work: Nanos(served.sealer.work_ns.load(Ordering::Relaxed)),
    })
}

/// With the unit and without, while where avatars are put follows no moves: that is to happen in the run. At its end the unit is there.
///
/// # Errors
/// As [`one`].
pub fn warm_up(served: &Served, client: &mut Client, picture: &Picture) -> Result<(), String> {
    served.set("acc.follow", "off");
    for there in [true, false, true] {
        served.set_unit(there);
        for id in 0..WARM_UP {
            one(served, client, id, picture)?;
        }
    }
    Ok(())
}

/// A plot's title, and what is drawn of a request.
type Panel = (&'static str, fn(&Row) -> f64);

impl Replace {
    fn changes(&self) -> (usize, usize) {
        (self.requests as usize / 3, 2 * self.requests as usize / 3)
    }

    /// Near a change.
    fn is_shown(&self, index: usize) -> bool {
        let (away, back) = self.changes();
        [away, back].iter().any(|&change| index + BEFORE >= change && index < change + BEHIND)
    }

    /// Runs it.
    ///
    /// # Errors
    /// In words; also that a reply was wrong.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report, String> {
        let mut random = Prng::new(self.seed);
        // A few pictures, each sent many times.
        let pictures: Vec<Picture> = (0..8).map(|_| Picture::drawn(self.side, &mut random)).collect();
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // Interleaved, so that what else the machine does hits both. Each start seals with numbers of its own.
        for round in 0..self.repeats {
            with.push(self.once(&pictures, true, 2 * round, stop)?);
            without.push(self.once(&pictures, false, 2 * round + 1, stop)?);
        }
        Ok(self.page(&rows(&with)?, &rows(&without)?))
    }

    fn once(
        &self,
        pictures: &[Picture],
        follow: bool,
        sealer: u32,
        stop: &AtomicBool,
    ) -> Result<Vec<One>, String> {
        let folder = std::env::temp_dir().join(format!("millrace-images-{}-{sealer}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let listen = [(self.transport, self.transport.anywhere(&folder))];
        let started = Served::start(&listen, &SealingKey::new(&KEY, sealer));
        let served = started.map_err(|error| error.to_string())?;
        let outcome = self.flow(&served, pictures, follow, stop);
        served.stop().map_err(|error| error.to_string())?;
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        outcome
    }

    fn flow(
        &self,
        served: &Served,
        pictures: &[Picture],
        follow: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<One>, String> {
        let mut client = Client::connect(&served.address(self.transport))?;
        warm_up(served, &mut client, &pictures[0])?;
        served.set("acc.follow", if follow { "on" } else { "off" });
        let (away, back) = self.changes();
        let mut all = Vec::new();
        for index in 0..self.requests as usize {
            if stop.load(Ordering::Relaxed) {
                return Err("stopped: nothing was written".to_owned());
            }
            if index == away || index == back {
                served.set_unit(index == back);
            }
            std::thread::sleep(PAUSE);
            all.push(one(served, &mut client, index as u64, &pictures[index % pictures.len()])?);
        }
        Ok(all)
    }

    fn page(&self, with: &[Row], without: &[Row]) -> Report {
        let (away, back) = self.changes();
        let both = [("with automatic field updating", with), ("without", without)];
        let mut sections: Vec<Section> = both
            .iter()
            .map(|(name, rows)| Section {
                title: (*name).to_owned(),
                blocks: vec![Block::Table(self.table(rows)), Block::Text(summary(rows))],
            })
            .collect();
        let panels: [Panel; 3] = [
            ("Measured: all but the kernel, µs", |row| row.rest.0 as f64 / 1e3),
            ("Counted: KB that crossed, the same in every run", |row| row.bytes() as f64 / 1e3),
            ("Modelled, not measured: the crossings over the paper's PCIe, µs", |row| {
                row.modelled().0 as f64 / 1e3
            }),
        ];
        let plots = panels.map(|(title, value)| {
            let around = |change: usize| {
                let shown = change.saturating_sub(BEFORE)..(change + BEHIND).min(with.len());
                let series = both.map(|(name, rows)| Series {
                    name: name.to_owned(),
                    points: shown.clone().map(|index| (index as f64, value(&rows[index]))).collect(),
                    published: Vec::new(),
                });
                chart::lines(title, "request", &series)
            };
            Block::Pair(around(away), around(back))
        });
        let words = format!(
            "Left: the unit is taken away before request {away}. Right: it is given back before request {back}."
        );
        sections.push(Section {
            title: "around the changes".to_owned(),
            blocks: [Block::Text(words)].into_iter().chain(plots).collect(),
        });
        Report {
            title: "A compute unit is taken away and given back".to_owned(),
            subtitle: format!(
                "{} requests over {:?}, pictures of {side} x {side}, median of {} runs; both memories are ordinary memory here",
                self.requests,
                self.transport,
                self.repeats,
                side = self.side,
            ),
            verdict: (
                true,
                format!(
                    "{} requests, every reply opened, decompressed and compared",
                    2 * self.repeats * self.requests
                ),
            ),
            sections,
            environment: facts(),
        }
    }

    fn table(&self, rows: &[Row]) -> Table {
        let columns = [
            "request",
            "ran on",
            "moved",
            "but kernel, µs",
            "total, µs",
            "writes, B",
            "reads, B",
            "crossed",
            "modelled, µs",
        ];
        let mut table = Table::new(columns);
        for (index, row) in rows.iter().enumerate().filter(|(index, _)| self.is_shown(*index)) {
            table.row([
                index.to_string(),
                if row.on_unit { "unit" } else { "host" }.to_owned(),
                if row.moves > 0 { "yes" } else { "" }.to_owned(),
                digits(row.rest.0 as f64 / 1e3),
                digits(row.total.0 as f64 / 1e3),
                row.crossed.write_bytes.to_string(),
                row.crossed.read_bytes.to_string(),
                row.crossed.transactions().to_string(),
                digits(row.modelled().0 as f64 / 1e3),
            ]);
        }
        table
    }
}

fn rows(runs: &[Vec<One>]) -> Result<Vec<Row>, String> {
    let median = |mut times: Vec<Nanos>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let row = |index: usize| {
        let first = &runs[0][index];
        if runs.iter().any(|run| run[index].moves != first.moves || run[index].crossed != first.crossed) {
            return Err(format!("request {index} did not cross as often in each run"));
        }
        Ok(Row {
            on_unit: first.on_unit,
            moves: first.moves,
            crossed: first.crossed,
            rest: median(runs.iter().map(|run| run[index].total.since(run[index].work)).collect()),
            total: median(runs.iter().map(|run| run[index].total).collect()),
        })
    };
    (0..runs[0].len()).map(row).collect()
}

fn summary(rows: &[Row]) -> String {
    let moved = rows.iter().filter(|row| row.moves > 0).count();
    format!("{moved} of {} requests had to move their avatar", rows.len())
}
