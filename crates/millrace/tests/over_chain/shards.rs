//! Items in three chains, each with two replicas in a process of its own, behind two servers and beside clients that know the chains: one file says which
//! keys are where.

use super::chained::{self, PATIENCE, PROGRAM};
use super::served::Client;
use super::served::node::Node;
use client::{Cluster as Direct, Error};
use fabric::link::Address;
use protocol::chain::slots::{Slots, slot};
use serve::chain::status::ask;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CHAINS: usize = 3;

/// Killed when it goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that is gone in the end, and the processes of the chains whose file lies there.
struct Cluster {
    /// A process for each chain.
    running: Vec<Option<Running>>,
    // After all who work in it.
    folder: TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let cluster =
            Cluster { running: Vec::new(), folder: TempDir::with_prefix("millrace-").expect("a folder") };
        let made = Command::new(PROGRAM)
            .args(["key", "new"])
            .arg(cluster.folder.path().join("cluster.key"))
            .output();
        assert!(made.expect("the program").status.success());
        let mut text = "[cluster]\nkey = \"cluster.key\"\n".to_owned();
        for chain in 1..=CHAINS {
            let slots = Slots::share(chain - 1, CHAINS);
            text += &format!(
                "[[chain]]\nnumber = {chain}\nslots = \"{slots}\"\nstate = [\"registry-{chain}\"]\n"
            );
            for id in [1, 2] {
                let (clients, peers) = (cluster.at(chain, id), cluster.socket(&format!("p{chain}-{id}")));
                text +=
                    &format!("[[chain.replica]]\nid = {id}\naddress = \"{clients}\"\npeers = \"{peers}\"\n");
                text += &format!("data = \"data-{chain}-{id}\"\n");
            }
            let controller = cluster.socket(&format!("controller-{chain}"));
            text += &format!("[[chain.controller]]\naddress = \"{controller}\"\n");
        }
        std::fs::write(cluster.file(), text).expect("a file");
        let mut cluster = cluster;
        cluster.running = (1..=CHAINS).map(|chain| Some(cluster.process(chain))).collect();
        (1..=CHAINS).for_each(|chain| cluster.until_serves(chain));
        cluster
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("cluster.toml")
    }

    fn socket(&self, name: &str) -> Address {
        format!("unix:{}", self.folder.path().join(name).display()).parse().expect("an address")
    }

    /// Where a replica serves.
    fn at(&self, chain: usize, id: usize) -> Address {
        self.socket(&format!("c{chain}-{id}"))
    }

    /// Both replicas of a chain, and its controller.
    fn process(&self, chain: usize) -> Running {
        let file = self.file();
        let service = |name: &str, kind: &str, rest: &str| {
            format!(
                "[services.{name}]\nkind = \"{kind}\"\ncluster = \"{}\"\nchain = {chain}\n{rest}",
                file.display()
            )
        };
        let sized = "log_size = \"8m\"\ndata_size = \"8m\"\n";
        let text = "[admin]\nlisten = 0\n".to_owned()
            + &service("control", "chain-controller", "")
            + &service("one", "txn", &format!("id = 1\n{sized}"))
            + &service("two", "txn", &format!("id = 2\n{sized}"));
        let config = self.folder.path().join(format!("chain-{chain}.toml"));
        std::fs::write(&config, text).expect("a file");
        let mut command = Command::new(PROGRAM);
        command.args(["up", "--config"]).arg(config).stdin(Stdio::null()).stdout(Stdio::null());
        Running(command.spawn().expect("the program"))
    }

    fn until_serves(&self, chain: usize) {
        let (address, begun) = (self.at(chain, 2), Instant::now());
        while !ask(&address, None).is_ok_and(|info| info.serves_reads) {
            assert!(begun.elapsed() < PATIENCE, "{address} does not serve: {:?}", ask(&address, None));
            std::thread::yield_now();
        }
    }

    fn server(&self, more: &[&str]) -> Node {
        let file = self.file();
        let words = ["up", "-p", "0", "--admin", "0", "-t", "2", "--durability", "chain", "--chain"];
        Node::start(&[&words[..], &[file.to_str().expect("text")], more].concat())
    }

    /// `millrace chain status` of the file: how it ended, and what it said.
    fn status(&self) -> (Option<i32>, String) {
        let output = Command::new(PROGRAM).args(["chain", "status", "--cluster"]).arg(self.file()).output();
        let output = output.expect("the program");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn direct(&self) -> Direct {
        let builder = Direct::builder().cluster(self.file()).deadline(Duration::from_secs(60));
        builder.connect().expect("they serve")
    }

    fn txn(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(["txn", "--timeout", "60s", "--cluster"]).arg(self.file()).args(words);
        command.output().expect("the program")
    }

    /// Whether a key is in this chain.
    fn is_in(chain: usize, key: &str) -> bool {
        Slots::share(chain - 1, CHAINS).has(slot(key.as_bytes()).expect("an item"))
    }
}

fn keys() -> Vec<String> {
    (0..60).map(|at| format!("key-{at}")).collect()
}

fn text(client: &mut Client, key: &str) -> Option<String> {
    client.get(key).map(|value| String::from_utf8(value).expect("text"))
}

/// A chain has its own items, and no others.
fn has_its_own(cluster: &Cluster, chain: usize) {
    let only = Direct::builder().cluster(cluster.file()).chain(chain as u32);
    let mut only = only.deadline(Duration::from_secs(60)).connect().expect("it serves");
    let mut has = 0;
    for key in keys().iter().filter(|key| Cluster::is_in(chain, key)) {
        assert!(only.get(key.as_bytes()).expect("it serves").is_some(), "{key} in chain {chain}");
        has += 1;
    }
    assert!(has > 0, "chain {chain} has some");
    // Whoever asks it for another's is told so.
    let other = keys().into_iter().find(|key| !Cluster::is_in(chain, key)).expect("most are in others");
    for refused in [only.set(other.as_bytes(), b"lost").err(), only.get(other.as_bytes()).err()] {
        let refused = refused.expect("it has it not").to_string();
        assert!(refused.contains(&format!("\"{other}\", of slot ")), "{refused}");
        assert!(refused.contains("is in another chain"), "{refused}");
    }
}

#[test]
fn each_item_is_in_its_chain_and_a_flush_is_in_all() {
    let cluster = Cluster::start();
    let nodes = [cluster.server(&[]), cluster.server(&[])];
    let [mut one, mut other] = nodes.each_ref().map(Node::client);
    for key in keys() {
        one.ask(format!("set {key} 7 0 1\r\n5\r\nincr {key} 2\r\n"), "STORED\r\n7\r\n");
    }
    for key in keys() {
        assert_eq!(text(&mut other, &key).as_deref(), Some("7"), "{key}");
        assert_eq!(other.gets(&key), one.gets(&key));
    }
    (1..=CHAINS).for_each(|chain| has_its_own(&cluster, chain));

    // Clients that know the chains see the same, with the same versions.
    let mut direct = cluster.direct();
    assert_eq!(direct.store().expect("it has one").chains().collect::<Vec<_>>(), [1, 2, 3]);
    for key in keys() {
        let item = direct.get(key.as_bytes()).expect("they serve").expect("it is there");
        assert_eq!((item.value, item.version), one.gets(&key));
        assert_eq!(direct.increment(key.as_bytes(), 1).expect("done"), 8);
        assert_eq!(text(&mut one, &key).as_deref(), Some("8"));
    }
    // Slots 12182 and 5061.
    match direct.transaction().put("foo", "1").read("bar").commit() {
        Err(Error::Across(across)) => {
            assert_eq!((across.keys, across.chains), ([b"bar".to_vec(), b"foo".to_vec()], [1, 3]));
        }
        other => panic!("{other:?}"),
    }
    let tagged = direct.transaction().put("{foo}x", "1").put("{foo}y", "2").commit().expect("one chain");
    assert_eq!((tagged.abort, text(&mut one, "{foo}y").as_deref()), (None, Some("2")));

    let output = cluster.txn(&["put foo 3", "put bar 4", "get foo; get bar"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("\"bar\" is in chain 1 and \"foo\" in chain 3, and a transaction is of one chain"),
        "{said}"
    );
    assert_eq!([text(&mut one, "foo"), text(&mut one, "bar")], [Some("3".into()), Some("4".into())]);

    // A flush is in all chains when it is answered, and what comes after it on the same connection after it.
    one.ask("flush_all\r\nset foo 0 0 1\r\n9\r\n", "OK\r\nSTORED\r\n");
    for key in keys() {
        assert_eq!(text(&mut other, &key), None, "{key}");
    }
    assert_eq!(text(&mut other, "foo").as_deref(), Some("9"));
    drop((one, other));
    for node in nodes {
        let said = node.stop();
        assert!((1..=3).all(|chain| said.contains(&format!("items lie in chain {chain}"))), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_chain_that_does_not_answer_keeps_its_own_keys_waiting_alone() {
    let mut cluster = Cluster::start();
    let node = cluster.server(&["--set", "chained.patience=1"]);
    let mut client = node.client();
    keys().iter().for_each(|key| client.ask(format!("set {key} 0 0 1\r\n5\r\n"), "STORED\r\n"));
    cluster.running[1] = None;
    let (lost, alive): (Vec<String>, Vec<String>) =
        keys().into_iter().partition(|key| Cluster::is_in(2, key));
    // One of the chain that is gone waits; the others are answered meanwhile.
    let mut waiting = node.client();
    waiting.send(format!("incr {} 1\r\n", lost[0]));
    for key in &alive {
        client.ask(format!("incr {key} 1\r\n"), "6\r\n");
    }
    let said = waiting.line();
    assert!(said.starts_with("SERVER_ERROR nobody answered; it "), "{said}");
    client.ask(format!("incr {} 1\r\n", alive[0]), "7\r\n");
    let flushed = client.line_of("flush_all\r\n");
    assert_eq!(flushed, "SERVER_ERROR nobody answered; it may have been done");
    assert_eq!(text(&mut client, &alive[0]), None, "where somebody answers it is flushed");
    let host =
        node.said.split("http://").nth(1).and_then(|rest| rest.split(['/', ' ']).next()).expect("a host");
    let page = chained::get(&format!("http://{host}/metrics"));
    let silent = |chain| format!("\nmillrace_kv_chain_silent{{chain=\"{chain}\"}} ");
    for (chain, is_silent) in [(1, 0), (2, 1), (3, 0)] {
        assert!(page.contains(&format!("{}{is_silent}\n", silent(chain))), "{page}");
    }
    let ready = chained::get(&format!("http://{host}/healthz"));
    assert!(ready.starts_with("HTTP/1.1 200 "), "two of three answer: {ready}");
    let state = chained::get(&format!("http://{host}/stats.json"));
    assert!(state.contains("{\"chain\":2,\"answers\":false,"), "{state}");

    // It comes back, and its items are there: nobody had to tell the server.
    let again = cluster.process(2);
    cluster.running[1] = Some(again);
    cluster.until_serves(2);
    let begun = Instant::now();
    while client.line_of(format!("set {} 0 0 1\r\n1\r\n", lost[0])) != "STORED" {
        assert!(begun.elapsed() < PATIENCE, "chain 2 is not found again");
    }
    drop((client, waiting));
    let said = node.stop();
    assert!(said.contains("chain 2 does not answer") && said.contains("chain 2 answers again"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// A server that is started before one of its chains waits for it, and says so; a home says where it takes transactions. Status shows which keys are where.
#[test]
fn a_server_waits_for_a_chain_that_is_started_after_it() {
    let mut cluster = Cluster::start();
    let slots = |chain: usize| format!("slots {}\n", Slots::share(chain - 1, CHAINS));
    let (code, said) = cluster.status();
    assert!(code == Some(0) && (1..=CHAINS).all(|chain| said.contains(&slots(chain))), "{said}");
    cluster.running[1] = None;
    let (code, said) = cluster.status();
    assert!(
        code == Some(5) && said.contains("chain 2, slots ") && said.contains("chain 3, epoch "),
        "{said}"
    );

    let rack = cluster.folder.path().join("rack.toml");
    let plan = Command::new(PROGRAM).args(["inc", "topology", "--free-ports", "--controllers", "0"]).output();
    std::fs::write(&rack, plan.expect("the program").stdout).expect("a file");
    // By its old name, which a file may still have: `chain_at` is what it is called now.
    let text = format!(
        "[services.kv]\nkind = \"kv\"\ndurability = \"chain\"\nchain = {:?}\nboxes = {:?}\nhome_first = true\nchained.patience = 60\n\
         [[listen]]\nservice = \"kv\"\naddress = \"tcp:127.0.0.1:0\"\n",
        cluster.file(),
        rack
    );
    let config = cluster.folder.path().join("server.toml");
    std::fs::write(&config, text).expect("a file");
    let mut process = Command::new(PROGRAM)
        .args(["up", "--config"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let said = BufReader::new(process.stderr.take().expect("piped")).lines();
    let mut ready = BufReader::new(process.stdout.take().expect("piped")).lines();
    let _server = Running(process);
    let mut said = said.map_while(Result::ok).inspect(|line| println!("{line}"));
    assert!(said.any(|line| line.contains("waits for a replica of chain 2 to answer, ")));
    let late = cluster.process(2);
    cluster.running[1] = Some(late);
    let ready = ready.next().expect("it is ready").expect("text");
    assert!(ready.contains("tcp:127.0.0.1:") && ready.contains("transactions at tcp:127.0.0.1:"), "{ready}");
    assert!(said.any(|line| line.contains("items lie in chain 2")));
}
