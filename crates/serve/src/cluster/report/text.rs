//! A report as people and programs read it.

use super::{Report, Row, State, Verdict};
use base::Nanos;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Seconds, minutes or hours, rounded.
pub fn span(span: Nanos) -> String {
    match span.0 / 1_000_000_000 {
        0 => format!("{} ms", span.0 / 1_000_000),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

impl Verdict {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Whole => "whole",
            Verdict::Degraded => "degraded",
            Verdict::Down => "down",
        }
    }

    /// The exit status.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl State {
    fn text(&self) -> String {
        match self {
            State::Alive => "alive".to_owned(),
            State::NotYet(_) => "not ready".to_owned(),
            State::Leaving(true) => "drained".to_owned(),
            State::Leaving(false) => "draining".to_owned(),
            State::Silent(_, None) => "silent".to_owned(),
            State::Silent(_, Some(silent)) => format!("silent {}", span(*silent)),
            State::Heard => "heard".to_owned(),
            State::Unknown => "not asked".to_owned(),
        }
    }
}

impl Row {
    fn cells(&self) -> [String; 7] {
        let epoch = self.epoch.map_or(String::new(), |epoch| epoch.to_string());
        let figures = self.figures.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
        let (who, role) = (self.who.to_string(), self.role.to_owned());
        [who, role, self.address.clone(), self.state.text(), epoch, self.lease.clone(), figures.join(", ")]
    }

    fn json(&self) -> Value {
        let figures: serde_json::Map<_, _> =
            self.figures.iter().map(|(name, value)| (name.replace(' ', "_"), (*value).into())).collect();
        let (why, silent) = match &self.state {
            State::Silent(why, silent) => (Some(why), silent.map(|silent| silent.0 as f64 / 1e9)),
            State::NotYet(why) => (Some(why), None),
            _ => (None, None),
        };
        let state = match self.state {
            State::Alive => "alive",
            State::NotYet(_) => "not_ready",
            State::Leaving(true) => "drained",
            State::Leaving(false) => "draining",
            State::Silent(..) => "silent",
            State::Heard => "heard",
            State::Unknown => "not_asked",
        };
        json!({
            "member": self.who.to_string(), "role": self.role, "address": self.address, "state": state, "why": why,
            "silent_seconds": silent, "epoch": self.epoch, "lease": self.lease, "figures": figures,
        })
    }
}

impl Report {
    /// A table, then the verdict, then what to do.
    pub fn text(&self) -> String {
        let head = ["member", "role", "address", "state", "epoch", "lease", "figures"].map(str::to_owned);
        let lines: Vec<[String; 7]> = std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
        let width = |at: usize| lines.iter().map(|cells| cells[at].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..7).map(width).collect();
        let mut out = String::new();
        for cells in &lines {
            let line = cells
                .iter()
                .zip(&widths)
                .fold(String::new(), |line, (cell, width)| format!("{line}{cell:<width$}  "));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let _ = writeln!(out, "{}", self.line());
        for problem in &self.problems {
            let _ = writeln!(out, "  {} {}\n    {}", problem.about, problem.what, problem.todo);
        }
        out
    }

    /// The verdict in a line.
    pub fn line(&self) -> String {
        let all = self.rows.len();
        let alive = self.rows.iter().filter(|row| matches!(row.state, State::Alive | State::Heard)).count();
        let unknown = self.rows.iter().filter(|row| row.state == State::Unknown).count();
        let mut line = match self.verdict() {
            Verdict::Whole => format!("whole: {alive} of {all} members do their part"),
            Verdict::Degraded => {
                format!("degraded: all is served, and {alive} of {all} members do their part")
            }
            Verdict::Down => format!("down: a part serves nothing; {alive} of {all} members do their part"),
        };
        if unknown > 0 {
            let _ = write!(line, "; {unknown} cannot be asked: give them admin = \"ADDR:PORT\" in the file");
        }
        line
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let problems = self.problems.iter().map(|problem| {
            json!({ "about": problem.about, "verdict": problem.verdict.name(), "what": problem.what, "todo": problem.todo })
        });
        json!({
            "verdict": self.verdict().name(), "code": self.verdict().code(), "problems": problems.collect::<Vec<_>>(),
            "members": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}
