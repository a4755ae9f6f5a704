//! What a page says as rows for other programs: each cell of its tables, and each point of its plots.
//!
//! | column | of a table | of a plot |
//! |---|---|---|
//! | `part` | the heading of its part | the same |
//! | `kind` | `table` | `plot` |
//! | `name` | its number in the part, from 1; of one that is folded its heading | its heading |
//! | `row` | what stands in the row's first cell | the line's name |
//! | `column` | the column's heading | where on the x axis, in base units |
//! | `value` | the number, in base units; empty if it is none | the height, in base units |
//! | `unit` | `s`, `B`, `%`, `×`, or nothing | the same |
//! | `text` | what was printed | nothing |
//!
//! Base units are seconds, bytes and single things: `12.3k` is 12300, `1.2 µs` 1.2e-06 s. A cell with more than a number in it
//! (`1.86k of 1.88k`) is its text alone.

use super::html::{Block, Report};
use super::table::Table;
use std::io::{self, Write};

/// A plot: how it looks, and what it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// An SVG element; empty where there is none.
    pub svg: String,
    /// Its heading.
    pub title: String,
    /// What y is counted in: `s`, `%`, or nothing.
    pub unit: &'static str,
    /// What is drawn.
    pub points: Vec<Point>,
}

/// A point of a plot, in base units.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The line's name, or the bar's.
    pub series: String,
    /// Where on the x axis; none of a bar.
    pub x: Option<f64>,
    /// The height.
    pub y: f64,
}

impl Drawing {
    /// A picture whose points are told nowhere but in it.
    pub fn picture(svg: String) -> Drawing {
        Drawing { svg, ..Drawing::default() }
    }
}

/// A row, as the head of the file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Heading of the part of the page.
    pub part: String,
    /// `table` or `plot`.
    pub kind: &'static str,
    /// Which of these.
    pub name: String,
    /// Which row, line or bar.
    pub row: String,
    /// Which column, or where on the x axis.
    pub column: String,
    /// The number, if it is one.
    pub value: Option<f64>,
    /// What it is counted in.
    pub unit: &'static str,
    /// What was printed.
    pub text: String,
}

/// The names of a row's columns.
pub const COLUMNS: [&str; 8] = ["part", "kind", "name", "row", "column", "value", "unit", "text"];

/// The rows of a page, from its top.
pub fn rows(report: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    for section in &report.sections {
        let mut tables = 0;
        for block in &section.blocks {
            match block {
                Block::Table(table) => {
                    tables += 1;
                    cells(&section.title, &tables.to_string(), table, &mut rows);
                }
                Block::Folded(title, table) => cells(&section.title, title, table, &mut rows),
                Block::Plot(plot) => points(&section.title, plot, &mut rows),
                Block::Pair(left, right) => {
                    [left, right].into_iter().for_each(|plot| points(&section.title, plot, &mut rows));
                }
                Block::Text(_) | Block::Tiles(_) | Block::Moved(_) => {}
            }
        }
    }
    rows
}

fn cells(part: &str, name: &str, table: &Table, rows: &mut Vec<Row>) {
    for row in table.rows() {
        for (column, text) in table.columns().iter().zip(row).skip(1) {
            let number = number(text);
            rows.push(Row {
                part: part.to_owned(),
                kind: "table",
                name: name.to_owned(),
                row: row[0].clone(),
                column: column.clone(),
                value: number.map(|(value, _)| value),
                unit: number.map_or("", |(_, unit)| unit),
                text: text.clone(),
            });
        }
    }
}

fn points(part: &str, plot: &Drawing, rows: &mut Vec<Row>) {
    rows.extend(plot.points.iter().map(|point| Row {
        part: part.to_owned(),
        kind: "plot",
        name: plot.title.clone(),
        row: point.series.clone(),
        column: point.x.map(|x| x.to_string()).unwrap_or_default(),
        value: Some(point.y).filter(|y| y.is_finite()),
        unit: plot.unit,
        text: String::new(),
    }));
}

/// The number in a cell that is nothing else, and its unit, both as base units.
fn number(text: &str) -> Option<(f64, &'static str)> {
    let text = text.trim();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\u{202F}' | '\u{A0}');
    let sign = text.strip_prefix(['-', '−']);
    let rest = sign.or_else(|| text.strip_prefix('+')).unwrap_or(text);
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let digits: String = rest[..end].chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let value: f64 = digits.parse().ok()?;
    let (by, unit) = match rest[end..].trim() {
        "" => (1.0, ""),
        "k" => (1e3, ""),
        "M" => (1e6, ""),
        "G" => (1e9, ""),
        "ns" => (1e-9, "s"),
        "µs" => (1e-6, "s"),
        "ms" => (1e-3, "s"),
        "s" => (1.0, "s"),
        "min" => (60.0, "s"),
        "B" => (1.0, "B"),
        "KB" | "kB" => (1e3, "B"),
        "MB" => (1e6, "B"),
        "GB" => (1e9, "B"),
        "KiB" => (1024.0, "B"),
        "MiB" => (1024.0 * 1024.0, "B"),
        "GiB" => (1024.0 * 1024.0 * 1024.0, "B"),
        "%" => (1.0, "%"),
        "×" | "x" => (1.0, "×"),
        _ => return None,
    };
    Some((if sign.is_some() { -value * by } else { value * by }, unit))
}

/// The page's rows as CSV (RFC 4180), the names of columns first.
///
/// # Errors
/// It cannot be written.
pub fn write_csv(report: &Report, out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for row in rows(report) {
        let value = row.value.map(|value| value.to_string()).unwrap_or_default();
        csv.write_record([
            &row.part,
            row.kind,
            &row.name,
            &row.row,
            &row.column,
            &value,
            row.unit,
            &row.text,
        ])?;
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Section;
    use proptest::prelude::*;

    fn report(blocks: Vec<Block>) -> Report {
        Report {
            title: "t".to_owned(),
            subtitle: String::new(),
            verdict: (true, String::new()),
            sections: vec![Section { title: "p, with \"words\"".to_owned(), blocks }],
            environment: Vec::new(),
        }
    }

    #[test]
    fn cells_become_numbers_in_base_units() {
        for (text, wanted) in [
            ("12.3k", Some((12_300.0, ""))),
            ("1.50 µs", Some((1.5e-6, "s"))),
            ("99.98 %", Some((99.98, "%"))),
            ("0.25×", Some((0.25, "×"))),
            ("2.0 KiB", Some((2048.0, "B"))),
            ("1\u{202F}234\u{202F}567", Some((1_234_567.0, ""))),
            ("-3", Some((-3.0, ""))),
            ("1.86k of 1.88k", None),
            ("100 %, ok", None),
            ("–", None),
            ("", None),
            ("get", None),
            ("> 99.99 %", None),
        ] {
            assert_eq!(number(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_page_is_rows_that_a_reader_of_csv_takes() {
        let mut table = Table::new(["", "p50", "note"]);
        table.row(["a", "1.00 ms", "quiet, \"x\"\nand more"]);
        let points = vec![
            Point { series: "get".to_owned(), x: Some(0.5), y: 2.0 },
            Point { series: "get".to_owned(), x: Some(0.9), y: f64::NAN },
        ];
        let plot = Drawing { svg: "<svg/>".to_owned(), title: "over".to_owned(), unit: "s", points };
        let page = report(vec![Block::Table(table), Block::Text("said".to_owned()), Block::Plot(plot)]);
        let mut bytes = Vec::new();
        write_csv(&page, &mut bytes).expect("memory");
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        assert_eq!(reader.headers().expect("a head").iter().collect::<Vec<_>>(), COLUMNS);
        let read: Vec<Vec<String>> = reader
            .records()
            .map(|record| record.expect("a row").iter().map(str::to_owned).collect())
            .collect();
        let part = "p, with \"words\"";
        assert_eq!(read[0], [part, "table", "1", "a", "p50", "0.001", "s", "1.00 ms"]);
        assert_eq!(read[1], [part, "table", "1", "a", "note", "", "", "quiet, \"x\"\nand more"]);
        assert_eq!(read[2], [part, "plot", "over", "get", "0.5", "2", "s", ""]);
        assert_eq!(read[3], [part, "plot", "over", "get", "0.9", "", "s", ""]);
        assert_eq!(read.len(), 4);
    }

    proptest! {
        /// What the printer of figures prints is read back, within its three digits.
        #[test]
        fn printed_figures_are_read_back(x in 1.0f64..1e12) {
            use crate::report::format;
            let near = |text: &str, wanted: f64| {
                let (value, _) = number(text).expect("a number");
                (value - wanted).abs() <= wanted * 0.006
            };
            prop_assert!(near(&format::short(x), x));
            prop_assert!(near(&format::digits(x), x));
            prop_assert_eq!(number(&format::whole(x as u64)), Some(((x as u64) as f64, "")));
        }
    }
}
