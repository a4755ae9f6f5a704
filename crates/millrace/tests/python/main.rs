//! The Python clients (`clients/python`), by themselves and among Rust clients on the same keys: of the in-network cache here, of a chain in `chain`.
//!
//! `MILLRACE_PYTHON` names the interpreter, 3.11 or later. Without one these tests are skipped, visibly; `MILLRACE_REQUIRE_PEERS=1` makes a
//! skip a failure.

mod chain;
#[path = "../members/mod.rs"]
mod members;
mod moved;
mod secure;
#[path = "../served/mod.rs"]
mod served;

use base::Prng;
use members::{Cluster, Text, wait_for};
use protocol::coherence::client::Call;
use protocol::coherence::compute::{self, Effect, Item, Operation};
use protocol::wire::{Kind, MAX_VALUE, Status, Verb, Version};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};
use serve::inc::{Client, Topology};
use served::skip;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python");

/// The interpreter, with the package to be found.
fn python() -> Option<Command> {
    let name = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let is_new = Command::new(&name).args(["-c", "import tomllib"]).output();
    if !is_new.is_ok_and(|output| output.status.success()) {
        skip(&format!("{name} is no Python of 3.11 or later; set MILLRACE_PYTHON to one"));
        return None;
    }
    let mut command = Command::new(name);
    command.current_dir(PACKAGE).env("PYTHONPATH", ".").env("PYTHONDONTWRITEBYTECODE", "1");
    Some(command)
}

#[test]
fn the_python_client_passes_its_own_tests() {
    let Some(mut python) = python() else { return };
    let python = python
        .args(["-m", "unittest", "discover", "tests"])
        .env("MILLRACE_BIN", env!("CARGO_BIN_EXE_millrace"));
    let output = python.output().expect("it was found before");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("\nRan "), "{text}");
}

/// A program that ends when its standard input does, and is killed where a test fails before.
struct Peer {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(command: &mut Command) -> Peer {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Peer { process, input, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    /// Stops it. When this returns it does nothing any more.
    fn stop(&self) {
        let id = Pid::from_child(&self.process);
        kill_process(id, Signal::STOP).expect("it is ours and runs");
        waitpid(Some(id), WaitOptions::UNTRACED).expect("it is our child");
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).expect("it is ours and waits");
    }

    fn end(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert!(self.process.wait().expect("it is ours").success());
        rest
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two boxes below a root, two homes, and Python clients.
struct Rack {
    topology: Topology,
    box_1: Peer,
    others: Peer,
    python: Peer,
    // After all who work in it.
    _folder: TempDir,
}

impl Rack {
    fn start(mut python: Command) -> Rack {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        let program = || {
            let mut program = Command::new(env!("CARGO_BIN_EXE_millrace"));
            program.arg("inc");
            program
        };
        let mut plan = program();
        plan.args(["topology", "--free-ports", "--homes", "2", "--controllers", "0"]);
        // Patience for a machine that is busy with other tests; a box that was silent is asked again at once.
        for setting in ["patience=60000000", "lease=300000", "bypass=0"] {
            plan.args(["--set", &format!("coherence.{setting}")]);
        }
        std::fs::write(&file, plan.output().expect("the program").stdout).expect("a file");
        let run = |nodes: &[&str]| {
            let mut run = program();
            run.args(["run", "--first", "--until-eof", "--topology"]).arg(&file);
            nodes.iter().for_each(|node| {
                run.args(["--node", node]);
            });
            let mut peer = Peer::start(&mut run);
            nodes.iter().for_each(|node| assert!(peer.line().starts_with(node)));
            peer
        };
        Rack {
            box_1: run(&["box:1"]),
            others: run(&["box:2", "box:3", "home:1", "home:2"]),
            python: Peer::start(python.arg("tests/driver.py").arg(&file)),
            topology: Topology::read(&file).expect("it was printed"),
            _folder: folder,
        }
    }

    /// Has the Python client of a box do something.
    fn python(&mut self, request: &Value) -> Value {
        let input = self.python.input.as_mut().expect("it runs");
        writeln!(input, "{request}").expect("it listens");
        serde_json::from_str(&self.python.line()).expect("a line of JSON")
    }

    fn end(self) {
        self.python.end();
        assert!(self.box_1.end().contains("box:1: hits "));
        self.others.end();
    }
}

/// What an operation answered, as far as both libraries say it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: Status,
    number: Option<u64>,
    value: Option<Vec<u8>>,
    version: Option<Version>,
    from_box: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
}

fn says_number(verb: Verb) -> bool {
    matches!(verb, Verb::Incr | Verb::Decr | Verb::Min | Verb::Max | Verb::Or)
}

fn says_version(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Set | Verb::Add | Verb::Replace | Verb::Cas)
}

/// Asks the Python client, in its words.
fn ask_python(rack: &mut Rack, at: u16, call: &Call) -> Seen {
    let mut request = json!({"box": at, "key": String::from_utf8_lossy(&call.key)});
    let mut say = |name: &str, value: Value| request[name] = value;
    let op = match call.verb {
        Verb::Incr => "increment",
        Verb::Decr => "decrement",
        Verb::CondPut => "cond_put",
        Verb::Or => "or_",
        verb => &verb.name().to_lowercase(),
    };
    say("op", json!(op));
    match call.verb {
        Verb::Set | Verb::Add | Verb::Replace => say("value", json!(hex(&call.value))),
        Verb::Cas => {
            say("value", json!(hex(&call.value)));
            say("version", json!(call.version.0));
        }
        Verb::Append => {
            say("value", json!(hex(&call.value)));
            say("limit", json!(call.operand));
        }
        Verb::Incr | Verb::Decr => {
            let initial = std::str::from_utf8(&call.value).expect("digits").parse::<u64>().ok();
            say("by", json!(call.operand));
            say("initial", json!(initial));
        }
        Verb::CondPut | Verb::Min | Verb::Max | Verb::Or => say("number", json!(call.operand)),
        Verb::Touch => say("life", json!(3600)),
        _ => {}
    }
    read_python(call.verb, &rack.python(&request))
}

/// What its result means.
fn read_python(verb: Verb, result: &Value) -> Seen {
    let otherwise = match verb {
        Verb::Add => Status::Exists,
        Verb::CondPut => Status::NotStored,
        Verb::Cas if result["found"] == true => Status::Exists,
        _ => Status::Miss,
    };
    let version = result.as_u64().or(result["version"].as_u64()).filter(|_| says_version(verb));
    let status = match (result["error"].as_str(), result) {
        (Some(error), _) => *Status::ALL.iter().find(|status| status.name() == error).expect("a status"),
        (None, Value::Null | Value::Bool(false)) => otherwise,
        (None, Value::Object(_)) if version.is_none() => otherwise,
        _ => Status::Ok,
    };
    Seen {
        status,
        number: result.as_u64().filter(|_| says_number(verb)),
        value: result["value"].as_str().map(bytes),
        version: version.map(Version),
        from_box: result["from_box"] == true,
    }
}

fn ask_rust(client: &mut Client, call: &Call) -> Seen {
    let answer = client.call(call.clone()).expect("an answer");
    let is_ok = answer.status == Status::Ok;
    Seen {
        status: answer.status,
        number: (is_ok && says_number(call.verb)).then_some(answer.number),
        value: (is_ok && call.verb == Verb::Get).then_some(answer.value),
        version: (is_ok && says_version(call.verb)).then_some(answer.version),
        from_box: call.verb == Verb::Get && answer.from_box,
    }
}

/// What is under each key when operations come one after the other.
#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, Item>);

/// The version of what was written by an operation that does not say it.
const UNKNOWN: Version = Version(u64::MAX);

impl Model {
    /// Checks what was answered, and does the same.
    fn agree(&mut self, call: &Call, seen: &Seen) {
        let there = self.0.get(&call.key);
        if call.verb == Verb::Get {
            assert_eq!(seen.value.as_ref(), there.map(|item| &item.value), "{:?}", call.key);
            if let (Some(item), Some(version)) = (self.0.get_mut(&call.key), seen.version) {
                assert!(item.version == UNKNOWN || item.version == version, "{:?}: {version}", call.key);
                item.version = version;
            }
            return;
        }
        let operation = Operation {
            verb: call.verb,
            value: &call.value,
            operand: call.operand,
            version: call.version,
            flags: call.flags,
            kind: Kind::Bytes,
        };
        let outcome = compute::apply(&operation, there);
        let number = (outcome.status == Status::Ok && says_number(call.verb)).then_some(outcome.number);
        assert_eq!((seen.status, seen.number), (outcome.status, number), "{:?}", call.verb);
        match outcome.effect {
            Effect::Store { value, flags, kind, .. } => {
                let version = seen.version.unwrap_or(UNKNOWN);
                self.0.insert(call.key.clone(), Item { value, flags, kind, version, end: base::Nanos::MAX });
            }
            Effect::Remove => drop(self.0.remove(&call.key)),
            Effect::Nothing | Effect::Touch => {}
        }
    }

    /// An operation on one of eight keys, half of which hold numbers; values have 1 byte to 60 KB.
    fn draw(&self, random: &mut Prng) -> Call {
        const VERBS: [Verb; 14] = [
            Verb::Set,
            Verb::Add,
            Verb::Replace,
            Verb::Cas,
            Verb::Delete,
            Verb::Touch,
            Verb::Append,
            Verb::Incr,
            Verb::Decr,
            Verb::CondPut,
            Verb::Min,
            Verb::Max,
            Verb::Or,
            Verb::Set,
        ];
        let key = format!("key:{}", random.below(8)).into_bytes();
        if random.below(3) > 0 {
            return Call::new(Verb::Get, &key);
        }
        let mut call = Call::new(VERBS[random.below(14) as usize], &key);
        call.operand = 1 + random.below(1000);
        let is_number = key.last().is_some_and(|digit| digit % 2 == 0);
        match call.verb {
            Verb::Incr | Verb::Decr if random.below(2) == 0 => call.value = b"500".to_vec(),
            Verb::Set | Verb::Add | Verb::Replace | Verb::Cas if is_number => {
                call.value = call.operand.to_string().into_bytes();
            }
            Verb::Set | Verb::Add | Verb::Replace | Verb::Cas => {
                let size = [1, 100, 2_000, 60_000][random.below(4) as usize];
                let byte = b'a' + random.below(26) as u8;
                call.value = vec![byte; 1 + random.below(size) as usize];
            }
            Verb::Append => {
                call.value = vec![b'+'; 1 + random.below(20) as usize];
                call.operand = [0, 50, MAX_VALUE as u64][random.below(3) as usize];
            }
            Verb::Touch => call.life = base::Nanos::from_secs(3600),
            _ => {}
        }
        if call.verb == Verb::Cas {
            let there = self.0.get(&key).map_or(UNKNOWN, |item| item.version);
            call.version = if there == UNKNOWN || random.below(4) == 0 { Version(1) } else { there };
        }
        call
    }
}

#[test]
fn python_and_rust_clients_agree_through_two_boxes() {
    let Some(python) = python() else { return };
    let mut rack = Rack::start(python);
    let mut clients = [1, 2].map(|at| Client::init(&rack.topology, Some(at)).expect("a client"));
    let (mut model, mut random) = (Model::default(), Prng::new(11));
    let mut hits = [0, 0];
    for _ in 0..1500 {
        let call = model.draw(&mut random);
        let (at, by_python) = (random.below(2), random.below(2) == 0);
        let seen = match by_python {
            true => ask_python(&mut rack, at as u16 + 1, &call),
            false => ask_rust(&mut clients[at as usize], &call),
        };
        hits[usize::from(by_python)] += u32::from(seen.from_box);
        model.agree(&call, &seen);
    }
    assert!(hits.iter().all(|&hits| hits > 50), "boxes answered both: {hits:?}");
    assert_eq!(rack.python(&json!({"box": 1, "op": "flush"})), Value::Null);
    for key in model.0.keys() {
        assert_eq!(clients[1].get(key).expect("an answer"), None);
    }
    rack.end();
}

/// Writes are sealed, by both; a read goes without a seal, and is asked again with room for what it found.
#[test]
fn big_values_go_from_one_to_the_other() {
    let Some(python) = python() else { return };
    let mut rack = Rack::start(python);
    let mut client = Client::init(&rack.topology, Some(2)).expect("a client");
    for size in [1, 184, 185, 5_000, 65_056] {
        let value = vec![size as u8; size];
        client.set(b"of rust", &value).expect("stored");
        for _ in 0..2 {
            let item = rack.python(&json!({"box": 1, "op": "get", "key": "of rust"}));
            assert_eq!(item["value"], hex(&value), "{size}");
        }
        let said = json!({"box": 1, "op": "set", "key": "of python", "value": hex(&value)});
        assert!(rack.python(&said).is_number(), "{size}");
        for _ in 0..2 {
            let item = client.get(b"of python").expect("an answer").expect("it is there");
            assert!(item.value == value, "{size}");
        }
    }
    // Box 1 is asked, and answers what comes again.
    rack.end();
}

/// Asks until a box answers: a copy ends with its lease, and a fill may come to nothing.
fn warm(rack: &mut Rack, value: &str) {
    let get = json!({"box": 1, "op": "get", "key": "colour"});
    for _ in 0..10_000 {
        let item = rack.python(&get);
        assert_eq!(item["value"], hex(value.as_bytes()));
        if item["from_box"] == true {
            return;
        }
    }
    panic!("no box keeps it");
}

#[test]
fn a_box_that_is_stopped_loses_datagrams_and_nothing_else() {
    let Some(python) = python() else { return };
    let mut rack = Rack::start(python);
    let mut rust = Client::init(&rack.topology, Some(2)).expect("a client");
    rust.set(b"colour", b"blue").expect("stored");
    warm(&mut rack, "blue");
    rack.box_1.stop();
    let asked = rack.python(&json!({"box": 1, "op": "get", "key": "colour"}));
    assert_eq!((&asked["value"], &asked["from_box"]), (&json!(hex(b"blue")), &json!(false)));
    // It waits for the lease of the copy in the box.
    let version = rust.set(b"colour", b"red").expect("stored");
    let asked = rack.python(&json!({"box": 1, "op": "get", "key": "colour"}));
    assert_eq!((&asked["value"], &asked["version"]), (&json!(hex(b"red")), &json!(version.0)));
    for sum in 0..20 {
        let count = json!({"box": 1, "op": "increment", "key": "visits", "initial": 0});
        assert_eq!(rack.python(&count), sum);
        assert_eq!(rack.python(&json!({"box": 1, "op": "max", "key": "visits", "number": sum})), sum);
    }
    // What was asked of it is answered now, to whom it is too late.
    rack.box_1.go_on();
    warm(&mut rack, "red");
    assert_eq!(rust.increment(b"visits", 1, None).expect("an answer"), Some(20));
    rack.end();
}

/// A value that is too long for a packet goes to its home by a stream, where a memcached client would see it, too.
#[test]
fn values_that_are_too_long_for_a_packet_go_by_stream() {
    let Some(mut python) = python() else { return };
    let cluster =
        Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &Text::new().rack().streaming());
    let _members = cluster.rack();
    let topology = Topology::read(cluster.file.as_ref()).expect("it was written");
    let mut rust = Client::init(&topology, Some(2)).expect("a client");
    wait_for("the home", || rust.set(b"k", b"short").map_err(|error| error.to_string()));
    let mut peer = Peer::start(python.arg("tests/driver.py").arg(&cluster.file));
    let mut ask = |request: Value| {
        writeln!(peer.input.as_mut().expect("it runs"), "{request}").expect("it listens");
        serde_json::from_str::<Value>(&peer.line()).expect("a line of JSON")
    };
    for size in [MAX_VALUE + 1, 200_000, 1 << 20] {
        let value: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let version = rust.set(b"k", &value).expect("stored");
        let item = ask(json!({"box": 1, "op": "get", "key": "k"}));
        assert_eq!((item["version"].as_u64(), item["from_box"].as_bool()), (Some(version.0), Some(false)));
        assert!(item["value"] == hex(&value), "{size}");
        let swapped =
            ask(json!({"box": 1, "op": "cas", "key": "k", "version": version.0, "value": hex(&value)}));
        assert_eq!(swapped["found"], true, "{size}");
        let found = rust.get(b"k").expect("an answer").expect("it is there");
        assert_eq!(Some(found.version.0), swapped["version"].as_u64());
        assert!(found.value == value, "{size}");
        assert_eq!(ask(json!({"box": 1, "op": "add", "key": "k", "value": hex(&value)})), Value::Null);
    }
    // What appending makes too long for a packet.
    rust.set(b"k", &vec![b'a'; MAX_VALUE]).expect("stored");
    assert_eq!(ask(json!({"box": 1, "op": "append", "key": "k", "value": hex(b"b")})), true);
    assert_eq!(rust.get(b"k").expect("an answer").map(|item| item.value.len()), Some(MAX_VALUE + 1));
    peer.end();
}
