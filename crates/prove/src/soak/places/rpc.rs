//! The RPC server: a service that counts, its calls under way together.

use super::{Account, Counted, Run, Subject};
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, StartError, What};
use fabric::link::Address;
use fabric::server::{Options, Server};
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::status::Status;
use ring::wait::{Outcome, WaitPolicy};
use serve::rpc::own::OwnServer;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const KEYS: u32 = 16;
/// Calls of a connection that are under way together.
const WINDOW: usize = 16;
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

static COUNT: ServiceDescriptor = ServiceDescriptor {
    name: "soak.Count",
    methods: &[MethodDescriptor::new("Next", false, false)],
    hash: 1,
    descriptors: b"\x0a\x03\x0a\x01a",
};

#[derive(Default)]
struct Count(Mutex<BTreeMap<u32, u64>>);

impl Service for Count {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &COUNT
    }

    /// Adds one to the counter of a key, and says the key and the value; every seventh reply is too long for a ring's slot.
    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let key = call.body().first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
        let value = {
            let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let counter = counters.entry(key).or_default();
            *counter += 1;
            *counter
        };
        let mut reply = [&key.to_le_bytes()[..], &value.to_le_bytes()].concat();
        reply.resize(12 + (value % 7) as usize * 100, key as u8);
        call.reply_bytes(&reply);
        Ok(())
    }
}

pub(super) struct Rpc(OwnServer);

impl Rpc {
    pub(super) fn start() -> Result<Rpc, String> {
        let server = Server::try_new(Options::default()).map_err(|error| error.to_string())?;
        let asked: Address = "tcp:127.0.0.1:0".parse().expect("an address");
        let server = server.service(Count::default()).listen(&asked).map_err(|error| error.to_string())?;
        OwnServer::start(server).map(Rpc).map_err(|error| error.to_string())
    }
}

impl Subject for Rpc {
    fn places(&self) -> (&'static str, &'static str, &'static [&'static str]) {
        ("rpc", "place.handlers", &["engine", "edge", "host", "host 40 edge", "edge 70 engine"])
    }

    fn go_to(&self, place: &str) -> Result<(), String> {
        // A place, or two with the percent of calls at the other.
        let mut words = place.split(' ');
        let values =
            [words.next().unwrap_or(place), words.next().unwrap_or("0"), words.next().unwrap_or("edge")];
        let set = |(name, value)| self.0.registers().set_live(name, value).map_err(|error| error.to_string());
        ["place.handlers", "place.share", "place.other"].into_iter().zip(values).try_for_each(set)
    }

    fn client(&self, number: u32, run: &Run) -> Result<Account, String> {
        let channel = Channel::connect(&self.0.addresses()[0], &ChannelOptions::default());
        let mut channel = channel.map_err(|error| error.to_string())?;
        let method = channel.method("soak.Count/Next").ok_or("the server has no Count")?;
        let (mut account, mut open, mut next) = (Account::default(), BTreeMap::new(), u64::from(number));
        while !run.is_over() || !open.is_empty() {
            while !run.is_over() && open.len() < WINDOW {
                let key = (next.wrapping_mul(7) % u64::from(KEYS)) as u32;
                let began = run.now();
                match channel.start(method, &CallOptions::default(), next, &key.to_le_bytes()) {
                    Ok(_) => drop(open.insert(next, (key, began))),
                    Err(StartError::Full) => break,
                    Err(error) => return Err(error.to_string()),
                }
                next += 1;
            }
            let polled = channel.poll(64, |event| {
                account.calls += 1;
                let counted = open.remove(&event.user).and_then(|(key, began)| {
                    let What::Reply(reply) = event.what else { return None };
                    let value = u64::from_le_bytes(*reply.get(4..)?.first_chunk()?);
                    let is_own =
                        reply[..4] == key.to_le_bytes() && reply[12..].iter().all(|&b| b == key as u8);
                    is_own.then(|| Counted { key, value, began, ended: run.now() })
                });
                match counted {
                    Some(counted) => account.history.push(counted),
                    None => account.wrong += 1,
                }
            });
            if polled == 0
                && channel.wait(WaitPolicy::default(), Some(REPLY_TIMEOUT)) == Outcome::TimedOut
                && !open.is_empty()
            {
                account.unanswered = open.len() as u64;
                break;
            }
        }
        Ok(account)
    }
}
