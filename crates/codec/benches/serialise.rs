//! What the three serialisers cost: crossings and bytes, the host's time, the accelerator's time; and when a copy engine pays.
//!
//! The crossings are exact and the same on every machine. The times are of one thread that plays both sides in turn, on
//! ordinary memory: the accelerator's column is software, and a crossing costs a copy here, not a round trip over PCIe.
//! Strategies are interleaved round by round; ratios are of one round's samples.
//!
//! A message with a field in accelerator memory can be serialised by the CPU only after it has been moved: one crossing write,
//! which its row counts, as RPCAcc's option 1 does.
//!
//! The first table is of a message that comes in and goes out again as it is, with nothing else on the link ([`codec::place::Passage`]): what a server's
//! accelerator makes cross for a request is held against the same count (`examples/images`, `images crossings`).
//!
//! `cargo bench -p millrace-codec --features compile --bench serialise [-- --quick]`

mod shapes;

use base::prng::Prng;
use base::spread;
use base::{Clock, cpu};
use codec::copy::{CopyEngine, Inline, Worker};
use codec::crossing::{Counts, Crossing, Shared};
use codec::decode::Decoder;
use codec::encode::{Accelerator, DEPTH, Host, Settings, Strategy};
use codec::memory::{Arena, Memory, Place};
use codec::object::{Ref, View};
use codec::place::{self, FieldId, Live, Options, Passage};
use codec::schema::Schema;
use codec::table::{Flags, Table};
use ring::wait::WaitPolicy;
use shapes::{Plan, Shape};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn main() {
    let plan = Plan::asked_for();
    // The worker's thread is not pinned: it goes where this one is not.
    let mut worker = Worker::spawn(64, WaitPolicy::default()).expect("a thread");
    let core = cpu::allowed_cores()[0];
    cpu::pin_to(core).expect("an allowed core");

    println!(
        "{:<26}{:<17}{:>8}{:>10}{:>9}{:>10}{:>7}{:>8}{:>9}{:>7}",
        "message, in and out",
        "strategy",
        "wire B",
        "written",
        "B",
        "notified",
        "bells",
        "reads",
        "B",
        "moved"
    );
    for shape in shapes::ALL {
        passages(shape);
    }
    println!();
    println!(
        "{:<26}{:<17}{:>8}{:>7}{:>7}{:>9}{:>7}{:>11}{:>22}{:>11}",
        "message",
        "strategy",
        "wire B",
        "bells",
        "reads",
        "read B",
        "writes",
        "host ns",
        "host, of CpuOnly's",
        "acc. ns"
    );
    for shape in shapes::ALL {
        strategies(shape, &plan);
    }
    println!("\n{:<26}{:>14}{:>22}", "bytes field", "by hand, ns", "by the worker, times");
    for kib in [4, 16, 64, 256, 1024, 4096] {
        engines(kib << 10, &mut worker, &plan);
    }
    println!("\n{}, core {core}, {} rounds", cpu::model_name(), plan.rounds);
}

/// A message in memory, as one strategy meets it.
struct Subject<'a> {
    schema: &'a Schema,
    table: Table,
    class: u32,
    memory: Arc<Memory>,
}

impl<'a> Subject<'a> {
    fn new(schema: &'a Schema) -> Subject<'a> {
        let memory = Memory::acc(64 << 20).expect("address space");
        Subject {
            schema,
            table: schema.table(),
            class: schema.class("Root").expect("every shape has one"),
            memory,
        }
    }

    fn decode<'b>(&self, bytes: &[u8], arena: &'b Arena) -> View<'b> {
        Decoder::default().owned(&self.table, self.class, bytes, arena).expect("these messages are good")
    }

    /// Moves the bytes fields with the target bit to accelerator memory, where a unit would have written them; how long
    /// they are, and where they are.
    fn move_to_acc(&self, root: View<'_>, acc: &Arena) -> Vec<u8> {
        let mut moved = Vec::new();
        for entry in self.table.entries(self.table.message(self.class)) {
            if entry.flags.has(Flags::ACC) {
                // SAFETY: a singular bytes field (the shapes have no other with a target), of an object that is ours.
                unsafe {
                    let bytes = root.bytes(entry.offset);
                    let to = acc.alloc(bytes.len()).expect("room").as_ptr();
                    to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                    moved.extend_from_slice(bytes);
                    let was: Ref = root.object().read(entry.offset);
                    root.object().write(entry.offset, Ref { addr: acc.addr(to), ..was });
                }
            }
        }
        moved
    }
}

/// One strategy's row.
struct Row<'a> {
    strategy: Strategy,
    root: View<'a>,
    /// What has to be moved to the host before.
    away: Vec<u8>,
    back: Vec<u8>,
    crossing: Shared,
    host: Host,
    accelerator: Accelerator,
    counts: Counts,
    wire: usize,
    host_ns: Vec<f64>,
    acc_ns: Vec<f64>,
}

impl Row<'_> {
    /// The host's part, `times` times; nanoseconds each.
    fn host(&mut self, subject: &Subject<'_>, times: usize) -> f64 {
        let clock = Clock::shared();
        let start = clock.now();
        for _ in 0..times {
            self.prepare(subject);
        }
        clock.now().since(start).0 as f64 / times as f64
    }

    fn prepare(&mut self, subject: &Subject<'_>) -> codec::encode::Bell {
        if let Some(to) = NonNull::new(self.back.as_mut_ptr()).filter(|_| !self.away.is_empty()) {
            // SAFETY: `back` is as long as `away`.
            unsafe { self.crossing.write(to, &self.away) };
        }
        let (table, class) = (&subject.table, subject.class);
        // SAFETY: decoded as this class of this table.
        let bell = unsafe { self.host.prepare(&self.crossing, self.strategy, table, class, self.root, 0) };
        black_box(bell.expect("a good message"))
    }

    /// The accelerator's part.
    fn accelerator(&mut self, subject: &Subject<'_>, times: usize) -> f64 {
        let bell = self.prepare(subject);
        let clock = Clock::shared();
        let start = clock.now();
        for _ in 0..times {
            // SAFETY: the bell is the last that this host prepared, and nothing is written meanwhile.
            let packet = unsafe { self.accelerator.serialise(&self.crossing, &subject.table, &bell, 64) };
            black_box(packet.expect("a good message"));
        }
        clock.now().since(start).0 as f64 / times as f64
    }

    /// Once, counted, and compared.
    fn check(&mut self, subject: &Subject<'_>, bytes: &[u8]) {
        let before = self.crossing.counts();
        let bell = self.prepare(subject);
        // SAFETY: as in `accelerator`.
        let packet = unsafe { self.accelerator.serialise(&self.crossing, &subject.table, &bell, 64) };
        assert_eq!(&packet.expect("a good message")[64..], bytes, "{:?}", self.strategy);
        self.counts = self.crossing.counts() - before;
        self.wire = bytes.len();
    }
}

/// A message in, and out again.
fn passages(shape: &Shape) {
    let schema = shape.schema();
    let (table, class) = (schema.table(), schema.class("Root").expect("every shape has one"));
    let bytes = shape.message(&schema, class, &mut Prng::new(1));
    let entries = (0..).zip(table.entries(table.message(class)));
    let placed = entries.filter(|(_, entry)| entry.flags.has(Flags::ACC));
    let fields: Vec<FieldId> = placed.map(|(entry, _)| FieldId { class, entry }).collect();
    for strategy in Strategy::ALL {
        let live = Arc::new(Live::new(table.clone()));
        let options = Options { threads: 0, acc_bytes: 16 << 20, ..Options::default() };
        let crossing = Arc::new(Shared::default());
        let mut accelerator =
            place::Accelerator::in_this_thread(vec![live], options, crossing).expect("memory");
        let passage =
            Passage::of(&mut accelerator, class, bytes.clone(), strategy, |accelerator, message| {
                // The CPU serialises what is on the host.
                for field in fields.iter().filter(|_| strategy == Strategy::CpuOnly) {
                    accelerator.move_field(message, &[*field], Place::Host)?;
                }
                Ok(None)
            });
        let passage = passage.expect("a good message");
        let Counts { writes, write_bytes, notifications, doorbells, reads, read_bytes, .. } = passage.all();
        println!(
            "{:<26}{:<17}{:>8}{writes:>10}{write_bytes:>9}{notifications:>10}{doorbells:>7}{reads:>8}{read_bytes:>9}{:>7}",
            shape.name,
            format!("{strategy:?}"),
            bytes.len(),
            if passage.worked == Counts::default() { "" } else { "yes" },
        );
    }
}

fn strategies(shape: &Shape, plan: &Plan) {
    let schema = shape.schema();
    let subject = Subject::new(&schema);
    let bytes = shape.message(subject.schema, subject.class, &mut Prng::new(1));
    let (arena, acc) = (Arena::default(), Arena::new(&subject.memory));
    let mut rows = Strategy::ALL.map(|strategy| {
        let root = subject.decode(&bytes, &arena);
        // The CPU's copy stays on the host: its field is moved before each message.
        let away = if strategy == Strategy::CpuOnly {
            let twin = subject.decode(&bytes, &arena);
            subject.move_to_acc(twin, &acc)
        } else {
            subject.move_to_acc(root, &acc);
            Vec::new()
        };
        let host = Host::new(Memory::process(), Inline, Arc::default(), DEPTH).expect("room");
        let mut row = Row {
            strategy,
            root,
            back: away.clone(),
            away,
            crossing: Shared::default(),
            host,
            accelerator: Accelerator::new(&subject.memory),
            counts: Counts::default(),
            wire: 0,
            host_ns: Vec::new(),
            acc_ns: Vec::new(),
        };
        row.check(&subject, &bytes);
        row
    });
    let times = rows.each_mut().map(|row| {
        let times = |ns: f64| (plan.sample_ns / ns.max(1.0)).max(1.0) as usize;
        (times(row.host(&subject, 1000)), times(row.accelerator(&subject, 100)))
    });
    for round in 0..plan.rounds {
        for turn in 0..rows.len() {
            let who = (round + turn) % rows.len();
            let host = rows[who].host(&subject, times[who].0);
            let accelerator = rows[who].accelerator(&subject, times[who].1);
            rows[who].host_ns.push(host);
            rows[who].acc_ns.push(accelerator);
        }
    }
    let alone = rows[0].host_ns.clone();
    for row in &rows {
        let Counts { doorbells, reads, read_bytes, writes, .. } = row.counts;
        let ratio = row.host_ns.iter().zip(&alone).map(|(own, alone)| own / alone);
        println!(
            "{:<26}{:<17}{:>8}{doorbells:>7}{reads:>7}{read_bytes:>9}{writes:>7}{:>11.1}{:>22}{:>11.1}",
            shape.name,
            format!("{:?}", row.strategy),
            row.wire,
            spread::median(row.host_ns.clone()),
            spread::text(ratio, 2),
            spread::median(row.acc_ns.clone()),
        );
    }
}

/// Pre-serialising a message that is one long field, copied by hand and by the worker.
fn engines(bytes: usize, worker: &mut Worker, plan: &Plan) {
    let shape = &shapes::ALL[2];
    let schema = shape.schema();
    let subject = Subject::new(&schema);
    let body = schema.messages()[subject.class as usize].field("body").expect("a field").number;
    let mut message = Vec::new();
    shapes::delimited(body, &vec![7; bytes], &mut message);
    let arena = Arena::default();
    let root = subject.decode(&message, &arena);
    let crossing = Shared::default();
    let settings = || Arc::new(Settings { copy_threshold_bytes: AtomicUsize::new(usize::MAX) });
    let register = settings();
    let mut hand = Host::new(Memory::process(), Inline, settings(), DEPTH).expect("room");
    let mut engine = Host::new(Memory::process(), worker, Arc::clone(&register), DEPTH).expect("room");
    register.copy_threshold_bytes.store(0, Relaxed);
    let times = (plan.sample_ns / time(&mut hand, &subject, root, &crossing, 10)).max(1.0) as usize;
    let (mut by_hand, mut ratio) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let (own, other);
        if round % 2 == 0 {
            own = time(&mut hand, &subject, root, &crossing, times);
            other = time(&mut engine, &subject, root, &crossing, times);
        } else {
            other = time(&mut engine, &subject, root, &crossing, times);
            own = time(&mut hand, &subject, root, &crossing, times);
        }
        by_hand.push(own);
        ratio.push(other / own);
    }
    let name = format!("{} KiB", bytes >> 10);
    let ratio = spread::text(ratio, 2);
    println!("{name:<26}{:>14.0}{ratio:>22}", spread::median(by_hand));
}

/// Pre-serialises `root`, `times` times; nanoseconds each.
fn time<E: CopyEngine>(
    host: &mut Host<E>,
    subject: &Subject<'_>,
    root: View<'_>,
    crossing: &Shared,
    times: usize,
) -> f64 {
    let clock = Clock::shared();
    let start = clock.now();
    for _ in 0..times {
        // SAFETY: decoded as this class of this table.
        let bell = unsafe {
            host.prepare(crossing, Strategy::MemoryAffinity, &subject.table, subject.class, root, 0)
        };
        black_box(bell.expect("a good message"));
    }
    clock.now().since(start).0 as f64 / times as f64
}
