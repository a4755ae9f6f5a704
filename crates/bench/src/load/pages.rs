//! Which of our results becomes which page.

use super::tables;
use crate::contest::show::percentiles;
use crate::load::bench::{BenchResult, Outcome, Server};
use crate::load::demo::{DemoPhase, DemoResult};
use crate::load::scale::{At, Scaling, Size};
use crate::load::summary::Summary;
use crate::load::versus::{Turn, Versus};
use crate::report::Drawing;
use crate::report::axis::{Scale, Unit};
use crate::report::format::{digits, micros, percent, ratio, short, whole};
use crate::report::html::{Block, Report, Section, Tile};
use crate::report::plot::{Line, LinePlot, stage_bar};

/// The page of a benchmark.
pub fn bench(result: &BenchResult) -> Report {
    let names: Vec<String> = result.setup.servers.iter().map(|s| s.target.to_string()).collect();
    let verdict = match result.verdict() {
        Ok(()) => {
            let checked: u64 = result.sides().iter().map(|(_, s)| s.verified).sum();
            (true, format!("{} values checked, none wrong", whole(checked)))
        }
        Err(error) => (false, error.to_string()),
    };
    let sections = match &result.outcome {
        Outcome::Single(summary) => single(&names[0], summary),
        Outcome::Versus(versus) => compared(&names, versus),
        Outcome::Scaling(scaling) => sizes(result, scaling),
    };
    Report {
        title: format!("millrace bench: {}", names.join(" and ")),
        subtitle: tables::setup(&result.setup).join("\n"),
        verdict,
        sections,
        environment: result.environment.clone(),
    }
}

fn single(name: &str, summary: &Summary) -> Vec<Section> {
    let mut blocks = vec![Block::Tiles(tiles(summary)), Block::Table(tables::latencies(summary))];
    blocks.extend(tables::notes(summary).into_iter().map(Block::Text));
    let plots = vec![
        curve("Latency by percentile", &[(name, summary)]),
        Block::Pair(throughput(&[(name, summary)]), latency_over_time(summary)),
    ];
    vec![section("Result", blocks), section("Plots", plots)]
}

fn compared(names: &[String], versus: &Versus) -> Vec<Section> {
    let sides = [(names[0].as_str(), &versus.a), (names[1].as_str(), &versus.b)];
    let tiles = versus.compared.iter().map(|c| Tile {
        label: format!("{}, A / B", c.metric),
        value: ratio(c.ratio.ratio.median),
        note: format!("p10 to p90: {} to {}", digits(c.ratio.ratio.p10), digits(c.ratio.ratio.p90)),
    });
    let first = vec![
        Block::Text(format!(
            "A is {}, B is {}. Both were driven in turns (A B B A …); every ratio is of two neighbouring turns.",
            names[0], names[1]
        )),
        Block::Tiles(tiles.filter(|t| !t.label.starts_with("client")).collect()),
        Block::Table(tables::comparison(versus)),
        Block::Text("ratios are of neighbouring turns: median and spread over the pairs".to_string()),
    ];
    let plots = vec![
        curve("Latency by percentile", &sides),
        Block::Pair(
            turns("Throughput by pair of turns", Unit::Count, names, versus, |t| t.ops_per_sec),
            turns("p99 by pair of turns", Unit::Micros, names, versus, |t| t.latency.p99_us),
        ),
    ];
    let mut sections = vec![section("Comparison", first), section("Plots", plots)];
    for ((name, summary), letter) in sides.into_iter().zip(["A", "B"]) {
        let mut blocks = vec![Block::Table(tables::latencies(summary))];
        blocks.extend(tables::notes(summary).into_iter().map(Block::Text));
        sections.push(section(&format!("{letter}: {name}"), blocks));
    }
    sections
}

/// Of several numbers of keys.
fn sizes(result: &BenchResult, scaling: &Scaling) -> Vec<Section> {
    let mut blocks = vec![
        Block::Table(tables::scaling(scaling)),
        Block::Text(
            "server CPU: median and spread of the turns · bytes per item, of all that the server has: what items and index take, as its stats say; \
             taken: from the system, what is free in it included"
                .to_string(),
        ),
    ];
    if let Some(ratios) = tables::scaling_ratios(scaling) {
        blocks.push(Block::Table(ratios));
        blocks.push(Block::Text("ratios are of neighbouring turns: median (p10 to p90)".to_string()));
    }
    for size in &scaling.sizes {
        for (at, server) in size.servers.iter().zip(&result.setup.servers) {
            let said = tables::troubles(&at.all);
            blocks.extend(
                said.map(|text| Block::Text(format!("{} keys, {}: {text}", whole(size.keys), server.target))),
            );
        }
    }
    let sum = |read: fn(&Summary) -> u64| result.sides().iter().map(|(_, s)| read(s)).sum::<u64>();
    blocks.push(Block::Text(format!(
        "{} values checked, {} wrong · {} failed",
        whole(sum(|s| s.verified)),
        whole(sum(Summary::wrong_count)),
        whole(sum(Summary::failed_count))
    )));
    if let Some(end) = &scaling.ended_early {
        blocks.push(Block::Text(format!("! ended early: {}: {}", end.target, end.cause)));
    }
    let plots = Block::Pair(
        over_keys(
            "Server CPU per operation over keys",
            (Scale::Linear, Unit::Micros),
            result,
            &scaling.sizes,
            |at| Some(at.server_cpu_us?.median),
        ),
        over_keys(
            "Server bytes per item over keys",
            (Scale::Log, Unit::Count),
            result,
            &scaling.sizes,
            |at| at.memory?.bytes_per_item(),
        ),
    );
    vec![section("By number of keys", blocks), section("Plots", vec![plots])]
}

/// What a line is called: the server's own name where it says one, since addresses fill the legend.
fn short_name(server: &Server) -> String {
    let said = server.identity.as_deref().and_then(|text| text.split(' ').next());
    said.map_or_else(|| server.target.to_string(), str::to_string)
}

fn over_keys(
    title: &str,
    y: (Scale, Unit),
    result: &BenchResult,
    sizes: &[Size],
    read: fn(&At) -> Option<f64>,
) -> Drawing {
    let line = |(at, server): (usize, &Server)| Line {
        name: short_name(server),
        points: sizes
            .iter()
            .map(|size| (size.keys as f64, read(&size.servers[at]).unwrap_or(f64::NAN)))
            .collect(),
    };
    LinePlot {
        title: title.to_string(),
        x: (Scale::Log, Unit::Count),
        y,
        lines: result.setup.servers.iter().enumerate().map(line).collect(),
        filled: false,
        wide: false,
    }
    .draw()
}

/// The page of the demonstration.
pub fn demo(result: &DemoResult) -> Report {
    let (checked, wrong, failed) = result.counts();
    let verdict = match result.verdict() {
        Ok(()) => (true, format!("{} values checked, none wrong, nothing failed", whole(checked))),
        Err(_) => (false, format!("{} values wrong, {} operations failed", whole(wrong), whole(failed))),
    };
    let loads: Vec<&DemoPhase> = result.phases.iter().skip(1).collect();
    let best = loads.iter().map(|p| p.summary.ops_per_sec).fold(0.0, f64::max);
    let ops: u64 = result.phases.iter().map(|p| p.summary.ops).sum();
    let mut tiles = vec![
        tile("operations", short(ops as f64), &format!("in {:.1} s", result.seconds)),
        tile("peak", format!("{}/s", short(best)), "of all phases"),
        tile("values checked", short(checked as f64), &format!("{} wrong", whole(wrong))),
    ];
    if let Some(open) = loads.iter().find(|p| p.name == "open loop") {
        let all = &open.summary.all;
        tiles.push(tile("p99 at half load", micros(all.p99_us), &format!("p50 {}", micros(all.p50_us))));
    }
    let mut sections = vec![section("Result", vec![Block::Tiles(tiles), Block::Table(tables::demo(result))])];
    if let Some(stages) = result.stages.as_ref().filter(|stages| !stages.is_empty()) {
        let bar = stage_bar("Where time goes inside the server", stages);
        sections.push(section("Stages", vec![Block::Plot(bar)]));
    }
    let curves: Vec<(&str, &Summary)> = loads.iter().take(4).map(|p| (p.name, &p.summary)).collect();
    sections.push(section("Latency", vec![curve("Latency by percentile, phase by phase", &curves)]));
    for phase in loads {
        let mut blocks = vec![
            Block::Text(phase.what.clone()),
            Block::Pair(throughput(&[(phase.name, &phase.summary)]), latency_over_time(&phase.summary)),
            Block::Table(tables::latencies(&phase.summary)),
        ];
        blocks.extend(tables::notes(&phase.summary).into_iter().map(Block::Text));
        sections.push(section(&format!("Phase: {}", phase.name), blocks));
    }
    Report {
        title: "millrace demo kv".to_string(),
        subtitle: format!(
            "memcached traffic against {} through real sockets, {} keys, every value checked",
            result.target,
            whole(result.keys)
        ),
        verdict,
        sections,
        environment: result.environment.clone(),
    }
}

fn section(title: &str, blocks: Vec<Block>) -> Section {
    Section { title: title.to_string(), blocks }
}

fn tile(label: &str, value: String, note: &str) -> Tile {
    Tile { label: label.to_string(), value, note: note.to_string() }
}

fn tiles(s: &Summary) -> Vec<Tile> {
    let mut tiles = vec![
        tile("throughput", format!("{}/s", short(s.ops_per_sec)), &format!("{} operations", whole(s.ops))),
        tile("p50", micros(s.all.p50_us), &format!("mean {}", micros(s.all.mean_us))),
        tile("p99", micros(s.all.p99_us), &format!("p99.9 {}", micros(s.all.p999_us))),
    ];
    if let Some(share) = s.hit_ratio {
        tiles.push(tile("hits", percent(share), &format!("{} values checked", whole(s.verified))));
    }
    if let Some(cpu) = s.server_cpu {
        let note = format!("user {} + system {}", digits(cpu.user_us), digits(cpu.system_us));
        tiles.push(tile("server CPU", format!("{} µs/op", digits(cpu.total_us)), &note));
    }
    tiles
}

fn curve(title: &str, sides: &[(&str, &Summary)]) -> Block {
    percentiles(title, sides.iter().map(|(name, s)| ((*name).to_string(), &s.curve[..])))
}

fn throughput(sides: &[(&str, &Summary)]) -> Drawing {
    let line = |(name, s): &(&str, &Summary)| Line {
        name: (*name).to_string(),
        points: s.series.iter().map(|p| (p.at_s, p.ops_per_sec)).collect(),
    };
    LinePlot {
        title: "Operations per second".to_string(),
        x: (Scale::Linear, Unit::Seconds),
        y: (Scale::Linear, Unit::Count),
        lines: sides.iter().map(line).collect(),
        filled: true,
        wide: false,
    }
    .draw()
}

fn latency_over_time(s: &Summary) -> Drawing {
    let line = |name: &str, read: fn(&crate::load::summary::SeriesPoint) -> Option<f64>| Line {
        name: name.to_string(),
        points: s.series.iter().map(|p| (p.at_s, read(p).unwrap_or(f64::NAN))).collect(),
    };
    LinePlot {
        title: "Latency over time".to_string(),
        x: (Scale::Linear, Unit::Seconds),
        y: (Scale::Log, Unit::Micros),
        lines: vec![line("p50", |p| p.p50_us), line("p99", |p| p.p99_us)],
        filled: false,
        wide: false,
    }
    .draw()
}

fn turns(title: &str, unit: Unit, names: &[String], versus: &Versus, read: fn(&Turn) -> f64) -> Drawing {
    let line = |name: &str, side: fn(&(Turn, Turn)) -> &Turn| Line {
        name: name.to_string(),
        points: versus
            .pairs
            .iter()
            .enumerate()
            .map(|(at, pair)| ((at + 1) as f64, read(side(pair))))
            .collect(),
    };
    LinePlot {
        title: title.to_string(),
        x: (Scale::Linear, Unit::Count),
        y: (Scale::Linear, unit),
        lines: vec![line(&names[0], |p| &p.0), line(&names[1], |p| &p.1)],
        filled: false,
        wide: false,
    }
    .draw()
}
