//! Messages as JSON and back, by the schema: streams of them, which `codec::text::json` does not know.

use super::RpcError;
use codec::decode::{Decoder, Limits};
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::object::Dynamic;
use codec::schema::Types;
use codec::text::json::{ParseOptions, PrintOptions, Splitter, TooLong, parse, print};
use std::io::{self, Read};
use std::path::PathBuf;

/// The messages in a text of JSON objects, one behind the other, each encoded when it is asked for, and read no further than to
/// its end.
pub fn read<'a>(
    input: impl Read + 'a,
    types: &'a Types,
    class: u32,
) -> impl Iterator<Item = Result<Vec<u8>, RpcError>> + 'a {
    let mut values = Values::new(input);
    let (mut encoder, mut index) = (Encoder::default(), 0);
    std::iter::from_fn(move || {
        let value = values.next().transpose()?;
        index += 1;
        let bad = |cause: String| RpcError::Json { of: name(types, class).to_owned(), index, cause };
        let encoded = value.map_err(|error| bad(error.to_string())).and_then(|value| {
            let text = std::str::from_utf8(&value).map_err(|error| bad(error.to_string()))?;
            let arena = Arena::default();
            let parsed = parse(types, class, text, &arena, &ParseOptions::default());
            let message = parsed.map_err(|error| bad(error.to_string()))?.freeze();
            message.encode(&mut encoder).map(<[u8]>::to_vec).map_err(|error| bad(error.to_string()))
        });
        Some(encoded)
    })
}

fn name(types: &Types, class: u32) -> &str {
    &types.schema().messages()[class as usize].name
}

/// The values of a stream. After an error there are no more.
struct Values<R> {
    input: R,
    splitter: Splitter,
    buffer: Box<[u8]>,
    unread: std::ops::Range<usize>,
    over: bool,
}

impl<R: Read> Values<R> {
    fn new(input: R) -> Values<R> {
        let splitter = Splitter::new(Limits::default().input_bytes);
        Values { input, splitter, buffer: vec![0; 8192].into(), unread: 0..0, over: false }
    }

    /// The next value, nothing at the end.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while !self.over {
            let mut rest = &self.buffer[self.unread.clone()];
            let taken = self.splitter.take(&mut rest);
            self.unread.start = self.unread.end - rest.len();
            match taken {
                Ok(None) => {}
                Ok(value) => return Ok(value),
                Err(TooLong) => {
                    self.over = true;
                    let most = Limits::default().input_bytes;
                    return Err(io::Error::other(format!("a message goes on beyond {most} bytes")));
                }
            }
            let count = match self.input.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.over = true;
                    return Err(error);
                }
                Ok(count) => count,
            };
            self.unread = 0..count;
            self.over = count == 0;
        }
        Ok(self.splitter.rest())
    }
}

/// Where a text of JSON comes from: itself, `@FILE`, or `@-` for standard input.
///
/// # Errors
/// The file cannot be read.
pub fn source(text: &str) -> Result<Box<dyn Read>, RpcError> {
    match text.strip_prefix('@') {
        None => Ok(Box::new(io::Cursor::new(text.as_bytes().to_vec()))),
        Some("-") => Ok(Box::new(io::stdin().lock())),
        Some(path) => {
            let path = PathBuf::from(path);
            let file = std::fs::File::open(&path).map_err(|cause| RpcError::Input { path, cause })?;
            Ok(Box::new(io::BufReader::new(file)))
        }
    }
}

/// How messages are printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// On one line.
    pub one_line: bool,
    /// With fields that have their default.
    pub defaults: bool,
}

/// An encoded message as JSON.
///
/// # Errors
/// The bytes are no such message, or one that has no JSON.
pub fn write(bytes: &[u8], types: &Types, class: u32, style: Style) -> Result<String, RpcError> {
    let bad = |cause: String| RpcError::BadReply { of: name(types, class).to_owned(), cause };
    let arena = Arena::default();
    let decoded = Dynamic::decode(types, class, &mut Decoder::default(), bytes, &arena);
    let message = decoded.map_err(|error| bad(error.to_string()))?;
    let Style { one_line, defaults } = style;
    let options = PrintOptions { one_line, defaults, ..PrintOptions::default() };
    print(message, &options).map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::compile::Compiler;

    fn types() -> (Types, u32) {
        let text = "syntax = \"proto3\"; import \"google/protobuf/duration.proto\"; \
                    message M { string first_name = 1; uint64 n = 2; google.protobuf.Duration d = 3; bytes b = 4; }";
        let schema = Compiler::new().source("m.proto", text).compile(&["m.proto"]).expect("a right file");
        let class = schema.class("M").expect("a message");
        (Types::new(schema), class)
    }

    #[test]
    fn messages_there_and_back() {
        let (types, class) = types();
        let text =
            r#"{"firstName":"ada","n":"18446744073709551615","d":"1.500s","b":"AQI="} {"first_name":"b"}"#;
        let encoded: Vec<Vec<u8>> =
            read(text.as_bytes(), &types, class).collect::<Result<_, _>>().expect("two messages");
        let one_line = Style { one_line: true, defaults: false };
        let back: Vec<String> =
            encoded.iter().map(|bytes| write(bytes, &types, class, one_line).expect("a message")).collect();
        assert_eq!(
            back,
            [
                r#"{"firstName":"ada","n":"18446744073709551615","d":"1.500s","b":"AQI="}"#,
                r#"{"firstName":"b"}"#
            ]
        );
        let all = write(&[], &types, class, Style { one_line: true, defaults: true }).expect("a message");
        assert_eq!(all, r#"{"firstName":"","n":"0","b":""}"#);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let (types, class) = types();
        let error = |text: &str| {
            let last = read(text.as_bytes(), &types, class).last().expect("something");
            last.expect_err("not a message").to_string()
        };
        let unknown = error("{\n \"fistName\":\"x\"}");
        assert!(unknown.contains("line 2, column 2") && unknown.contains("fistName"), "{unknown}");
        assert!(error(r#"{"n":"x"}"#).starts_with("no M"), "{}", error(r#"{"n":"x"}"#));
        assert!(error("{} {\"n\":-1}").contains("message 2"), "{}", error("{} {\"n\":-1}"));
        assert!(error("{").contains("line 1"));
        let bad = write(&[0xff], &types, class, Style::default()).expect_err("no message").to_string();
        assert!(bad.contains("the server's M"), "{bad}");
    }

    /// Gives a byte at a time, and fails a test that reads on behind a message it has.
    struct Slowly<'t>(&'t [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(self.1 > 0, "read on though a message was there");
            self.1 -= 1;
            buffer[0] = self.0[0];
            self.0 = &self.0[1..];
            Ok(1)
        }
    }

    #[test]
    fn a_message_is_there_when_it_ends() {
        let (types, class) = types();
        let text = r#"{"b":"AQI="} {"n":1}"#;
        let mut messages = read(Slowly(text.as_bytes(), 12), &types, class);
        assert!(messages.next().is_some_and(|message| message.is_ok()));
    }
}
