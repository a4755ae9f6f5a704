//! What is said on a stream: a memcached command, and the reply to it as a value.

use base::Nanos;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::memcache::Line;
use protocol::memcache::client::{Expect, MAX_KEY, MetaStatus, Reply, is_plain_key, meta_token};
use protocol::wire::Status;
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest time from now that a client may write; beyond it lies Unix time.
const RELATIVE_MAX: u64 = 60 * 60 * 24 * 30;

/// A command as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose home is asked.
    pub key: Vec<u8>,
    /// Its bytes.
    pub text: Vec<u8>,
    /// What answers it.
    pub expect: Expect,
    /// It is not to be done twice.
    pub changes: bool,
}

/// What a home said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// To a retrieval: it is there.
    Value {
        /// The client's flags.
        flags: u32,
        /// Which it is; 0 where nobody asked.
        version: u64,
        /// Bytes.
        value: Vec<u8>,
    },
    /// To a retrieval: it is not there.
    Nothing,
    /// To a meta command.
    Meta {
        /// How it went.
        status: MetaStatus,
        /// The words that it returns: see [`number`].
        words: Vec<u8>,
        /// The value, where there is one.
        value: Vec<u8>,
    },
    /// It was not done.
    Refused(Status),
}

impl Said {
    /// A reply, after `before` of the same answer.
    pub(super) fn of(reply: &Reply<'_>, before: Option<Said>) -> Said {
        match reply {
            Reply::Value { flags, cas, data, .. } => {
                Said::Value { flags: *flags, version: cas.unwrap_or(0), value: data.to_vec() }
            }
            Reply::End => before.unwrap_or(Said::Nothing),
            Reply::Meta { status, flags, data } => Said::Meta {
                status: *status,
                words: flags.to_vec(),
                value: data.unwrap_or_default().to_vec(),
            },
            Reply::ServerError(why) => Said::Refused(status(b"SERVER_ERROR ", why)),
            Reply::ClientError(why) => Said::Refused(status(b"CLIENT_ERROR ", why)),
            _ => Said::Refused(Status::Bad),
        }
    }

    /// Whether a meta command returned this word: `W`, `X`, `Z`.
    pub fn has(&self, word: u8) -> bool {
        matches!(self, Said::Meta { words, .. } if words.split(|&b| b == b' ').any(|one| one == [word]))
    }
}

/// What a line of an error says in the cache's words.
fn status(kind: &[u8], why: &[u8]) -> Status {
    let is = |line: Line| line.bytes().trim_ascii_end() == [kind, why].concat();
    if is(Line::TooLarge) {
        Status::TooLarge
    } else if is(Line::Busy) {
        Status::Busy
    } else if is(Line::NotHome) {
        Status::NotHome
    } else if is(Line::NonNumeric) {
        Status::NotNumber
    } else if kind.starts_with(b"SERVER") && why.to_ascii_lowercase().starts_with(b"out of memory") {
        Status::NoRoom
    } else {
        log::warn!("a home refused what came by stream: {}", String::from_utf8_lossy(why));
        Status::Bad
    }
}

/// The number after `name` among the words that a meta command returned.
pub fn number(words: &[u8], name: u8) -> Option<u64> {
    std::str::from_utf8(meta_token(words, name)?).ok()?.parse().ok()
}

/// A key as meta commands write it, and whether in base64, which they are told by `b`; none where it is too long for that.
pub fn key_word(key: &[u8]) -> Option<(Cow<'_, [u8]>, bool)> {
    if is_plain_key(key) {
        return Some((Cow::Borrowed(key), false));
    }
    let text = BASE64_STANDARD.encode(key).into_bytes();
    (text.len() <= MAX_KEY).then_some((Cow::Owned(text), true))
}

/// A life as memcached clients write it.
pub fn exptime(life: Nanos) -> i64 {
    let seconds = life.0.div_ceil(1_000_000_000);
    match seconds {
        _ if life == Nanos::MAX => 0,
        0 => -1,
        1..=RELATIVE_MAX => seconds as i64,
        _ => {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            unix.saturating_add(seconds).min(i32::MAX as u64) as i64
        }
    }
}
