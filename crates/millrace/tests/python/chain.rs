//! A chain, found by its file, its controller and etcd, and used by Rust and Python clients on the same keys while replicas die.

use super::members::{Cluster, Text, etcd, free_ports, wait_for};
use super::{Peer, bytes, hex, python};
use base::Prng;
use client::{Cluster as Found, Swap};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// What either client may take: a machine that is busy with other tests makes another replica the head when it can.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a program is told of its cluster.
#[derive(Clone, Copy, Debug)]
enum By {
    File,
    Controller,
    Etcd,
}

/// A chain of three, its controller, and where all of it is.
struct Chain {
    replicas: Vec<Option<super::members::Process>>,
    admin: String,
    etcd: Option<String>,
    _others: Vec<super::members::Process>,
    // After all who work in it.
    cluster: Cluster,
}

impl Chain {
    fn start() -> Chain {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let etcd = etcd(folder.path(), 1);
        let (mut others, mut url) = (Vec::new(), None);
        for (process, at, _) in etcd.into_iter().flatten() {
            others.push(process);
            url = Some(at);
        }
        let registry =
            url.as_ref().map_or("state = [\"chain7\"]".to_owned(), |url| format!("etcd = [\"{url}\"]"));
        let text = Text::new().chain(3, 1, &registry);
        // The last address of the file is the controller's admin port.
        let admin = text.text.rsplit("admin = \"").next().and_then(|rest| rest.split('"').next());
        let admin = admin.expect("a controller has one").to_owned();
        let cluster = Cluster::of(folder, &text);
        others.push(cluster.controller(0));
        let replicas = ["1", "2", "3"].map(|id| Some(cluster.replica(id))).into();
        let chain = Chain { cluster, replicas, admin, etcd: url, _others: others };
        // It serves when all three have caught up.
        wait_for("a chain of three", || {
            let mut client = chain.rust(By::Controller)?;
            let done = client.transaction().add("warm", 1).commit().map_err(|error| error.to_string())?;
            if done.copies == 3 { Ok(()) } else { Err(format!("{} copies", done.copies)) }
        });
        chain
    }

    /// The ways by which its clients may find it.
    fn ways(&self) -> Vec<By> {
        let by_etcd = self.etcd.is_some().then_some(By::Etcd);
        [By::File, By::Controller].into_iter().chain(by_etcd).collect()
    }

    fn rust(&self, by: By) -> Result<Found, String> {
        let builder = Found::builder().deadline(DEADLINE).chain(7);
        let builder = match by {
            By::File => builder.cluster(&self.cluster.file),
            By::Controller => builder.controller(&self.admin),
            By::Etcd => builder.etcd(self.etcd.clone()),
        };
        builder.connect().map_err(|error| error.to_string())
    }

    fn python(&self, command: &mut Command, by: By) -> Peer {
        let (how, place) = match by {
            By::File => ("file", &self.cluster.file),
            By::Controller => ("controller", &self.admin),
            By::Etcd => ("etcd", self.etcd.as_ref().expect("it was started")),
        };
        Peer::start(command.arg("tests/chain_driver.py").args([how, place]))
    }
}

fn ask(python: &mut Peer, request: &Value) -> Value {
    use std::io::Write as _;
    writeln!(python.input.as_mut().expect("it runs"), "{request}").expect("it listens");
    let line = python.line();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{request}: {line:?}"))
}

/// What an operation answered, as both libraries say it: a version, or a number, or that it was not done.
fn by_python(python: &mut Peer, operation: &Operation) -> Value {
    ask(python, &operation.request())
}

/// An operation on a key.
#[derive(Clone, Debug)]
enum Operation {
    Get(&'static str),
    Set(&'static str, Vec<u8>),
    Add(&'static str, Vec<u8>),
    Replace(&'static str, Vec<u8>),
    Cas(&'static str, u64, Vec<u8>),
    Delete(&'static str),
    Increment(&'static str, i64),
    /// So much from one counter to another, if there is enough; both are read.
    Transfer(&'static str, &'static str, i64),
}

impl Operation {
    fn request(&self) -> Value {
        match self {
            Operation::Get(key) => json!({ "op": "get", "key": key }),
            Operation::Set(key, value) => json!({ "op": "set", "key": key, "value": hex(value) }),
            Operation::Add(key, value) => json!({ "op": "add", "key": key, "value": hex(value) }),
            Operation::Replace(key, value) => json!({ "op": "replace", "key": key, "value": hex(value) }),
            Operation::Cas(key, version, value) => {
                json!({ "op": "cas", "key": key, "version": version, "value": hex(value) })
            }
            Operation::Delete(key) => json!({ "op": "delete", "key": key }),
            Operation::Increment(key, by) => json!({ "op": "increment", "key": key, "by": by }),
            Operation::Transfer(from, to, by) => {
                json!({ "op": "transfer", "from": from, "to": to, "by": by })
            }
        }
    }

    fn by_rust(&self, client: &mut Found) -> Value {
        let said = match self {
            Operation::Get(key) => client.get(key.as_bytes()).map(|item| {
                item.map_or(Value::Null, |item| json!({ "value": hex(&item.value), "version": item.version }))
            }),
            Operation::Set(key, value) => client.set(key.as_bytes(), value).map(|version| json!(version)),
            Operation::Add(key, value) => client.add(key.as_bytes(), value).map(|version| json!(version)),
            Operation::Replace(key, value) => {
                client.replace(key.as_bytes(), value).map(|version| json!(version))
            }
            Operation::Cas(key, version, value) => {
                client.cas(key.as_bytes(), *version, value).map(|swap| match swap {
                    Swap::Stored(version) => json!({ "version": version, "found": true }),
                    Swap::Exists => json!({ "version": null, "found": true }),
                    Swap::Missing => json!({ "version": null, "found": false }),
                })
            }
            Operation::Delete(key) => client.delete(key.as_bytes()).map(|was| json!(was)),
            Operation::Increment(key, by) => client.increment(key.as_bytes(), *by).map(|sum| json!(sum)),
            Operation::Transfer(from, to, by) => {
                let asked = client.transaction().read(from).read(to).expect_at_least(from, *by);
                asked.add(from, -*by).add(to, *by).commit().map(|outcome| {
                    let values = outcome.reads.iter().map(|found| found.as_ref().map(|found| hex(&found.value)));
                    json!({ "done": outcome.abort.is_none(), "sums": outcome.sums, "reads": values.collect::<Vec<_>>() })
                })
            }
        };
        said.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

/// What is under each key when operations come one after the other.
#[derive(Default)]
struct Model {
    items: BTreeMap<&'static str, (Vec<u8>, u64)>,
    /// The highest version that was seen.
    last: u64,
}

const WORDS: [&str; 3] = ["word:1", "word:2", "word:3"];
const COUNTERS: [&str; 2] = ["counter:1", "counter:2"];

impl Model {
    fn draw(&self, random: &mut Prng) -> Operation {
        let word = WORDS[random.below(3) as usize];
        let value = vec![b'a' + random.below(26) as u8; [1, 100, 20_000][random.below(3) as usize]];
        let there = self.items.get(word).map_or(1, |(_, version)| *version);
        let by = random.below(20) as i64 - 8;
        match random.below(9) {
            0 => Operation::Set(word, value),
            1 => Operation::Add(word, value),
            2 => Operation::Replace(word, value),
            3 => Operation::Cas(word, if random.below(3) == 0 { there + 1 } else { there }, value),
            4 => Operation::Delete(word),
            5 => Operation::Increment(COUNTERS[random.below(2) as usize], by),
            6 => Operation::Transfer(COUNTERS[0], COUNTERS[1], by.abs()),
            _ => Operation::Get(if random.below(2) == 0 { word } else { COUNTERS[0] }),
        }
    }

    fn number(&self, key: &str) -> i64 {
        let text = self.items.get(key).map_or("0", |(value, _)| std::str::from_utf8(value).expect("text"));
        text.parse().expect("a number")
    }

    /// A version that was said is higher than all before.
    fn store(&mut self, key: &'static str, value: Vec<u8>, version: &Value, said: &Operation) {
        let version = version.as_u64().unwrap_or_else(|| panic!("{said:?}: {version}"));
        assert!(version > self.last, "{said:?}: {version} after {}", self.last);
        self.last = version;
        self.items.insert(key, (value, version));
    }

    /// A counter's version is not said; a read shows it.
    fn count(&mut self, key: &'static str, sum: i64) {
        self.items.insert(key, (sum.to_string().into_bytes(), 0));
    }

    /// Checks what was answered, and does the same.
    fn agree(&mut self, operation: &Operation, said: &Value) {
        let is_there = |key: &str| self.items.contains_key(key);
        match operation {
            Operation::Get(key) => match self.items.get_mut(key) {
                None => assert_eq!(*said, Value::Null, "{operation:?}"),
                Some((value, version)) => {
                    assert_eq!(bytes(said["value"].as_str().expect("hex")), *value, "{operation:?}");
                    let seen = said["version"].as_u64().expect("a version");
                    assert!(*version == seen || *version == 0, "{operation:?}: {seen}, {version}");
                    *version = seen;
                }
            },
            Operation::Set(key, value) => self.store(key, value.clone(), said, operation),
            Operation::Add(key, _) if is_there(key) => assert_eq!(*said, Value::Null),
            Operation::Replace(key, _) if !is_there(key) => assert_eq!(*said, Value::Null),
            Operation::Add(key, value) | Operation::Replace(key, value) => {
                self.store(key, value.clone(), said, operation);
            }
            Operation::Cas(key, version, value) => {
                let found = self.items.get(key).map(|(_, there)| there == version);
                assert_eq!(said["found"], found.is_some(), "{operation:?}");
                match found {
                    Some(true) => self.store(key, value.clone(), &said["version"], operation),
                    _ => assert_eq!(said["version"], Value::Null, "{operation:?}"),
                }
            }
            Operation::Delete(key) => {
                assert_eq!(*said, self.items.remove(key).is_some(), "{operation:?}");
            }
            Operation::Increment(key, by) => {
                let sum = self.number(key) + by;
                assert_eq!(*said, sum, "{operation:?}");
                self.count(key, sum);
            }
            Operation::Transfer(from, to, by) => self.transfer(from, to, *by, said),
        }
    }

    fn transfer(&mut self, from: &'static str, to: &'static str, by: i64, said: &Value) {
        let before = [from, to].map(|key| self.items.get(key).map(|(value, _)| hex(value)));
        assert_eq!(said["reads"], json!(before));
        let (had, has) = (self.number(from), self.number(to));
        assert_eq!(said["done"], had >= by, "{had}, {by}");
        if had >= by {
            assert_eq!(said["sums"], json!([had - by, has + by]));
            self.count(from, had - by);
            self.count(to, has + by);
        }
    }
}

#[test]
fn python_and_rust_agree_on_a_chain_while_its_replicas_die() {
    if python().is_none() {
        return;
    }
    let mut chain = Chain::start();
    let mut rust: Vec<Found> = chain.ways().iter().map(|by| chain.rust(*by).expect("it serves")).collect();
    let found = |by: &By| chain.python(&mut python().expect("it was there before"), *by);
    let mut pythons: Vec<Peer> = chain.ways().iter().map(found).collect();
    let (mut model, mut random) = (Model::default(), Prng::new(19));
    for turn in 0..600 {
        // The head dies, then the next head; the one that comes back has everything again before the last is alone.
        match turn {
            150 => drop(chain.replicas[0].take()),
            300 => chain.replicas[0] = Some(chain.cluster.replica("1")),
            450 => {
                wait_for("the first to come back", || {
                    let copies = rust[0].transaction().add("warm", 1).commit().map(|outcome| outcome.copies);
                    if copies.as_ref().is_ok_and(|copies| *copies == 3) {
                        Ok(())
                    } else {
                        Err(format!("{copies:?}"))
                    }
                });
                drop(chain.replicas[1].take());
            }
            _ => {}
        }
        let operation = model.draw(&mut random);
        let who = random.below(rust.len() as u64) as usize;
        let said = match random.below(2) {
            0 => by_python(&mut pythons[who], &operation),
            _ => operation.by_rust(&mut rust[who]),
        };
        model.agree(&operation, &said);
    }
    let replicas = ask(&mut pythons[0], &json!({ "op": "replicas" }));
    assert_eq!(replicas.as_object().map(serde_json::Map::len), Some(3));
    pythons.into_iter().for_each(|python| drop(python.end()));
}

#[test]
fn clients_of_both_languages_add_up_at_once_and_each_write_is_done_once() {
    if python().is_none() {
        return;
    }
    const EACH: i64 = 150;
    let mut chain = Chain::start();
    let mut rust = chain.rust(By::File).expect("it serves");
    let mut peer = chain.python(&mut python().expect("it was there before"), By::Controller);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| ask(&mut peer, &json!({ "op": "count", "key": "sum", "times": EACH })));
        for n in 0..EACH {
            rust.increment(b"sum", 1).expect("done");
            if n == EACH / 3 {
                drop(chain.replicas[0].take());
            }
        }
        assert_eq!(counting.join().expect("it counted"), EACH);
    });
    assert_eq!(rust.increment(b"sum", 0).expect("done"), 2 * EACH);
    // What became of the last of the other's writes is told to this one.
    let last = ask(&mut peer, &json!({ "op": "last" }));
    let session = last["session"].as_str().expect("hex").parse().expect("a session");
    let sequence = last["sequence"].as_u64().expect("a number");
    let id = protocol::chain::message::RequestId { session, sequence };
    let told = rust.store().expect("it has one").status(id).expect("it is remembered");
    assert!(matches!(told, protocol::chain::message::Status::Done(outcome) if outcome.sums.len() == 1));
    let own = ask(&mut peer, &json!({ "op": "status", "session": last["session"], "sequence": sequence }));
    assert_eq!((&own["state"], own["sums"].as_array().map(Vec::len)), (&json!("DONE"), Some(1)));
    peer.end();
}

#[test]
fn who_looks_where_nothing_is_is_told() {
    let Some(mut python) = python() else { return };
    let nobody = format!("127.0.0.1:{}", free_ports(1)[0]);
    let error = Found::builder().controller(&nobody).connect().err().expect("nobody is there").to_string();
    assert!(error.contains(&nobody), "{error}");
    let mut peer = Peer::start(python.args(["tests/chain_driver.py", "controller", &nobody]));
    let said: Value = serde_json::from_str(&peer.line()).expect("a line of JSON");
    assert!(said["error"].as_str().is_some_and(|error| error.contains(&nobody)), "{said}");
    peer.end();
}
