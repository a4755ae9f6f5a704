//! The page of `millrace repro`: which rows of an experiment become which plot.
//!
//! A point such as `READ 64 B` is a number in words. Points whose words are the same are one plot with the number as its axis, a line for each variant; points
//! without a number, or with too few different ones, become bars.

use bench::report::Drawing;
use bench::report::chart::{Bar, Mark, Series, Spot, bars, lines, scatter};
use bench::report::html::Block;
use model::experiment::compare::{Compared, Verdict};
use model::experiment::published::{Claim, Standing};
use model::experiment::{Row, Rows};

/// Errors up to this are no miss.
pub const MISS: f64 = 0.1;
/// Plots of one experiment; what is beyond is in the rows.
const MOST_PLOTS: usize = 24;
/// Plots of one page, which people load whole: some 8 KB each.
const PLOTS_OF_A_PAGE: usize = 176;
/// Bars of one plot.
const MOST_BARS: usize = 40;
/// A number is an axis if it takes so many values.
const AXIS: usize = 3;

/// Published against modelled, and what there is to say of every miss.
pub fn comparison(compared: &[Compared<'_>]) -> Vec<Block> {
    let spots: Vec<_> = compared.iter().filter_map(spot).collect();
    let mut blocks = Vec::new();
    if !spots.is_empty() {
        let names = GROUPS.map(|standing| standing.to_string());
        let names = names.each_ref().map(String::as_str);
        let plot = scatter("Published and modelled", &names, MISS, &spots);
        let worst = bars("Largest errors, %", &errors(compared));
        blocks.push(Block::Pair(plot, worst));
    }
    blocks.extend(misses(compared).into_iter().map(Block::Text));
    blocks
}

fn spot(one: &Compared<'_>) -> Option<Spot> {
    let (published, modelled, error) = match one.verdict {
        Verdict::Number { published, modelled, error } => (published, modelled, error),
        // Of a range the value that is furthest out.
        Verdict::Range { published: (least, most), modelled: (low, high), error } => {
            let modelled = if error < 0.0 { low } else { high };
            (modelled.clamp(least, most), modelled, error)
        }
        _ => return None,
    };
    let name = format!(
        "{} {}: {published} published, {modelled:.4} modelled, {:+.1} %",
        one.result.id,
        one.result.what,
        error * 100.0
    );
    Some(Spot { name, at: (published, modelled), group: group(one) })
}

/// Standings by colour.
const GROUPS: [Standing; 3] = [Standing::Prediction, Standing::Calibration, Standing::Restates];

fn group(one: &Compared<'_>) -> usize {
    GROUPS.iter().position(|standing| *standing == one.result.standing).unwrap_or(0)
}

/// The worst first.
fn errors(compared: &[Compared<'_>]) -> Vec<Bar> {
    let bar = |one: &Compared<'_>| {
        let percent = (one.verdict.error()?.abs() * 1000.0).round() / 10.0;
        Some(Bar { name: one.result.id.clone(), value: percent, group: group(one) })
    };
    let mut all: Vec<_> = compared.iter().filter_map(bar).collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    all.truncate(MOST_BARS / 2);
    all
}

/// A sentence for every miss: by how much, and why as far as the file of results knows.
pub fn misses(compared: &[Compared<'_>]) -> Vec<String> {
    let said = |one: &Compared<'_>| {
        let by = match one.verdict {
            Verdict::Number { error, .. } | Verdict::Range { error, .. } if error.abs() > MISS => {
                format!("{:+.0} %", error * 100.0)
            }
            Verdict::Order { holds: false, .. } => "the order is another".into(),
            _ => return None,
        };
        let why = one.result.why.as_deref().unwrap_or("not explained");
        Some(format!("Miss {} ({}), {by}: {why}", one.result.id, one.result.what))
    };
    compared.iter().filter_map(said).collect()
}

/// What was published of a row, on the row's own scale: a ratio to another row times what the model says of that.
fn published(row: &Row, compared: &[Compared<'_>]) -> Option<(String, (f64, f64))> {
    compared.iter().find_map(|one| {
        let Some(Claim::Within { range: (least, most), of, over }) = &one.result.claim else { return None };
        let is_it = of.iter().any(|of| {
            (of.experiment.as_str(), &of.variant, &of.point, of.metric.as_str())
                == (row.experiment, &row.variant, &row.point, row.metric)
        });
        let modelled = match one.verdict {
            Verdict::Number { modelled, .. } => modelled,
            Verdict::Range { modelled: (low, high), .. } if low == high => low,
            // Of several places each is on its own scale, unless they are ratios to another row.
            Verdict::Range { .. } if over.is_none() => row.value,
            _ => return None,
        };
        let scale = if modelled == 0.0 { 1.0 } else { row.value / modelled };
        let name = format!("{} {}: published", one.result.id, one.result.what);
        is_it.then(|| (name, (least * scale, most * scale)))
    })
}

/// How many plots each experiment has on a page of so many experiments: an even number, since they stand in pairs.
pub fn plots_each(experiments: usize) -> usize {
    (PLOTS_OF_A_PAGE / experiments.max(1) / 2 * 2).clamp(2, MOST_PLOTS)
}

/// The first `most` plots of one experiment's rows, two beside each other: those with something published to hold them against before the others.
pub fn plots(rows: &[&Row], compared: &[Compared<'_>], most: usize) -> Vec<Block> {
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        if !metrics.contains(&(row.metric, row.unit)) {
            metrics.push((row.metric, row.unit));
        }
    }
    let of = |(metric, unit): (&str, &str)| {
        let its: Vec<_> =
            rows.iter().copied().filter(|row| (row.metric, row.unit) == (metric, unit)).collect();
        metric_plots(&format!("{metric}, {unit}"), &its, compared)
    };
    let mut all: Vec<_> = metrics.into_iter().flat_map(of).collect();
    all.sort_by_key(|(published, _)| !published);
    let beyond = all.len().saturating_sub(most);
    let mut blocks = Vec::new();
    let mut svgs = all.into_iter().take(most).map(|(_, svg)| svg);
    while let Some(left) = svgs.next() {
        blocks.push(match svgs.next() {
            Some(right) => Block::Pair(left, right),
            None => Block::Pair(left, Drawing::default()),
        });
    }
    if beyond > 0 {
        let more = if most < MOST_PLOTS {
            let id = rows.first().map_or("", |row| row.experiment);
            format!("; millrace repro {id} --report PAGE.html has up to {MOST_PLOTS}")
        } else {
            String::new()
        };
        let text = format!("{beyond} more plots are left out{more}; their values are in the rows.");
        blocks.push(Block::Text(text));
    }
    blocks
}

/// A point: its words with a gap where the number is, the number, and what follows it.
#[derive(Clone, Debug, PartialEq)]
struct Placed {
    words: String,
    at: f64,
    unit: String,
}

/// A point by each of its numbers.
fn readings(point: &str) -> Vec<Placed> {
    let tokens: Vec<&str> = point.split(' ').collect();
    let number =
        |token: &str| token.trim_end_matches([',', '%', ')']).trim_start_matches('(').parse::<f64>().ok();
    let reading = |at: usize| {
        let value = number(tokens[at]).filter(|value| value.is_finite())?;
        let mut words = tokens.clone();
        words[at] = "…";
        // Sizes are one axis, whatever they are written in.
        let scale = match words.get_mut(at + 1) {
            Some(unit) if matches!(*unit, "KB" | "KB," | "MB" | "MB,") => {
                let scale = if unit.starts_with('K') { 1024.0 } else { 1_048_576.0 };
                *unit = &unit[1..];
                scale
            }
            _ => 1.0,
        };
        let unit = words.get(at + 1).filter(|next| number(next).is_none());
        let unit = unit.copied().unwrap_or_default().into();
        Some(Placed { words: words.join(" "), at: value * scale, unit })
    };
    (0..tokens.len()).filter_map(reading).collect()
}

/// The reading of each point whose number takes the most values over all points.
fn axis_of(rows: &[&Row]) -> impl Fn(&Row) -> Option<Placed> + use<> {
    let mut counts: Vec<(String, Vec<u64>)> = Vec::new();
    for placed in rows.iter().flat_map(|row| readings(&row.point)) {
        let at = counts.iter().position(|(words, _)| *words == placed.words);
        let at = at.unwrap_or_else(|| {
            counts.push((placed.words.clone(), vec![]));
            counts.len() - 1
        });
        if !counts[at].1.contains(&placed.at.to_bits()) {
            counts[at].1.push(placed.at.to_bits());
        }
    }
    move |row| {
        let values = |placed: &Placed| {
            counts.iter().find(|(words, _)| *words == placed.words).map_or(0, |(_, values)| values.len())
        };
        readings(&row.point).into_iter().filter(|placed| values(placed) >= AXIS).max_by_key(values)
    }
}

/// Each with whether something published is in it.
fn metric_plots(title: &str, rows: &[&Row], compared: &[Compared<'_>]) -> Vec<(bool, Drawing)> {
    let axis = axis_of(rows);
    let (mut plots, mut rest): (Vec<(Placed, Vec<Series>)>, Vec<&Row>) = (vec![], vec![]);
    for row in rows {
        let Some(placed) = axis(row) else {
            rest.push(row);
            continue;
        };
        let at = plots.iter().position(|(its, _)| its.words == placed.words);
        let at = at.unwrap_or_else(|| {
            plots.push((placed.clone(), vec![]));
            plots.len() - 1
        });
        let series = &mut plots[at].1;
        let mine = series.iter().position(|one| one.name == row.variant).unwrap_or_else(|| {
            series.push(Series { name: row.variant.clone(), points: vec![], published: vec![] });
            series.len() - 1
        });
        series[mine].points.push((placed.at, row.value));
        let mark = published(row, compared).map(|(name, range)| Mark { name, at: placed.at, range });
        series[mine].published.extend(mark);
    }
    let mut svgs = Vec::new();
    for (placed, mut series) in plots {
        series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let published = series.iter().any(|one| !one.published.is_empty());
        svgs.push((published, lines(&titled(title, &placed.words), &placed.unit, &series)));
    }
    svgs.extend(bar_plots(title, &rest).into_iter().map(|svg| (false, svg)));
    svgs
}

fn titled(title: &str, words: &str) -> String {
    if words == "…" { title.into() } else { format!("{title}: {words}") }
}

/// Bars of rows without an axis, coloured by variant.
fn bar_plots(title: &str, rows: &[&Row]) -> Vec<Drawing> {
    let mut variants: Vec<&str> = Vec::new();
    for row in rows {
        if !variants.contains(&row.variant.as_str()) {
            variants.push(&row.variant);
        }
    }
    let bar = |row: &&Row| {
        let name = match row.point.as_str() {
            "" => row.variant.clone(),
            point => format!("{} · {point}", row.variant),
        };
        let group = variants.iter().position(|variant| *variant == row.variant).unwrap_or(0);
        Bar { name, value: row.value, group }
    };
    rows.chunks(MOST_BARS).map(|some| bars(title, &some.iter().map(bar).collect::<Vec<_>>())).collect()
}

/// The rows of each experiment, in the order in which they came.
pub fn by_experiment(rows: &Rows) -> Vec<(&'static str, Vec<&Row>)> {
    let mut all: Vec<(&'static str, Vec<&Row>)> = Vec::new();
    for row in rows.iter() {
        match all.iter_mut().find(|(id, _)| *id == row.experiment) {
            Some((_, its)) => its.push(row),
            None => all.push((row.experiment, vec![row])),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::experiment::compare::compare;
    use model::experiment::published::Results;

    fn rows() -> Rows {
        let mut rows = Rows::default();
        for variant in ["RNIC ①", "SNIC ②"] {
            for (bytes, threads) in [(0, 1), (64, 1), (4096, 1), (64, 2)] {
                let point = format!("READ {bytes} B, {threads} threads");
                rows.add(("F1", variant, &point), "latency", "us", f64::from(bytes) + 2.0);
            }
            rows.add(("F1", variant, "both"), "latency", "us", 3.0);
            rows.add(("F8", variant, ""), "throughput", "Mops", 3.0);
        }
        rows
    }

    #[test]
    fn a_point_is_read_as_a_number_in_words() {
        let readings = readings("READ 64 B, 2 threads");
        assert_eq!(
            readings.iter().map(|r| r.words.as_str()).collect::<Vec<_>>(),
            ["READ … B, 2 threads", "READ 64 B, … threads"]
        );
        assert_eq!((readings[0].at, readings[1].unit.as_str()), (64.0, "threads"));
        let large = &self::readings("READ 16 KB, 2 threads")[0];
        assert_eq!((large.words.as_str(), large.at), ("READ … B, 2 threads", 16_384.0));
    }

    #[test]
    fn numbers_become_axes_and_the_rest_bars() {
        let rows = rows();
        let all = by_experiment(&rows);
        assert_eq!(all.iter().map(|(id, its)| (*id, its.len())).collect::<Vec<_>>(), [("F1", 10), ("F8", 2)]);
        let svgs = metric_plots("latency, us", &all[0].1, &[]);
        // One thread has three sizes; two threads one, which is no axis.
        assert_eq!(svgs.len(), 2);
        assert!(
            svgs[0].1.svg.contains("latency, us: READ … B, 1 threads")
                && svgs[0].1.svg.matches("</title></path>").count() == 6
        );
        assert!(svgs[1].1.svg.matches("<rect").count() == 4 && svgs[1].1.svg.contains("RNIC ① · both"));
        assert_eq!(plots(&all[1].1, &[], 2).len(), 1);
    }

    #[test]
    fn a_page_of_many_experiments_has_few_plots_of_each_and_says_so() {
        assert_eq!([1, 6, 7, 20, 42, 1000].map(plots_each), [24, 24, 24, 8, 4, 2]);
        let mut rows = rows();
        (0..3).for_each(|metric| rows.add(("F8", "RNIC ①", ""), ["a", "b", "c"][metric], "us", 1.0));
        let of = by_experiment(&rows);
        let blocks = plots(&of[1].1, &[], 2);
        let [Block::Pair(..), Block::Text(text)] = &blocks[..] else { panic!("{blocks:?}") };
        assert!(text.starts_with("2 more plots are left out; millrace repro F8 --report"), "{text}");
    }

    #[test]
    fn every_miss_is_told_with_its_reason() {
        let text = "system = \"t\"\nsource = \"s\"\n[[result]]\nid = \"T-1\"\nwhat = \"w\"\nwhere = \"w\"\nclass = \"prediction\"\nvalue = 6\n\
                    of = \"F8 | RNIC ① |  | throughput\"\nwhy = \"half of it is elsewhere\"\n";
        let results = Results::parse(text, "t.toml").expect("it is right");
        let rows = rows();
        let compared = compare(&results, &rows);
        assert_eq!(misses(&compared), ["Miss T-1 (w), -50 %: half of it is elsewhere"]);
        assert_eq!(comparison(&compared).len(), 2);
    }
}
