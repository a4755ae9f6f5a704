//! GET on one core: the plain loop, the staged form, coroutines, and two well-known hash maps, all in one run.
//!
//! ```text
//! cargo bench -p millrace-store --bench lookup -- [--items N] [--seconds S] [--zipf THETA] [--quick] [--json]
//! ```
//! Items have 16-byte keys and 48-byte values. Everybody draws the same keys, uses the same hash function, reads the whole value,
//! and lives on transparent huge pages (the maps through glibc's tunable, for which the program starts itself again). Variants
//! run in turns, a short slice each, so that what the machine does meanwhile falls on all; ratios are to the plain loop of the
//! same turn.
//!
//! *With work* each request also carries about 100 ns of dependent multiplications, half before its key is known and half
//! after its value is: a stand-in for parsing and formatting. Without it the out-of-order core overlaps neighbouring
//! requests of the plain loop by itself and hides what interleaving is for.

mod report;

use base::hash::Hasher64;
use base::prng::mix64;
use base::spread::{median, quantile, sorted};
use base::{Bytes, Prng, cpu, pages};
use dashmap::DashMap;
use hashbrown::HashTable;
use report::{Report, Row};
use std::collections::VecDeque;
use std::future::Future;
use std::hash::{BuildHasher, Hash, Hasher};
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use store::{Config, GetHow, Key, Mode, SetHow, SharedStore, Store};

const NOW: u32 = 1_000_000;

struct Options {
    items: u64,
    seconds: f64,
    zipf: Option<f64>,
    json: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options { items: 50_000_000, seconds: 20.0, zipf: None, json: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = |what: &str| args.next().ok_or(format!("{arg} needs {what}"));
        match arg.as_str() {
            "--items" => {
                options.items =
                    value("a count")?.replace('_', "").parse().map_err(|e| format!("--items: {e}"))?
            }
            "--seconds" => {
                options.seconds = value("a number")?.parse().map_err(|e| format!("--seconds: {e}"))?
            }
            "--zipf" => {
                options.zipf =
                    Some(value("an exponent below 1")?.parse().map_err(|e| format!("--zipf: {e}"))?)
            }
            "--quick" => (options.items, options.seconds) = (2_000_000, 2.0),
            "--json" => options.json = true,
            "--bench" => {}
            _ => return Err(format!("unknown option {arg}; known: --items --seconds --zipf --quick --json")),
        }
    }
    if options.items == 0 || options.zipf.is_some_and(|t| !(0.0..1.0).contains(&t)) {
        return Err("--items must be at least 1 and --zipf in 0..1".into());
    }
    Ok(options)
}

/// The key of item `number`.
#[inline(always)]
fn key_bytes(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix64(number).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

fn value_bytes(number: u64) -> [u8; 48] {
    let mut value = [0; 48];
    value.chunks_mut(8).for_each(|c| c.copy_from_slice(&number.to_le_bytes()));
    value
}

#[inline(always)]
fn sum(value: &[u8]) -> u64 {
    value.chunks_exact(8).fold(0, |sum, c| {
        let mut word = [0; 8];
        word.copy_from_slice(c);
        sum ^ u64::from_le_bytes(word).rotate_left((sum & 63) as u32)
    })
}

/// Which item a request asks for: Zipf after Gray et al. (SIGMOD 1994), or uniform. Hot items are scattered.
#[derive(Clone, Copy)]
struct Choice {
    items: u64,
    zipf: Option<(f64, f64, f64, f64)>,
}

impl Choice {
    fn new(items: u64, theta: Option<f64>) -> Choice {
        let zipf = theta.map(|theta| {
            // The tail of the sum as an integral: exact enough beyond a million terms.
            let head = items.min(1_000_000);
            let mut zeta: f64 = (1..=head).map(|i| (i as f64).powf(-theta)).sum();
            let power = 1.0 - theta;
            zeta += ((items as f64).powf(power) - (head as f64).powf(power)) / power;
            let two = 1.0 + 0.5f64.powf(theta);
            let eta = (1.0 - (2.0 / items as f64).powf(power)) / (1.0 - two / zeta);
            (theta, zeta, 1.0 / power, eta)
        });
        Choice { items, zipf }
    }

    #[inline(always)]
    fn of(&self, random: u64) -> u64 {
        let Some((theta, zeta, alpha, eta)) = self.zipf else {
            return ((u128::from(random) * u128::from(self.items)) >> 64) as u64;
        };
        let u = (random >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let uz = u * zeta;
        let rank = if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5f64.powf(theta) {
            1
        } else {
            (self.items as f64 * (eta * u - eta + 1.0).powf(alpha)) as u64
        };
        mix64(rank) % self.items
    }
}

/// The numbers of a run: drawn beforehand, so that no variant pays for drawing.
struct Load {
    randoms: Vec<u64>,
    /// Steps of work before the key and again after the value.
    steps: u32,
}

/// `steps` multiplications, each of which needs the one before.
#[inline(always)]
fn work(mut x: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1;
    }
    x
}

/// The item a request wants: known only after the first half of its work.
#[inline(always)]
fn parse(number: u64, steps: u32) -> u64 {
    // The work's result changes nothing, but the compiler and the core cannot know.
    number + (work(number | 1, steps) & 1) - 1
}

#[inline(always)]
fn answer(found: Option<&[u8]>, steps: u32) -> u64 {
    let value = found.map_or(0, sum);
    if steps == 0 { value } else { work(value | 1, steps) }
}

/// `parse` where there is work; otherwise the number itself.
#[inline(always)]
fn wanted(number: u64, steps: u32) -> u64 {
    if steps == 0 { number } else { parse(number, steps) }
}

#[inline(never)]
fn plain(store: &mut Store, load: &Load) -> u64 {
    let hasher = *store.hasher();
    let mut total = 0u64;
    for &number in &load.randoms {
        let bytes = key_bytes(wanted(number, load.steps));
        let Some(key) = Key::new(&bytes, &hasher) else { continue };
        total ^= answer(store.get(NOW, key, &GetHow::PLAIN).map(|h| h.value()), load.steps);
    }
    total
}

#[inline(never)]
fn staged<const GROUP: usize>(store: &mut Store, load: &Load) -> u64 {
    let hasher = *store.hasher();
    let mut total = 0u64;
    let mut bytes = [[0u8; 16]; GROUP];
    for group in load.randoms.chunks_exact(GROUP) {
        for (bytes, &number) in bytes.iter_mut().zip(group) {
            *bytes = key_bytes(wanted(number, load.steps));
        }
        let keys: [Key<'_>; GROUP] =
            std::array::from_fn(|i| Key::new(&bytes[i], &hasher).expect("16 bytes are a key"));
        store.get_batch(NOW, &keys, GROUP, &GetHow::PLAIN, |_, hit| {
            total ^= answer(hit.map(|h| h.value()), load.steps);
        });
    }
    total
}

async fn serve(shared: &SharedStore, hasher: &Hasher64, number: u64, steps: u32) -> u64 {
    let bytes = key_bytes(wanted(number, steps));
    let key = Key::new(&bytes, hasher).expect("16 bytes are a key");
    shared.get(NOW, key, GetHow::PLAIN, |hit| answer(hit.map(|h| h.value()), steps)).await
}

#[inline(never)]
fn coroutines<const FLIGHT: usize>(shared: &SharedStore, load: &Load) -> u64 {
    let hasher = shared.with(|s| *s.hasher());
    let mut numbers = load.randoms.iter().copied();
    let mut total = 0u64;
    let mut cx = Context::from_waker(Waker::noop());
    let start = |number| serve(shared, &hasher, number, load.steps);
    let mut table: [_; FLIGHT] =
        std::array::from_fn(|_| start(numbers.next().expect("more requests than slots")));
    loop {
        for future in &mut table {
            // SAFETY: the table is not moved after this first poll, and each future is replaced in place by Pin::set.
            let mut future = unsafe { Pin::new_unchecked(future) };
            if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                total ^= value;
                let Some(number) = numbers.next() else { return total };
                future.set(start(number));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct PlainKey([u8; 16]);

impl Hash for PlainKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

#[derive(Clone)]
struct SameHash(Hasher64);

struct SameHasher(Hasher64, u64);

impl Hasher for SameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.1 = self.0.hash(bytes);
    }
    fn finish(&self) -> u64 {
        self.1
    }
}

impl BuildHasher for SameHash {
    type Hasher = SameHasher;
    fn build_hasher(&self) -> SameHasher {
        SameHasher(self.0, 0)
    }
}

type Dash = DashMap<PlainKey, [u8; 48], SameHash>;
type Swiss = HashTable<(PlainKey, [u8; 48])>;

#[inline(never)]
fn dashmap_loop(map: &Dash, load: &Load) -> u64 {
    let mut total = 0u64;
    for &number in &load.randoms {
        let hit = map.get(&PlainKey(key_bytes(wanted(number, load.steps))));
        total ^= answer(hit.as_ref().map(|v| &v.value()[..]), load.steps);
    }
    total
}

#[inline(never)]
fn hashbrown_loop(map: &Swiss, hasher: &Hasher64, load: &Load) -> u64 {
    let mut total = 0u64;
    for &number in &load.randoms {
        let bytes = key_bytes(wanted(number, load.steps));
        let hit = map.find(hasher.hash(&bytes), |(key, _)| key.0 == bytes);
        total ^= answer(hit.map(|(_, value)| &value[..]), load.steps);
    }
    total
}

/// Everything that is measured, and the store in one of its two wrappings.
struct Bench {
    shared: SharedStore,
    dash: Option<Dash>,
    swiss: Option<Swiss>,
    hasher: Hasher64,
}

const VARIANTS: [&str; 9] = [
    "plain loop",
    "staged 8",
    "staged 16",
    "staged 32",
    "coroutine 8",
    "coroutine 16",
    "coroutine 32",
    "dashmap",
    "hashbrown",
];

impl Bench {
    /// Runs one slice; `None` for a peer that had no room.
    fn run(&mut self, variant: usize, load: &Load) -> Option<u64> {
        let shared = &self.shared;
        Some(match variant {
            0 => shared.with(|s| plain(s, load)),
            1 => shared.with(|s| staged::<8>(s, load)),
            2 => shared.with(|s| staged::<16>(s, load)),
            3 => shared.with(|s| staged::<32>(s, load)),
            4 => coroutines::<8>(shared, load),
            5 => coroutines::<16>(shared, load),
            6 => coroutines::<32>(shared, load),
            7 => dashmap_loop(self.dash.as_ref()?, load),
            _ => hashbrown_loop(self.swiss.as_ref()?, &self.hasher, load),
        })
    }
}

fn fill_store(items: u64) -> Store {
    // 96 bytes in the log, 14.2 in the index at its target, and slack for segments in hand.
    let memory = (items as usize * 113).max(4 << 20) * 17 / 16 + (32 << 20);
    let mut config = Config::new(Mode::Store, memory);
    config.expected_items = items as usize;
    let mut store = Store::new(config).expect("the address space");
    let hasher = *store.hasher();
    for number in 0..items {
        let bytes = key_bytes(number);
        let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
        store
            .set(NOW, key, &value_bytes(number), &SetHow::default())
            .expect("room was reckoned for all items");
    }
    store
}

/// Bytes of a swiss table for `items` of 64 bytes: a power of two of slots at 7/8 load, with one control byte each.
fn map_bytes(items: u64) -> u64 {
    (items * 8 / 7).next_power_of_two() * 65
}

fn fill_dash(items: u64, hasher: Hasher64) -> Dash {
    let map = DashMap::with_capacity_and_hasher(items as usize, SameHash(hasher));
    for number in 0..items {
        map.insert(PlainKey(key_bytes(number)), value_bytes(number));
    }
    map
}

fn fill_swiss(items: u64, hasher: Hasher64) -> Swiss {
    let mut map = HashTable::with_capacity(items as usize);
    for number in 0..items {
        let key = PlainKey(key_bytes(number));
        map.insert_unique(hasher.hash(&key.0), (key, value_bytes(number)), |(key, _)| hasher.hash(&key.0));
    }
    map
}

/// Steps of work that take 50 ns.
fn calibrate() -> (u32, f64) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        black_box(work(black_box(3), 1_000_000));
        best = best.min(start.elapsed().as_nanos() as f64 / 1e6);
    }
    ((50.0 / best).round() as u32, best)
}

fn measure(bench: &mut Bench, choice: Choice, steps: u32, seconds: f64) -> Vec<Row> {
    const SLICE: usize = 1 << 17;
    let mut samples = vec![Vec::new(); VARIANTS.len()];
    let mut prng = Prng::for_entity(7, u64::from(steps), 0);
    let mut draw = || Load { randoms: (0..SLICE).map(|_| choice.of(prng.next_u64())).collect(), steps };
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut turns: VecDeque<usize> = (0..VARIANTS.len()).collect();
    while samples[0].len() < 3 || Instant::now() < end {
        let mut turn = [f64::NAN; VARIANTS.len()];
        for &variant in &turns {
            let load = draw();
            let start = Instant::now();
            let total = black_box(bench.run(variant, &load));
            if total.is_some() {
                turn[variant] = start.elapsed().as_nanos() as f64 / SLICE as f64;
            }
        }
        samples.iter_mut().zip(turn).for_each(|(s, t)| s.push(t));
        // Everybody comes after everybody.
        turns.rotate_left(2);
    }
    let (plain, dash) = (samples[0].clone(), samples[7].clone());
    let rows = VARIANTS.iter().zip(&samples).filter(|(_, s)| !s[0].is_nan());
    rows.map(|(name, samples)| {
        let ratios = sorted(plain.iter().zip(samples).map(|(p, s)| p / s));
        let at = |q| quantile(&ratios, q);
        let to_dashmap = median(dash.iter().zip(samples).map(|(d, s)| d / s));
        Row { name, ns: median(samples.clone()), ratio: at(0.5), low: at(0.05), high: at(0.95), to_dashmap }
    })
    .collect()
}

/// Starts this program again with glibc told to use huge pages, so that the peers have them too.
fn with_huge_malloc() -> std::io::Result<()> {
    use std::os::unix::process::CommandExt;
    if std::env::var_os("GLIBC_TUNABLES").is_some() {
        return Ok(());
    }
    let mut again = std::process::Command::new(std::env::current_exe()?);
    Err(again.args(std::env::args_os().skip(1)).env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1").exec())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    with_huge_malloc()?;
    let core = cpu::allowed_cores().last().copied().unwrap_or(0);
    cpu::pin_to(core)?;
    let items = options.items;
    eprintln!("filling {items} items …");
    let store = fill_store(items);
    let stats = store.stats();
    let hasher = *store.hasher();
    let roomy = || base::memory::available().unwrap_or(0) > map_bytes(items) * 9 / 8 + (1 << 30);
    let dash = roomy().then(|| fill_dash(items, hasher));
    let swiss = roomy().then(|| fill_swiss(items, hasher));
    let huge = Bytes(pages::huge_bytes_in_use()?);
    let (steps, per_step) = calibrate();
    let mut bench = Bench { shared: SharedStore::new(store), dash, swiss, hasher };
    let choice = Choice::new(items, options.zipf);
    let bare = measure(&mut bench, choice, 0, options.seconds / 2.0);
    let worked = measure(&mut bench, choice, steps, options.seconds / 2.0);

    let report = Report {
        items,
        keys: options.zipf.map_or("uniform".to_string(), |t| format!("Zipf {t}")),
        core,
        stats,
        huge,
        work_ns: 2.0 * f64::from(steps) * per_step,
        bare,
        worked,
    };
    if options.json {
        println!("{}", report.json());
        return Ok(());
    }
    report.print();
    if bench.dash.is_none() || bench.swiss.is_none() {
        println!(
            "\nsome peers are missing: the machine has no memory for them beside the store; try fewer --items"
        );
    }
    Ok(())
}
