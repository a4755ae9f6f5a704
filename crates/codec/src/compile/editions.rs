//! What protox does not parse, rewritten to what it does: an edition 2023 file to the proto2 that has the same descriptor, but
//! for its `edition`; and the options of extension ranges, which mean nothing to us, to nothing.
//!
//! Why: protox knows proto2 and proto3 only. What differs in the text is little: the first statement; fields without a label,
//! which proto2 wants to be `optional`; reserved names, which proto2 wants in quotes. Features are options like others.
//!
//! Shape: tokens, grouped into statements by a stack of blocks. Edits are insertions within a line, so an error in the rewritten
//! file has the line of the original.
//!
//! Errors: a line and a sentence, for what an edition does not allow and proto2 would. All else is left to protox.

/// What kind of block a statement is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// A message, or an `extend`: fields want a label.
    Fields,
    /// An enum: reserved names, no fields.
    Enum,
    /// A file, oneof, service or method.
    Other,
}

/// A line and what is wrong there.
pub(super) type Wrong = (usize, String);

/// The file as protox can read it, and whether it is of an edition.
pub(super) fn rewrite(text: &str) -> Result<(String, bool), Wrong> {
    let tokens = Tokens { text, at: 0 };
    let edition = tokens.clone().next().is_some_and(|first| first.text == "edition");
    let mut rewrite = Rewrite { tokens, edition, out: String::new(), copied: 0 };
    if edition {
        rewrite.edition()?;
    }
    let mut blocks = vec![Block::Other];
    while let Some(first) = rewrite.tokens.next() {
        if first.text == "}" {
            blocks.pop();
            continue;
        }
        let block = blocks.last().copied().unwrap_or(Block::Other);
        blocks.extend(rewrite.statement(block, first)?);
    }
    Ok((rewrite.finish(), edition))
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }
}

/// Names, numbers, strings and single signs; blanks and comments are passed over.
#[derive(Clone)]
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.pass_blanks();
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = match first {
            '"' | '\'' => string_len(rest, first),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let token = Token { text: &rest[..len], start: self.at };
        self.at += len;
        Some(token)
    }
}

impl Tokens<'_> {
    fn pass_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}');
            let comment = match trimmed.get(..2) {
                Some("//") => trimmed.find('\n').unwrap_or(trimmed.len()),
                Some("/*") => trimmed.find("*/").map_or(trimmed.len(), |end| end + 2),
                _ => 0,
            };
            self.at += rest.len() - trimmed.len() + comment;
            if comment == 0 {
                return;
            }
        }
    }
}

/// Bytes of the string at the beginning of `text`, quotes included; an unclosed one ends with its line.
fn string_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

struct Rewrite<'a> {
    tokens: Tokens<'a>,
    edition: bool,
    out: String,
    /// Up to where the text is in `out`.
    copied: usize,
}

impl<'a> Rewrite<'a> {
    /// `edition = "2023";` becomes `syntax = "proto2";`.
    fn edition(&mut self) -> Result<(), Wrong> {
        let keyword = self.tokens.next().expect("the caller saw it");
        self.replace(keyword, "syntax");
        let line = self.line(keyword);
        let (Some(equals), Some(edition)) = (self.tokens.next(), self.tokens.next()) else {
            return Err((line, "edition wants a value, as in: edition = \"2023\";".into()));
        };
        let name = edition.text.trim_matches(['"', '\'']);
        if equals.text != "=" || name != "2023" {
            return Err((
                line,
                format!("edition {name} is not supported; use proto2, proto3 or edition 2023"),
            ));
        }
        self.replace(edition, "\"proto2\"");
        self.pass_statement();
        Ok(())
    }

    /// Goes through a statement that begins with `first`; if it opens a block, says which.
    fn statement(&mut self, block: Block, first: Token<'a>) -> Result<Option<Block>, Wrong> {
        let opens = match first.text {
            ";" => return Ok(None),
            "message" | "extend" => Some(Block::Fields),
            "enum" => Some(Block::Enum),
            "oneof" | "service" | "rpc" => Some(Block::Other),
            _ => None,
        };
        let keyword = matches!(first.text, "option" | "reserved" | "repeated");
        match (block, first.text) {
            (Block::Fields, "extensions") => self.extensions(),
            (Block::Fields | Block::Enum, _) if opens.is_none() && !self.edition => self.pass_statement(),
            // In an enum these are names of values; in a oneof, only fields and options begin a statement.
            (Block::Enum, "reserved") | (Block::Fields, "reserved") => self.reserved(),
            (Block::Enum, _) => self.pass_statement(),
            (Block::Fields, "optional" | "required" | "group") => {
                let what = format!("{} is not allowed in an edition; use features instead", first.text);
                return Err((self.line(first), what));
            }
            (Block::Fields, "map") if self.tokens.clone().next().is_some_and(|next| next.text == "<") => {
                self.pass_statement();
            }
            (Block::Fields, _) if opens.is_none() && !keyword => {
                self.insert(first.start, "optional ");
                self.pass_statement();
            }
            _ if opens.is_some() => return Ok(self.pass_head().then_some(opens).flatten()),
            _ => self.pass_statement(),
        }
        Ok(None)
    }

    /// `reserved a, b;` becomes `reserved "a", "b";`. Numbers stay.
    fn reserved(&mut self) {
        let names = self.tokens.clone().next().is_some_and(|first| first.is_name());
        if !names {
            return self.pass_statement();
        }
        while let Some(token) = self.tokens.next().filter(|token| token.text != ";") {
            if token.is_name() {
                self.insert(token.start, "\"");
                self.insert(token.start + token.text.len(), "\"");
            }
        }
    }

    /// `extensions 1 to 9 [options];` becomes `extensions 1 to 9 ;`, on as many lines.
    fn extensions(&mut self) {
        let mut ahead = self.tokens.clone();
        let begin = ahead.find(|token| matches!(token.text, "[" | ";")).filter(|token| token.text == "[");
        self.pass_statement();
        let end = self.tokens.at.saturating_sub(1);
        // Where the semicolon is missing, protox will say so.
        let ends = self.tokens.text.as_bytes().get(end) == Some(&b';');
        if let Some(begin) = begin.filter(|begin| ends && begin.start < end) {
            let lines = self.tokens.text[begin.start..end].matches('\n').count();
            self.insert(begin.start, &"\n".repeat(lines));
            self.copied = end;
        }
    }

    /// Moves past the `;` that ends the statement, and past all in brackets before it.
    fn pass_statement(&mut self) {
        let mut depth = 0usize;
        loop {
            let before = self.tokens.at;
            let Some(token) = self.tokens.next() else { return };
            match token.text {
                "{" | "[" | "(" => depth += 1,
                "}" if depth == 0 => {
                    // The semicolon is missing: protox will say so. The block ends all the same.
                    self.tokens.at = before;
                    return;
                }
                "}" | "]" | ")" => depth = depth.saturating_sub(1),
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Moves past the `{` that opens a block; false if the statement ends without one.
    fn pass_head(&mut self) -> bool {
        let end = self.tokens.find(|token| matches!(token.text, "{" | ";"));
        end.is_some_and(|token| token.text == "{")
    }

    fn insert(&mut self, at: usize, text: &str) {
        self.out.push_str(&self.tokens.text[self.copied..at]);
        self.out.push_str(text);
        self.copied = at;
    }

    fn replace(&mut self, token: Token<'_>, text: &str) {
        self.insert(token.start, text);
        self.copied += token.text.len();
    }

    fn line(&self, token: Token<'_>) -> usize {
        self.tokens.text[..token.start].matches('\n').count() + 1
    }

    fn finish(mut self) -> String {
        self.insert(self.tokens.text.len(), "");
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_rewritten_and_lines_stay() {
        let text = r#"// edition = "2024";
edition = '2023';
option features.field_presence = IMPLICIT;
message M {
  int32 a = 1; .p.N b = 2 [default = { c: "}" }];
  map<string, N> m = 3; map n = 4;
  repeated N r = 5; /* int32 gone = 6; */
  reserved a1, b1; reserved 7 to max; reserved "c1";
  extensions 100 to 200;
  oneof o { string s = 8; N t = 9; }
  message N { option deprecated = true; bool b = 1; }
  enum E { reserved gone; optional = 0; B = 1; reserved -1; }
  E e = 10;
}
extend M { int32 x = 100; }
service S { rpc Call(M) returns (stream M) { option deprecated = true; } rpc Go(M) returns (M); }
"#;
        let want = r#"// edition = "2024";
syntax = "proto2";
option features.field_presence = IMPLICIT;
message M {
  optional int32 a = 1; optional .p.N b = 2 [default = { c: "}" }];
  map<string, N> m = 3; optional map n = 4;
  repeated N r = 5; /* int32 gone = 6; */
  reserved "a1", "b1"; reserved 7 to max; reserved "c1";
  extensions 100 to 200;
  oneof o { string s = 8; N t = 9; }
  message N { option deprecated = true; optional bool b = 1; }
  enum E { reserved "gone"; optional = 0; B = 1; reserved -1; }
  optional E e = 10;
}
extend M { optional int32 x = 100; }
service S { rpc Call(M) returns (stream M) { option deprecated = true; } rpc Go(M) returns (M); }
"#;
        assert_eq!(rewrite(text), Ok((want.to_owned(), true)));
    }

    #[test]
    fn other_files_are_left_alone() {
        let proto2 = "syntax = 'proto2'; message M { required int32 a = 1; optional group G = 2 { required int32 b = 1; } }";
        for text in [
            "",
            "syntax = \"proto3\"; message M { int32 a = 1; reserved 'b'; }",
            proto2,
            "// edition\nmessage edition {}",
            "\u{feff}import \"a\";",
            "/*",
        ] {
            assert_eq!(rewrite(text), Ok((text.to_owned(), false)), "{text}");
        }
    }

    #[test]
    fn options_of_extension_ranges_go() {
        let text = "message M { extensions 1, 3 to max [\n declaration = { number: 1, full_name: \".a;\" },\n verification = DECLARATION]; }\n";
        assert_eq!(rewrite(text), Ok(("message M { extensions 1, 3 to max \n\n; }\n".to_owned(), false)));
    }

    #[test]
    fn what_an_edition_forbids_is_refused_with_its_line() {
        let (line, what) = rewrite("\n\nedition = \"2024\";").unwrap_err();
        assert_eq!((line, what.contains("2024 is not supported")), (3, true));
        let (line, what) =
            rewrite("edition = \"2023\";\nmessage M {\n optional int32 a = 1;\n}").unwrap_err();
        assert_eq!((line, what.contains("optional is not allowed")), (3, true));
        assert!(rewrite("edition").is_err());
    }

    #[test]
    fn broken_files_come_through_for_protox_to_judge() {
        for text in [
            "}}}",
            "message M { int32 a = 1",
            "message M { int32 a = 1 }",
            "message",
            "\"open",
            "é",
            "enum E {\"\\",
        ] {
            let text = format!("edition = \"2023\"; {text}");
            assert!(rewrite(&text).unwrap().0.starts_with("syntax"), "{text}");
        }
    }
}
