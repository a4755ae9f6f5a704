//! A short run on loopback: every line has operations, and every number is right.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    compute: Compute,
}

fn measure(line: &str) -> Outcome {
    let words = std::iter::once("compute").chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    cli.compute.measure(&AtomicBool::new(false)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_number_is_what_its_operations_make_it() {
    // Nobody is slow here: what waits for a timeout is the machine's load.
    let patient = "--set coherence.patience=60000000 --set coherence.lease=60000000 --set coherence.bypass=0";
    let outcome = measure(&format!("--loopback --clients 1,3 --rounds 1 --slice 20ms {patient}"));
    let named = |name: &str| outcome.rows.iter().filter(|row| row.way.name == name).collect::<Vec<_>>();
    for row in &outcome.rows {
        assert!(row.is_right() && row.counts.done > 0 && row.slices.len() == 1, "{row:?}");
        let stores = row.operation == Operation::Increment || row.counts.stored > 0;
        assert_eq!(stores, row.operation != Operation::Refused, "{row:?}");
    }
    assert_eq!((named("client").len(), named("server").len(), named("box, a copy").len()), (6, 6, 4));
    assert!(named("server").iter().all(|row| row.counts.from_box == 0));
    let tried = |row: &&&Row| row.operation == Operation::Refused;
    assert!(named("box, a copy").iter().filter(tried).all(|row| row.counts.from_box > 0), "{outcome:?}");
    let text = show::text(&outcome);
    assert!(text.contains("are what their operations make them") && !text.contains("WRONG"), "{text}");
}
