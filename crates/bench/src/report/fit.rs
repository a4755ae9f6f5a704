//! Measured points beside the lines of what theory expects, several of each in one plot.
//!
//! A curve has one colour: its line is what is expected, its dots are what was measured, with a bar from the lowest to the highest. It is
//! named at its right end, where the eye is, not in a legend.

use super::axis::{Axis, Scale, Unit};
use super::data::{Drawing, Point};
use super::html::escape;
use super::plot::{grid, open, path, put};

/// A measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Where.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// From the lowest to the highest of what was measured.
    pub spread: (f64, f64),
}

/// What was expected, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name, a few letters.
    pub name: String,
    /// The line.
    pub expected: Vec<(f64, f64)>,
    /// The points.
    pub measured: Vec<Dot>,
}

/// A plot of curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Its heading.
    pub title: String,
    /// How x runs, and in what.
    pub x: (Scale, Unit),
    /// How y runs.
    pub y: Axis,
    /// The curves, in the order of their colours.
    pub curves: Vec<Curve>,
}

/// Units of one plot, as of the page's narrow ones.
const WIDTH: f64 = 505.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
/// Names stand here.
const NAMES: f64 = 40.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 34.0;
/// Names are not nearer to each other.
const LINE_HEIGHT: f64 = 13.0;
/// Three times as light, or dark, as white and as the dark card, in an order that the eye takes for one.
const COLOURS: [&str; 6] = ["#7d61e6", "#2f7be0", "#1797a8", "#2f9e58", "#b8860b", "#d9560b"];

impl Fit {
    /// The plot.
    pub fn draw(&self) -> Drawing {
        let ((_, x_size), (unit, y_size)) = (self.x.1.base(), self.y.unit().base());
        let points = self.curves.iter().flat_map(|curve| {
            let point = |series: String, x: f64, y: f64| Point { series, x: Some(x * x_size), y: y * y_size };
            let expected =
                curve.expected.iter().map(move |&(x, y)| point(format!("{}, expected", curve.name), x, y));
            let measured = curve.measured.iter().map(move |dot| point(curve.name.clone(), dot.x, dot.y));
            expected.chain(measured)
        });
        Drawing { svg: self.svg(), title: self.title.clone(), unit, points: points.collect() }
    }

    /// As an SVG element.
    fn svg(&self) -> String {
        let xs = self.curves.iter().flat_map(|curve| curve.measured.iter().map(|dot| dot.x));
        let x_axis = Axis::over(self.x.0, self.x.1, xs);
        let right = WIDTH - NAMES;
        let place = |p: &(f64, f64)| {
            let y = HEIGHT - BOTTOM - self.y.place(p.1) * (HEIGHT - TOP - BOTTOM);
            (LEFT + x_axis.place(p.0) * (right - LEFT), y)
        };
        let mut out = open(&self.title, WIDTH, HEIGHT);
        grid(&mut out, (LEFT, right), (TOP, HEIGHT - BOTTOM), &x_axis, &self.y);
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let line = path(&curve.expected, place);
            put(
                &mut out,
                format_args!(
                    "<path class=\"line\" style=\"stroke:{colour};stroke-width:1.5\" d=\"{line}\"/>"
                ),
            );
            for dot in &curve.measured {
                self.dot(&mut out, &curve.name, dot, colour, place);
            }
        }
        self.names(&mut out, right, place);
        out.push_str("</svg>");
        out
    }

    fn dot(
        &self,
        out: &mut String,
        name: &str,
        dot: &Dot,
        colour: &str,
        place: impl Fn(&(f64, f64)) -> (f64, f64),
    ) {
        let (x, y) = place(&(dot.x, dot.y));
        let (low, high) = (place(&(dot.x, dot.spread.0)).1, place(&(dot.x, dot.spread.1)).1);
        let tip = format!("{name}: {} at {}", self.y.label(dot.y), dot.x);
        put(
            out,
            format_args!(
                "<path style=\"stroke:{colour}\" d=\"M{x:.1} {low:.1}L{x:.1} {high:.1}\"/>\
                 <circle style=\"fill:{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}</title></circle>",
                escape(&tip)
            ),
        );
    }

    /// At the right ends of the lines, apart from each other, in the colour of text: no other can be read on white and on black.
    fn names(&self, out: &mut String, right: f64, place: impl Fn(&(f64, f64)) -> (f64, f64)) {
        let ends = self.curves.iter();
        let mut ends: Vec<(f64, &str)> =
            ends.filter_map(|curve| Some((place(curve.expected.last()?).1, curve.name.as_str()))).collect();
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut below = f64::INFINITY;
        for (y, name) in ends {
            let y = y.min(below - LINE_HEIGHT);
            below = y;
            put(
                out,
                format_args!(
                    "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    right + 6.0,
                    y + 4.0,
                    escape(name)
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> Fit {
        let measured =
            vec![Dot { x: 512.0, y: 0.5, spread: (0.4, 0.6) }, Dot { x: 1024.0, y: 0.7, spread: (0.7, 0.7) }];
        let curve = |name: &str| Curve {
            name: name.to_string(),
            expected: vec![(512.0, 0.55), (1024.0, 0.72)],
            measured: measured.clone(),
        };
        Fit {
            title: "a < b".to_string(),
            x: (Scale::Log, Unit::Count),
            y: Axis::exact(Scale::Linear, Unit::Share, 0.0, 1.0),
            curves: vec![curve("0.9"), curve("<b>")],
        }
    }

    #[test]
    fn every_curve_has_a_line_its_points_and_a_name_of_its_own_place() {
        let svg = fit().svg();
        assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"line\"").count()), (4, 2));
        assert!(svg.contains("a &lt; b") && svg.contains("&lt;b&gt;") && svg.contains("70 %"), "{svg}");
        let heights: Vec<&str> = svg.split("class=\"name\"").skip(1).collect();
        assert_ne!(heights[0].split("y=").nth(1), heights[1].split("y=").nth(1), "names do not overlap");
    }
}
