//! gRPC's own part of HTTP/2: length-prefixed messages, timeouts, metadata and trailers. No sockets here.
//!
//! Shape: a message is u8 compressed (0 or 1, by what `grpc-encoding` says) · u32 length, big-endian · bytes. A timeout is 1 to 8 digits and a
//! unit. Metadata are headers; the value of one that ends in `-bin` is base64. The outcome is in the trailers `grpc-status`, a number,
//! and `grpc-message`, percent-encoded; a service's `grpc-status-details-bin` goes with it as metadata do.
//!
//! Bounds: a message of [`MAX_MESSAGE`], compressed and not; metadata that the fabric takes (beyond it they are refused, not cut).
//!
//! Source: gRPC over HTTP2 (PROTOCOL-HTTP2.md of the grpc project).

use super::encoding::Encoding;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, Bytes, BytesMut};
use fabric::frame::{self, MAX_MESSAGE};
use fabric::status::{Code, Status};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// Bytes before each message.
const PREFIX: usize = 5;

/// What a service says of a status beside its code and words, as a serialised `google.rpc.Status`: the one name of gRPC's own that is a service's to set.
const STATUS_DETAILS: &str = "grpc-status-details-bin";

/// Base64 as gRPC wants it: written without padding, read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Cuts a stream of bytes into messages.
pub struct Messages {
    bytes: BytesMut,
    encoding: Encoding,
}

impl Messages {
    /// Of a stream whose compressed messages are compressed so.
    pub fn new(encoding: Encoding) -> Messages {
        Messages { bytes: BytesMut::new(), encoding }
    }

    /// More bytes came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, not compressed any more.
    ///
    /// # Errors
    /// One that is too long, or compressed in no way that was said.
    pub fn pop(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX>() else { return Ok(None) };
        let is_compressed = match prefix[0] {
            0 => false,
            1 => true,
            other => {
                let text =
                    format!("a message begins with 0, or 1 if it is compressed; this one with {other}");
                return Err(Status::new(Code::Internal, text));
            }
        };
        let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        if len > MAX_MESSAGE {
            let text = format!("a message of {len} bytes is longer than {MAX_MESSAGE}");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        if self.bytes.len() < PREFIX + len {
            self.bytes.reserve(PREFIX + len - self.bytes.len());
            return Ok(None);
        }
        self.bytes.advance(PREFIX);
        let message = self.bytes.split_to(len).freeze();
        if is_compressed { self.encoding.unpacked(&message).map(Some) } else { Ok(Some(message)) }
    }

    /// Whether a message was begun and not finished.
    pub fn is_torn(&self) -> bool {
        !self.bytes.is_empty()
    }
}

/// A message with its prefix, compressed where that makes it shorter.
pub fn framed(message: &[u8], encoding: Encoding) -> Bytes {
    let packed = encoding.packed(message);
    let bytes = packed.as_deref().unwrap_or(message);
    let mut out = BytesMut::with_capacity(PREFIX + bytes.len());
    out.extend_from_slice(&[u8::from(packed.is_some())]);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
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
            && (!is_reserved(name.as_str()) || name.as_str() == STATUS_DETAILS)
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
            messages in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..300), 0..6),
            cut in 1usize..200,
            encoding in encodings(),
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(|m| framed(m, encoding)).collect();
            let (mut splitter, mut back) = (Messages::new(encoding), Vec::new());
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
            encoding in encodings(),
        ) {
            let piece = |(flag, len, bytes): (u8, u32, Vec<u8>)| {
                // Mostly not compressed, sometimes far too long.
                let len = if len == 39 { u32::MAX } else { len };
                [&[flag / 2][..], &len.to_be_bytes(), &bytes].concat()
            };
            let bytes: Vec<u8> = pieces.into_iter().flat_map(piece).collect();
            prop_assert_eq!(cut(&bytes, bytes.len().max(1), encoding), cut(&bytes, at_once, encoding));
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

    fn encodings() -> impl Strategy<Value = Encoding> {
        prop_oneof![Just(Encoding::Identity), Just(Encoding::Gzip)]
    }

    /// All messages, and how it ended.
    fn cut(bytes: &[u8], at_once: usize, encoding: Encoding) -> (Vec<Bytes>, Result<bool, Status>) {
        let (mut splitter, mut messages) = (Messages::new(encoding), Vec::new());
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
    fn messages_that_cannot_be_are_refused() {
        for (prefix, encoding, code) in [
            // Compressed, and nobody said how.
            ([1, 0, 0, 0, 0], Encoding::Identity, Code::Internal),
            // Nothing is no gzip.
            ([1, 0, 0, 0, 0], Encoding::Gzip, Code::Internal),
            ([2, 0, 0, 0, 0], Encoding::Gzip, Code::Internal),
            ([0, 255, 255, 255, 255], Encoding::Identity, Code::ResourceExhausted),
            ([1, 255, 255, 255, 255], Encoding::Gzip, Code::ResourceExhausted),
        ] {
            let mut splitter = Messages::new(encoding);
            splitter.push(&prefix);
            assert_eq!(splitter.pop().expect_err("refused").code(), code, "{prefix:?} {encoding:?}");
        }
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

    #[test]
    fn details_of_a_status_are_the_services_and_other_names_of_grpc_are_not() {
        let mut said = Vec::new();
        for (name, value) in [(STATUS_DETAILS, &[8, 5][..]), ("grpc-status", b"0"), ("grpc-encoding", b"x")] {
            assert!(frame::push_metadata(&mut said, name, value));
        }
        let trailers = trailers(&Err(Status::new(Code::NotFound, "")), &said);
        assert_eq!(
            (&trailers["grpc-status"], &trailers[STATUS_DETAILS]),
            (&HeaderValue::from(5), &"CAU".parse().expect("text"))
        );
        assert_eq!(trailers.len(), 2);
    }
}
