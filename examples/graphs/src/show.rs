//! What was measured, for people: tables on the terminal, and a page with plots.

use super::Args;
use super::book::{Method, Pages, Sample, Samples, Sizes};
use super::load::KINDS;
use super::measure::{Measured, Point};
use bench::report::axis::{Scale, Unit};
use bench::report::chart::{self, Series};
use bench::report::environment::facts;
use bench::report::format::{micros, short, whole};
use bench::report::plot::{Line, LinePlot};
use bench::report::{Block, Report, Section, Table};

const MEDIAN: f64 = 0.5;
const TAIL: f64 = 0.99;

/// Everything.
pub fn page(measured: &[Measured], args: &Args) -> Report {
    let failed: u64 = points(measured).map(|point| point.failed).sum();
    let example = points(measured).find_map(|point| point.example.as_deref());
    let verdict = match example {
        Some(example) if failed > 0 => {
            (false, format!("{} requests failed, the first: {example}", whole(failed)))
        }
        _ => (true, "no request failed; every reply was checked".to_owned()),
    };
    Report {
        title: "Microservices: what part of a request's time is the network stack's".to_owned(),
        subtitle: format!(
            "a thread for each service, over {}; open loop, {} s a load point; {} of 100 requests compose",
            args.transport, args.seconds, args.compose
        ),
        verdict,
        sections: measured.iter().flat_map(sections).collect(),
        environment: facts(),
    }
}

fn points(measured: &[Measured]) -> impl Iterator<Item = &Point> {
    measured.iter().flat_map(|graph| &graph.points)
}

fn text(words: &str) -> Block {
    Block::Text(words.to_owned())
}

fn sections(graph: &Measured) -> Vec<Section> {
    let title = |of: &str| format!("{}, {} tiers: {of}", graph.graph, graph.tiers);
    let mut sections = vec![Section {
        title: title("share of the network stack against load"),
        blocks: vec![
            text(
                "Network: encoding and decoding, links, their copies, and waiting in them until a thread looked. The rest is the application, its waits for \
                  a thread with it. Means of the middle half (p50) and of 98.5 to 99.5 % (p99) of requests, by their time.",
            ),
            Block::Table(shares(graph)),
            text(
                "The paper's Fig. 1 is a plot without printed figures, of the same two applications in other software: networking is a large part of both \
                  median and tail latency, and a small part per call adds up over the graph. It has no row to compare with.",
            ),
            share_plots(graph),
        ],
    }];
    let open: Vec<&Point> = graph.points.iter().filter(|point| point.load.is_some()).collect();
    // The least load, and the most.
    let ends = open.first().into_iter().chain(open.last().filter(|_| open.len() > 1));
    sections.extend(ends.map(|point| Section {
        title: title(&format!("by tier, at {}", name(point))),
        blocks: vec![
            text("Of each method as its callers saw it, without what the service asked others."),
            Block::Table(tiers(&point.methods)),
        ],
    }));
    let sizes = sizes(graph);
    sections.push(Section {
        title: title("sizes of what tiers say to each other"),
        blocks: vec![
            text("Bodies, without headers and metadata, of all load points: of all calls, and of those that compose. The paper prints \
                  one distribution for both applications; what its users asked is not said in what this project has of it."),
            Block::Table(bounds(&sizes)),
            Block::Table(distribution(&sizes)),
            distribution_plot(&sizes),
        ],
    });
    sections
}

fn name(point: &Point) -> String {
    match point.load {
        Some(load) => format!("{load} % load"),
        None => "all it can do, closed loop".to_owned(),
    }
}

fn percent(part: base::Nanos, of: base::Nanos) -> String {
    format!("{:.0} %", 100.0 * part.0 as f64 / of.0.max(1) as f64)
}

/// Time, network's share, and codec's of all.
fn cells(samples: &Samples, quantile: f64) -> [String; 3] {
    match samples.around(quantile) {
        None => ["–", "–", "–"].map(str::to_owned),
        Some(sample) => [
            micros(sample.took.0 as f64 / 1e3),
            percent(sample.network(), sample.took),
            percent(sample.codec, sample.took),
        ],
    }
}

fn shares(graph: &Measured) -> Table {
    let mut table =
        Table::new(["load", "per second", "requests", "p50", "network", "codec", "p99", "network", "codec"]);
    for point in &graph.points {
        let kinds = (0..KINDS).filter(|&kind| graph.kinds[kind].1 > 0);
        let of_kinds = kinds.map(|kind| (graph.kinds[kind].0, &point.seen.kinds[kind]));
        for (kind, samples) in [("all", &point.seen.all)].into_iter().chain(of_kinds) {
            let first = if kind == "all" {
                let late = if point.unsent > 0 {
                    format!(", {} unsent", whole(point.unsent))
                } else {
                    String::new()
                };
                let meant = point.load.map_or(String::new(), |_| format!(" of {}", short(point.meant)));
                [format!("{}{late}", name(point)), format!("{}{meant}", short(point.done))]
            } else {
                [String::new(), format!("{} of them", whole(samples.seen()))]
            };
            let row = first.into_iter().chain([kind.to_owned()]);
            table.row(row.chain(cells(samples, MEDIAN)).chain(cells(samples, TAIL)));
        }
    }
    table
}

fn share_plots(graph: &Measured) -> Block {
    let open = || graph.points.iter().filter(|point| point.load.is_some());
    let of = |quantile: f64, value: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        let point = |point: &Point| Some((point.done, value(&point.seen.all.around(quantile)?)));
        open().filter_map(point).collect()
    };
    let network = |sample: &Sample| 100.0 * sample.network().0 as f64 / sample.took.0.max(1) as f64;
    let series = |name: &str, points| Series { name: name.to_owned(), points, published: Vec::new() };
    let share = chart::lines(
        "Network's share of a request's time, %",
        "requests per second",
        &[series("of the median", of(MEDIAN, network)), series("of the 99th percentile", of(TAIL, network))],
    );
    let line = |name: &str, points| Line { name: name.to_owned(), points };
    let time = LinePlot {
        title: "Time of a request over requests per second".to_owned(),
        x: (Scale::Linear, Unit::Count),
        y: (Scale::Log, Unit::Micros),
        lines: vec![
            line("p50", of(MEDIAN, |s| s.took.0 as f64 / 1e3)),
            line("p50, application", of(MEDIAN, |s| s.app.0.max(1) as f64 / 1e3)),
            line("p99", of(TAIL, |s| s.took.0 as f64 / 1e3)),
            line("p99, application", of(TAIL, |s| s.app.0.max(1) as f64 / 1e3)),
        ],
        filled: false,
        wide: false,
    };
    Block::Pair(share, time.draw())
}

/// A method's name without its package.
fn of_service(service: &str, method: &str) -> String {
    format!("{}.{method}", service.rsplit('.').next().unwrap_or(service))
}

fn tiers(methods: &Pages) -> Table {
    let mut table = Table::new(["method", "calls", "p50", "network", "codec", "p99", "network", "codec"]);
    for ((service, method), page) in methods.iter().filter(|(_, page)| page.calls.seen() > 0) {
        let first = [of_service(service, method), whole(page.calls.seen())];
        table.row(first.into_iter().chain(cells(&page.calls, MEDIAN)).chain(cells(&page.calls, TAIL)));
    }
    table
}

/// Sizes of all calls and of those that compose: requests, and replies.
#[derive(Default)]
struct Both {
    all: [Sizes; 2],
    composing: [Sizes; 2],
}

fn sizes(graph: &Measured) -> Both {
    let mut both = Both::default();
    for ((_, method), page) in graph.points.iter().flat_map(|point| &point.methods) {
        let Method { requests, replies, .. } = page;
        // What reads is called so, in both applications.
        let composes = !method.starts_with("Read");
        for of in [Some(&mut both.all), composes.then_some(&mut both.composing)].into_iter().flatten() {
            of[0].add(requests);
            of[1].add(replies);
        }
    }
    both
}

/// What the paper prints: which messages, below how many bytes, how many of a hundred at least.
const PRINTED: [(&str, usize, usize, f64); 4] = [
    ("requests < 256 B: over 70 %", 0, 256, 70.0),
    ("requests <= 1280 B: almost all", 0, 1281, 99.0),
    ("replies < 256 B: nearly 100 %", 1, 256, 99.0),
    ("replies < 64 B: 95 %", 1, 64, 95.0),
];

/// Whether a share keeps what was printed.
fn verdict(sizes: &Sizes, below: usize, least: f64) -> String {
    let share = 100.0 * sizes.below(below);
    let word = match sizes.count() {
        0 => return "no calls".to_owned(),
        _ if share >= least => "ok",
        _ => "missed",
    };
    format!("{share:.1} %, {word}")
}

fn bounds(sizes: &Both) -> Table {
    let mut table =
        Table::new(["printed (Fig. 2; \"almost all\" is taken as 99 %)", "all calls", "that compose"]);
    for (name, which, below, least) in PRINTED {
        let of = |sizes: &[Sizes; 2]| verdict(&sizes[which], below, least);
        table.row([name.to_owned(), of(&sizes.all), of(&sizes.composing)]);
    }
    table
}

const BYTES: [usize; 10] = [16, 32, 64, 128, 256, 512, 1024, 1281, 4096, 16384];

fn distribution(sizes: &Both) -> Table {
    let columns = ["below", "requests", "replies", "requests that compose", "replies to them"];
    let mut table = Table::new(columns);
    let all = || sizes.all.iter().chain(&sizes.composing);
    for bytes in BYTES {
        let shares = all().map(|sizes| format!("{:.1} %", 100.0 * sizes.below(bytes)));
        table.row([format!("{bytes} B")].into_iter().chain(shares));
    }
    for (name, quantile) in [("median", 0.5), ("p99", 0.99), ("longest", 1.0)] {
        table.row(
            [name.to_owned()].into_iter().chain(all().map(|sizes| format!("{} B", sizes.quantile(quantile)))),
        );
    }
    table
}

fn distribution_plot(sizes: &Both) -> Block {
    let series = |name: &str, sizes: &Sizes| Series {
        name: name.to_owned(),
        points: BYTES.iter().map(|&bytes| (bytes as f64, 100.0 * sizes.below(bytes))).collect(),
        published: Vec::new(),
    };
    Block::Plot(chart::lines(
        "Messages smaller than so many bytes, %",
        "bytes",
        &[
            series("requests", &sizes.all[0]),
            series("replies", &sizes.all[1]),
            series("requests that compose", &sizes.composing[0]),
            series("replies to them", &sizes.composing[1]),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed is missed where it is missed.
    #[test]
    fn a_bound_is_kept_or_missed() {
        let mut sizes = Sizes::default();
        assert_eq!(verdict(&sizes, 64, 95.0), "no calls");
        (0..95).for_each(|_| sizes.note(10));
        (0..5).for_each(|_| sizes.note(64));
        assert_eq!(verdict(&sizes, 64, 95.0), "95.0 %, ok");
        sizes.note(64);
        assert_eq!(verdict(&sizes, 64, 95.0), "94.1 %, missed");
    }
}
