//! Pictures for the page: the path of each kind of request, and the spans of one.

use super::clients::Kind;
use super::path::{CLIENT, Hop};
use super::show::Row;
use bench::report::format::{micros, percent, short};
use bench::report::html::escape;
use bench::report::plot::frame;
use serve::trace::Trace;
use std::fmt::Write as _;

/// Of a picture.
const WIDTH: f64 = 1040.0;
/// What stands before each row.
const LABEL: f64 = 158.0;
/// Of a hop, with the arrow to the next.
const STEP: f64 = 126.0;
/// The arrow.
const ARROW: f64 = 18.0;
/// Of a row of hops.
const ROW: f64 = 62.0;
/// Of the line of a span.
const LINE: f64 = 22.0;
/// Characters of a hop's name that fit.
const NAME: usize = 16;

/// A hop as it is drawn.
struct Step {
    name: String,
    value: String,
    place: &'static str,
    tip: String,
}

/// Where a request may be: as traces say it, the page's colour of it, and in words.
const PLACES: [(&str, &str, &str); 6] = [
    ("client", "c3", "client"),
    ("edge", "c0", "edge"),
    ("engine", "c1", "engine"),
    ("host", "c2", "host"),
    ("acc", "c5", "accelerator"),
    ("chain", "c4", "chain"),
];

/// The page's colour of a place.
fn colour(name: &str) -> &'static str {
    let known = PLACES.iter().find(|(known, ..)| *known == name);
    known.unwrap_or(&PLACES[0]).1
}

fn place(name: &str) -> &'static str {
    let known = PLACES.iter().find(|(known, ..)| *known == name);
    known.unwrap_or(&PLACES[0]).0
}

/// What a row's requests pass.
fn steps(row: &Row) -> Vec<Step> {
    if row.kind == Some(Kind::InNetwork) {
        let hits = row.from_box as f64 / row.answered.max(1) as f64;
        let step = |name: &str, value: String, place, tip: &str| Step {
            name: name.to_owned(),
            value,
            place,
            tip: tip.to_owned(),
        };
        return vec![
            step(
                "client",
                micros(row.latency.mean_us),
                "client",
                "from before a request was sent until its reply was read, on average",
            ),
            step("box 1, box 2", percent(hits), "edge", "the share that they answered: they had a copy"),
            step(
                "cache/home",
                percent(1.0 - hits),
                "engine",
                "all others; from then on the boxes have a copy",
            ),
        ];
    }
    let client = Step {
        name: "client".to_owned(),
        value: micros(row.latency.mean_us),
        place: "client",
        tip: "from before a request was sent until its reply was read, on average".to_owned(),
    };
    let hop = |hop: &Hop| Step {
        name: hop.name(),
        value: micros(hop.us),
        place: place(&hop.place),
        tip: format!("{}: {}", hop.place, hop.parts.join(", ")),
    };
    std::iter::once(client).chain(row.hops.iter().filter(|hop| hop.place != CLIENT).map(hop)).collect()
}

fn cut(text: &str) -> String {
    match text.chars().count() > NAME {
        true => text.chars().take(NAME - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// A row for each kind of requests: its hops from the client on, those that do not fit below.
pub fn paths(rows: &[Row]) -> String {
    let fit = ((WIDTH - LABEL) / STEP) as usize;
    let mut body = String::new();
    let mut y = 34.0;
    for (at, (_, colour, name)) in PLACES.into_iter().enumerate() {
        let x = LABEL + 110.0 * at as f64;
        let _ = write!(
            body,
            "<rect class=\"{} key\" x=\"{x:.0}\" y=\"10\" width=\"12\" height=\"12\" rx=\"3\"/><text class=\"tick\" x=\"{:.0}\" y=\"20\">{name}</text>",
            colour,
            x + 18.0
        );
    }
    for row in rows {
        let each = |bytes: u64| short(bytes as f64 / row.answered.max(1) as f64);
        let _ = write!(
            body,
            "<text class=\"label\" x=\"0\" y=\"{:.0}\">{}</text><text class=\"tick\" x=\"0\" y=\"{:.0}\">{} B → {} B</text>",
            y + 20.0,
            escape(row.name),
            y + 37.0,
            each(row.sent),
            each(row.received)
        );
        for (at, step) in steps(row).iter().enumerate() {
            if at > 0 && at % fit == 0 {
                y += ROW - 10.0;
            }
            hop(&mut body, step, LABEL + STEP * (at % fit) as f64, y, at > 0);
        }
        y += ROW;
    }
    frame("the path of each kind of request", WIDTH, y) + &body + "</svg>"
}

fn hop(out: &mut String, step: &Step, x: f64, y: f64, has_arrow: bool) {
    if has_arrow {
        let (from, to, middle) = (x - ARROW + 2.0, x - 3.0, y + 23.0);
        let _ =
            write!(out, "<path class=\"line grid\" d=\"M{from:.1} {middle:.1}H{to:.1}m-4 -4l4 4l-4 4\"/>");
    }
    let colour = colour(step.place);
    let (width, centre) = (STEP - ARROW, x + (STEP - ARROW) / 2.0);
    let _ = write!(
        out,
        "<g><title>{}\n{}</title><rect class=\"{colour} key\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"46\" rx=\"7\" opacity=\"0.2\"/>\
         <text class=\"tick mid\" x=\"{centre:.1}\" y=\"{:.1}\">{}</text><text class=\"label mid\" x=\"{centre:.1}\" y=\"{:.1}\">{}</text></g>",
        escape(&step.name),
        escape(&step.tip),
        y + 18.0,
        escape(&cut(&step.name)),
        y + 36.0,
        escape(&step.value)
    );
}

/// A line for each span of a request.
pub fn waterfall(trace: &Trace) -> String {
    const NAMES: f64 = 330.0;
    const TIMES: f64 = 90.0;
    let (begin, spent) = (trace.begin_ns(), trace.spent_ns().max(1) as f64);
    let scale = (WIDTH - NAMES - TIMES) / spent;
    let mut body = String::new();
    for (at, span) in trace.spans.iter().enumerate() {
        let y = 8.0 + LINE * at as f64;
        let x = NAMES + (span.begin_ns - begin) as f64 * scale;
        let width = (span.spent_ns as f64 * scale).max(1.5);
        let text = y + 14.0;
        let _ = write!(
            body,
            "<text class=\"label\" x=\"{:.0}\" y=\"{text:.0}\">{}</text><text class=\"tick end\" x=\"{:.0}\" y=\"{text:.0}\">{}/{}</text>\
             <rect class=\"{} key\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"13\" rx=\"3\"><title>{}</title></rect>\
             <text class=\"tick end\" x=\"{WIDTH}\" y=\"{text:.0}\">{}</text>",
            12.0 * span.depth as f64,
            escape(&span.name),
            NAMES - 12.0,
            escape(&span.service),
            escape(&span.thread),
            colour(place(&span.place)),
            y + 3.0,
            escape(&span.place),
            micros(span.spent_ns as f64 / 1e3)
        );
    }
    let height = 16.0 + LINE * trace.spans.len() as f64;
    frame("the spans of one request", WIDTH, height) + &body + "</svg>"
}
