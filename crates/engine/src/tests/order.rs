//! The two forms of a service mean the same; order is kept per key, or per port where that is asked for.

use super::ledger::{CELLS, Hosting, Pause, Rig, Shape, Step};
use crate::{Order, Settings};
use base::Prng;
use proptest::prelude::*;

const HOSTINGS: [Hosting; 3] = [Hosting::Staged, Hosting::Task(Order::Key), Hosting::Task(Order::Port)];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let port = || 0usize..4;
    let cell = prop_oneof![1 => Just(None), 4 => (0..2 * CELLS).prop_map(Some)];
    let pause = prop_oneof![
        3 => Just(Pause::Touch),
        2 => (0u64..200).prop_map(Pause::Sleep),
        1 => Just(Pause::Durable),
    ];
    let pauses = proptest::collection::vec(pause, 0..4);
    let step = prop_oneof![
        8 => (port(), cell, any::<u32>(), pauses)
            .prop_map(|(port, cell, len, pauses)| Step::Submit { port, cell, len, pauses }),
        3 => port().prop_map(Step::Ring),
        4 => (0u64..300, 0u64..4).prop_map(|(ns, durable)| Step::Pass { ns, durable }),
        2 => (port(), 1usize..30).prop_map(|(port, n)| Step::Collect(port, n)),
        2 => (port(), 1usize..30).prop_map(|(port, n)| Step::Release(port, n)),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 25 } else { 150 })
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1usize..5, 0u32..6, 6u32..11, 1usize..40).prop_map(|(ports, entries, arena, in_flight)| Shape {
        ports,
        entries: 1 << entries,
        arena: 1 << arena,
        in_flight,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_forms_answer_alike_and_keep_order(
        shape in shapes(), group in 1usize..=64, quantum in 1usize..70, steps in steps(),
    ) {
        let settings = Settings { group, quantum, ..Settings::default() };
        let mut first = None;
        for hosting in HOSTINGS {
            let mut rig = Rig::new(shape, hosting, settings);
            rig.drive(&steps);
            let submitted: usize = rig.edges.iter().map(|edge| edge.submitted.len()).sum();
            // Each may sleep and wait for the log a few times.
            prop_assert!(rig.settle(10 + 40 * submitted), "something is lost: {:?}", hosting);
            prop_assert_eq!(rig.check(), Ok(()), "{:?}", hosting);
            prop_assert_eq!(rig.engine.in_flight(), 0);
            // Rings have room at different moments, so one form may have been asked more; of those asked the same:
            let asked: Vec<_> = rig.edges.iter().map(|edge| edge.submitted.clone()).collect();
            let cells = rig.engine.service(rig.handle).cells.clone();
            let (others, state) = first.get_or_insert_with(|| (asked.clone(), cells.clone()));
            prop_assert!(*others != asked || *state == cells, "another state in {:?}", hosting);
        }
    }
}

#[test]
fn the_checker_finds_a_host_without_order() {
    let shape = Shape { ports: 3, entries: 64, arena: 1 << 12, in_flight: 64 };
    let seeds = if cfg!(miri) { 1 } else { 20 };
    let found = (0..seeds).filter(|&seed| {
        let mut prng = Prng::new(seed);
        let mut steps = Vec::new();
        for _ in 0..40 {
            let pauses = vec![Pause::Touch; prng.below(4) as usize];
            let cell = Some(prng.below(2 * CELLS as u64) as usize);
            steps.push(Step::Submit { port: prng.below(3) as usize, cell, len: 4, pauses });
        }
        let run = |hosting| {
            let mut rig = Rig::new(shape, hosting, Settings::default());
            rig.drive(&steps);
            assert!(rig.settle(1000));
            rig.check()
        };
        assert_eq!(run(Hosting::Task(Order::Key)), Ok(()));
        run(Hosting::Disordered).is_err()
    });
    assert!(found.count() > seeds as usize * 3 / 4);
}
