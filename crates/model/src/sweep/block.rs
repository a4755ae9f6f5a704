//! A run's rows as text: lines of CSV, each with its run and key, so that a file of them can be checked line by line.
//!
//! ```text
//!   run,row,rows,key,seed,<axis>,…,experiment,variant,point,metric,unit,value,ci95
//!   17,0,24,9f86d081884c7d65,1,20,F3,RNIC ①,READ in 1536 B,throughput,Mops,150.2,0
//!   └──── of the run ────┘ └──── what it says: the payload, which digests are of ───┘
//! ```
//!
//! A run is there when all its `rows` lines are; a file that was cut anywhere is whole again without its last, unfinished run.

use super::Sweep;
use crate::VERSION;
use crate::experiment::{Experiment, Row};
use crate::platform::Platforms;
use sim::Fingerprint;
use std::fmt::Write;

/// The lines of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub run: u64,
    /// Its key.
    pub key: u64,
    /// How many lines.
    pub rows: u64,
    /// Of their payloads.
    pub digest: u64,
    /// The lines.
    pub text: String,
}

impl Sweep {
    /// The first line of a file of rows.
    pub fn header(&self) -> String {
        let mut text = String::from("run,row,rows,key,seed");
        for axis in &self.axes {
            write!(text, ",{}", field(&axis.to_string())).expect("a string takes any text");
        }
        text + ",experiment,variant,point,metric,unit,value,ci95\n"
    }

    /// What a run's rows depend on: this model, the experiment, the point, the seed, and which rows are kept.
    pub fn key(&self, run: u64) -> u64 {
        let (point, seed) = self.run(run);
        let mut print = Fingerprint::new();
        print.bytes(VERSION.as_bytes());
        print.bytes(self.experiment.as_bytes());
        if let Some(own) = &self.own {
            print.bytes(format!("{own:?}").as_bytes());
        }
        print.number(seed);
        for (axis, value) in self.axes.iter().zip(point) {
            print.bytes(axis.to_string().as_bytes());
            print.number(value.to_bits());
        }
        for pattern in &self.keep {
            print.bytes(format!("{pattern:?}").as_bytes());
        }
        print.value()
    }

    /// Runs it.
    ///
    /// # Errors
    /// A sentence: the experiment's, or that it does not read a number that the sweep moves.
    pub fn perform(&self, run: u64, experiment: &Experiment) -> Result<Block, String> {
        let (point, seed) = self.run(run);
        let platforms = Platforms::shipped().with_values(self.axes.iter().zip(point.iter().copied()));
        let platforms = platforms.map_err(|error| error.to_string())?;
        let rows = (experiment.run)(&platforms, seed).map_err(|error| error.to_string())?;
        if let Some(idle) = self.axes.iter().find(|axis| !platforms.was_read(axis)) {
            return Err(format!("{} does not read {idle}: moving it moves nothing", experiment.id));
        }
        let takes = |row: &&Row| self.keep.is_empty() || self.keep.iter().any(|pattern| pattern.takes(row));
        let kept: Vec<_> = rows.iter().filter(takes).collect();
        if kept.is_empty() {
            return Err(format!("{}: `keep` takes none of its {} rows", experiment.id, rows.iter().count()));
        }
        Ok(self.block(run, (&point, seed), &kept))
    }

    fn block(&self, run: u64, (point, seed): (&[f64], u64), rows: &[&Row]) -> Block {
        let (key, mut digest, mut text) = (self.key(run), Fingerprint::new(), String::new());
        let place = point.iter().fold(seed.to_string(), |place, value| format!("{place},{value}"));
        for (number, row) in rows.iter().enumerate() {
            let words = [row.experiment, &row.variant, &row.point, row.metric, row.unit].map(field).join(",");
            let payload = format!("{place},{words},{},{}", row.value, row.ci95);
            digest.bytes(payload.as_bytes());
            writeln!(text, "{run},{number},{},{key:016x},{payload}", rows.len())
                .expect("a string takes any text");
        }
        Block { run, key, rows: rows.len() as u64, digest: digest.value(), text }
    }
}

/// As RFC 4180 wants a text that has its marks in it; line ends become spaces, so that a row is a line.
fn field(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// What a line says of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Which run.
    pub run: u64,
    /// Which of its rows.
    pub row: u64,
    /// How many it has.
    pub rows: u64,
    /// The run's key.
    pub key: u64,
    /// All that follows.
    pub payload: &'a str,
}

impl<'a> Line<'a> {
    /// Of a line without its end; none if it is no row.
    pub fn parse(text: &'a str) -> Option<Line<'a>> {
        let mut parts = text.splitn(5, ',');
        let mut next = || parts.next();
        let number = |text: Option<&str>| text?.parse::<u64>().ok();
        let (run, row, rows) = (number(next())?, number(next())?, number(next())?);
        let key = u64::from_str_radix(next().filter(|key| key.len() == 16)?, 16).ok()?;
        (row < rows).then_some(Line { run, row, rows, key, payload: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::toy;

    /// A sweep of the toy on its own: the platform is not shipped, so rows are made by hand.
    fn sweep() -> Sweep {
        let text = "title = \"t\"\nexperiment = \"X1\"\nkeep = [\"NIC | * | latency\", \"* | * | throughput\"]\n\
                    [[axis]]\nnumber = \"toy | nic.latency\"\nvalues = [50, 62.5]\n";
        Sweep::parse(text, "a.toml", &Platforms::shipped().with(toy::platform())).expect("it is right")
    }

    #[test]
    fn lines_say_their_run_and_keys_what_they_depend_on() {
        let sweep = sweep();
        let rows = (toy::EXPERIMENT.run)(&Platforms::shipped().with(toy::platform()), 1).expect("it runs");
        let rows: Vec<_> = rows.iter().collect();
        let block = sweep.block(1, (&[62.5], 1), &rows);
        let lines: Vec<_> = block.text.lines().map(|line| Line::parse(line).expect("it is a row")).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().enumerate().all(|(at, line)| {
            (line.run, line.row, line.rows, line.key) == (1, at as u64, 3, sweep.key(1))
        }));
        assert_eq!(lines[0].payload, "1,62.5,X1,NIC,64 B,latency,us,0.19999999999999998,0");
        assert_eq!(sweep.header().split(',').count(), 4 + 1 + 1 + 7);
        assert_ne!(sweep.key(0), sweep.key(1));
        assert_eq!(sweep.keep.iter().filter(|pattern| pattern.takes(rows[0])).count(), 1);
        assert!(Line::parse("1,3,3,0000000000000000,x").is_none() && Line::parse("1,2,3,00,x").is_none());
    }

    #[test]
    fn a_text_with_marks_is_quoted() {
        assert_eq!(field("a, \"b\"\nc"), "\"a, \"\"b\"\" c\"");
        assert_eq!(field("① + ②"), "① + ②");
    }
}
