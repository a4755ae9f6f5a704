//! The result for people: the machine, then a table per section, each figure with its spread and what it means.

use super::Section;
use super::facts::Machine;
use super::session::{Row, Session};
use std::fmt::Write as _;

/// The whole text.
pub fn render(machine: &Machine, session: &Session) -> String {
    let mut text = String::new();
    for (name, value) in machine.lines() {
        let _ = writeln!(text, "{name:>16}  {value}");
    }
    for section in Section::ALL {
        let rows: Vec<&Row> = session.rows.iter().filter(|r| r.section == section && r.listed).collect();
        let blocks: Vec<&String> =
            session.blocks.iter().filter(|(s, _)| *s == section).map(|(_, t)| t).collect();
        let skips: Vec<_> = session.skips.iter().filter(|s| s.section == section).collect();
        if rows.is_empty() && blocks.is_empty() && skips.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}", section.title());
        blocks.into_iter().for_each(|block| text.push_str(block));
        rows.into_iter().for_each(|row| text.push_str(&line(row)));
        for skip in skips {
            let _ = writeln!(text, "  skipped: {}: {}", skip.what, skip.why);
        }
    }
    text
}

fn line(row: &Row) -> String {
    let s = &row.summary;
    let value = format!("{} {}", digits(s.median), row.unit);
    let spread = format!("[{}..{}]", digits(s.p10), digits(s.p90));
    let n = format!("n {}", s.samples);
    format!("  {:<36}{value:>13}  {spread:<18}{n:<10}{}\n", row.label, row.reading).trim_end().to_string()
        + "\n"
}

/// Three significant digits, as far as whole numbers allow.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::session::Unit;

    #[test]
    fn figures_and_skips_are_both_visible() {
        let mut session = Session::new(true, vec![0], 0, false);
        session.enter(Section::Clocks);
        session.record("rdtsc", "cycle counter", &[11.0, 12.0], Unit::Nanos, "loop", "cheap");
        session.record("none", "nothing", &[], Unit::Nanos, "loop", "");
        session.enter(Section::Io);
        session.block("  a table\n".to_string());
        session.record_unlisted("hidden".into(), &[1.0], Unit::Micros, "loop");
        let text = render(&Machine::read(), &session);
        let clocks = text.find(Section::Clocks.title()).expect("a heading");
        assert!(
            text[clocks..].contains("cycle counter") && text.contains("11.5 ns") && text.contains("cheap")
        );
        assert!(text.contains("skipped: nothing: no sample"));
        assert!(text.contains("a table") && !text.contains("hidden"));
        assert!(!text.contains(Section::Storage.title()), "sections that did not run are not mentioned");
    }

    #[test]
    fn digits_follow_size() {
        assert_eq!([1234.6, 99.96, 12.34, 0.234, -5.0].map(digits), ["1235", "100", "12.3", "0.23", "-5.00"]);
    }
}
