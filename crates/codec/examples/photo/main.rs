//! The secure image service (RPCAcc V-E): requests flow while the compute unit is taken away and given back.
//!
//! Shape of the run: a third of the requests with the unit, a third without, a third with it again; once with automatic field
//! updating and once without. Each run is repeated; times are the median of each request over the repetitions, what crosses
//! is the same in each (checked). Every response is opened and compared with the image that was sent.
//!
//! `cargo run --release -p millrace-codec --example photo -- [--requests N] [--side N] [--repeats N] [--seed N] [--out FILE]`

mod plot;
mod service;

use base::Nanos;
use base::prng::Prng;
use codec::crossing::Counts;
use codec::decode::Decoder;
use codec::memory::{Arena, Place};
use codec::object::Dynamic;
use codec::object::DynamicMut;
use codec::object::dynamic::Value;
use codec::unit::Kernel;
use codec::unit::kernels::image::header;
use codec::unit::kernels::{Jpeg, Open, SealingKey};
use service::{Failure, Ran, Served, Service, TYPES, token};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HELP: &str = "\
The secure image service, with its compute unit taken away and given back while requests flow.

  --requests N   requests of a run, at least 30 (480)
  --side N       pixels of an image's side (256)
  --repeats N    repetitions of each run, of which the median is told (7)
  --seed N       of the images (1)
  --out FILE     the plot, SVG (photo.svg)
  --help         this text
";

/// The key of this run alone: nothing that is sealed here outlives it.
const KEY: [u8; 32] = *b"an example's key, known to all!!";

struct Args {
    requests: usize,
    side: u32,
    repeats: usize,
    seed: u64,
    out: String,
}

fn args() -> Result<Args, String> {
    let mut args = Args { requests: 480, side: 256, repeats: 7, seed: 1, out: "photo.svg".into() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--help" {
            print!("{HELP}");
            std::process::exit(0);
        }
        if !["--requests", "--side", "--repeats", "--seed", "--out"].contains(&word.as_str()) {
            return Err(format!("{word} is not an option; --help tells them"));
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} needs a number, not {value}"));
        match word.as_str() {
            "--requests" => args.requests = number()?.clamp(30, 1 << 20) as usize,
            "--side" => args.side = number()?.clamp(1, 4096) as u32,
            "--repeats" => args.repeats = number()?.clamp(1, 1000) as usize,
            "--seed" => args.seed = number()?,
            _ => args.out = value,
        }
    }
    Ok(args)
}

/// A raw image: a gradient that no other image has, with noise over it.
fn image(side: u32, prng: &mut Prng) -> Vec<u8> {
    let mut raw = header(side, side).to_vec();
    let (slope, noise) = (1 + prng.below(5) as u32, 1 + prng.below(24));
    for y in 0..side {
        for x in 0..side {
            let base = [x * slope, y * slope, (x + y) / 2];
            raw.extend(base.map(|base| (base as u8).wrapping_add(prng.below(noise) as u8)));
        }
    }
    raw
}

fn request(id: u64, token: &str, avatar: &[u8]) -> Vec<u8> {
    let arena = Arena::default();
    let class = TYPES.schema().class("photo.User").expect("photo.proto has it");
    let mut user = DynamicMut::new(&TYPES, class, &arena).expect("room");
    for (field, value) in
        [("id", Value::U64(id)), ("token", Value::Str(token)), ("avatar", Value::Bytes(avatar))]
    {
        user.set(field, value).expect("photo.proto has it");
    }
    let mut encoder = codec::encode::Encoder::default();
    user.freeze().encode(&mut encoder).expect("a good message").to_vec()
}

/// Opens a response: it must hold the JPEG of the image that was sent.
fn check(response: &[u8], id: u64, expected: &[u8], opened: &mut [u8]) {
    let arena = Arena::default();
    let class = TYPES.schema().class("photo.Photo").expect("photo.proto has it");
    let photo =
        Dynamic::decode(&TYPES, class, &mut Decoder::default(), response, &arena).expect("a response");
    assert_eq!(photo.get_or_default("id").and_then(Value::as_i128), Some(id.into()), "the right user's");
    let sealed = photo.get("sealed").and_then(Value::as_bytes).expect("a photo");
    let len = Open::new(&KEY).run(sealed, opened).expect("sealed with this key");
    assert!(opened[..len] == *expected, "the picture that was sent");
}

/// What is told of one request.
#[derive(Clone, Debug)]
struct Row {
    ran: Ran,
    moved: bool,
    crossed: Counts,
    /// All but the kernel, and all: the median over the repetitions.
    rest: Nanos,
    total: Nanos,
}

impl Row {
    /// Bytes that crossed, in either direction.
    fn bytes(&self) -> u64 {
        let counts = &self.crossed;
        counts.write_bytes + counts.read_bytes + counts.doorbell_bytes + counts.notify_bytes
    }

    /// What the paper's PCIe would take for them: 1250 ns a transaction, 12.8 GB/s (RPCAcc Table I). A model, not a measurement.
    fn modelled(&self) -> Nanos {
        Nanos(self.crossed.transactions() * 1250 + self.bytes() * 10 / 128)
    }
}

/// A run of all requests: the unit goes before request `away`, and comes back before request `back`.
fn run(
    requests: &[(Vec<u8>, Vec<u8>)],
    follow: bool,
    key: &Arc<SealingKey>,
    stop: &AtomicBool,
) -> Option<Vec<Served>> {
    let mut service = Service::new(Arc::clone(key)).expect("memory and threads");
    warm_up(&mut service, &requests[..WARM_UP]);
    service.follow_moves(follow);
    let (away, back) = changes(requests.len());
    let mut served = Vec::new();
    let mut opened = vec![0; requests[0].0.len() + 4096];
    for (index, (wire, jpeg)) in requests.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        if index == away {
            service.take_unit().expect("the unit takes orders");
        } else if index == back {
            service.give_unit().expect("the unit takes orders");
        }
        // Requests come apart, so that a change of the unit is over before the next one, and each finds the threads asleep.
        std::thread::sleep(PAUSE);
        let done = service.serve(wire.clone()).expect("a good request");
        check(&done.response, index as u64, jpeg, &mut opened);
        served.push(done);
    }
    Some(served)
}

/// Between two requests.
const PAUSE: Duration = Duration::from_micros(500);

/// Requests of each way before a run.
const WARM_UP: usize = 16;

/// Every way that a request may take, without a change of the target bit; at its end the unit is there.
fn warm_up(service: &mut Service, requests: &[(Vec<u8>, Vec<u8>)]) {
    service.follow_moves(false);
    let serve = |service: &mut Service| {
        for (wire, _) in requests {
            service.serve(wire.clone()).expect("a good request");
        }
    };
    for place in [Place::Host, Place::Acc] {
        service.put_avatars(place);
        service.give_unit().expect("a thread for the unit");
        serve(service);
        service.take_unit().expect("the unit takes orders");
        serve(service);
    }
    service.give_unit().expect("the unit takes orders");
}

fn changes(requests: usize) -> (usize, usize) {
    (requests / 3, 2 * requests / 3)
}

fn rows(runs: &[Vec<Served>]) -> Vec<Row> {
    let median = |mut times: Vec<Nanos>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    (0..runs[0].len())
        .map(|index| {
            let first = &runs[0][index];
            assert!(
                runs.iter().all(|run| run[index].moved == first.moved && run[index].crossed == first.crossed)
            );
            Row {
                ran: first.ran,
                moved: first.moved,
                crossed: first.crossed,
                rest: median(runs.iter().map(|run| Nanos(run[index].total.0 - run[index].work.0)).collect()),
                total: median(runs.iter().map(|run| run[index].total).collect()),
            }
        })
        .collect()
}

fn print(name: &str, rows: &[Row]) {
    println!(
        "\n{name}\n{:>8}{:>7}{:>7}{:>14}{:>11}{:>10}{:>10}{:>9}{:>14}",
        "request",
        "ran on",
        "moved",
        "but kernel us",
        "total us",
        "writes B",
        "reads B",
        "crossed",
        "modelled us"
    );
    let mut skipped = false;
    for (index, row) in rows.iter().enumerate() {
        if !plot::shown(rows.len(), index) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            println!("{:>8}", "...");
        }
        println!(
            "{index:>8}{:>7}{:>7}{:>14.1}{:>11.1}{:>10}{:>10}{:>9}{:>14.1}",
            if row.ran == Ran::Unit { "unit" } else { "host" },
            if row.moved { "yes" } else { "" },
            row.rest.0 as f64 / 1e3,
            row.total.0 as f64 / 1e3,
            row.crossed.write_bytes,
            row.crossed.read_bytes,
            row.crossed.transactions(),
            row.modelled().0 as f64 / 1e3,
        );
    }
    let moves = rows.iter().filter(|row| row.moved).count();
    println!("{moves} of {} requests had to move their avatar", rows.len());
}

fn main() -> Result<(), String> {
    let args = args()?;
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop)).map_err(|e| e.to_string())?;
    let mut prng = Prng::new(args.seed);
    // A few images, each sent many times.
    let images: Vec<Vec<u8>> = (0..8).map(|_| image(args.side, &mut prng)).collect();
    let jpegs: Vec<Vec<u8>> = images
        .iter()
        .map(|image| {
            let mut jpeg = vec![0; image.len() + 4096];
            let len = Jpeg::new(85).run(image, &mut jpeg).map_err(|error| error.to_string())?;
            jpeg.truncate(len);
            Ok(jpeg)
        })
        .collect::<Result<_, String>>()?;
    let requests: Vec<(Vec<u8>, Vec<u8>)> = (0..args.requests)
        .map(|id| {
            let wire = request(id as u64, &token(id as u64), &images[id % images.len()]);
            (wire, jpegs[id % jpegs.len()].clone())
        })
        .collect();

    let key = SealingKey::new(&KEY, 1);
    let mut stranger = Service::new(Arc::clone(&key)).map_err(|error| error.to_string())?;
    let denied = stranger.serve(request(7, "a guess", &images[0]));
    assert!(matches!(denied, Err(Failure::Denied)), "a wrong token is refused before anything is moved");
    drop(stranger);

    let (mut with, mut without) = (Vec::new(), Vec::new());
    // Interleaved, so that what else the machine does hits both.
    for _ in 0..args.repeats {
        let (Some(one), Some(two)) = (run(&requests, true, &key, &stop), run(&requests, false, &key, &stop))
        else {
            return Err("stopped: nothing was written".into());
        };
        with.push(one);
        without.push(two);
    }
    let (with, without) = (rows(&with), rows(&without));
    print("with automatic field updating", &with);
    print("without", &without);
    let (away, back) = changes(args.requests);
    println!("\nthe unit was taken away before request {away} and given back before request {back}");
    println!("{} requests, every response opened and compared", 2 * args.repeats * args.requests);
    std::fs::write(&args.out, plot::svg(&with, &without, &args.caption()))
        .map_err(|e| format!("{}: {e}", args.out))?;
    println!("plot: {}", args.out);
    Ok(())
}

impl Args {
    fn caption(&self) -> String {
        let Args { requests, side, repeats, .. } = self;
        format!(
            "{requests} requests, images of {side} x {side}, median of {repeats} runs, {}",
            base::cpu::model_name()
        )
    }
}
