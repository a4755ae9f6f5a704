//! `engine.mode = dedicated`: the same answers as with a shared engine, under every way of waiting.

use base::Prng;
use client::kv::rings;
use serve::kv::Server;
use serve::kv::config::Config;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ways to wait: asleep at once, the default, and (for few threads) never asleep.
const SLEEPY: &[(&str, &str)] = &[("wait.spin", "0"), ("wait.pause", "0")];
const DEFAULT: &[(&str, &str)] = &[];
const SLEEPLESS: &[(&str, &str)] = &[("wait.block", "off")];

fn config(registers: &[&[(&str, &str)]]) -> Config {
    let mut config = Config::default();
    config.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address")];
    config.registers.set("engine.mode", "dedicated").expect("a register");
    for (name, value) in registers.iter().copied().flatten() {
        config.registers.set(name, value).expect("a register of this name with such a value");
    }
    config
}

fn node(registers: &[&[(&str, &str)]]) -> Server {
    Server::start(&config(registers)).expect("a node")
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn of(node: &Server) -> Client {
        let stream = TcpStream::connect(node.tcp()[0]).expect("a node");
        stream.set_nodelay(true).expect("an open socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        Client(BufReader::new(stream))
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).expect("an open socket");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line
    }

    fn expect(&mut self, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        self.0.read_exact(&mut got).expect("a reply");
        assert!(got == bytes, "expected {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(80)]));
    }
}

/// Pipelines sets and gets of its own keys and holds every reply against a model.
fn work(client: &mut Client, who: u64, rounds: u64, longest: u64) {
    let mut prng = Prng::for_entity(3, who, 0);
    let mut model = HashMap::<u64, Vec<u8>>::new();
    for round in 0..rounds {
        let (mut requests, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..1 + prng.below(20) {
            let key = prng.below(20);
            let name = format!("{who}-{key}");
            if prng.below(2) == 0 {
                let mut value = format!("{who} {key} {round} ").into_bytes();
                value.resize(value.len() + prng.below(longest) as usize, b'.');
                requests.extend(format!("set {name} 0 0 {}\r\n", value.len()).bytes());
                requests.extend_from_slice(&value);
                requests.extend_from_slice(b"\r\n");
                expected.extend_from_slice(b"STORED\r\n");
                model.insert(key, value);
            } else {
                requests.extend(format!("get {name}\r\n").bytes());
                if let Some(value) = model.get(&key) {
                    expected.extend(format!("VALUE {name} 0 {}\r\n", value.len()).bytes());
                    expected.extend_from_slice(value);
                    expected.extend_from_slice(b"\r\n");
                }
                expected.extend_from_slice(b"END\r\n");
            }
        }
        client.send(&requests);
        client.expect(&expected);
    }
}

#[test]
fn one_request_at_a_time_wakes_everybody_in_turn() {
    for policy in [SLEEPY, DEFAULT, SLEEPLESS] {
        let node = node(&[policy]);
        let mut client = Client::of(&node);
        for n in 0..500 {
            client.send(format!("set k 0 0 3\r\n{n:03}\r\n"));
            assert_eq!(client.line(), "STORED\r\n");
            client.send("get k\r\n");
            client.expect(format!("VALUE k 0 3\r\n{n:03}\r\nEND\r\n").as_bytes());
        }
        node.stop();
    }
}

#[test]
fn several_edges_and_clients_get_right_values() {
    for policy in [SLEEPY, DEFAULT] {
        for form in ["plain", "staged", "coroutine"] {
            let node = node(&[policy, &[("edge.threads", "3"), ("engine.form", form), ("edge.pin", "on")]]);
            std::thread::scope(|scope| {
                for who in 0..6 {
                    let node = &node;
                    scope.spawn(move || work(&mut Client::of(node), who, 60, 500));
                }
            });
            node.stop();
        }
    }
}

/// Replies of many times the arena, values outside it too: the engine waits for room that this or another edge makes.
#[test]
fn a_blocked_engine_is_woken_when_there_is_room() {
    for policy in [SLEEPY, DEFAULT] {
        let small: &[(&str, &str)] = &[
            ("ring.arena", "256k"),
            ("edge.threads", "2"),
            ("store.memory", "256m"),
            ("engine.in_flight", "64"),
        ];
        let node = node(&[policy, small]);
        std::thread::scope(|scope| {
            for who in 0..4 {
                let node = &node;
                scope.spawn(move || {
                    let mut client = Client::of(node);
                    work(&mut client, who, 10, 300_000);
                    let value = vec![b'0' + who as u8; 15_000];
                    client.send(format!("set w{who} 0 0 15000\r\n"));
                    client.send(&value);
                    client.send("\r\n");
                    assert_eq!(client.line(), "STORED\r\n");
                    client.send(format!("get w{who}\r\n").repeat(200));
                    let expected =
                        [format!("VALUE w{who} 0 15000\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat();
                    (0..200).for_each(|_| client.expect(&expected));
                });
            }
        });
        assert!(node.report().engine.blocked > 0, "the engine never waited for room");
        node.stop();
    }
}

/// Who runs the engine changes while clients are served: every reply is the right one, in order, and sums that all clients add to are exact.
#[test]
fn the_engine_moves_between_edges_and_its_thread_under_load() {
    let small: &[(&str, &str)] = &[("edge.threads", "2"), ("ring.arena", "256k"), ("store.memory", "256m")];
    for policy in [SLEEPY, DEFAULT] {
        let node = node(&[policy, small]);
        let mut first = Client::of(&node);
        first.send("set sum 0 0 1\r\n0\r\n");
        assert_eq!(first.line(), "STORED\r\n");
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|who| {
                    let node = &node;
                    scope.spawn(move || {
                        let mut client = Client::of(node);
                        let mut last = 0;
                        for round in 0..60 {
                            work(&mut client, 100 * who + round, 3, 20_000);
                            client.send("incr sum 1\r\n".repeat(10));
                            for _ in 0..10 {
                                let sum: u64 = client.line().trim_end().parse().expect("a sum");
                                assert!(sum > last, "sums of one client rise");
                                last = sum;
                            }
                        }
                    })
                })
                .collect();
            let mut moves = 0u64;
            while !clients.iter().all(|client| client.is_finished()) {
                let mode = ["shared", "dedicated"][(moves % 2) as usize];
                node.shared().registers.set_live("engine.mode", mode).expect("a live register");
                moves += 1;
                std::thread::yield_now();
            }
            assert!(moves > 2);
        });
        first.send("get sum\r\n");
        first.expect(b"VALUE sum 0 4\r\n2400\r\nEND\r\n");
        node.stop();
    }
}

/// The engine's thread would hold its lock all the time; questions get it none the less.
#[test]
fn reports_are_answered_under_load() {
    let node = node(&[SLEEPLESS, &[("edge.threads", "1")]]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let (mut client, mut who) = (Client::of(&node), 0);
            while !stop.load(Ordering::Relaxed) {
                work(&mut client, who, 10, 100);
                who += 1;
            }
        });
        let mut executed = 0;
        for _ in 0..100 {
            let report = node.report();
            assert!(report.engine.executed >= executed);
            executed = report.engine.executed;
            node.shared().register_changed("store.memory");
        }
        stop.store(true, Ordering::Relaxed);
        busy.join().expect("every value was right");
    });
    node.stop();
}

/// What had arrived when the node was told to stop is answered, by an engine that stops last.
#[test]
fn a_node_stops_in_the_middle_of_work() {
    for policy in [SLEEPY, DEFAULT, SLEEPLESS] {
        let node = node(&[policy, &[("edge.threads", "2")]]);
        let mut clients: Vec<Client> = (0..4).map(|_| Client::of(&node)).collect();
        for client in &mut clients {
            client.send("mn\r\n");
            assert_eq!(client.line(), "MN\r\n");
            client.send("mn\r\n".repeat(2000));
        }
        node.stop();
        for client in &mut clients {
            let mut rest = Vec::new();
            // The end, or a reset where the node left requests unread.
            let _ = client.0.read_to_end(&mut rest);
            assert!(rest.chunks(4).all(|line| b"MN\r\n".starts_with(line)));
        }
    }
    // Idle and never used.
    node(&[]).stop();
}

#[test]
fn shared_memory_works_with_it() {
    for policy in [SLEEPY, DEFAULT] {
        let mut config = config(&[policy, &[("shm.busy_poll", "0")]]);
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("s");
        config.listen.shm = Some(path.clone());
        let node = Server::start(&config).expect("a node");
        let mut client = rings::Client::connect(&path).expect("rings");
        for n in 0..500 {
            let expected = format!("STORED\r\nVALUE k 0 3\r\n{n:03}\r\nEND\r\n");
            let message = format!("set k 0 0 3\r\n{n:03}\r\nget k\r\n");
            let right = client.call(message.as_bytes(), |reply| reply == expected.as_bytes());
            assert!(right.expect("a reply"));
        }
        node.stop();
    }
}
