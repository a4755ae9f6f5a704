//! A table that prints on a terminal and on a page.

use super::html::escape;
use std::fmt;

/// Rows of text under named columns. Columns of figures are right-aligned, but for the first; words are left-aligned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Table {
        Table { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row, which has as many cells as there are columns.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(row);
    }

    /// The names of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Its rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The same with no more than so many rows.
    pub fn first(&self, rows: usize) -> Table {
        Table { columns: self.columns.clone(), rows: self.rows.iter().take(rows).cloned().collect() }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Which columns are left-aligned: the first, and those with words in every cell that has anything.
    fn words(&self) -> Vec<bool> {
        let is_word = |cell: &str| {
            cell.starts_with(|first: char| first.is_alphabetic() || first == '(' || first == '`')
        };
        let column = |at: usize| {
            let mut cells = self
                .rows
                .iter()
                .map(|row| row[at].as_str())
                .filter(|cell| !cell.is_empty() && *cell != "-" && *cell != "–");
            at == 0 || (cells.clone().next().is_some() && cells.all(is_word))
        };
        (0..self.columns.len()).map(column).collect()
    }

    /// The table as HTML.
    pub fn html(&self) -> String {
        let words = self.words();
        let cells = |row: &[String], tag: &str| -> String {
            let cell = |(cell, is_word): (&String, &bool)| {
                let class = if *is_word { " class=\"words\"" } else { "" };
                // A heading without a word is none, to who hears the page.
                let tag = if cell.is_empty() { "td" } else { tag };
                format!("<{tag}{class}>{}</{}>", escape(cell), &tag[..2])
            };
            row.iter().zip(&words).map(cell).collect()
        };
        let body: String = self.rows.iter().map(|row| format!("<tr>{}</tr>", cells(row, "td"))).collect();
        let head = cells(&self.columns, "th scope=\"col\"");
        format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"table\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let words = self.words();
        for row in all() {
            let mut line = String::new();
            for ((cell, &width), is_word) in row.iter().zip(&widths).zip(&words) {
                match is_word {
                    true => line.push_str(&format!("  {cell:<width$}")),
                    false => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_cells_are_escaped() {
        let mut table = Table::new(["", "ops", "p99"]);
        table.row(["get", "1000", "1.2 µs"]);
        table.row(["<set>", "5", "10.0 µs"]);
        assert_eq!(
            table.to_string(),
            "          ops      p99\n  get    1000   1.2 µs\n  <set>     5  10.0 µs\n"
        );
        assert!(table.html().contains("<td class=\"words\">&lt;set&gt;</td><td>5</td>"));
    }

    #[test]
    fn a_column_without_a_name_has_no_heading() {
        let mut table = Table::new(["", "ops"]);
        table.row(["get", "1000"]);
        table.row(["set", ""]);
        let html = table.html();
        assert!(html.contains("<tr><td class=\"words\"></td><th scope=\"col\">ops</th></tr>"), "{html}");
        assert_eq!((html.matches("<th ").count(), html.matches("</th>").count()), (1, 1));
        assert_eq!(table.first(1).html().matches("<tr>").count(), 2);
    }

    #[test]
    fn words_stand_left_and_figures_right() {
        let mut table = Table::new(["id", "what", "n", "error"]);
        table.row(["F1", "latency by path", "–", "2 %"]);
        table.row(["F2", "bytes", "12", "not modelled"]);
        assert_eq!(
            table.to_string(),
            "  id  what              n         error\n  F1  latency by path   –           2 %\n  F2  bytes            12  not modelled\n"
        );
        assert!(
            table.html().starts_with(
                "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"table\"><table><thead><tr><th scope=\"col\" class=\"words\">id</th>"
            )
        );
    }
}
