//! `millrace inc get` and its siblings: one operation, its result on standard output, the rest on standard error.

use super::IncError;
use super::client::{Client, ClientError};
use super::topology::Topology;
use crate::process::parse::duration;
use ::client::controllers;
use base::Nanos;
use protocol::coherence::client::{Answer, Call};
use protocol::wire::{Status, Verb, Version};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where and how to ask.
#[derive(clap::Args, Debug)]
pub struct Way {
    /// The file that the nodes have, too; or http://HOST:PORT[,…]: admin ports of the rack's controllers
    #[arg(long, visible_alias = "cluster", value_name = "FILE", env = "MILLRACE_TOPOLOGY")]
    topology: PathBuf,

    /// The box to ask; the first, unless said
    #[arg(long, value_name = "N")]
    tor: Option<u16>,

    /// Past all boxes, to the home
    #[arg(long)]
    no_cache: bool,

    /// Print a JSON object instead of the value or number, also where there is none; and nothing on standard error but what is wrong
    #[arg(long)]
    json: bool,
}

/// An operation.
#[derive(clap::Subcommand, Debug)]
pub enum Ask {
    /// Print the value of a key
    Get {
        /// 1 to 250 bytes
        key: String,
        #[command(flatten)]
        way: Way,
    },
    /// Store, whatever is there
    Set(Store),
    /// Store where nothing is
    Add(Store),
    /// Store where something is
    Replace(Store),
    /// Store where this version is
    Cas {
        #[command(flatten)]
        store: Store,
        /// The version that must be there; `get` prints it
        #[arg(long, value_name = "N")]
        if_version: u64,
    },
    /// Remove
    Delete {
        /// The key
        key: String,
        #[command(flatten)]
        way: Way,
    },
    /// Add to a number, and print the sum
    Incr(Count),
    /// Subtract from a number, down to 0, and print what is left
    Decr(Count),
    /// Store a number where nothing or a smaller one is
    CondPut(Number),
    /// Store the smaller of this number and the one that is there, and print it
    Min(Number),
    /// Store the larger of this number and the one that is there, and print it
    Max(Number),
    /// Store the bits of both this number and the one that is there, and print them
    Or(Number),
    /// Append to what is there
    Append {
        /// The key
        key: String,
        /// What to append
        value: String,
        /// Not beyond this length
        #[arg(long, value_name = "BYTES")]
        limit: Option<u64>,
        #[command(flatten)]
        way: Way,
    },
    /// Give what is there another time to live
    Touch {
        /// The key
        key: String,
        /// For how long from now: 10s, 500ms, 2m; to the end of that second at the home
        #[arg(value_parser = duration)]
        ttl: Duration,
        #[command(flatten)]
        way: Way,
    },
    /// Forget everything, home by home
    Flush {
        #[command(flatten)]
        way: Way,
    },
}

/// What stores a value.
#[derive(clap::Args, Debug)]
pub struct Store {
    /// The key: 1 to 250 bytes
    key: String,
    /// The value: at most 65056 bytes, or coherence.value_max where homes have streams
    value: String,
    /// For how long: 10s, 500ms, 2m, to the end of that second at the home; for ever, unless said
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
    /// A number to store with it
    #[arg(long, value_name = "N", default_value_t = 0)]
    flags: u32,
    #[command(flatten)]
    way: Way,
}

/// What counts.
#[derive(clap::Args, Debug)]
pub struct Count {
    /// The key
    key: String,
    /// By how much
    #[arg(default_value_t = 1)]
    by: u64,
    /// Stored and printed as it is where nothing is
    #[arg(long, value_name = "N")]
    initial: Option<u64>,
    #[command(flatten)]
    way: Way,
}

/// What compares or combines.
#[derive(clap::Args, Debug)]
pub struct Number {
    /// The key
    key: String,
    /// The number
    number: u64,
    #[command(flatten)]
    way: Way,
}

impl Store {
    fn call(&self, verb: Verb) -> Call {
        let life = self.ttl.map_or(Nanos::MAX, Nanos::from);
        Call { life, flags: self.flags, ..Call::new(verb, self.key.as_bytes()).value(self.value.as_bytes()) }
    }
}

impl Ask {
    /// Asks, waits and prints.
    ///
    /// # Errors
    /// The topology is wrong, nobody answers, or the answer is not that it was done.
    pub fn run(&self) -> Result<(), IncError> {
        let way = self.way();
        let topology = Topology::find(&way.topology, controllers::TIMEOUT)?;
        let mut client = Client::init(&topology, way.tor)?;
        let begun = Instant::now();
        if let Ask::Flush { .. } = self {
            client.flush()?;
            let said = serde_json::json!({ "status": Status::Ok.name() }).to_string();
            return print(if way.json { said.as_bytes() } else { b"OK" });
        }
        let (verb, call) = self.call();
        let answer = client.call(Call { no_cache: way.no_cache, ..call })?;
        let took = begun.elapsed();
        if way.json {
            print(json(verb, &answer, took).to_string().as_bytes())?;
            return judged(&answer);
        }
        report(verb, &answer, took)
    }

    fn way(&self) -> &Way {
        match self {
            Ask::Get { way, .. }
            | Ask::Delete { way, .. }
            | Ask::Append { way, .. }
            | Ask::Touch { way, .. }
            | Ask::Flush { way } => way,
            Ask::Set(store) | Ask::Add(store) | Ask::Replace(store) | Ask::Cas { store, .. } => &store.way,
            Ask::Incr(count) | Ask::Decr(count) => &count.way,
            Ask::CondPut(number) | Ask::Min(number) | Ask::Max(number) | Ask::Or(number) => &number.way,
        }
    }

    fn call(&self) -> (Verb, Call) {
        let count = |verb, count: &Count| {
            let initial = count.initial.map_or(String::new(), |number| number.to_string());
            Call::new(verb, count.key.as_bytes()).operand(count.by).value(initial.as_bytes())
        };
        let number = |verb, number: &Number| Call::new(verb, number.key.as_bytes()).operand(number.number);
        let call = match self {
            Ask::Get { key, .. } => Call::new(Verb::Get, key.as_bytes()),
            Ask::Set(store) => store.call(Verb::Set),
            Ask::Add(store) => store.call(Verb::Add),
            Ask::Replace(store) => store.call(Verb::Replace),
            Ask::Cas { store, if_version } => Call { version: Version(*if_version), ..store.call(Verb::Cas) },
            Ask::Delete { key, .. } => Call::new(Verb::Delete, key.as_bytes()),
            Ask::Incr(of) => count(Verb::Incr, of),
            Ask::Decr(of) => count(Verb::Decr, of),
            Ask::CondPut(of) => number(Verb::CondPut, of),
            Ask::Min(of) => number(Verb::Min, of),
            Ask::Max(of) => number(Verb::Max, of),
            Ask::Or(of) => number(Verb::Or, of),
            Ask::Append { key, value, limit, .. } => {
                let limit = limit.unwrap_or(0);
                Call::new(Verb::Append, key.as_bytes()).value(value.as_bytes()).operand(limit)
            }
            Ask::Touch { key, ttl, .. } => {
                Call { life: Nanos::from(*ttl), ..Call::new(Verb::Touch, key.as_bytes()) }
            }
            Ask::Flush { .. } => unreachable!("a flush is a call to each home"),
        };
        (call.verb, call)
    }
}

/// Whether it was done.
fn judged(answer: &Answer) -> Result<(), IncError> {
    let code = match answer.status {
        Status::Ok => return Ok(()),
        Status::Miss => 3,
        Status::Exists | Status::NotStored => 4,
        status => return Err(ClientError::Status(status).into()),
    };
    Err(IncError::Refused { status: answer.status.name(), code })
}

/// All that is known of an answer; what is not text is in hexadecimal digits.
fn json(verb: Verb, answer: &Answer, took: Duration) -> Value {
    let mut said = json!({
        "status": answer.status.name(),
        "by": if answer.from_box { "box" } else { "home" },
        "seconds": took.as_secs_f64(),
    });
    if answer.version != Version(0) {
        said["version"] = json!(answer.version.0);
    }
    match (answer.status, verb) {
        (Status::Ok, Verb::Get) => {
            match std::str::from_utf8(&answer.value) {
                Ok(text) => said["value"] = json!(text),
                Err(_) => {
                    let hex: String = answer.value.iter().map(|byte| format!("{byte:02x}")).collect();
                    said["value_hex"] = json!(hex);
                }
            }
            said["flags"] = json!(answer.flags);
        }
        (Status::Ok, Verb::Incr | Verb::Decr | Verb::Min | Verb::Max | Verb::Or) => {
            said["number"] = json!(answer.number);
        }
        _ => {}
    }
    said
}

/// The value or number, or how it went; beside it, on standard error, version, who answered, and how long it took.
fn report(verb: Verb, answer: &Answer, took: Duration) -> Result<(), IncError> {
    let judged = judged(answer);
    if let Err(error @ IncError::Client(_)) = judged {
        return Err(error);
    }
    let by = if answer.from_box { "a box" } else { "the home" };
    if answer.version != Version(0) {
        eprint!("version {}, ", answer.version);
    }
    crate::complain!("answered by {by} in {}", Nanos::from(took));
    judged?;
    match verb {
        Verb::Get => print(&answer.value),
        Verb::Incr | Verb::Decr | Verb::Min | Verb::Max | Verb::Or => {
            print(answer.number.to_string().as_bytes())
        }
        _ => print(b"OK"),
    }
}

fn print(line: &[u8]) -> Result<(), IncError> {
    let mut out = std::io::stdout().lock();
    out.write_all(line).and_then(|()| out.write_all(b"\n")).map_err(IncError::Output)
}
