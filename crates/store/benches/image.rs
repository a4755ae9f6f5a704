//! A replica's image on one core: puts, gets, the index, checkpoints; beside them a `HashMap<Vec<u8>, Vec<u8>>` of the standard library.
//!
//! ```text
//! cargo bench -p millrace-store --bench image -- [--items N] [--rounds N] [--quick]
//! ```
//! Keys of 16 bytes, drawn uniformly; values of 64 bytes and of 1 KB that are put again in place. A put of the image is what a head does for an entry
//! of one write: `place`, which makes the tuple that is logged, then `apply`; a follower does `apply` alone. The map is given the
//! same bytes: `insert` of a new `Vec`, or bytes copied into the one that is there.
//! Variants run in turns, a short slice each, and each ratio is to the map's figure of the same
//! turn, so that what the machine does meanwhile falls on both. Everything is on one thread.

use base::prng::mix64;
use base::spread::median;
use base::{Bytes, Prng, cpu};
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};
use store::image::checkpoint::{Checkpoint, Step};
use store::image::{Config, Image, Space, Write};
use store::redo::media::{File, How, Media, Memory};
use tempfile::TempDir;

const SLICE: usize = 50_000;
const USER: Space = Space(0);

struct Options {
    items: u64,
    rounds: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options { items: 1_000_000, rounds: 15 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number =
            || args.next().and_then(|n| n.replace('_', "").parse::<u64>().ok()).filter(|&n| n > 0);
        match arg.as_str() {
            "--items" => options.items = number().ok_or("--items needs a count")?,
            "--rounds" => options.rounds = number().ok_or("--rounds needs a count")? as usize,
            "--quick" => options = Options { items: 50_000, rounds: 3 },
            "--bench" => {}
            _ => return Err(format!("unknown option {arg}; known: --items --rounds --quick")),
        }
    }
    Ok(options)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix64(number).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Both sides, with the same items.
struct Sides {
    image: Image,
    map: HashMap<Vec<u8>, Vec<u8>>,
    lsn: u64,
    value: Vec<u8>,
    tuples: Vec<(u64, Vec<u8>)>,
}

impl Sides {
    fn new(items: u64, len: usize) -> Sides {
        // A slot is a quarter larger than what is in it at most, and pages are not quite full.
        let bytes = (items * (len as u64 + 32) * 4 / 3).max(16 << 20);
        let config = Config { items: items as usize + 1000, ..Config::new(bytes) };
        let image = Image::new(&config).expect("the address space");
        let mut sides = Sides { image, map: HashMap::new(), lsn: 0, value: vec![0; len], tuples: Vec::new() };
        for number in 0..items {
            sides.put(number);
            sides.map.insert(key(number).to_vec(), sides.value.clone());
        }
        sides
    }

    fn place(&mut self, number: u64) {
        self.lsn += 1;
        self.value[..8].copy_from_slice(&self.lsn.to_le_bytes());
        let key = key(number);
        let write = Write { space: USER, key: &key, value: Some(&self.value) };
        let tuples = &mut self.tuples;
        self.image.place(self.lsn, &[write], |offset, data| tuples.push((offset, data))).expect("room");
    }

    fn apply(&mut self) {
        let tuples = self.tuples.iter().map(|(offset, data)| (*offset, &data[..]));
        self.image.apply(self.lsn, tuples).expect("its own");
    }

    fn put(&mut self, number: u64) {
        self.place(number);
        self.apply();
        self.tuples.clear();
    }
}

const VARIANTS: [&str; 6] = [
    "image, get",
    "HashMap, get",
    "image, put (place and apply)",
    "image, apply alone",
    "HashMap, insert of a new Vec",
    "HashMap, copy in place",
];

fn slice(sides: &mut Sides, variant: usize, numbers: &[u64]) -> Duration {
    let mut sum = 0u64;
    let start = Instant::now();
    match variant {
        0 => {
            for &number in numbers {
                let item = sides.image.read(USER, &key(number)).expect("it is there");
                sum += u64::from(item.value[item.value.len() - 1]);
            }
        }
        1 => {
            for &number in numbers {
                let value = &sides.map[&key(number)[..]];
                sum += u64::from(value[value.len() - 1]);
            }
        }
        2 => numbers.iter().for_each(|&number| sides.put(number)),
        3 => return apply_alone(sides, numbers),
        4 => {
            for &number in numbers {
                sides.map.insert(key(number).to_vec(), sides.value.clone());
            }
        }
        _ => {
            for &number in numbers {
                let value = sides.map.get_mut(&key(number)[..]).expect("it is there");
                value.copy_from_slice(&sides.value);
            }
        }
    }
    let taken = start.elapsed();
    black_box(sum);
    taken
}

/// What a follower does: the tuples are there, as they come out of the log.
fn apply_alone(sides: &mut Sides, numbers: &[u64]) -> Duration {
    let mut entries = Vec::with_capacity(numbers.len());
    for &number in numbers {
        sides.place(number);
        let tuples = std::mem::take(&mut sides.tuples);
        sides.image.release(tuples.iter().map(|(offset, data)| (*offset, &data[..])));
        entries.push((sides.lsn, tuples));
    }
    let start = Instant::now();
    for (lsn, tuples) in &entries {
        let tuples = tuples.iter().map(|(offset, data)| (*offset, &data[..]));
        sides.image.apply(*lsn, tuples).expect("its own");
    }
    start.elapsed()
}

fn operations(sides: &mut Sides, options: &Options) {
    let mut prng = Prng::new(5);
    let mut samples = [const { Vec::new() }; VARIANTS.len()];
    for round in 0..options.rounds {
        for turn in 0..VARIANTS.len() {
            let variant = (turn + round) % VARIANTS.len();
            let numbers: Vec<u64> = (0..SLICE).map(|_| prng.below(options.items)).collect();
            let taken = slice(sides, variant, &numbers);
            samples[variant].push(taken.as_nanos() as f64 / SLICE as f64);
        }
    }
    println!("  {:<30} {:>8} {:>9}   ratio to the map", "", "ns/op", "Mops/s");
    for (variant, name) in VARIANTS.iter().enumerate() {
        let beside = if variant < 2 { 1 } else { 4 };
        let ratios = samples[beside].iter().zip(&samples[variant]).map(|(map, this)| map / this);
        let ns = median(samples[variant].clone());
        println!("  {name:<30} {ns:>8.0} {:>9.2}   {:.2}", 1000.0 / ns, median(ratios));
    }
}

fn whole(sides: &mut Sides, options: &Options) {
    let rounds = options.rounds.clamp(1, 5);
    let applied = sides.image.applied();
    let extent = sides.image.extent();
    let index = median(timed(rounds, || sides.image.index(applied).expect("whole")));
    let digest = median(timed(rounds, || assert_ne!(black_box(sides.image.digest()), 0)));
    let map = median(timed(rounds, || {
        let mut map = HashMap::new();
        sides.image.items(USER, |key, item| drop(map.insert(key.to_vec(), item.value.to_vec())));
        black_box(map.len());
    }));
    let items = sides.image.len() as f64;
    println!(
        "  index: {:.0} ms, {:.0} ns an item; the same items into a new HashMap: {:.0} ms",
        index * 1e3,
        index * 1e9 / items,
        map * 1e3
    );
    println!(
        "  digest: {:.0} ms, {:.1} GB/s over {}",
        digest * 1e3,
        extent as f64 / digest / 1e9,
        Bytes(extent)
    );
}

fn timed(rounds: usize, mut what: impl FnMut()) -> Vec<f64> {
    let mut once = || {
        let start = Instant::now();
        what();
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(|_| once()).collect()
}

/// The whole image, then one in which a thousand items have changed; then it is opened.
fn checkpoints<M: Media>(name: &str, medium: M, sides: &mut Sides, options: &Options) {
    let mut checkpoint = Checkpoint::create(medium, sides.image.config()).expect("a medium of its size");
    let mut prng = Prng::new(9);
    let save = |checkpoint: &mut Checkpoint<M>, image: &mut Image| {
        let before = checkpoint.counters();
        let start = Instant::now();
        assert!(checkpoint.begin(image));
        while checkpoint.step(image, 1 << 20).expect("the medium works") == Step::More {}
        let seconds = start.elapsed().as_secs_f64();
        let after = checkpoint.counters();
        let (bytes, persists) = (after.bytes - before.bytes, after.persists - before.persists);
        println!(
            "  {name}: {} in {:.0} ms, {:.0} MB/s, {persists} persists",
            Bytes(bytes),
            seconds * 1e3,
            bytes as f64 / seconds / 1e6
        );
    };
    // Every block counts as changed once it is loaded.
    let bytes = sides.image.chunk(0, usize::MAX).to_vec();
    sides.image.load(0, &bytes).expect("its own");
    sides.image.index(sides.lsn).expect("whole");
    drop(bytes);
    save(&mut checkpoint, &mut sides.image);
    for _ in 0..1000 {
        sides.put(prng.below(options.items));
    }
    save(&mut checkpoint, &mut sides.image);
    let config = sides.image.config().clone();
    let start = Instant::now();
    let opened = Checkpoint::open(checkpoint.into_media(), &config).expect("whole");
    assert!(opened.damaged.is_empty());
    println!("  {name}: opened in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// The same on a file in the folder for temporary ones, written beforehand, as a replica's is.
fn on_file(bytes: u64, sides: &mut Sides, options: &Options) -> std::io::Result<()> {
    let folder = TempDir::with_prefix("millrace-")?;
    let file = File::create(&folder.path().join("image"), bytes, How::Fdatasync)?;
    checkpoints("file, fdatasync", file, sides, options);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    println!("{} items, keys of 16 B, {}", options.items, cpu::model_name());
    for len in [64, 1024] {
        println!("\nvalues of {len} B");
        let sides = &mut Sides::new(options.items, len);
        let items = options.items as f64;
        println!("  {:.0} B of image per item of {} B", sides.image.extent() as f64 / items, len + 16);
        operations(sides, &options);
        whole(sides, &options);
        let bytes = Checkpoint::<Memory>::medium_bytes(sides.image.config());
        sides.map = HashMap::new();
        checkpoints("memory", Memory::new(bytes as usize), sides, &options);
        if len == 64 {
            on_file(bytes, sides, &options)?;
        }
    }
    Ok(())
}
