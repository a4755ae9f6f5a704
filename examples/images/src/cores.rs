//! `images cores` (RPCAcc Fig. 12, P-E11): the service over host cores, by who does what: all on the host (*cpu*), or the work on a unit and replies
//! serialised by the accelerator walking the host's objects (*walk*) or by memory affinity (*affinity*).
//!
//! A *host core* is a thread with a server, pinned to a processor of this machine where there are enough. Real are: what that thread computes (its
//! processor time), throughput, latency. The accelerator and its unit are threads, too, and take processors from everybody, which hardware would not:
//! so throughput is told twice, as it was, and as the host's processor time alone would allow it.

use crate::pictures::{KEY, Picture};
use crate::proto::photo::{Photo, PhotosClient, PhotosServer};
use crate::service::{Sealer, kernels, token};
use base::{Nanos, Prng, cpu};
use bench::drive::{Caller, Calls, Pace, Plan, together};
use bench::report::chart::{self, Series};
use bench::report::environment::facts;
use bench::report::format::{digits, micros, short};
use bench::report::{Block, Drawing, Report, Section, Table};
use bench::tally::Tally;
use clap::Args;
use codec::place::Options as AcceleratorOptions;
use codec::unit::kernels::SealingKey;
use fabric::channel::{CallOptions, Channel, Event, StartError};
use fabric::link::Address;
use fabric::registers::Registers;
use fabric::server::Server;
use fabric::status::{Code, Status};
use ring::wait::WaitPolicy;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Throughput against host cores, processor time and latency, by who serialises and who works
#[derive(Args, Clone, Debug)]
pub struct Cores {
    /// Host cores at most [default: the processors that this process may use]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub most: Option<u32>,
    /// Pixels of a picture's side
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1024))]
    pub side: u32,
    /// For how long each is measured, in seconds
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Ends each measurement after so many requests for each host core, if that is before its time
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Requests under way for each host core
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub window: u32,
    /// Seed of the pictures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Writes a page with plots; where the name ends in .svg, the plots alone, in .csv its figures as rows
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All on the host.
    Cpu,
    /// The unit works; the accelerator walks the host's objects.
    Walk,
    /// The unit works; each serialises what is in its own memory.
    Affinity,
}

impl Who {
    pub const ALL: [Who; 3] = [Who::Cpu, Who::Walk, Who::Affinity];

    fn name(self) -> &'static str {
        match self {
            Who::Cpu => "CPU only",
            Who::Walk => "walking (accelerator only)",
            Who::Affinity => "affinity",
        }
    }

    fn registers(self) -> Registers {
        let registers = Registers::default();
        let set = |name, value| registers.set(name, value).expect("such a register");
        if self != Who::Cpu {
            set("acc.on", "on");
            set("acc.units", "1");
            set("acc.serialise", if self == Who::Walk { "walk" } else { "affinity" });
        }
        registers
    }
}

/// A server on a thread of its own.
struct HostCore {
    address: Address,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Nanos>>,
}

/// Each start seals with numbers of its own, and listens under a name of its own.
static STARTS: AtomicU32 = AtomicU32::new(1 << 16);

impl HostCore {
    fn start(who: Who, core: Option<usize>) -> Result<HostCore, String> {
        let start = STARTS.fetch_add(1, Ordering::Relaxed);
        let address: Address = format!("memory:images-{start}").parse().expect("an address");
        let mut server = Server::new(Default::default())
            .service(PhotosServer::new(Sealer::default()))
            .kernels(kernels(&SealingKey::new(&KEY, start)));
        if who != Who::Cpu {
            let options = AcceleratorOptions { acc_bytes: 64 << 20, ..AcceleratorOptions::default() };
            server = server.accelerator(options).map_err(|error| error.to_string())?;
        }
        let server = server.registers(Arc::new(who.registers())).listen(&address);
        let mut server = server.map_err(|error| error.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            // Not given: then the figures are of wherever the system puts it.
            let _ = core.map(cpu::pin_to);
            let before = cpu::thread_time();
            // Who waits must not look as if it computed.
            server.run(WaitPolicy::BLOCK, &stopped);
            cpu::thread_time().since(before)
        };
        let thread = std::thread::Builder::new().name(format!("host-{start}")).spawn(run);
        Ok(HostCore { address, stop, thread: Some(thread.map_err(|error| error.to_string())?) })
    }

    /// Ends it; the processor time of its thread.
    fn end(mut self) -> Nanos {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Nanos::ZERO, |thread| thread.join().expect("a server does not panic"))
    }
}

/// Asks, and checks every reply: its number, and that it is longer than nothing; one of [`OPENED`] is opened and compared.
struct Asker<'p> {
    client: PhotosClient,
    pictures: &'p [Picture],
    next: u64,
    who: Who,
    seen: u64,
}

/// Opening is the client's work, and takes processors from the host cores.
const OPENED: u64 = 64;

impl Caller for Asker<'_> {
    type Counts = ();

    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError> {
        let id = self.next;
        let picture = &self.pictures[id as usize % self.pictures.len()];
        let options = CallOptions::within(Duration::from_secs(60));
        self.client.seal_async(channel, &options, user, |request| {
            request.set_id(id);
            request.set_token(&token(id))?;
            request.set_avatar(&picture.raw)
        })?;
        self.next += 1;
        Ok(())
    }

    fn check(&mut self, event: &mut Event<'_>, (): &mut ()) -> Result<(), Status> {
        let photo = event.message::<Photo>()?;
        let wrong = |what: String| Status::new(Code::DataLoss, what);
        let wanted = if self.who == Who::Cpu { "host" } else { "unit" };
        if photo.made_by() != wanted || photo.id() >= self.next {
            return Err(wrong(format!(
                "picture {} was made by {}, not {wanted}",
                photo.id(),
                photo.made_by()
            )));
        }
        self.seen += 1;
        if self.seen % OPENED == 1 {
            let picture = &self.pictures[photo.id() as usize % self.pictures.len()];
            picture.is_in(photo.sealed(), &KEY).map_err(wrong)?;
        }
        Ok(())
    }
}

/// What was measured of one of [`Who`] on so many host cores.
#[derive(Clone, Debug)]
pub struct Measured {
    pub who: Who,
    pub cores: usize,
    pub per_second: f64,
    /// The host's processor time for a request.
    pub host_cpu: Nanos,
    pub mean: Nanos,
    pub p99: Nanos,
}

impl Measured {
    /// Requests per second that the host's processor time allows, if it alone bounds.
    pub fn host_bound(&self) -> f64 {
        self.cores as f64 * 1e9 / self.host_cpu.0.max(1) as f64
    }
}

impl Cores {
    /// Measures one: in a closed loop, or at a rate.
    ///
    /// # Errors
    /// In words; also that a reply was wrong.
    pub fn measure(
        &self,
        who: Who,
        cores: usize,
        rate: Option<f64>,
        pictures: &[Picture],
        stop: &AtomicBool,
    ) -> Result<Measured, String> {
        let allowed = cpu::allowed_cores();
        let pinned = |number: usize| (cores <= allowed.len()).then(|| allowed[number]);
        let hosts = (0..cores).map(|number| HostCore::start(who, pinned(number)));
        let hosts: Vec<HostCore> = hosts.collect::<Result<_, _>>()?;
        let connect = |host: &HostCore| Channel::connect(&host.address, &Default::default());
        let mut channels: Vec<Channel> =
            hosts.iter().map(connect).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let mut calls = Vec::new();
        for channel in &mut channels {
            let client = PhotosClient::new(channel).map_err(|error| error.to_string())?;
            let asker = Asker { client, pictures, next: 0, who, seen: 0 };
            let mut driven = Calls::new(channel, asker, self.window as usize, 1);
            driven.left = self.requests.unwrap_or(u64::MAX);
            calls.push(driven);
        }
        let length: Nanos = Duration::from_secs_f64(self.seconds).into();
        let (seed, shares) = (self.seed, cores as u64);
        let plan = |share: u64| match rate {
            None => Plan::full(length),
            Some(rate) => Plan {
                pace: Pace::Open { rate, poisson: true },
                share: (share, shares),
                random: Prng::for_entity(seed, share, 1),
                ..Plan::full(length)
            },
        };
        let tally: Tally = together(&mut calls, plan, &[], stop, None);
        drop(calls);
        drop(channels);
        let host: u64 = hosts.into_iter().map(|host| host.end().0).sum();
        if let Some(example) = tally.examples.first() {
            return Err(format!(
                "{}: {} requests failed, the first: {example}",
                who.name(),
                tally.all_failed()
            ));
        }
        let latencies = tally.all_latencies();
        Ok(Measured {
            who,
            cores,
            per_second: tally.throughput(),
            host_cpu: Nanos(host / tally.ops().max(1)),
            mean: Nanos(latencies.mean() as u64),
            p99: Nanos(latencies.value_at_quantile(0.99)),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// As [`Cores::measure`].
    pub fn run(&self, stop: &AtomicBool) -> Result<Report, String> {
        let processors = cpu::allowed_cores().len();
        let most = self.most.map_or(processors, |most| most as usize);
        let mut random = Prng::new(self.seed);
        let pictures: Vec<Picture> = (0..8).map(|_| Picture::drawn(self.side, &mut random)).collect();
        let mut full = Vec::new();
        for cores in 1..=most {
            for who in Who::ALL {
                full.push(self.measure(who, cores, None, &pictures, stop)?);
            }
        }
        // Half of what the slowest can do on one core: what all of them can.
        let rate =
            full.iter().filter(|one| one.cores == 1).map(|one| one.per_second).fold(f64::MAX, f64::min) / 2.0;
        let equal = Who::ALL.map(|who| self.measure(who, 1, Some(rate.max(1.0)), &pictures, stop));
        let equal: Vec<Measured> = equal.into_iter().collect::<Result<_, _>>()?;
        Ok(self.page(&full, &equal, rate, processors))
    }

    fn page(&self, full: &[Measured], equal: &[Measured], rate: f64, processors: usize) -> Report {
        let real = format!(
            "Real: a host core is a thread on a processor of its own (of {processors} here), its processor time is the system's. Client, accelerator and \
             unit are threads on the same processors; hardware would be beside them. The last column leaves them out: host cores over the host's \
             processor time of a request, no measurement."
        );
        let paper = "Printed: throughput up to 2.6 times (abstract; of which rival, at which cores and pictures is not said there), offloaded work at a line rate \
                     of 100 Gb/s, CPU-only doing all on the host. Fig. 12 is a plot. What it is to show: more \
                     requests than CPU only by the same host cores. What walking loses is round trips of its crossings, which cost nothing here.";
        let order = order(full);
        Report {
            title: "The image service over host cores".to_owned(),
            subtitle: format!(
                "pictures of {0} x {0}, {1} under way for each host core",
                self.side, self.window
            ),
            verdict: (
                true,
                "no request failed; one of 64 pictures was opened, decompressed and compared".to_owned(),
            ),
            sections: vec![
                Section {
                    title: "throughput".to_owned(),
                    blocks: vec![
                        Block::Table(throughput(full)),
                        Block::Text(real),
                        Block::Text(paper.to_owned()),
                        Block::Text(order),
                        Block::Pair(
                            plot("Requests per second over host cores, as measured", full, |one| {
                                one.per_second
                            }),
                            plot("Requests per second, the host's time alone", full, Measured::host_bound),
                        ),
                    ],
                },
                Section {
                    title: format!(
                        "latency at {} requests per second on one host core, open loop",
                        short(rate)
                    ),
                    blocks: vec![Block::Table(latency(equal))],
                },
            ],
            environment: facts(),
        }
    }
}

/// Whether a unit is worth it, on the most host cores.
fn order(full: &[Measured]) -> String {
    let most = full.iter().map(|one| one.cores).max().unwrap_or(0);
    let of =
        |who| full.iter().find(|one| one.who == who && one.cores == most).map_or(0.0, Measured::host_bound);
    let [cpu, walk, affinity] = Who::ALL.map(of);
    let word = |holds: bool| if holds { "ok" } else { "missed" };
    format!(
        "By the host's time, {most} host cores: walking over CPU only {}× ({}), affinity over CPU only {}× ({}), affinity over walking {}×.",
        digits(walk / cpu),
        word(walk > cpu),
        digits(affinity / cpu),
        word(affinity > cpu),
        digits(affinity / walk),
    )
}

fn throughput(full: &[Measured]) -> Table {
    let columns = ["host cores", "who", "per second", "host CPU/request", "mean latency", "by host's time"];
    let mut table = Table::new(columns);
    for one in full {
        table.row([
            one.cores.to_string(),
            one.who.name().to_owned(),
            short(one.per_second),
            micros(one.host_cpu.0 as f64 / 1e3),
            micros(one.mean.0 as f64 / 1e3),
            short(one.host_bound()),
        ]);
    }
    table
}

fn latency(equal: &[Measured]) -> Table {
    let mut table = Table::new(["who", "per second", "mean", "p99", "host CPU/request"]);
    for one in equal {
        let us = |time: Nanos| micros(time.0 as f64 / 1e3);
        table.row([
            one.who.name().to_owned(),
            short(one.per_second),
            us(one.mean),
            us(one.p99),
            us(one.host_cpu),
        ]);
    }
    table
}

fn plot(title: &str, full: &[Measured], value: impl Fn(&Measured) -> f64) -> Drawing {
    let series = Who::ALL.map(|who| Series {
        name: who.name().to_owned(),
        points: full.iter().filter(|one| one.who == who).map(|one| (one.cores as f64, value(one))).collect(),
        published: Vec::new(),
    });
    chart::lines(title, "host cores", &series)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way is answered by whom it says, and the host has less to do where a unit works.
    #[test]
    fn each_way_is_answered_and_counted() {
        let cores = Cores {
            most: Some(1),
            side: 48,
            seconds: 60.0,
            requests: Some(20),
            window: 2,
            seed: 1,
            report: None,
        };
        let pictures = [Picture::drawn(48, &mut Prng::new(1))];
        let never = AtomicBool::new(false);
        let measured =
            Who::ALL.map(|who| cores.measure(who, 1, None, &pictures, &never).expect("all are answered"));
        assert!(measured.iter().all(|one| one.per_second > 0.0 && one.host_cpu > Nanos::ZERO));
        let text = cores.page(&measured, &measured, 1.0, 1).text();
        assert!(Who::ALL.iter().all(|who| text.contains(who.name())), "{text}");
    }
}
