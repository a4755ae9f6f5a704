//! Gather-reduce on one core against the machine's limit for random rows, a naive loop and PyTorch, all in one run.
//!
//! ```text
//! cargo bench -p millrace-rec --bench reduce -- [--rows N] [--dim D] [--batch B] [--seconds S] [--prefetch A] [--pytorch PYTHON] [--quick]
//!     [--lists FILE [--log FILE]]
//! ```
//! Tables of N rows (1 GiB of f32 at the default) in each format hold the same numbers. Ids are uniform, drawn beforehand; bars run in turns, a slice of 65,536
//! rows each, no slice twice within the reach of a cache, so that what the machine does meanwhile falls on all. Percentages of the limit and ratios are
//! taken within a turn; *read* is rows read for each that was asked. Medians and the middle nine tenths are printed.
//! Time is the thread's own: what else runs on the core counts only by what it
//! does to the caches.
//!
//! The *limit* reads a word of each line of each row, prefetched to whatever level and distance is best, for rows of the same bytes. It is probed alone before
//! and after, too: where the two differ much, the machine changed under the run.
//!
//! With `--pytorch` `compare/rec/embedding_bag.py` takes part, in its own process on the same core.
//! With `--lists` (text as `Lists::read` takes it) queries are drawn from the file too, and memo plans take part, grown over `--log`; without one
//! over four fifths of the lists, and the other fifth is asked, so that no query was seen before.
//!
//! A new bar is a line in [`bars_of`].

mod bars;
mod loads;
mod memo;
mod peer;

use bars::Bar;
use base::spread::{median, quantile, sorted};
use base::{Bytes, Prng, cpu, pages};
use loads::{Lengths, Load};
use memo::Tiled;
use peer::Peer;
use rec::lists::Style;
use rec::memo::{Growth, Limits};
use rec::{Kernel, Lists, Pooling, RowFormat, Table, Tuning, reduce};
use std::error::Error;
use std::time::{Duration, Instant};

struct Options {
    rows: u32,
    dim: usize,
    batch: usize,
    seconds: f64,
    prefetch: usize,
    pytorch: Option<String>,
    lists: Option<String>,
    log: Option<String>,
}

fn options() -> Result<Options, String> {
    let prefetch = Tuning::default().prefetch;
    let mut options = Options {
        rows: 1 << 22,
        dim: 64,
        batch: 256,
        seconds: 8.0,
        prefetch,
        pytorch: None,
        lists: None,
        log: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value =
            |what: &str| args.next().ok_or(format!("{arg} needs {what}")).map(|v| v.replace('_', ""));
        let wrong = |e: &dyn std::fmt::Display| format!("{arg}: {e}");
        match arg.as_str() {
            "--rows" => options.rows = value("a count")?.parse().map_err(|e| wrong(&e))?,
            "--dim" => options.dim = value("a count")?.parse().map_err(|e| wrong(&e))?,
            "--batch" => options.batch = value("a count")?.parse().map_err(|e| wrong(&e))?,
            "--seconds" => options.seconds = value("a number")?.parse().map_err(|e| wrong(&e))?,
            "--prefetch" => options.prefetch = value("a count of rows")?.parse().map_err(|e| wrong(&e))?,
            "--pytorch" => options.pytorch = Some(args.next().ok_or("--pytorch needs a python with torch")?),
            "--lists" => options.lists = Some(args.next().ok_or("--lists needs a file")?),
            "--log" => options.log = Some(args.next().ok_or("--log needs a file")?),
            "--quick" => (options.rows, options.seconds) = (1 << 18, 0.5),
            "--bench" => {}
            _ => return Err(format!("unknown option {arg}; the head of benches/reduce/main.rs names all")),
        }
    }
    if options.rows == 0 || options.batch == 0 || options.dim == 0 || !options.dim.is_multiple_of(2) {
        return Err("--rows and --batch must be at least 1, --dim even".into());
    }
    Ok(options)
}

/// The number at a place of the table; the Python side computes the same.
fn number(place: u32) -> f32 {
    let mixed = place.wrapping_mul(0x9E37_79B1);
    let mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85EB_CA6B);
    (mixed >> 8) as f32 / (1 << 24) as f32 - 0.5
}

fn table(options: &Options, format: RowFormat) -> std::io::Result<Table> {
    let dim = options.dim;
    Table::from_rows(options.rows, dim, format, |at, row| {
        let first = at.wrapping_mul(dim as u32);
        row.iter_mut().zip(0..).for_each(|(x, column)| *x = number(first.wrapping_add(column)));
    })
}

/// Everything that is compared on `loads`. Ratios are to the naive loop; a limit is that of the bars of its bytes.
fn bars_of<'a>(
    options: &Options,
    tables: &'a [Table],
    peer: Option<&'a Peer>,
    loads: &'a [Load],
) -> Vec<Bar<'a>> {
    let best = Kernel::best();
    let [f32s, others @ ..] = tables else { unreachable!("a table of each format") };
    let mut bars = vec![
        bars::naive(f32s, loads),
        bars::limit(f32s.bytes(), f32s.stride(), loads),
        bars::kernel(best, f32s, 0, loads),
        bars::kernel(best, f32s, options.prefetch, loads),
    ];
    if best != Kernel::Portable {
        let second = Kernel::available().filter(|&kernel| kernel != best).last().unwrap_or(best);
        bars.push(bars::kernel(second, f32s, options.prefetch, loads));
    }
    bars.extend(peer.map(|peer| peer.bar("f32", f32s.stride(), loads)));
    for table in others {
        bars.push(bars::limit(table.bytes(), table.stride(), loads));
        bars.push(bars::kernel(best, table, options.prefetch, loads));
        if table.format() == RowFormat::Int8 {
            bars.extend(peer.map(|peer| peer.bar("int8", table.stride(), loads)));
        }
    }
    bars
}

/// Seconds and rows of each bar, turn after turn.
fn measure(bars: &mut [Bar<'_>], loads: &[Load], seconds: f64) -> Vec<Vec<bars::Sample>> {
    let mut samples: Vec<Vec<bars::Sample>> = bars.iter().map(|_| Vec::new()).collect();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut turns: Vec<usize> = (0..bars.len()).collect();
    let mut prng = Prng::new(3);
    let mut slice = 0;
    while samples[0].len() < 5 || Instant::now() < end {
        // Everybody comes after everybody: what the one before leaves in the caches falls on all.
        (1..turns.len()).for_each(|at| turns.swap(at, prng.below(at as u64 + 1) as usize));
        for &bar in &turns {
            // A slice untimed: page tables and what else a bar needs beside its rows are there as they are when it runs alone.
            (bars[bar].run)(slice);
            samples[bar].push((bars[bar].run)((slice + 1) % loads.len()));
            slice = (slice + 2) % loads.len();
        }
    }
    samples
}

/// A median and the middle nine tenths.
fn spread(values: &[f64], digits: usize) -> String {
    let values = sorted(values.iter().copied());
    let [low, middle, high] = [0.05, 0.5, 0.95].map(|part| quantile(&values, part));
    format!("{middle:.digits$} ({low:.digits$}..{high:.digits$})")
}

fn print(bars: &[Bar<'_>], samples: &[Vec<bars::Sample>], asked: f64) {
    println!(
        "{:<38} {:>8} {:>7} {:>5}   {:<21} {:<19} times PyTorch",
        "", "Mrows/s", "GB/s", "read", "% of the limit", "times naive"
    );
    // Rows that were asked and bytes that were read, for each second.
    let asked_rate = |bar: usize| -> Vec<f64> { samples[bar].iter().map(|s| asked / s.seconds).collect() };
    let byte_rate = |bar: usize| -> Vec<f64> {
        samples[bar].iter().map(|s| (s.rows * bars[bar].row_bytes) as f64 / s.seconds).collect()
    };
    let ratios = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a / b).collect() };
    let naive = asked_rate(0);
    let pytorch = bars.iter().position(|bar| bar.name == "f32 PyTorch").map(asked_rate);
    for (nth, bar) in bars.iter().enumerate() {
        let (rows, bytes) = (asked_rate(nth), byte_rate(nth));
        let limit =
            bars.iter().position(|other| other.name.starts_with("limit") && other.row_bytes == bar.row_bytes);
        let part = limit.map(|limit| {
            let parts: Vec<f64> = ratios(&bytes, &byte_rate(limit)).iter().map(|part| part * 100.0).collect();
            spread(&parts, 0)
        });
        println!(
            "{:<38} {:>8.1} {:>7.2} {:>5.2}   {:<21} {:<19} {}",
            bar.name,
            median(rows.iter().copied()) / 1e6,
            median(bytes.iter().copied()) / 1e9,
            samples[nth].iter().map(|s| s.rows).sum::<usize>() as f64 / (asked * samples[nth].len() as f64),
            part.unwrap_or_default(),
            spread(&ratios(&rows, &naive), 2),
            pytorch.as_ref().map_or(String::new(), |pytorch| spread(&ratios(&rows, pytorch), 2))
        );
    }
}

/// The limit for a table's rows, measured alone.
fn probe(table: &Table, loads: &[Load]) -> String {
    let mut limit = bars::limit(table.bytes(), table.stride(), loads);
    let rate = |at| {
        let sample = (limit.run)(at);
        (sample.rows * limit.row_bytes) as f64 / sample.seconds / 1e9
    };
    let rates: Vec<f64> = (0..loads.len()).map(rate).collect();
    spread(&rates, 1)
}

/// That PyTorch sums the same.
fn compare(peer: &Peer, table: &Table, mode: &str, load: &Load) -> Result<f32, Box<dyn Error>> {
    let batch = &load[0];
    let mut ours = vec![0.0; batch.len() * table.dim()];
    reduce(table, &batch.bags(), Pooling::Sum, Tuning::default(), &mut ours)?;
    let theirs = peer.sums(mode)?;
    assert_eq!(ours.len(), theirs.len(), "a sum for each of ours");
    Ok(ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max))
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let core = cpu::allowed_cores().last().copied().unwrap_or(0);
    cpu::pin_to(core)?;
    eprintln!("filling {} rows of {} numbers in four formats …", options.rows, options.dim);
    let tables: Vec<Table> =
        RowFormat::ALL.into_iter().map(|format| table(&options, format)).collect::<Result<_, _>>()?;
    let peer = options
        .pytorch
        .as_ref()
        .map(|python| Peer::start(python, options.rows, options.dim, core))
        .transpose()?;
    let huge = Bytes(pages::huge_bytes_in_use()?);
    println!(
        "{} rows of {} numbers, core {core} of {}, kernel {}",
        options.rows,
        options.dim,
        cpu::model_name(),
        Kernel::best()
    );
    println!(
        "f32 table {}, huge pages of the process {huge}, {} bags a call",
        Bytes(tables[0].len_bytes() as u64),
        options.batch
    );
    // As many slices as reach over the smallest table's lines some times.
    let slices = if options.rows > 1 << 20 { 96 } else { 24 };
    for lengths in [Lengths::Fixed(80), Lengths::Lognormal(6.0, 16.0)] {
        println!("\n{lengths}");
        let loads = loads::uniform(slices, options.rows, options.batch, lengths, 7);
        section(&options, &tables, peer.as_ref(), &loads, Vec::new())?;
    }
    let Some(path) = &options.lists else { return Ok(()) };
    let (log, lists) = read_lists(path, options.log.as_deref())?;
    if lists.features() > options.rows {
        return Err(
            format!("the lists speak of {} rows; use as many --rows at least", lists.features()).into()
        );
    }
    let tiled = memo::draw(&lists, slices, options.rows, options.batch);
    let bags: usize = tiled.loads.iter().flatten().map(loads::Batch::len).sum();
    let ids: usize = tiled.loads.iter().flatten().map(|batch| batch.values.len()).sum();
    println!(
        "\n{path}: {} queries, {} copies of {} rows, {:.1} ids a bag; {} of the queries are in the log",
        lists.len(),
        tiled.tiles,
        lists.features(),
        ids as f64 / bags as f64,
        lists.repeats(&log)
    );
    let extra = memo_bars(&options, &tables, &tiled, &log)?;
    section(&options, &tables, peer.as_ref(), &tiled.loads, extra)
}

/// The log that plans are grown over, and the lists that are asked.
fn read_lists(lists: &str, log: Option<&str>) -> Result<(Lists, Lists), Box<dyn Error>> {
    let read = |path: &str| -> Result<Lists, Box<dyn Error>> {
        let file = std::fs::File::open(path).map_err(|e| format!("{path}: {e}"))?;
        Ok(Lists::read(std::io::BufReader::new(file), Style::Weighted).map_err(|e| format!("{path}: {e}"))?)
    };
    match log {
        Some(log) => Ok((read(log)?, read(lists)?)),
        None => Ok(read(lists)?.split(0.2, 1)),
    }
}

fn memo_bars<'a>(
    options: &Options,
    tables: &[Table],
    tiled: &'a Tiled,
    log: &Lists,
) -> Result<Vec<Bar<'a>>, Box<dyn Error>> {
    eprintln!("growing plans …");
    let growth = Growth::new(log, 2.0, Limits::default(), |_| ());
    let (kernel, ahead) = (Kernel::best(), options.prefetch);
    let mut bars = vec![tiled.remap(&growth.plan(1.5), &tables[0], kernel, ahead)?];
    let mut bytes = tables.iter().map(Table::len_bytes).sum::<usize>() + tables[0].len_bytes();
    // Keys made before, as by a preprocessing core; and, once for each format, made in the time that counts.
    let cases = [(1.25, false), (1.5, false), (2.0, false), (1.5, true)];
    for format in [RowFormat::F32, RowFormat::Int8] {
        for (budget, timed) in cases {
            let plan = growth.plan(budget);
            let rows = plan.arena_rows() as usize * tiled.tiles as usize;
            bytes += rows * format.row_bytes(tables[0].dim());
            bars.push(tiled.memo(plan, budget, &tables[0], format, timed, (kernel, ahead))?);
        }
    }
    let huge = pages::huge_bytes_in_use()?;
    println!("all tables {}, huge pages of the process {}", Bytes(bytes as u64), Bytes(huge));
    if (huge as f64) < bytes as f64 * 0.97 {
        println!(
            "WARNING: some tables are on small pages, which halves their rate. Free memory first, as root: \
             echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory"
        );
    }
    Ok(bars)
}

/// Measures all bars on `loads`, and `extra` ones, and prints them.
fn section<'a>(
    options: &Options,
    tables: &'a [Table],
    peer: Option<&'a Peer>,
    loads: &'a [Load],
    extra: Vec<Bar<'a>>,
) -> Result<(), Box<dyn Error>> {
    let asked: usize = loads.iter().flatten().map(|batch| batch.values.len()).sum();
    println!("probe before: limit {} GB/s", probe(&tables[0], loads));
    if let Some(peer) = peer {
        let index = peer.load(loads)?;
        for (table, mode) in [(&tables[0], "f32"), (&tables[2], "int8")] {
            let off = compare(peer, table, mode, &loads[0])?;
            println!("{}, {index}: {mode} sums differ by at most {off:.1e}", peer.version);
        }
    }
    let mut bars = bars_of(options, tables, peer, loads);
    bars.extend(extra);
    let samples = measure(&mut bars, loads, options.seconds);
    print(&bars, &samples, asked as f64 / loads.len() as f64);
    println!("probe after: limit {} GB/s; {} turns", probe(&tables[0], loads), samples[0].len());
    Ok(())
}
