//! `millrace demo`: every kind of client works, something moves and dies, and every value is what it must be. Its page and the tour's are looked at
//! in a browser.

mod browser;
mod members;
mod served;

use members::within;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A page says that, and is as a page must be.
fn check(page: &str, words: &str) {
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(html.contains(words) && !html.contains("http-equiv"), "{html}");
    if let Err(why) = browser::look_at(&[Path::new(page).into()]) {
        served::skip(why);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_whole_is_driven_moved_and_hurt_and_every_value_is_right() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let page = within(&folder, "demo.html");
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["demo", "--seconds", "4", "--rate", "50", "--json", "--report"])
        .arg(&page)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = outcome["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 9);
    for row in rows {
        assert_eq!(number(&row["wrong"]), 0, "{row}");
        assert!(number(&row["answered"]) > 0, "{row}: {}", outcome["findings"]);
        // Boxes trace nothing.
        let is_traced = row["hops"].as_array().is_some_and(|hops| !hops.is_empty());
        assert!(is_traced || row["name"] == "get, in-network", "{row}");
    }
    // Copies of items, copies of replies, a compute unit.
    for name in ["get, in-network", "GetProfile, fabric", "Pack, fabric"] {
        let row = rows.iter().find(|row| row["name"] == name).expect("a row");
        assert!(number(&row["from_box"]) > 0, "{row}");
    }
    // A transaction is with its client, the shop's edge and workers, the home before the chain, and each of its replicas.
    let order = rows.iter().find(|row| row["name"] == "PlaceOrder, fabric").expect("a row");
    let hops = order["hops"].as_array().expect("a list");
    for place in ["client", "edge", "host", "engine"] {
        assert!(hops.iter().any(|hop| hop["place"] == place), "{place}: {order}");
    }
    for seat in ["head", "middle", "tail"] {
        let is_there = hops.iter().any(|hop| hop["place"] == "chain" && hop["thread"] == seat);
        assert!(is_there, "{seat}: {order}");
    }
    assert!(number(&order["most_hops"]) >= 6, "{order}");
    assert_eq!(number(&outcome["compared"]), 64);
    let audit = &outcome["audit"];
    assert_eq!(number(&audit["unbalanced"]), 0, "{audit}");
    let (orders, acknowledged) = (number(&audit["orders"]), &audit["acknowledged"]);
    assert!((number(&acknowledged[0])..=number(&acknowledged[1])).contains(&orders), "{audit}");
    // The move, the compute unit, the box, the replica.
    assert_eq!(outcome["events"].as_array().map(Vec::len), Some(4), "{outcome}");
    assert!(number(&outcome["hops"]) >= 6, "{outcome}");
    check(&page, "the path of each kind of request");
}

#[test]
fn a_tour_has_six_scenes_with_figures_of_their_own() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let page = within(&folder, "tour.html");
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["tour", "--scene", "1s", "--rate", "50", "--json", "--report"])
        .arg(&page)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let toured: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let scenes = toured["scenes"].as_array().expect("a list");
    let events: Vec<usize> =
        scenes.iter().map(|scene| scene["events"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(events, [0, 0, 0, 2, 1, 1], "{toured}");
    let answered = |rows: &Value, name: &str| -> u64 {
        let rows = rows.as_array().expect("a list").iter().filter(|row| row["name"] == name);
        rows.map(|row| number(&row["answered"])).sum()
    };
    for scene in scenes {
        for row in scene["rows"].as_array().expect("a list") {
            assert!(number(&row["answered"]) > 0 && number(&row["wrong"]) == 0, "{row}");
        }
    }
    // A scene has what was done in its time: those two together have no more than the whole.
    let of = |scene: usize, name: &str| answered(&scenes[scene]["rows"], name);
    let (first, second) = (of(0, "get, memcached"), of(1, "get, memcached"));
    assert!(
        first > 0 && second > 0 && first + second <= answered(&toured["whole"]["rows"], "get, memcached")
    );
    assert_eq!(number(&toured["whole"]["compared"]), 64);
    check(&page, "Every protocol, the same items");
}

#[test]
fn a_part_has_flags_of_its_own() {
    let help = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace")).args(words).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(help(&["demo", "--help"]).contains("--keep"));
    assert!(!help(&["demo", "--help"]).contains("The node of the demonstration"));
    assert!(help(&["demo", "kv", "--help"]).contains("--memory"));
}
