//! The 99th percentile over the load, one panel per mix, as an SVG.

use std::fmt::Write;

/// A named line: load and nanoseconds.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A mix.
pub struct Panel {
    pub title: &'static str,
    pub lines: Vec<Line>,
}

const COLOURS: [&str; 7] = ["#6b7280", "#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#111827"];
const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 86.0;
const GAP: f64 = 62.0;

/// All panels side by side on one logarithmic scale.
pub fn svg(panels: &[Panel], caption: &str) -> String {
    let values = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let low = values().map(|point| point.1).fold(f64::INFINITY, f64::min).log10().floor();
    let high = values().map(|point| point.1).fold(0.0, f64::max).log10().ceil();
    let (from, to) = values().fold((1f64, 0f64), |(from, to), point| (from.min(point.0), to.max(point.0)));
    let (width, height) = (LEFT + panels.len() as f64 * (WIDTH + GAP), TOP + HEIGHT + 92.0);
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' \
         font-family='system-ui, sans-serif' font-size='12' fill='#1f2937'><rect width='100%' height='100%' fill='white'/>\
         <text x='16' y='26' font-size='16' font-weight='600'>99th percentile of latency over load</text>\
         <text x='16' y='46' fill='#4b5563'>{caption}</text>"
    );
    for (number, panel) in panels.iter().enumerate() {
        let left = LEFT + number as f64 * (WIDTH + GAP);
        let x = |load: f64| left + (load - from) / (to - from) * WIDTH;
        let y = |ns: f64| TOP + HEIGHT * (1.0 - (ns.log10() - low) / (high - low));
        axes(&mut out, panel.title, left, (low as i32, high as i32), (&x, &y), &panel.lines);
        for (line, colour) in panel.lines.iter().zip(COLOURS) {
            let mut path = String::new();
            for (at, &(load, ns)) in line.points.iter().enumerate() {
                let _ = write!(path, "{}{:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, x(load), y(ns));
            }
            let _ = write!(out, "<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.8'/>");
            for &(load, ns) in &line.points {
                let _ =
                    write!(out, "<circle cx='{:.1}' cy='{:.1}' r='2.6' fill='{colour}'/>", x(load), y(ns));
            }
        }
    }
    legend(&mut out, panels);
    out.push_str("</svg>\n");
    out
}

type Place<'a> = &'a dyn Fn(f64) -> f64;

fn axes(
    out: &mut String,
    title: &str,
    left: f64,
    (low, high): (i32, i32),
    (x, y): (Place, Place),
    lines: &[Line],
) {
    let _ = write!(out, "<text x='{left}' y='{}' font-weight='600'>{title}</text>", TOP - 12.0);
    for power in low..=high {
        let (ns, label) = (10f64.powi(power), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        let label = label.get(usize::try_from(power - 3).unwrap_or(usize::MAX)).copied().unwrap_or("");
        let _ = write!(
            out,
            "<path d='M{left} {0:.1}h{WIDTH}' stroke='#e5e7eb'/><text x='{1}' y='{2:.1}' text-anchor='end'>{label}</text>",
            y(ns),
            left - 6.0,
            y(ns) + 4.0
        );
    }
    for &(load, _) in lines.first().map_or(&[][..], |line| &line.points) {
        let _ = write!(
            out,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{load}</text>",
            x(load),
            TOP + HEIGHT + 18.0
        );
    }
    let _ = write!(
        out,
        "<text x='{}' y='{}' text-anchor='end' fill='#6b7280' font-size='11'>load</text>",
        left + WIDTH,
        TOP + HEIGHT + 33.0
    );
}

fn legend(out: &mut String, panels: &[Panel]) {
    let mut x = LEFT;
    let y = TOP + HEIGHT + 66.0;
    for (line, colour) in panels.first().map_or(&[][..], |panel| &panel.lines).iter().zip(COLOURS) {
        let _ = write!(
            out,
            "<circle cx='{x}' cy='{}' r='5' fill='{colour}'/><text x='{}' y='{y}'>{}</text>",
            y - 4.0,
            x + 10.0,
            line.name
        );
        x += 34.0 + 7.0 * line.name.len() as f64;
    }
}
