//! Every platform and every file of published results is sound, and what the model says is printed beside them (`--nocapture`).

use model::experiment::Rows;
use model::experiment::compare::{Verdict, compare, summary};
use model::experiment::published::{Results, Standing};
use model::system::offpath;

#[test]
fn off_path_smartnic() {
    let results = Results::parse(offpath::PUBLISHED, "published/offpath.toml").expect("it is sound");
    let mut rows = Rows::default();
    for experiment in offpath::experiments::ALL {
        rows.append((experiment.run)(1).expect("the platform is complete"));
    }
    let compared = compare(&results, &rows);
    for one in &compared {
        println!("{:>8} {:>12} {:?}", one.result.id, one.result.standing.to_string(), one.verdict);
        assert!(!matches!(one.verdict, Verdict::NoRow(_)), "{}: {:?}", one.result.id, one.verdict);
    }
    let predictions = summary(&compared, Standing::Prediction);
    println!("{predictions:?}");
    assert_eq!(predictions.orders_right, predictions.orders);
}
