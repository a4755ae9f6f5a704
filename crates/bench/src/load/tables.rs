//! Our results as tables and as text for the terminal.

use crate::contest::show::ratios;
use crate::drive::Pace;
use crate::load::bench::Setup;
use crate::load::demo::DemoResult;
use crate::load::mix::OpKind;
use crate::load::scale::{At, Scaling, Size};
use crate::load::summary::Summary;
use crate::load::versus::{Compared, Versus};
use crate::report::format::{digits, micros, percent, ratio, short, whole};
use crate::report::table::Table;
use crate::tally::Latency;
use base::spread::Spread;
use std::fmt::Write;

fn latency_cells(latency: &Latency) -> [String; 7] {
    let l = latency;
    [l.mean_us, l.p50_us, l.p90_us, l.p99_us, l.p999_us, l.p9999_us, l.max_us].map(micros)
}

const LATENCY_COLUMNS: [&str; 7] = ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// Latencies by kind of operation.
pub fn latencies(summary: &Summary) -> Table {
    let mut table = Table::new(["", "operations", "per second"].into_iter().chain(LATENCY_COLUMNS));
    let mut row = |name: &str, latency: &Latency| {
        let rate = latency.count as f64 / summary.seconds.max(1e-9);
        table.row(
            [name.to_string(), whole(latency.count), short(rate)].into_iter().chain(latency_cells(latency)),
        );
    };
    for kind in &summary.kinds {
        row(kind.kind.name(), &kind.latency);
    }
    if summary.kinds.len() != 1 {
        row("all", &summary.all);
    }
    table
}

/// Metrics of two servers and their ratios.
pub fn comparison(versus: &Versus) -> Table {
    let mut table = Table::new(["", "A", "B", "A / B", "p10 to p90", "least to most", "pairs"]);
    for Compared { metric, unit, ratio: r, .. } in &versus.compared {
        let value = |spread: &Spread| match *unit {
            "ops/s" => short(spread.median),
            "µs" => micros(spread.median),
            _ => digits(spread.median),
        };
        let named = if *unit == "µs" { (*metric).to_string() } else { format!("{metric} ({unit})") };
        table.row([
            named,
            value(&r.a),
            value(&r.b),
            ratio(r.ratio.median),
            format!("{} to {}", digits(r.ratio.p10), digits(r.ratio.p90)),
            format!("{} to {}", digits(r.ratio.min), digits(r.ratio.max)),
            r.ratio.samples.to_string(),
        ]);
    }
    table
}

/// What each server takes at each size. Of two servers A and B stand below each other.
pub fn scaling(scaling: &Scaling) -> Table {
    let mut table = Table::new([
        "keys",
        "ops/s",
        "p50",
        "p99",
        "hits",
        "server CPU (µs/op)",
        "p10 to p90",
        "bytes per item",
        "of it index",
        "taken",
    ]);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    for size in &scaling.sizes {
        for (at, letter) in size.servers.iter().zip(["A", "B"]) {
            let At { server_cpu_us, memory, all, .. } = at;
            let named = if size.servers.len() > 1 { format!(" {letter}") } else { String::new() };
            let cpu = |text: fn(&Spread) -> String| or_none(server_cpu_us.as_ref().map(text));
            let bytes = |value: Option<f64>| or_none(value.map(short));
            table.row([
                format!("{}{named}", whole(size.keys)),
                short(all.ops_per_sec),
                micros(all.all.p50_us),
                micros(all.all.p99_us),
                or_none(all.hit_ratio.map(percent)),
                cpu(|spread| digits(spread.median)),
                cpu(|spread| format!("{} to {}", digits(spread.p10), digits(spread.p90))),
                bytes(memory.and_then(|m| m.bytes_per_item())),
                bytes(memory.and_then(|m| m.per_item(m.index_bytes))),
                bytes(memory.and_then(|m| m.per_item(m.memory_bytes))),
            ]);
        }
    }
    table
}

/// Ratios of two servers at each size; none of one alone.
pub fn scaling_ratios(scaling: &Scaling) -> Option<Table> {
    const METRICS: [&str; 4] = ["throughput", "p50", "p99", "server CPU"];
    let compared = scaling.sizes.iter().filter(|size| !size.compared.is_empty());
    let row = |size: &Size| {
        let of = |metric: &str| size.compared.iter().find(|c| c.metric == metric).map(|c| c.ratio);
        (whole(size.keys), METRICS.map(of).to_vec())
    };
    ratios("A / B at keys", METRICS, compared.map(row))
}

/// The demonstration, phase by phase.
pub fn demo(result: &DemoResult) -> Table {
    let mut table = Table::new([
        "phase",
        "operations",
        "per second",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "hits",
        "checked",
        "wrong",
    ]);
    for phase in &result.phases {
        let s = &phase.summary;
        table.row([
            phase.name.to_string(),
            whole(s.ops),
            short(s.ops_per_sec),
            micros(s.all.p50_us),
            micros(s.all.p90_us),
            micros(s.all.p99_us),
            micros(s.all.p999_us),
            s.hit_ratio.map_or("-".to_string(), percent),
            whole(s.verified),
            whole(s.wrong_count()),
        ]);
    }
    table
}

/// Where time goes inside the server.
pub fn stages(result: &DemoResult) -> Option<Table> {
    let stages = result.stages.as_ref().filter(|stages| !stages.is_empty())?;
    let total: f64 = stages.iter().map(|s| s.total_ns as f64).sum::<f64>().max(1.0);
    let mut table = Table::new(["stage", "requests", "share of time", "mean", "p50", "p99"]);
    for s in stages {
        table.row([
            s.name.clone(),
            whole(s.count),
            percent(s.total_ns as f64 / total),
            micros(s.total_ns as f64 / s.count.max(1) as f64 / 1e3),
            micros(s.p50_ns as f64 / 1e3),
            micros(s.p99_ns as f64 / 1e3),
        ]);
    }
    Some(table)
}

/// The lines below a table of latencies: what was checked, what failed, what it cost.
pub fn notes(summary: &Summary) -> Vec<String> {
    let s = summary;
    let mut notes = Vec::new();
    let hits = s.hit_ratio.map_or(String::new(), |share| format!("hits {} · ", percent(share)));
    notes.push(format!(
        "{:.1} s · {hits}{} values checked, {} · {}",
        s.seconds,
        whole(s.verified),
        counts("wrong", &s.wrong),
        counts("failed", &s.failed)
    ));
    let client = format!("client CPU {} µs/op", digits(s.client_cpu_us_per_op));
    notes.push(match s.server_cpu {
        Some(cpu) => format!(
            "server CPU {} µs/op (user {} + system {}), {} cores · {client}",
            digits(cpu.total_us),
            digits(cpu.user_us),
            digits(cpu.system_us),
            digits(cpu.cores)
        ),
        None => client,
    });
    if let Some(hits) = &s.by_box {
        let reads = s.kinds.iter().filter(|k| k.kind == OpKind::Get).map(|k| k.latency.count).sum::<u64>();
        notes.push(format!(
            "boxes answered {} of the gets: mean {} · p50 {} · p99 {}",
            percent(hits.count as f64 / reads.max(1) as f64),
            micros(hits.mean_us),
            micros(hits.p50_us),
            micros(hits.p99_us)
        ));
    }
    if s.sent_again > 0 {
        notes.push(format!("{} requests were sent again because nothing came", whole(s.sent_again)));
    }
    if s.conflicts > 0 {
        notes.push(format!("{} conditional writes met another's write", whole(s.conflicts)));
    }
    if let Some(lag) = &s.send_lag {
        notes.push(format!(
            "latencies count from the intended start; the generator sent p50 {} and p99 {} after it",
            micros(lag.p50_us),
            micros(lag.p99_us)
        ));
    }
    notes.extend(troubles(s));
    notes.extend(s.ended_early.iter().map(|cause| format!("! ended early: {cause}")));
    notes
}

/// What went wrong, in words.
pub fn troubles(summary: &Summary) -> impl Iterator<Item = String> {
    let unsent = (summary.unsent > 0).then(|| {
        format!(
            "the server could not follow: {} requests were due and never sent, and are in no latency above",
            whole(summary.unsent)
        )
    });
    unsent.into_iter().chain(summary.examples.iter().map(|example| format!("! {example}")))
}

fn counts(what: &str, by_kind: &std::collections::BTreeMap<&'static str, u64>) -> String {
    match by_kind.values().sum::<u64>() {
        0 => format!("0 {what}"),
        sum => {
            let kinds: Vec<String> =
                by_kind.iter().map(|(kind, n)| format!("{kind} {}", whole(*n))).collect();
            format!("{} {what} ({})", whole(sum), kinds.join(", "))
        }
    }
}

/// What was done, in a few lines.
pub fn setup(setup: &Setup) -> Vec<String> {
    let s = setup;
    let mut lines = Vec::new();
    for (name, server) in ["A", "B"].iter().zip(&s.servers) {
        let name = if s.servers.len() == 1 { "server" } else { name };
        let identity = server.identity.as_ref().map_or(String::new(), |text| format!(" · {text}"));
        lines.push(format!("{name} {}{identity}", server.target));
        lines.extend(server.cpu_unknown.iter().map(|reason| format!("  {reason}")));
    }
    let ttl =
        if s.workload.ttl_s > 0 { format!(" · {} s to live", s.workload.ttl_s) } else { String::new() };
    let multi = if s.workload.multiget > 1 {
        format!(" · {} keys per get", s.workload.multiget)
    } else {
        String::new()
    };
    lines.push(format!(
        "{} · {} keys of {} B, {} · values {} B{ttl}{multi}",
        s.workload.mix, s.keys, s.key_size, s.workload.popularity, s.workload.values
    ));
    let pace = match s.pace {
        Pace::Open { rate, poisson } => {
            format!("open loop, {}/s {}", short(rate), if poisson { "Poisson" } else { "constant" })
        }
        Pace::Closed { think_ns: 0 } => "closed loop".to_string(),
        Pace::Closed { think_ns } => format!("closed loop with {} pause", micros(think_ns as f64 / 1e3)),
    };
    lines.push(format!(
        "{pace} · {} connections × {} under way (batch {}) · {} client thread{}{} · checks: {} · seed {}",
        s.connections,
        s.pipeline,
        s.batch,
        s.threads,
        if s.threads == 1 { "" } else { "s" },
        if s.spin { ", spinning" } else { "" },
        if s.strict { "strict" } else { "values" },
        s.seed
    ));
    lines
}

/// The demonstration's result for the terminal.
pub fn demo_text(result: &DemoResult) -> String {
    let mut out = demo(result).to_string();
    if let Some(stages) = stages(result) {
        write!(out, "\n{stages}").expect("a string takes any text");
    }
    let (checked, wrong, failed) = result.counts();
    write!(
        out,
        "\n  {} values checked, {} wrong, {} operations failed, in {:.1} s\n",
        whole(checked),
        whole(wrong),
        whole(failed),
        result.seconds
    )
    .expect("a string takes any text");
    out
}
