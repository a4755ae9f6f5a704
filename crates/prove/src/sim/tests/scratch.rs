use super::super::bugs::Bug;
use super::super::campaign;
use super::super::homes::Homes;
use super::super::minimal::minimal;
use super::super::play::Case;
use super::super::trial::{Outcome as _, Trial};
use std::num::NonZero;

#[test]
fn scratch() {
    let Ok(text) = std::env::var("B_SEEDS") else { return };
    let seeds: u64 = text.parse().unwrap();
    let two = NonZero::new(2).unwrap();
    let homes = if std::env::var("B_CACHE").is_ok() { Homes::Cache } else { Homes::Chained };
    let case = Case { homes, ..super::case("rooted") };
    let started = std::time::Instant::now();
    if let Ok(seed) = std::env::var("B_TRACE") {
        let played = case.seeded(seed.parse().unwrap(), None).play(true);
        for line in played.trace() {
            println!("{line}");
        }
        println!("{:?}", played.violation().map(|v| v.text.clone()));
        return;
    }
    let campaign = campaign::run(&case, 1..seeds + 1, two, &|_| {});
    println!("{campaign:?} in {:?}", started.elapsed());
    if let Some(&seed) = campaign.violations.first() {
        let (small, played) = minimal(&case.seeded(seed, None));
        println!("{}\n{}", small.command(), played.violation().unwrap().text);
        for line in small.play(true).trace().iter().rev().take(120).rev() {
            println!("{line}");
        }
        return;
    }
    let within: u64 = std::env::var("B_WITHIN").map_or(300, |t| t.parse().unwrap());
    for hunt in campaign::hunt(&case, Bug::of(homes), (1, within), two, &|_| {}) {
        println!("{:?}", hunt);
    }
}
