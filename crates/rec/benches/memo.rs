//! What planning costs, and what a bag costs to turn into keys.
//!
//! `cargo bench -p millrace-rec --bench memo [-- LISTS [ASKED]]`: text lists to grow from and others to ask; without files, lists of the generator.
//! Prints seconds for the growth, and for each budget the part of accesses saved and nanoseconds for each id of `Plan::keys` on bags in order, out of
//! order, and for `Plan::singles`, the fastest of several rounds that go round all three.

use base::Prng;
use rec::lists::{Lists, Style};
use rec::memo::{Growth, Limits, Plan};
use std::fs::File;
use std::hint::black_box;
use std::io::BufReader;
use std::time::Instant;

const BUDGETS: [f64; 4] = [1.25, 1.5, 2.0, 9.0];
const ROUNDS: usize = 9;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let read = |file: &String| {
        let source = BufReader::new(File::open(file).expect("the file opens"));
        Lists::read(source, Style::Weighted).expect("the file has lists")
    };
    let (lists, asked) = match files.as_slice() {
        [] => generated().split(0.2, 1),
        [one] => read(one).split(0.2, 1),
        [one, other, ..] => (read(one), read(other)),
    };
    println!("{} lists, {} ids, {} rows", lists.len(), lists.pins(), lists.features());
    println!("{} asked, {} of them one of these sets", asked.len(), asked.repeats(&lists));
    let begin = Instant::now();
    let growth = Growth::new(&lists, BUDGETS[3], Limits::default(), |_| ());
    println!(
        "growth to {} × rows: {} merges, {:.2} s",
        BUDGETS[3],
        growth.merges().len(),
        begin.elapsed().as_secs_f64()
    );
    println!(
        "{:>6} {:>10} {:>8} {:>8}   ns/id: {:>8} {:>9} {:>8}",
        "rows ×", "rows", "saved", "asked", "in order", "shuffled", "singles"
    );
    for budget in BUDGETS {
        let plan = growth.plan(budget);
        let [sorted, shuffled, singles] = cost(&plan, &asked);
        let (saved, held) = (plan.accesses(&lists).reduction(), plan.accesses(&asked).reduction());
        let (rows, saved, held) = (plan.arena_rows(), saved * 100.0, held * 100.0);
        println!(
            "{budget:>6} {rows:>10} {saved:>6.1} % {held:>6.1} %          {sorted:>8.2} {shuffled:>9.2} {singles:>8.2}"
        );
    }
}

fn cost(plan: &Plan, asked: &Lists) -> [f64; 3] {
    let mut bags: Vec<Vec<u32>> =
        asked.iter().map(|(_, ids)| ids.iter().map(|&id| plan.remap()[id as usize]).collect()).collect();
    let mut prng = Prng::new(1);
    for bag in &mut bags {
        (1..bag.len()).for_each(|at| bag.swap(at, prng.below(at as u64 + 1) as usize));
    }
    let shuffled = bags.clone();
    bags.iter_mut().for_each(|bag| bag.sort_unstable());
    let (mut keys, mut scratch) = (Vec::new(), Vec::new());
    let mut best = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        for (way, best) in best.iter_mut().enumerate() {
            let begin = Instant::now();
            for bag in if way == 1 { &shuffled } else { &bags } {
                keys.clear();
                match way {
                    2 => plan.singles(bag, &mut keys),
                    _ => plan.keys(bag, &mut scratch, &mut keys),
                }
                black_box(&keys);
            }
            *best = best.min(begin.elapsed().as_nanos() as f64 / asked.pins() as f64);
        }
    }
    best
}

fn generated() -> Lists {
    rec::synth::lists(20_000, 25_000, 1).expect("lists")
}
