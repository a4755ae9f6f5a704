//! One run of the probe as its sections see it: how much time they may take, which cores they may use, and where they
//! put what they find.

use super::Section;
use base::Nanos;
use base::spread::Spread;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// 10⁹ bytes per second.
    #[serde(rename = "GB/s")]
    GigabytesPerSec,
    /// Thousands of operations per second.
    #[serde(rename = "kops/s")]
    KiloOpsPerSec,
    /// Events per second.
    #[serde(rename = "1/s")]
    PerSec,
    /// Parts of a hundred.
    #[serde(rename = "percent")]
    Percent,
    /// One quantity divided by another of its kind.
    #[serde(rename = "ratio")]
    Ratio,
    /// Things counted for each operation.
    #[serde(rename = "1/op")]
    PerOp,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Unit::Nanos => "ns",
            Unit::Micros => "µs",
            Unit::GigabytesPerSec => "GB/s",
            Unit::KiloOpsPerSec => "kops/s",
            Unit::PerSec => "/s",
            Unit::Percent => "%",
            Unit::Ratio => "×",
            Unit::PerOp => "/op",
        })
    }
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// The section that measured it.
    pub section: Section,
    /// Its name in the measurements file: small letters, digits and underscores.
    pub key: String,
    /// Its name for people.
    pub label: String,
    /// The figure.
    pub summary: Spread,
    /// Its unit.
    pub unit: Unit,
    /// How it was measured, in a few words.
    pub method: &'static str,
    /// What it means to someone who runs a service here.
    pub reading: String,
    /// Whether the table for people shows it.
    pub listed: bool,
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The section it belongs to.
    pub section: Section,
    /// What was left out.
    pub what: String,
    /// Why.
    pub why: String,
}

/// The state of one run.
pub struct Session {
    /// Whether the user asked for seconds instead of half a minute.
    pub quick: bool,
    /// The cores that measurements may use, best first: the allowed ones.
    pub cores: Vec<usize>,
    /// Figures so far.
    pub rows: Vec<Row>,
    /// What was left out so far.
    pub skips: Vec<Skip>,
    /// Tables that a section lays out itself.
    pub blocks: Vec<(Section, String)>,
    section: Section,
    bar: ProgressBar,
}

impl Session {
    /// A run over `steps` steps; the bar is drawn on standard error, and only where that is a terminal.
    pub fn new(quick: bool, cores: Vec<usize>, steps: u64, visible: bool) -> Session {
        assert!(!cores.is_empty(), "a process may run somewhere");
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {elapsed:>4}  {msg}");
        bar.set_style(style.expect("a constant template").progress_chars("━╸─"));
        Session {
            quick,
            cores,
            rows: Vec::new(),
            skips: Vec::new(),
            blocks: Vec::new(),
            section: Section::Clocks,
            bar,
        }
    }

    /// What follows belongs to `section`.
    pub fn enter(&mut self, section: Section) {
        self.section = section;
    }

    /// Says what is measured next.
    pub fn step(&self, what: impl Into<String>) {
        self.bar.set_message(format!("{}: {}", self.section, what.into()));
        self.bar.inc(1);
    }

    /// `full`, or a tenth of it in a quick run.
    pub fn span(&self, full: Nanos) -> Nanos {
        if self.quick { Nanos(full.0 / 10) } else { full }
    }

    /// `full`, or `quick` in a quick run.
    pub fn either<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Two cores for measurements between threads, or `None` where the process may use only one.
    pub fn two_cores(&self) -> Option<(usize, usize)> {
        Some((self.cores[0], *self.cores.get(1)?))
    }

    /// Notes a figure; with no sample at all it is a skip.
    pub fn record(
        &mut self,
        key: impl Into<String>,
        label: impl Into<String>,
        samples: &[f64],
        unit: Unit,
        method: &'static str,
        reading: impl Into<String>,
    ) {
        let (section, key, label, reading) = (self.section, key.into(), label.into(), reading.into());
        match Spread::of_all(samples) {
            Some(summary) => {
                self.rows.push(Row { section, key, label, summary, unit, method, reading, listed: true });
            }
            None => self.skip(label, "no sample came out whole"),
        }
    }

    /// Notes a figure for the file and JSON only; nothing where there is no sample.
    pub fn record_unlisted(&mut self, key: String, samples: &[f64], unit: Unit, method: &'static str) {
        if let Some(summary) = Spread::of_all(samples) {
            let (label, reading) = (String::new(), String::new());
            self.rows.push(Row {
                section: self.section,
                key,
                label,
                summary,
                unit,
                method,
                reading,
                listed: false,
            });
        }
    }

    /// Notes that `what` was left out.
    pub fn skip(&mut self, what: impl Into<String>, why: impl fmt::Display) {
        self.skips.push(Skip { section: self.section, what: what.into(), why: why.to_string() });
    }

    /// Adds a table that the section has laid out itself.
    pub fn block(&mut self, text: String) {
        self.blocks.push((self.section, text));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
