//! Plots of what experiments say: lines over a numeric axis, bars where there is none, and published against modelled.
//!
//! Unlike [`super::plot`], whose lines are few and ours, these take any number of series with names of any length: the legend is below the plot, in
//! as many rows as it needs; series differ by colour, by dashes, and by the shape of their points.

use super::axis::{Axis, Scale, Unit};
use super::data::{Drawing, Point};
use super::html::escape;
use super::plot::{grid, open, path, put};

/// A line, or the bars of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// (x, y) of its points, x rising.
    pub points: Vec<(f64, f64)>,
    /// What others have printed of it.
    pub published: Vec<Mark>,
}

/// What was published of a point, to stand beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What the pointer shows.
    pub name: String,
    /// Its x.
    pub at: f64,
    /// The least and the most that was printed; the same for a number.
    pub range: (f64, f64),
}

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What stands beside it.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// Which colour.
    pub group: usize,
}

/// A point of a scatter plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// What the pointer shows.
    pub name: String,
    /// Where.
    pub at: (f64, f64),
    /// Which colour.
    pub group: usize,
}

const WIDTH: f64 = 505.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
/// Of the plot itself.
const PLOT: f64 = 210.0;
/// Labels of the x axis.
const BELOW: f64 = 30.0;
const ROW: f64 = 17.0;
/// A letter or digit takes no more, on average of a name.
const LETTER: f64 = 7.7;
/// Three times as light, or dark, as white and as the dark card.
const COLOURS: [&str; 8] =
    ["#2f7be0", "#d9560b", "#2f9e58", "#8a4fd8", "#b8860b", "#1797a8", "#d03a7a", "#6b7680"];

fn colour(group: usize) -> &'static str {
    COLOURS[group % COLOURS.len()]
}

/// Who sees no colours tells lines apart by these. There are five, which has no divisor with the number of colours: forty lines differ.
fn dash(group: usize) -> &'static str {
    [
        "",
        ";stroke-dasharray:9 3",
        ";stroke-dasharray:3 3",
        ";stroke-dasharray:10 3 2 3",
        ";stroke-dasharray:1 4",
    ][group % 5]
}

/// Where values differ by so much, ratios say more than differences.
fn scale(values: impl Iterator<Item = f64>, wide: f64) -> Scale {
    let (low, high) = values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if high > low * wide { Scale::Log } else { Scale::Linear }
}

/// Series over a numeric axis; `x` names it.
pub fn lines(title: &str, x: &str, series: &[Series]) -> Drawing {
    let points = series.iter().flat_map(|one| {
        let drawn = one.points.iter().map(|&(x, y)| Point { series: one.name.clone(), x: Some(x), y });
        let published = one.published.iter().flat_map(|mark| {
            let ends = [mark.range.0, mark.range.1].map(|y| (mark, y));
            ends.into_iter().take(if mark.range.0 == mark.range.1 { 1 } else { 2 })
        });
        let series = move || format!("{}, published", one.name);
        drawn.chain(published.map(move |(mark, y)| Point { series: series(), x: Some(mark.at), y }))
    });
    let points = points.collect();
    Drawing { svg: lines_svg(title, x, series), title: title.to_owned(), unit: "", points }
}

fn lines_svg(title: &str, x: &str, series: &[Series]) -> String {
    let marks = || series.iter().flat_map(|one| &one.published);
    let printed = || marks().flat_map(|mark| [(mark.at, mark.range.0), (mark.at, mark.range.1)]);
    let points = || series.iter().flat_map(|one| one.points.iter().copied()).chain(printed());
    let x_axis = Axis::over(scale(points().map(|p| p.0), 20.0), Unit::Count, points().map(|p| p.0));
    let y_axis = Axis::over(scale(points().map(|p| p.1), 200.0), Unit::Count, points().map(|p| p.1));
    let names: Vec<_> = series.iter().map(|one| one.name.as_str()).collect();
    let legend = legend(&names, TOP + PLOT + BELOW + ROW);
    let mut out = open(&short(title, 62), WIDTH, legend.bottom);
    let bottom = TOP + PLOT;
    grid(&mut out, (LEFT, WIDTH - RIGHT), (TOP, bottom), &x_axis, &y_axis);
    let place = |p: &(f64, f64)| {
        (LEFT + x_axis.place(p.0) * (WIDTH - LEFT - RIGHT), bottom - y_axis.place(p.1) * PLOT)
    };
    for (group, one) in series.iter().enumerate() {
        let (colour, dash) = (colour(group), dash(group));
        let path = path(&one.points, place);
        put(
            &mut out,
            format_args!(
                "<path class=\"line\" style=\"stroke:{colour};stroke-width:1.6{dash}\" d=\"{path}\"/>"
            ),
        );
        put(&mut out, format_args!("<g fill=\"{colour}\">"));
        for point in one.points.iter().filter(|point| point.1.is_finite()) {
            let tip = format!("{}: {} at {} {x}", one.name, figure(point.1), point.0);
            spot(&mut out, place(point), group, &tip);
        }
        out.push_str("</g>");
        for mark in &one.published {
            let ends = [mark.range.0, mark.range.1].map(|y| place(&(mark.at, y)));
            ring(&mut out, ends, group, &mark.name);
        }
    }
    if marks().next().is_some() {
        let said = "<text class=\"tick\" x=\"{x}\" y=\"{y}\">◇ published</text>";
        let (x, y) = (LEFT.to_string(), (bottom + BELOW + 4.0).to_string());
        out.push_str(&said.replace("{x}", &x).replace("{y}", &y));
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    put(
        &mut out,
        format_args!(
            "<text class=\"tick mid\" x=\"{middle}\" y=\"{}\">{}</text>",
            bottom + BELOW + 4.0,
            escape(x)
        ),
    );
    out + &legend.text + "</svg>"
}

/// A point in its group's shape; its colour is that of what it is in.
fn spot(out: &mut String, (x, y): (f64, f64), group: usize, tip: &str) {
    // Around the point, all of one area.
    let shape = match group % 4 {
        0 => "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0z",
        1 => "m-2.4-2.4h4.8v4.8h-4.8z",
        2 => "m0-3.2l3.2 5.4h-6.4z",
        _ => "m0-3.4l3.4 3.4l-3.4 3.4l-3.4-3.4z",
    };
    put(out, format_args!("<path d=\"M{x:.1} {y:.1}{shape}\"><title>{}</title></path>", escape(tip)));
}

/// What was published: hollow, and larger than what is beside it; a range has a line from its least to its most.
fn ring(out: &mut String, [(x, low), (_, high)]: [(f64, f64); 2], group: usize, tip: &str) {
    let middle = f64::midpoint(low, high);
    put(
        out,
        format_args!(
            "<path style=\"fill:none;stroke:{};stroke-width:1.4\" d=\"M{x:.1} {low:.1}V{high:.1}M{x:.1} {:.1}l6 6l-6 6l-6-6z\"><title>{}</title></path>",
            colour(group),
            middle - 6.0,
            escape(tip)
        ),
    );
}

/// As figures are read: four digits, no zeros that say nothing.
fn figure(value: f64) -> String {
    let size = value.abs();
    if size >= 1e5 || (size > 0.0 && size < 1e-3) {
        return format!("{value:.3e}");
    }
    let before = if size < 1.0 { 0 } else { size.log10().floor() as i32 + 1 };
    let scale = 10f64.powi((4 - before).max(0));
    format!("{}", (value * scale).round() / scale)
}

fn short(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

struct Legend {
    text: String,
    /// Where the plot ends.
    bottom: f64,
}

/// Names below the plot, as many in a row as there is room for; none for one.
fn legend(names: &[&str], top: f64) -> Legend {
    let (mut text, mut x, mut y) = (String::new(), LEFT, top);
    if names.len() < 2 {
        return Legend { text, bottom: top };
    }
    y += 6.0;
    for (group, name) in names.iter().enumerate() {
        let name = short(name, 56);
        let width = name.chars().count() as f64 * LETTER + 40.0;
        if x > LEFT && x + width > WIDTH - RIGHT {
            (x, y) = (LEFT, y + ROW);
        }
        put(
            &mut text,
            format_args!(
                "<path style=\"stroke:{};stroke-width:2{}\" d=\"M{x:.1} {:.1}h24\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                colour(group),
                dash(group),
                y - 4.0,
                x + 29.0,
                escape(&name)
            ),
        );
        x += width;
    }
    Legend { text, bottom: y + 10.0 }
}

/// Bars from the left, a row each.
pub fn bars(title: &str, bars: &[Bar]) -> Drawing {
    let points = bars.iter().map(|bar| Point { series: bar.name.clone(), x: None, y: bar.value }).collect();
    Drawing { svg: bars_svg(title, bars), title: title.to_owned(), unit: "", points }
}

fn bars_svg(title: &str, bars: &[Bar]) -> String {
    let height = TOP + 16.0 * bars.len() as f64 + 8.0;
    let mut out = open(&short(title, 62), WIDTH, height);
    let most = bars.iter().map(|bar| bar.value).filter(|v| v.is_finite()).fold(0.0f64, f64::max);
    let longest = |text: fn(&Bar) -> String| {
        bars.iter().map(|bar| text(bar).chars().count()).max().unwrap_or(0) as f64 * LETTER
    };
    // Where bars begin, and how long the longest is: names and figures have what they need.
    let begin = longest(|bar| short(&bar.name, 29)) + 12.0;
    let room = WIDTH - begin - longest(|bar| figure(bar.value)) - 14.0;
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + 16.0 * row as f64;
        let width = if most > 0.0 { (bar.value / most).clamp(0.0, 1.0) * room } else { 0.0 };
        put(
            &mut out,
            format_args!(
                "<text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
                 <rect style=\"fill:{}\" x=\"{begin:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"11\" rx=\"2\"><title>{}: {}</title></rect>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                begin - 8.0,
                y + 10.0,
                escape(&short(&bar.name, 29)),
                colour(bar.group),
                if width.is_finite() { width.max(1.0) } else { 1.0 },
                escape(&bar.name),
                figure(bar.value),
                begin + width.max(1.0) + 6.0,
                y + 10.0,
                figure(bar.value)
            ),
        );
    }
    out + "</svg>"
}

/// Spots beside the line on which y is x, with a band of `share` on both sides; both axes logarithmic.
pub fn scatter(title: &str, names: &[&str], share: f64, spots: &[Spot]) -> Drawing {
    let point = |spot: &Spot| Point { series: spot.name.clone(), x: Some(spot.at.0), y: spot.at.1 };
    let points = spots.iter().map(point).collect();
    Drawing { svg: scatter_svg(title, names, share, spots), title: title.to_owned(), unit: "", points }
}

fn scatter_svg(title: &str, names: &[&str], share: f64, spots: &[Spot]) -> String {
    let values = || spots.iter().flat_map(|spot| [spot.at.0, spot.at.1]).filter(|v| *v > 0.0);
    let axis = Axis::over(Scale::Log, Unit::Count, values());
    let legend = legend(names, TOP + PLOT + BELOW + ROW);
    let mut out = open(title, WIDTH, legend.bottom);
    let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT);
    grid(&mut out, (LEFT, right), (TOP, bottom), &axis, &axis);
    let place = |p: &(f64, f64)| (LEFT + axis.place(p.0) * (right - LEFT), bottom - axis.place(p.1) * PLOT);
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high {
        let edge = |by: f64| [(low / 2.0, low / 2.0 * by), (high * 2.0, high * 2.0 * by)];
        for (by, dash) in [(1.0, ""), (1.0 + share, "4 3"), (1.0 - share, "4 3")] {
            let path = path(&edge(by), place);
            put(
                &mut out,
                format_args!(
                    "<path style=\"fill:none;stroke:var(--soft);stroke-width:1;stroke-dasharray:{}\" d=\"{path}\"/>",
                    if dash.is_empty() { "none" } else { dash }
                ),
            );
        }
    }
    for one in spots.iter().filter(|spot| spot.at.0 > 0.0 && spot.at.1 > 0.0) {
        put(&mut out, format_args!("<g fill=\"{}\">", colour(one.group)));
        spot(&mut out, place(&one.at), one.group, &one.name);
        out.push_str("</g>");
    }
    let (middle, below) = (f64::midpoint(LEFT, right), bottom + BELOW + 4.0);
    put(
        &mut out,
        format_args!(
            "<text class=\"tick mid\" x=\"{middle}\" y=\"{below}\">published; upwards: modelled; dashed: {:.0} % off</text>",
            share * 100.0
        ),
    );
    out + &legend.text + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_values_the_svg_is_whole(
            values in proptest::collection::vec((0.0f64..1e6, prop_oneof![-1.0f64..1e12, Just(f64::NAN), Just(0.0)]), 0..20),
            count in 1usize..20
        ) {
            let name = "a <long> & \"winding\" name of a variant";
            let mark = |(at, y): &(f64, f64)| Mark { name: name.into(), at: *at, range: (*y, *y * 2.0) };
            let published = values.iter().filter(|(_, y)| y.is_finite()).map(mark).collect();
            let series = vec![Series { name: name.into(), points: values.clone(), published }; count];
            let bar = |(_, value): &(f64, f64)| Bar { name: name.into(), value: *value, group: count };
            let spots: Vec<_> =
                values.iter().map(|at| Spot { name: name.into(), at: *at, group: count }).collect();
            let all = [
                lines(name, "B", &series),
                bars(name, &values.iter().map(bar).collect::<Vec<_>>()),
                scatter(name, &["one", "two"], 0.1, &spots),
            ];
            for svg in all.map(|drawn| drawn.svg) {
                prop_assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("<long>"));
                let places = svg.split('"').filter(|part| part.starts_with('M')).collect::<String>();
                prop_assert!(!places.contains("NaN") && !places.contains("inf"), "{}", places);
                prop_assert!(!svg.contains("=\"NaN") && !svg.contains("=\"inf"), "{}", svg);
            }
        }
    }

    #[test]
    fn figures_have_four_digits() {
        let values = [0.0, 0.012_345, 1.234_56, 88.920_8, 190.650_2, 20_226.537_2, 1e5];
        let said = values.map(figure);
        assert_eq!(said, ["0", "0.0123", "1.235", "88.92", "190.7", "20227", "1.000e5"]);
    }

    #[test]
    fn every_series_is_in_the_legend_and_none_beside_the_plot() {
        let names: Vec<_> = (0..30).map(|n| format!("variant {n}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let legend = legend(&names, 100.0);
        assert_eq!(legend.text.matches("<text").count(), 30);
        assert!(legend.bottom > 150.0 && legend.text.contains("stroke-dasharray"));
    }
}
