//! What the engine costs per request, and what its forms gain, through one port with edge and engine in the same thread.
//!
//! ```text
//! cargo bench -p millrace-engine --bench pass -- [--entries N] [--table BYTES] [--seconds S] [--quick] [--json]
//! ```
//! A request goes the whole way: submit, doorbell, admit, touch, execute, reply, poll, release; 64 of them to a pass. Three
//! services: *echo* answers eight bytes and touches nothing, so that all its time is the engine's; *chase* follows two
//! dependent random lines through a table much larger than the caches (`--entries` lines of 64 bytes); *deep* follows three; *worked* does the same
//! and carries about 100 ns of
//! dependent multiplications, half before the lines and half after, as parsing and formatting would. (Without such work the
//! out-of-order core overlaps neighbouring requests of the plain form by itself.)
//!
//! Variants run in turns, a short slice each, so that what the machine does meanwhile falls on all; ratios are to the plain
//! form of the same service, group and turn. At the end, *cores*: echo and worked on two engines in threads against one.

use base::pages::{PageKind, Region};
use base::prng::mix64;
use base::spread::quantile;
use base::touch::prefetch;
use base::{Bytes, Clock, Nanos, Prng, cpu};
use engine::{
    Cx, EdgePort, Engine, EngineOptions, Failure, Form, Handle, Messages, Service, ServiceOptions, Settings,
    TaskService,
};
use ring::arena::{Producer, Span};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests of one pass.
const DEPTH: usize = 64;
/// Requests of one slice.
const SLICE: usize = 1 << 13;
/// How requests are handled; `None` is the task form.
const FORMS: [(Option<Form>, &str); 4] = [
    (Some(Form::Plain), "plain"),
    (Some(Form::Staged), "staged"),
    (Some(Form::Coroutine), "coroutine"),
    (None, "task"),
];
const GROUPS: [usize; 4] = [1, 8, 16, 32];

struct Options {
    table: Bytes,
    seconds: f64,
    json: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options { table: Bytes(8_000_000 * 64), seconds: 15.0, json: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = |what: &str| args.next().ok_or(format!("{arg} needs {what}"));
        match arg.as_str() {
            "--table" => {
                options.table = value("a size")?.parse().map_err(|e| format!("--table: {e}"))?;
            }
            "--entries" => {
                let entries: u64 = value("a number")?.parse().map_err(|e| format!("--entries: {e}"))?;
                options.table = Bytes(entries * 64);
            }
            "--seconds" => {
                options.seconds = value("a number")?.parse().map_err(|e| format!("--seconds: {e}"))?;
            }
            "--quick" => (options.table, options.seconds) = (Bytes(128 << 20), 1.5),
            "--json" => options.json = true,
            "--bench" => {}
            _ => {
                return Err(format!(
                    "unknown option {arg}; known: --entries --table --seconds --quick --json"
                ));
            }
        }
    }
    if options.table.0 < 1 << 20 {
        return Err("--table must be at least 1 MiB".into());
    }
    Ok(options)
}

/// Answers a request with its own eight bytes.
#[derive(Clone)]
struct Echo;

impl Messages for Echo {
    type Request = u64;
    type Reply = Span;
}

impl Service for Echo {
    const TOUCHES: usize = 2;

    #[inline]
    fn touch_key(request: &u64) -> u64 {
        *request
    }

    #[inline]
    fn touch(&self, _: usize, _: u64) {}

    #[inline]
    fn tick(&mut self, _: Nanos) {}

    #[inline]
    fn execute(&mut self, request: &u64, out: &mut Producer) -> Option<Span> {
        out.push(&request.to_le_bytes())
    }

    fn expire(&mut self, request: &u64, out: &mut Producer) -> Option<Span> {
        self.execute(request, out)
    }
}

impl TaskService for Echo {
    type Output = u64;

    async fn handle(cx: Cx<Echo>, request: &u64) -> u64 {
        cx.touch(|_| ()).await;
        cx.touch(|_| ()).await;
        *request
    }

    fn reply(&self, _: &u64, output: &u64, out: &mut Producer) -> Option<Span> {
        out.push(&output.to_le_bytes())
    }

    fn failed(&self, request: &u64, _: Failure, out: &mut Producer) -> Option<Span> {
        out.push(&request.to_le_bytes())
    }
}

/// Follows a request's `N` lines through a table: each says where the next is.
#[derive(Clone)]
struct Chase<const N: usize> {
    table: Arc<Region>,
    lines: u64,
    /// Dependent multiplications before and after.
    work: u32,
    /// Always 0, which the compiler does not know: makes an address depend on the work before it.
    zero: u64,
}

impl<const N: usize> Chase<N> {
    fn over<const M: usize>(other: &Chase<M>, work: u32) -> Chase<N> {
        Chase { table: other.table.clone(), lines: other.lines, work, zero: other.zero }
    }

    fn new(bytes: Bytes, work: u32) -> std::io::Result<Chase<N>> {
        let mut table = Region::map(bytes.as_usize(), PageKind::Transparent)?;
        table.populate(0..table.len());
        let lines = bytes.0 / 64;
        for line in 0..lines {
            // SAFETY: inside the region, which nobody else has yet.
            unsafe { table.start().add(line as usize * 64).cast::<u64>().write(mix64(line)) };
        }
        Ok(Chase { table: Arc::new(table), lines, work, zero: black_box(0) })
    }

    /// The line that `random` falls on.
    #[inline]
    fn line(&self, random: u64) -> *const u64 {
        let line = ((u128::from(random) * u128::from(self.lines)) >> 64) as usize;
        self.table.start().wrapping_add(line * 64).cast()
    }

    #[inline]
    fn read(&self, line: *const u64) -> u64 {
        // SAFETY: `line` came from `Chase::line`, so it is inside the region, aligned, and written when that was made.
        unsafe { line.read() }
    }
}

impl<const N: usize> Messages for Chase<N> {
    type Request = u64;
    type Reply = Span;
}

impl<const N: usize> Service for Chase<N> {
    const TOUCHES: usize = N;

    #[inline]
    fn touch_key(request: &u64) -> u64 {
        *request
    }

    #[inline]
    fn touch(&self, step: usize, key: u64) {
        let line = (0..step).fold(self.line(key), |line, _| self.line(self.read(line)));
        prefetch(line.cast());
    }

    #[inline]
    fn tick(&mut self, _: Nanos) {}

    #[inline]
    fn execute(&mut self, request: &u64, out: &mut Producer) -> Option<Span> {
        let key = *request ^ (work(*request, self.work) & self.zero);
        let found = (0..N).fold(key, |key, _| self.read(self.line(key)));
        out.push(&work(found, self.work).to_le_bytes())
    }

    fn expire(&mut self, request: &u64, out: &mut Producer) -> Option<Span> {
        self.execute(request, out)
    }
}

impl<const N: usize> TaskService for Chase<N> {
    type Output = u64;

    async fn handle(cx: Cx<Chase<N>>, request: &u64) -> u64 {
        let mut key = cx.with(|chase| *request ^ (work(*request, chase.work) & chase.zero));
        for _ in 0..N {
            cx.touch(|chase| prefetch(chase.line(key).cast())).await;
            key = cx.with(|chase| chase.read(chase.line(key)));
        }
        cx.with(|chase| work(key, chase.work))
    }

    fn reply(&self, _: &u64, output: &u64, out: &mut Producer) -> Option<Span> {
        out.push(&output.to_le_bytes())
    }

    fn failed(&self, request: &u64, _: Failure, out: &mut Producer) -> Option<Span> {
        out.push(&request.to_le_bytes())
    }
}

#[inline]
fn work(start: u64, steps: u32) -> u64 {
    (0..steps).fold(start, |x, _| x.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (x >> 29))
}

/// Steps of work that take 50 ns.
fn calibrate() -> u32 {
    let took = (0..5).map(|_| {
        let start = Instant::now();
        black_box(work(black_box(3), 1_000_000));
        start.elapsed().as_nanos() as f64 / 1e6
    });
    (50.0 / took.fold(f64::MAX, f64::min)).round() as u32
}

/// Requests and replies of all services here.
trait Numbers: Service + TaskService + Messages<Request = u64, Reply = Span> + Clone {}

impl<S: Service + TaskService + Messages<Request = u64, Reply = Span> + Clone> Numbers for S {}

/// An engine and its one port.
struct Side<S: Numbers> {
    engine: Engine,
    handle: Handle<S>,
    edge: EdgePort<S>,
    prng: Prng,
    clock: Clock,
}

/// The same service in both forms.
struct Bench<S: Numbers> {
    staged: Side<S>,
    tasks: Side<S>,
}

impl<S: Numbers> Side<S> {
    fn new(add: impl FnOnce(&mut Engine) -> Handle<S>) -> Side<S> {
        let mut engine = Engine::new(EngineOptions::default());
        let handle = add(&mut engine);
        let edge = engine.open(handle, 256, 1 << 16).expect("the engine's first port");
        Side { engine, handle, edge, prng: Prng::new(7), clock: Clock::shared() }
    }

    /// Nanoseconds per request over one slice.
    fn slice(&mut self, settings: &Settings) -> f64 {
        self.engine.set_settings(self.handle, *settings);
        let keys: Vec<u64> = (0..SLICE).map(|_| self.prng.next_u64()).collect();
        let mut sum = 0;
        let start = Instant::now();
        for pass in keys.chunks_exact(DEPTH) {
            // As an edge does it: one reading of the clock for what one wake-up brought.
            let now = self.clock.now();
            for &key in pass {
                assert!(self.edge.submit(now, key).is_ok(), "the ring has room for {DEPTH}");
            }
            self.edge.ring();
            self.engine.pass();
            while let Some(reply) = self.edge.poll() {
                sum ^= self.edge.bytes(reply.body)[0];
                self.edge.release(reply.body);
            }
        }
        assert_eq!(self.edge.in_flight(), 0, "a pass answers all");
        black_box(sum);
        start.elapsed().as_nanos() as f64 / SLICE as f64
    }
}

impl<S: Numbers> Bench<S> {
    fn new(service: S) -> Bench<S> {
        let other = service.clone();
        Bench {
            staged: Side::new(|engine| engine.add(service, ServiceOptions::default())),
            tasks: Side::new(|engine| engine.add_task(other, ServiceOptions::default())),
        }
    }

    fn slice(&mut self, form: Option<Form>, group: usize) -> f64 {
        let settings = Settings { form: form.unwrap_or_default(), group, ..Settings::default() };
        if form.is_some() { self.staged.slice(&settings) } else { self.tasks.slice(&settings) }
    }
}

/// Requests per second of `cores` engines, each in a thread with its edge.
fn cores<S: Numbers>(service: &S, cores: &[usize]) -> f64 {
    let (start, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .map(|&core| {
                let (service, start, stop) = (service.clone(), &start, &stop);
                scope.spawn(move || {
                    let _ = cpu::pin_to(core);
                    let mut side = Side::new(|engine| engine.add(service, ServiceOptions::default()));
                    while !start.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    let (begun, mut slices) = (Instant::now(), 0);
                    while !stop.load(Ordering::Acquire) {
                        side.slice(&Settings::default());
                        slices += 1;
                    }
                    (slices * SLICE) as f64 / begun.elapsed().as_secs_f64()
                })
            })
            .collect();
        start.store(true, Ordering::Release);
        std::thread::sleep(Duration::from_millis(150));
        stop.store(true, Ordering::Release);
        threads.into_iter().map(|thread| thread.join().expect("a bench thread")).sum()
    })
}

/// Two engines on two cores over one, in turns; prints the ratio.
fn compare_cores<S: Numbers>(name: &str, service: &S, all: &[usize]) {
    let [.., first, second] = all[..] else { return println!("cores    {name}: there is one core") };
    let mut ratios = Vec::new();
    let (mut one, mut two) = (0.0, 0.0);
    for _ in 0..7 {
        one = cores(service, &[first]);
        two = cores(service, &[first, second]);
        ratios.push(two / one);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "cores    {name}: two engines over one {:.2} ({:.2}..{:.2}), last {:.1} over {:.1} M/s",
        at(&ratios, 50),
        at(&ratios, 5),
        at(&ratios, 95),
        two / 1e6,
        one / 1e6
    );
}

struct Row {
    service: &'static str,
    form: &'static str,
    group: usize,
    ns: Vec<f64>,
    ratios: Vec<f64>,
}

impl Row {
    fn all(service: &'static str) -> Vec<Row> {
        let of_group =
            |group| FORMS.map(|(_, form)| Row { service, form, group, ns: vec![], ratios: vec![] });
        GROUPS.into_iter().flat_map(of_group).collect()
    }

    fn finish(&mut self) {
        self.ns.sort_by(f64::total_cmp);
        self.ratios.sort_by(f64::total_cmp);
    }
}

/// One slice of every form and group.
fn turn<S: Numbers>(bench: &mut Bench<S>, rows: &mut [Row]) {
    for (group, rows) in GROUPS.into_iter().zip(rows.chunks_exact_mut(FORMS.len())) {
        let ns = FORMS.map(|(form, _)| bench.slice(form, group));
        for (row, ns_of_form) in rows.iter_mut().zip(ns) {
            row.ns.push(ns_of_form);
            row.ratios.push(ns[0] / ns_of_form);
        }
    }
}

/// The value below which `percent` of the sorted `values` lie.
fn at(values: &[f64], percent: u32) -> f64 {
    quantile(values, f64::from(percent) / 100.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let all = cpu::allowed_cores();
    let core = all.last().copied().unwrap_or(0);
    cpu::pin_to(core)?;
    let steps = calibrate();
    let chase = Chase::<2>::new(options.table, 0)?;
    let worked = Chase::<2>::over(&chase, steps);
    let mut deep = Bench::new(Chase::<3>::over(&chase, 0));
    let mut echo = Bench::new(Echo);
    let (mut chase, mut busy) = (Bench::new(chase), Bench::new(worked.clone()));
    let mut rows = ["echo", "chase", "deep", "worked"].map(Row::all);
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    while rows[0][0].ns.len() < 3 || Instant::now() < end {
        turn(&mut echo, &mut rows[0]);
        turn(&mut chase, &mut rows[1]);
        turn(&mut deep, &mut rows[2]);
        turn(&mut busy, &mut rows[3]);
    }
    let mut rows = rows.into_iter().flatten().collect::<Vec<_>>();
    rows.iter_mut().for_each(Row::finish);
    report(&options, core, &rows);
    if !options.json {
        compare_cores("echo", &Echo, &all);
        compare_cores("worked", &worked, &all);
    }
    Ok(())
}

fn report(options: &Options, core: usize, rows: &[Row]) {
    let (table, cpu) = (options.table, cpu::model_name());
    if options.json {
        let rows = rows.iter().map(|r| {
            let Row { service, form, group, ns, ratios } = r;
            format!(
                r#"{{"service":"{service}","form":"{form}","group":{group},"ns":{:.1},"ns_low":{:.1},"ns_high":{:.1},"ratio":{:.3},"low":{:.3},"high":{:.3}}}"#,
                at(ns, 50), at(ns, 5), at(ns, 95), at(ratios, 50), at(ratios, 5), at(ratios, 95)
            )
        });
        let rows = rows.collect::<Vec<_>>().join(",");
        println!(
            r#"{{"cpu":"{cpu}","core":{core},"table_bytes":{},"depth":{DEPTH},"rows":[{rows}]}}"#,
            table.0
        );
        return;
    }
    println!("core {core} of {cpu}; table {table}; {DEPTH} requests to a pass");
    println!("{:<8} {:>5}  {:<10} {:>18}   ratio to plain", "service", "group", "form", "ns/request");
    for Row { service, form, group, ns, ratios } in rows {
        println!(
            "{service:<8} {group:>5}  {form:<10} {:>6.1} ({:.1}..{:.1})   {:>5.2} ({:.2}..{:.2})",
            at(ns, 50),
            at(ns, 5),
            at(ns, 95),
            at(ratios, 50),
            at(ratios, 5),
            at(ratios, 95)
        );
    }
}
