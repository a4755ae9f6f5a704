//! A page: one file, nothing loaded from elsewhere, light or dark as the reader's system is; no scripts but those of parts that their reader moves.

use super::data::{self, Drawing};
use super::environment::Fact;
use super::plot;
use super::table::Table;
pub use base::html::escape;
use std::io;
use std::path::Path;

/// A page with so many parts begins with its contents.
const CONTENTS_FROM: usize = 4;

/// So many rows of a folded table are on the page: what is longer is for programs to read.
const FOLDED: usize = 80;

/// A figure worth a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// What it is.
    pub label: String,
    /// The figure.
    pub value: String,
    /// A word on it.
    pub note: String,
}

/// A part that its reader moves: a script shows one of many things that were computed before.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// What is there without scripts: one HTML element, which the script fills.
    pub markup: String,
    /// What the script shows.
    pub data: serde_json::Value,
    /// JavaScript. It runs behind two elements: the one of `markup`, and a script element whose text is `data` as JSON.
    pub script: &'static str,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Drawing),
    /// Plots side by side where the window is wide enough.
    Pair(Drawing, Drawing),
    /// Figures in a row.
    Tiles(Vec<Tile>),
    /// What its reader moves.
    Moved(Moved),
    /// A long table that is shown when it is asked for, as far as a page has room for it.
    Folded(String, Table),
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// The line below it.
    pub subtitle: String,
    /// Whether all was well, and the sentence that says so.
    pub verdict: (bool, String),
    /// Its parts.
    pub sections: Vec<Section>,
    /// Where it was measured.
    pub environment: Vec<Fact>,
}

impl Report {
    /// The page as one HTML file.
    pub fn html(&self) -> String {
        let sections: String =
            self.sections.iter().enumerate().map(|(at, one)| section(at + 1, one)).collect();
        let facts: String = self
            .environment
            .iter()
            .map(|fact| format!("<dt>{}</dt><dd>{}</dd>", escape(fact.name), escape(&fact.value)))
            .collect();
        let (good, verdict) = &self.verdict;
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body><main>\
             <header><h1>{title}</h1><p class=\"sub\">{subtitle}</p>\
             <p class=\"verdict {class}\">{verdict}</p></header>{contents}{sections}\
             <section id=\"environment\"><h2>Environment</h2><dl>{facts}</dl></section></main></body></html>\n",
            title = escape(&self.title),
            subtitle = escape(&self.subtitle),
            class = if *good { "good" } else { "bad" },
            verdict = escape(verdict),
            contents = self.contents(),
        )
    }

    /// Links to the parts, of a page that has more than fit on a screen.
    fn contents(&self) -> String {
        if self.sections.len() < CONTENTS_FROM {
            return String::new();
        }
        let link = |(at, section): (usize, &Section)| {
            format!("<li><a href=\"#part-{at}\">{}</a></li>", escape(&section.title))
        };
        let links: String = (1..).zip(&self.sections).map(link).collect();
        format!(
            "<nav aria-label=\"Contents\"><ol>{links}<li><a href=\"#environment\">Environment</a></li></ol></nav>"
        )
    }

    /// The page's plots alone, as an SVG file, below the headings of their parts.
    pub fn drawings(&self) -> String {
        fn rows(section: &Section) -> Vec<Vec<&str>> {
            let rows = section.blocks.iter().filter_map(|block| match block {
                Block::Plot(plot) => Some(vec![plot.svg.as_str()]),
                Block::Pair(left, right) => Some(vec![left.svg.as_str(), right.svg.as_str()]),
                _ => None,
            });
            rows.collect()
        }
        plot::file(self.sections.iter().map(|section| (section.title.as_str(), rows(section))))
    }

    /// Writes it to a file: a page, or what the file's ending asks for: `.svg` the plots alone, `.csv` and `.parquet` its tables' cells and its
    /// plots' points as rows ([`super::data`]).
    ///
    /// # Errors
    /// It cannot be written, or this build cannot write such a file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending {
            "csv" => {
                let mut bytes = Vec::new();
                data::write_csv(self, &mut bytes)?;
                std::fs::write(path, bytes)
            }
            "parquet" => super::parquet::write(self, path),
            "svg" => std::fs::write(path, self.drawings()),
            _ => std::fs::write(path, self.html()),
        }
    }

    /// The page's words and tables for a terminal; what is drawn stays on the page.
    pub fn text(&self) -> String {
        let mut out: String = self.subtitle.lines().map(|line| format!("  {line}\n")).collect();
        for Section { title, blocks } in &self.sections {
            let said = blocks.iter().filter(|block| matches!(block, Block::Text(_) | Block::Table(_)));
            let (mut head, mut gap) = (format!("\n  {title}\n"), "");
            for block in said {
                out.push_str(&std::mem::take(&mut head));
                match block {
                    Block::Table(table) => out.push_str(&table.to_string()),
                    Block::Text(text) => out.push_str(&format!("{gap}  {text}\n")),
                    _ => {}
                }
                gap = if matches!(block, Block::Table(_)) { "\n" } else { "" };
            }
        }
        out
    }
}

fn section(at: usize, section: &Section) -> String {
    let blocks: String = section.blocks.iter().map(block).collect();
    format!("<section id=\"part-{at}\"><h2>{}</h2>{blocks}</section>", escape(&section.title))
}

/// A plot; on a phone it is wider than the screen, and moved by keys as well.
fn figure(svg: &str) -> String {
    format!("<figure tabindex=\"0\">{svg}</figure>")
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("<p>{}</p>", escape(text)),
        Block::Table(table) => table.html(),
        Block::Folded(title, table) => {
            let rows = table.rows().len();
            let rest = if rows > FOLDED {
                format!("<p>The first {FOLDED} of {rows} rows; a report whose name ends in .csv has all.</p>")
            } else {
                String::new()
            };
            let table = table.first(FOLDED).html();
            format!("<details><summary>{}</summary>{rest}{table}</details>", escape(title))
        }
        Block::Plot(plot) => figure(&plot.svg),
        Block::Pair(left, right) => {
            let both: String = [&left.svg, &right.svg]
                .into_iter()
                .filter(|svg| !svg.is_empty())
                .map(|svg| figure(svg))
                .collect();
            format!("<div class=\"pair\">{both}</div>")
        }
        Block::Moved(Moved { markup, data, script }) => {
            // No text within can end the element.
            let data = data.to_string().replace('<', "\\u003c");
            format!("{markup}<script type=\"application/json\">{data}</script><script>{script}</script>")
        }
        Block::Tiles(tiles) => {
            let tiles: String = tiles
                .iter()
                .map(|t| {
                    let (label, value, note) = (escape(&t.label), escape(&t.value), escape(&t.note));
                    format!(
                        "<div class=\"tile\"><span>{label}</span><b>{value}</b><small>{note}</small></div>"
                    )
                })
                .collect();
            format!("<div class=\"tiles\">{tiles}</div>")
        }
    }
}

/// The page's looks; plots that are files of their own have them too.
pub(super) const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_page_is_its_words_and_tables() {
        let mut table = Table::new(["", "p50"]);
        table.row(["a", "1 µs"]);
        let (text, plot) =
            (|text: &str| Block::Text(text.to_string()), Block::Plot(Drawing::picture("<svg/>".to_string())));
        let section = |title: &str, blocks| Section { title: title.to_string(), blocks };
        let report = Report {
            title: "t".to_string(),
            subtitle: "one\ntwo".to_string(),
            verdict: (true, String::new()),
            sections: vec![
                section("first", vec![Block::Table(table), text("over:"), plot.clone()]),
                section("drawn", vec![plot]),
                section("notes", vec![text("x"), text("y")]),
            ],
            environment: Vec::new(),
        };
        let wanted = "  one\n  two\n\n  first\n      p50\n  a  1 µs\n\n  over:\n\n  notes\n  x\n  y\n";
        assert_eq!(report.text(), wanted);
    }

    #[test]
    fn a_page_needs_nothing_from_outside_and_trusts_no_text() {
        let report = Report {
            title: "<script>".to_string(),
            subtitle: "a & b".to_string(),
            verdict: (true, "good".to_string()),
            sections: vec![Section { title: "s".to_string(), blocks: vec![Block::Text("<b>".to_string())] }],
            environment: vec![Fact { name: "command", value: "x <y>".to_string() }],
        };
        let page = report.html();
        assert!(!page.contains("<script") && !page.contains("http") && !page.contains("src="));
        assert!(page.contains("&lt;script&gt;") && page.contains("x &lt;y&gt;"));
    }

    #[test]
    fn what_a_script_shows_cannot_be_one() {
        let data = serde_json::json!({"name": "</script><script>alert(1)"});
        let moved = Moved { markup: "<div></div>".to_string(), data, script: "show();" };
        let html = block(&Block::Moved(moved));
        assert_eq!(
            html,
            "<div></div><script type=\"application/json\">{\"name\":\"\\u003c/script>\\u003cscript>alert(1)\"}</script><script>show();</script>"
        );
    }

    #[test]
    fn a_page_has_the_beginning_of_a_long_table_and_rows_for_programs_have_all() {
        let folded = |rows: usize| {
            let mut table = Table::new(["", "n"]);
            (0..rows).for_each(|at| table.row([format!("row {at}"), at.to_string()]));
            Block::Folded(format!("{rows} rows"), table)
        };
        let html = block(&folded(FOLDED));
        assert!(html.contains("row 79<") && !html.contains("The first"), "{html}");
        let long = folded(FOLDED + 1);
        let html = block(&long);
        assert!(
            html.contains("row 79<") && !html.contains("row 80<") && html.contains("The first 80 of 81 rows")
        );
        let sections = vec![Section { title: String::new(), blocks: vec![long] }];
        let verdict = (true, String::new());
        let [title, subtitle] = Default::default();
        let rows = data::rows(&Report { title, subtitle, verdict, sections, environment: Vec::new() });
        assert_eq!(rows.len(), FOLDED + 1);
    }

    #[test]
    fn a_long_page_begins_with_its_contents() {
        let section = |at: usize| Section { title: format!("part <{at}>"), blocks: Vec::new() };
        let report = |count: usize| Report {
            title: "t".to_string(),
            subtitle: String::new(),
            verdict: (true, String::new()),
            sections: (0..count).map(section).collect(),
            environment: Vec::new(),
        };
        assert!(!report(CONTENTS_FROM - 1).html().contains("<nav"));
        let page = report(9).html();
        for at in 1..=9 {
            assert!(page.contains(&format!("<a href=\"#part-{at}\">part &lt;{}&gt;</a>", at - 1)), "{page}");
            assert!(page.contains(&format!("<section id=\"part-{at}\">")), "{page}");
        }
    }
}
