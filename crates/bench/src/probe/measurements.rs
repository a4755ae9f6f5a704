//! The measurements file: what the probe writes and the hardware model reads as platform `this-host`.
//!
//! Shape (TOML):
//! ```toml
//! schema = 1
//! platform = "this-host"
//! date = "2026-01-31T12:00:00Z"
//! command = "millrace probe --output"
//!
//! [machine]
//! cpu = "…"
//!
//! [measured.clocks.rdtsc]
//! value = 11.5
//! unit = "ns"
//! class = "measured"
//! method = "loop"
//! n = 5000
//! p10 = 11.4
//! p90 = 12.0
//! ```
//!
//! Invariants, checked on reading as on writing: every figure has a unit, a class, a method and its spread; its median
//! lies in that spread; its class is `measured`, since nothing else comes out of a probe; unknown fields are refused.

use super::Section;
use super::facts::Machine;
use super::session::{Row, Skip, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the file's shape.
pub const SCHEMA: u32 = 1;
/// The name under which a model finds the file's platform.
pub const PLATFORM: &str = "this-host";

/// Where a figure comes from. Platform files know more classes; a probe only measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// By this program, on this machine.
    Measured,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The median.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// Where it comes from.
    pub class: Class,
    /// How, in a few words.
    pub method: String,
    /// Samples.
    pub n: u64,
    /// A tenth of the samples are below.
    pub p10: f64,
    /// A tenth of the samples are above.
    pub p90: f64,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// [`SCHEMA`].
    pub schema: u32,
    /// [`PLATFORM`].
    pub platform: String,
    /// When, in UTC.
    pub date: String,
    /// By which command.
    pub command: String,
    /// On what.
    pub machine: Machine,
    /// What was left out, and why.
    #[serde(default)]
    pub skipped: Vec<Skip>,
    /// The figures by section and name.
    pub measured: BTreeMap<Section, BTreeMap<String, Figure>>,
}

/// Why a measurements file is refused.
#[derive(Debug)]
pub enum FileError {
    /// Not TOML, or a field is missing, unknown or of the wrong kind.
    Shape(Box<toml::de::Error>),
    /// Written by another version of this program.
    Schema(u32),
    /// Not the platform that a probe writes.
    Platform(String),
    /// The date or the command is empty.
    Unsigned,
    /// A figure contradicts itself.
    Figure {
        /// Section and name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Shape(e) => write!(f, "not a measurements file: {e}"),
            FileError::Schema(found) => {
                write!(
                    f,
                    "schema {found}, but this program reads {SCHEMA}: write it again with `millrace probe --output`"
                )
            }
            FileError::Platform(found) => write!(f, "platform {found:?}, but a probe writes {PLATFORM:?}"),
            FileError::Unsigned => f.write_str("no date or no command: nobody could repeat these figures"),
            FileError::Figure { name, why } => write!(f, "{name}: {why}"),
        }
    }
}

impl std::error::Error for FileError {}

impl Measurements {
    /// The file of a run's rows.
    pub fn new(
        date: String,
        command: String,
        machine: Machine,
        rows: &[Row],
        skipped: Vec<Skip>,
    ) -> Measurements {
        let mut measured: BTreeMap<Section, BTreeMap<String, Figure>> = BTreeMap::new();
        for row in rows {
            let figure = Figure {
                value: row.summary.median,
                unit: row.unit,
                class: Class::Measured,
                method: row.method.to_string(),
                n: row.summary.samples as u64,
                p10: row.summary.p10,
                p90: row.summary.p90,
            };
            let before = measured.entry(row.section).or_default().insert(row.key.clone(), figure);
            assert!(before.is_none(), "two figures are called {}.{}", row.section, row.key);
        }
        Measurements {
            schema: SCHEMA,
            platform: PLATFORM.to_string(),
            date,
            command,
            machine,
            skipped,
            measured,
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// See [`FileError`]; the message names the line or the figure.
    pub fn parse(text: &str) -> Result<Measurements, FileError> {
        let file: Measurements = toml::from_str(text).map_err(|e| FileError::Shape(Box::new(e)))?;
        file.check()?;
        Ok(file)
    }

    /// The invariants in the head of this file that types do not express.
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn check(&self) -> Result<(), FileError> {
        if self.schema != SCHEMA {
            return Err(FileError::Schema(self.schema));
        }
        if self.platform != PLATFORM {
            return Err(FileError::Platform(self.platform.clone()));
        }
        if self.date.trim().is_empty() || self.command.trim().is_empty() {
            return Err(FileError::Unsigned);
        }
        for (section, figures) in &self.measured {
            for (name, figure) in figures {
                if let Some(why) = figure.fault() {
                    return Err(FileError::Figure { name: format!("{section}.{name}"), why });
                }
            }
        }
        Ok(())
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        let head = "# Written by `millrace probe`. Every figure is the median of n samples with its 10th and 90th percentile.\n";
        let body = toml::to_string_pretty(self).expect("finite numbers, strings and tables are TOML");
        format!("{head}{body}")
    }

    /// One figure.
    pub fn figure(&self, section: Section, name: &str) -> Option<&Figure> {
        self.measured.get(&section)?.get(name)
    }
}

impl Figure {
    fn fault(&self) -> Option<&'static str> {
        let spread = [self.p10, self.value, self.p90];
        if spread.iter().any(|v| !v.is_finite()) {
            Some("not a finite number")
        } else if !spread.is_sorted() {
            Some("the median is outside its spread")
        } else if self.n == 0 {
            Some("no samples")
        } else if self.method.trim().is_empty() {
            Some("no method")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::spread::Spread;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static MACHINE: LazyLock<Machine> = LazyLock::new(Machine::read);

    fn file_of(summary: Spread) -> Measurements {
        let row = |section, key: &str| Row {
            section,
            key: key.to_string(),
            label: String::new(),
            summary,
            unit: Unit::Nanos,
            method: "loop",
            reading: String::new(),
            listed: true,
        };
        let rows = [
            row(Section::Clocks, "rdtsc"),
            row(Section::Clocks, "pause"),
            row(Section::Io, "tcp_1x1_epoll_cpu"),
        ];
        let skip = Skip { section: Section::Storage, what: "durable writes".into(), why: "read-only".into() };
        let date = "2026-01-31T12:00:00Z".to_string();
        Measurements::new(date, "millrace probe".into(), MACHINE.clone(), &rows, vec![skip])
    }

    fn good() -> Measurements {
        file_of(Spread { median: 11.5, p10: 11.0, p90: 12.0, min: 10.5, max: 13.0, samples: 9 })
    }

    #[test]
    fn what_does_not_carry_its_unit_method_or_spread_is_refused() {
        let text = good().to_toml();
        for (line, named) in [
            ("unit = \"ns\"\n", "unit"),
            ("class = \"measured\"\n", "class"),
            ("method = \"loop\"\n", "method"),
            ("n = 9\n", "`n`"),
            ("p10 = 11.0\n", "p10"),
            ("date = \"2026-01-31T12:00:00Z\"\n", "date"),
        ] {
            assert!(text.contains(line), "{line} in {text}");
            let error = Measurements::parse(&text.replacen(line, "", 1)).expect_err(line).to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let text = good().to_toml();
        for (from, to, named) in [
            ("unit = \"ns\"", "unit = \"furlongs\"", "furlongs"),
            ("class = \"measured\"", "class = \"assumed\"", "assumed"),
            ("p10 = 11.0", "p10 = 11.9", "outside its spread"),
            ("p90 = 12.0", "p90 = inf", "finite"),
            ("value = 11.5", "value = nan", "finite"),
            ("n = 9", "n = 0", "no samples"),
            ("method = \"loop\"", "method = \" \"", "no method"),
            ("schema = 1", "schema = 2", "schema 2"),
            ("\"this-host\"", "\"other\"", "other"),
            ("command = \"millrace probe\"", "command = \"\"", "command"),
            ("schema = 1", "schema = 1\nsurprise = 2", "surprise"),
            ("[measured.clocks", "[measured.sundials", "sundials"),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            let error = Measurements::parse(&text.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(named), "{to}: {error}");
        }
        assert!(Measurements::parse("").is_err() && Measurements::parse("\u{0}[[").is_err());
    }

    #[test]
    fn figures_are_found_by_name() {
        let file = good();
        assert_eq!(file.figure(Section::Clocks, "rdtsc").map(|f| f.value), Some(11.5));
        assert_eq!(file.figure(Section::Clocks, "sundial"), None);
    }

    proptest! {
        #[test]
        fn what_was_written_is_what_is_read(samples in prop::collection::vec(-1e12..1e12f64, 1..20)) {
            let file = file_of(Spread::of_all(&samples).expect("finite samples"));
            prop_assert_eq!(Measurements::parse(&file.to_toml()).expect("our own file"), file);
        }

        #[test]
        fn no_text_makes_the_loader_panic(cut in 0usize..2000, junk in "\\PC{0,20}") {
            let mut text = good().to_toml();
            let at = (0..=cut.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.insert_str(at, &junk);
            let _ = Measurements::parse(&text);
            let _ = Measurements::parse(&text[..at]);
        }
    }
}
