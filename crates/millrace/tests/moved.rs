//! `millrace cluster move` of a home as its users run it: two boxes of two cores, a controller and a node with a log, each a process of its own; the home
//! goes on at another port while clients of both boxes write, of whom nobody is restarted or told.
//!
//! Ports are those that nobody used when the file was written. Nothing waits for a certain time: tests wait for states.

mod members;

use members::{Cluster, Process, Text, free_ports, millrace, wait_for};
use serve::inc::{Client, ClientError, Topology};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Clients wait for a home that moves, and write again what was not done.
const COHERENCE: &str = "[coherence]\ncores = 2\npatience = 60000000\n";

/// What a client was answered.
#[derive(Default)]
struct Written {
    /// Acknowledged, by key.
    done: BTreeMap<String, String>,
    /// May have been done.
    unknown: u64,
    longest: Duration,
}

/// A client of box `tor` writes keys of its own, and reads what it wrote before, until told to stop.
fn load(file: &str, tor: u16, stop: &AtomicBool, rounds: &AtomicU64) -> Written {
    let topology = Topology::read(file.as_ref()).expect("a good file");
    let mut client = Client::init(&topology, Some(tor)).expect("a client");
    let mut written = Written::default();
    for round in 0.. {
        if stop.load(Relaxed) {
            break;
        }
        let (key, value) = (format!("of-{tor}-{}", round % 200), round.to_string());
        let begun = Instant::now();
        match client.set(key.as_bytes(), value.as_bytes()) {
            Ok(_) => drop(written.done.insert(key.clone(), value)),
            Err(ClientError::Unknown) => {
                written.done.remove(&key);
                written.unknown += 1;
            }
            Err(error) => panic!("{key} of box {tor}: {error}"),
        }
        if let Some(value) = written.done.get(&key) {
            let read = client.get(key.as_bytes()).expect("it is answered").expect("it was acknowledged");
            assert_eq!(read.value, value.as_bytes(), "{key} of box {tor}");
        }
        written.longest = written.longest.max(begun.elapsed());
        rounds.fetch_add(1, Relaxed);
    }
    written
}

/// Ends the load, also where a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn whole(file: &str) -> String {
    wait_for("a whole cluster", || {
        let output = millrace(&["cluster", "status", file]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    })
}

fn what_makes_no_sense_is_refused(cluster: &Cluster, topology: &Topology, to: &str) {
    let [a_box, here] = ["box:1", "home:1"].map(|name| {
        let node = serve::inc::book::parse(name).expect("a name");
        topology.book().address_of(node).expect("it is there").to_string()
    });
    cluster.is_refused(&["move", "home:1", &a_box], "the same address");
    cluster.is_refused(&["move", "home:1", &here], "nothing moves");
    cluster.is_refused(&["move", "home:1", "--to", "2"], "keeps its number");
    cluster.is_refused(&["move", "box:1", to], "does not move");
}

/// Where operators and clients find a controller.
fn admin_of(topology: &Topology, controller: &str) -> String {
    let node = serve::inc::book::parse(controller).expect("a name");
    topology.admin(node).expect("the file says it").to_string()
}

/// The controller knows where the home is, whose own file is old; who changes the file, or is a member, needs the file.
fn the_controller_says_where_it_is(place: &str, to: &str, cluster: &Cluster) {
    let page = ::client::web::Web::new(Duration::from_secs(60), 1 << 20);
    let page = page.get(&format!("{place}/topology")).expect("it answers").text;
    assert!(page.contains(&format!("\"{to}\"")) && page.contains("moved = "), "{page}");
    assert!(page.contains(&cluster.within("cluster.key")), "the key is named from the root: {page}");
    let said = whole(place);
    assert!(said.contains(to), "{said}");
    for words in [&["box", "1", "--cluster", place][..], &["cluster", "move", place, "home:1", "127.0.0.1:1"]]
    {
        let output = millrace(words);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains("the file itself"), "{words:?}: {why}");
    }
}

/// A client that begins now finds the home by a controller, where the file names none of the boxes that could say it: all are gone.
fn is_found_without_boxes(place: &str, old: &str) {
    for at in [place, old] {
        let output = millrace(&["inc", "set", "found", at, "--no-cache", "--cluster", at]);
        assert!(output.status.success(), "{at}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let found = |cluster: Result<::client::Cluster, ::client::Error>| {
        let mut cluster = cluster.expect("it is found");
        let read = cluster.get(b"found").expect("the home answers").expect("it was written");
        assert_eq!(read.value, old.as_bytes());
    };
    found(::client::Cluster::at_controllers(&[place.trim_start_matches("http://")]));
    found(::client::Cluster::builder().cluster(old).connect());
}

/// By boxes, by the controller, and when there are no boxes any more.
fn who_begins_now_finds_it(cluster: &Cluster, topology: &Topology, old: &str, to: &str, boxes: [Process; 2]) {
    let direct = millrace(&["inc", "get", "of-1-1", "--no-cache", "--cluster", old]);
    assert!(direct.status.success(), "{}", String::from_utf8_lossy(&direct.stderr));
    let place = format!("http://{}", admin_of(topology, "controller:0"));
    the_controller_says_where_it_is(&place, to, cluster);
    boxes.into_iter().for_each(Process::kill);
    is_found_without_boxes(&place, old);
}

/// What was acknowledged and is not there.
fn lost(client: &mut Client, written: &[Written]) -> usize {
    let all = written.iter().flat_map(|written| &written.done);
    all.filter(|(key, value)| {
        let read = client.get(key.as_bytes()).expect("it is answered");
        read.is_none_or(|read| read.value != value.as_bytes())
    })
    .count()
}

#[test]
fn a_home_with_a_log_moves_under_load_and_nothing_is_lost() {
    let rack = Text::new().rack();
    let text = Text { text: format!("{}{COHERENCE}", rack.text), ..rack };
    let cluster = Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &text);
    let (file, data) = (&*cluster.file, cluster.within("data"));
    // What everybody has who is not told of a newer file.
    let old = cluster.within("old.toml");
    std::fs::write(&old, &text.text).expect("a file");
    let state = cluster.within("cluster.life");
    let node = |socket: &str, more: &[&str]| {
        let socket = cluster.within(socket);
        let words = ["up", "-s", &socket, "-m", "64", "--durability", "log", "--data-dir", &data];
        let words = [&words[..], &["--cluster", &old, "--home-state", &state], more].concat();
        Process::start(members::PROGRAM, &words).expect("the program")
    };
    let member = |words: &[&str]| {
        Process::start(members::PROGRAM, &[words, &["--cluster", &old]].concat()).expect("the program")
    };
    let boxes = [1, 2].map(|id| member(&["box", &id.to_string(), "--first"]));
    let _controller = member(&["controller", "0"]);
    let before = node("before", &["--home-first"]);
    whole(file);
    let [port, admin] = free_ports(2)[..] else { panic!("two ports") };
    let [to, admin] = [port, admin].map(|port| format!("127.0.0.1:{port}"));
    let topology = Topology::read(old.as_ref()).expect("a good file");
    what_makes_no_sense_is_refused(&cluster, &topology, &to);

    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let some_rounds = || {
        let before = rounds.load(Relaxed);
        wait_for(
            "load",
            || if rounds.load(Relaxed) > before + 200 { Ok(()) } else { Err("none".to_owned()) },
        );
    };
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        let loads = [1, 2].map(|tor| {
            let (old, stop, rounds) = (&*old, &stop, &rounds);
            scope.spawn(move || load(old, tor, stop, rounds))
        });
        some_rounds();
        let begun = Instant::now();
        // On a busy machine a controller that makes tables is not seen to at every moment.
        let said =
            wait_for("an order to move", || cluster.change(&["move", "home:1", &to, "--admin", &admin]));
        assert!(said.contains("millrace up --cluster"), "{said}");
        let text = std::fs::read_to_string(file).expect("a file");
        assert!(text.contains(&format!("\"{to}\"")) && text.contains("moved = "), "{text}");
        let after = node("after", &["--home-listen", &to, "--admin", &admin]);
        let said = whole(file);
        assert!(said.contains(&to), "{said}");
        println!("whole again after {:?}", begun.elapsed());
        some_rounds();
        stop.store(true, Relaxed);

        // Nobody was restarted, and everything is there, by whatever way: boxes', and that of a client whose file is old.
        let written = loads.map(|load| load.join().expect("all was right"));
        let mut client = Client::init(&topology, Some(1)).expect("a client");
        let lost = lost(&mut client, &written);
        let unknown: u64 = written.iter().map(|written| written.unknown).sum();
        let (rounds, longest) = (rounds.load(Relaxed), written.iter().map(|written| written.longest).max());
        println!("{rounds} rounds: lost {lost}, unknown {unknown}, longest wait {longest:?}");
        assert_eq!(lost, 0);
        who_begins_now_finds_it(&cluster, &topology, &old, &to, boxes);
        drop((before, after));
    });
}

/// A home that cannot be seen to end is not ordered elsewhere unless somebody says that it has; one that is started elsewhere early serves when it is
/// ordered there, and an order outlives the controller that was given it.
#[test]
fn a_home_that_is_dead_is_replaced_by_one_that_waited() {
    let rack = Text::new().rack();
    let text = Text { text: format!("{}{COHERENCE}", rack.text), ..rack };
    let cluster = Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &text);
    let file = &*cluster.file;
    let old = cluster.within("old.toml");
    std::fs::write(&old, &text.text).expect("a file");
    let start = |words: &[&str]| {
        Process::start(members::PROGRAM, &[words, &["--cluster", &old]].concat()).expect("the program")
    };
    let _boxes = [start(&["box", "1", "--first"]), start(&["box", "2", "--first"])];
    let controller = start(&["controller", "0"]);
    let before = start(&["home", "1", "--first"]);
    whole(file);
    before.kill();
    let [port, admin] = free_ports(2)[..] else { panic!("two ports") };
    let [to, admin] = [port, admin].map(|port| format!("127.0.0.1:{port}"));
    let _after = start(&["home", "1", "--listen", &to, "--admin", &admin]);
    wait_for("a home that waits", || {
        let page = ::client::web::Web::new(Duration::from_secs(2), 1 << 16)
            .get(&format!("http://{admin}/readyz"))?;
        if page.text.contains("cluster move") { Ok(()) } else { Err(page.text) }
    });
    cluster.is_refused(&["move", "home:1", &to], "--it-is-dead");
    let order = ["move", "home:1", &to, "--admin", &admin, "--it-is-dead"];
    wait_for("an order to move", || cluster.change(&order));
    whole(file);
    let set = || millrace(&["inc", "set", "k", "v", "--cluster", &old]);
    assert!(set().status.success(), "{}", String::from_utf8_lossy(&set().stderr));

    // One that knows only the old file is told by boxes.
    controller.kill();
    let _controller = start(&["controller", "0"]);
    whole(file);
    wait_for("a controller that hears the home", || {
        let output = millrace(&["cluster", "status", file, "--json"]);
        let said: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|why| why.to_string())?;
        let home =
            said["members"].as_array().and_then(|all| all.iter().find(|one| one["member"] == "home:1"));
        let is_there = home.is_some_and(|home| home["address"] == *to && home["state"] == "alive");
        if is_there { Ok(()) } else { Err(format!("{said:#}")) }
    });
    assert!(set().status.success(), "{}", String::from_utf8_lossy(&set().stderr));
}
