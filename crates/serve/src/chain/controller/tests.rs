//! Controllers with links and registries, and replicas that only say that they live.

use super::command::registry;
use super::*;
use crate::chain::links::Links;
use base::key::Key;
use base::{Clock, Nanos};
use clap::Parser;
use fabric::link::Address;
use protocol::chain::{
    Config, Configuration, Durability, Epoch, Incarnation, Lsn, Message, NodeId, ReplicaAddress, ReplicaId,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No step takes as long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

const KEY: Key = Key::new([0; 16]);

/// A replica that has nothing but its log's end.
struct Replica {
    links: Links,
    life: u64,
    beat: u64,
    last: u64,
    whole: bool,
    beat_at: Nanos,
    configuration: Configuration,
}

impl Replica {
    fn new(id: u16, life: u64, last: u64, whole: bool, controller: &Address) -> Replica {
        let id = ReplicaId(id);
        let peers = [(NodeId::Controller(0), Some(controller.clone()))];
        Replica {
            links: Links::new(&KEY, 1, NodeId::Replica(id), None, "", peers).expect("links"),
            life,
            beat: 0,
            last,
            whole,
            beat_at: Nanos::ZERO,
            configuration: Configuration::default(),
        }
    }

    fn turn(&mut self) {
        let now = Clock::shared().now();
        let mut came = Vec::new();
        self.links.poll(now, &mut came);
        for (_, message) in came {
            if let Message::Lead { configuration, incarnation, .. } = message
                && incarnation.0 == self.life
                && configuration.epoch >= self.configuration.epoch
            {
                self.configuration = configuration;
            }
        }
        if now >= self.beat_at {
            self.beat_at = now.plus(Nanos::from_millis(20));
            self.beat += 1;
            let alive = Message::Alive {
                epoch: self.configuration.epoch,
                incarnation: Incarnation(self.life),
                beat: self.beat,
                last: Lsn(self.last),
                last_epoch: Epoch(u64::from(self.last > 0)),
                durability: Durability::PowerLoss,
                born: Incarnation(1),
                whole: self.whole,
                joined: None,
                missing: None,
                committed: Lsn(0),
                stalled_ms: 0,
            };
            self.links.send(now, NodeId::Controller(0), &alive);
        }
        self.links.flush(now);
    }
}

/// Turns replicas until something is so.
fn until(what: &str, replicas: &mut [Replica], mut is_so: impl FnMut(&[Replica]) -> bool) {
    let start = Instant::now();
    while !is_so(replicas) {
        assert!(start.elapsed() < PATIENCE, "waited until {what}");
        replicas.iter_mut().for_each(Replica::turn);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn members(replica: &Replica) -> Vec<u16> {
    replica.configuration.members.iter().map(|member| member.replica.0).collect()
}

/// A controller on a thread; its lines, when it was told to end.
struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
    address: Address,
}

impl Running {
    fn start(state: &Path, listen: &Address) -> Running {
        let config = Config::default();
        let registry =
            registry(&config, 0, &[state.to_path_buf()], (&[], &Default::default())).expect("a file");
        let unknown =
            |id| ReplicaAddress { replica: ReplicaId(id), peers: String::new(), clients: String::new() };
        let replicas = (1..=3).map(unknown).collect();
        let setting = Setting { config, number: 0, replicas, listen: listen.clone(), registry, key: KEY };
        let mut process = Process::open(setting).expect("it opens");
        let address = process.address().expect("it listens").clone();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let run = move || {
            let mut lines = Vec::new();
            process.run(&told, |line| lines.push(line.to_owned()));
            lines
        };
        Running { stop, thread: std::thread::spawn(run), address }
    }

    fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

#[test]
fn a_chain_begins_shrinks_and_outlives_its_controller() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let state = folder.path().join("chain");
    let anywhere: Address = "tcp:127.0.0.1:0".parse().expect("an address");
    let first = Running::start(&state, &anywhere);
    let mut replicas: Vec<Replica> = (1..=3).map(|id| Replica::new(id, 1, 0, true, &first.address)).collect();
    until("all know of all", &mut replicas, |all| all.iter().all(|replica| members(replica) == [1, 2, 3]));
    drop(replicas.remove(1));
    until("2 is left out", &mut replicas, |all| all.iter().all(|replica| members(replica) == [1, 3]));
    let address = first.address.clone();
    let lines = first.end();
    let expected = "controller 0 of chain 1: epoch 1: replicas 1 (head), 2, 3 (tail)";
    assert!(lines.iter().any(|line| line == expected), "{lines:?}");

    // Another one goes on with what is in the file, at the same address.
    let second = Running::start(&state, &address);
    let epoch = replicas[0].configuration.epoch;
    replicas.push(Replica::new(2, 2, 0, true, &address));
    until("2 joins", &mut replicas, |all| all.iter().all(|replica| members(replica) == [1, 3, 2]));
    assert!(replicas[0].configuration.epoch > epoch);
    second.end();
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    reset: Reset,
}

#[test]
fn a_reset_goes_on_with_the_longest_log() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let state = folder.path().join("chain");
    let socket = format!("unix:{}", state.with_file_name("socket").display());
    let words =
        ["reset", "--no-key", "--accept-data-loss", "--replicas", "1,2,3", "--listen", &socket, "--state"];
    let line = Line::try_parse_from(words.iter().copied().chain([state.to_str().expect("text")]));
    let reset = line.map_err(|error| error.to_string()).expect("the flags are right").reset;
    let address: Address = socket.parse().expect("an address");
    let stop = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&stop);
    let at = address.clone();
    // All have entries and the registry has nothing: it was lost.
    let replicas = std::thread::spawn(move || {
        let mut replicas: Vec<Replica> =
            [(1, 5), (2, 9), (3, 0)].map(|(id, last)| Replica::new(id, 1, last, false, &at)).into();
        until("it is done", &mut replicas, |_| is_done.load(Ordering::Relaxed));
    });
    let mut process = reset.open().expect("it opens");
    let done = reset.reset(&mut process, &AtomicBool::new(false)).map_err(|error| error.to_string());
    let done = done.expect("it can be done");
    assert_eq!(done.head().map(|head| head.replica), Some(ReplicaId(2)));
    assert!(done.epoch > Epoch(1));
    stop.store(true, Ordering::Relaxed);
    replicas.join().expect("they end");
    let refused = reset.reset(&mut process, &AtomicBool::new(true)).expect_err("it was told to stop");
    assert!(refused.to_string().contains("nothing was reset"));
    // Its registry may still be writing what followed the reset.
    drop(process);
}

#[test]
fn wrong_flags_get_a_sentence() {
    let right =
        ["reset", "--no-key", "--accept-data-loss", "--replicas", "1,2", "--listen", "tcp:127.0.0.1:0"];
    let parse = |more: &[&str]| Line::try_parse_from(right.iter().chain(more).copied());
    for wrong in [&[][..], &["--state", "a", "--etcd", "http://b"], &["--state", "a", "--serve", "x"]] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
    assert!(Line::try_parse_from(right.iter().filter(|word| **word != "--accept-data-loss")).is_err());
    for (more, expected) in [
        (&["--etcd", "https://10.0.0.1:2379"][..], "--etcd-ca-file"),
        (&["--etcd", "10.0.0.1:2379"][..], "http://HOST:PORT"),
        (&["--state", "/tmp/x", "--set", "chain.lease"][..], "NAME=VALUE"),
        (&["--state", "/tmp/x", "--set", "chain.lease=4000"][..], "do not fit together"),
        (&["--state", "/tmp/x", "--set", "lease=1"][..], "lease"),
        (&["--state", "/tmp/x", "--replicas", "2"][..], "names 2 twice"),
        (&["--state", "/dev/null/x"][..], "/dev/null"),
    ] {
        let reset = parse(more).map_err(|error| error.to_string()).expect("flags").reset;
        let error = reset.open().err().expect("it is wrong").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
