//! What one-shot writes save: writes and bytes that cross for each message, one-shot against field by field, and the time of
//! an accelerator that is kept busy.
//!
//! Writes are exact and the same on every machine. The times are of real threads: messages are submitted while earlier ones
//! are under way, and both ways of writing take turns in one accelerator, by its register; a ratio is of two samples in a
//! row. Here a write across is a copy between two ordinary memories; on PCIe each is a transaction (RPCAcc II-C, Fig. 5).
//!
//! The first table is of lane threads: the same messages by one accelerator with one thread of lanes and by one with two, in turns. The
//! host's thread takes a core too, so two threads need three cores to show what they can; on fewer the ratio says what is left.
//!
//! `cargo bench -p millrace-codec --bench deserialise [-- --quick]`

mod shapes;

use base::prng::Prng;
use base::spread;
use base::{Clock, cpu};
use codec::crossing::{Counts, Crossing};
use codec::decode::Writes;
use codec::place::{Accelerator, Live, Options};
use ring::wait::WaitPolicy;
use shapes::{Plan, Shape};
use std::sync::Arc;

/// Messages under way at once.
const WINDOW: usize = 16;

fn main() {
    let plan = Plan::asked_for();
    let cores = cpu::allowed_cores().len();
    // First: afterwards this thread is pinned, and threads start where their parent may run.
    println!(
        "{:<26}{:>8}{:>18}{:>18}{:>18}",
        "message", "wire B", "1 thread ns", "2 threads ns", "1 / 2 threads"
    );
    for shape in shapes::ALL {
        threads(shape, &plan);
    }
    println!();
    println!(
        "{:<26}{:>8}{:>16}{:>14}{:>16}{:>14}{:>8}{:>14}{:>22}",
        "message",
        "wire B",
        "writes by field",
        "one-shot",
        "bytes by field",
        "one-shot",
        "fewer",
        "one-shot ns",
        "by field, times it"
    );
    for shape in shapes::ALL {
        measure(shape, &plan);
    }
    println!("\n{}, {cores} cores, {} in flight, {} rounds", cpu::model_name(), WINDOW, plan.rounds);
}

/// One thread of lanes against two, by the same host thread.
fn threads(shape: &Shape, plan: &Plan) {
    let wait = WaitPolicy::BLOCK;
    let mut benches = [1, 2].map(|threads| {
        let bench = Bench::new(shape, Options { threads, wait, ..Options::default() });
        // Enough for both, so that a thread that others kept from running does not stop the other one.
        Bench { window: 4 * WINDOW, sleeps: true, ..bench }
    });
    let times =
        (plan.sample_ns / benches[0].time(Writes::OneShot, 8 * WINDOW)).max(8.0 * WINDOW as f64) as usize;
    let (mut each, mut ratio) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..plan.rounds {
        let mut ns = [0.0; 2];
        for turn in 0..2 {
            let which = (round + turn) % 2;
            ns[which] = benches[which].time(Writes::OneShot, times);
        }
        each.iter_mut().zip(ns).for_each(|(all, ns)| all.push(ns));
        ratio.push(ns[0] / ns[1]);
    }
    let wire = benches[0].wire.len();
    let [one, two] = each.map(spread::median);
    println!("{:<26}{wire:>8}{one:>18.0}{two:>18.0}{:>18}", shape.name, spread::text(ratio, 2));
}

fn measure(shape: &Shape, plan: &Plan) {
    let cores = cpu::allowed_cores();
    let core = cores.last().copied();
    cpu::pin_to(cores[0]).expect("an allowed core");
    // On one core alone spinning would keep the other side from running.
    let wait = if cores.len() > 1 { WaitPolicy::default() } else { WaitPolicy::BLOCK };
    let cores = core.into_iter().collect();
    let mut bench = Bench::new(shape, Options { wait, cores, ..Options::default() });
    let by_field = bench.counts(Writes::FieldByField);
    let one_shot = bench.counts(Writes::OneShot);
    let times = (plan.sample_ns / bench.time(Writes::OneShot, 2 * WINDOW)).max(WINDOW as f64) as usize;
    let (mut fast, mut ratio) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let (mut own, mut other) = (0.0, 0.0);
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                own = bench.time(Writes::OneShot, times);
            } else {
                other = bench.time(Writes::FieldByField, times);
            }
        }
        fast.push(own);
        ratio.push(other / own);
    }
    println!(
        "{:<26}{:>8}{:>16}{:>14}{:>16}{:>14}{:>8}{:>14.0}{:>22}",
        shape.name,
        bench.wire.len(),
        by_field.writes,
        one_shot.writes,
        by_field.write_bytes,
        one_shot.write_bytes,
        format!("{:.1} x", by_field.writes as f64 / one_shot.writes.max(1) as f64),
        spread::median(fast),
        spread::text(ratio, 2),
    );
}

struct Bench {
    accelerator: Accelerator,
    class: u32,
    wire: Vec<u8>,
    /// Messages under way at once.
    window: usize,
    /// The host sleeps when so many are, instead of looking on.
    sleeps: bool,
}

impl Bench {
    fn new(shape: &Shape, options: Options) -> Bench {
        let schema = shape.schema();
        let class = schema.class("Root").expect("every shape has one");
        let wire = shape.message(&schema, class, &mut Prng::new(1));
        let live = Arc::new(Live::new(schema.table()));
        let accelerator = Accelerator::start(live, options).expect("a thread");
        Bench { accelerator, class, wire, window: WINDOW, sleeps: false }
    }

    /// What crosses for one message.
    fn counts(&mut self, writes: Writes) -> Counts {
        self.accelerator.registers().set_writes(writes);
        let before = self.accelerator.crossing().counts();
        self.accelerator.receive(self.class, self.wire.clone()).expect("a good message");
        self.accelerator.crossing().counts() - before
    }

    /// Decodes `times` messages; nanoseconds each.
    fn time(&mut self, writes: Writes, times: usize) -> f64 {
        self.accelerator.registers().set_writes(writes);
        let (mut begun, mut done) = (0, 0);
        let clock = Clock::shared();
        let start = clock.now();
        while done < times {
            if begun < times && begun - done < self.window {
                self.accelerator.submit(self.class, self.wire.clone()).expect("the ring holds a window");
                begun += 1;
            }
            while let Some((_, message)) = self.accelerator.poll() {
                message.expect("a good message");
                done += 1;
            }
            if self.sleeps && begun - done == self.window {
                self.accelerator.wait();
            }
        }
        clock.now().since(start).0 as f64 / times as f64
    }
}
