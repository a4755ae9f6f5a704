//! `millrace check`: could any correct system have shown its clients what this history says?
//!
//! The file is that of `docs/history.md`, the judges are those of crate `sim`: which of them is called says what the file has, operations on keys,
//! transactions, or both.

use base::{Nanos, Picos};
use clap::Args;
use sim::check::Rules;
use sim::history::ReadError;
use sim::joint;
use sim::txn::{self, Verdict};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

/// Judge a history: what clients asked and were answered (docs/history.md).
///
/// Operations on keys: every key must be linearizable, expiry included. Transactions: in the order of LSNs that the system itself says every
/// answer must be right, and no transaction may come before one that was answered before it was called; then a search looks for any
/// order at all. Both on the same keys: every key must be linearizable with what transactions do to it, and where a transaction names two keys, all
/// that tells a version must have one place for both. The exit status is 0 if nothing is wrong, 1 if something is, 2 if it is not known.
#[derive(Args, Debug)]
pub struct Check {
    /// JSON Lines
    file: PathBuf,

    /// Items may vanish so many milliseconds before their deadline
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    early_ms: u64,

    /// Items may be seen so many milliseconds after their deadline
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    late_ms: u64,

    /// The system evicts: items may vanish at any time
    #[arg(long)]
    evicts: bool,

    /// Configurations that a search looks at, for each key or set of connected keys; one takes some hundred bytes
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    configurations: u64,

    /// Print a JSON object instead of lines: verdict (good, wrong, undecided) and what was found
    #[arg(long)]
    json: bool,
}

/// Why there is no verdict, or not a good one.
#[derive(Debug)]
pub enum CheckError {
    /// The file.
    Read(PathBuf, ReadError),
    /// Standard output.
    Write(io::Error),
    /// What was shown is wrong.
    Wrong,
    /// It is not known.
    Undecided,
}

impl CheckError {
    /// The status that the program ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            CheckError::Undecided => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Read(path, error) => write!(f, "{}: {error}", path.display()),
            CheckError::Write(error) => write!(f, "standard output: {error}"),
            CheckError::Wrong => f.write_str("no correct system shows this"),
            CheckError::Undecided => {
                f.write_str("it is not known whether this is right; try more --configurations")
            }
        }
    }
}

impl std::error::Error for CheckError {}

/// What was found, in lines, and what it comes to.
type Judged = (Vec<String>, Result<(), CheckError>);

impl Check {
    /// Judges the file.
    ///
    /// # Errors
    /// [`CheckError`].
    pub fn run(&self) -> Result<(), CheckError> {
        let judged = self.judge(&self.file).map_err(|error| CheckError::Read(self.file.clone(), error))?;
        let mut out = io::stdout().lock();
        let written = match self.json {
            false => judged.0.iter().try_for_each(|line| writeln!(out, "{line}")),
            true => {
                let verdict = match &judged.1 {
                    Ok(()) => "good",
                    Err(CheckError::Undecided) => "undecided",
                    Err(_) => "wrong",
                };
                let said = serde_json::json!({ "file": self.file, "verdict": verdict, "found": judged.0 });
                writeln!(out, "{said}")
            }
        };
        written.map_err(CheckError::Write)?;
        judged.1
    }

    fn judge(&self, path: &Path) -> Result<Judged, ReadError> {
        Ok(self.judge_history(&joint::History::read(&mut BufReader::new(File::open(path)?))?))
    }

    fn judge_history(&self, history: &joint::History) -> Judged {
        match joint::kinds(history) {
            (false, true) => self.judge_transactions(&joint::of_transactions(history)),
            _ => self.judge_keys(history),
        }
    }

    /// Operations on keys, and transactions beside them.
    fn judge_keys(&self, history: &joint::History) -> Judged {
        let rules = Rules {
            early: Picos::from(Nanos::from_millis(self.early_ms)),
            late: Picos::from(Nanos::from_millis(self.late_ms)),
            may_evict: self.evicts,
            most_configurations: self.configurations as usize,
        };
        let report = joint::check(history, &rules);
        let mut lines: Vec<String> =
            report.violations.iter().chain(&report.gave_up).map(ToString::to_string).collect();
        let (violations, unknown) = (report.violations.len(), report.gave_up.len());
        let operations = history.operations().count();
        lines.push(format!(
            "{operations} operations, {} keys good, {violations} wrong, {unknown} not decided",
            report.good
        ));
        let result = match (violations, unknown) {
            (0, 0) => Ok(()),
            (0, _) => Err(CheckError::Undecided),
            _ => Err(CheckError::Wrong),
        };
        (lines, result)
    }

    fn judge_transactions(&self, history: &txn::History) -> Judged {
        let order = txn::order::check(history, &txn::order::Settled::new());
        let search = txn::serial::check(history, self.configurations as usize);
        let mut lines = vec![
            format!("{} transactions", history.operations().count()),
            line("in the order of LSNs", &order),
            line("in any order", &search),
        ];
        let result = match (&order, &search) {
            (Verdict::Violation(_), _) | (_, Verdict::Violation(_)) => Err(CheckError::Wrong),
            // Replay is exact; the search is only asked whether it agrees.
            (Verdict::Good, _) => Ok(()),
            (Verdict::Undecided(_), Verdict::Good) => {
                lines.push("some order explains all; whether that of the LSNs does is not known".to_string());
                Err(CheckError::Undecided)
            }
            (Verdict::Undecided(_), Verdict::Undecided(_)) => Err(CheckError::Undecided),
        };
        (lines, result)
    }
}

fn line(how: &str, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Good => format!("{how}: strictly serializable"),
        Verdict::Violation(text) => format!("{how}: wrong: {text}"),
        Verdict::Undecided(text) => format!("{how}: not decided: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> (String, Option<u8>) {
        let check = Check {
            file: PathBuf::new(),
            early_ms: 0,
            late_ms: 0,
            evicts: false,
            configurations: 1 << 16,
            json: false,
        };
        let history = joint::History::read(&mut text.as_bytes()).expect("good lines");
        let (lines, result) = check.judge_history(&history);
        (lines.join("\n"), result.err().map(|error| error.exit_code()))
    }

    #[test]
    fn all_kinds_of_files_are_judged() {
        let keys = |value: &str| {
            format!(
                "\n{}\n{}\n{}\n{}\n",
                r#"{"t":1,"e":"call","c":1,"id":1,"op":"set","k":"a","a":{"v":"x"}}"#,
                r#"{"t":2,"e":"return","c":1,"id":1,"op":"set","k":"a","r":{"s":"ok"}}"#,
                r#"{"t":3,"e":"call","c":1,"id":2,"op":"get","k":"a","a":{}}"#,
                r#"{"t":4,"e":"return","c":1,"id":2,"op":"get","k":"a","r":{"s":"ok","v":"VALUE"}}"#
                    .replace("VALUE", value),
            )
        };
        assert_eq!(
            judged(&keys("x")),
            ("2 operations, 1 keys good, 0 wrong, 0 not decided".to_string(), None)
        );
        assert_eq!(judged(&keys("y")).1, Some(1));
        let transactions = |sum: i64| {
            format!(
                "{}\n{}\n",
                r#"{"t":1,"e":"call","c":1,"id":1,"op":"txn","k":"","a":{"ops":[{"op":"add","k":"n","by":-2}]}}"#,
                r#"{"t":2,"e":"return","c":1,"id":1,"op":"txn","k":"","r":{"s":"ok","lsn":3,"sums":[SUM]}}"#
                    .replace("SUM", &sum.to_string()),
            )
        };
        let (text, code) = judged(&transactions(-2));
        assert!(code.is_none() && text.contains("in any order: strictly serializable"), "{text}");
        let (text, code) = judged(&transactions(2));
        assert!(code == Some(1) && text.contains("sums [-2]"), "{text}");
        let mixed = |seen: &str| {
            let read = r#"{"t":3,"e":"call","c":1,"id":2,"op":"get","k":"n","a":{}}"#;
            let answer =
                r#"{"t":4,"e":"return","c":1,"id":2,"op":"get","k":"n","r":{"s":"ok","v":"SEEN","ver":3}}"#;
            format!("{}{read}\n{}\n", transactions(-2), answer.replace("SEEN", seen))
        };
        assert_eq!(
            judged(&mixed("-2")),
            ("2 operations, 1 keys good, 0 wrong, 0 not decided".to_string(), None)
        );
        assert_eq!(judged(&mixed("-3")).1, Some(1));
        assert_eq!(judged("").1, None);
    }
}
