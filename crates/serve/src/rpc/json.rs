//! Messages as JSON and back, by their descriptors, in protobuf's canonical mapping.

use super::RpcError;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};
use std::io::{self, Read};
use std::path::PathBuf;

/// The messages in a text of JSON objects, one behind the other, each encoded when it is asked for.
pub fn read<'a>(
    input: impl Read + 'a,
    of: &'a MessageDescriptor,
) -> impl Iterator<Item = Result<Vec<u8>, RpcError>> + 'a {
    let values = serde_json::Deserializer::from_reader(input).into_iter::<serde_json::Value>();
    values.map(move |value| {
        let read = value.and_then(|value| DynamicMessage::deserialize(of.clone(), value));
        let message = read.map_err(|cause| RpcError::Json { of: of.full_name().to_owned(), cause })?;
        Ok(message.encode_to_vec())
    })
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
/// The bytes are no such message.
pub fn write(bytes: &[u8], of: &MessageDescriptor, style: Style) -> Result<String, RpcError> {
    let bad = |cause: String| RpcError::BadReply { of: of.full_name().to_owned(), cause };
    let message = DynamicMessage::decode(of.clone(), bytes).map_err(|cause| bad(cause.to_string()))?;
    let options = SerializeOptions::new().skip_default_fields(!style.defaults);
    let value = message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|cause| bad(cause.to_string()))?;
    Ok(if style.one_line { value.to_string() } else { format!("{value:#}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::descriptions::Descriptions;
    use codec::compile::Compiler;

    fn message() -> MessageDescriptor {
        let text = "syntax = \"proto3\"; import \"google/protobuf/duration.proto\"; \
                    message M { string first_name = 1; uint64 n = 2; google.protobuf.Duration d = 3; bytes b = 4; }";
        let set = Compiler::new().source("m.proto", text).descriptor_set(&["m.proto"]).expect("a right file");
        let pool = Descriptions::of_set(&set).expect("descriptors");
        pool.pool().get_message_by_name("M").expect("a message")
    }

    #[test]
    fn messages_there_and_back() {
        let of = message();
        let text =
            r#"{"firstName":"ada","n":"18446744073709551615","d":"1.500s","b":"AQI="} {"first_name":"b"}"#;
        let encoded: Vec<Vec<u8>> =
            read(text.as_bytes(), &of).collect::<Result<_, _>>().expect("two messages");
        let one_line = Style { one_line: true, defaults: false };
        let back: Vec<String> =
            encoded.iter().map(|bytes| write(bytes, &of, one_line).expect("a message")).collect();
        assert_eq!(
            back,
            [
                r#"{"b":"AQI=","d":"1.500s","firstName":"ada","n":"18446744073709551615"}"#,
                r#"{"firstName":"b"}"#
            ]
        );
        let all = write(&[], &of, Style { one_line: true, defaults: true }).expect("a message");
        assert_eq!(all, r#"{"b":"","firstName":"","n":"0"}"#);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let of = message();
        let error = |text: &str| {
            let first = read(text.as_bytes(), &of).next().expect("something");
            first.expect_err("not a message").to_string()
        };
        assert!(error(r#"{"fistName":"x"}"#).contains("fistName"), "{}", error(r#"{"fistName":"x"}"#));
        assert!(error(r#"{"n":"x"}"#).starts_with("no M"), "{}", error(r#"{"n":"x"}"#));
        assert!(error("{").contains("line 1"));
        let bad = write(&[0xff], &of, Style::default()).expect_err("no message").to_string();
        assert!(bad.contains("the server's M"), "{bad}");
    }
}
