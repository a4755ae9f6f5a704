//! What a sweep prints and draws.

use super::cell::{Case, Spread};
use super::{Row, Sweep};
use bench::report::axis::{Axis, Scale, Unit};
use bench::report::fit::{Curve, Dot, Fit};
use bench::report::{Block, Report, Section, Table, environment};
use std::io::{self, Write};

/// On the terminal.
pub fn print(sweep: &Sweep, rows: &[Row]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if sweep.json {
        let value = serde_json::json!({
            "setup": setup(sweep), "rows": rows, "environment": environment::facts(),
        });
        return writeln!(out, "{value}");
    }
    writeln!(out, "{}\n\n{}", setup(sweep), table(sweep, rows))
}

/// The page with its plots and the table.
pub fn page(sweep: &Sweep, rows: &[Row]) -> Report {
    let plots: Vec<Fit> = sweep.cases().into_iter().map(|case| plot(sweep, rows, case)).collect();
    let furthest = rows.iter().map(|row| best(sweep, row) - row.together.mean).fold(0.0, f64::max);
    let blocks = plots.iter().map(|plot| Block::Plot(plot.draw())).collect();
    Report {
        title: "Cache size and skew".to_owned(),
        subtitle: setup(sweep),
        verdict: (
            true,
            format!("at most {:.1} points below the best that any policy could do", 100.0 * furthest),
        ),
        sections: vec![
            Section { title: "Measured (points) and theory (lines)".to_owned(), blocks },
            Section { title: "Figures".to_owned(), blocks: vec![Block::Table(table(sweep, rows))] },
        ],
        environment: environment::facts(),
    }
}

fn setup(sweep: &Sweep) -> String {
    let boxes = match sweep.levels {
        1 => format!("boxes before the home: {}", sweep.tors),
        _ => format!("boxes: {}, and one above", sweep.tors),
    };
    format!(
        "{boxes}; {} keys, {} requests per second at each box, {} % writes where there are any; of {} seeds the mean, lowest and highest\n\
         shares of reads that boxes answer, in percent, beside the best that any policy could do",
        sweep.keys, sweep.rate, sweep.writes, sweep.seeds
    )
}

/// What the boxes of a row could answer at best.
fn best(sweep: &Sweep, row: &Row) -> f64 {
    if sweep.levels == 1 { row.theory } else { row.theory_both }
}

fn name(sweep: &Sweep, case: Case) -> String {
    let what = match (case.leases, case.writes) {
        (false, _) => "policy alone",
        (true, false) => "with leases",
        (true, true) => "with leases and writes",
    };
    match (sweep.levels, case.exclusive) {
        (1, _) => what.to_owned(),
        (_, false) => format!("inclusive, {what}"),
        (_, true) => format!("exclusive, {what}"),
    }
}

fn table(sweep: &Sweep, rows: &[Row]) -> Table {
    let cases = sweep.cases();
    let mut columns = vec!["skew".to_owned(), "copies".to_owned()];
    for case in &cases {
        let name = name(sweep, *case);
        match sweep.levels {
            1 => columns.extend([name, "theory".to_owned()]),
            _ => columns.extend([
                format!("{name}: below + above"),
                "together".to_owned(),
                "one box of both".to_owned(),
            ]),
        }
    }
    let mut table = Table::new(columns);
    for cell in rows.chunks(cases.len()) {
        let mut line = vec![cell[0].skew.to_string(), cell[0].copies.to_string()];
        for row in cell {
            if sweep.levels == 2 {
                line.push(format!("{} + {}", percent(row.tors.mean), percent(row.root.mean)));
            }
            line.extend([spread(&row.together), percent(best(sweep, row))]);
        }
        table.row(line);
    }
    table
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn spread(spread: &Spread) -> String {
    format!("{} ({}–{})", percent(spread.mean), percent(spread.low), percent(spread.high))
}

fn plot(sweep: &Sweep, rows: &[Row], case: Case) -> Fit {
    let curve = |skew: &f64| {
        let rows = rows.iter().filter(|row| row.case == case && row.skew == *skew);
        let mut rows: Vec<&Row> = rows.collect();
        rows.sort_by_key(|row| row.copies);
        let dot = |row: &&Row| {
            let Spread { mean, low, high } = row.together;
            Dot { x: row.copies as f64, y: mean, spread: (low, high) }
        };
        Curve {
            name: skew.to_string(),
            expected: rows.iter().map(|row| (row.copies as f64, best(sweep, row))).collect(),
            measured: rows.iter().map(dot).collect(),
        }
    };
    Fit {
        title: format!("Reads answered over copies, {}", name(sweep, case)),
        x: (Scale::Log, Unit::Count),
        y: Axis::exact(Scale::Linear, Unit::Share, 0.0, 1.0),
        curves: sweep.skews.iter().map(curve).collect(),
    }
}
