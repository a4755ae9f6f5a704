//! gRPC's own part of HTTP/2: length-prefixed messages, timeouts, metadata and trailers. No sockets here.
//!
//! Shape: a message is u8 compressed (0; nothing else is spoken) · u32 length, big-endian · bytes. A timeout is 1 to 8 digits and a unit. Metadata
//! are headers; the value of one that ends in `-bin` is base64. The outcome is in the trailers `grpc-status`, a number,
//! and `grpc-message`, percent-encoded.
//!
//! Bounds: a message of [`MAX_MESSAGE`]; metadata that the fabric takes (beyond it they are refused, not cut).
//!
//! Source: gRPC over HTTP2 (PROTOCOL-HTTP2.md of the grpc project).

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, Bytes, BytesMut};
use fabric::frame::{self, MAX_MESSAGE};
use fabric::status::{Code, Status};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// Bytes before each message.
const PREFIX: usize = 5;

/// Base64 as gRPC wants it: written without padding, read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Cuts a stream of bytes into messages.
#[derive(Default)]
pub struct Messages(BytesMut);

impl Messages {
    /// More bytes came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole message.
    ///
    /// # Errors
    /// A compressed one, or one that is too long.
    pub fn pop(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(prefix) = self.0.first_chunk::<PREFIX>() else { return Ok(None) };
        if prefix[0] != 0 {
            return Err(Status::new(
                Code::Unimplemented,
                "compressed messages are not taken: switch compression off",
            ));
        }
        let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        if len > MAX_MESSAGE {
            let text = format!("a message of {len} bytes is longer than {MAX_MESSAGE}");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        if self.0.len() < PREFIX + len {
            self.0.reserve(PREFIX + len - self.0.len());
            return Ok(None);
        }
        self.0.advance(PREFIX);
        Ok(Some(self.0.split_to(len).freeze()))
    }

    /// Whether a message was begun and not finished.
    pub fn is_torn(&self) -> bool {
        !self.0.is_empty()
    }
}

/// A message with its prefix.
pub fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(PREFIX + message.len());
    out.extend_from_slice(&[0]);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    out.freeze()
}

/// What a `grpc-timeout` says.
///
/// # Errors
/// It says nothing that can be understood.
pub fn timeout(value: &HeaderValue) -> Result<Duration, Status> {
    let bad = || Status::new(Code::InvalidArgument, "grpc-timeout is 1 to 8 digits and one of H M S m u n");
    let text = value.to_str().map_err(|_| bad())?;
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(bad)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let n: u64 = digits.parse().map_err(|_| bad())?;
    Ok(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return Err(bad()),
    })
}

/// The metadata among request headers, as frames carry them.
///
/// # Errors
/// They are too long, or a binary one is no base64.
pub fn metadata(headers: &HeaderMap) -> Result<Vec<u8>, Status> {
    let mut out = Vec::new();
    for (name, value) in headers {
        let name = name.as_str();
        if is_reserved(name) {
            continue;
        }
        let pushed = if name.ends_with("-bin") {
            let bad = |_| Status::new(Code::InvalidArgument, format!("{name} is not base64"));
            frame::push_metadata(&mut out, name, &BASE64.decode(value.as_bytes()).map_err(bad)?)
        } else {
            frame::push_metadata(&mut out, name, value.as_bytes())
        };
        if !pushed {
            let text =
                format!("metadata {name} does not fit: all together may have {} bytes", frame::MAX_METADATA);
            return Err(Status::new(Code::ResourceExhausted, text));
        }
    }
    Ok(out)
}

/// HTTP's and gRPC's own headers, which are not the caller's.
fn is_reserved(name: &str) -> bool {
    name.starts_with("grpc-")
        || matches!(name, "te" | "content-type" | "user-agent" | "content-length" | "host")
}

/// Adds metadata from a frame to response headers or trailers; what HTTP cannot carry is left out.
pub fn add_metadata(headers: &mut HeaderMap, metadata: &[u8]) {
    for (key, value) in frame::metadata(metadata) {
        let value = match key.ends_with("-bin") {
            true => HeaderValue::from_str(&BASE64.encode(value)),
            false => HeaderValue::from_bytes(value),
        };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(key.as_bytes()), value)
            && !is_reserved(name.as_str())
        {
            headers.append(name, value);
        }
    }
}

/// The trailers of an outcome.
pub fn trailers(outcome: &Result<(), Status>, metadata: &[u8]) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let code = outcome.as_ref().map_or_else(Status::code, |()| Code::Ok);
    trailers.insert("grpc-status", HeaderValue::from(code as u16));
    if let Err(status) = outcome
        && !status.message().is_empty()
    {
        let text = percent_encoded(status.message());
        trailers.insert("grpc-message", HeaderValue::from_str(&text).expect("percent-encoded text is ASCII"));
    }
    add_metadata(&mut trailers, metadata);
    trailers
}

/// Printable ASCII but for the percent sign as it is, every other byte as %XX.
fn percent_encoded(text: &str) -> String {
    let encode = |b: u8| match b {
        b' '..=b'~' if b != b'%' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_back_however_they_are_cut(
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
            cut in 1usize..200,
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(|m| framed(m)).collect();
            let (mut splitter, mut back) = (Messages::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                splitter.push(piece);
                while let Some(message) = splitter.pop().expect("whole") {
                    back.push(message.to_vec());
                }
            }
            prop_assert!(!splitter.is_torn());
            prop_assert_eq!(back, messages);
        }

        /// Prefixes that are good more often than chance would have it.
        #[test]
        fn any_bytes_are_cut_the_same_in_one_piece_and_in_many(
            pieces in proptest::collection::vec((0u8..3, 0u32..40, proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
            at_once in 1usize..30,
        ) {
            let piece = |(flag, len, bytes): (u8, u32, Vec<u8>)| {
                // Mostly not compressed, sometimes far too long.
                let len = if len == 39 { u32::MAX } else { len };
                [&[flag / 2][..], &len.to_be_bytes(), &bytes].concat()
            };
            let bytes: Vec<u8> = pieces.into_iter().flat_map(piece).collect();
            prop_assert_eq!(cut(&bytes, bytes.len().max(1)), cut(&bytes, at_once));
        }

        #[test]
        fn any_headers_are_metadata_or_refused(
            headers in proptest::collection::vec(("[a-z][a-z0-9_.-]{0,12}(-bin)?", proptest::collection::vec(any::<u8>(), 0..30)), 0..8),
        ) {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
                    map.append(name, value);
                }
            }
            if let Ok(frames) = metadata(&map) {
                let mut back = HeaderMap::new();
                add_metadata(&mut back, &frames);
                let again = metadata(&back).expect("it was metadata before");
                let order = |frames: &[u8]| {
                    let mut all: Vec<_> =
                        frame::metadata(frames).map(|(key, value)| (key.to_owned(), value.to_vec())).collect();
                    all.sort();
                    all
                };
                prop_assert_eq!(order(&again), order(&frames));
            }
        }

        #[test]
        fn any_timeout_is_a_time_or_refused(text in "([0-9]{0,10}[HMSmunx]?|\\PC{0,12})") {
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes())
                && timeout(&value).is_ok()
            {
                let (digits, unit) = text.split_at(text.len() - 1);
                prop_assert!((1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()));
                prop_assert!("HMSmun".contains(unit));
            }
        }

        /// A server's words and metadata are anybody's, too.
        #[test]
        fn any_outcome_is_trailers(text in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let trailers = super::trailers(&Err(Status::new(Code::Internal, text.clone())), &bytes);
            prop_assert_eq!(&trailers["grpc-status"], "13");
            let said = trailers.get("grpc-message").map(|said| decoded(said.as_bytes())).unwrap_or_default();
            prop_assert_eq!(String::from_utf8(said), Ok(Status::new(Code::Internal, text).message().to_owned()));
        }
    }

    /// All messages, and how it ended.
    fn cut(bytes: &[u8], at_once: usize) -> (Vec<Bytes>, Result<bool, Status>) {
        let (mut splitter, mut messages) = (Messages::default(), Vec::new());
        for piece in bytes.chunks(at_once) {
            splitter.push(piece);
            loop {
                match splitter.pop() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(status) => return (messages, Err(status)),
                }
            }
        }
        (messages, Ok(splitter.is_torn()))
    }

    /// What was percent-encoded.
    fn decoded(mut text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some((&first, rest)) = text.split_first() {
            let (byte, used) = match first {
                b'%' => {
                    let digits = std::str::from_utf8(&rest[..2]).expect("two digits");
                    (u8::from_str_radix(digits, 16).expect("two digits"), 2)
                }
                plain => (plain, 0),
            };
            out.push(byte);
            text = &rest[used..];
        }
        out
    }

    #[test]
    fn compressed_and_long_messages_are_refused() {
        let mut splitter = Messages::default();
        splitter.push(&[1, 0, 0, 0, 0]);
        assert_eq!(splitter.pop().expect_err("compressed").code(), Code::Unimplemented);
        let mut splitter = Messages::default();
        splitter.push(&[0, 255, 255, 255, 255]);
        assert_eq!(splitter.pop().expect_err("long").code(), Code::ResourceExhausted);
    }

    #[test]
    fn timeouts() {
        let read = |text: &'static str| timeout(&HeaderValue::from_static(text));
        assert_eq!(read("250m"), Ok(Duration::from_millis(250)));
        assert_eq!(read("99999999H"), Ok(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "m", "5", "123456789S", "-1S", "1x", "1 S"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn metadata_both_ways() {
        let mut headers = HeaderMap::new();
        headers.insert("x-user", HeaderValue::from_static("ann"));
        headers.insert("key-bin", HeaderValue::from_static("AAH/"));
        headers.insert("grpc-timeout", HeaderValue::from_static("1S"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        let encoded = metadata(&headers).expect("it fits");
        let entries: Vec<_> = frame::metadata(&encoded).collect();
        assert_eq!(entries, [("x-user", &b"ann"[..]), ("key-bin", &[0, 1, 255])]);
        let mut back = HeaderMap::new();
        add_metadata(&mut back, &encoded);
        assert_eq!(
            (back.len(), &back["x-user"], &back["key-bin"]),
            (2, &headers["x-user"], &headers["key-bin"])
        );
        headers.insert("key-bin", HeaderValue::from_static("!"));
        assert_eq!(metadata(&headers).expect_err("no base64").code(), Code::InvalidArgument);
    }

    #[test]
    fn outcomes() {
        let trailers = trailers(&Err(Status::new(Code::NotFound, "50% of größe\n")), &[]);
        assert_eq!(trailers["grpc-status"], "5");
        assert_eq!(trailers["grpc-message"], "50%25 of gr%C3%B6%C3%9Fe%0A");
        assert_eq!(super::trailers(&Ok(()), &[])["grpc-status"], "0");
    }
}
