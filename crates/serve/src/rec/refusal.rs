//! Why a request gets no scores, and how each protocol says so.

use axum::http::StatusCode;
use fabric::status::{Code, Status};
use rec::request::{RequestError, Wrong};
use std::fmt;

/// See the head of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A tensor is wrong.
    Wrong(Wrong),
    /// It is no request at all.
    Malformed(String),
    /// Other models, or other versions, are served.
    NoModel {
        /// What was asked for.
        asked: String,
        /// What there is.
        served: String,
    },
    /// Too much is under way; what is full.
    Busy(&'static str),
    /// The body is longer than it may be.
    TooLong(usize),
    /// The body is compressed in a way that is not known.
    Encoding(String),
    /// The body did not arrive in time.
    Slow,
    /// It waited longer than rec.deadline says.
    Late,
    /// A fault of this server.
    Internal(&'static str),
}

impl Refusal {
    /// As an HTTP status.
    pub fn http(&self) -> StatusCode {
        match self {
            Refusal::Wrong(_) | Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
            Refusal::NoModel { .. } => StatusCode::NOT_FOUND,
            Refusal::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Encoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::Slow => StatusCode::REQUEST_TIMEOUT,
            Refusal::Late => StatusCode::GATEWAY_TIMEOUT,
            Refusal::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// As a status of the fabric.
    pub fn status(&self) -> Status {
        let code = match self {
            Refusal::Wrong(_) | Refusal::Malformed(_) | Refusal::Encoding(_) => Code::InvalidArgument,
            Refusal::NoModel { .. } => Code::NotFound,
            Refusal::Busy(_) | Refusal::TooLong(_) => Code::ResourceExhausted,
            Refusal::Slow | Refusal::Late => Code::DeadlineExceeded,
            Refusal::Internal(_) => Code::Internal,
        };
        Status::new(code, self.to_string())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Wrong(wrong) => wrong.fmt(f),
            Refusal::Malformed(why) => f.write_str(why),
            Refusal::NoModel { asked, served } => {
                write!(f, "there is no model {asked}; this server has {served}")
            }
            Refusal::Busy(what) => write!(f, "too much is under way ({what}): ask again later"),
            Refusal::TooLong(most) => {
                write!(f, "the body is longer than {most} bytes (register rec.body): send fewer queries")
            }
            Refusal::Encoding(encoding) => {
                write!(f, "the body is compressed with {encoding:?}: use gzip, or nothing")
            }
            Refusal::Slow => {
                f.write_str("the body did not arrive within rec.body_timeout, or a large one stopped coming")
            }
            Refusal::Late => f.write_str("the request waited longer than register rec.deadline says"),
            Refusal::Internal(why) => write!(f, "a fault of the server: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Refusal {
        Refusal::Wrong(wrong)
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Refusal {
        match error {
            RequestError::Wrong(wrong) => Refusal::Wrong(wrong),
            RequestError::Malformed(why) => Refusal::Malformed(why),
        }
    }
}
