//! Several shards, each a chain of its own, in one process; and one of them moves to another process while it serves.

use super::{Node, millrace, write};
use fabric::link::Address;
use protocol::chain::Transaction;
use protocol::chain::slots::slot;
use serve::chain::status::ask;
use serve::txn::Client;
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;

/// Two chains of two replicas and a controller each.
fn cluster(folder: &TempDir) -> PathBuf {
    let mut text = "[cluster]\nkey = \"cluster.key\"\n".to_owned();
    let at = |name: String| format!("unix:{}", folder.path().join(name).display());
    for (chain, slots) in [(7, "0-8191"), (8, "8192-16383")] {
        text +=
            &format!("[[chain]]\nnumber = {chain}\nslots = \"{slots}\"\nstate = [\"registry-{chain}\"]\n");
        for id in [1, 2] {
            let (clients, peers) = (at(format!("c{chain}-{id}")), at(format!("p{chain}-{id}")));
            text += &format!("[[chain.replica]]\nid = {id}\naddress = \"{clients}\"\npeers = \"{peers}\"\n");
            text += &format!("data = \"data-{chain}-{id}\"\n");
        }
        text += &format!("[[chain.controller]]\naddress = \"{}\"\n", at(format!("controller-{chain}")));
    }
    millrace(&["key", "new", folder.path().join("cluster.key").to_str().expect("text")]);
    write(folder, "cluster.toml", &text)
}

/// A key of this chain, by its slot.
fn key_of(chain: u32) -> String {
    let is_its = |key: &String| slot(key.as_bytes()).is_some_and(|slot| (slot < 8192) == (chain == 7));
    (0..).map(|n| format!("n{n}")).find(is_its).expect("half of all keys")
}

fn service(name: &str, kind: &str, cluster: &str, rest: &str) -> String {
    format!("[services.{name}]\nkind = \"{kind}\"\ncluster = \"{cluster}\"\n{rest}")
}

/// Until this replica serves reads.
fn until_serves(address: &Address) {
    let begun = Instant::now();
    while !ask(address, None).is_ok_and(|info| info.serves_reads) {
        assert!(begun.elapsed() < super::PATIENCE, "{address} does not serve: {:?}", ask(address, None));
        std::thread::yield_now();
    }
}

#[test]
fn two_shards_in_one_process_and_one_moves_to_another() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let cluster = cluster(&folder);
    let file = cluster.to_str().expect("text");
    let sized = "log_size = \"8m\"\ndata_size = \"8m\"\n";
    let mut text = "[admin]\nlisten = 0\n".to_owned();
    for chain in [7, 8] {
        text += &service(&format!("control{chain}"), "chain-controller", file, &format!("chain = {chain}\n"));
        for id in [1, 2] {
            let rest = format!("chain = {chain}\nid = {id}\n{sized}");
            text += &service(&format!("shard{chain}-{id}"), "txn", file, &rest);
        }
    }
    let first = Node::start(&write(&folder, "first.toml", &text));
    let at = |name: &str| -> Address {
        format!("unix:{}", folder.path().join(name).display()).parse().expect("an address")
    };
    let mut clients = [7, 8].map(|chain| {
        until_serves(&at(&format!("c{chain}-2")));
        Client::connect(&[at(&format!("c{chain}-1"))], &Default::default()).expect("it serves")
    });
    for (client, number) in clients.iter_mut().zip([7, 8]) {
        assert_eq!(client.chain(), number);
        let outcome =
            client.execute(Transaction::new().add(key_of(number), i64::from(number))).expect("done");
        assert_eq!((outcome.sums, outcome.copies), (vec![i64::from(number)], 2));
    }

    // A replica of shard 7 goes to another process, which had nothing.
    let (clients_at, peers) = (at("c7-3"), at("p7-3"));
    let rest = format!(
        "chain = 7\nid = 3\njoin = \"{peers}\"\ndata = \"{}\"\n{sized}",
        folder.path().join("3").display()
    );
    let mut text = "[admin]\nlisten = 0\n".to_owned();
    text += &service("shard7-3", "txn", file, &rest);
    text += &format!("[[listen]]\nservice = \"shard7-3\"\naddress = \"{clients_at}\"\n");
    let second = Node::start(&write(&folder, "second.toml", &text));
    let (clients_at, peers) = (clients_at.to_string(), peers.to_string());
    let words = ["cluster", "move", file, "chain:7/replica:1", "--to", "3", "--address", &clients_at];
    let said = millrace(&[&words[..], &["--peers", &peers]].concat());
    assert!(said.contains("replica 3 of chain 7 serves in place of replica 1"), "{said}");
    let outcome = clients[0].execute(Transaction::new().add(key_of(7), 1)).expect("done");
    assert_eq!((outcome.sums, outcome.copies), (vec![8], 2));
    let info = ask(&at("c7-3"), None).expect("it answers");
    let members: Vec<u16> = info.members.iter().map(|member| member.replica.0).collect();
    assert_eq!(members, [2, 3]);
    // The other shard was not touched.
    let outcome = clients[1].execute(Transaction::new().add(key_of(8), 1)).expect("done");
    assert_eq!((outcome.sums, outcome.copies), (vec![9], 2));
    drop((first, second));
}
