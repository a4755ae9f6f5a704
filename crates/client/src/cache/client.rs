//! A client library: calls that wait for their outcome.
//!
//! ```no_run
//! use client::cache::{Client, Topology};
//! let topology = Topology::read("rack.toml".as_ref())?;
//! let mut client = Client::init(&topology, None)?;
//! client.set(b"colour", b"blue")?;
//! let item = client.get(b"colour")?.expect("it was just set");
//! assert_eq!(item.value, b"blue");
//! client.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every operation is linearizable and ends within the patience that the topology states. One whose end is not known
//! ([`ClientError::Unknown`]) was done once or not at all.
//!
//! A value that is too long for a packet goes to its home by a stream, where the topology has streams. What is left of its life is not told then.
//!
//! What a condition decided is in the result; [`ClientError::Status`] is what had no chance: a value that does not fit, or is no
//! number.

use super::driver::{Driver, NOTICE};
use super::error::TopologyError;
use super::padding::Padding;
use super::stream::Streams;
use super::topology::Topology;
use super::ways::Ways;
use base::{Nanos, Prng};
use protocol::coherence::client::{Answer, Call, Failed, Refused};
use protocol::coherence::{self, Config, Guard};
use protocol::wire::{ClientId, HomeId, Status, Verb, Version};
use std::time::Duration;
use std::{fmt, io};

/// Why a call has no answer, or none that it could have been made for.
#[derive(Debug)]
pub enum ClientError {
    /// The socket failed.
    Socket(io::Error),
    /// The key has not 1 to 250 bytes, or the value is too long to be sent. Nothing was.
    Bad,
    /// Nobody answered. It was not done, and will not be.
    NotDone,
    /// Nobody answered. Whether it was done, or will be, is not known.
    Unknown,
    /// It was not done, for this reason.
    Status(Status),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Socket(cause) => write!(f, "the socket failed: {cause}"),
            ClientError::Bad => {
                f.write_str("a key has 1 to 250 bytes, and a value at most 65056, or coherence.value_max where the topology's homes have streams")
            }
            ClientError::NotDone => {
                f.write_str(
                "nobody answered, and nothing was done; are the nodes of the topology running? Have they this client's key?",
            )
            }
            ClientError::Unknown => {
                f.write_str("nobody answered; whether it was done is not known: get would say")
            }
            ClientError::Status(Status::TooLarge) => {
                f.write_str("TOO_LARGE: the value does not fit a datagram; a topology whose homes have streams (stream = \"HOST:PORT\") carries it, up to coherence.value_max")
            }
            ClientError::Status(Status::NotNumber) => f.write_str("NOT_NUMBER: what is there is no number"),
            ClientError::Status(Status::NoRoom) => f.write_str("NO_ROOM: in the value, or at the home"),
            ClientError::Status(Status::NotHome) => {
                f.write_str("NOT_HOME: the home goes by another topology; all must have the same file")
            }
            ClientError::Status(Status::Unproven) => f.write_str(
                "UNPROVEN: only clients with the cluster's key may write; name it in the topology: [cluster] client_key = \"FILE\"",
            ),
            ClientError::Status(status) => f.write_str(status.name()),
        }
    }
}

impl std::error::Error for ClientError {}

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its bytes.
    pub value: Vec<u8>,
    /// The flags that it was stored with.
    pub flags: u32,
    /// The write that made it.
    pub version: Version,
    /// A box answered, not its home.
    pub from_box: bool,
}

/// What came of a compare-and-swap.
pub type Swap = crate::Swap<Version>;

/// A client behind one box. It is used by one thread at a time.
#[derive(Debug)]
pub struct Client {
    pub(super) ways: Ways,
    homes: Vec<HomeId>,
}

impl Client {
    /// A client of `topology` that asks box `tor`, or the first. Nothing is sent until it is used.
    ///
    /// # Errors
    /// There is no such box, or no socket to be had.
    pub fn init(topology: &Topology, tor: Option<u16>) -> Result<Client, TopologyError> {
        let streams = Streams::of(topology).map_err(TopologyError::Socket)?;
        let ways = Ways::new(driver(topology, tor)?, streams, topology.config().operations);
        let ways = ways.map_err(TopologyError::Socket)?;
        Ok(Client { ways, homes: topology.layout().homes().collect() })
    }

    /// Ends it. Homes forget it when they need the room.
    pub fn close(self) {}

    /// Does any operation, and waits for its outcome.
    ///
    /// # Errors
    /// There is none, or nothing was sent. A status is no error here.
    pub fn call(&mut self, call: Call) -> Result<Answer, ClientError> {
        let operation = self.ways.start(call).map_err(|refused| match refused {
            Refused::Bad => ClientError::Bad,
            Refused::Full => unreachable!("calls of this client are under way one at a time"),
        })?;
        loop {
            while let Some((ended, outcome)) = self.ways.poll_outcome() {
                if ended == operation {
                    return outcome.map_err(|failed| match failed {
                        Failed::NotDone => ClientError::NotDone,
                        Failed::Unknown => ClientError::Unknown,
                    });
                }
            }
            self.ways.turn(NOTICE).map_err(ClientError::Socket)?;
        }
    }

    /// The item of `key`.
    ///
    /// # Errors
    /// See [`ClientError`]; so in all that follow.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Item>, ClientError> {
        let answer = self.call(Call::new(Verb::Get, key))?;
        let item =
            |a: Answer| Item { value: a.value, flags: a.flags, version: a.version, from_box: a.from_box };
        match answer.status {
            Status::Ok => Ok(Some(item(answer))),
            Status::Miss => Ok(None),
            status => Err(ClientError::Status(status)),
        }
    }

    /// Stores, whatever is there.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<Version, ClientError> {
        let answer = self.call(Call::new(Verb::Set, key).value(value))?;
        done(&answer, &[]).map(|_| answer.version)
    }

    /// Stores for a while.
    pub fn set_for(&mut self, key: &[u8], value: &[u8], life: Duration) -> Result<Version, ClientError> {
        let call = Call { life: Nanos::from(life), ..Call::new(Verb::Set, key).value(value) };
        let answer = self.call(call)?;
        done(&answer, &[]).map(|_| answer.version)
    }

    /// Stores where nothing is; `None`: something is.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Version>, ClientError> {
        let answer = self.call(Call::new(Verb::Add, key).value(value))?;
        Ok(done(&answer, &[Status::Exists])?.then_some(answer.version))
    }

    /// Stores where something is; `None`: nothing is.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Version>, ClientError> {
        let answer = self.call(Call::new(Verb::Replace, key).value(value))?;
        Ok(done(&answer, &[Status::Miss])?.then_some(answer.version))
    }

    /// Stores where `version` is.
    pub fn cas(&mut self, key: &[u8], version: Version, value: &[u8]) -> Result<Swap, ClientError> {
        let call = Call { version, ..Call::new(Verb::Cas, key).value(value) };
        let answer = self.call(call)?;
        match answer.status {
            Status::Ok => Ok(Swap::Stored(answer.version)),
            Status::Exists => Ok(Swap::Exists),
            Status::Miss => Ok(Swap::Missing),
            status => Err(ClientError::Status(status)),
        }
    }

    /// Removes; whether something was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, ClientError> {
        let answer = self.call(Call::new(Verb::Delete, key))?;
        done(&answer, &[Status::Miss])
    }

    /// Adds to a number, modulo 2⁶⁴, and says the sum. Where nothing is, stores and says `initial`; without it, `None`.
    pub fn increment(
        &mut self,
        key: &[u8],
        by: u64,
        initial: Option<u64>,
    ) -> Result<Option<u64>, ClientError> {
        self.count(Verb::Incr, key, by, initial)
    }

    /// Subtracts from a number, down to 0. Else as [`Client::increment`].
    pub fn decrement(
        &mut self,
        key: &[u8],
        by: u64,
        initial: Option<u64>,
    ) -> Result<Option<u64>, ClientError> {
        self.count(Verb::Decr, key, by, initial)
    }

    /// Stores `number` where nothing or a smaller number is; whether it did.
    pub fn cond_put(&mut self, key: &[u8], number: u64) -> Result<bool, ClientError> {
        let answer = self.call(Call::new(Verb::CondPut, key).operand(number))?;
        done(&answer, &[Status::NotStored])
    }

    /// The smaller of the number and what is there becomes what is there.
    pub fn min(&mut self, key: &[u8], number: u64) -> Result<u64, ClientError> {
        self.combine(Verb::Min, key, number)
    }

    /// The larger.
    pub fn max(&mut self, key: &[u8], number: u64) -> Result<u64, ClientError> {
        self.combine(Verb::Max, key, number)
    }

    /// Bits of both.
    pub fn or(&mut self, key: &[u8], number: u64) -> Result<u64, ClientError> {
        self.combine(Verb::Or, key, number)
    }

    /// Appends to what is there, unless more than `limit` bytes would result (then NO_ROOM is the error); 0: as many as can be had. Whether something was.
    pub fn append(&mut self, key: &[u8], value: &[u8], limit: u64) -> Result<bool, ClientError> {
        let answer = self.call(Call::new(Verb::Append, key).value(value).operand(limit))?;
        done(&answer, &[Status::Miss])
    }

    /// Gives what is there another life; whether something was.
    pub fn touch(&mut self, key: &[u8], life: Duration) -> Result<bool, ClientError> {
        let answer = self.call(Call { life: Nanos::from(life), ..Call::new(Verb::Touch, key) })?;
        done(&answer, &[Status::Miss])
    }

    /// Forgets everything, home by home.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        for home in self.homes.clone() {
            let answer = self.call(Call::flush(home))?;
            done(&answer, &[])?;
        }
        Ok(())
    }

    fn count(
        &mut self,
        verb: Verb,
        key: &[u8],
        by: u64,
        initial: Option<u64>,
    ) -> Result<Option<u64>, ClientError> {
        let initial = initial.map_or(String::new(), |number| number.to_string());
        let answer = self.call(Call::new(verb, key).operand(by).value(initial.as_bytes()))?;
        Ok(done(&answer, &[Status::Miss])?.then_some(answer.number))
    }

    fn combine(&mut self, verb: Verb, key: &[u8], number: u64) -> Result<u64, ClientError> {
        let answer = self.call(Call::new(verb, key).operand(number))?;
        let stored = done(&answer, &[])?;
        debug_assert!(stored, "a status that is no error is OK");
        Ok(answer.number)
    }
}

/// A client's machine at a socket of its own, behind box `tor` or the first.
///
/// # Errors
/// There is no such box, or no socket to be had.
pub fn driver(topology: &Topology, tor: Option<u16>) -> Result<Driver<coherence::Client>, TopologyError> {
    let tor = topology.tor(tor)?;
    let socket = topology.bind_client().map_err(TopologyError::Socket)?;
    let id = ClientId(random());
    let config: &Config = topology.config();
    let layout = topology.layout().clone();
    let machine = coherence::Client::new(config, id, tor, layout, Prng::new(random()));
    let guard = Guard::of_client(id, topology.client_keys()?);
    let driver = Driver::new(machine, socket, topology.book(), guard).map_err(TopologyError::Socket)?;
    Ok(driver.with_padding(Padding::new(topology.pad_waste())))
}

/// Whether it was done; false where the status is one of those that the operation may well end with.
fn done(answer: &Answer, otherwise: &[Status]) -> Result<bool, ClientError> {
    match answer.status {
        Status::Ok => Ok(true),
        status if otherwise.contains(&status) => Ok(false),
        status => Err(ClientError::Status(status)),
    }
}

/// Sixty-four bits that no other client has, and nobody can guess. Not 0.
fn random() -> u64 {
    u64::from_le_bytes(base::key::random()).max(1)
}
