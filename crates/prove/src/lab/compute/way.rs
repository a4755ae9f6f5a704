//! What is computed, and where: one operation done one way by one client.

use base::Nanos;
use protocol::coherence::client::{Answer, Call};
use protocol::coherence::compute::may_change_nothing;
use protocol::wire::{Status, Verb};
use serde::Serialize;
use serve::inc::{Client, ClientError};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Add 1.
    Increment,
    /// A conditional put of a number above all before.
    Stores,
    /// A conditional put of a number below what is there.
    Refused,
}

impl Operation {
    /// All.
    pub const ALL: [Operation; 3] = [Operation::Increment, Operation::Stores, Operation::Refused];

    /// What its key holds in the beginning.
    pub fn initial(self) -> u64 {
        match self {
            Operation::Increment | Operation::Stores => 0,
            Operation::Refused => 1 << 62,
        }
    }

    fn verb(self) -> Verb {
        match self {
            Operation::Increment => Verb::Incr,
            Operation::Stores | Operation::Refused => Verb::CondPut,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Increment => "increment",
            Operation::Stores => "cond_put that stores",
            Operation::Refused => "cond_put that does not",
        })
    }
}

/// Where it is computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Its name in tables.
    pub name: String,
    /// The choice of register coherence.compute that clients and nodes go by.
    pub register: &'static str,
    /// Read, compute, compare-and-swap, again where somebody was faster.
    pub at_client: bool,
    /// The box has its XDP program before it.
    pub with_xdp: bool,
}

impl Way {
    /// At the client, and one for each choice of register coherence.compute, so that a new choice appears by itself; and, where there is one, in
    /// the box's XDP program, by a copy and as owner.
    pub fn all(choices: &[&'static str], has_xdp: bool) -> Vec<Way> {
        let plain = Way { name: "client".into(), register: "at_home", at_client: true, with_xdp: false };
        let in_xdp = [("box, XDP", "try_first"), ("box, owned, XDP", "own_lossy")]
            .map(|(name, register)| Way { name: name.into(), register, at_client: false, with_xdp: true });
        let name = |choice| match choice {
            "at_home" => "server".to_string(),
            "try_first" => "box, a copy".to_string(),
            "own_lossy" => "box, owned".to_string(),
            other => format!("box, {other}"),
        };
        let by_register = |choice: &&'static str| Way {
            name: name(choice),
            register: choice,
            at_client: false,
            ..plain.clone()
        };
        let by_register: Vec<Way> = choices.iter().map(by_register).collect();
        std::iter::once(plain).chain(by_register).chain(in_xdp.into_iter().filter(|_| has_xdp)).collect()
    }

    /// Whether `operation` is done otherwise than at the server: what always changes something is never tried at a copy.
    pub fn suits(&self, operation: Operation) -> bool {
        self.register != "try_first" || may_change_nothing(operation.verb())
    }

    /// Whether this is the way that others are compared with.
    pub fn is_server(&self) -> bool {
        self.register == "at_home" && !self.at_client
    }
}

/// What one operation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// It stored.
    pub stored: bool,
    /// The number that it offered (a conditional put).
    pub number: u64,
    /// Times that another client was faster.
    pub conflicts: u64,
    /// A box answered.
    pub from_box: bool,
}

/// Does `operation` on `key`. `numbers` gives each conditional put that is to store a number of its own.
///
/// # Errors
/// The client's.
pub fn once(
    client: &mut Client,
    way: &Way,
    operation: Operation,
    key: &[u8],
    numbers: &AtomicU64,
) -> Result<Done, ClientError> {
    let number = match operation {
        Operation::Increment => 1,
        Operation::Stores => numbers.fetch_add(1, Ordering::Relaxed) + 1,
        Operation::Refused => 7,
    };
    if way.at_client {
        return swap(client, operation, key, number);
    }
    let answer = client.call(Call::new(operation.verb(), key).operand(number))?;
    let stored = match answer.status {
        Status::Ok => true,
        Status::NotStored => false,
        status => return Err(ClientError::Status(status)),
    };
    Ok(Done { stored, number, conflicts: 0, from_box: answer.from_box })
}

/// At the client: what it read and computed is stored only if nothing was stored meanwhile.
fn swap(client: &mut Client, operation: Operation, key: &[u8], number: u64) -> Result<Done, ClientError> {
    let mut conflicts = 0;
    loop {
        let item = client.call(Call::new(Verb::Get, key))?;
        let there = read(&item)?;
        let next = match operation {
            Operation::Increment => there.wrapping_add(number),
            _ if number <= there => {
                return Ok(Done { stored: false, number, conflicts, from_box: item.from_box });
            }
            _ => number,
        };
        let call = Call::new(Verb::Cas, key).value(next.to_string().as_bytes());
        let answer = client.call(Call { version: item.version, life: Nanos::MAX, ..call })?;
        match answer.status {
            Status::Ok => return Ok(Done { stored: true, number, conflicts, from_box: answer.from_box }),
            Status::Exists => conflicts += 1,
            status => return Err(ClientError::Status(status)),
        }
    }
}

/// The number that an item is.
///
/// # Errors
/// It is none, or nothing is there.
pub fn read(item: &Answer) -> Result<u64, ClientError> {
    if item.status != Status::Ok {
        return Err(ClientError::Status(item.status));
    }
    let text = std::str::from_utf8(&item.value).ok();
    text.and_then(|text| text.parse().ok()).ok_or(ClientError::Status(Status::NotNumber))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_of_the_register_is_a_way() {
        let ways = Way::all(&["at_home", "try_first", "own_lossy"], true);
        let names: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
        assert_eq!(names, ["client", "server", "box, a copy", "box, owned", "box, XDP", "box, owned, XDP"]);
        assert_eq!(ways.iter().filter(|way| way.is_server()).count(), 1);
        let suits = |at: usize, operation| Way::suits(&ways[at], operation);
        assert!(
            !suits(2, Operation::Increment) && suits(2, Operation::Refused) && suits(3, Operation::Increment)
        );
    }
}
