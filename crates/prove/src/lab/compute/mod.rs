//! `millrace lab compute`: increments and conditional puts at the client, at the server and in the box, in turns, with the right result.
//!
//! ```text
//!   for each choice of coherence.compute: a box and a home ◀── clients, each with one operation under way
//!   round: each line of the table for a slice, in turns
//! ```
//!
//! | file | what |
//! |---|---|
//! | `way` | one operation, done one way |
//! | `cell` | a line of the table: slices, and whether its key holds what it must |
//! | `rig` | nodes and clients, on loopback or in namespaces |
//! | `show` | the table |
//!
//! Bounds: clients and rounds of the command line; a few kilobytes for each line.

mod cell;
mod rig;
mod show;
#[cfg(test)]
mod tests;
mod way;

use super::LabError;
use bench::contest::{self, Contest, Order, Slice, Turn};
use bench::load::LoadError;
use bench::report;
use bench::report::environment::{self, Fact};
use cell::{Cell, Row};
use rig::Rig;
use serde::Serialize;
use serve::inc::ClientError;
use serve::inc::registers::Registers;
use serve::process::parse::duration;
use serve::process::progress;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use way::{Operation, Way};

/// Measure computations at the client, at the server and in the box.
///
/// An increment and a conditional put (that stores, and that does not) are done three ways: the client reads, computes and compares-and-swaps; the server
/// computes; a box on the way does, by its copy (what changes nothing), in its user tier or its XDP program, or by whatever else register
/// coherence.compute offers. All lines of the table are
/// measured in turns, so that they see the same machine. At the end every number must be what its operations make it; the exit status is 1 if one is
/// not.
///
/// As root, nodes and clients are in network namespaces: client, box and server are a hop apart each. Else, or with --loopback, on loopback, where
/// all are equally near.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  millrace lab compute --quick\n  millrace lab compute --clients 1,2,8 --json > compute.json"
)]
pub struct Compute {
    /// Clients at once, each with one operation under way
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4", value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: Vec<u16>,

    /// Rounds over the whole table
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Time for one line in one round
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration)]
    slice: Duration,

    /// Three rounds of 100 ms instead: a look, not a measurement
    #[arg(long, conflicts_with_all = ["rounds", "slice"])]
    quick: bool,

    /// On loopback, as root too
    #[arg(long)]
    loopback: bool,

    /// A register of the cache, as in coherence.lease=200000; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = serve::inc::plan::setting)]
    settings: Vec<(String, String)>,

    /// What the lab in namespaces is called while it stands
    #[arg(long, value_name = "NAME", default_value = "compute", value_parser = super::state::parse_name)]
    name: String,
    /// First remove the lab of this name, or what is left of one
    #[arg(long)]
    replace: bool,

    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

/// What came out.
#[derive(Debug, Serialize)]
struct Outcome {
    setup: String,
    note: Option<String>,
    rows: Vec<Row>,
    environment: Vec<Fact>,
}

impl Compute {
    /// Runs, prints and judges.
    ///
    /// # Errors
    /// A result is wrong, or it could not be run.
    pub fn run(&self) -> Result<(), LabError> {
        let stop = serve::process::interrupt::flag().map_err(LabError::io("catching Ctrl-C"))?;
        let outcome = self.measure(&stop)?;
        report::print(&outcome, self.json, || show::text(&outcome)).map_err(LoadError::from)?;
        match outcome.rows.iter().filter(|row| !row.is_right()).count() {
            0 => Ok(()),
            wrong => Err(LabError::WrongResults(wrong)),
        }
    }

    /// The lab to stand in; none: loopback.
    fn place(&self) -> Option<&str> {
        (rustix::process::geteuid().is_root() && !self.loopback).then_some(&self.name)
    }

    fn measure(&self, stop: &AtomicBool) -> Result<Outcome, LabError> {
        let (rounds, slice) =
            if self.quick { (3, Duration::from_millis(100)) } else { (self.rounds, self.slice) };
        let choices = Registers::default().show_one("coherence.compute").expect("it is a register").choices;
        let most = self.clients.iter().copied().max().unwrap_or(1);
        if let Some(name) = self.place().filter(|_| self.replace) {
            super::state::remove(name)?;
        }
        let mut rig = Rig::start(choices, most, &self.settings, self.place())?;
        let ways = Way::all(choices, rig.without_xdp().is_none());
        let mut cells = Vec::new();
        for operation in Operation::ALL {
            for &clients in &self.clients {
                for way in ways.iter().filter(|way| way.suits(operation)) {
                    let by = &mut rig.clients(way)[0];
                    cells.push(Cell::new(cells.len(), operation, way, usize::from(clients), by)?);
                }
            }
        }
        let bar = progress::bar(self.json);
        let names: Vec<String> = cells.iter().map(|cell| cell.operation.to_string()).collect();
        // The first round warms up: sessions, copies, caches of all kinds.
        let measure = |turn: Turn| {
            let (cell, is_warm_up) = (&mut cells[turn.cell], turn.round == 0);
            let length = if is_warm_up { slice.min(Duration::from_millis(100)) } else { slice };
            let clients = rig.clients(&cell.way);
            let measured = cell.slice(clients, length.into(), is_warm_up)?;
            Ok::<_, ClientError>(measured.map_or(Slice::LeftOut, Slice::Measured))
        };
        let contest = Contest::new((1, names.len()), (1 + rounds, Order::Fixed), stop, (&bar, 0.0, 1.0));
        let mut measured = contest.run(&mut contest::by(|turn| names[turn.cell].clone(), measure))?;
        bar.finish_and_clear();
        let judge = |(number, cell): (usize, Cell)| {
            let slices = measured.take(number, 0).into_iter().map(|sample| sample.figures).collect();
            let way = cell.way.clone();
            cell.judge(slices, &mut rig.clients(&way)[0])
        };
        let rows = cells.into_iter().enumerate().map(judge).collect::<Result<_, _>>()?;
        let setup = format!(
            "{}: one box before one home; {rounds} rounds of {} ms, clients sleep while they wait",
            rig.place(),
            slice.as_millis()
        );
        let note = rig.without_xdp().map(|why| format!("no line for a box with XDP: {why}"));
        rig.stop()?;
        Ok(Outcome { setup, note, rows, environment: environment::facts() })
    }
}
