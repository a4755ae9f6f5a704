//! Events per second through the queue, beside the standard binary heap, in the *hold model*: n events are pending; each
//! that is popped pushes one a random while later.
//!
//! ```text
//! cargo bench -p millrace-sim --bench queue -- [EVENTS per slice, default 2000000]
//! ```
//! Both carry the same payload (48 bytes, as a message on its way has) in the same order of events, which their fingerprints
//! prove. Slices of the two alternate, so that what the machine does meanwhile falls on both; the ratio is of the same turn.

use base::Prng;
use sim::{Event, Fingerprint, Picos, Queue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

type Payload = [u64; 6];

/// How long after its cause an event happens.
#[derive(Clone, Copy, Debug)]
enum Gaps {
    /// Up to 2 µs, evenly.
    Even,
    /// Some of 1 ns, some of 1 ms: timers beside messages.
    Mixed,
    /// Multiples of 1 µs: many at the same time.
    Ties,
}

impl Gaps {
    fn draw(self, prng: &mut Prng) -> u64 {
        match self {
            Gaps::Even => prng.below(2_000_000),
            Gaps::Mixed if prng.below(4) == 0 => prng.below(1_000_000_000),
            Gaps::Mixed => prng.below(1_000),
            Gaps::Ties => 1_000_000 * (1 + prng.below(4)),
        }
    }
}

/// The plain way: keys and payloads in one heap.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Plain(Reverse<(u64, u32, u64)>, Payload);

struct Rival {
    heap: BinaryHeap<Plain>,
    sequence: u64,
}

trait Pending {
    fn push(&mut self, at: u64, source: u32, what: Payload);
    fn pop(&mut self) -> Event<Payload>;
}

impl Pending for Queue<Payload> {
    fn push(&mut self, at: u64, source: u32, what: Payload) {
        Queue::push(self, Picos(at), source, what);
    }

    fn pop(&mut self) -> Event<Payload> {
        Queue::pop(self).expect("the hold model never runs dry")
    }
}

impl Pending for Rival {
    fn push(&mut self, at: u64, source: u32, what: Payload) {
        self.heap.push(Plain(Reverse((at, source, self.sequence)), what));
        self.sequence += 1;
    }

    fn pop(&mut self) -> Event<Payload> {
        let Plain(Reverse((at, source, sequence)), what) = self.heap.pop().expect("it never runs dry");
        Event { at: Picos(at), source, sequence, what }
    }
}

struct Side<Q> {
    queue: Q,
    prng: Prng,
    print: Fingerprint,
    gaps: Gaps,
}

impl<Q: Pending> Side<Q> {
    fn new(queue: Q, pending: u64, gaps: Gaps) -> Side<Q> {
        let mut side = Side { queue, prng: Prng::new(pending), print: Fingerprint::new(), gaps };
        for i in 0..pending {
            let at = gaps.draw(&mut side.prng);
            side.queue.push(at, i as u32 % 64, [i; 6]);
        }
        side
    }

    /// Handles `events` and returns millions per second.
    fn slice(&mut self, events: u64) -> f64 {
        let start = Instant::now();
        for _ in 0..events {
            let event = self.queue.pop();
            self.print.number(event.at.0 ^ event.sequence);
            let at = event.at.0 + self.gaps.draw(&mut self.prng);
            self.queue.push(at, event.source, event.what);
        }
        events as f64 / start.elapsed().as_secs_f64() / 1e6
    }
}

/// The median, and the quarters beside it.
fn quartiles(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
    (at(0.25), at(0.5), at(0.75))
}

fn main() {
    let number = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let events: u64 = number.unwrap_or(2_000_000);
    println!("hold model, {events} events a slice, 7 slices each in turn; M events/s, median (quartiles)\n");
    println!("{:<8} {:>8}  {:>22}  {:>22}  {:>18}", "gaps", "pending", "queue", "std BinaryHeap", "ratio");
    for gaps in [Gaps::Even, Gaps::Mixed, Gaps::Ties] {
        for pending in [1_000, 100_000] {
            let mut ours = Side::new(Queue::new(), pending, gaps);
            let mut rival = Side::new(Rival { heap: BinaryHeap::new(), sequence: 0 }, pending, gaps);
            ours.slice(events / 4);
            rival.slice(events / 4);
            let turns: Vec<(f64, f64)> = (0..7).map(|_| (ours.slice(events), rival.slice(events))).collect();
            assert_eq!(ours.print, rival.print, "both must handle the same events in the same order");
            let show = |values: Vec<f64>| {
                let (low, median, high) = quartiles(values);
                format!("{median:.1} ({low:.1}–{high:.1})")
            };
            println!(
                "{:<8} {:>8}  {:>22}  {:>22}  {:>18}",
                format!("{gaps:?}"),
                pending,
                show(turns.iter().map(|t| t.0).collect()),
                show(turns.iter().map(|t| t.1).collect()),
                show(turns.iter().map(|t| t.0 / t.1).collect()),
            );
        }
    }
}
