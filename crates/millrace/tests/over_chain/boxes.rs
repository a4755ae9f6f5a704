//! Boxes before a node whose items lie in a chain: what memcached's clients, in-network clients and boxes see is the same, whoever is killed.

use crate::chained::{chain, stderr, stdout};
use crate::racked::{Controllers, Judge, MEMBERS, Racked};
use crate::served::Client;
use protocol::chain::Transaction;
use protocol::chain::transaction::Abort;
use serve::txn;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Nobody is slow here: what waits for a timeout is the machine's load.
const PATIENT: [&str; 2] = ["coherence.patience=60000000", "coherence.lease=2000000"];

#[test]
fn boxes_before_a_chain_have_what_the_chain_has() {
    let mut racked = Racked::new(Controllers::One, &PATIENT);
    let [mut home, mut one, mut two] = [racked.home(), racked.proxy(1), racked.proxy(2)].map(Client::to);
    home.ask("set colour 7 0 4\r\nblue\r\n", "STORED\r\n");
    for _ in 0..2 {
        for client in [&mut one, &mut two] {
            client.ask("get colour\r\n", "VALUE colour 7 4\r\nblue\r\nEND\r\n");
        }
    }
    assert!(racked.event("granted") > 0, "boxes have copies");
    home.ask("set colour 7 0 3\r\nred\r\nget colour\r\n", "STORED\r\nVALUE colour 7 3\r\nred\r\nEND\r\n");
    for client in [&mut one, &mut two] {
        client.ask("get colour\r\n", "VALUE colour 7 3\r\nred\r\nEND\r\n");
    }
    // The version is that of the transaction, for all.
    assert_eq!(home.gets("colour"), one.gets("colour"));
    one.ask("append colour 0 0 4\r\ndish\r\nset n 0 0 1\r\n9\r\nincr n 3\r\n", "STORED\r\nSTORED\r\n12\r\n");
    two.ask(
        "get colour n\r\ndecr n 4\r\n",
        "VALUE colour 7 7\r\nreddish\r\nVALUE n 0 2\r\n12\r\nEND\r\n8\r\n",
    );
    home.ask("mg n v\r\nincr n 1\r\ntouch n 100\r\nmg n t\r\n", "VA 2\r\n8 \r\n9\r\nTOUCHED\r\nHD t100\r\n");
    one.ask(
        "get n none\r\ndelete n\r\nadd n 0 0 1\r\n5\r\n",
        "VALUE n 0 1\r\n9\r\nEND\r\nDELETED\r\nSTORED\r\n",
    );
    // A command behind one that waits for boxes does not overtake it.
    two.ask("get n\r\nget n\r\n", "VALUE n 0 1\r\n5\r\nEND\r\nVALUE n 0 1\r\n5\r\nEND\r\n");
    home.ask(
        "set n 0 0 1\r\n6\r\nget n\r\nincr n 1\r\nget n\r\n",
        "STORED\r\nVALUE n 0 1\r\n6\r\nEND\r\n7\r\nVALUE n 0 1\r\n7\r\nEND\r\n",
    );
    // Longer than a packet: by the node's stream.
    let large = "v".repeat(60_000);
    two.ask(format!("set large 1 0 60000\r\n{large}\r\n"), "STORED\r\n");
    one.ask("get large\r\n", format!("VALUE large 1 60000\r\n{large}\r\nEND\r\n"));
    // A box dies with a copy: its lease is waited for, no longer.
    one.ask("get colour\r\n", "VALUE colour 7 7\r\nreddish\r\nEND\r\n");
    racked.end("box:1");
    home.ask("set colour 0 0 5\r\nblack\r\nget colour\r\n", "STORED\r\nVALUE colour 0 5\r\nblack\r\nEND\r\n");
    two.ask("get colour\r\n", "VALUE colour 0 5\r\nblack\r\nEND\r\n");
    // So does the node, and nothing is lost; the next life is silent until no box can have a copy.
    let version = home.gets("colour").1;
    drop((home, one));
    racked.restart_node();
    let mut home = Client::to(racked.home());
    home.ask("set colour 0 0 5\r\nwhite\r\n", "STORED\r\n");
    two.ask("get colour\r\n", "VALUE colour 0 5\r\nwhite\r\nEND\r\n");
    assert!(home.gets("colour").1 > version);
    // The session was one of the home's earlier life, which the client learns by a write of which nobody knows.
    let said = two.line_of("set first 0 0 1\r\nx\r\n");
    assert!(said == "STORED" || said.starts_with("SERVER_ERROR"), "{said}");
    two.ask("flush_all\r\nget colour n large\r\n", "OK\r\nEND\r\n");
    home.ask("get colour n large\r\n", "END\r\n");
    assert_eq!((home.stat("cmd_flush"), home.stat("curr_connections") > 0), (0, true));
    let kv = racked.served().report().kv;
    let (chain, home_of_boxes) = (kv.chain.expect("it has one"), kv.home.expect("it is one"));
    assert!(chain.counters.writes > 0 && chain.waiting == 0 && home_of_boxes.waiting == 0, "{chain:?}");
    drop((home, two));
    racked.finish();
}

/// A transaction beside the home is not done while it has the chain; when the chain is taken from it the home serves nobody, until it begins anew.
#[test]
fn what_does_not_come_by_the_home_is_not_done() {
    let mut racked = Racked::new(Controllers::One, &PATIENT);
    let [mut home, mut one] = [racked.home(), racked.proxy(1)].map(Client::to);
    let options = txn::Options { by_homes: false, ..txn::Options::default() };
    let mut beside = txn::Client::connect(&racked.chain.addresses(), &options).expect("a chain");
    let mut put =
        |value: &str| beside.execute(Transaction::new().put("colour", value)).expect("an outcome").abort;
    home.ask("set colour 0 0 4\r\nblue\r\n", "STORED\r\n");
    one.ask("get colour\r\nget colour\r\n", "VALUE colour 0 4\r\nblue\r\nEND\r\n".repeat(2));
    assert!(racked.event("granted") > 0, "a box has a copy");
    assert_eq!(put("red"), Some(Abort::Claimed));
    one.ask("get colour\r\n", "VALUE colour 0 4\r\nblue\r\nEND\r\n");
    let list = racked.chain.list();
    assert!(stdout(&chain(&["status", "--connect", &list])).contains("claimed: "));
    let ended = chain(&["unclaim", "--connect", &list]);
    assert!(ended.status.success() && stdout(&ended).contains("given up"), "{}", stderr(&ended));
    assert_eq!(put("red"), None);
    let line = home.line_of("set colour 0 0 5\r\ngreen\r\n");
    assert!(line.starts_with("SERVER_ERROR"), "{line}");
    drop(home);
    racked.restart_node();
    let mut home = Client::to(racked.home());
    home.ask("get colour\r\n", "VALUE colour 0 3\r\nred\r\nEND\r\n");
    one.ask("get colour\r\n", "VALUE colour 0 3\r\nred\r\nEND\r\n");
    assert_eq!(put("green"), Some(Abort::Claimed));
    drop((home, one));
    racked.finish();
}

/// A transaction goes by the home where one has claimed the chain: no box has a copy of what it writes; and to the chain where none has.
#[test]
fn transactions_go_by_the_home() {
    let mut racked = Racked::new(Controllers::One, &PATIENT);
    let [mut home, mut one, mut two] = [racked.home(), racked.proxy(1), racked.proxy(2)].map(Client::to);
    let mut client =
        txn::Client::connect(&racked.chain.addresses(), &txn::Options::default()).expect("a chain");
    let mut done = |transaction: Transaction| {
        let outcome = client.execute(transaction).expect("an outcome");
        assert_eq!(outcome.abort, None);
        outcome
    };
    home.ask("set colour 7 0 4\r\nblue\r\nset n 0 0 1\r\n5\r\n", "STORED\r\nSTORED\r\n");
    for _ in 0..2 {
        for client in [&mut one, &mut two] {
            client.ask("get colour n\r\n", "VALUE colour 7 4\r\nblue\r\nVALUE n 0 1\r\n5\r\nEND\r\n");
        }
    }
    assert!(racked.event("granted") >= 2, "boxes have copies");
    let outcome = done(Transaction::new().get("colour").put("colour", "red").add("n", 3));
    assert_eq!(outcome.sums, [8]);
    for client in [&mut one, &mut two, &mut home] {
        client.ask("get colour n\r\n", "VALUE colour 0 3\r\nred\r\nVALUE n 0 1\r\n8\r\nEND\r\n");
        assert_eq!(client.gets("n"), (b"8".to_vec(), outcome.lsn.0));
    }
    // As `millrace txn` has it, and what it says where the home is not to be had.
    let list = racked.chain.list();
    let said = std::process::Command::new(crate::PROGRAM)
        .args(["txn", "--connect", &list, "put colour green"])
        .output()
        .expect("the program");
    assert!(said.status.success(), "{}", stderr(&said));
    one.ask("get colour\r\n", "VALUE colour 0 5\r\ngreen\r\nEND\r\n");
    let kv = racked.served().report().kv.chain.expect("it has one");
    assert!(kv.by_home.asked >= 2 && kv.by_home.under_way == 0, "{:?}", kv.by_home);
    drop((home, one, two));
    // The next life of the home is elsewhere, and silent until no box can have a copy.
    racked.restart_node();
    let mut home = Client::to(racked.home());
    done(Transaction::new().put("colour", "white"));
    home.ask("get colour\r\n", "VALUE colour 0 5\r\nwhite\r\nEND\r\n");
    // The claim is given up: the chain does it.
    assert!(chain(&["unclaim", "--connect", &list]).status.success());
    done(Transaction::new().put("colour", "black"));
    let line = home.line_of("set colour 0 0 5\r\ngreen\r\n");
    assert!(line.starts_with("SERVER_ERROR"), "{line}");
    drop(home);
    racked.finish();
}

/// Everybody but the node is killed in turn, while clients write by each way and read by all.
#[test]
fn whoever_is_killed_nobody_sees_what_is_not_true_any_more() {
    let racked = Racked::new(Controllers::Two, &["coherence.patience=5000000"]);
    let (turns, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let (judge, turns, stop) = (Judge::new(&racked, name), &turns, &stop);
            scope.spawn(move || judge.run(turns, stop));
        }
        let _over = super::Over(&stop);
        let go_on = |count| super::until_more(&turns, count);
        go_on(20);
        for (replica, member) in [1, 3, 2].into_iter().zip(MEMBERS) {
            racked.chain.kill(replica);
            go_on(10);
            racked.kill(member);
            go_on(10);
            racked.chain.kill_who_leads();
            go_on(10);
        }
    });
    assert!(racked.event("granted") > 0, "boxes had copies");
    assert!(racked.chain.checksum().contains("all 3 are the same"));
    racked.finish();
}
