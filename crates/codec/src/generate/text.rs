//! Rust text being written: lines, indents, doc comments, and lines broken as rustfmt would.

/// Columns that a line may have.
const WIDTH: usize = 100;
/// Columns that the arguments of a call may have on one line.
const CALL: usize = 60;
/// Characters of an argument that shares its line with others.
const SHORT: usize = 10;

/// What is written, line by line.
#[derive(Debug)]
pub struct Text {
    out: String,
    indent: usize,
}

impl Text {
    pub(super) fn new() -> Text {
        Text { out: String::new(), indent: 0 }
    }

    /// A line at the indent of the block; nothing but its end if it is empty.
    pub fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.out.push_str(&" ".repeat(self.indent * 4));
            self.out.push_str(line);
        }
        self.out.push('\n');
    }

    /// An empty line, but not where a block begins.
    pub fn blank(&mut self) {
        if !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// A line after which the indent is deeper.
    pub fn open(&mut self, line: &str) {
        self.line(line);
        self.indent += 1;
    }

    /// A line that ends the block.
    pub fn close(&mut self, line: &str) {
        self.indent -= 1;
        self.line(line);
    }

    /// A doc comment of one or more lines.
    pub fn doc(&mut self, doc: &str) {
        for line in doc.lines() {
            self.line(format!("/// {line}").trim_end());
        }
    }

    /// True if `line` fits, `deeper` indents in.
    fn fits(&self, line: &str, deeper: usize) -> bool {
        (self.indent + deeper) * 4 + line.chars().count() <= WIDTH
    }

    /// The head of a function (`pub fn name`), on one line or with one argument on each; then its body's indent.
    pub fn open_fn(&mut self, head: &str, arguments: &[String], result: &str) {
        let result = if result.is_empty() { String::new() } else { format!(" -> {result}") };
        let one = format!("{head}({}){result} {{", arguments.join(", "));
        if self.fits(&one, 0) {
            return self.open(&one);
        }
        self.open(&format!("{head}("));
        for argument in arguments {
            self.line(&format!("{argument},"));
        }
        self.close(&format!("){result} {{"));
        self.indent += 1;
    }

    /// `head = value;`
    pub fn constant(&mut self, head: &str, value: &str) {
        let one = format!("{head} = {value};");
        if self.fits(&one, 0) {
            return self.line(&one);
        }
        self.open(&format!("{head} ="));
        self.line(&format!("{value};"));
        self.indent -= 1;
    }

    /// `unsafe { expression }`, with the comment that it wants.
    pub(super) fn unsafe_expression(&mut self, expression: &str) {
        self.line("// SAFETY: offset and kind are the table's.");
        let one = format!("unsafe {{ {expression} }}");
        if self.fits(&one, 0) {
            return self.line(&one);
        }
        self.open("unsafe {");
        match expression.strip_suffix(')').and_then(|call| call.split_once('(')) {
            Some((function, arguments)) if !self.fits(expression, 0) => self.call(function, arguments),
            _ => self.line(expression),
        }
        self.close("}");
    }

    /// A call that does not fit on one line: short arguments stay together, others have a line each.
    fn call(&mut self, function: &str, arguments: &str) {
        self.open(&format!("{function}("));
        if arguments.split(", ").all(|argument| argument.len() <= SHORT) {
            self.line(&format!("{arguments},"));
        } else {
            arguments.split(", ").for_each(|argument| self.line(&format!("{argument},")));
        }
        self.close(")");
    }

    /// `pattern => Some(variant(value)),`
    pub(super) fn arm(&mut self, pattern: &str, variant: &str, value: &str) {
        let one = format!("{pattern} => Some({variant}({value})),");
        if variant.len() + value.len() + 2 <= CALL && self.fits(&one, 0) {
            return self.line(&one);
        }
        self.open(&format!("{pattern} => {{"));
        self.line(&format!("let value = {value};"));
        self.line(&format!("Some({variant}(value))"));
        self.close("}");
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}
