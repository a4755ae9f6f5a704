//! `millrace model check-host`: probes, predicts, measures the real thing, probes again; in one command.
//!
//! ```text
//!   round:  probe ─▶ predict ─▶ measure ─▶ probe ─▶ predict        kept where both predictions agree
//! ```
//! Why so: a virtual machine's cores move between the host's every tenth of a second and its memory is shared with strangers, so a figure of a minute
//! ago predicts nothing. Each row probes what it rests on right before and right after; where the two predictions differ by more than [`AGREE`],
//! the machine changed meanwhile and the sample says nothing about the model. It is dropped and counted.
//!
//! The error of a round is that of the mean of its two predictions; shown is the median over rounds, with the tenth and ninetieth percentile.

mod datagrams;
mod node;
mod rings;
pub(super) mod store;

pub(crate) use node::{Ask, arithmetic};

use super::code;
use super::figures::Figures;
use super::this_host;
use base::spread::Spread;
use base::{Bytes, Nanos};
use bench::probe::facts::Machine;
use bench::report::Table;
use model::system::host::Host;
use serde::Serialize;
use serve::process::progress;
use std::error::Error;

/// Two predictions within this share of each other are of the same machine.
const AGREE: f64 = 0.25;
/// The model's goal.
const GOAL: f64 = 0.25;
/// Which of two is better is not asked where they are within this share of each other.
const ALIKE: f64 = 0.1;

/// Hold the model's predictions for this machine against rings, store and UDP server
///
/// Needs two cores and about a minute (`--quick`: some 15 seconds). Rows beyond 25 % are marked; on a busy or virtual machine look at the spread.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckHost {
    /// Fewer rounds and smaller working sets
    #[arg(long)]
    quick: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Only these
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,

    /// Largest working set of the probe
    #[arg(long, value_name = "SIZE", default_value = "1g")]
    largest: Bytes,
}

/// What is held against the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Rings between two cores
    Rings,
    /// GETs of the store
    Store,
    /// The server over UDP
    Udp,
    /// Services of a node at every place, over shared memory and TCP
    Node,
}

/// How a row's figures are shown: a unit and what one of it is in the figures' own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A rate is shown.
    Rate(&'static str, f64),
    /// A span is shown.
    Span(&'static str, f64),
}

/// A row under way: pairs of predictions and what was measured between them, in base units.
struct Row {
    what: String,
    /// Rows of the same are one question: which of them is best?
    choice: Option<String>,
    kind: Kind,
    samples: Vec<Sample>,
    dropped: u64,
}

#[derive(Clone, Copy)]
struct Sample {
    predicted: f64,
    measured: f64,
}

/// A row as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    what: String,
    #[serde(skip)]
    choice: Option<String>,
    unit: &'static str,
    predicted: f64,
    measured: f64,
    error: f64,
    error_p10: f64,
    error_p90: f64,
    kept: usize,
    dropped: u64,
    within_goal: bool,
}

impl Row {
    fn new(what: impl Into<String>, kind: Kind) -> Row {
        Row { what: what.into(), choice: None, kind, samples: Vec::new(), dropped: 0 }
    }

    /// One of those among which `choice` is to be made: the greater the better.
    fn among(self, choice: String) -> Row {
        Row { choice: Some(choice), ..self }
    }

    /// A round of this row; without a figure that is a dropped one.
    fn note(&mut self, before: f64, measured: Option<f64>, after: f64) {
        let agree = (before / after).max(after / before) <= 1.0 + AGREE;
        match measured.filter(|measured| agree && *measured > 0.0) {
            Some(measured) => self.samples.push(Sample { predicted: (before + after) / 2.0, measured }),
            None => self.dropped += 1,
        }
    }

    fn shown(&self) -> Option<Shown> {
        let of =
            |figure: fn(&Sample) -> f64| Spread::of_all(&self.samples.iter().map(figure).collect::<Vec<_>>());
        let error = of(|s| s.predicted / s.measured - 1.0)?;
        let (Kind::Rate(unit, scale) | Kind::Span(unit, scale)) = self.kind;
        Some(Shown {
            what: self.what.clone(),
            choice: self.choice.clone(),
            unit,
            predicted: of(|s| s.predicted)?.median / scale,
            measured: of(|s| s.measured)?.median / scale,
            error: error.median,
            error_p10: error.p10,
            error_p90: error.p90,
            kept: self.samples.len(),
            dropped: self.dropped,
            within_goal: error.median.abs() <= GOAL,
        })
    }
}

/// What every group of rows works with.
struct Bench<'a> {
    machine: &'a Machine,
    /// Those of the first probe, parts of which each round replaces.
    figures: &'a mut Figures,
    cores: (usize, usize),
    quick: bool,
}

impl Bench<'_> {
    /// The model of what the figures say now.
    fn host(&self) -> Result<Host, Box<dyn Error>> {
        Ok(Host::of(&self.figures.platform(self.machine)?)?)
    }

    /// `full`, or a quarter of it in a quick run.
    fn span(&self, full: Nanos) -> Nanos {
        if self.quick { Nanos(full.0 / 4) } else { full }
    }

    fn rounds(&self) -> u32 {
        if self.quick { 5 } else { 15 }
    }
}

impl CheckHost {
    /// Does it.
    ///
    /// # Errors
    /// Something cannot be measured here: which, and why. Predictions that miss are shown and no error.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let machine = Machine::read();
        let [first, second, ..] = machine.cores_allowed[..] else {
            return Err("this machine lends the program one core; rings and servers need two".into());
        };
        let largest = if self.quick { self.largest.min(Bytes::from_mib(256)) } else { self.largest };
        let mut figures = this_host::measure(&machine, true, largest)?;
        let mut bench =
            Bench { machine: &machine, figures: &mut figures, cores: (first, second), quick: self.quick };
        let bar = progress::bar(self.json);
        let mut rows = Vec::new();
        let wanted = |part: &Part| self.only.is_empty() || self.only.contains(part);
        let groups: Vec<_> = GROUPS.iter().filter(|(part, ..)| wanted(part)).collect();
        for (at, (_, name, group)) in groups.iter().enumerate() {
            progress::show(&bar, at as f64 / groups.len() as f64, name);
            rows.extend(group(&mut bench)?);
        }
        bar.finish_and_clear();
        let after = Machine::read();
        let shown: Vec<_> = rows.iter().filter_map(Row::shown).collect();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&shown)?);
            return Ok(());
        }
        for (name, value) in machine.lines() {
            println!("{name:>16}  {value}");
        }
        println!("\n{}", table(&shown));
        for row in rows.iter().filter(|row| row.samples.is_empty()) {
            println!(
                "  no round of \"{}\" was kept: the machine changed in each ({})",
                row.what, row.dropped
            );
        }
        println!("{}", verdict(&shown, [&machine, &after].map(|machine| machine.busy_before_percent)));
        if let Some(order) = order(&shown) {
            println!("{order}");
        }
        Ok(())
    }
}

type Group = fn(&mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>>;

const GROUPS: [(Part, &str, Group); 4] = [
    (Part::Rings, "rings", rings::check),
    (Part::Store, "store", store::check),
    (Part::Udp, "UDP server", datagrams::check),
    (Part::Node, "services by placement", node::check),
];

fn table(shown: &[Shown]) -> Table {
    let mut table = Table::new(["what", "predicted", "measured", "unit", "error", "spread", "rounds"]);
    for row in shown {
        let error = format!("{:+.0} %{}", row.error * 100.0, if row.within_goal { "" } else { " !" });
        let spread = format!("{:+.0} … {:+.0} %", row.error_p10 * 100.0, row.error_p90 * 100.0);
        let rounds = format!("{} of {}", row.kept, row.kept as u64 + row.dropped);
        let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") };
        let (predicted, measured) = (number(row.predicted), number(row.measured));
        table.row([&*row.what, &predicted, &measured, row.unit, &error, &spread, &rounds]);
    }
    table
}

/// Whether of two places for the same requests the model prefers that which is better.
fn order(shown: &[Shown]) -> Option<String> {
    let (mut all, mut apart) = ([0, 0], [0, 0]);
    for (at, one) in shown.iter().enumerate().filter(|(_, row)| row.choice.is_some()) {
        for other in shown[at + 1..].iter().filter(|other| other.choice == one.choice) {
            let right = (one.predicted > other.predicted) == (one.measured > other.measured);
            let ratio = (one.measured / other.measured).max(other.measured / one.measured);
            let counts = if ratio > 1.0 + ALIKE { vec![&mut all, &mut apart] } else { vec![&mut all] };
            for [count, of] in counts {
                (*count, *of) = (*count + usize::from(right), *of + 1);
            }
        }
    }
    let [[right, of], [right_apart, of_apart]] = [all, apart];
    (of > 0).then(|| {
        format!(
            "order of places: {right} of {of} pairs right; of those more than {:.0} % apart {right_apart} of {of_apart}",
            ALIKE * 100.0
        )
    })
}

fn verdict(shown: &[Shown], busy: [u64; 2]) -> String {
    let within = shown.iter().filter(|row| row.within_goal).count();
    let mut errors: Vec<f64> = shown.iter().map(|row| row.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
    format!(
        "{within} of {} rows within {:.0} %, median |error| {:.0} %; others had {} % of the cores before and {} % after",
        shown.len(),
        GOAL * 100.0,
        median * 100.0,
        busy[0],
        busy[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_counts_only_while_the_machine_stays_the_same() {
        let mut row = Row::new("r", Kind::Rate("Mops", 1e6));
        row.note(10e6, Some(8e6), 10e6);
        row.note(10e6, Some(8e6), 20e6);
        row.note(10e6, None, 10e6);
        let shown = row.shown().expect("a round was kept");
        assert_eq!((shown.kept, shown.dropped, shown.within_goal), (1, 2, true));
        assert!((shown.error - 0.25).abs() < 1e-9 && shown.measured == 8.0);
        let of = |what: &str, predicted: f64, measured: f64| {
            let mut row = Row::new(what, Kind::Rate("Mops", 1e6)).among("c".into());
            row.note(predicted, Some(measured), predicted);
            row.shown().expect("a round was kept")
        };
        let rows = [of("a", 1e6, 2e6), of("b", 2e6, 1.95e6), of("c", 3e6, 4e6), shown];
        let said = order(&rows).expect("there are pairs");
        assert!(
            said.starts_with("order of places: 2 of 3 pairs right") && said.ends_with("2 of 2"),
            "{said}"
        );
        assert!(Row::new("none", Kind::Span("us", 1e-6)).shown().is_none());
    }
}
