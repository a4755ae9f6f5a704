//! Every file of published results is sound and names rows that there are; orders come out. `millrace repro all` prints it for people.

use model::experiment::Rows;
use model::experiment::compare::{Verdict, compare, summary};
use model::experiment::published::Standing;
use model::system::ALL;

#[test]
fn results_name_rows_that_there_are() {
    for system in ALL {
        let results = system.results().expect("its file is sound");
        let mut rows = Rows::default();
        for experiment in system.experiments {
            rows.append((experiment.run)(1).expect("its platform is complete"));
        }
        let compared = compare(&results, &rows);
        for one in &compared {
            assert!(!matches!(one.verdict, Verdict::NoRow(_)), "{}: {:?}", one.result.id, one.verdict);
        }
        let predictions = summary(&compared, Standing::Prediction);
        assert_eq!(predictions.orders_right, predictions.orders, "{}", system.name);
        assert!(predictions.numbers == 0 || predictions.median <= 0.1, "{}: {predictions:?}", system.name);
    }
}
