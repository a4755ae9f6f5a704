//! What it costs to have the memory of a store in files, and what handing it over takes.
//!
//! ```text
//! cargo bench -p millrace-store --bench warm -- [--items N] [--value BYTES] [--rounds N] [--directory DIR] [--quick]
//! ```
//! Two stores hold the same items, one in anonymous memory, one in files of a directory (a tmpfs, unless told otherwise). GETs and
//! SETs of random keys run on either in turns of a short slice, the order changing; a ratio is of two neighbours. Anonymous memory is
//! measured on 4 KiB pages and on transparent huge ones. Then the store in files is closed and taken over, several times.

use base::pages::PageKind;
use base::prng::mix64;
use base::spread::{median, quantile, sorted};
use base::{Bytes, Prng};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;
use store::warm::{Asked, Start, Whose};
use store::{Config, GetHow, Key, Mode, SetHow, Store};

const NOW: u32 = 1_000_000;
/// Operations of a slice.
const SLICE: usize = 200_000;

struct Options {
    items: u64,
    value: usize,
    rounds: usize,
    directory: PathBuf,
}

fn options() -> Result<Options, String> {
    let directory = format!("/dev/shm/millrace-bench-{}", std::process::id()).into();
    let mut options = Options { items: 8_000_000, value: 48, rounds: 31, directory };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |text: String| text.replace('_', "").parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match arg.as_str() {
            "--items" => options.items = number(value()?)?.max(1),
            "--value" => options.value = number(value()?)? as usize,
            "--rounds" => options.rounds = number(value()?)?.max(3) as usize,
            "--directory" => options.directory = value()?.into(),
            "--quick" => (options.items, options.rounds) = (200_000, 5),
            "--bench" => {}
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(options)
}

fn key_bytes(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix64(number).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

fn config(options: &Options, pages: PageKind) -> Config {
    let item = (28 + 16 + options.value).next_multiple_of(8) + 17;
    let mut config =
        Config::new(Mode::Store, (options.items as usize * item).max(4 << 20) * 17 / 16 + (32 << 20));
    config.pages = pages;
    config.expected_items = options.items as usize;
    config
}

fn set(store: &mut Store, number: u64, value: &[u8]) {
    let (bytes, hasher) = (key_bytes(number), *store.hasher());
    let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
    store.set(NOW, key, value, &SetHow::default()).expect("room was reckoned for all items");
}

fn fill(store: &mut Store, options: &Options) {
    let value = vec![7; options.value];
    (0..options.items).for_each(|number| set(store, number, &value));
}

fn gets(store: &mut Store, options: &Options, prng: &mut Prng) {
    let hasher = *store.hasher();
    for _ in 0..SLICE {
        let bytes = key_bytes(prng.below(options.items));
        let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
        black_box(store.get(NOW, key, &GetHow::PLAIN).map(|hit| hit.value().len()));
    }
}

fn sets(store: &mut Store, options: &Options, prng: &mut Prng) {
    let value = vec![prng.next_u64() as u8; options.value];
    // Another length each other time, so that values are also appended.
    let short = &value[..options.value - options.value.min(8)];
    for n in 0..SLICE {
        set(store, prng.below(options.items), if n % 2 == 0 { &value } else { short });
    }
}

type Slice = fn(&mut Store, &Options, &mut Prng);

/// Nanoseconds per operation.
fn timed(slice: Slice, store: &mut Store, options: &Options, seed: u64) -> f64 {
    let begun = Instant::now();
    slice(store, options, &mut Prng::new(seed));
    begun.elapsed().as_nanos() as f64 / SLICE as f64
}

fn compare(name: &str, slice: Slice, pair: [&mut Store; 2], options: &Options) {
    let [anonymous, files] = pair;
    let (mut plain, mut shared, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds as u64 {
        let (a, f) = if round % 2 == 0 {
            let a = timed(slice, anonymous, options, round);
            (a, timed(slice, files, options, round))
        } else {
            let f = timed(slice, files, options, round);
            (timed(slice, anonymous, options, round), f)
        };
        plain.push(a);
        shared.push(f);
        ratios.push(f / a);
    }
    let ratios = sorted(ratios);
    println!(
        "{name:<36} {:>6.0} ns  {:>6.0} ns  {:.2} [{:.2}..{:.2}]",
        median(plain),
        median(shared),
        median(ratios.iter().copied()),
        quantile(&ratios, 0.1),
        quantile(&ratios, 0.9)
    );
}

fn main() -> Result<(), String> {
    let options = options()?;
    let resume = || {
        Store::resume(
            &Asked::of(&options.directory, Whose::Node),
            config(&options, PageKind::Transparent),
            NOW,
        )
    };
    let (mut files, start) = resume().map_err(|e| e.to_string())?;
    println!("{start:?}, {} items, {} values, {}", options.items, options.value, files.stats().heap_pages);
    fill(&mut files, &options);
    println!("{:<36} anonymous     files  ratio [10..90 %]", "");
    for pages in [PageKind::Base, PageKind::Transparent] {
        let mut anonymous = Store::new(config(&options, pages)).map_err(|e| e.to_string())?;
        fill(&mut anonymous, &options);
        compare(&format!("GET, {pages}"), gets, [&mut anonymous, &mut files], &options);
        compare(&format!("SET, {pages}"), sets, [&mut anonymous, &mut files], &options);
    }
    for _ in 0..5 {
        let bytes = files.stats().memory;
        let begun = Instant::now();
        files.hand_over(NOW)?;
        let closed = begun.elapsed();
        let begun = Instant::now();
        let (store, start) = resume().map_err(|e| e.to_string())?;
        let taken = begun.elapsed();
        let Start::Warm { items, .. } = start else { return Err(format!("{start:?}")) };
        println!(
            "{} of memory, {items} items: closed in {closed:.1?}, taken over in {taken:.1?}",
            Bytes(bytes as u64)
        );
        files = store;
    }
    drop(files);
    std::fs::remove_dir_all(&options.directory).map_err(|e| e.to_string())
}
