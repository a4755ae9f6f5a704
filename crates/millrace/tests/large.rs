//! Values that are too long for a packet: memcached clients at a home and through the proxy, clients of the cache at two boxes, one store.
//!
//! What is at stake: an item that becomes long and short again is the same for all of them, at every moment. Histories of all kinds of clients at once
//! are judged; a stream that leads to another node than the home is the fault that the judge must find.

mod proxied;
mod served;

use base::Picos;
use protocol::wire::{MAX_VALUE, Version};
use proxied::Proxied;
use serve::inc::{ClientError, Swap, Topology};
use served::{Client, Served, pattern, set_request};
use sim::check::{Report, Rules, check};
use sim::history::History;
use sim::kv::{Compute, Op, Ret, Status, Value};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Longer than a packet.
const LONG: usize = 100_000;
/// No read goes past the boxes, and nobody is given up.
const SETTINGS: &[(&str, &str)] =
    &[("coherence.worth", "0"), ("coherence.bypass", "0"), ("coherence.value_max", "512KiB")];

fn library(topology: &Topology, tor: u16) -> serve::inc::Client {
    serve::inc::Client::init(topology, Some(tor)).expect("a client")
}

#[test]
fn clients_of_the_cache_and_of_memcached_see_long_values_of_each_other() {
    let rack = Proxied::before_a_node(V4, SETTINGS);
    let (mut memcached, mut proxy) = (Client::to(rack.home()), rack.client());
    let (mut one, mut two) = (library(&rack.topology, 1), library(&rack.topology, 2));
    for turn in 0..6 {
        // Short, and in both boxes; then long; then short again.
        let (short, long) = (pattern(turn, 50), pattern(turn, LONG + turn as usize));
        memcached.set("k", &short);
        for cache in [&mut one, &mut two] {
            while !cache.get(b"k").expect("an answer").expect("it is there").from_box {}
        }
        match turn % 3 {
            0 => memcached.set("k", &long),
            1 => drop(one.set(b"k", &long).expect("it is stored")),
            _ => proxy.set("k", &long),
        }
        let (seen, version) = memcached.gets("k");
        assert_eq!(seen, long);
        for cache in [&mut one, &mut two] {
            let item = cache.get(b"k").expect("an answer").expect("it is there");
            assert_eq!((item.version, item.from_box), (Version(version), false));
            assert!(item.value == long, "turn {turn}");
        }
        assert_eq!(proxy.gets("k"), (long, version));
        let swapped = two.cas(b"k", Version(version), &short).expect("an answer");
        let Swap::Stored(version) = swapped else { panic!("{swapped:?}") };
        assert_eq!(proxy.gets("k"), (short, version.0));
    }
}

#[test]
fn the_library_does_with_long_values_what_it_does_with_short_ones() {
    let rack = Proxied::before_a_node(V4, SETTINGS);
    let (mut memcached, mut cache) = (Client::to(rack.home()), library(&rack.topology, 1));
    let (long, other) = (pattern(1, LONG), pattern(2, LONG));
    assert_eq!(cache.replace(b"k", &long).expect("an answer"), None);
    let version = cache.add(b"k", &long).expect("an answer").expect("nothing was there");
    assert_eq!(cache.add(b"k", &other).expect("an answer"), None);
    assert_eq!(cache.cas(b"k", Version(version.0 + 1), &other).expect("an answer"), Swap::Exists);
    assert_eq!(cache.cas(b"none", version, &other).expect("an answer"), Swap::Missing);
    assert!(matches!(cache.cas(b"k", version, &other).expect("an answer"), Swap::Stored(_)));
    assert!(cache.replace(b"k", &long).expect("an answer").is_some());
    assert!(cache.touch(b"k", std::time::Duration::from_secs(1000)).expect("an answer"));
    let error = cache.increment(b"k", 1, None).expect_err("it is no number").to_string();
    assert!(error.starts_with("NOT_NUMBER"), "{error}");
    assert!(memcached.line_of("mg k t\r\n").starts_with("HD t"));
    // What appending makes too long for a packet, and what is too long already.
    cache.set(b"a", &pattern(3, MAX_VALUE)).expect("it fits");
    assert!(cache.append(b"a", b"xy", 0).expect("an answer"));
    assert!(cache.append(b"a", &long, 0).expect("an answer"));
    assert!(!cache.append(b"none", &long, 0).expect("an answer"));
    let appended = [pattern(3, MAX_VALUE), b"xy".to_vec(), long.clone()].concat();
    assert!(cache.get(b"a").expect("an answer").expect("it is there").value == appended);
    let error = cache.append(b"a", b"x", 70_000).expect_err("the limit").to_string();
    assert!(error.starts_with("NO_ROOM"), "{error}");
    // A key that is no word for memcached.
    cache.set(b"\0 key", &long).expect("it is stored");
    assert!(cache.get(b"\0 key").expect("an answer").expect("it is there").value == long);
    // A time to live, beyond 30 days too.
    for (days, seconds) in [(1, 86_400), (40, 3_456_000)] {
        let life = std::time::Duration::from_secs(seconds);
        cache.set_for(b"t", &long, life).expect("it is stored");
        let line = memcached.line_of("mg t t\r\n");
        let left: u64 = line.trim_end().trim_start_matches("HD t").parse().expect("seconds");
        assert!((seconds - 100..=seconds).contains(&left), "{days} days: {line}");
    }
    // What is longer than anybody may send, and than anybody takes.
    assert!(matches!(cache.set(b"k", &pattern(1, (512 << 10) + 1)), Err(ClientError::Bad)));
    memcached.set("long", pattern(1, 600_000));
    let error = cache.get(b"long").expect_err("it is too long").to_string();
    assert!(error.starts_with("TOO_LARGE") && error.contains("coherence.value_max"), "{error}");
    assert!(cache.delete(b"k").expect("an answer") && cache.get(b"k").expect("an answer").is_none());
}

/// The same conversation with the home and with the proxy.
#[test]
fn commands_on_long_values_are_answered_alike_by_the_home_and_through_the_proxy() {
    let rack = Proxied::before_a_node(V4, SETTINGS);
    for (who, mut client) in [("the home", Client::to(rack.home())), ("the proxy", rack.client())] {
        let (long, other) = (pattern(7, LONG), pattern(8, 70_000));
        let value = |key: &str, value: &[u8]| served::get_reply(key, value);
        let ms = |flags: &str, value: &[u8]| {
            [format!("ms k {}{flags}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
        };
        eprintln!("{who}");
        client.ask("flush_all\r\n", "OK\r\n");
        client.ask(ms(" MR", &long), "NS\r\n");
        client.ask(ms(" C7", &long), "NF\r\n");
        client.ask(ms(" ME s F5 T1000", &long), format!("HD s{LONG}\r\n"));
        let line = client.line_of("mg k v f t\r\n");
        assert!(line.starts_with(&format!("VA {LONG} f5 t")), "{line}");
        client.expect([long.as_slice(), b"\r\n"].concat());
        client.ask(ms("", &other), "HD\r\n");
        client.ask(ms(" C1", &long), "EX\r\n");
        client.ask("get k\r\n", value("k", &other));
        client.ask("set s 0 0 1\r\nx\r\n", "STORED\r\n");
        // Among short ones, in order, and of a pipeline.
        let one = |key: &str, of: &[u8]| value(key, of)[..value(key, of).len() - 5].to_vec();
        let x = value("s", b"x");
        client.ask("get s none k s\r\n", [one("s", b"x"), one("k", &other), x.clone()].concat());
        client.ask(
            [b"get k\r\nget s\r\n".to_vec(), set_request("k", &long), b"get k s\r\nmn\r\n".to_vec()].concat(),
            [value("k", &other), x.clone(), b"STORED\r\n".to_vec(), one("k", &long), x, b"MN\r\n".to_vec()]
                .concat(),
        );
        client.ask("prepend k 0 0 3\r\nabc\r\n", "STORED\r\n");
        client.ask("append k 0 0 3\r\nxyz\r\n", "STORED\r\n");
        let joined = [b"abc".to_vec(), long.clone(), b"xyz".to_vec()].concat();
        client.ask("gat 500 k\r\n", value("k", &joined));
        client.ask("mg k s T100 q\r\nmn\r\n", format!("HD s{}\r\nMN\r\n", joined.len()));
        client.ask("touch k 0\r\nmg k t\r\n", "TOUCHED\r\nHD t-1\r\n");
        client.ask("incr k 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
        client.ask("ma k N60\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
        // Leases: stale, won once.
        client.ask("md k I T30\r\n", "HD\r\n");
        client.ask("mg k s\r\nmg k s\r\n", format!("HD s{0} X W\r\nHD s{0} Z X\r\n", joined.len()));
        client.ask(ms("", &long), "HD\r\n");
        client.ask("mg k s\r\n", format!("HD s{LONG}\r\n"));
        client.ask("md k x\r\nmg k v\r\n", "HD\r\nVA 0\r\n\r\n");
        // Short, and by one append too long.
        client.set("k", pattern(9, MAX_VALUE));
        client.ask("append k 0 0 2\r\n12\r\n", "STORED\r\n");
        client.ask("mg k s\r\n", format!("HD s{}\r\n", MAX_VALUE + 2));
        client.set("k", pattern(9, MAX_VALUE));
        client.ask("ms k 2 MP s\r\n12\r\n", format!("HD s{}\r\n", MAX_VALUE + 2));
        client.ask("delete k\r\nget k\r\n", "DELETED\r\nEND\r\n");
        // A number with much behind it is none for a node, as for memcached.
        client.set("k", [b"41 ".to_vec(), vec![b' '; 69_997]].concat());
        for count in ["incr k 1\r\n", "decr k 2\r\n", "ma k N60 J7 v\r\n"] {
            client.ask(count, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
        }
        client.ask("mg k s\r\n", "HD s70000\r\n");
    }
}

/// What a client does, by its way.
enum Way {
    Library(Box<serve::inc::Client>),
    Memcached(Client),
}

const KEYS: [&str; 3] = ["a", "b", "n"];

/// An operation that ended: when it began and ended, by whom, on what.
type Done = (u64, u64, usize, &'static str, Op, Ret);

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn done(is: bool, otherwise: Status) -> Ret {
    Ret::of(if is { Status::Ok } else { otherwise })
}

impl Way {
    /// Without versions, which not all ways tell of what they write: each value is another.
    fn get(&mut self, key: &str) -> Ret {
        let value = match self {
            Way::Library(cache) => cache.get(key.as_bytes()).expect("an answer").map(|item| item.value),
            Way::Memcached(client) => client.get(key),
        };
        value.map_or(Ret::of(Status::Miss), |value| Ret::hit(&value))
    }

    fn line_of(client: &mut Client, verb: &str, key: &str, value: &[u8]) -> String {
        let head = format!("{verb} {key} 0 0 {}\r\n", value.len());
        client.line_of([head.as_bytes(), value, b"\r\n"].concat())
    }

    fn set(&mut self, key: &str, value: &[u8]) -> Ret {
        match self {
            Way::Library(cache) => done(cache.set(key.as_bytes(), value).is_ok(), Status::Error),
            Way::Memcached(client) => {
                let line = Way::line_of(client, "set", key, value);
                done(line.trim_end() == "STORED", Status::Error)
            }
        }
    }

    fn add(&mut self, key: &str, value: &[u8]) -> Ret {
        match self {
            Way::Library(cache) => {
                done(cache.add(key.as_bytes(), value).expect("an answer").is_some(), Status::NotStored)
            }
            Way::Memcached(client) => {
                done(Way::line_of(client, "add", key, value).trim_end() == "STORED", Status::NotStored)
            }
        }
    }

    fn append(&mut self, key: &str, value: &[u8]) -> Ret {
        match self {
            Way::Library(cache) => match cache.append(key.as_bytes(), value, 0) {
                Ok(was_there) => done(was_there, Status::NotStored),
                Err(ClientError::Status(_)) => Ret::of(Status::Error),
                Err(error) => panic!("{error}"),
            },
            Way::Memcached(client) => match Way::line_of(client, "append", key, value).trim_end() {
                "STORED" => Ret::of(Status::Ok),
                "NOT_STORED" => Ret::of(Status::NotStored),
                _ => Ret::of(Status::Error),
            },
        }
    }

    fn delete(&mut self, key: &str) -> Ret {
        match self {
            Way::Library(cache) => done(cache.delete(key.as_bytes()).expect("an answer"), Status::Miss),
            Way::Memcached(client) => {
                done(client.line_of(format!("delete {key}\r\n")).trim_end() == "DELETED", Status::Miss)
            }
        }
    }

    fn incr(&mut self, key: &str, by: u64) -> Ret {
        let number = match self {
            Way::Library(cache) => match cache.increment(key.as_bytes(), by, None) {
                Ok(number) => Ok(number),
                Err(ClientError::Status(_)) => Err(()),
                Err(error) => panic!("{error}"),
            },
            Way::Memcached(client) => match client.line_of(format!("incr {key} {by}\r\n")).trim_end() {
                "NOT_FOUND" => Ok(None),
                line => line.parse().map(Some).map_err(|_| ()),
            },
        };
        match number {
            Ok(Some(number)) => Ret { value: Some(Value::number(number)), ..Ret::of(Status::Ok) },
            Ok(None) => Ret::of(Status::Miss),
            Err(()) => Ret::of(Status::Error),
        }
    }

    /// Something at random.
    fn act(&mut self, state: &mut u64, who: usize, turn: usize) -> (&'static str, Op, Ret) {
        let key = KEYS[random(state) as usize % KEYS.len()];
        let long = if random(state).is_multiple_of(2) { LONG } else { 0 };
        let value = format!("{who}.{turn} ").into_bytes();
        let value = [value, vec![b'v'; 20 + long]].concat();
        let op_value = Value::of(&value);
        match random(state) % if key == "n" { 12 } else { 8 } {
            0..3 => (key, Op::Get, self.get(key)),
            3 | 4 if key == "n" && long == 0 => {
                let (number, ttl) = (turn.to_string(), None);
                (key, Op::Set { value: Value::of(number.as_bytes()), ttl }, self.set(key, number.as_bytes()))
            }
            3 | 4 => (key, Op::Set { value: op_value, ttl: None }, self.set(key, &value)),
            5 => (key, Op::Add { value: op_value, ttl: None }, self.add(key, &value)),
            6 if key != "n" => (key, Op::Append { value: op_value }, self.append(key, &value)),
            6 | 7 => (key, Op::Delete, self.delete(key)),
            _ => {
                let how = Compute::Incr;
                (key, Op::Compute { how, by: 3, init: None, ttl: None }, self.incr(key, 3))
            }
        }
    }
}

/// What all kinds of clients at once saw, judged.
fn judged(rack: &Proxied, topology: &Topology, seed: u64) -> Report {
    let ways = vec![
        Way::Library(Box::new(library(topology, 1))),
        Way::Library(Box::new(library(topology, 2))),
        Way::Memcached(rack.client()),
        Way::Memcached(Client::to(rack.home())),
    ];
    let begun = Instant::now();
    let threads: Vec<_> = (0..)
        .zip(ways)
        .map(|(who, mut way): (usize, Way)| {
            std::thread::spawn(move || {
                let mut state = seed.wrapping_mul(31).wrapping_add(who as u64);
                let acts = (0..150).map(|turn| {
                    let from = begun.elapsed().as_nanos() as u64;
                    let (key, op, ret) = way.act(&mut state, who, turn);
                    (from, begun.elapsed().as_nanos() as u64 + 1, who, key, op, ret)
                });
                acts.collect::<Vec<Done>>()
            })
        })
        .collect();
    let all: Vec<Done> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    // Calls and returns in the order of time.
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (id, (from, to, ..)) in all.iter().enumerate() {
        moments.extend([(*from, false, id), (*to, true, id)]);
    }
    moments.sort_unstable();
    let mut history = History::new();
    for (at, is_return, id) in moments {
        let (_, _, who, key, op, ret) = &all[id];
        match is_return {
            true => history.returns(Picos(at * 1000), id as u64, ret.clone()),
            false => history.call(Picos(at * 1000), *who as u32, id as u64, key.as_bytes(), op.clone()),
        }
    }
    check(&history, &Rules::default())
}

#[test]
fn histories_of_short_and_long_values_are_linearizable() {
    let rack = Proxied::before_a_node(V4, SETTINGS);
    for seed in 1..4 {
        let report = judged(&rack, &rack.topology, seed);
        assert!(report.is_linearizable() && report.good == KEYS.len(), "seed {seed}: {report:?}");
        Client::to(rack.home()).ask("flush_all\r\n", "OK\r\n");
    }
}

#[test]
fn a_stream_that_leads_to_another_node_is_found() {
    let rack = Proxied::before_a_node(V4, SETTINGS);
    let elsewhere = Served::with(&[]);
    let (home, _) = rack.topology.homes()[0];
    let wrong = Topology::parse(&rack.topology.text(), std::path::Path::new("rack.toml"))
        .and_then(|topology| topology.with_streams([(home, elsewhere.address())]));
    let wrong = Arc::new(wrong.expect("a topology"));
    let report = judged(&rack, &wrong, 1);
    assert!(!report.violations.is_empty(), "{report:?}");
}
