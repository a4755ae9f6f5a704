//! What one-shot writes save: writes and bytes that cross for each message, one-shot against field by field, and the time of
//! an accelerator that is kept busy.
//!
//! Writes are exact and the same on every machine. The times are of real threads: messages are submitted while earlier ones
//! are under way, and both ways of writing take turns in one accelerator, by its register; a ratio is of two samples in a
//! row. Here a write across is a copy between two ordinary memories; on PCIe each is a transaction (RPCAcc II-C, Fig. 5).
//!
//! The first table is of lane threads: the same messages by one accelerator with one thread of lanes and by one with two, in turns. The
//! host's thread takes a core too: it hands over buffers that are ready, as a driver of a network card does, as many as the rings take, then sleeps until
//! lanes have done what they had, and gives messages back. It never looks on, since on two cores that would be a lane's core. What is left of the
//! gain where cores are fewer than threads is in the last column, by processor time: f of the host's thread and l of the lanes for a message make
//! max(l, f, (f + l) / cores) with one thread, max(l / 2, f, (f + l) / cores) with two.
//!
//! `cargo bench -p millrace-codec --bench deserialise [-- --quick]`

mod shapes;

use base::prng::Prng;
use base::spread;
use base::{Clock, cpu};
use codec::crossing::{Counts, Crossing};
use codec::decode::Writes;
use codec::place::{Accelerator, Busy, Live, Options};
use ring::wait::WaitPolicy;
use rustix::time::{ClockId, clock_gettime};
use shapes::{Plan, Shape};
use std::sync::Arc;

/// Messages under way at once.
const WINDOW: usize = 16;
/// Messages under way with each lane thread where two are compared with one.
const FED: usize = 64;
/// Bytes of buffers that are made ready for a sample.
const BUFFERS: usize = 256 << 20;

fn main() {
    let plan = Plan::asked_for();
    let cores = cpu::allowed_cores().len();
    // First: afterwards this thread is pinned, and threads start where their parent may run.
    println!(
        "{:<26}{:>8}{:>14}{:>14}{:>22}{:>12}{:>12}{:>14}{:>10}",
        "message",
        "wire B",
        "1 thread ns",
        "2 threads ns",
        "1 / 2 threads",
        "CPU ns, 1",
        "CPU ns, 2",
        "host's, of 2",
        "at most"
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
        let bench = Bench::new(shape, Options { threads, wait, requests: FED as u32, ..Options::default() });
        // Enough for both, so that a thread that others kept from running does not stop the other one.
        Bench { window: 2 * FED, ..bench }
    });
    let first = benches[0].fed(4 * FED);
    let times = (plan.sample_ns / first.wall).clamp(4.0 * FED as f64, BUFFERS as f64 / first.bytes) as usize;
    let (mut each, mut ratio) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..plan.rounds {
        let mut seen = [first; 2];
        for turn in 0..2 {
            let which = (round + turn) % 2;
            seen[which] = benches[which].fed(times);
        }
        each.iter_mut().zip(seen).for_each(|(all, seen)| all.push(seen));
        ratio.push(seen[0].wall / seen[1].wall);
    }
    let wire = benches[0].wire.len();
    let median =
        |which: usize, of: fn(&Fed) -> f64| spread::median(each[which].iter().map(of).collect::<Vec<_>>());
    let (host, lanes) = (median(1, |fed| fed.host), median(1, |fed| fed.cpu - fed.host));
    let share = (host + lanes) / cpu::allowed_cores().len() as f64;
    let at_most = lanes.max(host).max(share) / (lanes / 2.0).max(host).max(share);
    println!(
        "{:<26}{wire:>8}{:>14.0}{:>14.0}{:>22}{:>12.0}{:>12.0}{:>13.0}%{at_most:>10.2}",
        shape.name,
        median(0, |fed| fed.wall),
        median(1, |fed| fed.wall),
        spread::text(ratio, 2),
        median(0, |fed| fed.cpu),
        median(1, |fed| fed.cpu),
        100.0 * host / (host + lanes),
    );
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
}

/// A sample of messages that were fed: nanoseconds of each.
#[derive(Clone, Copy)]
struct Fed {
    wall: f64,
    /// Of the processors, by all threads.
    cpu: f64,
    /// Of it, by the host's thread.
    host: f64,
    /// Bytes of a buffer.
    bytes: f64,
}

/// Nanoseconds of a clock of the processors'.
fn processor(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

impl Bench {
    fn new(shape: &Shape, options: Options) -> Bench {
        let schema = shape.schema();
        let class = schema.class("Root").expect("every shape has one");
        let wire = shape.message(&schema, class, &mut Prng::new(1));
        let live = Arc::new(Live::new(schema.table()));
        let accelerator = Accelerator::start(live, options).expect("a thread");
        Bench { accelerator, class, wire, window: WINDOW }
    }

    /// What crosses for one message.
    fn counts(&mut self, writes: Writes) -> Counts {
        self.accelerator.registers().set_writes(writes);
        let before = self.accelerator.crossing().counts();
        self.accelerator.receive(self.class, self.wire.clone()).expect("a good message");
        self.accelerator.crossing().counts() - before
    }

    /// Decodes `times` messages whose buffers are ready, one-shot; the host's thread sleeps while lanes work.
    fn fed(&mut self, times: usize) -> Fed {
        self.accelerator.registers().set_writes(Writes::OneShot);
        let mut buffers = vec![self.wire.clone(); times];
        let (all, own) = (processor(ClockId::ProcessCPUTime), processor(ClockId::ThreadCPUTime));
        let clock = Clock::shared();
        let start = clock.now();
        let mut done = 0;
        while done < times {
            while times - buffers.len() - done < self.window
                && let Some(buffer) = buffers.pop()
            {
                if let Err(Busy(buffer)) = self.accelerator.submit(self.class, buffer) {
                    buffers.push(buffer);
                    break;
                }
            }
            self.accelerator.wait();
            while let Some((_, message)) = self.accelerator.poll() {
                message.expect("a good message");
                done += 1;
            }
        }
        let each = |span: f64| span / times as f64;
        Fed {
            wall: each(clock.now().since(start).0 as f64),
            cpu: each(processor(ClockId::ProcessCPUTime) - all),
            host: each(processor(ClockId::ThreadCPUTime) - own),
            bytes: self.wire.len() as f64,
        }
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
        }
        clock.now().since(start).0 as f64 / times as f64
    }
}
