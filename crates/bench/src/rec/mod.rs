//! `millrace rec bench`: load on a recommendation server, over the fabric or HTTP, and where the time goes.
//!
//! | file | what |
//! |---|---|
//! | `subject` | what a server says of its model, and random requests for it |
//! | `fabric`, `http` | one connection's load |
//! | `tally` | what came of it, and stages |
//! | `line` | one measurement: connections, warm-up, counters before and after |
//! | `show` | tables and a page |

mod fabric;
mod http;
mod line;
mod show;
mod subject;
mod tally;

use crate::contest::{self, Contest, Order, Slice, Turn};
use crate::report;
use crate::report::environment::{self, Fact};
use clap::{Args, ValueEnum};
use line::Line;
pub use line::Outcome;
use serde::Serialize;
use serve::process::parse::{duration, rate};
use serve::process::{interrupt, progress};
use serve::rec::registers::Registers;
use serve::rec::{ModelArgs, Plan, Server};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
pub use subject::{Request, Subject, Target};

/// Load recommendation servers with random queries, and show where the time goes.
///
/// Each TARGET (tcp:HOST:PORT, unix:/path, shm:/path, udp:HOST:PORT for the fabric, http://HOST:PORT for the Open Inference Protocol) is measured with
/// requests of each of --batches queries, in turns. With --local a server of a random model (or of --model) is started in this process and measured
/// over both; client and server then share the cores.
///
/// Times of stages are the server's: queue (edge to preprocessing), parse, preprocess (features to ids, checks), wait (for the engine and its
/// batch), reduce (rows), mlp (the rest of the
/// model). What is left of the client's latency is sockets, reply and wake-ups.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    millrace rec bench --local\n  \
    millrace rec bench tcp:127.0.0.1:7501 http://127.0.0.1:7500 --batches 1,16 --report rec.html\n  \
    millrace rec bench tcp:127.0.0.1:7501 --rate 5000 --form features --json")]
pub struct Bench {
    /// Servers that run already
    #[arg(value_name = "TARGET", required_unless_present = "local", conflicts_with = "local")]
    targets: Vec<Target>,

    /// Start a server in this process
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    model: ModelArgs,
    /// Set a register of the local server. May be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "local")]
    settings: Vec<String>,

    /// Queries in a request
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,16",
        help_heading = "Load"
    )]
    batches: Vec<usize>,
    /// How requests are written
    #[arg(long, value_enum, default_value_t, value_name = "FORM", help_heading = "Load")]
    form: Form,
    /// Which ids are asked
    #[arg(long, value_enum, default_value_t, value_name = "KIND", help_heading = "Load")]
    ids: Ids,
    /// Ids in a bag, on average, if they are uniform
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Load")]
    bag: usize,
    /// Connections
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Load")]
    connections: u16,
    /// Requests under way per connection; over HTTP it is one
    #[arg(short, long, value_name = "N", default_value_t = 4, help_heading = "Load")]
    window: usize,
    /// Open loop: requests per second over all connections; latency counts from the meant start
    #[arg(short, long, value_parser = rate, value_name = "N", help_heading = "Load")]
    rate: Option<f64>,
    /// How long to measure each target and batch
    #[arg(short, long, value_parser = duration, value_name = "TIME", default_value = "3s", help_heading = "Load")]
    duration: Duration,
    /// How long to run before that
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "300ms", help_heading = "Load")]
    warmup: Duration,
    /// Seed of the requests; a random model's plans with the same --seed know their groups
    #[arg(long = "load-seed", value_name = "N", default_value_t = 1, help_heading = "Load")]
    load_seed: u64,

    /// Print the whole result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write the result as an HTML page with plots; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// How requests are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Ids as packed or binary tensors
    #[default]
    Tensors,
    /// Ids as tensors in JSON (HTTP; over the fabric as `tensors`)
    Json,
    /// `table: feature` as people write it
    Features,
}

/// Which ids are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ids {
    /// In groups, by popularity, in bags of median 6 and p99 60, as `rec synth` makes them
    #[default]
    Grouped,
    /// Every row alike
    Uniform,
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct Result {
    /// What was done, in words.
    pub setup: Vec<String>,
    /// Each target with each batch.
    pub lines: Vec<Outcome>,
    /// Where.
    pub environment: Vec<Fact>,
}

impl Bench {
    /// Runs and prints.
    ///
    /// # Errors
    /// A sentence: it could not be run, or requests failed.
    pub fn run(&self) -> std::result::Result<(), String> {
        let stop = interrupt::flag().map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;
        let bar = progress::bar(self.json);
        let server = self.local.then(|| self.start()).transpose()?;
        let targets = match &server {
            None => self.targets.clone(),
            Some(server) => {
                let fabric = server.addresses().iter().cloned().map(Target::Fabric);
                fabric.chain(server.http().map(|address| Target::Http(address.to_string()))).collect()
            }
        };
        let name = |turn: Turn| format!("{}, batch {}", targets[turn.side], self.batches[turn.cell]);
        let measure = |turn: Turn| {
            let (target, batch) = (&targets[turn.side], self.batches[turn.cell]);
            Line { target, batch, bench: self, stop: &stop }.measure().map(Slice::Measured)
        };
        let (sides, cells) = (targets.len(), self.batches.len());
        let contest = Contest::new((sides, cells), (1, Order::Fixed), &stop, (&bar, 0.0, 1.0));
        let mut measured = contest.run(&mut contest::by(name, measure))?;
        let cells = (0..cells).flat_map(|cell| (0..sides).map(move |side| (cell, side)));
        let lines = cells.flat_map(|(cell, side)| measured.take(cell, side)).map(|one| one.figures).collect();
        let result = Result { setup: self.setup(), lines, environment: environment::facts() };
        bar.finish_and_clear();
        drop(server);
        let page = || show::page(&result);
        report::deliver(&result, self.json, || page().text(), page, self.report.as_deref())
            .map_err(|error| error.to_string())?;
        match result.lines.iter().find_map(|line| line.example.as_ref().map(|example| (line, example))) {
            None => Ok(()),
            Some((line, example)) => {
                Err(format!("{}: {} requests failed: {example}", line.name, line.failed))
            }
        }
    }

    fn start(&self) -> std::result::Result<Server, String> {
        let registers = Registers::default();
        for setting in &self.settings {
            let (name, value) = setting.split_once('=').ok_or("--set: expected NAME=VALUE")?;
            registers.set(name, value).map_err(|error| format!("--set {setting}: {error}"))?;
        }
        let plan = Plan {
            source: self.model.source(),
            listen: vec!["tcp:127.0.0.1:0".parse().expect("an address")],
            http: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()),
            grpc: None,
            cores: None,
            registers: Arc::new(registers),
            rights: None,
        };
        Server::start(plan).map_err(|error| error.to_string())
    }

    fn setup(&self) -> Vec<String> {
        let load = match self.rate {
            Some(rate) => format!("{rate} requests per second over {} connections", self.connections),
            None => format!(
                "{} connections, over the fabric {} requests under way of each, over HTTP one",
                self.connections, self.window
            ),
        };
        vec![
            format!("{load}; each line {:.1} s", self.duration.as_secs_f64()),
            match self.ids {
                Ids::Grouped => "ids in groups, by popularity, in bags of median 6 and p99 60".to_owned(),
                Ids::Uniform => format!("uniform ids, {} in a bag on average", self.bag),
            },
            format!("requests as {:?}", self.form).to_lowercase(),
        ]
    }
}
