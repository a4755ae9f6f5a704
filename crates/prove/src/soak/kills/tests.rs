//! What is derived from what clients saw; the whole with processes is `millrace/tests/soak.rs`.

use super::conduct::Death;
use super::stalls::{End, Group, stalls};
use crate::cluster::{Durability, Times, words};
use base::Nanos;
use protocol::coherence::NodeId;
use protocol::wire::{BoxId, HomeId};
use serve::cluster::file::Who;
use std::path::Path;

const HOME: Who = Who::Node(NodeId::Home(HomeId(1)));

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn times() -> Times {
    Times {
        lease: ms(500),
        retransmit: ms(100),
        chain_lease: ms(600),
        chain_retransmit: ms(200),
        is_joint: false,
    }
}

#[test]
fn the_client_that_waits_longest_is_found_and_held_to_its_bound() {
    // One client of each kind answers every 10 ms, but memcached's from 1000 to 2900, and those of the chain from 4000 to 4900.
    let mut ends = Vec::new();
    for at in (0..6000).step_by(10).map(ms) {
        let end = |client, group| End { at, client, group };
        ends.push(end(0, Group::InNetwork));
        if !(ms(1000)..ms(2900)).contains(&at) {
            ends.push(end(1, Group::Memcached));
        }
        if !(ms(4000)..ms(4900)).contains(&at) {
            ends.push(end(2, Group::Transactions));
        }
    }
    let deaths = [
        Death { who: HOME, at: ms(1000), back: ms(2500) },
        Death { who: Who::Replica(7, 1), at: ms(4000), back: ms(5500) },
    ];
    let stalls = stalls(&ends, &deaths, (3, 1), ms(6000), &times());
    let shown: Vec<_> = stalls.iter().map(|s| (s.group, s.worst, s.bound, s.is_bounded())).collect();
    let want = [
        (Group::Memcached, ms(1900), ms(2100), true),
        (Group::InNetwork, ms(10), ms(2100), true),
        (Group::Transactions, ms(10), ms(0), true),
        (Group::Memcached, ms(10), ms(0), true),
        (Group::InNetwork, ms(10), ms(0), true),
        (Group::Transactions, ms(900), ms(800), true),
    ];
    assert_eq!(shown, want);
    let late = super::stalls::Stall { worst: ms(1051), ..stalls[5] };
    assert!(!late.is_bounded());
}

#[test]
fn a_first_life_is_told_that_it_is_the_first() {
    let line = |who, is_first| {
        let folder = Path::new("/f");
        words(who, folder, Durability::Log.node(folder, 11), is_first).join(" ")
    };
    assert_eq!(
        line(HOME, true),
        "up -l 127.0.0.1 -p 11 -m 64 --durability log --home 1 --set log.size=8m --data-dir /f/node --cluster /f/cluster.toml --home-first"
    );
    assert!(!line(HOME, false).contains("first"));
    assert_eq!(
        Durability::Chain.node(Path::new("/f"), 11).join(" "),
        "up -l 127.0.0.1 -p 11 -m 64 --durability chain --home 1 --chain-at /f/cluster.toml"
    );
    assert_eq!(line(Who::Node(NodeId::Box(BoxId(2))), true), "box 2 --cluster /f/cluster.toml --first");
    assert_eq!(line(Who::Controller(7, 0), true), "chain controller --number 0 --cluster /f/cluster.toml");
}
