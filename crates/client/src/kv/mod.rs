//! A client of one key-value server, `millrace up` or memcached: typed operations over shared memory, Unix sockets, TCP and TLS.
//!
//! ```no_run
//! use client::kv::{Client, Options};
//!
//! let mut client = Client::open("shm:/run/millrace.shm", &Options::default())?;
//! client.set(b"colour", b"blue", 0)?;
//! assert_eq!(client.get(b"colour")?.map(|item| item.value), Some(b"blue".as_slice()));
//! # Ok::<(), client::kv::Error>(())
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `request` | what is asked, and what is answered |
//! | `line`, `stream` | the way there, of either kind; sockets |
//! | [`rings`] | shared memory, for whoever wants to send messages of his own |
//! | `error` | why there is no answer |
//!
//! Shape: requests are encoded as memcached's text, one message each over rings; replies come in their order, so what is under way is a queue. An
//! operation that waits is a request that is submitted and completed with nothing else under way.
//!
//! Invariants
//! 1. A request that was given up after its time is still under way: its answer is dropped when it comes, and is never taken for another's.
//! 2. Values are handed out where they arrived, until the next request.
//! 3. After [`Error::Gone`] or [`Error::Broken`] every call says the same.
//!
//! Bounds: [`MAX_UNDER_WAY`] requests; a value of at most [`MAX_VALUE`] bytes; of replies, those of what is under way are held.
//!
//! Cost: get and set over shared memory about a microsecond with both sides awake: `docs/measurements/clients.md`.
//!
//! Tests: `tests`; from C, Python and Go in `millrace/tests/languages`.

mod error;
mod line;
mod request;
pub mod rings;
mod stream;
#[cfg(test)]
mod tests;

pub use base::tls::{ClientFiles, ClientTls};
pub use error::Error;
pub use fabric::link::Address;
pub use request::{Answer, Item, Request, Store};

use fabric::link::AddressError;
use line::Line;
use protocol::memcache::client::{Progress, Reply, ReplyReader};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Requests that can be under way.
pub const MAX_UNDER_WAY: usize = 4096;

/// Bytes of the longest value that is read.
pub const MAX_VALUE: usize = 128 << 20;

/// Keys of [`Client::get_many`] that are under way together.
const KEYS_TOGETHER: usize = 256;

/// Bytes of replies that were read before they are moved out of the way.
const READ_BYTES_MAX: usize = 64 << 10;

/// How a session is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long an operation waits for its answer; beyond that it is [`Error::TimedOut`], after twice as long at most where an answer comes in pieces.
    pub timeout: Duration,
    /// Whom `tls:` believes.
    pub tls: Option<ClientTls>,
}

impl Default for Options {
    fn default() -> Options {
        Options { timeout: Duration::from_secs(1), tls: None }
    }
}

/// A request that is under way.
struct Pending {
    ticket: u64,
    /// Nobody waits for its answer any more.
    is_dropped: bool,
}

/// Where the item of an answer is, in what arrived.
#[derive(Clone)]
struct Found {
    value: Range<usize>,
    flags: u32,
    version: u64,
}

/// The answer to a request that was submitted.
#[derive(Debug)]
pub struct Completion<'a> {
    /// Of which, as [`Client::submit`] said.
    pub ticket: u64,
    /// How it went.
    pub answer: Result<Answer<'a>, Error>,
}

/// A session with a server. One thread uses it at a time.
pub struct Client {
    line: Line,
    options: Options,
    reader: ReplyReader,
    /// The request that is being encoded.
    request: Vec<u8>,
    /// What arrived; of it, what was read.
    input: Vec<u8>,
    read: usize,
    /// The item of an answer whose end has not come.
    found: Option<Found>,
    pending: VecDeque<Pending>,
    /// Of them, those whose answer is waited for.
    awaited: usize,
    next_ticket: u64,
    /// Values of [`Client::get_many`].
    values: Vec<u8>,
    end: Option<Error>,
}

impl Client {
    /// Opens a session with the server at `address`: `shm:/path` (the server's `--shm`), `unix:/path`, `HOST:PORT` or `tcp:HOST:PORT`, or
    /// `tls:HOST:PORT`.
    ///
    /// # Errors
    /// [`Error::Argument`] and [`Error::Unreachable`], which say what to do.
    pub fn open(address: &str, options: &Options) -> Result<Client, Error> {
        let address = match address.parse() {
            Err(AddressError::Transport(_)) => format!("tcp:{address}").parse(),
            parsed => parsed,
        };
        let address = address.map_err(|error: AddressError| {
            Error::Argument(format!("{error}: write shm:/path, unix:/path, HOST:PORT or tls:HOST:PORT"))
        })?;
        let mut input = Vec::new();
        Ok(Client {
            line: Line::open(&address, options, &mut input)?,
            options: options.clone(),
            reader: ReplyReader::new(MAX_VALUE),
            request: Vec::new(),
            input,
            read: 0,
            found: None,
            pending: VecDeque::new(),
            awaited: 0,
            next_ticket: 1,
            values: Vec::new(),
            end: None,
        })
    }

    /// How long operations wait from now on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.options.timeout = timeout;
    }

    /// Submits a request, to be completed later, and says its ticket. It is on its way at the latest after [`Client::flush`] or
    /// [`Client::complete`].
    ///
    /// # Errors
    /// See [`Error`]; it was not sent then, unless the session is over.
    pub fn submit(&mut self, request: &Request<'_>) -> Result<u64, Error> {
        self.check_open()?;
        request.check()?;
        if self.pending.len() >= MAX_UNDER_WAY {
            return Err(Error::Full);
        }
        self.request.clear();
        let expect = request.encode(&mut self.request);
        let sent = self.line.send(&self.request, &mut self.input, self.options.timeout);
        self.note(sent)?;
        self.reader.expect(expect);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.push_back(Pending { ticket, is_dropped: false });
        self.awaited += 1;
        Ok(ticket)
    }

    /// Sends what was submitted on its way.
    ///
    /// # Errors
    /// The session is over.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check_open()?;
        let flushed = self.line.flush(&mut self.input, self.options.timeout);
        self.note(flushed)
    }

    /// Waits for the next answer, which is that of the oldest request, for `timeout` at most. `None`: nothing is under way.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: it goes on being under way. Else the session is over.
    pub fn complete(&mut self, timeout: Duration) -> Result<Option<Completion<'_>>, Error> {
        if self.awaited == 0 {
            return self.check_open().map(|()| None);
        }
        self.flush()?;
        let (ticket, answer) = self.next_answer(timeout)?;
        let answer = self.handed_out(answer);
        Ok(Some(Completion { ticket, answer }))
    }

    /// Requests that were submitted and not completed.
    pub fn under_way(&self) -> usize {
        self.awaited
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call(&mut self, request: &Request<'_>) -> Result<Answer<'_>, Error> {
        if self.awaited > 0 {
            return Err(Error::Busy);
        }
        self.submit(request)?;
        self.flush()?;
        let (_, answer) = self.next_answer(self.options.timeout).inspect_err(|_| self.drop_pending())?;
        self.handed_out(answer)
    }

    fn check_open(&self) -> Result<(), Error> {
        self.end.clone().map_or(Ok(()), Err)
    }

    /// Notes that the session is over, if that is what went wrong.
    fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && error.ends_session()
        {
            self.end = Some(error.clone());
        }
        result
    }

    fn drop_pending(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.is_dropped = true);
        self.awaited = 0;
    }

    /// The next answer that somebody waits for.
    fn next_answer(&mut self, timeout: Duration) -> Result<(u64, Result<Raw, Error>), Error> {
        let mut until = None;
        let mut left = timeout;
        loop {
            let answer = self.read_answer();
            if let Some(answer) = self.note(answer)? {
                let pending = self.pending.pop_front().expect("the reader knows of it");
                if pending.is_dropped {
                    continue;
                }
                self.awaited -= 1;
                return Ok((pending.ticket, answer));
            }
            let received = self.line.receive(&mut self.input, left);
            if !self.note(received)? {
                return Err(Error::TimedOut(timeout));
            }
            // The clock is read only where an answer does not come at once and whole.
            let until = *until.get_or_insert_with(|| Instant::now() + timeout);
            left = until.saturating_duration_since(Instant::now());
        }
    }

    /// The next answer, if all of it is there.
    fn read_answer(&mut self) -> Result<Option<Result<Raw, Error>>, Error> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        if self.found.is_none() {
            self.drop_read();
        }
        loop {
            let (at, rest) = (self.read, &self.input[self.read..]);
            match self.reader.next(rest).map_err(|error| Error::Broken(error.to_string()))? {
                Progress::Incomplete { need } => {
                    self.input.reserve(need.saturating_sub(rest.len()));
                    return Ok(None);
                }
                Progress::Reply { reply: Reply::Value { flags, cas, data, .. }, used, .. } => {
                    // A value ends before the end of its line, and its line with what was used.
                    let end = at + used - 2;
                    self.found =
                        Some(Found { value: end - data.len()..end, flags, version: cas.unwrap_or(0) });
                    self.read += used;
                }
                Progress::Reply { reply, used, .. } => {
                    let outcome = request::outcome(&reply);
                    self.read += used;
                    return Ok(Some(match (self.found.take(), outcome) {
                        (Some(found), Ok(_)) => Ok(Raw::Item(found)),
                        (_, outcome) => outcome.map(Raw::Plain),
                    }));
                }
            }
        }
    }

    /// What was read makes room, when it is all or much.
    fn drop_read(&mut self) {
        if self.read == self.input.len() {
            self.input.clear();
        } else if self.read >= READ_BYTES_MAX {
            self.input.drain(..self.read);
        } else {
            return;
        }
        self.read = 0;
    }

    fn handed_out(&self, answer: Result<Raw, Error>) -> Result<Answer<'_>, Error> {
        Ok(match answer? {
            Raw::Item(found) => Answer::Item(found.item(&self.input)),
            Raw::Plain(answer) => answer,
        })
    }
}

/// An answer, apart from the bytes that it lies in.
enum Raw {
    Item(Found),
    Plain(Answer<'static>),
}

impl Found {
    fn item<'a>(&self, bytes: &'a [u8]) -> Item<'a> {
        Item { value: &bytes[self.value.clone()], flags: self.flags, version: self.version }
    }
}

/// Operations that wait for their outcome.
impl Client {
    /// The item of `key`; `None`: there is none.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Item<'_>>, Error> {
        item(self.call(&Request::Get { key, version: false }))
    }

    /// The same with its version, for [`Store::Cas`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn gets(&mut self, key: &[u8]) -> Result<Option<Item<'_>>, Error> {
        item(self.call(&Request::Get { key, version: true }))
    }

    /// The item of `key` with its version, which expires at another time from now on.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn get_and_touch(&mut self, key: &[u8], expiry_s: i64) -> Result<Option<Item<'_>>, Error> {
        item(self.call(&Request::GetAndTouch { key, expiry_s }))
    }

    /// The items of `keys` with their versions, in their order, asked for together.
    ///
    /// # Errors
    /// See [`Error`]; of one key it is of all.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Item<'_>>>, Error> {
        if self.awaited > 0 {
            return Err(Error::Busy);
        }
        self.values.clear();
        let mut found: Vec<Option<Found>> = Vec::new();
        for keys in keys.chunks(KEYS_TOGETHER) {
            self.get_together(keys, &mut found).inspect_err(|_| self.drop_pending())?;
        }
        Ok(found.iter().map(|found| found.as_ref().map(|found| found.item(&self.values))).collect())
    }

    fn get_together(&mut self, keys: &[&[u8]], into: &mut Vec<Option<Found>>) -> Result<(), Error> {
        for key in keys {
            self.submit(&Request::Get { key, version: true })?;
        }
        self.flush()?;
        for _ in keys {
            let (_, answer) = self.next_answer(self.options.timeout)?;
            into.push(match answer? {
                Raw::Item(found) => {
                    let begin = self.values.len();
                    self.values.extend_from_slice(&self.input[found.value.clone()]);
                    Some(Found { value: begin..self.values.len(), ..found })
                }
                Raw::Plain(_) => None,
            });
        }
        Ok(())
    }

    /// Stores `value`, whatever is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set(&mut self, key: &[u8], value: &[u8], expiry_s: i64) -> Result<(), Error> {
        self.call(&Request::Store { how: Store::Set, key, value, flags: 0, expiry_s }).map(|_| ())
    }

    /// Stores where `version` is.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn cas(
        &mut self,
        key: &[u8],
        version: u64,
        value: &[u8],
        expiry_s: i64,
    ) -> Result<crate::Swap<()>, Error> {
        let request = Request::Store { how: Store::Cas(version), key, value, flags: 0, expiry_s };
        Ok(match self.call(&request)? {
            Answer::NotFound => crate::Swap::Missing,
            Answer::Exists => crate::Swap::Exists,
            _ => crate::Swap::Stored(()),
        })
    }

    /// Removes the item of `key`; whether it was there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.call(&Request::Delete { key })? == Answer::Done)
    }

    /// Says who asks, to a server with users (its `-Y`).
    ///
    /// # Errors
    /// [`Error::Login`]: it does not know him.
    pub fn login(&mut self, user: &str, password: &str) -> Result<(), Error> {
        self.call(&Request::Login { user: user.as_bytes(), password: password.as_bytes() }).map(|_| ())
    }
}

fn item(answer: Result<Answer<'_>, Error>) -> Result<Option<Item<'_>>, Error> {
    Ok(match answer? {
        Answer::Item(item) => Some(item),
        _ => None,
    })
}
