//! A tiny run in namespaces: every mode that can run here has operations, hits where there is a box, and no wrong value.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: Bench,
}

fn bench(line: &str) -> Bench {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).bench
}

#[test]
fn loads_and_modes_are_as_asked_for() {
    let args = bench("--modes box,tcp --windows 1,8 --rate 5k --uncacheable");
    assert_eq!(args.modes, [Mode::Box, Mode::Tcp]);
    let open = Pace::Open { rate: 5000.0, poisson: true };
    assert_eq!(args.loads(), [(Pace::FULL, 1), (Pace::FULL, 8), (open, 64)]);
    assert_eq!(args.workload().expect("a mix").popularity, Popularity::Uniform);
    assert_eq!((bench("--quick").keys(), bench("").keys()), (50_000, 1_000_000));
}
