//! The secure image service (RPCAcc V-E) on the network: requests flow while the compute unit is taken away and given back.
//!
//! Shape of the run: a third of the requests with the unit, a third without, a third with it again; once with automatic field
//! updating and once without. Each run is repeated; times are the median of each request over the repetitions, what crosses
//! is the same in each (checked). Every reply is opened and compared with the image that was sent. `photo.rs` is what `fabric::build` makes of
//! `photo.proto`.
//!
//! `cargo run --release -p millrace-fabric --example photo -- [--address ADDRESS] [--requests N] [--side N] [--repeats N] [--seed N] [--out FILE]`

mod plot;
mod service;

use base::prng::Prng;
use base::{Clock, Nanos};
use codec::crossing::Counts;
use codec::memory::Place;
use codec::place::{Live, Options as AcceleratorOptions};
use codec::unit::Kernel;
use codec::unit::kernels::image::header;
use codec::unit::kernels::{Jpeg, Open, SealingKey};
use fabric::channel::{CallOptions, Channel};
use fabric::link::Address;
use fabric::monitor::Monitor;
use fabric::server::{AcceleratorFigures, Server};
use fabric::status::Code;
use proto::photo::{PhotosClient, PhotosServer, User};
use ring::wait::WaitPolicy;
use service::{Sealer, kernels, token};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    include!("photo.rs");
}

const HELP: &str = "\
The secure image service, with its compute unit taken away and given back while requests flow.

  --address A    where it is served (tcp:127.0.0.1:0); shm:PATH and the others work too
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
    address: String,
    requests: usize,
    side: u32,
    repeats: usize,
    seed: u64,
    out: String,
}

fn args() -> Result<Args, String> {
    let address = "tcp:127.0.0.1:0".into();
    let mut args = Args { address, requests: 480, side: 256, repeats: 7, seed: 1, out: "photo.svg".into() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--help" {
            print!("{HELP}");
            std::process::exit(0);
        }
        if !["--address", "--requests", "--side", "--repeats", "--seed", "--out"].contains(&word.as_str()) {
            return Err(format!("{word} is not an option; --help tells them"));
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} needs a number, not {value}"));
        match word.as_str() {
            "--address" => args.address = value,
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

/// Where the work of a request was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Unit,
    Host,
}

/// A served request.
struct Served {
    made: Made,
    /// Its avatar was not where the work was done.
    moved: bool,
    crossed: Counts,
    /// As the client waited.
    total: Nanos,
    /// Of that, compressing and encrypting.
    work: Nanos,
}

/// A server on a thread of its own, and a client of it.
struct Rig {
    monitor: Monitor,
    live: Arc<Live>,
    sealer: Arc<Sealer>,
    channel: Channel,
    client: PhotosClient,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rig {
    fn new(address: &str, key: &Arc<SealingKey>) -> Result<Rig, String> {
        let text = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let sealer = Arc::new(Sealer::default());
        let monitor = Monitor::default();
        let registers = Arc::clone(monitor.registers());
        registers.set_live("acc.on", "on").map_err(|error| text(&error))?;
        let options = AcceleratorOptions { acc_bytes: 64 << 20, ..AcceleratorOptions::default() };
        let address: Address = address.parse().map_err(|error| text(&error))?;
        let mut server = Server::new(Default::default())
            .service(PhotosServer::shared(Arc::clone(&sealer)))
            .kernels(kernels(key))
            .accelerator(options)
            .and_then(|server| server.registers(registers).monitor(&monitor).listen(&address))
            .map_err(|error| text(&error))?;
        let live = Arc::clone(server.live_table::<User>().expect("it takes users"));
        let at = server.addresses().next().expect("it listens").clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(WaitPolicy::default(), &stopped));
        let channel = Channel::connect(&at, &Default::default()).map_err(|error| text(&error))?;
        let client = PhotosClient::new(&channel).map_err(|error| text(&error))?;
        Ok(Rig { monitor, live, sealer, channel, client, stop, thread: Some(thread) })
    }

    /// The unit is there from now on, or not. The server has seen it when this returns.
    fn set_unit(&mut self, there: bool) {
        let word = if there { "1" } else { "0" };
        self.monitor.registers().set_live("acc.units", word).expect("such a register");
        while self.figures().units[0].is_there != there {
            std::thread::sleep(Duration::from_micros(100));
            // It looks at its registers when it has something to do.
            self.channel.reflect(&CallOptions::default()).expect("the server is there");
        }
    }

    /// Whether the table follows moves from now on.
    fn follow(&self, follow: bool) {
        self.monitor
            .registers()
            .set_live("acc.follow", if follow { "on" } else { "off" })
            .expect("such a register");
    }

    fn figures(&self) -> AcceleratorFigures {
        self.monitor.accelerators().pop().expect("the server has one")
    }

    /// Sends one request and opens its reply: it must hold the JPEG of the image that was sent.
    fn seal(&mut self, id: u64, image: &[u8], jpeg: &[u8], opened: &mut [u8]) -> Served {
        let clock = Clock::shared();
        let before = self.figures();
        let start = clock.now();
        let reply = self.client.seal(&mut self.channel, &CallOptions::default(), |user| {
            user.set_id(id);
            user.set_token(&token(id))?;
            user.set_avatar(image)
        });
        let total = clock.now().since(start);
        let reply = reply.expect("a good request");
        let photo = reply.view();
        assert_eq!(photo.id(), id, "the right user's");
        let len = Open::new(&KEY).run(photo.sealed(), opened).expect("sealed with this key");
        assert!(opened[..len] == *jpeg, "the picture that was sent");
        let after = self.figures();
        let moves = |figures: &AcceleratorFigures| figures.lanes.moved_to_acc + figures.lanes.moved_to_host;
        Served {
            made: if photo.made_by() == "unit" { Made::Unit } else { Made::Host },
            moved: moves(&after) > moves(&before),
            crossed: after.lanes.crossed - before.lanes.crossed,
            total,
            work: Nanos(self.sealer.work_ns.load(Ordering::Relaxed)),
        }
    }

    /// Every way that a request may take, without a change of the target bit; at its end the unit is there, and avatars go to it.
    fn warm_up(&mut self, requests: &[(Vec<u8>, Vec<u8>)], opened: &mut [u8]) {
        self.follow(false);
        for place in [Place::Host, Place::Acc] {
            self.live.set_target(User::AVATAR, place);
            for there in [true, false] {
                self.set_unit(there);
                for (id, (image, jpeg)) in requests.iter().enumerate() {
                    self.seal(id as u64, image, jpeg, opened);
                }
            }
        }
        self.set_unit(true);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is told of one request.
#[derive(Clone, Debug)]
struct Row {
    made: Made,
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
    address: &str,
    requests: &[(Vec<u8>, Vec<u8>)],
    follow: bool,
    key: &Arc<SealingKey>,
    stop: &AtomicBool,
) -> Result<Vec<Served>, String> {
    let mut rig = Rig::new(address, key)?;
    let mut opened = vec![0; requests[0].0.len() + 4096];
    rig.warm_up(&requests[..WARM_UP], &mut opened);
    // Read, at the latest, when the unit goes; until then nothing moves.
    rig.follow(follow);
    let (away, back) = changes(requests.len());
    let mut served = Vec::new();
    for (index, (image, jpeg)) in requests.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err("stopped: nothing was written".into());
        }
        if index == away {
            rig.set_unit(false);
        } else if index == back {
            rig.set_unit(true);
        }
        // Requests come apart, so that each finds the threads asleep.
        std::thread::sleep(PAUSE);
        served.push(rig.seal(index as u64, image, jpeg, &mut opened));
    }
    Ok(served)
}

/// Between two requests.
const PAUSE: Duration = Duration::from_micros(500);

/// Requests of each way before a run.
const WARM_UP: usize = 16;

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
                made: first.made,
                moved: first.moved,
                crossed: first.crossed,
                rest: median(runs.iter().map(|run| run[index].total.since(run[index].work)).collect()),
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
            if row.made == Made::Unit { "unit" } else { "host" },
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
        .map(|id| (images[id % images.len()].clone(), jpegs[id % jpegs.len()].clone()))
        .collect();

    let key = SealingKey::new(&KEY, 1);
    let mut stranger = Rig::new(&args.address, &key)?;
    let denied = stranger.client.seal(&mut stranger.channel, &CallOptions::default(), |user| {
        user.set_id(7);
        user.set_token("a guess")?;
        user.set_avatar(&images[0])
    });
    let code = denied.map(drop).expect_err("a wrong token").code();
    let figures = stranger.figures();
    let moved = figures.lanes.moved_to_acc + figures.lanes.moved_to_host;
    assert_eq!((code, moved), (Code::PermissionDenied, 0), "refused before anything is moved");
    drop(stranger);

    let (mut with, mut without) = (Vec::new(), Vec::new());
    // Interleaved, so that what else the machine does hits both.
    for _ in 0..args.repeats {
        let one = run(&args.address, &requests, true, &key, &stop)?;
        let two = run(&args.address, &requests, false, &key, &stop)?;
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
        let Args { requests, side, repeats, address, .. } = self;
        format!(
            "{requests} requests over {address}, images of {side} x {side}, median of {repeats} runs, {}",
            base::cpu::model_name()
        )
    }
}
