//! P-E10, P-E11, P-E12: whole services.

use super::alone;
use crate::experiment::Rows;
use crate::kernel::{ProgramId, Step};
use crate::load::{Arrivals, Loop, Seen, closed, open};
use crate::platform::{LoadError, Platform, Platforms};
use crate::sim::Sim;
use crate::system::rpcacc::accelerator::{Accelerator, Placing};
use crate::system::rpcacc::image::{Design, Kernels, Service, Side};
use crate::system::rpcacc::mean::{average, geomean};
use crate::system::rpcacc::messages::{self, deathstarbench};
use base::Picos;

/// Requests of one class, one after the other; the compute unit goes away, or comes, between the third and the fourth.
pub(super) fn updating(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E10";
    const REQUESTS: u64 = 10;
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let default = platform.bytes("service.image")?;
    let mut rows = Rows::default();
    for (case, at_first) in [("CU removed after request 3", true), ("CU added before request 4", false)] {
        for (how, updates) in [("with AFU", true), ("without AFU", false)] {
            for image in [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
                let service = Service::load(&platform, image)?;
                // The label is right at first.
                let mut label = if at_first { Side::Accelerator } else { Side::Host };
                for request in 1..=REQUESTS {
                    let has_unit = at_first == (request <= 3);
                    let needed = if has_unit { Side::Accelerator } else { Side::Host };
                    let mut machine = Accelerator::new(&platform, None, seed)?;
                    let steps = execution(&service, &machine, label, needed);
                    let cores = machine.host.cores.at;
                    let (time, busy) = alone(&mut machine.kernel, steps, cores);
                    let mut points = vec![format!("request {request}, {} KB", image >> 10)];
                    points.extend((image == default).then(|| format!("request {request}")));
                    for point in points {
                        let variant = format!("{case}, {how}");
                        rows.add((E, &variant, &point), "execution time", "us", time);
                        rows.add((E, &variant, &point), "CPU time", "us", busy);
                    }
                    if updates {
                        label = needed;
                    }
                }
            }
        }
    }
    Ok(rows)
}

/// A request from transport to transport, its image arriving at one side and needed at one.
fn execution(service: &Service, machine: &Accelerator, arrives: Side, needed: Side) -> Vec<Step> {
    let mut steps = service.arrive(machine, arrives);
    steps.extend(machine.host.notified());
    steps.push(service.authorise(&machine.host));
    match (arrives, needed) {
        (Side::Host, Side::Accelerator) => steps.extend(machine.move_to_device(service.image)),
        (Side::Accelerator, Side::Host) => steps.extend(machine.move_to_host(service.image)),
        _ => {}
    }
    match needed {
        Side::Accelerator => steps.extend(service.compute(machine, Kernels::Compress)),
        Side::Host => steps.push(machine.host.cores.work(service.cycles(Kernels::Compress))),
    }
    let (laid_out, sent) = service.reply_from(machine, needed);
    steps.extend(laid_out);
    steps.extend(sent);
    steps
}

const DESIGNS: [Design; 3] = [Design::CpuOnly, Design::Walking, Design::Affinity];

/// A machine that serves images, with so many cores.
fn server(
    platform: &Platform,
    design: Design,
    (image, cores): (u64, u64),
    seed: u64,
) -> Result<(Accelerator, ProgramId), LoadError> {
    let service = Service::load(platform, image)?;
    let mut machine = Accelerator::new(platform, Some(cores), seed)?;
    let idle = machine.kernel.tokens("idle host cores", cores);
    let steps = service.serve(&mut machine, design, idle);
    let program = machine.kernel.program(design.name(), steps);
    Ok((machine, program))
}

const WARM_UP: Picos = Picos::from_micros(1000);
const SPAN: Picos = Picos::from_micros(4000);

fn peak(platform: &Platform, design: Design, at: (u64, u64), seed: u64) -> Result<Seen, LoadError> {
    let (machine, program) = server(platform, design, at, seed)?;
    let one = Loop { mix: program.into(), window: 32 + 2 * at.1, arguments: 1 };
    Ok(closed(&Sim::new(machine.kernel), seed, &[one], WARM_UP, SPAN).remove(0))
}

fn loaded(
    platform: &Platform,
    design: Design,
    at: (u64, u64),
    rate: f64,
    seed: u64,
) -> Result<Seen, LoadError> {
    let (machine, program) = server(platform, design, at, seed)?;
    let one = Arrivals { mix: program.into(), rate, arguments: 1 };
    Ok(open(&Sim::new(machine.kernel), seed, &[one], WARM_UP, Picos(SPAN.0 * 2)).remove(0))
}

/// Throughput by cores and image, latency at equal throughput.
pub(super) fn image(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E11";
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let default = platform.bytes("service.image")?;
    let mut rows = Rows::default();
    for image in [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        for cores in [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32] {
            let mut rates = vec![];
            for design in DESIGNS {
                rates.push(peak(&platform, design, (image, cores), seed)?.rate());
            }
            let mut points = vec![format!("{cores} cores, {} KB", image >> 10)];
            points.extend((image == default).then(|| format!("{cores} cores")));
            for point in &points {
                for (design, rate) in DESIGNS.iter().zip(&rates) {
                    let at = (E, design.name(), point.as_str());
                    rows.add(at, "throughput", "Kops", rate / 1e3);
                    rows.add(at, "bandwidth", "Gbps", rate * image as f64 * 8.0 / 1e9);
                    rows.add(at, "speed-up over CPU-only", "ratio", rate / rates[0]);
                    rows.add(at, "speed-up over ProtoACC-PCIe", "ratio", rate / rates[1]);
                }
            }
        }
    }
    for (cores, image) in [(4, default), (8, default), (16, default)] {
        latency(&mut rows, &platform, (image, cores), seed)?;
    }
    Ok(rows)
}

/// Latencies at shares of what cores alone can do.
fn latency(rows: &mut Rows, platform: &Platform, at: (u64, u64), seed: u64) -> Result<(), LoadError> {
    const E: &str = "P-E11";
    let most = peak(platform, Design::CpuOnly, at, seed)?.rate();
    for percent in [10, 20, 30, 40, 50, 60, 70, 80, 90, 95] {
        let rate = most * f64::from(percent) / 100.0;
        let point = format!("{} cores, load {percent} % of CPU-only's peak", at.1);
        let mut means = vec![];
        for design in DESIGNS {
            let seen = loaded(platform, design, at, rate, seed)?;
            let place = (E, design.name(), point.as_str());
            rows.add(place, "throughput", "Kops", seen.rate() / 1e3);
            rows.add(place, "mean latency", "us", seen.mean() * 1e6);
            rows.add(place, "p50", "us", seen.quantile(0.5) * 1e6);
            rows.add(place, "p99", "us", seen.quantile(0.99) * 1e6);
            means.push(seen.mean());
        }
        for (design, mean) in DESIGNS.iter().zip(&means) {
            let place = (E, design.name(), point.as_str());
            rows.add(place, "latency of CPU-only over it", "ratio", means[0] / mean);
            rows.add(place, "latency of ProtoACC-PCIe over it", "ratio", means[1] / mean);
        }
    }
    Ok(())
}

/// The reference with everything in software, the rival that walks, and ours: a request of each service alone.
pub(super) fn social(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E12";
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let mut rows = Rows::default();
    let mut ratios: Vec<Vec<f64>> = vec![vec![]; DESIGNS.len()];
    let mut over_rival = ratios.clone();
    for service in deathstarbench(&platform)? {
        let mut times = vec![];
        for design in DESIGNS {
            let [receive, send] = codec(&platform, &service, design, seed)?;
            let handler = service.cycles / handler_hertz(&platform)? * 1e6;
            let time = receive.0 + send.0 + handler;
            times.push(time);
            let at = (E, design.name(), service.name);
            rows.add(at, "execution time", "us", time);
            rows.add(at, "RPC layer time", "us", time - handler);
            rows.add(at, "RX time", "us", receive.0);
            rows.add(at, "TX time", "us", send.0);
            rows.add(at, "CPU time", "us", receive.1 + send.1 + handler);
            rows.add(at, "normalised execution time", "ratio", time / times[0]);
        }
        for (i, time) in times.iter().enumerate() {
            let at = (E, DESIGNS[i].name(), service.name);
            rows.add(at, "speed-up over CPU-only", "ratio", times[0] / time);
            rows.add(at, "speed-up over ProtoACC-PCIe", "ratio", times[1] / time);
            ratios[i].push(times[0] / time);
            over_rival[i].push(times[1] / time);
        }
    }
    for (i, design) in DESIGNS.iter().enumerate() {
        for (metric, values) in
            [("speed-up over CPU-only", &ratios[i]), ("speed-up over ProtoACC-PCIe", &over_rival[i])]
        {
            rows.add((E, design.name(), "all"), metric, "ratio", average(values));
            rows.add((E, design.name(), "all, geomean"), metric, "ratio", geomean(values));
        }
    }
    Ok(rows)
}

fn handler_hertz(platform: &Platform) -> Result<f64, LoadError> {
    platform.value("host.clock", crate::platform::unit::Dimension::Frequency)
}

/// Microseconds, and those of a core, of receiving a service's request and of sending its reply.
fn codec(
    platform: &Platform,
    service: &messages::Service,
    design: Design,
    seed: u64,
) -> Result<[(f64, f64); 2], LoadError> {
    let mut machine = Accelerator::new(platform, None, seed)?;
    let (request, reply) = (&service.request, &service.reply);
    let (receive, send) = match design {
        Design::CpuOnly => (machine.host.receive(request), machine.host.send(reply)),
        Design::Walking => (machine.receive(request, Placing::FieldByField), machine.send_walking(reply)),
        Design::Affinity => (machine.receive(request, Placing::OneShot), machine.send_presented(reply, true)),
    };
    let cores = machine.host.cores.at;
    let k = &mut machine.kernel;
    Ok([alone(k, receive, cores), alone(k, send, cores)])
}
