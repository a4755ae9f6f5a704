//! Edges that go: what they had submitted is executed, and their places are given again.

use super::ledger::{Edge, Hosting, Pause, Rig, Shape, Step};
use crate::{Form, Order, Settings};

const SHAPE: Shape = Shape { ports: 2, entries: 8, arena: 64, in_flight: 32 };
const HOSTINGS: [Hosting; 3] = [Hosting::Staged, Hosting::Task(Order::Key), Hosting::Task(Order::Port)];

fn submit(port: usize, len: u32, pauses: &[Pause]) -> Step {
    Step::Submit { port, cell: Some(0), len, pauses: pauses.to_vec() }
}

/// Opens the port of an edge that is gone; false when it is not given back yet.
fn reopen(rig: &mut Rig) -> bool {
    let Some(port) = rig.engine.open(rig.handle, SHAPE.entries, SHAPE.arena) else { return false };
    rig.edges.insert(0, Edge::over(port, SHAPE.entries, SHAPE.arena));
    true
}

fn rigs() -> impl Iterator<Item = Rig> {
    let forms = [Form::Plain, Form::Staged, Form::Coroutine];
    let settings = forms.map(|form| Settings { form, ..Settings::default() });
    HOSTINGS
        .into_iter()
        .flat_map(move |hosting| settings.into_iter().map(move |settings| Rig::new(SHAPE, hosting, settings)))
}

#[test]
fn what_an_edge_submitted_before_it_went_is_executed_and_its_place_is_given_again() {
    for mut rig in rigs() {
        rig.drive(&[submit(0, 8, &[]), submit(0, 8, &[Pause::Sleep(500)]), submit(1, 8, &[])]);
        rig.drive(&[Step::Ring(0), Step::Ring(1)]);
        assert!(!reopen(&mut rig), "both edges are there");
        drop(rig.edges.remove(0));
        assert!(!reopen(&mut rig), "what it submitted is in its ring");
        rig.drive(&[Step::Pass { ns: 1, durable: 0 }]);
        let is_asleep = rig.engine.in_flight() > 0;
        assert_eq!(reopen(&mut rig), !is_asleep, "a task of it would answer whoever comes next");
        if is_asleep {
            rig.drive(&[Step::Pass { ns: 10_000, durable: 0 }]);
            assert!(reopen(&mut rig));
        }
        let applied: Vec<u64> = rig
            .engine
            .service(rig.handle)
            .applied
            .iter()
            .map(|(id, _)| *id)
            .filter(|id| id >> 32 == 0)
            .collect();
        assert_eq!(applied, [0, 1]);
        assert!(!reopen(&mut rig), "as many ports as the options say");
        // Whoever has the place now hears of its own requests only.
        rig.drive(&[submit(0, 16, &[Pause::Touch])]);
        assert!(rig.settle(100));
        assert_eq!(rig.edges.iter().map(|edge| edge.replies.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(rig.edges[0].replies[0].3.len(), 16);
    }
}

#[test]
fn an_edge_that_went_without_reading_blocks_nobody_s_place() {
    for mut rig in rigs() {
        let full: Vec<Step> = (0..8).map(|_| submit(0, 32, &[])).collect();
        rig.drive(&full);
        rig.drive(&[Step::Ring(0), Step::Pass { ns: 1, durable: 0 }]);
        drop(rig.edges.remove(0));
        assert!(reopen(&mut rig), "there is no room for its replies, and nobody will make any");
        assert_eq!(rig.engine.in_flight(), 0);
        rig.drive(&[submit(0, 32, &[]), submit(1, 32, &[])]);
        assert!(rig.settle(100));
        assert!(!rig.engine.has_work());
    }
}
