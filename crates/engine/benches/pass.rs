//! What the engine costs per request, and what its forms gain, through one port with edge and engine in the same thread.
//!
//! ```text
//! cargo bench -p millrace-engine --bench pass -- [--table BYTES] [--seconds S] [--quick] [--json]
//! ```
//! A request goes the whole way: submit, doorbell, admit, touch, execute, reply, poll, release; 64 of them to a pass. Three
//! services: *echo* answers eight bytes and touches nothing, so that all its time is the engine's; *chase* follows two
//! dependent random lines through a table much larger than the caches; *worked* does the same and carries about 100 ns of
//! dependent multiplications, half before the lines and half after, as parsing and formatting would. (Without such work the
//! out-of-order core overlaps neighbouring requests of the plain form by itself.)
//!
//! Variants run in turns, a short slice each, so that what the machine does meanwhile falls on all; ratios are to the plain
//! form of the same service, group and turn.

use base::pages::{PageKind, Region};
use base::prng::mix64;
use base::spread::quantile;
use base::touch::prefetch;
use base::{Bytes, Clock, Nanos, Prng, cpu};
use engine::{EdgePort, Engine, Form, Service, Settings, port};
use ring::arena::{Producer, Span};
use ring::doorbell::Tracker;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Requests of one pass.
const DEPTH: usize = 64;
/// Requests of one slice.
const SLICE: usize = 1 << 13;
const FORMS: [(Form, &str); 3] =
    [(Form::Plain, "plain"), (Form::Staged, "staged"), (Form::Coroutine, "coroutine")];
const GROUPS: [usize; 4] = [1, 8, 16, 32];

struct Options {
    table: Bytes,
    seconds: f64,
    json: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options { table: Bytes(1 << 30), seconds: 15.0, json: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = |what: &str| args.next().ok_or(format!("{arg} needs {what}"));
        match arg.as_str() {
            "--table" => {
                options.table = value("a size")?.parse().map_err(|e| format!("--table: {e}"))?;
            }
            "--seconds" => {
                options.seconds = value("a number")?.parse().map_err(|e| format!("--seconds: {e}"))?;
            }
            "--quick" => (options.table, options.seconds) = (Bytes(128 << 20), 1.5),
            "--json" => options.json = true,
            "--bench" => {}
            _ => return Err(format!("unknown option {arg}; known: --table --seconds --quick --json")),
        }
    }
    if options.table.0 < 1 << 20 {
        return Err("--table must be at least 1 MiB".into());
    }
    Ok(options)
}

/// Answers a request with its own eight bytes.
struct Echo;

impl Service for Echo {
    type Request = u64;
    type Reply = Span;
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

/// Follows a request's two lines through a table: the first says where the second is.
struct Chase {
    table: Region,
    lines: u64,
    /// Dependent multiplications before and after.
    work: u32,
    /// Always 0, which the compiler does not know: makes an address depend on the work before it.
    zero: u64,
}

impl Chase {
    fn new(bytes: Bytes, work: u32) -> std::io::Result<Chase> {
        let mut table = Region::map(bytes.as_usize(), PageKind::Transparent)?;
        table.populate(0..table.len());
        let lines = bytes.0 / 64;
        for line in 0..lines {
            // SAFETY: inside the region, which nobody else has yet.
            unsafe { table.start().add(line as usize * 64).cast::<u64>().write(mix64(line)) };
        }
        Ok(Chase { table, lines, work, zero: black_box(0) })
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

impl Service for Chase {
    type Request = u64;
    type Reply = Span;
    const TOUCHES: usize = 2;

    #[inline]
    fn touch_key(request: &u64) -> u64 {
        *request
    }

    #[inline]
    fn touch(&self, step: usize, key: u64) {
        let first = self.line(key);
        let wanted = if step == 0 { first } else { self.line(self.read(first)) };
        prefetch(wanted.cast());
    }

    #[inline]
    fn tick(&mut self, _: Nanos) {}

    #[inline]
    fn execute(&mut self, request: &u64, out: &mut Producer) -> Option<Span> {
        let key = *request ^ (work(*request, self.work) & self.zero);
        let found = self.read(self.line(self.read(self.line(key))));
        out.push(&work(found, self.work).to_le_bytes())
    }

    fn expire(&mut self, request: &u64, out: &mut Producer) -> Option<Span> {
        self.execute(request, out)
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

/// An engine and its one port.
struct Bench<S: Service> {
    engine: Engine<S>,
    edge: EdgePort<S>,
    prng: Prng,
    clock: Clock,
}

impl<S: Service<Request = u64, Reply = Span>> Bench<S> {
    fn new(service: S) -> Bench<S> {
        let mut tracker = Tracker::heap(1);
        let (index, bell) = tracker.attach(256).expect("a table of one");
        let (edge, port) = port(256, 1 << 16, index, bell);
        let mut engine = Engine::new(service, tracker, 256);
        engine.attach(port);
        Bench { engine, edge, prng: Prng::new(7), clock: Clock::shared() }
    }

    /// Nanoseconds per request over one slice.
    fn slice(&mut self, form: Form, group: usize) -> f64 {
        let settings = Settings { form, group, ..Settings::default() };
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
            self.engine.run(&settings);
            while let Some(reply) = self.edge.poll() {
                sum ^= self.edge.bytes(reply.body)[0];
                self.edge.release(reply.body);
            }
        }
        black_box(sum);
        start.elapsed().as_nanos() as f64 / SLICE as f64
    }
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
fn turn<S: Service<Request = u64, Reply = Span>>(bench: &mut Bench<S>, rows: &mut [Row]) {
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
    let core = cpu::allowed_cores().last().copied().unwrap_or(0);
    cpu::pin_to(core)?;
    let steps = calibrate();
    let mut echo = Bench::new(Echo);
    let mut chase = Bench::new(Chase::new(options.table, 0)?);
    let mut rows = [Row::all("echo"), Row::all("chase"), Row::all("worked")];
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    while rows[0][0].ns.len() < 3 || Instant::now() < end {
        turn(&mut echo, &mut rows[0]);
        for (work, rows) in [0, steps].into_iter().zip(&mut rows[1..]) {
            chase.engine.service().work = work;
            turn(&mut chase, rows);
        }
    }
    let mut rows = rows.into_iter().flatten().collect::<Vec<_>>();
    rows.iter_mut().for_each(Row::finish);
    report(&options, core, &rows);
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
