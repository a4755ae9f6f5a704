//! Experiments that are files: a workload on platforms, by the ways that the planner's compositions know, over requests under way, rates and numbers of the
//! workload.
//!
//! ```toml
//! id = "KV-SIZES"                        # of its rows; no shipped experiment's
//! title = "a store in the servers' memory by the size of values"
//! platforms = ["bluefield2-ib"]          # by name; `millrace repro run --platform FILE` brings others
//! workload = "disaggregated-kv"          # a shipped one, or a table as in a workload's file
//! alternatives = ["A1", "A4"]            # as `millrace plan` names them; all, if not said
//! mixtures = [{ A4 = 0.78, A5 = 0.22 }]  # shares of requests, which add up to 1
//! windows = [1, 64, 1056]                # requests under way, all clients together
//! rates = ["1M", "20M"]                  # or so many per second, at random
//! warm_up = "20us"                       # not accounted for; 20us if not said
//! span = "100us"                         # accounted for; 100us if not said
//! published = "kv-sizes.results.toml"    # beside this file: what `repro` compares with
//!
//! [[vary]]                               # each with each; the workload as it is, if not said
//! number = "GET.reply"                   # as `millrace plan --set workload.GET.reply=1KiB`
//! values = ["64 B", "1 KiB"]
//! ```
//!
//! Rows: variant, the alternative or mixture (behind its platform, where there are several); point, the varied numbers and the load, `GET.reply 64 B, 8 under
//! way`. `unloaded latency` is arithmetic over the ways' programs; `throughput`, `latency`, `p99`, `host cores` are simulated, and of rates `turned away`.
//!
//! It is an [`Experiment`] as those in code are: sweeps, audits and comparisons do not know the difference. What a file cannot say is a machine
//! whose ways no composition knows, or a measurement of something else than requests: that is code.

use super::{Experiment, Rows};
use crate::alternative::{Alternative, Offered, Ran, Setting};
use crate::plan;
use crate::platform::unit::{Dimension, Unit, quantity};
use crate::platform::{LoadError, Platforms};
use crate::workload::edit::{self, Fault, edited};
use crate::workload::{Workload, shipped};
use base::Picos;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Runs of a file at most.
const RUNS_MAX: usize = 10_000;
/// Requests under way at most.
const WINDOW_MAX: u64 = 1 << 16;
/// Requests per second: below, a span has none; beyond, they are nearer than a machine could tell apart.
const RATES: std::ops::RangeInclusive<f64> = 1.0..=1e9;
/// Of warm-up and span, each: beyond, a run takes minutes.
const SPAN_MAX: Picos = Picos(100_000_000_000);

/// A checked file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileExperiment {
    /// The id of its rows.
    pub id: String,
    /// In a line.
    pub title: String,
    /// Machines, by name.
    pub platforms: Vec<String>,
    workload: Asked,
    #[serde(default)]
    alternatives: Vec<String>,
    #[serde(default)]
    mixtures: Vec<BTreeMap<String, f64>>,
    #[serde(default)]
    windows: Vec<u64>,
    #[serde(default)]
    rates: Vec<Rate>,
    #[serde(default = "warm_up")]
    warm_up: Span,
    #[serde(default = "span")]
    span: Span,
    /// The file of published results, as the file names it.
    pub published: Option<String>,
    #[serde(default)]
    vary: Vec<Vary>,
}

/// A workload that is shipped, or its table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
struct Asked(Workload);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Rate {
    text: String,
    per_second: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Span(Picos);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vary {
    number: String,
    values: Vec<String>,
}

fn warm_up() -> Span {
    Span(Picos::from_micros(20))
}

fn span() -> Span {
    Span(Picos::from_micros(100))
}

impl TryFrom<toml::Value> for Asked {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Asked, String> {
        let name = match value {
            toml::Value::String(name) => name,
            table => {
                let workload: Workload = table
                    .try_into()
                    .map_err(|error: toml::de::Error| format!("workload: {}", error.message()))?;
                return workload.check().map(|()| Asked(workload));
            }
        };
        let known = || shipped::SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = shipped::shipped(&name).ok_or_else(|| {
            format!("there is no workload {name}; there are {}, or a [workload] table", known())
        })?;
        found.map(Asked).map_err(|error| error.to_string())
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Rate, String> {
        let per_second = edit::rate(&text)?;
        if !RATES.contains(&per_second) {
            return Err(format!("{text:?} is no rate that can be run: from 1 to 1G per second"));
        }
        Ok(Rate { text, per_second })
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Span, String> {
        let unit = |name: &str| Unit::named(name).filter(|unit| unit.dimension == Dimension::Time);
        let found = quantity(&text).and_then(|(number, name)| Some(number * unit(name)?.scale));
        let wrong = || format!("{text:?} is no time up to 100ms: try \"100us\"");
        let span = found.filter(|seconds| *seconds > 0.0 && *seconds <= 0.1).ok_or_else(wrong)?;
        Ok(Span(crate::platform::picos(span).min(SPAN_MAX)))
    }
}

impl FileExperiment {
    /// Of a file's text; `file` is for errors.
    ///
    /// # Errors
    /// A sentence with file and line.
    pub fn parse(text: &str, file: &str) -> Result<FileExperiment, String> {
        let experiment: FileExperiment = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            format!("{file}:{}: {}", 1 + text[..at].matches('\n').count(), error.message().trim())
        })?;
        experiment.check().map(|()| experiment).map_err(|why| format!("{file}: {why}"))
    }

    /// Of a table that stands in another file.
    ///
    /// # Errors
    /// A sentence.
    pub fn of(value: toml::Value) -> Result<FileExperiment, String> {
        let experiment: FileExperiment =
            value.try_into().map_err(|error: toml::de::Error| error.message().trim().to_owned())?;
        experiment.check().map(|()| experiment)
    }

    fn check(&self) -> Result<(), String> {
        let word = |text: &str| !text.is_empty() && !text.contains(['|', '\n', ',', '"']);
        if !word(&self.id) {
            return Err(format!("id {:?} must be a word or several, without | , \" or line ends", self.id));
        }
        if self.platforms.is_empty() {
            return Err("platforms must name at least one".into());
        }
        if self.windows.is_empty() && self.rates.is_empty() {
            return Err("it needs windows, rates, or both: how requests come".into());
        }
        if let Some(window) = self.windows.iter().find(|window| !(1..=WINDOW_MAX).contains(*window)) {
            return Err(format!("windows are from 1 to {WINDOW_MAX} requests, not {window}"));
        }
        for mixture in &self.mixtures {
            let sum: f64 = mixture.values().sum();
            if mixture.values().any(|share| !(0.0..=1.0).contains(share)) || (sum - 1.0).abs() > 1e-6 {
                return Err(format!("a mixture's shares are from 0 to 1 and add up to 1, not {sum}"));
            }
        }
        // A number that is not there, or a value that is none, is said before anything runs.
        self.points().map(|_| ())
    }

    /// The workload with each combination of what varies, with its words.
    fn points(&self) -> Result<Vec<(String, Workload)>, String> {
        let mut points = vec![(String::new(), self.workload.0.clone())];
        for Vary { number, values } in &self.vary {
            let count = points.len().saturating_mul(values.len());
            let loads = (self.windows.len() + self.rates.len()) * self.platforms.len();
            if values.is_empty() || count.saturating_mul(loads) > RUNS_MAX {
                return Err(format!("{number}: from one value to {RUNS_MAX} runs of all together"));
            }
            let with = |(words, workload): &(String, Workload), value: &String| {
                let (changed, _) = edited(workload, number, value).map_err(|fault| match fault {
                    Fault::Unknown(known) => format!("there is no {number}; there are {}", known.join(", ")),
                    Fault::Wrong(why) => why,
                })?;
                changed.check().map_err(|why| format!("{number} = {value}: {why}"))?;
                Ok::<_, String>((format!("{words}{number} {value}, "), changed))
            };
            points = points
                .iter()
                .flat_map(|point| values.iter().map(move |value| with(point, value)))
                .collect::<Result<_, _>>()?;
        }
        Ok(points)
    }

    /// The experiment that it is. What it says is kept for as long as the process lives: a command has a few of them.
    pub fn experiment(self) -> Experiment {
        let leaked: &'static FileExperiment = Box::leak(Box::new(self));
        let run = |platforms: &Platforms, seed: u64| leaked.run(platforms, seed);
        Experiment { id: &leaked.id, title: &leaked.title, run: Box::leak(Box::new(run)) }
    }

    fn run(&'static self, platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
        let mut rows = Rows::default();
        for name in &self.platforms {
            let platform = platforms.named(name)?;
            let prefix = if self.platforms.len() > 1 { format!("{name} ") } else { String::new() };
            for (words, workload) in self.points().map_err(|why| self.wrong(why))? {
                let setting = || {
                    plan::setting(&platform, &workload, seed).map_err(|error| self.wrong(error.to_string()))
                };
                for (variant, shares) in self.variants(&setting()?, name)? {
                    let at = (&*format!("{prefix}{variant}"), &*words);
                    let unloaded = unloaded(&setting()?, &shares);
                    let whole = words.trim_end_matches(", ");
                    rows.add((&self.id, at.0, whole), "unloaded latency", "us", unloaded * 1e6);
                    for (load, offered) in self.loads() {
                        let Span(warm_up) = self.warm_up;
                        let ran = setting()?.run(&shares, offered, seed, warm_up, self.span.0);
                        self.report(&mut rows, at.0, &format!("{words}{load}"), (&ran, offered));
                    }
                }
            }
        }
        Ok(rows)
    }

    fn loads(&self) -> impl Iterator<Item = (String, Offered)> {
        let windows =
            self.windows.iter().map(|window| (format!("{window} under way"), Offered::Drawn(*window)));
        let rates =
            self.rates.iter().map(|rate| (format!("{}/s", rate.text), Offered::Rate(rate.per_second)));
        windows.chain(rates)
    }

    /// Names and shares of what is run: alternatives by themselves, then mixtures.
    fn variants(&self, setting: &Setting, platform: &str) -> Result<Vec<(String, Vec<f64>)>, LoadError> {
        let names: Vec<&str> = setting.alternatives.iter().map(|way| &*way.name).collect();
        let at = |name: &str| {
            names.iter().position(|known| *known == name).ok_or_else(|| {
                let why = format!(
                    "{platform} has no alternative {name} for this workload; it has {}",
                    names.join(", ")
                );
                self.wrong(why)
            })
        };
        let alone =
            |at: usize| (0..names.len()).map(|way| if way == at { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
        let mut all = Vec::new();
        if self.alternatives.is_empty() && self.mixtures.is_empty() {
            all.extend(names.iter().enumerate().map(|(way, name)| ((*name).to_owned(), alone(way))));
        }
        for name in &self.alternatives {
            all.push((name.clone(), alone(at(name)?)));
        }
        for mixture in &self.mixtures {
            let (mut shares, mut words) = (vec![0.0; names.len()], Vec::new());
            for (name, share) in mixture {
                shares[at(name)?] = *share;
                words.push(format!("{name} {} %", (share * 1000.0).round() / 10.0));
            }
            all.push((words.join(" + "), shares));
        }
        Ok(all)
    }

    fn report(&'static self, rows: &mut Rows, variant: &str, point: &str, (ran, offered): (&Ran, Offered)) {
        let seen = &ran.all;
        let mut add = |metric, unit, value| rows.add((&self.id, variant, point), metric, unit, value);
        add("throughput", "Mops", seen.rate() / 1e6);
        add("latency", "us", seen.mean() * 1e6);
        add("p99", "us", seen.quantile(0.99) * 1e6);
        add("host cores", "busy", ran.host_cores);
        if matches!(offered, Offered::Rate(_)) {
            let all = (seen.count() + seen.turned_away).max(1);
            add("turned away", "%", 100.0 * seen.turned_away as f64 / all as f64);
        }
    }

    fn wrong(&self, why: String) -> LoadError {
        LoadError::File { file: format!("experiment {}", self.id), line: 0, why }
    }
}

/// Of an operation when nothing else is there: the mean over ways and classes, by what clients ask. What a composed kernel's programs take.
fn unloaded(setting: &Setting, shares: &[f64]) -> f64 {
    let of = |way: &Alternative| {
        way.parts
            .iter()
            .map(|part| part.share * setting.kernel.unloaded(part.program).as_secs_f64())
            .sum::<f64>()
    };
    setting.alternatives.iter().zip(shares).map(|(way, share)| share * of(way)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
id = "KV"
title = "a store by the size of values"
platforms = ["bluefield2-ib"]
workload = "disaggregated-kv"
alternatives = ["A1"]
mixtures = [{ A4 = 0.75, A5 = 0.25 }]
windows = [1, 64]
rates = ["1M"]
[[vary]]
number = "GET.reply"
values = ["64 B", "4 KiB"]
"#;

    fn run(text: &str, seed: u64) -> Result<Rows, String> {
        let experiment = FileExperiment::parse(text, "a.toml")?.experiment();
        (experiment.run)(&Platforms::shipped(), seed).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_variants_by_points() {
        let rows = run(FILE, 1).expect("it runs");
        // Two variants at two sizes: one unloaded, two windows of four metrics, a rate of five.
        assert_eq!(rows.iter().count(), 2 * 2 * (1 + 2 * 4 + 5));
        let value = |variant: &str, point: &str, metric: &str| {
            rows.find("KV", variant, point, metric)
                .unwrap_or_else(|| panic!("{variant} {point} {metric}"))
                .value
        };
        let small = value("A1", "GET.reply 64 B", "unloaded latency");
        let one = value("A1", "GET.reply 64 B, 1 under way", "latency");
        assert!((one / small - 1.0).abs() < 0.1, "nobody waits: {small} {one}");
        assert!(value("A1", "GET.reply 4 KiB", "unloaded latency") > small);
        let mixed = value("A4 75 % + A5 25 %", "GET.reply 64 B, 64 under way", "throughput");
        assert!(mixed > value("A4 75 % + A5 25 %", "GET.reply 64 B, 1 under way", "throughput"));
        let asked = value("A1", "GET.reply 64 B, 1M/s", "throughput");
        assert!(
            (asked - 1.0).abs() < 0.4 && value("A1", "GET.reply 64 B, 1M/s", "turned away") == 0.0,
            "{asked}"
        );
        assert_eq!(run(FILE, 1).expect("it runs"), rows, "the same seed gives the same rows");
    }

    /// What the planner prints of an alternative is what the file's rows say of it.
    #[test]
    fn it_says_what_the_planner_says() {
        let platform = Platforms::shipped().named("bluefield2-ib").expect("it is shipped");
        let workload = shipped::shipped("disaggregated-kv").expect("it is shipped").expect("it is sound");
        let plan = plan::plan(&platform, &workload, &plan::Question::default()).expect("there is one");
        let text =
            FILE.split("[[vary]]").next().expect("its head").replace("windows = [1, 64]", "windows = [1056]");
        let rows = run(&text, 1).expect("it runs");
        let a1 = plan.alternatives.iter().find(|way| way.name == "A1").expect("it is one");
        let unloaded = rows.find("KV", "A1", "", "unloaded latency").expect("it is there").value * 1e-6;
        assert!((unloaded / a1.unloaded - 1.0).abs() < 1e-6, "{unloaded} {}", a1.unloaded);
        let most = rows.find("KV", "A1", "1056 under way", "throughput").expect("it is there").value * 1e6;
        assert!((most / a1.most - 1.0).abs() < 0.1, "{most} {}", a1.most);
    }

    #[test]
    fn a_wrong_file_says_where_and_why() {
        let cases = [
            ("\"bluefield2-ib\"", "", "platforms must name"),
            ("\"bluefield2-ib\"", "\"nic\"", "no platform nic"),
            ("disaggregated-kv", "kv", "a.toml:5: there is no workload kv; there are"),
            ("[1, 64]", "[0]", "windows are from 1"),
            ("windows = [1, 64]\nrates = [\"1M\"]", "", "windows, rates, or both"),
            ("0.75", "0.5", "add up to 1, not 0.75"),
            ("\"A1\"", "\"A9\"", "no alternative A9 for this workload; it has A1"),
            ("GET.reply", "GET.replay", "no GET.replay; there are keys"),
            ("4 KiB", "much", "no value"),
            ("\"1M\"", "\"fast\"", "a.toml:9: \"fast\" is no rate"),
            ("\"1M\"", "\"99G\"", "from 1 to 1G per second"),
            ("id = \"KV\"", "id = \"a | b\"", "must be a word"),
            ("title", "titel", "a.toml:3: "),
            ("windows = [1, 64]", "windows = [1]\nspan = \"1h\"", "no time"),
        ];
        for (from, to, why) in cases {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            let said = run(&text, 1).map(|_| ());
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{to}: {said:?}");
        }
    }

    #[test]
    fn a_workload_may_stand_in_the_file() {
        let table = "\n[workload]\nname = \"w\"\ntitle = \"w\"\nkeys = 1000\nworking_set = \"1 MiB\"\nwindow = 8\n[[workload.class]]\n\
                     name = \"GET\"\nshare = 1.0\nrequest = 16\nreply = 64\nlookups = 2\nlookup = 64\n";
        let text = FILE.replacen("workload = \"disaggregated-kv\"\n", "", 1) + table;
        assert!(
            run(&text, 1)
                .is_ok_and(|rows| rows.find("KV", "A1", "GET.reply 64 B", "unloaded latency").is_some())
        );
        let wrong = text.replacen("share = 1.0", "share = 0.5", 1);
        assert!(run(&wrong, 1).is_err_and(|why| why.contains("add up to")));
    }
}
