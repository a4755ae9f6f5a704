//! `millrace cluster` as its users run it: a rack with two boxes, a home and a controller, and a chain of three with two controllers at an etcd, all
//! from one file, each a process of its own.
//!
//! Ports are those that nobody used when the file was written. Nothing waits for a certain time: tests wait for states. Without etcd the chain has one
//! controller and a file; `MILLRACE_REQUIRE_PEERS=1` makes that a failure.

mod chained;
mod members;

use chained::{Up, Writer, checksum, until_all_serve};
use fabric::link::Address;
use members::{Cluster, PROGRAM, Process, Text, etcd, free_ports, millrace, wait_for, within};
use protocol::chain::Transaction;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use serve::chain::status::ask;
use serve::inc::{Client, Topology};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// `cluster status --json`: the exit status, and what it says.
fn status(file: &str) -> (i32, Value) {
    let output = millrace(&["cluster", "status", file, "--json"]);
    let said = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().expect("it ended by itself"), said)
}

fn until(file: &str, code: i32) -> Value {
    wait_for(&format!("status {code}"), || match status(file) {
        (found, said) if found == code => Ok(said),
        (found, said) => Err(format!("{found}: {said:#}")),
    })
}

fn state<'a>(said: &'a Value, member: &str) -> &'a Value {
    let found = said["members"].as_array().and_then(|all| all.iter().find(|one| one["member"] == *member));
    &found.unwrap_or_else(|| panic!("no {member} in {said:#}"))["state"]
}

#[test]
fn a_cluster_of_one_file_is_whole_degraded_and_whole_again() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let etcd = etcd(folder.path(), 1);
    let (count, registry) = match &etcd {
        Some(members) => (2, format!("etcd = [\"{}\"]", members[0].1)),
        None => (1, "state = [\"chain7\"]".to_owned()),
    };
    let cluster = Cluster::of(folder, &Text::new().rack().chain(3, count, &registry));
    let file = &cluster.file;
    assert_eq!(status(file).1["verdict"], "down", "nobody was started");
    let mut rack = cluster.rack();
    let mut controllers: Vec<_> = (0..count).map(|number| Some(cluster.controller(number))).collect();
    let (_one, two, _three) = (cluster.replica("1"), cluster.replica("2"), cluster.replica("3"));

    assert_eq!(until(file, 0)["verdict"], "whole");
    let text = String::from_utf8(millrace(&["cluster", "status", file]).stdout).expect("text");
    for words in
        ["box:2 ", "home:1 ", "controller, active", "controller, leads", "chain:7/replica:3 ", "whole: "]
    {
        assert!(text.contains(words), "{words:?} in\n{text}");
    }
    let inc = millrace(&["inc", "set", "colour", "blue", "--cluster", file]);
    assert!(inc.status.success(), "{}", String::from_utf8_lossy(&inc.stderr));
    // The library has both by the same file: what it does by itself is the chain's, and the cache is the rack's.
    let mut both = client::Cluster::builder().cluster(file).connect().expect("a chain and a rack");
    both.transaction().put("colour", "red").commit().expect("the chain serves");
    let seen =
        both.cache().and_then(|cache| Ok(cache.get(b"colour")?)).expect("an answer").expect("it was set");
    assert_eq!(seen.value, b"blue");
    assert_eq!(both.get(b"colour").expect("an answer").expect("it was put").value, b"red");

    two.kill();
    let said = until(file, 1);
    let problems = said["problems"].as_array().expect("a list");
    assert_eq!((problems.len(), &problems[0]["about"]), (1, &Value::from("chain:7/replica:2")), "{said:#}");
    assert_eq!(state(&said, "chain:7/replica:2"), "silent");
    assert!(problems[0]["todo"].as_str().expect("text").contains("chain replica --cluster"), "{said:#}");
    let _two = cluster.replica("2");
    until(file, 0);

    // The controller that leads dies, and another takes its place.
    if count > 1 {
        let (_, said) = status(file);
        let all = said["members"].as_array().expect("a list");
        let leads = all.iter().find(|one| one["role"] == "controller, leads").expect("one leads");
        let name = leads["member"].as_str().expect("a name");
        controllers[usize::from(name.ends_with('1'))].take().expect("it runs").kill();
        wait_for("another that leads", || match status(file).1 {
            said if said["problems"].as_array().is_some_and(|all| all.len() == 1) => Ok(()),
            said => Err(format!("{said:#}")),
        });
    }
    // Without its home a part of the keys is served by nobody.
    rack.remove(2).kill();
    assert_eq!(state(&until(file, 2), "home:1"), "silent");
}

/// A rack whose boxes have two cores each, of whose slots some are kept by some boxes only; which, is changed while it runs.
#[test]
fn where_copies_are_kept_is_read_anew_by_a_controller() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let text = Text::new().rack();
    let ranged = |slots: &str, cache: &str| {
        let range = format!("[[range]]\nslots = \"{slots}\"\ncache = {cache}\n");
        Text { ports: Vec::new().into_iter(), text: format!("{}{range}[coherence]\ncores = 2\n", text.text) }
    };
    let cluster = Cluster::of(folder, &ranged("0-31", "\"cluster\""));
    let file = &cluster.file;
    let rack = cluster.rack();
    until(file, 0);
    let shows = |figure: &str| {
        wait_for(figure, || {
            let text = String::from_utf8(millrace(&["cluster", "status", file]).stdout).expect("text");
            let says = |member: &str| text.lines().any(|line| line.contains(member) && line.contains(figure));
            let all = ["box:1 ", "box:2 ", "controller:0 "].iter().all(|member| says(member));
            if all { Ok(()) } else { Err(text) }
        });
    };
    shows("slots cluster 32");
    counts_by_boxes(file);
    let set = |value: &str| {
        let inc = millrace(&["inc", "set", "colour", value, "--cluster", file]);
        assert!(inc.status.success(), "{}", String::from_utf8_lossy(&inc.stderr));
    };
    set("blue");
    std::fs::write(file, ranged("8-23", "[2]").text).expect("a file");
    let controller = rack[3].id();
    kill_process(controller, Signal::HUP).expect("it runs");
    shows("slots some 16");
    set("red");
    let got = millrace(&["inc", "get", "colour", "--cluster", file]);
    assert!(String::from_utf8_lossy(&got.stdout).contains("red"));
    // What makes no sense changes nothing.
    std::fs::write(file, ranged("8-99", "[2]").text).expect("a file");
    kill_process(controller, Signal::HUP).expect("it runs");
    std::fs::write(file, ranged("0-1", "\"nowhere\"").text).expect("a file");
    kill_process(controller, Signal::HUP).expect("it runs");
    shows("slots nowhere 2");
}

/// A rack alone is a cluster to the client library: what is asked of the cluster goes by box 2.
fn counts_by_boxes(file: &str) {
    let mut cluster = client::Cluster::builder().cluster(file).tor(2).connect().expect("a rack");
    let version = cluster.set(b"ann", b"10").expect("stored");
    assert_eq!(cluster.add(b"ann", b"11").expect("an answer"), None);
    assert_eq!(
        cluster.cas(b"ann", version, b"12").map(|swap| matches!(swap, client::Swap::Stored(_))),
        Ok(true)
    );
    assert_eq!(cluster.cas(b"ann", version, b"13"), Ok(client::Swap::Exists));
    let item = cluster.get(b"ann").expect("an answer").expect("it is there");
    assert!(item.value == b"12" && item.version > version, "{item:?}");
    let sums = [5, -3, -9].map(|by| cluster.increment(b"n", by));
    assert_eq!(sums, [Ok(5), Ok(2), Ok(0)], "numbers of the cache have no sign");
    assert_eq!(
        cluster.increment(b"word", 1).and(cluster.set(b"word", b"w")).and(cluster.increment(b"word", 1)),
        Err(client::Error::NotANumber)
    );
    assert_eq!((cluster.delete(b"ann"), cluster.get(b"ann")), (Ok(true), Ok(None)));
    assert!(
        cluster
            .transaction()
            .put("ann", "1")
            .commit()
            .is_err_and(|error| error.to_string().contains("no store"))
    );
    assert!(cluster.cache().expect("it has one").touch(b"n", Duration::from_secs(60)).expect("an answer"));
    cluster.close();
}

/// What one client sees that asks box 1: it writes, reads what it wrote, and counts. How often, and the longest that it waited.
fn load(file: &str, stop: &AtomicBool, rounds: &AtomicU64, longest_ns: &AtomicU64) {
    let topology = Topology::read(file.as_ref()).expect("a good file");
    let mut client = Client::init(&topology, Some(1)).expect("a client");
    while !stop.load(Relaxed) {
        let round = rounds.load(Relaxed);
        let begun = Instant::now();
        client.set(b"k", round.to_string().as_bytes()).expect("it is done");
        let written = begun.elapsed();
        let read = client.get(b"k").expect("it is answered").expect("it is there");
        assert_eq!(read.value, round.to_string().as_bytes(), "what was written before");
        let read = begun.elapsed();
        assert_eq!(
            client.increment(b"n", 1, Some(0)).expect("it is done"),
            Some(round),
            "each is counted once"
        );
        let longest = written.max(read - written).max(begun.elapsed() - read);
        longest_ns.fetch_max(longest.as_nanos() as u64, Relaxed);
        rounds.fetch_add(1, Relaxed);
    }
}

/// Under load by way of it a box is drained, stopped, started and taken in again. Nothing is lost, nothing read is old, and nobody waits for the box
/// once it is stopped.
#[test]
fn a_box_is_drained_stopped_and_comes_back_under_load() {
    let rack = Text::new().rack();
    let text = format!("{}[coherence]\ncompute = \"own_lossy\"\n", rack.text);
    let cluster = Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &Text { text, ..rack });
    let file = &*cluster.file;
    let mut rack = cluster.rack();
    until(file, 0);
    cluster.is_refused(&["drain", "home:1"], "a home cannot be drained");
    let (stop, rounds, longest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let longest_was = |when: &str| {
        let longest = Duration::from_nanos(longest.swap(0, Relaxed));
        println!("{when}: longest wait {longest:?}, {} rounds", rounds.load(Relaxed));
    };
    let some_rounds = || {
        let before = rounds.load(Relaxed);
        wait_for("load", || if rounds.load(Relaxed) > before + 50 { Ok(()) } else { Err("none".to_owned()) });
    };
    let waited = || {
        let (_, said) = status(file);
        let home =
            said["members"].as_array().and_then(|all| all.iter().find(|one| one["member"] == "home:1"));
        home.expect("it is there")["figures"]["waited"].as_u64().expect("a count")
    };
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        let load = scope.spawn(|| load(file, &stop, &rounds, &longest));
        some_rounds();
        let before = waited();
        some_rounds();
        assert!(waited() > before, "writes wait for box 1 while it serves");

        longest_was("before");
        let said = cluster.change(&["drain", "box:1", "--json"]).expect("a controller obeys");
        let said: Value = serde_json::from_str(&said).expect("an object");
        assert!(said["may_be_stopped"] == true && said["member"] == "box:1", "{said}");
        assert!(std::fs::read_to_string(file).expect("a file").contains("draining = true"));
        let (_, said) = status(file);
        assert_eq!(state(&said, "box:1"), "drained", "{said:#}");
        some_rounds();
        longest_was("while it is drained");
        let before = waited();
        rack.remove(0).kill();
        some_rounds();
        assert_eq!(waited(), before, "nobody waits for it");
        assert_eq!(state(&until(file, 1), "box:1"), "drained");

        longest_was("stopped");
        let _box = cluster.start(&["box", "1"]);
        let said = cluster.change(&["add", "box:1"]).expect("a controller obeys");
        assert!(said.contains("serves"), "{said}");
        assert!(!std::fs::read_to_string(file).expect("a file").contains("draining"));
        until(file, 0);
        some_rounds();
        wait_for("writes that wait again", || {
            some_rounds();
            if waited() > before { Ok(()) } else { Err("none does".to_owned()) }
        });
        stop.store(true, Relaxed);
        load.join().expect("all was right");
        longest_was("started and taken in again");
    });
}

/// Ends the load, also where a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_replica_goes_in_order_and_another_comes() {
    let text = Text::new().chain(3, 1, "state = [\"chain7\"]");
    let cluster = Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &text);
    let file = &cluster.file;
    let controller = cluster.controller(0);
    let (one, two, three) = (cluster.replica("1"), cluster.replica("2"), cluster.replica("3"));
    until(file, 0);
    let address = |id: u16| {
        let place = serve::chain::members::one(file.as_ref(), None).expect("a good file");
        place.replica(id).expect("it is there").address.clone()
    };
    let mut writer = Writer::of(vec![address(1), address(2)]);
    writer.execute(Transaction::new().put("colour", "blue"));

    let said = cluster.change(&["drain", "chain:7/replica:3"]).expect("two others serve");
    assert!(said.contains("2 other replicas serve"), "{said}");
    cluster.is_refused(&["remove", "chain:7/replica:3", "--least", "3"], "2 others would go on serving");
    cluster.is_refused(&["drain", "chain:7/controller:0"], "nobody would take its place");
    cluster.is_refused(&["drain", "chain:7/replica:4"], "there are chain:7/replica:1,");
    // It lives, and the chain goes on without it; the others are told, and it is.
    cluster.change(&["drain", "chain:7/replica:3", "--live"]).expect("two others serve");
    let said = until(file, 1);
    assert_eq!(state(&said, "chain:7/replica:3"), "not_ready", "{said:#}");
    assert!(said["problems"].to_string().contains("an order took it out of the chain"), "{said:#}");
    cluster.change(&["add", "chain:7/replica:3", "--wait"]).expect("it is let in again");
    until(file, 0);
    cluster.change(&["remove", "chain:7/replica:3"]).expect("two others serve");
    three.kill();
    let members = |said: &Value| said["members"].as_array().expect("a list").len();
    assert_eq!(members(&until(file, 0)), 3, "two replicas and a controller");
    two.kill();
    until(file, 1);
    cluster.is_refused(&["drain", "chain:7/replica:1"], "the only replica that serves");
    let two = cluster.replica("2");
    until(file, 0);

    let mut ports = free_ports(2).into_iter().map(|port| format!("tcp:127.0.0.1:{port}"));
    let (clients, peers) = (ports.next().expect("two"), ports.next().expect("two"));
    let add = |id: &str, peers: &str| {
        cluster.change(&["add", id, "--address", &clients, "--peers", peers, "--data", "data4"])
    };
    let taken = add("chain:7/replica:4", &address(1).to_string()).expect_err("it is another's");
    assert!(taken.contains("have the same address"), "{taken}");
    assert!(add("chain:7/replica:2", &peers).expect_err("there is one").contains("has a replica 2 already"));
    assert!(add("chain:7/replica:4", &peers).expect("a place").contains("millrace chain replica --cluster"));
    // Nobody is restarted. A controller that was knows its orders.
    controller.kill();
    let controller = cluster.controller(0);
    let four = cluster.replica("4");
    assert_eq!(members(&until(file, 0)), 4, "three replicas and a controller");
    let found = writer.execute(Transaction::new().get("colour").add("n", 1)).reads;
    assert_eq!(found[0].as_ref().map(|found| &found.value[..]), Some(&b"blue"[..]));
    let checked = millrace(&["chain", "checksum", "--connect", &clients, "--replicas", "3"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    drop((controller, one, two, four));
}

/// A replica moves while a client writes; the command is killed in the middle, and run again.
#[test]
fn a_move_that_is_interrupted_is_whole_and_goes_on() {
    let text = Text::new().chain(2, 1, "state = [\"chain7\"]");
    let cluster = Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &text);
    let file = &cluster.file;
    let controller = cluster.controller(0);
    let (one, two) = (cluster.replica("1"), cluster.replica("2"));
    until(file, 0);
    let mut ports = free_ports(2).into_iter().map(|port| format!("tcp:127.0.0.1:{port}"));
    let (clients, peers) = (ports.next().expect("two"), ports.next().expect("two"));
    let place = serve::chain::members::one(file.as_ref(), None).expect("a good file");
    let addresses: Vec<Address> = place.replicas.iter().map(|place| place.address.clone()).collect();
    let mut client = serve::txn::Client::connect(&addresses, &Default::default()).expect("it serves");
    client.execute(Transaction::new().put("colour", "blue").add("n", 1)).expect("it is done");

    let data = cluster.within("data3");
    let words = ["cluster", "move", file, "chain:7/replica:1", "--to", "3", "--address", &clients];
    let words = [&words[..], &["--peers", &peers, "--data", &data]].concat();
    let moving = Process::start(PROGRAM, &words).expect("the program");
    // Replica 3 does not run: the command waits for it, once the chain has its order.
    let said = wait_for("the order", || match std::fs::read_to_string(cluster.within("chain7")) {
        Ok(stored) if stored.contains("\"add\":{\"replica\":3") => Ok(stored),
        other => Err(format!("{other:?}")),
    });
    moving.kill();
    assert!(said.contains(&peers), "{said}");
    until(file, 0);
    let join = ["chain", "replica", "--cluster", file, "--id", "3", "--join", &peers, "--listen", &clients];
    let join = [&join[..], &["--data", &data, "--log-size", "8m", "--data-size", "8m"]].concat();
    let three = Process::start(PROGRAM, &join).expect("the program");
    let said = wait_for("a third that serves", || match status(file).1 {
        said if said["problems"].to_string().contains("the file does not name it") => Ok(said),
        said => Err(format!("{said:#}")),
    });
    assert!(said["problems"][0]["todo"].as_str().expect("text").contains("cluster move"), "{said:#}");

    let output = millrace(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    one.kill();
    let said = until(file, 0);
    assert_eq!(state(&said, "chain:7/replica:3"), "alive");
    assert!(!said.to_string().contains("chain:7/replica:1"), "{said:#}");
    // The client was told of the first two alone, of which one is gone.
    wait_for("the client to know the third", || {
        client.execute(Transaction::new().get("colour")).map_err(|error| error.to_string())?;
        let known: Vec<_> = client.infos(None).iter().map(|(replica, ..)| replica.0).collect();
        if known.contains(&3) { Ok(()) } else { Err(format!("{known:?}")) }
    });
    two.kill();
    let found = client.execute(Transaction::new().get("colour").add("n", 1)).expect("it is done");
    assert_eq!(found.sums, [2]);
    assert_eq!(found.reads[0].as_ref().map(|found| &found.value[..]), Some(&b"blue"[..]));
    drop((controller, three));
}

/// Show 8: every replica moves under load, and nothing is lost.
#[test]
fn all_replicas_move_under_load_and_nothing_is_lost() {
    let words = ["soak", "move", "--items", "500", "--clients", "3", "--pause-ms", "50", "--json"];
    let output = millrace(&words);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(output.status.success(), "{said:#}\n{}", String::from_utf8_lossy(&output.stderr));
    let outcome = &said[0];
    assert_eq!(outcome["moves"].as_array().map(Vec::len), Some(3), "{said:#}");
    assert_eq!((&outcome["lost"], &outcome["doubled"]), (&Value::from(0), &Value::from(0)), "{said:#}");
    assert!(outcome["writes"].as_u64().is_some_and(|writes| writes > 0), "{said:#}");
}

#[test]
fn a_chain_goes_on_while_members_of_etcd_die() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let Some(members) = etcd(folder.path(), 3) else { return };
    let urls = members.iter().map(|(_, url, _)| url.clone()).collect::<Vec<_>>().join(",");
    let mut members: Vec<_> =
        members.into_iter().map(|(process, url, words)| (Some(process), url, words)).collect();
    let up = Up::start(&[
        "--replicas",
        "3",
        "--log-size",
        "8m",
        "--data-size",
        "8m",
        "--restart",
        "--etcd",
        &urls,
    ]);
    until_all_serve(&up);
    let epoch = || {
        up.addresses()
            .iter()
            .filter_map(|address: &Address| ask(address, None).ok())
            .map(|info| info.epoch.0)
            .max()
    };
    let mut writer = Writer::patient(&up, Duration::from_secs(2));
    let mut done = 0;
    let mut writes = || {
        for _ in 0..20 {
            done += 1;
            assert_eq!(writer.execute(Transaction::new().add("sum", 1)).sums, [done], "each is done once");
        }
    };
    // A change of the chain needs etcd: a replica dies and comes back each time.
    let mut last = 0;
    let mut changes = |id: u16| {
        up.kill(id);
        until_all_serve(&up);
        let now = epoch().expect("they serve");
        assert!(now > last, "the configuration went back: {now} after {last}");
        last = now;
    };
    writes();
    changes(2);
    let leader = leader(&members);
    let follower = (leader + 1) % 3;
    members[follower].0.take().expect("it runs").kill();
    writes();
    changes(3);
    let words: Vec<&str> = members[follower].2.iter().map(String::as_str).collect();
    members[follower].0 = Process::start("etcd", &words);
    wait_for("its return", || is_leader(&members[follower].1).ok_or("not yet".to_owned()));
    let leader = self::leader(&members);
    members[leader].0.take().expect("it runs").kill();
    writes();
    changes(1);
    writes();
    assert!(checksum(&up, 3).contains("all 3 are the same"));
    up.end();
}

fn leader(members: &[(Option<Process>, String, Vec<String>)]) -> usize {
    wait_for("etcd's leader", || {
        let leads = |at: &usize| members[*at].0.is_some() && is_leader(&members[*at].1) == Some(true);
        (0..members.len()).find(leads).ok_or("nobody leads".to_owned())
    })
}

/// Whether a member of etcd leads, if it answers and knows who does.
fn is_leader(url: &str) -> Option<bool> {
    use std::io::{Read as _, Write as _};
    let host = url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let request =
        format!("POST /v3/maintenance/status HTTP/1.0\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    let leader = status["leader"].as_str().filter(|leader| *leader != "0")?;
    Some(status["header"]["member_id"].as_str() == Some(leader))
}

/// What `--json` says of keys and members that may not be stopped, with the exit status that there is without.
#[test]
fn what_is_refused_is_an_object_too() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (key, none) = (within(&folder, "own.key"), within(&folder, "none.key"));
    assert!(millrace(&["key", "new", &key]).status.success());
    for (file, is_good) in [(&key, true), (&none, false)] {
        let output = millrace(&["key", "check", file, "--json"]);
        let said: Value = serde_json::from_slice(&output.stdout).expect("an object");
        let wanted = (is_good, &Value::from(is_good), &Value::from(file.as_str()));
        assert_eq!((output.status.success(), &said["good"], &said["path"]), wanted);
    }
    let cluster = Cluster::of(folder, &Text::new().rack());
    let output = millrace(&["cluster", "drain", &cluster.file, "home:1", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert!(!output.status.success() && said["may_be_stopped"] == false, "{said}");
    assert!(said["what"].as_str().is_some_and(|what| what.contains("home")), "{said}");
}
