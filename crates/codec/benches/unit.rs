//! What a compute unit costs beside calling its kernel, and what each kernel does per second.
//!
//! Two groups. Round trip: one task at a time with next to nothing to do, by how the two sides wait. Throughput: every kernel on 4 KiB,
//! 64 KiB and 1 MiB, four tasks in flight, over the whole of a sample. Each sample of a unit stands beside one of the kernel called directly, on the same
//! spans of the same memory; the ratio is taken within such a pair, so that whatever the host does hits both alike.
//!
//! A pair in which the host's thread or the unit's had to wait for its core is taken again, at most [`TRIES`] times as many in all;
//! how many were kept is printed. The host's thread and the unit's are pinned to two cores. Probes of the distance between them come first and last.
//!
//! What this cannot see is a core that the host of a virtual machine takes away, or that shares its execution units with another.
//! A ratio above 1 is that, or something like it: a pipeline of two threads around one kernel is not faster than the kernel.
//! Compare several runs before believing a row.
//!
//! `cargo bench -p millrace-codec --bench unit [-- --quick] [KERNEL]`

use base::pages::{PageKind, Region};
use base::spread;
use base::{Clock, Nanos, Prng, cpu};
use codec::unit::kernels::{
    Chain, Crc32c, Jpeg, Lz4Compress, Lz4Decompress, Open, Seal, SealingKey, Sha256, Thumbnail, ZstdCompress,
    ZstdDecompress, image,
};
use codec::unit::{AccMemory, Kernel, Options, Span, Task, Unit};
use ring::probe::ping_pong;
use ring::wait::WaitPolicy;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const KEY: [u8; 32] = [9; 32];
/// Tasks in flight, each with spans of its own.
const SLOTS: usize = 4;
/// Pairs taken at most for each that is to be kept. Samples are short, so that some fit between what others do on a shared machine.
const TRIES: u32 = 12;
/// A sample of throughput has at least so many tasks: the pipeline's filling and emptying must not count for much.
const LEAST: usize = 4 * SLOTS;
/// Room for one task's input, and as much again and more for its output.
const SLOT: usize = 4 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let quick = args.iter().any(|arg| arg == "--quick");
    let only = args.iter().find(|arg| !arg.starts_with("--"));
    let (repeats, time) = if quick { (3, Nanos::from_millis(1)) } else { (11, Nanos::from_millis(4)) };
    let Some(&cores) = cpu::allowed_cores().first_chunk::<2>() else {
        eprintln!("this benchmark needs two cores");
        return;
    };
    println!("{}, {repeats} pairs of samples of {time}; median [p10..p90]", cpu::model_name());
    print_probe(cores);
    // The probe pins threads of its own, so this one comes after.
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            cpu::pin_to(cores[0]).expect("an allowed core");
            if only.is_none() {
                round_trips(cores[1], repeats, time);
            }
            throughput(cores[1], repeats, time, only.map(String::as_str));
        });
        work.join().expect("no panic");
    });
    print_probe(cores);
}

fn print_probe(cores: [usize; 2]) {
    if let Some(probe) = ping_pong(cores, Duration::from_millis(20)) {
        println!("raw ping-pong between the two cores: {} ns", probe.round_trip.0);
    }
}

/// A memory with spans for every slot, filled with one input.
struct Bench {
    memory: Arc<Region>,
    input_len: u32,
}

impl Bench {
    fn new() -> Bench {
        let memory = Region::map(SLOTS * SLOT, PageKind::Transparent).expect("16 MiB");
        Bench { memory: Arc::new(memory), input_len: 0 }
    }

    fn fill(&mut self, input: &[u8]) {
        assert!(input.len() <= SLOT / 2);
        self.input_len = input.len() as u32;
        for slot in 0..SLOTS {
            let (span, _) = self.spans(slot);
            let to = self.memory.resolve(span).expect("inside");
            // SAFETY: `span` is inside the region, and no task is under way.
            unsafe { to.copy_from_nonoverlapping(std::ptr::NonNull::from(input).cast(), input.len()) };
        }
    }

    fn spans(&self, slot: usize) -> (Span, Span) {
        let (start, half) = ((slot * SLOT) as u64, SLOT / 2);
        (Span::new(start, self.input_len), Span::new(start + half as u64, half as u32))
    }

    /// The same task without a unit.
    fn call(&self, kernel: &mut dyn Kernel, slot: usize) -> usize {
        let (input, output) = self.spans(slot);
        let [from, to] = [input, output].map(|span| self.memory.resolve(span).expect("inside"));
        // SAFETY: inside the region, and no task is under way.
        let from = unsafe { std::slice::from_raw_parts(from.as_ptr(), input.len as usize) };
        // SAFETY: as above; the halves of a slot do not overlap.
        let to = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), output.len as usize) };
        kernel.run(from, to).expect("the input is good and there is room")
    }

    fn submit(&self, unit: &mut Unit, slot: usize) -> Task {
        let (input, output) = self.spans(slot);
        // SAFETY: each slot has one task at a time, and nobody else looks at it meanwhile.
        unsafe { unit.submit_task(input, output) }.expect("there is room for every slot")
    }
}

/// The time of one `step`, the median over batches.
fn time_of(time: Nanos, batch: u32, mut step: impl FnMut()) -> f64 {
    let clock = Clock::shared();
    let start = clock.now();
    let (mut last, mut batches) = (start, Vec::with_capacity(1 << 12));
    while last.since(start) < time || batches.len() < 3 {
        (0..batch).for_each(|_| step());
        let now = clock.now();
        batches.push(now.since(last).0 as f64 / f64::from(batch));
        last = now;
    }
    spread::median(batches)
}

/// Waits in each of the three ways, and takes turns with the direct call.
fn round_trips(core: usize, repeats: u32, time: Nanos) {
    println!("\nround trip of one task (CRC32C of 64 bytes), ns");
    println!("{:<10}{:<26}{:<26}times", "waiting", "called directly", "through a unit");
    let spin = WaitPolicy::SPIN;
    let soon = WaitPolicy::default();
    for (name, wait) in [("awake", spin), ("default", soon), ("asleep", WaitPolicy::BLOCK)] {
        let mut bench = Bench::new();
        bench.fill(&[1; 64]);
        let mut unit = Unit::new("bench", bench.memory.clone(), Options { wait, core: Some(core), tasks: 8 });
        unit.program(Crc32c).expect("a thread");
        let mut pairs = Pairs::default();
        for _ in 0..repeats {
            let direct = time_of(time, 64, || {
                std::hint::black_box(bench.call(&mut Crc32c, 0));
            });
            let through = time_of(time, 16, || {
                let task = bench.submit(&mut unit, 0);
                unit.wait(task).expect("a checksum");
            });
            pairs.add(direct, through, through / direct);
        }
        pairs.print(&format!("{name:<10}"), 0);
    }
}

fn throughput(core: usize, repeats: u32, time: Nanos, only: Option<&str>) {
    println!("\nthroughput, MB/s of uncompressed bytes, {SLOTS} tasks in flight");
    println!("{:<27}{:<9}{:<26}{:<26}times", "kernel", "kept", "called directly", "through a unit");
    let mut bench = Bench::new();
    for size in [4 << 10, 64 << 10, 1 << 20] {
        for (mut kernel, again, input) in cases(size) {
            let name = kernel.kernel_type().to_owned();
            if only.is_some_and(|only| only != name) {
                continue;
            }
            bench.fill(&input);
            let options = Options { core: Some(core), ..Options::default() };
            let mut unit = Unit::new("bench", bench.memory.clone(), options);
            unit.program(again).expect("a thread");
            let (mut pairs, mut taken) = (Pairs::default(), 0);
            while pairs.ratio.len() < repeats as usize && taken < TRIES * repeats {
                taken += 1;
                let direct = undisturbed(|| calls(&bench, &mut *kernel, time));
                let through = undisturbed(|| tasks(&bench, &mut unit, time));
                let rate = |ns: f64| size as f64 / ns * 1e3;
                if let (Some(direct), Some(through)) = (direct, through) {
                    pairs.add(rate(direct), rate(through), direct / through);
                }
            }
            let what = format!(
                "{name:<17}{:<10}{:<9}",
                base::Bytes(size as u64),
                format!("{}/{taken}", pairs.ratio.len())
            );
            pairs.print(&what, 0);
        }
    }
}

/// The sample, unless the threads of this process had to wait for a core for more than a twentieth of it: others ran there then.
fn undisturbed(sample: impl FnOnce() -> f64) -> Option<f64> {
    let clock = Clock::shared();
    let (start, waited) = (clock.now(), waited_for_cores());
    let value = sample();
    (waited_for_cores().since(waited).0 * 20 <= clock.now().since(start).0).then_some(value)
}

/// How long the threads of this process were ready and had no core, as the kernel counts it; zero where it does not.
fn waited_for_cores() -> Nanos {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = tasks.filter_map(|task| {
        let counts = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        counts.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Nanos(waited.sum())
}

fn calls(bench: &Bench, kernel: &mut dyn Kernel, time: Nanos) -> f64 {
    let clock = Clock::shared();
    let (start, mut done) = (clock.now(), 0);
    while done < LEAST || clock.now().since(start) < time {
        std::hint::black_box(bench.call(kernel, done % SLOTS));
        done += 1;
    }
    clock.now().since(start).0 as f64 / done as f64
}

/// From the first submission to the last outcome, with every slot busy between. Single steps say nothing here: while the host
/// sleeps several tasks end, and all but the first of their waits return at once.
fn tasks(bench: &Bench, unit: &mut Unit, time: Nanos) -> f64 {
    let clock = Clock::shared();
    let (start, mut done) = (clock.now(), 0);
    let mut running: VecDeque<_> = (0..SLOTS).map(|slot| (bench.submit(unit, slot), slot)).collect();
    while let Some((task, slot)) = running.pop_front() {
        unit.wait(task).expect("the input is good and there is room");
        done += 1;
        if done + running.len() < LEAST || clock.now().since(start) < time {
            running.push_back((bench.submit(unit, slot), slot));
        }
    }
    clock.now().since(start).0 as f64 / done as f64
}

type Case = (Box<dyn Kernel>, Box<dyn Kernel>, Vec<u8>);

/// Every kernel, twice, with an input that stands for `size` bytes.
fn cases(size: usize) -> Vec<Case> {
    let (text, raw) = (text(size), photograph(size));
    let key = SealingKey::new(&KEY, 1);
    let jpeg = output(&mut Jpeg::new(80), &raw);
    let secure = |key: &Arc<SealingKey>| {
        Chain::new("lz4 + aes-gcm", vec![Box::new(Lz4Compress), Box::new(Seal::new(key.clone()))])
    };
    vec![
        twice(|| Lz4Compress, text.clone()),
        twice(|| Lz4Decompress, output(&mut Lz4Compress, &text)),
        twice(|| ZstdCompress, text.clone()),
        twice(ZstdDecompress::new, output(&mut ZstdCompress, &text)),
        twice(|| Seal::new(key.clone()), text.clone()),
        twice(|| Open::new(&KEY), output(&mut Seal::new(key.clone()), &text)),
        twice(|| secure(&key), text.clone()),
        twice(|| Crc32c, text.clone()),
        twice(|| Sha256, text),
        twice(|| Jpeg::new(80), raw),
        twice(|| Thumbnail::new(128, 80), jpeg),
    ]
}

fn twice<K: Kernel + 'static>(make: impl Fn() -> K, input: Vec<u8>) -> Case {
    (Box::new(make()), Box::new(make()), input)
}

fn output(kernel: &mut dyn Kernel, input: &[u8]) -> Vec<u8> {
    let mut output = vec![0; SLOT / 2];
    let len = kernel.run(input, &mut output).expect("the input is good and there is room");
    output.truncate(len);
    output
}

/// Words of a small vocabulary, the first ones often: compresses about as a log does.
fn text(size: usize) -> Vec<u8> {
    let mut prng = Prng::new(1);
    let mut vocabulary = Vec::new();
    for _ in 0..2000 {
        let letters = 2 + prng.below(9);
        vocabulary.push((0..letters).map(|_| b'a' + prng.below(26) as u8).collect::<Vec<u8>>());
    }
    let mut out = Vec::with_capacity(size + 16);
    while out.len() < size {
        let rank = (prng.unit_f64() * prng.unit_f64() * vocabulary.len() as f64) as usize;
        out.extend(&vocabulary[rank]);
        out.push(b' ');
    }
    out.truncate(size);
    out
}

/// A raw image of about `size` bytes: gradients and a little noise.
fn photograph(size: usize) -> Vec<u8> {
    let mut prng = Prng::new(2);
    let side = ((size / 3) as f64).sqrt() as u32;
    let mut out = image::header(side, side).to_vec();
    for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
        let soft = [x * 200 / side, y * 200 / side, (x ^ y) & 127];
        out.extend(soft.map(|colour| colour as u8 + prng.below(8) as u8));
    }
    out
}

/// Samples of both sides, and their ratios.
#[derive(Default)]
struct Pairs {
    direct: Vec<f64>,
    through: Vec<f64>,
    ratio: Vec<f64>,
}

impl Pairs {
    fn add(&mut self, direct: f64, through: f64, ratio: f64) {
        self.direct.push(direct);
        self.through.push(through);
        self.ratio.push(ratio);
    }

    fn print(&self, what: &str, digits: usize) {
        if self.ratio.is_empty() {
            return println!("{what}disturbed by other processes, every time");
        }
        let [direct, through] =
            [&self.direct, &self.through].map(|values| spread::text(values.iter().copied(), digits));
        println!("{what}{direct:<26}{through:<26}{}", spread::text(self.ratio.iter().copied(), 2));
    }
}
