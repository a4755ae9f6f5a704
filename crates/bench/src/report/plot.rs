//! Plots as SVG: lines over an axis, and bars that share a whole. Colours are the page's (`var(--…)`).
//!
//! Bounds: one path element per series; series are at most some hundred points.

use super::StageBreakdown;
use super::axis::{Axis, Scale, Unit};
use super::data::{Drawing, Point};
use super::format;
use super::html::{STYLE, escape};
use std::fmt::Write;

/// A named line of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// (x, y) pairs; a y that is no number interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// What a line plot shows.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePlot {
    /// Its heading.
    pub title: String,
    /// How x runs, and in what.
    pub x: (Scale, Unit),
    /// How y runs, and in what.
    pub y: (Scale, Unit),
    /// The lines, in the order of their colours.
    pub lines: Vec<Line>,
    /// Whether the area under a single line is filled.
    pub filled: bool,
    /// Whether it takes the page's whole width rather than half.
    pub wide: bool,
}

/// Units are the page's pixels at its full width, so that text has one size everywhere.
const WIDE: f64 = 1024.0;
const NARROW: f64 = 505.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
/// Title and legend have a row each.
const TOP: f64 = 54.0;
const BOTTOM: f64 = 34.0;

/// Colours beyond this many lines repeat.
const COLOURS: usize = 4;

impl LinePlot {
    /// The plot.
    pub fn draw(&self) -> Drawing {
        let ((_, x_size), (unit, y_size)) = (self.x.1.base(), self.y.1.base());
        let point = |line: &Line, (x, y): &(f64, f64)| Point {
            series: line.name.clone(),
            x: Some(x * x_size),
            y: y * y_size,
        };
        let points = self.lines.iter().flat_map(|line| line.points.iter().map(move |at| point(line, at)));
        Drawing { svg: self.svg(), title: self.title.clone(), unit, points: points.collect() }
    }

    /// As an SVG element.
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let width = if self.wide { WIDE } else { NARROW };
        let y_axis = Axis::over(self.y.0, self.y.1, points().map(|p| p.1));
        let x_axis = match self.x.0 {
            Scale::Linear => {
                let ends = points().fold((f64::INFINITY, 0f64), |(l, h), p| (l.min(p.0), h.max(p.0)));
                Axis::exact(Scale::Linear, self.x.1, ends.0.min(ends.1), ends.1)
            }
            scale => Axis::over(scale, self.x.1, points().map(|p| p.0)),
        };
        let place = |p: &(f64, f64)| {
            let x = LEFT + x_axis.place(p.0) * (width - LEFT - RIGHT);
            (x, HEIGHT - BOTTOM - y_axis.place(p.1) * (HEIGHT - TOP - BOTTOM))
        };
        let mut out = open(&self.title, width, HEIGHT);
        grid(&mut out, (LEFT, width - RIGHT), (TOP, HEIGHT - BOTTOM), &x_axis, &y_axis);
        for (at, line) in self.lines.iter().enumerate() {
            let path = path(&line.points, place);
            let colour = at % COLOURS;
            if self.filled && self.lines.len() == 1 {
                fill(&mut out, &line.points, place);
            }
            put(&mut out, format_args!("<path class=\"line c{colour}\" d=\"{path}\"/>"));
            self.tips(&mut out, line, colour, place);
        }
        legend(&mut out, width, &self.lines);
        out.push_str("</svg>");
        out
    }

    /// Invisible dots that show their figures under the pointer; on a percentile curve the well-known ones are visible, all on a log axis,
    /// where they are the few that were asked for, and those without a neighbour, of which there is no line.
    fn tips(&self, out: &mut String, line: &Line, colour: usize, place: impl Fn(&(f64, f64)) -> (f64, f64)) {
        let is_there = |at: usize| line.points.get(at).is_some_and(|point| point.1.is_finite());
        for (at, point) in line.points.iter().enumerate().filter(|(_, p)| p.1.is_finite()) {
            let (x, y) = place(point);
            let is_alone = !(is_there(at + 1) || at > 0 && is_there(at - 1));
            let known = [0.5, 0.9, 0.99, 0.999, 0.9999].iter().any(|q| (point.0 - q).abs() < 1e-9);
            let shown = is_alone || self.x.0 == Scale::Log || self.x.0 == Scale::Nines && known;
            let (class, radius) = if shown { ("dot", 3.5) } else { ("tip", 7.0) };
            let text =
                format!("{}: {} at {}", line.name, figure(self.y.1, point.1), figure(self.x.1, point.0));
            put(
                out,
                format_args!(
                    "<circle class=\"{class} c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{}</title></circle>",
                    escape(&text)
                ),
            );
        }
    }
}

/// Plots as a file that needs nothing else: parts with a heading, in each a row below the other.
pub fn file<'p>(parts: impl IntoIterator<Item = (&'p str, Vec<Vec<&'p str>>)>) -> String {
    /// A heading and the room around it.
    const HEADING: f64 = 40.0;
    let (mut inner, mut whole) = (String::new(), (0f64, 0f64));
    let mut rows = Vec::new();
    for (title, its) in parts.into_iter().filter(|(_, its)| !its.is_empty()) {
        rows.extend((!title.is_empty()).then_some((Some(title), vec![])));
        rows.extend(its.into_iter().map(|row| (None, row)));
    }
    for (title, row) in rows {
        if let Some(title) = title {
            let (y, title) = (whole.1 + 26.0, escape(title));
            put(
                &mut inner,
                format_args!(
                    "<text class=\"title\" x=\"0\" y=\"{y}\" style=\"font-size:18px\">{title}</text>"
                ),
            );
            whole.1 += HEADING;
        }
        let mut left = 0.0;
        let top = whole.1;
        // Beside the last of an odd number there is none.
        for plot in row.into_iter().filter(|plot| !plot.is_empty()) {
            let (width, height) = size_of(plot);
            let at = format!("<svg x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" ");
            inner.push_str(&plot.replacen("<svg ", &at, 1));
            left += width;
            whole = (whole.0.max(left), whole.1.max(top + height));
        }
    }
    let (width, height) = whole;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" style=\"fill:var(--card)\"/>{inner}</svg>\n"
    )
}

/// Width and height of a plot of ours, as its view box says.
fn size_of(plot: &str) -> (f64, f64) {
    let sizes = plot.strip_prefix("<svg viewBox=\"0 0 ").and_then(|rest| rest.split_once('"'));
    let (width, height) = sizes.and_then(|(sizes, _)| sizes.split_once(' ')).expect("`frame` began it");
    [width, height].map(|size| size.parse().expect("`frame` wrote a number")).into()
}

fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Micros => format::micros(value),
        Unit::Seconds => format!("{value:.1} s"),
        Unit::Count => format::short(value),
        Unit::Share => format::percent(value),
        Unit::Quantile => format!("{:.4} %", value * 100.0),
    }
}

pub(super) fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a string takes any text");
}

/// How every drawing begins: so wide at most, and where the window is narrower no narrower than its letters can be read. `label` is what who does not see it is
/// told.
pub fn frame(label: &str, width: f64, height: f64) -> String {
    let class = if width > NARROW { " class=\"legible\"" } else { "" };
    let label = escape(label);
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\"{class} style=\"max-width:{width}px\" role=\"img\" aria-label=\"{label}\">"
    )
}

pub(super) fn open(title: &str, width: f64, height: f64) -> String {
    let text = format!("<text class=\"title\" x=\"{LEFT}\" y=\"20\">{}</text>", escape(title));
    frame(title, width, height) + &text
}

/// Lines and labels at the ticks of both axes, from left to right and from top to bottom.
pub(super) fn grid(
    out: &mut String,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    x_axis: &Axis,
    y_axis: &Axis,
) {
    let mut all = String::new();
    for (place, label) in y_axis.ticks() {
        let y = bottom - place * (bottom - top);
        put(&mut all, format_args!("M{left} {y:.1}H{right}"));
        put(
            out,
            format_args!(
                "<text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left - 8.0,
                y + 4.0,
                escape(&label)
            ),
        );
    }
    for (place, label) in x_axis.ticks() {
        let x = left + place * (right - left);
        put(&mut all, format_args!("M{x:.1} {top}V{bottom}"));
        put(
            out,
            format_args!(
                "<text class=\"tick mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 18.0,
                escape(&label)
            ),
        );
    }
    put(out, format_args!("<path class=\"grid\" d=\"{all}\"/>"));
}

pub(super) fn path(points: &[(f64, f64)], place: impl Fn(&(f64, f64)) -> (f64, f64)) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for point in points {
        if !point.1.is_finite() {
            pen_down = false;
            continue;
        }
        let (x, y) = place(point);
        put(&mut path, format_args!("{}{x:.1} {y:.1}", if pen_down { "L" } else { "M" }));
        pen_down = true;
    }
    path
}

fn fill(out: &mut String, points: &[(f64, f64)], place: impl Fn(&(f64, f64)) -> (f64, f64)) {
    let whole: Vec<(f64, f64)> = points.iter().filter(|p| p.1.is_finite()).map(&place).collect();
    let (Some(first), Some(last)) = (whole.first(), whole.last()) else { return };
    let bottom = HEIGHT - BOTTOM;
    let top: String = whole.iter().map(|(x, y)| format!("L{x:.1} {y:.1}")).collect();
    put(
        out,
        format_args!("<path class=\"area\" d=\"M{:.1} {bottom}{top}L{:.1} {bottom}Z\"/>", first.0, last.0),
    );
}

fn legend(out: &mut String, width: f64, lines: &[Line]) {
    if lines.len() < 2 {
        return;
    }
    let mut right = width - RIGHT;
    for (at, line) in lines.iter().enumerate().rev() {
        // About seven units per letter at this size; names are short.
        right -= line.name.chars().count() as f64 * 7.0 + 38.0;
        put(
            out,
            format_args!(
                "<path class=\"c{} line\" d=\"M{right:.1} 33h24\"/><text class=\"tick\" x=\"{:.1}\" y=\"37\">{}</text>",
                at % COLOURS,
                right + 29.0,
                escape(&line.name)
            ),
        );
    }
}

/// Where time goes: a bar that the stages share by their total time, and below it a line of figures for each.
pub fn stage_bar(title: &str, stages: &[StageBreakdown]) -> Drawing {
    let point = |stage: &StageBreakdown| Point {
        series: stage.name.clone(),
        x: None,
        y: stage.total_ns as f64 / 1e9,
    };
    let points = stages.iter().map(point).collect();
    Drawing { svg: bar(title, stages), title: title.to_owned(), unit: "s", points }
}

fn bar(title: &str, stages: &[StageBreakdown]) -> String {
    const ROW: f64 = 24.0;
    let whole: f64 = stages.iter().map(|s| s.total_ns as f64).sum::<f64>().max(1.0);
    let height = 100.0 + ROW * stages.len() as f64;
    let mut out = open(title, WIDE, height);
    let mut x = LEFT;
    for (at, stage) in stages.iter().enumerate() {
        let share = stage.total_ns as f64 / whole;
        let width = share * (WIDE - LEFT - RIGHT);
        let tone = 1.0 - 0.75 * at as f64 / stages.len().max(1) as f64;
        put(
            &mut out,
            format_args!(
                "<rect class=\"stage\" x=\"{x:.1}\" y=\"34\" width=\"{:.1}\" height=\"30\" opacity=\"{tone:.2}\">\
                 <title>{}: {}</title></rect>",
                (width - 1.5).max(0.5),
                escape(&stage.name),
                format::percent(share)
            ),
        );
        x += width;
    }
    stage_rows(&mut out, stages, whole, ROW);
    out.push_str("</svg>");
    out
}

fn stage_rows(out: &mut String, stages: &[StageBreakdown], whole: f64, row: f64) {
    const COLUMNS: [(&str, f64); 4] =
        [("share", 560.0), ("mean", 700.0), ("p50", 850.0), ("p99", WIDE - RIGHT)];
    for (name, x) in COLUMNS {
        put(out, format_args!("<text class=\"tick end\" x=\"{x}\" y=\"86\">{name}</text>"));
    }
    for (at, stage) in stages.iter().enumerate() {
        let y = 108.0 + row * at as f64;
        let tone = 1.0 - 0.75 * at as f64 / stages.len().max(1) as f64;
        let mean_us = stage.total_ns as f64 / stage.count.max(1) as f64 / 1e3;
        put(
            out,
            format_args!(
                "<rect class=\"stage\" x=\"{LEFT}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\" opacity=\"{tone:.2}\"/>\
                 <text class=\"label\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                y - 11.0,
                LEFT + 20.0,
                escape(&stage.name)
            ),
        );
        let figures = [
            format::percent(stage.total_ns as f64 / whole),
            format::micros(mean_us),
            format::micros(stage.p50_ns as f64 / 1e3),
            format::micros(stage.p99_ns as f64 / 1e3),
        ];
        for ((_, x), figure) in COLUMNS.into_iter().zip(figures) {
            put(out, format_args!("<text class=\"label end\" x=\"{x}\" y=\"{y:.1}\">{figure}</text>"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plot(points: Vec<(f64, f64)>) -> LinePlot {
        let line = |name: &str| Line { name: name.to_string(), points: points.clone() };
        LinePlot {
            title: "a < b & \"c\"".to_string(),
            x: (Scale::Linear, Unit::Seconds),
            y: (Scale::Log, Unit::Micros),
            lines: vec![line("one"), line("two")],
            filled: true,
            wide: true,
        }
    }

    proptest! {
        #[test]
        fn whatever_the_points_the_svg_is_whole(
            points in proptest::collection::vec((0.0f64..1e3, prop_oneof![0.0f64..1e9, Just(f64::NAN)]), 0..30)
        ) {
            let svg = plot(points).svg();
            prop_assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            prop_assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"));
        }
    }

    #[test]
    fn a_point_alone_is_seen() {
        let dots = |points: &[(f64, f64)]| plot(points.to_vec()).svg().matches("class=\"dot").count();
        assert_eq!((dots(&[(1.0, 2.0)]), dots(&[(1.0, 2.0), (2.0, 3.0)])), (2, 0), "of two lines");
        assert_eq!(dots(&[(0.0, f64::NAN), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0)]), 2);
    }

    #[test]
    fn a_gap_lifts_the_pen() {
        assert_eq!(
            path(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 4.0)], |p| *p),
            "M0.0 1.0M2.0 3.0L3.0 4.0"
        );
    }

    #[test]
    fn a_file_has_its_rows_below_each_other_and_needs_nothing_else() {
        let (narrow, wide) = (LinePlot { wide: false, ..plot(vec![]) }.svg(), plot(vec![(1.0, 2.0)]).svg());
        let rows = vec![vec![narrow.as_str(), narrow.as_str()], vec![wide.as_str()]];
        let text = file([("", rows)]);
        assert!(
            text.starts_with("<svg xmlns")
                && text.contains("viewBox=\"0 0 1024 600\"")
                && !text.contains("href")
        );
        assert!(
            text.contains("<svg x=\"505\" y=\"0\"") && text.contains("<svg x=\"0\" y=\"300\" width=\"1024\"")
        );
        // What other crates draw, and nothing beside it.
        let drawn = frame("paths of <requests>", 1040.0, 99.6) + "</svg>";
        let text = file([("words alone", vec![]), ("one & all", vec![vec![drawn.as_str(), ""]])]);
        assert!(
            text.contains("viewBox=\"0 0 1040 140\"")
                && text.contains("paths of &lt;requests&gt;")
                && text.contains(">one &amp; all</text>")
                && !text.contains("words alone"),
            "{text}"
        );
    }

    #[test]
    fn stages_share_the_whole() {
        let stage = |name: &str, total_ns| StageBreakdown {
            name: name.to_string(),
            count: 10,
            p50_ns: 5,
            p99_ns: 9,
            total_ns,
        };
        let svg = stage_bar("where time goes", &[stage("queue", 300), stage("execute", 700)]).svg;
        assert!(svg.contains("30.00 %") && svg.contains("70.00 %"), "{svg}");
        assert!(stage_bar("nothing", &[]).svg.ends_with("</svg>"));
    }
}
