//! Connections and whole nodes come and go, and no descriptor stays behind.
//!
//! A suite of its own, because a process has one table of descriptors.

mod served;

use served::{PATIENCE, Served};
use std::time::Instant;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// Waits until no more than `most` are open.
fn until_at_most(most: usize) {
    let begun = Instant::now();
    while open_descriptors() > most {
        assert!(begun.elapsed() < PATIENCE, "{} descriptors are open, not {most}", open_descriptors());
        std::thread::yield_now();
    }
}

#[test]
fn no_descriptor_stays_behind() {
    // Whatever a process opens once, for good.
    drop(Served::with(&[("edge.threads", "2")]));
    let before_any_node = open_descriptors();
    for round in 0..3 {
        let served = Served::with(&[("edge.threads", "2"), ("net.max_connections", "50")]);
        served.client().still_works();
        served.until_quiet(0);
        let idle = open_descriptors();
        for i in 0..1000 {
            let mut client = served.client();
            match i % 5 {
                0 => {}
                1 => client.still_works(),
                2 => client.send("set k 0 0 10\r\nabc"),
                3 => client.send("bogus\r\nquit\r\n"),
                _ => {
                    client.send("get k\r\n");
                    client.vanish();
                }
            }
        }
        served.until_quiet(0);
        until_at_most(idle);
        // Stopping closes connections that are open, too.
        let held: Vec<_> = (0..20).map(|_| served.client()).collect();
        if round == 1 {
            served.node.stop();
        } else {
            drop(served);
        }
        drop(held);
        until_at_most(before_any_node);
    }
}
