//! Results of `rpc bench` for people: text, and pages with plots.

use super::matrix::{Cell, Matrix, Sample};
use super::single::Single;
use crate::contest::show;
use crate::report::axis::{Scale, Unit};
use crate::report::format::{digits, micros, ratio, short, whole};
use crate::report::plot::{Line, LinePlot};
use crate::report::{Block, Drawing, Report, Section, Table, Tile};
use crate::tally::CurvePoint;
use serve::rpc::batch::Batch;

/// What was done, in a line.
fn single_setup(result: &Single) -> String {
    let pace = match result.rate {
        None => format!("{} under way each", result.window),
        Some(rate) => format!("{} calls per second, at most {} under way each", short(rate), result.window),
    };
    let connections = if result.threads == 1 {
        "1 connection".to_owned()
    } else {
        format!("{} connections", result.threads)
    };
    format!("{} at {}: {connections}, {pace}, {:.1} s", result.method, result.address, result.seconds)
}

fn single_table(result: &Single) -> Table {
    let mut table = Table::new(["latency", ""]);
    for &(quantile, us) in &result.latency_us {
        let name = if quantile == 0.0 { "min".to_owned() } else { format!("p{}", quantile * 100.0) };
        table.row([name, micros(us)]);
    }
    table.row(["max".to_owned(), micros(result.max_us)]);
    table
}

fn failures(result: &Single) -> String {
    let each: Vec<String> =
        result.failed.iter().map(|(code, count)| format!("{} {code}", whole(*count))).collect();
    if each.is_empty() { "none failed".to_owned() } else { format!("failed: {}", each.join(", ")) }
}

/// On a terminal.
pub fn single_text(result: &Single) -> String {
    format!(
        "  {}\n  {} replies, {} per second; {}\n\n{}",
        single_setup(result),
        whole(result.replies),
        short(result.replies_per_sec),
        failures(result),
        single_table(result),
    )
}

/// As a page.
pub fn single_page(result: &Single) -> Report {
    let at =
        |wanted: f64| result.latency_us.iter().find(|(quantile, _)| *quantile == wanted).map_or(0.0, |p| p.1);
    let tile = |label: &str, value: String| Tile { label: label.to_owned(), value, note: String::new() };
    let tiles = vec![
        tile("replies per second", short(result.replies_per_sec)),
        tile("p50", micros(at(0.5))),
        tile("p99", micros(at(0.99))),
        tile("p99.9", micros(at(0.999))),
    ];
    let curve: Vec<CurvePoint> =
        result.latency_us.iter().map(|&(quantile, us)| CurvePoint { quantile, us }).collect();
    let plot = show::percentiles("Latency by percentile", [(result.method.clone(), &curve[..])]);
    let blocks = vec![Block::Tiles(tiles), Block::Table(single_table(result)), plot];
    Report {
        title: "millrace rpc bench".to_owned(),
        subtitle: single_setup(result),
        verdict: (
            result.failed.is_empty(),
            format!("{} replies, {}", whole(result.replies), failures(result)),
        ),
        sections: vec![Section { title: "Result".to_owned(), blocks }],
        environment: result.environment.clone(),
    }
}

fn distinct<T: PartialEq + Clone>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    values.for_each(|value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
    });
    seen
}

fn transports(matrix: &Matrix) -> Vec<String> {
    distinct(matrix.cells.iter().map(|cell| cell.transport.clone()))
}

fn windows(matrix: &Matrix) -> Vec<usize> {
    distinct(matrix.cells.iter().map(|cell| cell.window))
}

fn batches(matrix: &Matrix) -> Vec<Batch> {
    distinct(matrix.cells.iter().map(|cell| cell.batch))
}

fn matrix_setup(matrix: &Matrix) -> String {
    let [client, server] = matrix.cores;
    format!(
        "demo.Echo/Say with {} bytes of text through generated stubs; client on core {client}, server on core {server}: {}; \
         {} rounds of {} ms, {} slices left out because the cores' distance changed",
        matrix.payload,
        if matrix.distance.is_empty() { "no distance seen" } else { &matrix.distance },
        matrix.rounds,
        digits(matrix.slice_ms),
        matrix.left_out,
    )
}

/// A row per transport and window, a column per batch; medians, and in brackets p10 to p90.
fn matrix_table(matrix: &Matrix, what: impl Fn(&Sample) -> f64, show: impl Fn(f64) -> String) -> Table {
    let columns = batches(matrix).into_iter().map(|batch| format!("batch {batch}"));
    let mut table = Table::new(["transport, window".to_owned()].into_iter().chain(columns));
    let text = |cell: &&Cell| match cell.spread(&matrix.distance, &what) {
        None => "–".to_owned(),
        Some(spread) => format!("{} ({}–{})", show(spread.median), show(spread.p10), show(spread.p90)),
    };
    for transport in transports(matrix) {
        for window in windows(matrix) {
            let row = matrix.row(&transport, window);
            table.row([format!("{transport}, {window}")].into_iter().chain(row.iter().map(text)));
        }
    }
    table
}

fn adaptive_table(matrix: &Matrix) -> Table {
    let mut table = Table::new(["transport, window", "best fixed", "adaptive / best fixed", "p10–p90"]);
    for transport in transports(matrix) {
        for window in windows(matrix) {
            let Some((spread, best)) = matrix.adaptive_over_best(&transport, window) else { continue };
            let range = format!("{}–{}", digits(spread.p10), digits(spread.p90));
            table.row([format!("{transport}, {window}"), best.to_string(), ratio(spread.median), range]);
        }
    }
    table
}

/// As a page, whose words and tables are the text for the terminal.
pub fn matrix_page(matrix: &Matrix) -> Report {
    let mut sections = vec![Section {
        title: "Result".to_owned(),
        blocks: vec![
            Block::Text("Replies per second: median (p10–p90)".to_owned()),
            Block::Table(matrix_table(matrix, |s| s.replies_per_sec, short)),
            Block::Text("Median latency".to_owned()),
            Block::Table(matrix_table(matrix, |s| s.p50_us, micros)),
            Block::Text("99th percentile".to_owned()),
            Block::Table(matrix_table(matrix, |s| s.p99_us, micros)),
        ],
    }];
    let adaptive = adaptive_table(matrix);
    if !adaptive.is_empty() {
        let blocks = vec![
            Block::Text(
                "Throughput of adaptive batching over that of the best fixed size, round by round".to_owned(),
            ),
            Block::Table(adaptive),
        ];
        sections.push(Section { title: "Adaptive batching".to_owned(), blocks });
    }
    for transport in transports(matrix) {
        let blocks = vec![Block::Pair(by_window(matrix, &transport), envelope(matrix, &transport))];
        sections.push(Section { title: transport, blocks });
    }
    let verdict = match &matrix.failed {
        None => (true, "no call failed".to_owned()),
        Some((count, example)) => (false, format!("{} calls failed, the first: {example}", whole(*count))),
    };
    Report {
        title: "millrace rpc bench: all transports".to_owned(),
        subtitle: matrix_setup(matrix),
        verdict,
        sections,
        environment: matrix.environment.clone(),
    }
}

/// A line per batch over the windows.
fn lines(matrix: &Matrix, transport: &str, point: impl Fn(&Cell) -> Option<(f64, f64)>) -> Vec<Line> {
    let line = |batch: Batch| {
        let cells = matrix.cells.iter().filter(|cell| cell.transport == transport && cell.batch == batch);
        Line { name: format!("batch {batch}"), points: cells.filter_map(&point).collect() }
    };
    batches(matrix).into_iter().map(line).collect()
}

fn by_window(matrix: &Matrix, transport: &str) -> Drawing {
    let point = |cell: &Cell| {
        let rate = cell.spread(&matrix.distance, |s| s.replies_per_sec)?;
        Some((cell.window as f64, rate.median))
    };
    let plot = LinePlot {
        title: "Replies per second over calls under way".to_owned(),
        x: (Scale::Log, Unit::Count),
        y: (Scale::Linear, Unit::Count),
        lines: lines(matrix, transport, point),
        filled: false,
        wide: false,
    };
    plot.draw()
}

/// Latency over throughput: adaptive batching should follow the lower envelope of the others.
fn envelope(matrix: &Matrix, transport: &str) -> Drawing {
    let point = |cell: &Cell| {
        let rate = cell.spread(&matrix.distance, |s| s.replies_per_sec)?;
        Some((rate.median, cell.spread(&matrix.distance, |s| s.p50_us)?.median))
    };
    let plot = LinePlot {
        title: "Median latency over replies per second".to_owned(),
        x: (Scale::Linear, Unit::Count),
        y: (Scale::Log, Unit::Micros),
        lines: lines(matrix, transport, point),
        filled: false,
        wide: false,
    };
    plot.draw()
}
