//! `millrace cluster` as its users run it: a rack with two boxes, a home and a controller, and a chain of three with two controllers at an etcd, all
//! from one file, each a process of its own.
//!
//! Ports are those that nobody used when the file was written. Nothing waits for a certain time: tests wait for states. Without etcd the chain has one
//! controller and a file; `MILLRACE_REQUIRE_PEERS=1` makes that a failure.

mod chained;

use chained::{PATIENCE, Up, Writer, checksum, until_all_serve};
use fabric::link::Address;
use protocol::chain::Transaction;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use serve::chain::status::ask;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn millrace(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().expect("the program")
}

/// Ports that nobody uses at this moment.
fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    sockets.iter().map(|socket| socket.local_addr().expect("an address").port()).collect()
}

fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(last) => assert!(begun.elapsed() < PATIENCE, "waited for {what}: {last}"),
        }
        std::thread::yield_now();
    }
}

/// A process that is killed in the end.
struct Process(Child);

impl Process {
    fn start(program: &str, words: &[&str]) -> Option<Process> {
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.ok().map(Process)
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it is ours");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// etcd of some members, each with its URL.
fn etcd(folder: &str, members: usize) -> Option<Vec<(Process, String, Vec<String>)>> {
    let ports = free_ports(2 * members);
    let peer = |at: usize| format!("http://127.0.0.1:{}", ports[2 * at]);
    let all: Vec<String> = (0..members).map(|at| format!("m{at}={}", peer(at))).collect();
    let started = (0..members).map(|at| {
        let (name, url, data) = (
            format!("m{at}"),
            format!("http://127.0.0.1:{}", ports[2 * at + 1]),
            format!("{folder}/etcd{at}"),
        );
        let words = [
            ["--name", &name],
            ["--data-dir", &data],
            ["--listen-client-urls", &url],
            ["--advertise-client-urls", &url],
            ["--listen-peer-urls", &peer(at)],
            ["--initial-advertise-peer-urls", &peer(at)],
            ["--initial-cluster", &all.join(",")],
            ["--heartbeat-interval", "50"],
            ["--election-timeout", "500"],
        ];
        let words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
        let process = Process::start("etcd", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        Some((process, url, words))
    });
    let started: Option<Vec<_>> = started.collect();
    if started.is_none() {
        let required = std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "MILLRACE_REQUIRE_PEERS is set, and there is no etcd");
        eprintln!("SKIPPED: etcd is not installed (Debian: etcd-server)");
    }
    started
}

/// A folder that is gone in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        Folder(chained::folder(&format!("cluster-{test}")))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A part of the file, at free ports.
struct Text {
    ports: std::vec::IntoIter<u16>,
    text: String,
}

impl Text {
    fn new() -> Text {
        Text { ports: free_ports(32).into_iter(), text: "[cluster]\nkey = \"cluster.key\"\n".to_owned() }
    }

    fn at(&mut self) -> String {
        format!("127.0.0.1:{}", self.ports.next().expect("there are enough"))
    }

    /// Two boxes, a home and a controller.
    fn rack(mut self) -> Text {
        for head in ["[[box]]\nid = 1", "[[box]]\nid = 2", "[[home]]\nid = 1\nbox = 2", "[[controller]]"] {
            let (address, admin) = (self.at(), self.at());
            self.text += &format!("{head}\naddress = \"{address}\"\nadmin = \"{admin}\"\n");
        }
        self
    }

    /// Chain 7, with its registry's line.
    fn chain(mut self, replicas: usize, controllers: usize, registry: &str) -> Text {
        self.text += &format!("[[chain]]\nnumber = 7\n{registry}\n");
        for id in 1..=replicas {
            let (address, peers) = (self.at(), self.at());
            self.text += &format!(
                "[[chain.replica]]\nid = {id}\naddress = \"tcp:{address}\"\npeers = \"tcp:{peers}\"\ndata = \"data{id}\"\n"
            );
        }
        for _ in 0..controllers {
            let (address, admin) = (self.at(), self.at());
            self.text += &format!("[[chain.controller]]\naddress = \"tcp:{address}\"\nadmin = \"{admin}\"\n");
        }
        self.text += "[chain.registers]\nchain.lease = 600000\n";
        self
    }
}

/// A cluster's file in a folder.
struct Cluster {
    folder: Folder,
    file: String,
}

impl Cluster {
    fn of(folder: Folder, text: &Text) -> Cluster {
        let file = folder.path("cluster.toml");
        std::fs::write(&file, &text.text).expect("a file");
        assert!(millrace(&["key", "new", &folder.path("cluster.key")]).status.success());
        Cluster { folder, file }
    }

    /// Starts a member.
    fn start(&self, words: &[&str]) -> Process {
        Process::start(PROGRAM, &[words, &["--cluster", &self.file]].concat()).expect("the program")
    }

    fn replica(&self, id: &str) -> Process {
        self.start(&["chain", "replica", "--id", id, "--log-size", "8m", "--data-size", "8m"])
    }

    fn controller(&self, number: usize) -> Process {
        self.start(&["chain", "controller", "--number", &number.to_string()])
    }

    /// Two boxes, the home, the controller.
    fn rack(&self) -> Vec<Process> {
        let home = ["up", "-s", &self.folder.path("node"), "-m", "64", "--home-first"];
        let words: [&[&str]; 4] =
            [&["box", "1", "--first"], &["box", "2", "--first"], &home, &["controller", "0"]];
        words.map(|words| self.start(words)).into()
    }

    /// `millrace cluster VERB FILE …`: what it says, or why not.
    fn change(&self, words: &[&str]) -> Result<String, String> {
        let output = millrace(&[&["cluster", words[0], &self.file], &words[1..]].concat());
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    fn is_refused(&self, words: &[&str], why: &str) {
        let said = self.change(words).expect_err("it is refused");
        assert!(said.contains(why), "{why:?} in {said:?}");
    }
}

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
    let folder = Folder::new("whole");
    let etcd = etcd(&folder.path(""), 1);
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
    let folder = Folder::new("ranges");
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
    let set = |value: &str| {
        let inc = millrace(&["inc", "set", "colour", value, "--cluster", file]);
        assert!(inc.status.success(), "{}", String::from_utf8_lossy(&inc.stderr));
    };
    set("blue");
    std::fs::write(file, ranged("8-23", "[2]").text).expect("a file");
    let controller = Pid::from_child(&rack[3].0);
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

#[test]
fn a_replica_goes_in_order_and_another_comes() {
    let text = Text::new().chain(3, 1, "state = [\"chain7\"]");
    let cluster = Cluster::of(Folder::new("change"), &text);
    let file = &cluster.file;
    let mut controller = cluster.controller(0);
    let (mut one, two, three) = (cluster.replica("1"), cluster.replica("2"), cluster.replica("3"));
    until(file, 0);
    let address = |id: u16| {
        let place = serve::chain::members::one(file.as_ref(), None).expect("a good file");
        place.replica(id).expect("it is there").address.clone()
    };
    let mut writer = Writer::of(vec![address(1), address(2)]);
    writer.execute(Transaction::new().put("colour", "blue"));

    assert!(
        cluster
            .change(&["drain", "chain:7/replica:3"])
            .expect("two others serve")
            .contains("2 other replicas serve")
    );
    cluster.is_refused(&["remove", "chain:7/replica:3"], "is in the configuration of its chain");
    cluster.is_refused(&["drain", "chain:7/controller:0"], "nobody would take its place");
    cluster.is_refused(&["drain", "chain:7/replica:4"], "there are chain:7/replica:1,");
    three.kill();
    until(file, 1);
    cluster.change(&["remove", "chain:7/replica:3"]).expect("it is gone");
    assert_eq!(
        until(file, 0)["members"].as_array().expect("a list").len(),
        3,
        "two replicas and a controller"
    );
    two.kill();
    until(file, 1);
    cluster.is_refused(&["drain", "chain:7/replica:1"], "the only replica that serves");
    let mut two = cluster.replica("2");
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
    // All others learn of it, one after the other.
    controller.kill();
    controller = cluster.controller(0);
    until(file, 1);
    one.kill();
    one = cluster.replica("1");
    until_alone_missing(file);
    two.kill();
    two = cluster.replica("2");
    until_alone_missing(file);
    let four = cluster.replica("4");
    until(file, 0);
    let found = writer.execute(Transaction::new().get("colour").add("n", 1)).reads;
    assert_eq!(found[0].as_ref().map(|found| &found.value[..]), Some(&b"blue"[..]));
    let checked = millrace(&["chain", "checksum", "--connect", &clients, "--replicas", "3"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    drop((controller, one, two, four));
}

/// Until only the new replica is missing.
fn until_alone_missing(file: &str) {
    wait_for("all but replica 4", || match status(file).1 {
        said if said["problems"]
            .as_array()
            .is_some_and(|all| all.len() == 1 && all[0]["about"] == "chain:7/replica:4") =>
        {
            Ok(())
        }
        said => Err(format!("{said:#}")),
    });
}

#[test]
fn a_chain_goes_on_while_members_of_etcd_die() {
    let folder = Folder::new("etcd");
    let Some(members) = etcd(&folder.path(""), 3) else { return };
    let urls = members.iter().map(|(_, url, _)| url.clone()).collect::<Vec<_>>().join(",");
    let mut members: Vec<_> =
        members.into_iter().map(|(process, url, words)| (Some(process), url, words)).collect();
    let up = Up::start(
        "etcd",
        &["--replicas", "3", "--log-size", "8m", "--data-size", "8m", "--restart", "--etcd", &urls],
    );
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
