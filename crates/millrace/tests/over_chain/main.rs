//! A server whose items lie in a chain: its machine under the judge of histories (`judged`), and `millrace up --durability chain` as its users run it, with
//! replicas that are killed.
//!
//! Nothing waits for a certain time: tests wait for replies and states.

mod boxes;
#[path = "../chained/mod.rs"]
mod chained;
mod judged;
#[path = "../members/mod.rs"]
mod members;
#[path = "../racked/mod.rs"]
mod racked;
#[path = "../served/mod.rs"]
mod served;
mod shards;

use chained::{PATIENCE, Up, Writer, until_all_serve};
use protocol::chain::Transaction;
use served::Client;
use served::node::Node;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// Small, so that a test is quick.
const SMALL: [&str; 7] = ["--replicas", "3", "--log-size", "8m", "--data-size", "8m", "--restart"];

/// Until so many more are counted.
fn until_more(counter: &AtomicU64, count: u64) {
    let (until, begun) = (counter.load(Ordering::Relaxed) + count, Instant::now());
    while counter.load(Ordering::Relaxed) < until {
        assert!(begun.elapsed() < PATIENCE, "nothing is answered any more");
        std::thread::yield_now();
    }
}

fn words(chain: &str) -> Vec<String> {
    ["up", "-p", "0", "--admin", "0", "-t", "2", "--durability", "chain", "--chain", chain]
        .map(str::to_owned)
        .into()
}

fn node(up: &Up) -> Node {
    let words = words(&up.list());
    Node::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn key(client: &mut Client, key: &str) -> String {
    String::from_utf8(client.get(key).unwrap_or_default()).expect("text")
}

#[test]
fn memcached_clients_and_transactions_act_on_the_same_items() {
    let up = Up::start(&SMALL);
    until_all_serve(&up);
    let nodes = [node(&up), node(&up)];
    let mut client = nodes[0].client();
    client.ask(
        "set k 7 0 1\r\nx\r\nappend k 0 0 1\r\ny\r\nget k none\r\n",
        "STORED\r\nSTORED\r\nVALUE k 7 2\r\nxy\r\nEND\r\n",
    );
    client.ask(
        "set n 0 0 1\r\n9\r\nincr n 3\r\ndecr n 1\r\nincr k 1\r\n",
        "STORED\r\n12\r\n11\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    );
    client.ask(
        "add k 0 0 1\r\nz\r\ndelete k\r\ndelete k\r\nadd k 3 5000 1\r\nz\r\n",
        "NOT_STORED\r\nDELETED\r\nNOT_FOUND\r\nSTORED\r\n",
    );
    client.ask(
        "ms lease 1 T0\r\nx\r\nmd lease I\r\nmg lease s v\r\nmg lease v\r\nmn\r\n",
        "HD\r\nHD\r\nVA 1 s1 X W\r\nx\r\nVA 1 Z X\r\nx\r\nMN\r\n",
    );
    let longest = "k".repeat(250);
    client.ask(
        format!("set {longest} 5 0 1\r\nx\r\nget {longest}\r\n"),
        format!("STORED\r\nVALUE {longest} 5 1\r\nx\r\nEND\r\n"),
    );
    let large = "v".repeat(60_000);
    client.ask(format!("set large 0 0 60000\r\n{large}\r\n"), "STORED\r\n");
    // Another server sees the same, with the same version.
    let mut other = nodes[1].client();
    assert_eq!(other.gets("k"), client.gets("k"));
    assert_eq!(key(&mut other, "large"), large);

    let mut writer = Writer::new(&up);
    let (value, cas) = client.gets("n");
    let outcome =
        writer.execute(Transaction::new().get("n").if_version("n", cas).add("n", 10).put("k", "other"));
    assert_eq!(
        outcome.reads[0].as_ref().map(|found| (found.value.clone(), found.version.0)),
        Some((value, cas))
    );
    assert_eq!(outcome.sums, [21]);
    assert_eq!(other.gets("n"), (b"21".to_vec(), outcome.lsn.0));
    // What a transaction wrote has no flags and no end.
    other.ask("get k\r\nmg k f t\r\n", "VALUE k 0 5\r\nother\r\nEND\r\nHD f0 t-1\r\n");
    client.ask(format!("cas n 0 0 1 {cas}\r\n5\r\n"), "EXISTS\r\n");
    client.ask(format!("cas n 0 0 1 {}\r\n5\r\n", outcome.lsn.0), "STORED\r\n");
    let (_, cas) = other.gets("n");
    let outcome = writer.execute(Transaction::new().if_version("n", cas).get("n").delete("n").put("t", "1"));
    assert_eq!(
        (outcome.abort, outcome.reads[0].as_ref().map(|found| &found.value[..])),
        (None, Some(&b"5"[..]))
    );
    other.ask("get n t\r\nflush_all\r\nget k t large\r\n", "VALUE t 0 1\r\n1\r\nEND\r\nOK\r\nEND\r\n");
    client.ask("get k t\r\nset k 0 0 1\r\nx\r\nget k\r\n", "END\r\nSTORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    assert_eq!((client.stat("cmd_flush"), other.stat("cmd_flush")), (0, 1));
    let line =
        nodes[0].said.lines().find(|line| line.contains("registers on http://")).expect("an admin port");
    let host = line.split("http://").nth(1).and_then(|rest| rest.split(['/', ' ']).next()).expect("a host");
    let page = chained::get(&format!("http://{host}/metrics"));
    assert!(page.contains("\nmillrace_kv_chain_under_way{chain=\"1\"} 0\n"), "{page}");
    assert!(!page.contains("\nmillrace_kv_chain_transactions_total{kind=\"write\"} 0\n"), "{page}");
    drop((client, other));
    for node in nodes {
        let said = node.stop();
        assert!(!said.contains("panicked"), "{said}");
    }
    up.end();
}

/// Says that it is over when it goes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a client knows of its keys: the last that was acknowledged, and the last that was sent.
#[derive(Default)]
struct Known(BTreeMap<String, (u64, u64)>);

impl Known {
    /// Sets and counts, some at once, until told to stop. What is refused, or perhaps done, is not acknowledged.
    fn load(&mut self, client: &mut Client, name: &str, replies: &AtomicU64, stop: &AtomicBool) {
        let mut turn = 0u64;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            let sets: Vec<(String, u64)> = (0..4)
                .map(|at| {
                    let key = format!("{name}-{}", (turn * 4 + at) % 23);
                    let (_, sent) = self.0.entry(key.clone()).or_default();
                    *sent += 1;
                    (key, *sent)
                })
                .collect();
            let mut text = String::new();
            for (key, sent) in &sets {
                text.push_str(&format!("set {key} 1 0 {}\r\n{sent}\r\n", sent.to_string().len()));
            }
            client.send(text + &format!("ma {name}-count N0 J1 v\r\n"));
            for (key, sent) in sets {
                if client.line() == "STORED" {
                    self.0.get_mut(&key).expect("it was sent").0 = sent;
                    replies.fetch_add(1, Ordering::Relaxed);
                }
            }
            let (acknowledged, sent) = self.0.entry(format!("{name}-count")).or_default();
            *sent += 1;
            if client.line().starts_with("VA ") {
                *acknowledged = client.line().parse().expect("a number");
                assert!(*acknowledged <= *sent, "nothing is counted twice: {acknowledged} of {sent}");
            }
        }
    }

    fn check(&self, client: &mut Client) {
        for (name, (acknowledged, sent)) in &self.0 {
            let found: u64 = key(client, name).parse().unwrap_or(0);
            assert!(
                (*acknowledged..=*sent).contains(&found),
                "{name} is {found}; {acknowledged} was acknowledged, {sent} sent"
            );
        }
    }
}

#[test]
fn any_replica_may_die_and_the_server_too_without_losing_what_was_acknowledged() {
    let up = Up::start(&SMALL);
    until_all_serve(&up);
    let node_of_all = node(&up);
    let mut all: Vec<Known> = (0..3).map(|_| Known::default()).collect();
    let (replies, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (at, known) in all.iter_mut().enumerate() {
            let (mut client, replies, stop) = (node_of_all.client(), &replies, &stop);
            scope.spawn(move || known.load(&mut client, &format!("c{at}"), replies, stop));
        }
        // Also where something fails.
        let _over = Over(&stop);
        let go_on = |count| until_more(&replies, count);
        go_on(50);
        for id in [1, 3, 2] {
            up.kill(id);
            until_all_serve(&up);
            go_on(50);
        }
    });
    all.iter().for_each(|known| known.check(&mut node_of_all.client()));
    node_of_all.signal(rustix::process::Signal::KILL);
    let (status, said) = node_of_all.ended();
    assert!(!status.success() && !said.contains("panicked"), "{said}");
    let again = node(&up);
    all.iter().for_each(|known| known.check(&mut again.client()));
    let said = again.stop();
    assert!(!said.contains("panicked"), "{said}");
    assert!(chained::checksum(&up, 3).contains("all 3 are the same"));
    up.end();
}

/// What the chain cannot do is said, and not done later.
#[test]
fn without_a_chain_commands_end_with_an_error() {
    let up = Up::start(&SMALL);
    until_all_serve(&up);
    let words = [words(&up.list()), ["--set", "chained.patience=1"].map(str::to_owned).into()].concat();
    let node = Node::start(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut client = node.client();
    client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    up.end();
    assert_eq!(client.line_of("incr k 1\r\n"), "SERVER_ERROR nobody answered; it was not done");
    assert_eq!(client.line_of("get k\r\n"), "SERVER_ERROR nobody answered; it was not done");
    assert_eq!(client.line(), "END");
    let said = client.line_of("set k 0 0 1\r\ny\r\n");
    assert!(said.starts_with("SERVER_ERROR nobody answered; it "), "{said}");
    client.ask("version\r\n", "VERSION ");
    drop(client);
    let said = node.stop();
    assert!(said.contains("chain 1 does not answer") && !said.contains("panicked"), "{said}");
}

#[test]
fn contradictions_are_refused() {
    let run = |more: &[&str]| {
        let words = ["up", "-p", "0"];
        let output = Command::new(PROGRAM).args(words).args(more).output().expect("the program");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let chain = ["--durability", "chain", "--chain-at", "tcp:127.0.0.1:1"];
    assert!(run(&["--durability", "chain"]).contains("needs the replicas of the chain"));
    assert!(run(&["--durability", "chain", "--chain", "no-such.toml"]).contains("no-such.toml"));
    assert!(run(&chain[2..]).contains("say --durability chain"));
    assert!(
        run(&[&chain[..], &["--data-dir", "/nowhere"]].concat()).contains("keeps nothing on this machine")
    );
    assert!(run(&[&chain[..], &["-e", "/nowhere"]].concat()).contains("where the items lie"));
    let said = run(&[&chain[..], &["--set", "chained.patience=1"]].concat());
    assert!(said.contains("no replica was reached") && said.contains("waits for a replica"), "{said}");
}
