//! How messages are compressed: gzip, or not at all.
//!
//! What a client compresses is unpacked here, and who compresses his requests has his replies compressed. Who only says that he would take it has them as
//! they are: most clients say so by default, and on the way from here processor time is scarcer than bytes.
//!
//! Bounds: a message is unpacked to [`MAX_MESSAGE`] bytes and no further, however short it came.
//!
//! Source: gRPC's compression.md.

use crate::gzip::{self, GzipError};
use bytes::Bytes;
use fabric::frame::MAX_MESSAGE;
use fabric::status::{Code, Status};
use http::header::HeaderMap;

/// Shorter messages are not worth it: gzip's own head and tail are 18 bytes.
const MIN_PACKED: usize = 64;

/// How the messages of a call are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    #[default]
    Identity,
    /// With gzip.
    Gzip,
}

impl Encoding {
    /// What `grpc-accept-encoding` says of this server.
    pub const ACCEPTED: &str = "identity,gzip";

    /// What the headers of a request say of its messages.
    ///
    /// # Errors
    /// Another encoding.
    pub fn of(headers: &HeaderMap) -> Result<Encoding, Status> {
        match headers.get("grpc-encoding").map(|value| value.as_bytes()) {
            None | Some(b"identity") => Ok(Encoding::Identity),
            Some(b"gzip") => Ok(Encoding::Gzip),
            Some(other) => {
                let other = String::from_utf8_lossy(&other[..other.len().min(100)]).into_owned();
                let text = format!(
                    "messages compressed with {other:?} are not taken: use one of {}",
                    Encoding::ACCEPTED
                );
                Err(Status::new(Code::Unimplemented, text))
            }
        }
    }

    /// Its name, where it has to be said.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Encoding::Identity => None,
            Encoding::Gzip => Some("gzip"),
        }
    }

    /// What was packed.
    ///
    /// # Errors
    /// It was packed otherwise, or is longer than a message may be.
    pub fn unpacked(self, packed: &[u8]) -> Result<Bytes, Status> {
        if self == Encoding::Identity {
            let text = "a message is said to be compressed, and header grpc-encoding does not say how";
            return Err(Status::new(Code::Internal, text));
        }
        gzip::unpacked(packed, MAX_MESSAGE).map(Bytes::from).map_err(|error| {
            let code = match error {
                GzipError::TooLong(_) => Code::ResourceExhausted,
                GzipError::Malformed(_) => Code::Internal,
            };
            Status::new(code, format!("a compressed message is not taken: {error}"))
        })
    }

    /// The message packed, if that is shorter.
    pub fn packed(self, message: &[u8]) -> Option<Vec<u8>> {
        if self == Encoding::Identity || message.len() < MIN_PACKED {
            return None;
        }
        gzip::packed(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn headers_say_how_messages_are_compressed() {
        let of = |name: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-encoding", HeaderValue::from_static(name));
            Encoding::of(&headers)
        };
        assert_eq!((of("identity"), of("gzip")), (Ok(Encoding::Identity), Ok(Encoding::Gzip)));
        assert_eq!(Encoding::of(&HeaderMap::new()), Ok(Encoding::Identity));
        let refused = of("snappy").expect_err("it is not spoken");
        assert_eq!(refused.code(), Code::Unimplemented);
        assert!(refused.message().contains("snappy") && refused.message().contains("gzip"));
    }

    #[test]
    fn a_message_that_grows_beyond_all_bounds_is_refused() {
        let packed = |len| Encoding::Gzip.packed(&vec![0; len]).expect("zeros are shorter");
        assert_eq!(
            Encoding::Gzip.unpacked(&packed(MAX_MESSAGE)).map(|message| message.len()),
            Ok(MAX_MESSAGE)
        );
        let refused = Encoding::Gzip.unpacked(&packed(MAX_MESSAGE + 1)).expect_err("too long");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(Encoding::Gzip.unpacked(b"plain").expect_err("no gzip").code(), Code::Internal);
        assert_eq!((Encoding::Gzip.packed(b"short"), Encoding::Identity.packed(&[0; 1000])), (None, None));
    }
}
