//! Whose memory it is; and memory in files without names.

use super::super::*;
use super::{Place, config, get, set};
use crate::warm;
use std::path::Path;
use std::sync::Arc;

#[test]
fn what_a_home_left_is_for_that_home() {
    let place = Place::new();
    let ask = |number, division, is_first| {
        let home = Whose::Home { number, division };
        let asked = Asked { is_first, ..Asked::of(&place.path(), home) };
        Store::resume(&asked, config(Mode::Cache), 1000)
    };
    let (mut store, start) = ask(1, 7, true).expect("nothing is there");
    assert_eq!(start, Start::Cold(Cold::New));
    set(&mut store, 1000, b"key", b"value", 0);
    store.hand_over(1000).expect("room");
    let refused = |result: Result<(Store, Start), Refusal>| result.expect_err("refused").to_string();
    let others = refused(ask(2, 7, false));
    assert!(others.contains("the memory of home 1, and this is home 2: name another directory"), "{others}");
    let nodes = refused(Store::resume(&place.asked(), config(Mode::Cache), 1000));
    assert!(nodes.contains("the memory of home 1, and this is a node without boxes"), "{nodes}");
    let first = refused(ask(1, 7, true));
    assert!(first.contains("start without --home-first"), "{first}");
    // All of that has changed nothing.
    let (mut store, start) = ask(1, 7, false).expect("it is its own");
    assert!(matches!(start, Start::Warm { items: 1, .. }), "{start:?}");
    assert!(get(&mut store, 1000, b"key").is_some());
    drop(store);
    // Killed: whose it was is known still.
    assert!(refused(ask(2, 7, false)).contains("home 1"));
    assert!(refused(ask(1, 7, true)).contains("--home-first"));
    let (store, start) = ask(1, 7, false).expect("it is its own");
    assert_eq!(start, Start::Cold(Cold::NotClosed));
    store.hand_over(1000).expect("room");
    let start = ask(1, 8, false).expect("it is its own").1;
    assert_eq!(start, Start::Cold(Cold::OtherDivision));
}

#[test]
fn files_without_names_are_as_those_of_a_directory() {
    let files = Arc::new(Unnamed::new().expect("files"));
    let at = |files: &Arc<Unnamed>| Asked {
        place: warm::Place::Unnamed(Arc::clone(files)),
        ..Asked::of(Path::new(""), Whose::Node)
    };
    let begin = |files: &Arc<Unnamed>| Store::resume(&at(files), config(Mode::Cache), 1000);
    let leave = || {
        let (mut store, _) = begin(&files).expect("room");
        for number in 0..500u32 {
            let value = vec![3; if number % 100 == 0 { 20_000 } else { 10 }];
            set(&mut store, 1000, &number.to_be_bytes(), &value, 0);
        }
        assert!(matches!(begin(&files), Err(Refusal::Locked(_))));
        store.hand_over(1000).expect("room");
    };
    leave();
    let copy = Arc::new(files.copy().expect("files"));
    for files in [&files, &copy] {
        let (store, start) = begin(files).expect("room");
        assert!(matches!(start, Start::Warm { items: 500, .. }), "{start:?}");
        store.check();
        drop(store);
        assert_eq!(begin(files).expect("room").1, Start::Cold(Cold::NotClosed));
    }
    let spoiled = [Spoiled::OtherLayout, Spoiled::Cut, Spoiled::Bit(8), Spoiled::Bit(5000 * 8)];
    let reasons = spoiled.map(|how| {
        leave();
        files.spoil(how).expect("ours");
        begin(&files).expect("room").1
    });
    assert!(
        matches!(
            &reasons,
            [
                Start::Cold(Cold::OtherLayout(_)),
                Start::Cold(Cold::Shorter("millrace.heap")),
                Start::Cold(Cold::Damaged(_)),
                Start::Cold(Cold::Damaged(_))
            ]
        ),
        "{reasons:?}"
    );
    leave();
    files.spoil(Spoiled::OtherLayout).expect("ours");
    let begun = Store::resume_wrongly(&at(&files), config(Mode::Cache), 1000, &Planted::AnyLayout);
    assert!(matches!(begun.expect("room").1, Start::Warm { .. }));
}
