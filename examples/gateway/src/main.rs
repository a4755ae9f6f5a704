//! The command: see README.md.

use gateway::bench;
use gateway::config::Config;
use gateway::driver::{self, interface};
use gateway::lab::network::Hides;
use gateway::lab::{self, LabError, namespace};
use gateway::registers::{Registers, placement, show};
use gateway::tunnel::keys::Secret;
use ring::wait::WaitPolicy;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How the command ends where there can be no lab: what test drivers take for a test that was skipped.
const NOT_HERE: u8 = 77;

const USAGE: &str = "\
gateway lab [--seconds N] [--nat a|b]   client, two gateways and server in namespaces; load in all placements, checked (no root needed)
gateway run --config FILE               on real interfaces (CAP_NET_RAW, CAP_NET_ADMIN); SIGHUP reads registers again, SIGINT ends
gateway bench [--seconds N] [--sizes N,N]  one gateway without sockets, in all placements: what stages and crossings cost
gateway keygen FILE                     a new key for the tunnel, which both gateways have
gateway registers                       what a config file may tune";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match words[..] {
        ["lab", ref options @ ..] => lab(options),
        ["bench", ref options @ ..] => bench(options).map_err(LabError::Failed),
        ["run", "--config", file] => run(Path::new(file)).map_err(LabError::Failed),
        ["keygen", file] => keygen(Path::new(file)).map_err(LabError::Failed),
        ["registers"] => {
            registers();
            Ok(())
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(LabError::Failed(format!("this is how it is called:\n{USAGE}"))),
    };
    let (why, code) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(LabError::Failed(why)) => (why, 1),
        Err(LabError::NotHere(why)) => (why, NOT_HERE),
    };
    eprintln!("{why}");
    ExitCode::from(code)
}

/// Set by the first signal to end; the second ends the process at once.
fn on_end() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let second = flag::register_conditional_shutdown(signal, 128 + signal, stop.clone());
        second
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| format!("waiting for signals: {error}"))?;
    }
    Ok(stop)
}

fn lab(options: &[&str]) -> Result<(), LabError> {
    let mut set = lab::Options { time: Duration::from_secs(3), hides: Hides::A };
    for pair in options.chunks(2) {
        match pair {
            ["--seconds", seconds] => {
                let seconds = seconds.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
                let seconds =
                    seconds.ok_or_else(|| "--seconds is 1 to 3600, for each placement".to_owned())?;
                set.time = Duration::from_secs(seconds);
            }
            ["--nat", "a"] => set.hides = Hides::A,
            ["--nat", "b"] => set.hides = Hides::B,
            other => return Err(format!("the lab has no option {}:\n{USAGE}", other.join(" ")).into()),
        }
    }
    // Before there are threads.
    namespace::become_root().map_err(LabError::NotHere)?;
    lab::run(set, &on_end()?)
}

fn bench(options: &[&str]) -> Result<(), String> {
    let rounds = 5;
    let mut set = bench::Options { slice: Duration::from_millis(200), rounds, sizes: vec![64, 512, 1400] };
    for pair in options.chunks(2) {
        match pair {
            ["--seconds", seconds] => {
                let seconds: Option<u32> =
                    seconds.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
                let seconds = seconds.ok_or("--seconds is 1 to 3600, for each placement and size")?;
                set.slice = Duration::from_secs(seconds.into()) / rounds as u32;
            }
            ["--sizes", sizes] => {
                let size = |size: &str| size.parse().ok().filter(|size| (28..=1440).contains(size));
                let sizes = sizes.split(',').map(size).collect::<Option<Vec<usize>>>();
                set.sizes =
                    sizes.ok_or("--sizes are 28 to 1440 bytes, with commas: more do not fit the tunnel")?;
            }
            other => return Err(format!("the bench has no option {}:\n{USAGE}", other.join(" "))),
        }
    }
    bench::run(&set, &*on_end()?)
}

fn run(file: &Path) -> Result<(), String> {
    let registers = Arc::new(Registers::default());
    let Config { net, secret } =
        Config::read(file, &registers, interface::known).map_err(|wrong| wrong.to_string())?;
    let stop = on_end()?;
    let again = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, again.clone()).map_err(|error| format!("waiting for signals: {error}"))?;
    let shown = |registers: &Registers| show(placement(registers)).trim().to_owned();
    let gateway = driver::start(net, secret, registers.clone(), WaitPolicy::default())?;
    println!("the gateway runs; route, nat, crypto: {}", shown(&registers));
    let mut told = Instant::now();
    while !stop.load(Relaxed) && !gateway.has_ended() {
        std::thread::sleep(Duration::from_millis(100));
        if again.swap(false, Relaxed) {
            match Config::read_registers(file, &registers) {
                Ok(()) => println!("registers read again; route, nat, crypto: {}", shown(&registers)),
                Err(wrong) => eprintln!("registers stay as they were read so far: {wrong}"),
            }
        }
        if told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
            println!("{}", lab::summary(&gateway.counters.figures()));
        }
    }
    let counters = gateway.counters.clone();
    let ended = gateway.end();
    println!("ended: {}", lab::summary(&counters.figures()));
    ended
}

fn keygen(file: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("making the key {}: {error}", file.display());
    if file.exists() {
        return Err(format!("{} is there already: remove it first if no gateway needs it", file.display()));
    }
    let secret = Secret(driver::draw().map_err(failed)?);
    base::private::create(file)
        .and_then(|mut out| out.write_all(secret.to_text().as_bytes()))
        .map_err(failed)?;
    println!("{} is the key; the other gateway needs the same, and nobody else", file.display());
    Ok(())
}

fn registers() {
    for shown in Registers::default().show() {
        println!("{:<14} {:>6} {:<8} {}", shown.name, shown.default, shown.unit, shown.help);
    }
}
