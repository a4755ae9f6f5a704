//! Every file of published results is sound and names rows that there are; orders come out, and predictions are no further off than they were.
//!
//! `millrace repro all` prints the comparison for people; `cargo test -p millrace-plan --release --test published NAME -- --nocapture` a
//! short one of one system.

use model::experiment::Rows;
use model::experiment::compare::{Verdict, compare, summary};
use model::experiment::published::Standing;
use model::plan::model_error::KNOWN;
use model::platform::Platforms;
use model::system::System;
use plan::model::SYSTEMS;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The rows of all experiments of a system, those beside each other for which there are cores.
fn rows_of(system: &System) -> Rows {
    let next = AtomicUsize::new(0);
    let made: Mutex<BTreeMap<usize, Rows>> = Mutex::default();
    let run_them = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(experiment) = system.experiments.get(at) else { return };
            let rows = (experiment.run)(&Platforms::shipped(), 1).expect("its platform is complete");
            made.lock().expect("no experiment panics").insert(at, rows);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(run_them);
        }
    });
    let mut rows = Rows::default();
    made.into_inner().expect("no experiment panicked").into_values().for_each(|of_one| rows.append(of_one));
    rows
}

/// Of each system the median error of single numbers, and ranges that do not hold.
const REACHED: [(&str, f64, usize); 5] = [
    ("offpath", 0.02, 6),
    ("dagger", 0.06, 0),
    ("orca", 0.02, 2),
    ("incbricks", 0.03, 1),
    ("rpcacc", 0.12, 1),
];

fn check(name: &str) {
    let system = SYSTEMS.iter().find(|system| system.name == name).expect("it is in the list");
    let results = system.results().expect("its file is sound");
    let rows = rows_of(system);
    let compared = compare(&results, &rows);
    for one in &compared {
        println!("{:10} {:13} {:?}", one.result.id, one.result.standing, one.verdict);
    }
    for one in &compared {
        assert!(!matches!(one.verdict, Verdict::NoRow(_)), "{}: {:?}", one.result.id, one.verdict);
    }
    let predictions = summary(&compared, Standing::Prediction);
    println!("{name}: {predictions:?}");
    assert_eq!(predictions.orders_right, predictions.orders, "{name}");
    // The planner's intervals rest on these.
    let known = KNOWN.iter().find(|known| known.system == name).expect("every system has an error");
    assert!((known.predictions - predictions.rms).abs() < 0.003, "{name}: {predictions:?}, and {known:?}");
    assert_eq!(known.count, predictions.numbers + predictions.ranges, "{name}");
    // What is reached today, so that it gets no worse unseen: docs/measurements/validate.md has the figures that count.
    let (_, median, missed) =
        REACHED.into_iter().find(|(its, ..)| *its == name).expect("every system is there");
    assert!(predictions.median <= median, "{name}: {predictions:?}");
    assert!(predictions.ranges - predictions.ranges_right <= missed, "{name}: {predictions:?}");
}

/// A test for each system, so that they run side by side.
macro_rules! systems {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn every_system_is_checked() {
            assert_eq!(SYSTEMS.iter().map(|system| system.name).collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

systems! { offpath dagger orca incbricks rpcacc }
