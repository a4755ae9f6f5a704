//! The ratios as a picture: one panel for decoding and one for encoding, a group of bars per family, whiskers from the tenth
//! to the ninetieth percentile, and the goal as a line.
//!
//! Lazy modes are left out: their "decode" is a smaller promise, and its bar would dwarf the others.

use crate::contest::Mode;
use crate::goals::{DECODE_TIMES_PROST, ENCODE_TIMES_PROST, OURS};
use crate::measure::{Row, Spread};
use crate::report::Outcome;

const WIDTH: f64 = 1180.0;
const LEFT: f64 = 48.0;
const PANEL: f64 = 230.0;
const HEAD: f64 = 64.0;
const FOOT: f64 = 44.0;
/// Ours last and in a colour of its own; the peers' are Okabe and Ito's, which colour-blind readers can tell apart.
const COLOURS: [&str; 8] =
    ["#999999", "#bbbbbb", "#d9d9d9", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7"];
const OUR_COLOUR: &str = "#d55e00";
/// Of our messages that own what they hold, beside those that borrow.
const OUR_SECOND_COLOUR: &str = "#f0a070";

/// The picture as SVG.
pub fn svg(outcomes: &[Outcome]) -> String {
    let height = 2.0 * (HEAD + PANEL + FOOT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let decode = |row: &Row, prost: &Row| Some(row.decode.times(&prost.decode));
    let encode = |row: &Row, prost: &Row| Some(row.encode.as_ref()?.times(prost.encode.as_ref()?));
    panel(&mut out, 0.0, "Decode to usable fields", DECODE_TIMES_PROST, outcomes, decode);
    panel(&mut out, height / 2.0, "Encode", ENCODE_TIMES_PROST, outcomes, encode);
    out + "</svg>\n"
}

fn panel(
    out: &mut String,
    top: f64,
    title: &str,
    goal: f64,
    outcomes: &[Outcome],
    times: impl Fn(&Row, &Row) -> Option<Spread>,
) {
    let groups: Vec<(&str, Vec<Bar>)> =
        outcomes.iter().map(|outcome| (outcome.contest.name, bars(outcome, &times))).collect();
    let most = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.times.p90).fold(goal, f64::max);
    let base = top + HEAD + PANEL;
    let y = |times: f64| base - times / most * PANEL;
    text(
        out,
        LEFT,
        top + 20.0,
        "start",
        &format!("{title}: times as fast as prost (owned), median and p10..p90"),
    );
    let step = if most > 6.0 { 2 } else { 1 };
    for tick in (0..=most as u32).step_by(step) {
        let at = y(tick.into());
        line(out, LEFT, at, WIDTH - 8.0, at, "#e4e4e4");
        text(out, LEFT - 8.0, at + 4.0, "end", &tick.to_string());
    }
    let group = (WIDTH - LEFT - 8.0) / groups.len() as f64;
    for (number, (family, bars)) in groups.iter().enumerate() {
        let start = LEFT + number as f64 * group;
        let width = (group - 14.0) / bars.len() as f64;
        for (at, bar) in bars.iter().enumerate() {
            bar.draw(out, start + 7.0 + at as f64 * width, width - 1.0, base, y);
        }
        text(out, start + group / 2.0, base + 18.0, "middle", family);
    }
    line(out, LEFT, y(goal), WIDTH - 8.0, y(goal), OUR_COLOUR);
    text(out, WIDTH - 8.0, y(goal) - 4.0, "end", &format!("goal {goal}"));
    legend(out, top + 42.0, groups.first().map_or(&[], |(_, bars)| bars));
}

struct Bar {
    name: String,
    colour: &'static str,
    times: Spread,
}

impl Bar {
    fn draw(&self, out: &mut String, x: f64, width: f64, base: f64, y: impl Fn(f64) -> f64) {
        let Spread { p10, p50, p90 } = self.times;
        out.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{} {p50:.2} \
             [{p10:.2}..{p90:.2}]</title></rect>\n",
            y(p50),
            base - y(p50),
            self.colour,
            self.name,
        ));
        let middle = x + width / 2.0;
        line(out, middle, y(p10), middle, y(p90), "#222");
    }
}

fn bars(outcome: &Outcome, times: impl Fn(&Row, &Row) -> Option<Spread>) -> Vec<Bar> {
    let rows = outcome.contest.contestants.iter().zip(&outcome.rows).enumerate();
    rows.filter(|(_, (contestant, _))| contestant.mode != Mode::Lazy)
        .filter_map(|(at, (contestant, row))| {
            let colour = match contestant.mode {
                Mode::View if contestant.library == OURS => OUR_COLOUR,
                _ if contestant.library == OURS => OUR_SECOND_COLOUR,
                _ => COLOURS[at % COLOURS.len()],
            };
            Some(Bar { name: contestant.name(), colour, times: times(row, &outcome.rows[0])? })
        })
        .collect()
}

fn legend(out: &mut String, y: f64, bars: &[Bar]) {
    for (at, bar) in bars.iter().enumerate() {
        let x = LEFT + at as f64 * 122.0;
        out.push_str(&format!(
            "<rect x=\"{x}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
            y - 9.0,
            bar.colour
        ));
        text(out, x + 14.0, y, "start", &bar.name);
    }
}

fn line(out: &mut String, x1: f64, y1: f64, x2: f64, y2: f64, colour: &str) {
    out.push_str(&format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>\n"
    ));
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    out.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Contest;
    use crate::families::{Follow, UniqueId};
    use crate::measure::{Plan, measure};

    #[test]
    fn every_complete_mode_of_every_family_has_its_bar() {
        let outcomes: Vec<Outcome> = [Contest::of::<Follow>(1), Contest::of::<UniqueId>(1)]
            .into_iter()
            .map(|mut contest| {
                let rows = measure(&mut contest, Plan { rounds: 1, sample_ns: 1e4 });
                Outcome { contest, rows }
            })
            .collect();
        let picture = svg(&outcomes);
        let contestants = || outcomes.iter().flat_map(|outcome| &outcome.contest.contestants);
        let decoders = contestants().filter(|contestant| contestant.mode != Mode::Lazy).count();
        let encoders = contestants().filter(|contestant| contestant.encoder.is_some()).count();
        assert_eq!(picture.matches("<title>").count(), decoders + encoders);
        assert!(!picture.contains("NaN") && !picture.contains("lazy"));
    }
}
