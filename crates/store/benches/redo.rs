//! The redo log on each medium: one persist per record against group commit, recovery, and bytes written per byte of payload.
//!
//! ```text
//! cargo bench -p millrace-store --bench redo -- [--dir DIR] [--memory-dir DIR] [--seconds S] [--quick]
//! ```
//! `--dir` (default: the current directory) is where files are put, and says which disk is measured; `--memory-dir` (default: `/dev/shm`)
//! is where the mapped file is. All variants run in turns, a slice each, so that what the machine does meanwhile falls on all; ratios are
//! to one persist per record of the same turn, and medians over turns.
//!
//! *held* is the time that the driver's thread spends in the log's calls when it does not wait but asks `sync_is_done` and goes on with
//! other things meanwhile: where a medium can begin a sync without waiting, that is far less than the time until it is durable.

use base::spread::median;
use base::{Bytes, Clock, Nanos, cpu};
use std::io;
use std::path::{Path, PathBuf};
use store::redo::media::{Emulated, File, How, Mapped, Media, Memory, Traits, Uring};
use store::redo::{HEADER, Judge, Log};

const IDENTITY: u64 = 7;
const LEN: u64 = 32 << 20;
/// Bytes of a payload: a transaction that writes one value of 64 bytes.
const PAYLOAD: usize = 160;
const GROUPS: [usize; 3] = [1, 8, 64];

struct Options {
    dir: PathBuf,
    memory_dir: PathBuf,
    seconds: f64,
    records: u64,
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { dir: ".".into(), memory_dir: "/dev/shm".into(), seconds: 20.0, records: 100_000 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--dir" => options.dir = value()?.into(),
            "--memory-dir" => options.memory_dir = value()?.into(),
            "--seconds" => options.seconds = value()?.parse().map_err(|e| format!("--seconds: {e}"))?,
            "--quick" => (options.seconds, options.records) = (1.0, 10_000),
            "--bench" => {}
            _ => return Err(format!("unknown option {arg}; known: --dir --memory-dir --seconds --quick")),
        }
    }
    Ok(options)
}

/// A file that goes when this does.
struct Place(PathBuf);

impl Place {
    fn new(dir: &Path, name: &str) -> Place {
        Place(dir.join(format!(".millrace-redo-{name}-{}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Nanoseconds per record.
struct Sample {
    durable: f64,
    held: f64,
}

struct Subject {
    name: String,
    log: Log<Box<dyn Media>>,
    /// By group.
    samples: [Vec<Sample>; GROUPS.len()],
    _place: Option<Place>,
}

fn subjects(options: &Options) -> Vec<Subject> {
    let mut subjects = Vec::new();
    let mut add = |name: &str, place: Option<Place>, medium: io::Result<Box<dyn Media>>| match medium {
        Err(e) => println!("{name}: skipped: {e}"),
        Ok(medium) => {
            let log = Log::create(medium, IDENTITY).expect("a new medium that is large enough");
            subjects.push(Subject {
                name: name.to_string(),
                log,
                samples: Default::default(),
                _place: place,
            });
        }
    };
    fn boxed<M: Media + 'static>(medium: M) -> Box<dyn Media> {
        Box::new(medium)
    }
    for (name, how) in [("file, fdatasync", How::Fdatasync), ("file, O_DSYNC", How::Dsync)] {
        let place = Place::new(&options.dir, if how == How::Dsync { "dsync" } else { "fdatasync" });
        let file = File::create(&place.0, LEN, how);
        add(name, Some(place), file.map(boxed));
    }
    let place = Place::new(&options.dir, "uring");
    let uring = File::create(&place.0, LEN, How::Fdatasync).and_then(Uring::new);
    add("file, io_uring linked", Some(place), uring.map(boxed));
    let place = Place::new(&options.memory_dir, "mapped");
    let mapped = Mapped::create(&place.0, LEN);
    let name = mapped
        .as_ref()
        .map_or("mapped".to_string(), |m| format!("mapped, {} ({:?})", m.instruction(), m.class()));
    add(&name, Some(place), mapped.map(boxed));
    add("memory", None, Ok(boxed(Memory::new(LEN as usize))));
    for latency in [0, 100, 300, 1000] {
        let traits = Traits { latency: Nanos(latency), ..Traits::OPTANE };
        let medium = Emulated::new(Memory::new(LEN as usize), traits);
        add(&format!("emulated, {latency} ns"), None, Ok(boxed(medium)));
    }
    subjects
}

/// Appends and syncs for a while; at least one group.
fn slice(log: &mut Log<Box<dyn Media>>, group: usize, span: Nanos, clock: Clock) -> Sample {
    let payload = [0x5A; PAYLOAD];
    let (start, mut held, mut records) = (clock.now(), Nanos::ZERO, 0);
    while records == 0 || clock.now().since(start) < span {
        if log.room() < (group * (PAYLOAD + HEADER)) as u64 {
            log.release(log.last());
            (0..2).for_each(|_| assert!(log.sync().is_ok(), "the medium works"));
        }
        let from = clock.now();
        for _ in 0..group {
            log.append(log.last() + 1, 1, &[&payload]).expect("room was made");
        }
        log.begin_sync().expect("the medium works");
        held = held.plus(clock.now().since(from));
        while !log.sync_is_done() {
            std::hint::spin_loop();
        }
        let from = clock.now();
        log.end_sync().expect("the medium works");
        held = held.plus(clock.now().since(from));
        records += group;
    }
    let per = |span: Nanos| span.0 as f64 / records as f64;
    Sample { durable: per(clock.now().since(start)), held: per(held) }
}

fn group_commit(options: &Options) {
    let clock = Clock::shared();
    let mut subjects = subjects(options);
    let variants = subjects.len() * GROUPS.len();
    let turns = 15;
    let span = Nanos((options.seconds * 1e9) as u64 / (turns * variants) as u64);
    for _ in 0..turns {
        for subject in &mut subjects {
            for (group, samples) in GROUPS.into_iter().zip(&mut subject.samples) {
                samples.push(slice(&mut subject.log, group, span, clock));
            }
        }
    }
    println!(
        "\ngroup commit, {PAYLOAD} B payloads: ns per record until durable (held), ratio to one persist per record"
    );
    println!("{:<28}{:>22}{:>28}{:>28}", "", "1 per persist", "8", "64");
    for subject in &subjects {
        print!("{:<28}", subject.name);
        let alone: Vec<f64> = subject.samples[0].iter().map(|sample| sample.durable).collect();
        for (number, samples) in subject.samples.iter().enumerate() {
            let durable = median(samples.iter().map(|sample| sample.durable));
            let held = median(samples.iter().map(|sample| sample.held));
            print!("{:>22}", format!("{durable:.0} ({held:.0})"));
            if number > 0 {
                let ratios = samples.iter().zip(&alone).map(|(sample, alone)| alone / sample.durable);
                print!("{:>6.1}", median(ratios));
            }
        }
        println!();
    }
}

fn recovery(options: &Options) -> io::Result<()> {
    println!("\nrecovery, {} records, read from the page cache or memory", options.records);
    for payload in [PAYLOAD, 1024] {
        let len = (options.records * (HEADER + payload.next_multiple_of(8)) as u64) + (1 << 20);
        let place = Place::new(&options.dir, "recovery");
        let media: [(&str, Box<dyn Media>); 2] = [
            ("file", Box::new(File::create(&place.0, len, How::Fdatasync)?)),
            ("memory", Box::new(Memory::new(len as usize))),
        ];
        for (name, medium) in media {
            let mut log = Log::create(medium, IDENTITY).expect("a new medium that is large enough");
            for lsn in 1..=options.records {
                log.append(lsn, 1, &[&vec![lsn as u8; payload]]).expect("room for all");
                if lsn % 1024 == 0 {
                    log.sync().expect("the medium works");
                }
            }
            log.sync().expect("the medium works");
            let mut medium = log.into_media();
            let clock = Clock::shared();
            let times = (0..7).map(|_| {
                let from = clock.now();
                let opened = Log::open(
                    std::mem::replace(&mut medium, Box::new(Memory::new(1))),
                    IDENTITY,
                    Judge::Proof,
                );
                let (log, recovery) = opened.expect("it was just made");
                let time = clock.now().since(from);
                assert_eq!(recovery.records, options.records);
                medium = log.into_media();
                time.0 as f64 / 1e6
            });
            println!("{name:<8} {payload:>5} B payloads, ring of {}: {:.1} ms", Bytes(len), median(times));
        }
    }
    Ok(())
}

fn amplification() {
    println!("\nbytes written per byte of payload: by the log, in blocks of 256 B, in pages of 4 KiB");
    for payload in [64, PAYLOAD, 1024] {
        for group in GROUPS {
            let blocks = |block| {
                let traits = Traits { latency: Nanos::ZERO, bandwidth: 0, block };
                let mut log =
                    Log::create(Emulated::new(Memory::new(LEN as usize), traits), IDENTITY).expect("it fits");
                let (_, before) = log.media().bytes_in_and_out();
                let counted = log.counters().written_bytes;
                for lsn in 1..=4096 {
                    log.append(lsn, 1, &[&vec![0; payload]]).expect("room for all");
                    if lsn % group as u64 == 0 {
                        log.sync().expect("memory does not fail");
                    }
                }
                let bytes = (4096 * payload) as f64;
                let out = log.media().bytes_in_and_out().1 - before;
                ((log.counters().written_bytes - counted) as f64 / bytes, out as f64 / bytes)
            };
            let ((log, small), (_, large)) = (blocks(256), blocks(4096));
            println!("{payload:>5} B, {group:>2} per persist: {log:>6.2}{small:>8.2}{large:>8.2}");
        }
    }
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2);
        }
    };
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{}; load before {}", cpu::model_name(), load().trim());
    group_commit(&options);
    if let Err(e) = recovery(&options) {
        println!("recovery: skipped: {e}");
    }
    amplification();
    println!("\nload after {}", load().trim());
}
