//! The ways of a mixture through the machine, with how busy each part is: as text, and as SVG.
//!
//! ```text
//!   A5  SEND to the SoC …
//!       client cores 3 % → server port forth 21 % → NIC units, shared 100 % ■ → …
//!       behind: SoC bank 40 %
//! ```

use bench::report::format::short;
use bench::report::html::escape;
use bench::report::plot::frame;
use model::plan::answer::{Link, Path, Ranked};
use std::fmt::Write;

/// Beyond this a part counts as full.
const FULL: f64 = 0.99;

fn busy<'a>(ranked: &'a Ranked, name: &str) -> Option<&'a Link> {
    ranked.links.iter().find(|link| link.name == name)
}

fn figure(link: &Link) -> String {
    let computed = format!("{:.0} %", link.utilisation * 100.0);
    if link.utilisation >= FULL { format!("{computed} ■") } else { computed }
}

/// As text.
pub(super) fn text(ranked: &Ranked) -> String {
    let mut out = format!("\n{} at {}/s, as computed (■ full):\n", ranked.name, short(ranked.links_at));
    for (path, part) in ranked.paths.iter().zip(&ranked.parts) {
        let share = part.at_most * 100.0;
        out += &format!("\n  {}  {} ({share:.0} % of the requests)\n", path.alternative, path.what);
        out += &wrapped(&steps(ranked, path), "→");
        let behind: Vec<_> = path.behind.iter().filter_map(|name| named(ranked, name)).collect();
        if !behind.is_empty() {
            out += &wrapped(&[format!("while nobody waits: {}", behind.join(", "))], "→");
        }
    }
    out += "\n  used                                            computed  simulated  by\n";
    for link in &ranked.links {
        let of = |(part, by): (&model::plan::answer::Share, &f64)| {
            (*by > 0.005).then(|| format!("{} {:.0} %", part.name, by * 100.0))
        };
        let by: Vec<_> = ranked.parts.iter().zip(&link.by).filter_map(of).collect();
        let simulated = link.simulated.map_or("–".into(), |used| format!("{:.0} %", used * 100.0));
        let computed = format!("{:.0} %", link.utilisation * 100.0);
        let bar = bar(link.utilisation);
        out += &format!(
            "  {:36}{bar} {computed:>8}  {simulated:>9}  {}\n",
            shortened(&link.name),
            by.join(", ")
        );
    }
    out
}

/// A step with its figure, or without where it is next to idle.
fn named(ranked: &Ranked, name: &str) -> Option<String> {
    Some(match busy(ranked, name) {
        Some(link) => format!("{name} {}", figure(link)),
        None => name.to_string(),
    })
}

fn steps(ranked: &Ranked, path: &Path) -> Vec<String> {
    path.steps.iter().filter_map(|name| named(ranked, name)).collect()
}

/// Steps in lines of at most 110 letters.
fn wrapped(steps: &[String], mark: &str) -> String {
    const WIDTH: usize = 104;
    let (mut out, mut line) = (String::new(), String::new());
    for (at, step) in steps.iter().enumerate() {
        let piece = if at == 0 && mark == "→" { step.clone() } else { format!("{mark} {step}") };
        if !line.is_empty() && line.chars().count() + piece.chars().count() > WIDTH {
            out += &format!("      {line}\n");
            line.clear();
        }
        line += &format!("{}{piece}", if line.is_empty() { "" } else { " " });
    }
    out + &format!("      {line}\n")
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * 10.0).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(10 - full))
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= 35 { name.into() } else { name.chars().take(34).chain(['…']).collect() }
}

const BOX: (f64, f64) = (150.0, 44.0);
const GAP: (f64, f64) = (26.0, 16.0);
const MARGIN: f64 = 16.0;
const COLUMNS: usize = 5;
const WIDTH: f64 = 2.0 * MARGIN + COLUMNS as f64 * BOX.0 + (COLUMNS - 1) as f64 * GAP.0;

/// As SVG: a lane for each alternative, a box for each resource, filled as far as it is busy.
pub(super) fn svg(ranked: &Ranked) -> String {
    let mut body = String::new();
    let mut top = 34.0;
    for (at, path) in ranked.paths.iter().enumerate() {
        let title = format!("{}: {}", path.alternative, path.what);
        put(
            &mut body,
            format_args!("<text class=\"label\" x=\"{MARGIN}\" y=\"{top:.0}\">{}</text>", escape(&title)),
        );
        top += 12.0;
        let behind = path.behind.iter().map(|name| (name, true));
        let all: Vec<_> = path.steps.iter().map(|name| (name, false)).chain(behind).collect();
        for (number, (name, behind)) in all.iter().enumerate() {
            let (column, row) = (number % COLUMNS, number / COLUMNS);
            let x = MARGIN + column as f64 * (BOX.0 + GAP.0);
            let y = top + row as f64 * (BOX.1 + GAP.1);
            place(&mut body, ranked, (x, y), (name, *behind), at);
            if number > 0 && column > 0 && !behind {
                let (from, middle) = (x - GAP.0, y + BOX.1 / 2.0);
                put(
                    &mut body,
                    format_args!(
                        "<path class=\"line c{at}\" d=\"M{from:.0} {middle:.0}h{:.0}m-6 -4l6 4l-6 4\"/>",
                        GAP.0 - 3.0
                    ),
                );
            }
        }
        top += all.len().div_ceil(COLUMNS) as f64 * (BOX.1 + GAP.1) + 22.0;
    }
    let title = format!("{} at {}/s: how busy each part is", ranked.name, short(ranked.links_at));
    let text = format!("<text class=\"title\" x=\"{MARGIN}\" y=\"14\">{}</text>", escape(&title));
    frame(&title, WIDTH, top) + &text + &body + "</svg>"
}

fn place(out: &mut String, ranked: &Ranked, (x, y): (f64, f64), (name, behind): (&str, bool), at: usize) {
    let used = busy(ranked, name).map_or(0.0, |link| link.utilisation);
    let filled = BOX.0 * used.clamp(0.0, 1.0);
    let dashes = if behind { " stroke-dasharray=\"4 3\"" } else { "" };
    let short: String =
        if name.chars().count() > 24 { name.chars().take(23).chain(['…']).collect() } else { name.into() };
    put(
        out,
        format_args!(
            "<rect class=\"key c{at}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{filled:.1}\" height=\"{1}\" opacity=\"0.25\"/>\
             <rect class=\"line c{at}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{0}\" height=\"{1}\" rx=\"4\"{dashes}>\
             <title>{2}: {3:.1} % busy</title></rect>\
             <text class=\"tick\" x=\"{4:.0}\" y=\"{5:.0}\">{6}</text><text x=\"{4:.0}\" y=\"{7:.0}\">{3:.0} %</text>",
            BOX.0,
            BOX.1,
            escape(name),
            used * 100.0,
            x + 7.0,
            y + 17.0,
            escape(&short),
            y + 35.0
        ),
    );
}

fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a string takes any text");
}
