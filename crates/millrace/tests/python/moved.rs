//! A Python client that finds a rack by its controller, without the file, and follows a home that moves; one that begins later finds it by an old file.

use super::members::{Cluster, PROGRAM, Process, Text, free_ports, millrace, wait_for};
use super::{Peer, python};
use serde_json::{Value, json};
use serve::inc::Topology;
use std::io::Write as _;
use tempfile::TempDir;

/// Asks a driver to do an operation behind box 1; what it says.
fn ask(driver: &mut Peer, op: &str, mut arguments: Value) -> Value {
    (arguments["box"], arguments["op"]) = (json!(1), json!(op));
    let input = driver.input.as_mut().expect("it runs");
    writeln!(input, "{arguments}").expect("it listens");
    serde_json::from_str(&driver.line()).expect("JSON")
}

#[test]
fn a_rack_is_found_by_its_controller_and_a_home_that_moves_is_followed() {
    let (Some(mut first), Some(mut second), Some(mut third)) = (python(), python(), python()) else { return };
    let rack = Text::new().rack();
    let text = format!("{}[coherence]\npatience = 60000000\nbypass = 0\nlease = 300000\n", rack.text);
    let cluster = Cluster::of(
        TempDir::with_prefix("millrace-").expect("a folder"),
        &Text { text: text.clone(), ..rack },
    );
    let file = &*cluster.file;
    let old = cluster.within("old.toml");
    std::fs::write(&old, &text).expect("a file");
    let start = |words: &[&str]| {
        Process::start(PROGRAM, &[words, &["--cluster", &old]].concat()).expect("the program")
    };
    let boxes = ["1", "2"].map(|id| start(&["box", id, "--first"]));
    let _controller = start(&["controller", "0"]);
    let before = start(&["home", "1", "--first"]);
    let whole = || {
        wait_for("a whole cluster", || {
            let output = millrace(&["cluster", "status", file]);
            if output.status.success() {
                return Ok(());
            }
            Err(String::from_utf8_lossy(&output.stdout).into_owned())
        });
    };
    whole();
    let topology = Topology::read(old.as_ref()).expect("a good file");
    let controller = topology.admin(serve::inc::book::parse("controller:0").expect("a name"));
    let place = format!("http://{}", controller.expect("the file says it"));
    let mut client = Peer::start(first.arg("tests/driver.py").arg(&place));
    let version = ask(&mut client, "set", json!({ "key": "k", "value": "76" }));
    assert!(version.is_u64(), "{version}");

    before.kill();
    let [port, admin] = free_ports(2)[..] else { panic!("two ports") };
    let [to, admin] = [port, admin].map(|port| format!("127.0.0.1:{port}"));
    // On a busy machine a controller that makes tables is not seen to at every moment.
    wait_for("an order to move", || {
        cluster.change(&["move", "home:1", &to, "--admin", &admin, "--it-is-dead"]).map(drop)
    });
    let _after = start(&["home", "1", "--listen", &to, "--admin", &admin]);
    whole();
    // Its session was one of the life that is over: of one write nobody knows. A home keeps nothing, so what was there is gone.
    let lost = ask(&mut client, "set", json!({ "key": "k", "value": "77" }));
    assert!(lost.is_u64() || lost["error"] == "Unknown", "{lost}");
    let version = ask(&mut client, "set", json!({ "key": "k", "value": "78" }));
    assert!(version.is_u64(), "{version}");

    // Where no box lives that could say it, by a controller: one that is named, and one of an old file.
    boxes.into_iter().for_each(Process::kill);
    for (python, by) in [(&mut second, &place), (&mut third, &old)] {
        let mut client = Peer::start(python.arg("tests/driver.py").arg(by));
        let item = ask(&mut client, "get", json!({ "key": "k" }));
        assert_eq!(item["value"], "78", "{by}: {item}");
        client.end();
    }
    client.end();
}
