//! What is asked of a key-value server, and what it answers.

use super::Error;
use protocol::memcache::Line;
use protocol::memcache::client::{Expect, MAX_KEY, Reply, is_plain_key, request};

pub use protocol::memcache::client::request::Store;

/// A request.
///
/// Keys have 1 to 250 bytes, none of them a space or a control character. `expiry_s` is memcached's: seconds from now, up to 30 days; a larger one is a
/// Unix time; 0 is for ever; a negative one has expired already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The item of a key.
    Get {
        /// Of the item: 1 to 250 bytes.
        key: &'a [u8],
        /// With its version, for [`Store::Cas`].
        version: bool,
    },
    /// The item of a key with its version, which expires at another time from now on.
    GetAndTouch {
        /// Of the item: 1 to 250 bytes.
        key: &'a [u8],
        /// As memcached's exptime: seconds from now up to 30 days, beyond that Unix time; 0 never, less at once.
        expiry_s: i64,
    },
    /// Stores a value.
    Store {
        /// Under which condition, and where.
        how: Store,
        /// Under which key.
        key: &'a [u8],
        /// What.
        value: &'a [u8],
        /// A number that is kept with it.
        flags: u32,
        /// As memcached's exptime: seconds from now up to 30 days, beyond that Unix time; 0 never, less at once.
        expiry_s: i64,
    },
    /// Removes an item.
    Delete {
        /// Of the item: 1 to 250 bytes.
        key: &'a [u8],
    },
    /// Adds to a decimal number, modulo 2^64, or subtracts from it, down to 0.
    Count {
        /// Of the item: 1 to 250 bytes.
        key: &'a [u8],
        /// How much.
        by: u64,
        /// Subtracts.
        down: bool,
    },
    /// Has an item expire at another time.
    Touch {
        /// Of the item: 1 to 250 bytes.
        key: &'a [u8],
        /// As memcached's exptime: seconds from now up to 30 days, beyond that Unix time; 0 never, less at once.
        expiry_s: i64,
    },
    /// Says who asks, to a server with users.
    Login {
        /// Who.
        user: &'a [u8],
        /// Known to both.
        password: &'a [u8],
    },
}

/// An item, in the client's memory until its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The number that was stored with it.
    pub flags: u32,
    /// The write that made it; 0 where it was not asked for.
    pub version: u64,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Of [`Request::Get`] and [`Request::GetAndTouch`]: it is there.
    Item(Item<'a>),
    /// It is stored, removed, touched, or whoever asked is let in.
    Done,
    /// There is no such item.
    NotFound,
    /// The condition of an add, replace, append or prepend does not hold.
    NotStored,
    /// Another version is there.
    Exists,
    /// Of [`Request::Count`]: the sum.
    Number(u64),
}

impl Request<'_> {
    /// The key that it is about; a login has none.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Request::Get { key, .. }
            | Request::GetAndTouch { key, .. }
            | Request::Store { key, .. }
            | Request::Delete { key }
            | Request::Count { key, .. }
            | Request::Touch { key, .. } => Some(key),
            Request::Login { .. } => None,
        }
    }

    /// Whether it can be sent.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Request::Login { user, .. } if user.is_empty() || user.contains(&b' ') => {
                Err(Error::Argument("a user has a name, without spaces".to_owned()))
            }
            other => match other.key() {
                Some(key) if !is_plain_key(key) => Err(Error::Argument(bad_key(key))),
                _ => Ok(()),
            },
        }
    }

    /// Appends it as memcached's text protocol has it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Expect {
        match *self {
            Request::Get { key, version } => request::read(out, if version { "gets" } else { "get" }, [key]),
            Request::GetAndTouch { key, expiry_s } => request::read_and_touch(out, "gats", expiry_s, [key]),
            Request::Store { how, key, value, flags, expiry_s } => {
                request::store(out, how, key, flags, expiry_s, value, false)
            }
            Request::Delete { key } => request::delete(out, key, false),
            Request::Count { key, by, down } => request::count(out, key, by, down, false),
            Request::Touch { key, expiry_s } => request::touch(out, key, expiry_s, false),
            // Users come in by a set of any key.
            Request::Login { user, password } => {
                request::set(out, b"login", 0, 0, &[user, b" ".as_slice(), password].concat())
            }
        }
    }
}

fn bad_key(key: &[u8]) -> String {
    match key.len() {
        0 => "a key has at least one byte".to_owned(),
        1..=MAX_KEY => "a key has no spaces and no control characters".to_owned(),
        len => format!("a key has at most {MAX_KEY} bytes, and this one has {len}"),
    }
}

/// What a reply that is one line says.
pub(super) fn outcome(reply: &Reply<'_>) -> Result<Answer<'static>, Error> {
    Ok(match reply {
        Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Ok => Answer::Done,
        Reply::NotStored => Answer::NotStored,
        Reply::Exists => Answer::Exists,
        // Of an item that was asked for, when none came before the end.
        Reply::NotFound | Reply::End => Answer::NotFound,
        Reply::Number(number) => Answer::Number(*number),
        Reply::Error => {
            return Err(Error::Refused(
                "the server does not know the command: is it a key-value server?".to_owned(),
            ));
        }
        Reply::ClientError(why) => return Err(refusal("CLIENT_ERROR ", why)),
        Reply::ServerError(why) => return Err(refusal("SERVER_ERROR ", why)),
        Reply::Value { .. } | Reply::Reset | Reply::Version(_) | Reply::Stat { .. } | Reply::Meta { .. } => {
            return Err(Error::Broken("the server's reply does not fit the request".to_owned()));
        }
    })
}

fn refusal(kind: &str, why: &[u8]) -> Error {
    let is = |line: Line| {
        let text = line.bytes().strip_prefix(kind.as_bytes());
        text.is_some_and(|text| text.trim_ascii_end() == why)
    };
    match () {
        () if is(Line::NonNumeric) => Error::NotANumber,
        () if is(Line::TooLarge) || is(Line::ReplyTooLarge) => Error::TooLarge,
        () if is(Line::Unauthenticated) || is(Line::LoginFailed) => Error::Login,
        () => Error::Refused(format!("{kind}{}", String::from_utf8_lossy(why))),
    }
}
