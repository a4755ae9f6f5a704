//! The re-placement run as an SVG: three panels over the requests around each change.

use super::{Row, changes};
use std::fmt::Write;

/// Requests shown before and behind a change.
const BEFORE: usize = 6;
const BEHIND: usize = 12;

const LEFT: f64 = 84.0;
const STEP: f64 = 21.0;
const GAP: f64 = 42.0;
const PANEL: f64 = 150.0;
const BETWEEN: f64 = 78.0;
const TOP: f64 = 96.0;
/// Series: with updating, and without.
const COLOURS: [&str; 2] = ["#1d4ed8", "#d97706"];

/// Title, note, and what is drawn of a request.
type Panel = (&'static str, &'static str, fn(&Row) -> f64);

/// Whether request `index` of a run is near a change.
pub fn shown(requests: usize, index: usize) -> bool {
    let (away, back) = changes(requests);
    [away, back].iter().any(|&change| index + BEFORE >= change && index < change + BEHIND)
}

/// The plot.
pub fn svg(with: &[Row], without: &[Row], caption: &str) -> String {
    let places = places(with.len());
    let width = places.last().map_or(0.0, |place| place.1) + 40.0;
    let height = TOP + 3.0 * (PANEL + BETWEEN) + 34.0;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' \
         font-family='system-ui, sans-serif' font-size='12' fill='#1f2937'>\
         <rect width='100%' height='100%' fill='white'/>\
         <text x='16' y='26' font-size='16' font-weight='600'>A compute unit is taken away and given back</text>\
         <text x='16' y='44' fill='#4b5563'>{caption}</text>"
    );
    legend(&mut out);
    let panels: [Panel; 3] = [
        (
            "Measured: everything but the kernel, µs",
            "Both memories are ordinary memory here: a crossing costs a copy, not a round trip over PCIe.",
            |row| row.rest.0 as f64 / 1e3,
        ),
        ("Counted: bytes that crossed, KB", "Exact, and the same in every run.", |row| {
            row.bytes() as f64 / 1e3
        }),
        (
            "Modelled: time of the crossings, µs",
            "Not measured: 1250 ns for each transaction and 12.8 GB/s, the published PCIe figures (RPCAcc, Table I).",
            |row| row.modelled().0 as f64 / 1e3,
        ),
    ];
    for (number, (title, note, value)) in panels.into_iter().enumerate() {
        let top = TOP + 30.0 + number as f64 * (PANEL + BETWEEN);
        let values =
            [with, without].map(|rows| places.iter().map(|&(index, _)| value(&rows[index])).collect());
        let moved = [with, without].map(|rows| places.iter().map(|&(index, _)| rows[index].moved).collect());
        panel(&mut out, top, (title, note), &places, with.len(), &values, &moved);
    }
    out.push_str("</svg>\n");
    out
}

/// The requests shown, and where along x.
fn places(requests: usize) -> Vec<(usize, f64)> {
    let mut places = Vec::new();
    let mut x = LEFT + STEP;
    for index in (0..requests).filter(|&index| shown(requests, index)) {
        if places.last().is_some_and(|&(last, _)| last + 1 != index) {
            x += GAP;
        }
        places.push((index, x));
        x += STEP;
    }
    places
}

fn legend(out: &mut String) {
    let names = ["with automatic field updating", "without"];
    for (number, name) in names.into_iter().enumerate() {
        let x = 20.0 + 230.0 * number as f64;
        let _ = write!(
            out,
            "<circle cx='{x}' cy='66' r='4' fill='{}'/><text x='{}' y='70'>{name}</text>",
            COLOURS[number],
            x + 10.0
        );
    }
    out.push_str(
        "<circle cx='340' cy='66' r='5.5' fill='none' stroke='#111827' stroke-width='1.5'/>\
         <text x='352' y='70'>the request had to move its avatar</text>",
    );
}

fn panel(
    out: &mut String,
    top: f64,
    (title, note): (&str, &str),
    places: &[(usize, f64)],
    requests: usize,
    values: &[Vec<f64>; 2],
    moved: &[Vec<bool>; 2],
) {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let tick = nice(most / 3.0);
    // Room above for the words at the changes.
    let full = (1.15 * most / tick).ceil().max(1.0) * tick;
    let y = |value: f64| top + PANEL * (1.0 - value / full);
    let right = places.last().map_or(LEFT, |place| place.1) + STEP;
    let _ = write!(
        out,
        "<text x='16' y='{}' font-weight='600'>{title}</text><text x='16' y='{}' fill='#6b7280' font-size='11'>{note}</text>",
        top - 24.0,
        top - 9.0
    );
    for line in 0..=(full / tick).round() as u32 {
        let value = f64::from(line) * tick;
        let _ = write!(
            out,
            "<path d='M{LEFT} {0:.1}H{right}' stroke='#e5e7eb'/><text x='{1}' y='{2:.1}' text-anchor='end'>{value}</text>",
            y(value),
            LEFT - 8.0,
            y(value) + 4.0
        );
    }
    let (away, back) = changes(requests);
    for (change, word) in [(away, "unit taken away"), (back, "unit given back")] {
        if let Some(&(_, x)) = places.iter().find(|place| place.0 == change) {
            let x = x - STEP / 2.0;
            let _ = write!(
                out,
                "<path d='M{x} {top}v{PANEL}' stroke='#9ca3af' stroke-dasharray='4 3'/>\
                 <text x='{}' y='{}' fill='#6b7280' font-size='11'>{word}</text>",
                x + 4.0,
                top + 10.0
            );
        }
    }
    for &(index, x) in places.iter().filter(|place| place.0 % 3 == 0) {
        let _ = write!(
            out,
            "<text x='{x}' y='{}' text-anchor='middle' font-size='11'>{index}</text>",
            top + PANEL + 16.0
        );
    }
    let _ = write!(
        out,
        "<text x='{right}' y='{}' text-anchor='end' fill='#6b7280' font-size='11'>request</text>",
        top + PANEL + 30.0
    );
    for number in [1, 0] {
        series(out, places, &values[number], &moved[number], COLOURS[number], &y);
    }
}

fn series(
    out: &mut String,
    places: &[(usize, f64)],
    values: &[f64],
    moved: &[bool],
    colour: &str,
    y: &dyn Fn(f64) -> f64,
) {
    let mut path = String::new();
    for (at, (&(index, x), &value)) in places.iter().zip(values).enumerate() {
        let joined = at > 0 && places[at - 1].0 + 1 == index;
        let _ = write!(path, "{}{x} {:.1}", if joined { 'L' } else { 'M' }, y(value));
    }
    let _ = write!(out, "<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.5'/>");
    for ((&(_, x), &value), &moved) in places.iter().zip(values).zip(moved) {
        let cy = y(value);
        let _ = write!(out, "<circle cx='{x}' cy='{cy:.1}' r='3' fill='{colour}'/>");
        if moved {
            let _ = write!(
                out,
                "<circle cx='{x}' cy='{cy:.1}' r='5.5' fill='none' stroke='#111827' stroke-width='1.5'/>"
            );
        }
    }
}

/// A round number at least as large.
fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&nice| nice >= step).unwrap_or(power)
}
