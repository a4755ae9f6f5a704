//! What clients read to find a cluster: a controller's directory, the cluster's file (its chains, its rack), an answer of etcd, places of controllers. Any text is one or refused; what was read is
//! written and read again as it was.
#![no_main]

use client::cache::Topology;
use client::chain::directory::Directory;
use client::controllers::Controllers;
use client::etcd::{encode, found, range_of};
use client::file::chains;
use client::table::Source;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(directory) = Directory::parse(text) {
        assert_eq!(Directory::parse(&directory.text()), Ok(directory));
    }
    if let Ok(controllers) = Controllers::parse(text) {
        assert_eq!(Controllers::named(controllers.place().as_ref()), Some(Ok(controllers)));
    }
    let source = Source::of(Path::new("cluster.toml"), text);
    if let Ok(parsed) = source.parse() {
        let _ = chains(&source.table(&parsed));
    }
    if let Ok(topology) = Topology::parse(text, Path::new("rack.toml")) {
        let written = topology.text();
        let read = Topology::parse(&written, Path::new("rack.toml")).expect("what was written is a topology");
        assert_eq!(read.text(), written);
    }
    if let Ok(answer) = serde_json::from_str::<serde_json::Value>(text) {
        for range in [&answer, range_of(&answer)] {
            if let Ok(Some(key)) = found(range) {
                assert_eq!(range["kvs"][0]["value"].as_str().unwrap_or_default(), encode(&key.value));
            }
        }
    }
});
