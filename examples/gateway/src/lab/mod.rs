//! `gateway lab`: two gateways between a client and a server, in namespaces of their own, under load whose every byte is checked, in all placements.
//!
//! The gateways are the driver's, on veth interfaces, in this process; so are client and server, on the kernel's own TCP and UDP. The placement
//! changes while all of them run.

pub mod load;
pub mod namespace;
pub mod network;

use crate::driver::{self, Running};
use crate::net::Stage;
use crate::place::Figures;
use crate::registers::{Placement, Registers, placements, set_placement, show};
use crate::tunnel::keys::Secret;
use codec::crossing::Counts;
use codec::memory::Place;
use load::Checked;
use network::{Hides, NAT, Network, SERVER};
use ring::wait::WaitPolicy;
use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Why a run is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabError {
    /// It cannot be here, and what would let it.
    NotHere(String),
    /// Something did not work, or what came through was wrong.
    Failed(String),
}

impl From<String> for LabError {
    fn from(why: String) -> LabError {
        LabError::Failed(why)
    }
}

/// How a run is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Load in each placement.
    pub time: Duration,
    /// Who has NAT.
    pub hides: Hides,
}

const PATIENCE: Duration = Duration::from_secs(20);

/// A line of the table.
struct Row {
    placement: Placement,
    seconds: f64,
    figures: Figures,
    crossed: Counts,
    bytes: u64,
    datagrams: u64,
    lost: u64,
    cpu_ns: u64,
    /// Frames that both gateways took.
    both: u64,
}

/// The lab, up.
struct Lab {
    network: Network,
    registers: [Arc<Registers>; 2],
    gateways: [Running; 2],
    options: Options,
}

/// Runs it, and prints the table.
///
/// # Errors
/// See [`LabError`].
pub fn run(options: Options, stop: &Arc<AtomicBool>) -> Result<(), LabError> {
    let lab = Lab::new(options)?;
    println!(
        "client 10.1.0.2 ── gateway A (10.1.0.1, 192.0.2.1) ══ tunnel ══ gateway B (192.0.2.2, 10.2.0.1) ── server 10.2.0.2"
    );
    let mut tried = lab.reach(stop).and_then(|()| lab.with_tools());
    let mut rows = Vec::new();
    for placement in placements() {
        if stop.load(Relaxed) || tried.is_err() {
            break;
        }
        tried = lab.measure(placement, stop).map(|row| rows.push(row));
    }
    // A terminal's interrupt goes to the programs that were started here, too: what they say of it is no failure.
    if !stop.load(Relaxed) {
        tried?;
    }
    print!("{}", table(&rows, options.hides));
    if cfg!(debug_assertions) {
        println!("This build is not optimised: times are of no use. `cargo run --release -- lab` has them.");
    }
    for (name, gateway) in ["A", "B"].iter().zip(&lab.gateways) {
        println!("gateway {name} since its start: {}", summary(&gateway.counters.figures()));
    }
    Ok(lab.take_away(stop)?)
}

impl Lab {
    fn new(options: Options) -> Result<Lab, String> {
        let failed = |error: io::Error| format!("making the lab: {error}");
        let network = Network::new().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "the lab needs `ip`: install iproute2".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "the lab may not make network namespaces here: run it as root, or where user namespaces are allowed".to_owned()
            }
            _ => failed(error),
        })?;
        load::serve(&network.server).map_err(failed)?;
        let secret = Secret(driver::draw().map_err(failed)?);
        let registers = [Arc::new(Registers::default()), Arc::new(Registers::default())];
        let start = |side: usize| {
            let net = network.of_gateway(side, options.hides).map_err(failed)?;
            let own = registers[side].clone();
            // Six threads and more share the machine's cores: nobody spins.
            let start = move || Ok(driver::start(net, Some(secret), own, WaitPolicy::BLOCK));
            network.gateways[side].within(start).map_err(failed)?
        };
        let gateways = [start(0)?, start(1)?];
        Ok(Lab { network, registers, gateways, options })
    }

    /// Echo from client to server, and from each router on the way.
    fn reach(&self, stop: &AtomicBool) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        let failed = |error: io::Error| format!("ping: {error}");
        let client = &self.network.client;
        let ping =
            |to, ttl, number| load::ping(client, to, ttl, number, Duration::from_secs(1)).map_err(failed);
        let mut number = 0;
        loop {
            number += 1;
            let began = Instant::now();
            match ping(SERVER, 64, number)? {
                Some(answer) if answer.kind == 0 => {
                    println!("ping {SERVER}: {} µs, after {number} requests", began.elapsed().as_micros());
                    break;
                }
                _ if stop.load(Relaxed) => return Err("interrupted".into()),
                _ if Instant::now() > until => {
                    return Err(format!(
                        "nothing comes through; gateway A: {}",
                        summary(&self.gateways[0].counters.figures())
                    ));
                }
                _ => {}
            }
        }
        // What each router says of a packet whose time is over.
        for (ttl, router) in [(1, Ipv4Addr::new(10, 1, 0, 1)), (2, Ipv4Addr::new(10, 8, 0, 2))] {
            let mut answers = (0..5_u16).map(|again| ping(SERVER, ttl, 1000 + 10 * u16::from(ttl) + again));
            match answers.find_map(Result::transpose).transpose()? {
                Some(load::Answer { from, kind: 11 }) if from == router => {
                    println!("  over after {ttl}: {from} says so")
                }
                other => {
                    return Err(format!(
                        "of a packet with {ttl} to live {router} should tell, not {other:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The same with programs that others wrote, where they are installed.
    fn with_tools(&self) -> Result<(), String> {
        let Network { client, server, .. } = &self.network;
        let run = |command: &mut Command| client.run(command).ok();
        match run(Command::new("ping").args(["-c", "3", "-i", "0.2", "-W", "5", "10.2.0.2"])) {
            Some(output) if output.status.success() => println!("ping(8): 3 of 3"),
            Some(output) => return Err(format!("ping(8): {}", String::from_utf8_lossy(&output.stdout))),
            None => println!("ping(8): not installed"),
        }
        match http(client, server) {
            Ok(Some(bytes)) => println!("curl from http.server: {bytes} bytes, all of them right"),
            Ok(None) => println!("curl or python3: not installed"),
            Err(error) => return Err(format!("curl from http.server: {error}")),
        }
        Ok(())
    }

    /// Takes the client's cable away, and ends: gateway A says so, and B goes on until it is told to end.
    fn take_away(self, stop: &AtomicBool) -> Result<(), String> {
        let Lab { network, gateways: [a, b], .. } = self;
        if stop.load(Relaxed) {
            return a.end().and(b.end());
        }
        network.client.ip("link delete c0").map_err(|error| format!("taking the cable away: {error}"))?;
        let until = Instant::now() + PATIENCE;
        while !a.has_ended() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        match a.end() {
            Err(why) if why.contains("gone") => println!("its cable taken away, gateway A said: {why}"),
            other => {
                return Err(format!("gateway A should have told that its interface is gone, not {other:?}"));
            }
        }
        b.end()
    }

    fn move_to(&self, placement: Placement) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        self.registers.iter().for_each(|registers| set_placement(registers, placement));
        while self.gateways.iter().any(|gateway| gateway.placement() != placement) {
            if Instant::now() > until || self.gateways.iter().any(Running::has_ended) {
                return Err(format!("the stages did not move to {}", show(placement)));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn measure(&self, placement: Placement, stop: &Arc<AtomicBool>) -> Result<Row, String> {
        self.move_to(placement)?;
        let [a, b] = &self.gateways;
        let seen = || (a.counters.figures(), a.crossed(), b.counters.figures().received[0], cpu_ns());
        let (checked, before, began) = (Arc::new(Checked::default()), seen(), Instant::now());
        let done = AtomicBool::new(false);
        let loaded = thread::scope(|scope| {
            scope.spawn(|| self.watch(placement, &checked, &done));
            let loaded = load::run(&self.network.client, self.options.time, stop, &checked);
            done.store(true, Relaxed);
            loaded
        });
        loaded.map_err(|error| {
            format!("{}: {error}; gateway A: {}", show(placement), summary(&a.counters.figures()))
        })?;
        let (after, seconds) = (seen(), began.elapsed().as_secs_f64());
        let figures = since(&after.0, &before.0);
        Ok(Row {
            placement,
            seconds,
            crossed: after.1 - before.1,
            bytes: checked.stream_bytes.load(Relaxed),
            datagrams: checked.datagrams.load(Relaxed),
            lost: checked.lost.load(Relaxed),
            cpu_ns: after.3.saturating_sub(before.3),
            both: figures.received[0] + after.2 - before.2,
            figures,
        })
    }

    /// Says once a second what goes through.
    fn watch(&self, placement: Placement, checked: &Checked, done: &AtomicBool) {
        let counters = &self.gateways[0].counters;
        let mut before = (counters.figures(), checked.stream_bytes.load(Relaxed), Instant::now());
        while !done.load(Relaxed) {
            thread::sleep(Duration::from_millis(50));
            let seconds = before.2.elapsed().as_secs_f64();
            if seconds < 1.0 {
                continue;
            }
            let now = (counters.figures(), checked.stream_bytes.load(Relaxed), Instant::now());
            let figures = since(&now.0, &before.0);
            let rate = figures.received[0] as f64 / seconds;
            let megabytes = (now.1 - before.1) as f64 / seconds / 1e6;
            eprintln!(
                "  {}  {rate:8.0} packets/s  {megabytes:6.1} MB/s  {} flows{}",
                show(placement),
                now.0.flows,
                drops(&figures)
            );
            before = now;
        }
    }
}

/// `python3 -m http.server` in one namespace, `curl` in the other; how many bytes came, or none where one of them is not installed.
fn http(client: &namespace::Namespace, server: &namespace::Namespace) -> io::Result<Option<usize>> {
    let folder = std::env::temp_dir().join(format!("gateway-lab-{}", std::process::id()));
    base::private::make_directory(&folder)?;
    let result = http_in(&folder, client, server);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn http_in(
    folder: &Path,
    client: &namespace::Namespace,
    server: &namespace::Namespace,
) -> io::Result<Option<usize>> {
    let mut bytes = vec![0; 3 << 20];
    base::prng::Prng::new(3).fill(&mut bytes);
    std::fs::write(folder.join("bytes"), &bytes)?;
    let mut serve = Command::new("python3");
    serve.args(["-m", "http.server", "8000", "--bind", "10.2.0.2"]).current_dir(folder);
    serve.stdout(Stdio::null()).stderr(Stdio::null());
    let mut serve = match server.within(|| serve.spawn()) {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // It listens once it does: curl tries again until then.
    let words = [
        "--silent",
        "--show-error",
        "--fail",
        "--retry",
        "40",
        "--retry-delay",
        "1",
        "--retry-connrefused",
        "--max-time",
        "60",
    ];
    let got = client.run(Command::new("curl").args(words).arg("http://10.2.0.2:8000/bytes"));
    serve.kill()?;
    serve.wait()?;
    match got {
        Ok(output) if output.status.success() && output.stdout == bytes => Ok(Some(bytes.len())),
        Ok(output) if output.status.success() => Err(io::Error::other("other bytes came")),
        Ok(output) => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Processor time of the gateways' threads so far.
fn cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |folder: std::path::PathBuf| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let time = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        name.starts_with("gw-").then(|| time.split(' ').next()?.parse::<u64>().ok()).flatten()
    };
    tasks.filter_map(|task| of(task.path())).sum()
}

/// What was counted after `before`.
fn since(now: &Figures, before: &Figures) -> Figures {
    let had =
        |reason| before.dropped.iter().find(|(other, _)| *other == reason).map_or(0, |(_, count)| *count);
    let dropped = now.dropped.iter().map(|(reason, count)| (*reason, count - had(*reason)));
    Figures {
        received: [now.received[0] - before.received[0], now.received[1] - before.received[1]],
        sent: [now.sent[0] - before.sent[0], now.sent[1] - before.sent[1]],
        made: now.made - before.made,
        taken: now.taken - before.taken,
        dropped: dropped.filter(|(_, count)| *count > 0).collect(),
        missed: now.missed - before.missed,
        ..now.clone()
    }
}

fn drops(figures: &Figures) -> String {
    let mut text = String::new();
    for (reason, count) in &figures.dropped {
        let _ = write!(text, "; {count} {reason}");
    }
    if figures.missed > 0 {
        let _ = write!(text, "; {} without room", figures.missed);
    }
    text
}

/// One line of all that a gateway counted.
pub fn summary(figures: &Figures) -> String {
    format!(
        "{} packets in, {} out, {} for itself, {} made, {} flows, {}{}",
        figures.received[0],
        figures.sent[0],
        figures.taken,
        figures.made,
        figures.flows,
        if figures.session == 0 { "no session" } else { "a session" },
        drops(figures)
    )
}

/// How often a packet crosses at a gateway whose stages it passes in this order.
pub fn crossings(placement: Placement, stages: &[Stage]) -> usize {
    let places: Vec<Place> = std::iter::once(Place::Acc)
        .chain(stages.iter().map(|stage| placement[*stage as usize]))
        .chain([Place::Acc])
        .collect();
    places.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

fn table(rows: &[Row], hides: Hides) -> String {
    let stages = if hides == Hides::A { &Stage::ALL[..] } else { &[Stage::Route, Stage::Crypto] };
    let mut text = String::from(
        "\nroute nat  crypto   packets/s    MB/s   crossings/packet   CPU ns/packet   datagrams (lost)\n                   (gateway A)           by placement, measured\n",
    );
    for row in rows {
        let packets = row.figures.received[0] as f64;
        let crossed =
            (row.crossed.writes + row.crossed.reads) as f64 / (packets + row.figures.made as f64).max(1.0);
        let [route, nat, crypto] =
            row.placement.map(|place| if place == Place::Acc { "acc" } else { "host" });
        let _ = writeln!(
            text,
            "{route:<5} {nat:<4} {crypto:<6} {:>11.0} {:>7.1}   {:>7} {crossed:>8.2}   {:>13.0}   {} ({})",
            packets / row.seconds,
            row.bytes as f64 / row.seconds / 1e6,
            crossings(row.placement, stages),
            row.cpu_ns as f64 / row.both.max(1) as f64,
            row.datagrams,
            row.lost,
        );
    }
    let rate = |row: &Row| row.figures.received[0] as f64 / row.seconds;
    let best = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let worst = rows.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)));
    if let (Some(best), Some(worst)) = (best, worst) {
        let _ = writeln!(
            text,
            "\nbest {} over worst {}: {:.2}×. The paper (RPCAcc, II-C) has 2.2×, between an FPGA on PCIe and its host;\n\
             here a crossing is a copy between two threads' memories, and all of client, gateways and server share this machine's cores.",
            show(best.placement).trim(),
            show(worst.placement).trim(),
            rate(best) / rate(worst).max(1.0)
        );
    }
    let _ = writeln!(
        text,
        "the server saw the client as {}",
        if hides == Hides::A { NAT } else { Ipv4Addr::new(10, 2, 0, 1) }
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_are_changes_of_place_on_the_way_from_wire_to_wire() {
        let counts: Vec<usize> = placements().map(|placement| crossings(placement, &Stage::ALL)).collect();
        assert_eq!(counts, [2, 2, 4, 2, 2, 2, 2, 0]);
    }
}
