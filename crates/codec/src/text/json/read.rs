//! JSON from a string: RFC 8259, and nothing that is only like it.

use crate::text::error::Bad;
use std::borrow::Cow;

/// A position in a text, and reading from there.
pub(super) struct Reader<'i> {
    text: &'i str,
    pub at: usize,
}

impl<'i> Reader<'i> {
    pub fn new(text: &'i str) -> Reader<'i> {
        Reader { text, at: 0 }
    }

    pub fn bad<T>(&self, what: impl Into<String>) -> Result<T, Bad> {
        Err(Bad::new(self.at, what))
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The first byte of what comes next; nothing at the end.
    pub fn peek(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.byte()
    }

    /// Takes one punctuation mark.
    pub fn expect(&mut self, mark: u8) -> Result<(), Bad> {
        match self.peek() {
            Some(byte) if byte == mark => {
                self.at += 1;
                Ok(())
            }
            Some(_) => self.bad(format!("expected {:?}", char::from(mark))),
            None => self.bad(format!("expected {:?}, but the text ends", char::from(mark))),
        }
    }

    /// Whether an array or object that ends with `close` goes on; takes the comma, or the end.
    pub fn goes_on(&mut self, close: u8, first: &mut bool) -> Result<bool, Bad> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) if was_first => Ok(true),
            Some(b',') => {
                self.at += 1;
                if self.peek() == Some(close) {
                    return self.bad("a comma with nothing behind it");
                }
                Ok(true)
            }
            Some(_) => self.bad(format!("expected ',' or {:?}", char::from(close))),
            None => self.bad(format!("expected {:?}, but the text ends", char::from(close))),
        }
    }

    /// A member's name with its colon.
    pub fn name(&mut self) -> Result<Cow<'i, str>, Bad> {
        if self.peek() != Some(b'"') {
            return self.bad("expected a name in double quotes");
        }
        let name = self.string()?;
        self.expect(b':')?;
        Ok(name)
    }

    /// Takes `null`, `true` or `false`.
    pub fn literal(&mut self, word: &str) -> Result<(), Bad> {
        let end = self.text.as_bytes()[self.at..].iter().position(|byte| !byte.is_ascii_alphanumeric());
        let found = &self.text[self.at..end.map_or(self.text.len(), |end| self.at + end)];
        if found != word {
            return self.bad(format!("{found} means nothing: is it meant to be {word}, or a string?"));
        }
        self.at += word.len();
        Ok(())
    }

    /// A number, as it is written.
    pub fn number(&mut self) -> Result<&'i str, Bad> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
        let text = &rest[..end.unwrap_or(rest.len())];
        if !is_number(text) {
            return self.bad(format!("{text:?} is no number of JSON"));
        }
        self.at += text.len();
        Ok(text)
    }

    /// A string without its quotes and escapes.
    pub fn string(&mut self) -> Result<Cow<'i, str>, Bad> {
        self.expect(b'"')?;
        let start = self.at;
        let mut owned: Option<String> = None;
        loop {
            let run = self.at;
            while self.byte().is_some_and(|byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
                self.at += 1;
            }
            if let Some(text) = &mut owned {
                text.push_str(&self.text[run..self.at]);
            }
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    let plain = &self.text[start..self.at - 1];
                    return Ok(owned.map_or(Cow::Borrowed(plain), Cow::Owned));
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_with(|| self.text[start..self.at].to_owned());
                    let (c, at) = escape(self.text.as_bytes(), self.at)?;
                    text.push(c);
                    self.at = at;
                }
                Some(_) => return self.bad("a control character in a string: write it as \\u00XX"),
                None => return Err(Bad::new(start - 1, "a string without an end")),
            }
        }
    }

    /// Takes any value, at most `depth` levels of it.
    pub fn skip(&mut self, depth: u32) -> Result<(), Bad> {
        // What is open, and whether nothing of it was there yet.
        let mut open: Vec<(u8, bool)> = Vec::new();
        loop {
            match self.peek() {
                Some(mark @ (b'{' | b'[')) => {
                    self.at += 1;
                    if open.len() >= depth as usize {
                        return self.bad("arrays and objects are nested too deeply");
                    }
                    open.push((if mark == b'{' { b'}' } else { b']' }, true));
                }
                Some(b'"') => drop(self.string()?),
                Some(b'n') => self.literal("null")?,
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(_) => drop(self.number()?),
                None => return self.bad("expected a value, but the text ends"),
            }
            loop {
                let Some((close, first)) = open.last_mut() else { return Ok(()) };
                if self.goes_on(*close, first)? {
                    break;
                }
                open.pop();
            }
            if open.last().is_some_and(|(close, _)| *close == b'}') {
                self.name()?;
            }
        }
    }
}

/// The character that the escape at `at` stands for, and the position behind it.
fn escape(text: &[u8], at: usize) -> Result<(char, usize), Bad> {
    let bad = |what: &str| Err(Bad::new(at, what));
    let plain = match text.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let Some(high) = unit(text, at) else { return bad("\\u wants four hexadecimal digits") };
            if let Some(c) = char::from_u32(high) {
                return Ok((c, at + 6));
            }
            let low = unit(text, at + 6).filter(|low| (0xdc00..0xe000).contains(low));
            let (0xd800..0xdc00, Some(low)) = (high, low) else {
                return bad("half of a surrogate pair is no character");
            };
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return Ok((char::from_u32(code).expect("a pair is a character"), at + 12));
        }
        _ => return bad("no such escape"),
    };
    Ok((plain, at + 2))
}

/// The UTF-16 unit of the `\uXXXX` at `at`.
fn unit(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
}

/// Whether that is a number of JSON's grammar.
pub(super) fn is_number(text: &str) -> bool {
    fn digits(text: &str) -> (bool, &str) {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < text.len(), rest)
    }
    let text = text.strip_prefix('-').unwrap_or(text);
    let (some, mut rest) = digits(text);
    let leading_zero = text.len() - rest.len() > 1 && text.starts_with('0');
    if !some || leading_zero {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        let (some, after) = digits(fraction);
        if !some {
            return false;
        }
        rest = after;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let (some, after) = digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
        if !some {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}
