//! Tokens of text format.

use crate::text::error::Bad;

/// A token. Where it begins is [`Reader::at`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'i> {
    /// A name, or a word that stands for a value.
    Word(&'i str),
    /// What begins as a number; whether it is one says who knows the field.
    Number(&'i str),
    /// The bytes of a string, its pieces joined.
    Text(Vec<u8>),
    Mark(u8),
    End,
}

/// Reads one token ahead. A clone is a place to come back to.
#[derive(Clone)]
pub(super) struct Reader<'i> {
    text: &'i str,
    /// Where the next token begins.
    pub at: usize,
    end: usize,
    next: Token<'i>,
}

impl<'i> Reader<'i> {
    pub fn new(text: &'i str) -> Result<Reader<'i>, Bad> {
        let mut reader = Reader { text, at: 0, end: 0, next: Token::End };
        reader.advance()?;
        Ok(reader)
    }

    pub fn peek(&self) -> &Token<'i> {
        &self.next
    }

    pub fn bad<T>(&self, what: impl Into<String>) -> Result<T, Bad> {
        Err(Bad::new(self.at, what))
    }

    /// Takes the next token.
    pub fn take(&mut self) -> Result<Token<'i>, Bad> {
        let token = std::mem::replace(&mut self.next, Token::End);
        self.advance()?;
        Ok(token)
    }

    /// Takes that mark if it is next.
    pub fn takes(&mut self, mark: u8) -> Result<bool, Bad> {
        let there = self.next == Token::Mark(mark);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub fn expect(&mut self, mark: u8) -> Result<(), Bad> {
        if self.takes(mark)? { Ok(()) } else { self.bad(format!("expected {:?}", char::from(mark))) }
    }

    /// What is in the brackets whose opening one is next, without white space and comments.
    pub fn bracketed(&mut self) -> Result<String, Bad> {
        let mut name = String::new();
        loop {
            self.end = self.blank(self.end);
            let rest = &self.text[self.end..];
            let Some(c) = rest.chars().next() else { return self.bad("brackets without an end") };
            self.end += c.len_utf8();
            match c {
                ']' => break,
                _ if c.is_ascii_alphanumeric() || "_./-~!$&()*+,;=%".contains(c) => name.push(c),
                _ => return Err(Bad::new(self.end - c.len_utf8(), format!("{c:?} is in no name"))),
            }
        }
        self.advance()?;
        Ok(name)
    }

    /// The position behind white space and comments.
    fn blank(&self, mut at: usize) -> usize {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => at += 1,
                b'#' => {
                    at =
                        bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| at + end)
                }
                _ => break,
            }
        }
        at
    }

    fn advance(&mut self) -> Result<(), Bad> {
        self.at = self.blank(self.end);
        let bytes = &self.text.as_bytes()[self.at..];
        let Some(&first) = bytes.first() else {
            (self.end, self.next) = (self.at, Token::End);
            return Ok(());
        };
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let word = self.run(|byte, _| byte.is_ascii_alphanumeric() || byte == b'_');
                self.next = Token::Word(word);
            }
            b'"' | b'\'' => self.next = Token::Text(self.strings()?),
            _ if digit(0) || first == b'.' && digit(1) => {
                let hex = matches!(bytes.get(1), Some(b'x' | b'X'));
                let number = self.run(|byte, before| {
                    let sign = matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E') && !hex;
                    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || sign
                });
                self.next = Token::Number(number);
            }
            b'{' | b'}' | b'<' | b'>' | b'[' | b']' | b':' | b',' | b';' | b'-' => {
                self.end = self.at + 1;
                self.next = Token::Mark(first);
            }
            _ => {
                let c = self.text[self.at..].chars().next().expect("a byte is of a character");
                return self.bad(format!("{c:?} has no meaning here"));
            }
        }
        Ok(())
    }

    /// The characters from here for which that is so, of each and the one before it.
    fn run(&mut self, takes: impl Fn(u8, u8) -> bool) -> &'i str {
        let bytes = self.text.as_bytes();
        self.end = self.at + 1;
        while self.end < bytes.len() && takes(bytes[self.end], bytes[self.end - 1]) {
            self.end += 1;
        }
        &self.text[self.at..self.end]
    }

    /// The strings from here, which are one.
    fn strings(&mut self) -> Result<Vec<u8>, Bad> {
        let bytes = self.text.as_bytes();
        let mut out = Vec::new();
        let mut at = self.at;
        loop {
            let (start, quote) = (at, bytes[at]);
            at += 1;
            loop {
                match bytes.get(at) {
                    None | Some(b'\n') => return Err(Bad::new(start, "a string without an end")),
                    Some(&byte) if byte == quote => break,
                    Some(b'\\') => at = escape(bytes, at, &mut out)?,
                    Some(&byte) => {
                        out.push(byte);
                        at += 1;
                    }
                }
            }
            self.end = at + 1;
            at = self.blank(self.end);
            if !matches!(bytes.get(at), Some(b'"' | b'\'')) {
                return Ok(out);
            }
        }
    }
}

/// What the escape at `at` stands for; the position behind it.
fn escape(text: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, Bad> {
    let digits = |from: usize, most: usize, radix: u32| {
        let digits = text[from.min(text.len())..]
            .iter()
            .take(most)
            .map_while(|&byte| char::from(byte).to_digit(radix));
        digits.fold((0, 0), |(value, count), digit| (value * radix + digit, count + 1))
    };
    let bad = |what: &str| Err(Bad::new(at, what));
    let plain = match text.get(at + 1) {
        Some(b'a') => 7,
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'v') => 11,
        Some(&same @ (b'?' | b'\\' | b'\'' | b'"')) => same,
        Some(b'0'..=b'7') => {
            let (value, count) = digits(at + 1, 3, 8);
            let Ok(byte) = u8::try_from(value) else { return bad("an octal escape is at most \\377") };
            out.push(byte);
            return Ok(at + 1 + count);
        }
        Some(b'x' | b'X') => {
            let (value, count) = digits(at + 2, 2, 16);
            if count == 0 {
                return bad("\\x wants one or two hexadecimal digits");
            }
            out.push(value as u8);
            return Ok(at + 2 + count);
        }
        Some(b'u') => return unicode(at, digits(at + 2, 4, 16), 4, out),
        Some(b'U') => return unicode(at, digits(at + 2, 8, 16), 8, out),
        _ => return bad("no such escape"),
    };
    out.push(plain);
    Ok(at + 2)
}

/// The character of a `\u` or `\U`, in UTF-8. What is beyond four digits wants `\U`: pairs of surrogates are no characters here.
fn unicode(at: usize, (code, count): (u32, usize), wanted: usize, out: &mut Vec<u8>) -> Result<usize, Bad> {
    if count != wanted {
        return Err(Bad::new(at, format!("the escape wants {wanted} hexadecimal digits")));
    }
    let c = char::from_u32(code).ok_or_else(|| Bad::new(at, "the escape is no character of Unicode"))?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(at + 2 + wanted)
}
