//! Rows of a run as `millrace repro … --json` wrote them: a JSON object on each line.
//!
//! What is outside of this program is not trusted: a line that is no row, two models in one file, or no row at all is said with its line.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Rows of a file at most: some twenty times what all experiments have.
const ROWS_MAX: usize = 1 << 20;

/// Where a row is: experiment, variant, point, metric.
pub type At = [String; 4];

/// A line.
#[derive(Deserialize)]
struct Line {
    experiment: String,
    variant: String,
    point: String,
    metric: String,
    unit: String,
    /// JSON has no word for what is no number: `null`.
    value: Option<f64>,
    #[serde(default)]
    model: String,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    platforms: Vec<String>,
}

/// What a row says.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Its unit.
    pub unit: String,
    /// Not a number where the model has none.
    pub value: f64,
    /// In which line, from 0: the order in which rows are told.
    pub line: usize,
}

/// What a run was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The model's version; empty in files of programs that did not say it.
    pub model: String,
    /// The seed.
    pub seed: Option<u64>,
    /// Platforms in place of shipped ones, each with a digest of its file.
    pub platforms: Vec<String>,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// With what.
    pub made: Made,
    /// By place; of two at one place the first, as in everything that looks for a row.
    pub rows: BTreeMap<At, Said>,
}

impl Saved {
    /// Of a file's text; `file` is for errors.
    ///
    /// # Errors
    /// A sentence with file and line that says how such a file is made.
    pub fn parse(text: &str, file: &str) -> Result<Saved, String> {
        const HOW: &str = "`millrace repro all --json > FILE` writes such files";
        let mut saved = Saved::default();
        let mut first: Option<Made> = None;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (line, text) in lines {
            let wrong = |why: String| format!("{file}:{}: {why}", line + 1);
            let one: Line = serde_json::from_str(text)
                .map_err(|error| wrong(format!("no row of a run ({error}); {HOW}")))?;
            let made = Made { model: one.model, seed: one.seed, platforms: one.platforms };
            if first.get_or_insert_with(|| made.clone()) != &made {
                return Err(wrong(
                    "another model, seed or platform than in the lines before: a file is of one run".into(),
                ));
            }
            if saved.rows.len() == ROWS_MAX {
                return Err(wrong(format!("more than {ROWS_MAX} rows")));
            }
            let said = Said { unit: one.unit, value: one.value.unwrap_or(f64::NAN), line };
            saved.rows.entry([one.experiment, one.variant, one.point, one.metric]).or_insert(said);
        }
        saved.made = first.ok_or_else(|| format!("{file} has no rows; {HOW}"))?;
        Ok(saved)
    }
}
