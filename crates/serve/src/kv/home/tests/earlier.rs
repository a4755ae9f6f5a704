//! What an earlier life of a home left: memory, a log, and a flush that was put off.

use super::{Rig, read, warm};
use crate::inc::topology::Shape;
use crate::kv::Server;
use crate::kv::config::Config;
use crate::kv::home::HomeArgs;
use protocol::wire::{HomeId, key_hash};
use std::io::BufRead as _;

#[test]
fn a_home_that_stops_leaves_its_memory_to_the_next_and_the_flush_that_was_put_off() {
    let mut rig = Rig::two("300000", &[]);
    rig.keeps_memory = true;
    let restart = |rig: &mut Rig| {
        rig.nodes.clear();
        rig.serve(1, false);
        rig.memcached()
    };
    let mut memcached = restart(&mut rig);
    memcached.set("k", "v");
    let mut version = 0;
    for turn in 0..3 {
        let mut memcached = restart(&mut rig);
        // A client of before has a session that this life knows nothing of.
        let mut one = rig.cache(1);
        assert_eq!(rig.nodes[0].report().kv.began.how, "warm");
        memcached.has("k", if turn == 0 { "v" } else { "n" });
        assert_eq!(warm(&mut one, "k"), if turn == 0 { b"v" } else { b"n" });
        let given = one.set(b"k", b"n").expect("it is stored").0;
        assert!(given > version, "{given} after {version}");
        version = given;
    }
    // Nobody waits for a day: what counts is that the next life has it, and the one after that.
    rig.memcached().ask("flush_all 86400\r\n", "OK\r\n");
    for _ in 0..2 {
        restart(&mut rig).has("k", "n");
    }
    // A moment that comes while there is no life, or soon after.
    rig.memcached().ask("flush_all 1\r\n", "OK\r\n");
    let mut memcached = restart(&mut rig);
    loop {
        memcached.send("get k\r\n");
        let mut line = String::new();
        memcached.0.read_line(&mut line).expect("a line");
        if line == "END\r\n" {
            break;
        }
        memcached.hears("n\r\nEND\r\n");
    }
    assert_eq!(read(&mut rig.cache(1), "k"), None);
}

#[test]
fn memory_is_for_the_home_that_left_it_and_says_that_it_ran() {
    let mut rig = Rig::new(&Shape { tors: 1, roots: 1, homes: 2, controllers: 0 }, "300000", &[], true);
    rig.keeps_memory = true;
    rig.nodes.clear();
    rig.serve(1, true);
    let is_its = |key: &String| rig.topology.layout().home_of(key_hash(key.as_bytes())) == HomeId(1);
    let key = (0..).map(|i| format!("k{i}")).find(is_its).expect("one in two");
    rig.memcached().set(&key, "v");
    rig.nodes.clear();
    let refused = |config: Config| Server::start(&config).err().expect("refused").to_string();
    let left = rig.folder.path().join("memory1");
    let other = Config { memory_file: Some(left.clone()), ..rig.config(2, false) };
    let other = refused(other);
    assert!(
        other.contains("has the memory of home 1, and this is home 2: name another directory"),
        "{other}"
    );
    let plain = refused(Config { home: HomeArgs::default(), ..rig.config(1, false) });
    assert!(plain.contains("the memory of home 1, and this is a node without boxes"), "{plain}");
    let first = refused(rig.config(1, true));
    assert!(first.contains("start without --home-first"), "{first}");
    rig.serve(1, false);
    assert_eq!(rig.nodes[0].report().kv.began.how, "warm");
    rig.memcached().has(&key, "v");
}

#[test]
fn a_log_says_that_its_home_ran() {
    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
    let mut rig = Rig::of(&shape, "300000", &[], (true, true));
    rig.nodes.clear();
    // Nothing was done yet, so no box can have anything.
    rig.serve(1, true);
    rig.memcached().set("k", "v");
    rig.nodes.clear();
    let first = Server::start(&rig.config(1, true)).err().expect("refused").to_string();
    assert!(first.contains("start without --home-first"), "{first}");
    rig.serve(1, false);
    rig.memcached().has("k", "v");
}
