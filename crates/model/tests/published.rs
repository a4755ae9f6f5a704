//! Every file of published results is sound and names rows that there are; orders come out, and predictions are near in the median.
//!
//! `millrace repro all` prints the comparison for people; `cargo test -p millrace-model --release --test published NAME -- --nocapture` a
//! short one of one system.

use model::experiment::Rows;
use model::experiment::compare::{Verdict, compare, summary};
use model::experiment::published::Standing;
use model::platform::Platforms;
use model::system::ALL;

fn check(name: &str) {
    let system = ALL.iter().find(|system| system.name == name).expect("it is in the list");
    let results = system.results().expect("its file is sound");
    let mut rows = Rows::default();
    for experiment in system.experiments {
        rows.append((experiment.run)(&Platforms::shipped(), 1).expect("its platform is complete"));
    }
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
    assert!(predictions.numbers == 0 || predictions.median <= 0.1, "{name}: {predictions:?}");
}

/// A test for each system, so that they run side by side.
macro_rules! systems {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn every_system_is_checked() {
            assert_eq!(ALL.iter().map(|system| system.name).collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

systems! { offpath dagger orca incbricks rpcacc }
