//! `millrace place`: its arguments, what it refuses, and the loop over nodes.

use super::contest::Contest;
use super::drive::{Driver, Log};
use super::log::{Line, replay};
use super::options::{Options, Policy};
use super::predict::Predictor;
use super::service::{Id, Placer, PlacerRegisters, Plan};
use super::show::Sentences;
use crate::model::platform_text;
use crate::planner::ask::limits;
use base::registers::Register as _;
use base::tls::ServerFiles;
use base::units::Bytes;
use clap::{Args, Subcommand};
use model::plan::Limits;
use serve::admin::parse_address;
use serve::cluster::file::{File, Means, Who};
use serve::process::Stop;
use serve::process::listen::access;
use serve::process::parse::duration;
use serve::process::tls::TlsClientArgs;
use serve::rights::{Access, RightsArgs};
use serve::shell::{Shell, ShellError};
use serve::trace::Port;
use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Of a wait, the part after which an interrupt is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// Between two looks at least.
const EVERY_MIN: Duration = Duration::from_millis(100);
/// Between two looks at most: what is older than stale is not gone by.
const EVERY_MAX: Duration = Duration::from_secs(30);

/// Move the services of a node that runs between edge, engine and host, by its registers, as its load asks for.
///
/// Every --every it reads the metrics and registers of each node, predicts what other placements would do, corrects that by what came of earlier ones, and
/// sets registers where it pays: more throughput within --slo, then fewer cores. It judges each move by what came, and takes back what did not pay. Ctrl-C
/// leaves nodes as they are, and says where they stand. Memory goes between the caches of a node, so that together they have what they had. docs/placer.md.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PlaceArgs {
    #[command(subcommand)]
    what: Option<Subcommands>,

    /// Admin ports of nodes: what follows --admin, or http://ADDR:PORT as the server printed it
    #[arg(value_name = "ADMIN", required_unless_present_any = ["replay", "cluster"])]
    nodes: Vec<Port>,

    /// The nodes of this file as well, that have an admin port there and a service that can be moved; or http://HOST:PORT[,…]: admin ports of the rack's
    /// controllers
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,

    /// Show metrics, health and registers of the placer itself here: placer.frozen, .budget, .hysteresis, .dwell, .slo_p99 can be set
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    tls: TlsClientArgs,

    /// The nodes' machine, for predictions: this-host as it is shipped, or the file that `millrace model this-host -o FILE` wrote there
    #[arg(short, long, value_name = "PLATFORM", default_value = "this-host")]
    platform: String,

    /// What requests are to keep, as the server measures it, for example p99=200us. Without it throughput counts, then cores
    #[arg(long, value_name = "LIMITS", default_value = "", value_parser = limits)]
    slo: Limits,

    /// Move this service only. May be repeated
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,

    /// Between two looks
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    every: Duration,

    /// Who decides: model; greedy, the published guideline (the fastest place until it is full); leave, nobody; fixed:REGISTER=VALUE[,...]
    #[arg(long, default_value = "model")]
    policy: Policy,

    /// Moves of a node, going back included
    #[arg(long, value_name = "N/min", default_value = "12/min", value_parser = budget)]
    budget: u32,

    /// How much better a move must be, in percent, beyond what predictions may be off
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    hysteresis: u8,

    /// How long a service stays after a move, unless it goes back or its load changes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    dwell: Duration,

    /// Go nowhere of which too little is known to be sure
    #[arg(long)]
    no_tries: bool,

    /// Move no memory between caches of a node
    #[arg(long)]
    no_memory: bool,

    /// What a miss of a service costs where one of another costs 1. May be repeated
    #[arg(long = "miss-cost", value_name = "SERVICE=FACTOR", value_parser = miss_cost)]
    miss_costs: Vec<(String, f64)>,

    /// Decide, and set nothing
    #[arg(long)]
    dry_run: bool,

    /// Look, and decide nothing; with a file: while the file is there
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    freeze: Option<Option<PathBuf>>,

    /// Cores of the nodes' machines [default: of this one, for nodes on it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,

    /// Write what was seen, compared, expected and came, a line of JSON each; of several nodes the second's is FILE.2, and so on
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Put the log aside as FILE.1 at about this size
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    log_max: Bytes,

    /// Stop after this [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,

    /// Play a log again: the same must be decided, byte for byte
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "cluster", "admin", "log", "dry_run", "freeze"])]
    replay: Option<PathBuf>,

    /// Print lines of the log instead of sentences
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Subcommands {
    Contest(Box<Contest>),
}

/// `12/min`, or `12`.
fn budget(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/min").unwrap_or(text).trim().parse::<u32>().ok();
    let wrong = || format!("{text:?} is no number of moves a minute from 0 to 600: try 12/min");
    number.filter(|moves| *moves <= 600).ok_or_else(wrong)
}

/// `cache=2.5`.
fn miss_cost(text: &str) -> Result<(String, f64), String> {
    let wrong = || format!("{text:?} is no service with a factor from 0.001 to 1000: try cache=2.5");
    let (name, factor) = text.split_once('=').ok_or_else(wrong)?;
    let factor = factor.parse::<f64>().ok().filter(|factor| (0.001..=1000.0).contains(factor));
    Ok((name.to_owned(), factor.ok_or_else(wrong)?))
}

/// Names and admin ports of the nodes of a cluster.
fn members(file: &Path) -> Result<Vec<(String, Port)>, Failure> {
    let read = File::read(file)?;
    let nodes = read.members.into_iter().filter_map(|member| match (member.who, member.means) {
        (Who::Node(_), Means::Admin(address)) => Some((member.who.to_string(), Port::from(address))),
        _ => None,
    });
    Ok(nodes.collect())
}

type Failure = Box<dyn Error>;

impl PlaceArgs {
    /// Does it.
    ///
    /// # Errors
    /// A node that cannot be reached, has nothing to be moved or takes no orders; a log that cannot be written; one that plays otherwise.
    pub fn run(&self) -> Result<(), Failure> {
        if let Some(Subcommands::Contest(contest)) = &self.what {
            return contest.run();
        }
        if let Some(file) = &self.replay {
            return replay_file(file, self.json);
        }
        self.tls.apply()?;
        let access = self.access()?;
        let drivers = self.drivers()?;
        let plan = Plan {
            drivers,
            registers: self.registers(),
            every: self.every,
            duration: self.duration,
            freeze_file: self.freeze.clone().flatten(),
            is_json: self.json,
        };
        let stop = Stop::on_signals()?;
        let shell = Shell::of(Placer::new(plan), access, stop)?;
        if let Some(admin) = shell.admin() {
            eprintln!("metrics and registers at {}/, the token in {}", admin.url(), admin.token().display());
        }
        // Its own error, and not the shell's around it: a reader that is gone is none.
        shell.wait().map_err(|error| match error {
            ShellError::Service(_, failure) => failure as Failure,
            error => error.into(),
        })
    }

    /// The placer's own port, with the certificate that it shows nodes, if it has one.
    fn access(&self) -> Result<Access, Failure> {
        let own = self.tls.files().and_then(|files| files.own);
        let files = own.map(|(cert, key)| ServerFiles { cert, key, ..ServerFiles::default() });
        Ok(access(self.admin, files.as_ref(), &RightsArgs::default())?)
    }

    /// Of each node, who looks after it.
    fn drivers(&self) -> Result<Vec<(Driver, Sentences)>, Failure> {
        let options = self.options()?;
        let predictor = predictor(&self.platform)?;
        let mut drivers = Vec::new();
        for (n, port) in self.ports()?.into_iter().enumerate() {
            let log = self.log.as_ref().map(|path| numbered(path, n)).map(|path| {
                Log::new(path.clone(), self.log_max.0).map_err(|error| format!("{}: {error}", path.display()))
            });
            let cores = self.cores_of(port)?;
            drivers.push((
                Driver::new(port, cores, options.clone(), predictor.clone(), log.transpose()?)?,
                Sentences::default(),
            ));
        }
        Ok(drivers)
    }

    /// Admin ports of all nodes that can be looked after.
    fn ports(&self) -> Result<Vec<Port>, Failure> {
        self.nodes.iter().try_for_each(|port| self.check(*port))?;
        let Some(file) = &self.cluster else { return Ok(self.nodes.clone()) };
        let mut ports = self.nodes.clone();
        for (name, port) in members(file)? {
            if ports.contains(&port) {
                continue;
            }
            match super::services_of(port) {
                // One that is down is looked at until it is there.
                Err(why) => eprintln!("{name}: {why}; it is looked at again and again"),
                Ok(names) if names.is_empty() => {
                    eprintln!("{name} at {port} has no service that can be moved: it is left out");
                    continue;
                }
                Ok(_) => self.check(port)?,
            }
            ports.push(port);
        }
        if ports.is_empty() {
            let file = file.display();
            return Err(format!("no member of {file} has an admin port and a service that can be moved: homes that `millrace up --cluster` serves have, with admin = \"ADDR:PORT\" in the file").into());
        }
        Ok(ports)
    }

    /// What is live of the options.
    fn registers(&self) -> PlacerRegisters {
        let registers = PlacerRegisters::default();
        let slo_us = self.slo.p99.map_or(0.0, |seconds| (seconds * 1e6).round().max(1.0));
        for (id, number) in [
            (Id::Frozen, u64::from(self.freeze == Some(None))),
            (Id::Budget, u64::from(self.budget)),
            (Id::Hysteresis, u64::from(self.hysteresis)),
            (Id::Dwell, self.dwell.as_micros() as u64),
            (Id::Slo, slo_us as u64),
        ] {
            // What is beyond its range stays in the options, and the register says the most.
            let most = Id::SPECS[id as usize].max;
            registers.write(id, number.min(most)).expect("it is within the range");
        }
        registers
    }

    fn options(&self) -> Result<Options, Failure> {
        let Limits { p99, .. } = self.slo;
        if self.slo != (Limits { p99, ..Limits::default() }) {
            return Err("the placer keeps p99 alone: --slo p99=200us".into());
        }
        if !(EVERY_MIN..=EVERY_MAX).contains(&self.every) {
            return Err("--every is between 100ms and 30s".into());
        }
        let every_us = self.every.as_micros() as u64;
        let usual = Options::default();
        Ok(Options {
            policy: self.policy.clone(),
            p99_max_ns: p99.map(|seconds| seconds * 1e9),
            moves_per_minute: self.budget,
            hysteresis: f64::from(self.hysteresis) / 100.0,
            dwell_us: self.dwell.as_micros() as u64,
            judge_us: usual.judge_us.max(3 * every_us),
            stale_us: usual.stale_us.max(2 * every_us),
            explores: !self.no_tries,
            is_dry_run: self.dry_run,
            moves_memory: !self.no_memory,
            miss_costs: self.miss_costs.iter().cloned().collect(),
            services: self.services.clone(),
            ..usual
        })
    }

    /// What can be known before the first look.
    fn check(&self, port: Port) -> Result<(), Failure> {
        let names = super::services_of(port)?;
        if names.is_empty() {
            return Err(format!(
                "the server at {port} has no service that can be moved: kv, rpc and rec can, by registers engine.mode, \
                 place.handlers and place.rec.preprocess"
            )
            .into());
        }
        if let Some(missing) = self.services.iter().find(|name| !names.contains(name)) {
            return Err(format!(
                "the node at {port} has no service {missing:?}; it has {}",
                names.join(", ")
            )
            .into());
        }
        if !self.dry_run && self.freeze != Some(None) && self.policy != Policy::Leave {
            port.token().map_err(|why| {
                format!(
                    "registers of the node at {port} could not be set: {why}. Run this as its user on its machine, name the token's file \
                     with MILLRACE_ADMIN_TOKEN, or look only, with --dry-run"
                )
            })?;
        }
        Ok(())
    }

    fn cores_of(&self, port: Port) -> Result<f64, Failure> {
        match self.cores {
            Some(cores) => Ok(f64::from(cores)),
            None if port.is_local() => Ok(base::cpu::allowed_cores().len().max(1) as f64),
            None => Err(format!("{port} is another machine: say its cores with --cores N").into()),
        }
    }
}

/// Predictions for this machine, which is a shipped platform or a file.
pub(super) fn predictor(platform: &str) -> Result<Predictor, Failure> {
    let (text, file) = platform_text(platform)?;
    Ok(Predictor::new(&text, &file)?)
}

/// The log of the nth node.
fn numbered(path: &Path, n: usize) -> PathBuf {
    if n == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", n + 1));
    name.into()
}

pub(super) fn sleep_until(moment: Instant, is_over: &dyn Fn() -> bool) {
    while !is_over() {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(SLEEP_MAX));
    }
}

fn replay_file(file: &Path, is_json: bool) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file).map_err(|cause| format!("{}: {cause}", file.display()))?;
    let done = replay(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut said = Sentences::default();
    let mut out = std::io::stdout().lock();
    if is_json {
        let super::log::Replayed { observations, decisions, lines } = done;
        writeln!(
            out,
            "{}",
            serde_json::json!({ "observations": observations, "decisions": decisions, "lines": lines })
        )?;
        return Ok(());
    }
    for line in text.lines().filter_map(|text| serde_json::from_str::<Line>(text).ok()) {
        if let Some(sentence) = said.sentence(&line) {
            writeln!(out, "{sentence}")?;
        }
    }
    let (observations, decisions) = (done.observations, done.decisions);
    writeln!(
        out,
        "{observations} observations and {decisions} decisions played again: the same, byte for byte"
    )?;
    Ok(())
}

/// Waits like the command's loop, until a flag.
pub(super) fn rest(length: Duration, stop: &AtomicBool) {
    let until = Instant::now() + length;
    sleep_until(until, &|| stop.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        place: PlaceArgs,
    }

    fn read(words: &[&str]) -> Result<PlaceArgs, String> {
        let words = std::iter::once("place").chain(words.iter().copied());
        Cli::try_parse_from(words).map(|cli| cli.place).map_err(|error| error.to_string())
    }

    #[test]
    fn words_become_options() {
        let place = read(&["9211", "--slo", "p99=200us", "--budget", "6/min", "--no-tries", "--every", "2s"])
            .expect("good");
        let options = place.options().expect("good");
        assert_eq!((options.p99_max_ns.map(f64::round), options.moves_per_minute), (Some(200_000.0), 6));
        assert_eq!((options.explores, options.judge_us, options.stale_us), (false, 6_000_000, 4_000_000));
        assert!(read(&["9211", "--freeze"]).is_ok_and(|place| place.freeze == Some(None)));
        assert!(
            read(&["9211", "--freeze=stop"]).is_ok_and(|place| place.freeze == Some(Some("stop".into())))
        );
        assert!(read(&["--replay", "log"]).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, why) in [
            (&["9211", "--budget", "many"][..], "12/min"),
            (&["9211", "--policy", "best"], "no policy"),
            (&["9211", "--slo", "p98=1ms"], "no limit of p98"),
            (&[], "ADMIN"),
        ] {
            assert!(read(words).is_err_and(|said| said.contains(why)), "{words:?}");
        }
        let mean = read(&["9211", "--slo", "mean=1ms"]).expect("a limit of the planner");
        assert!(mean.options().is_err_and(|why| why.to_string().contains("p99 alone")));
        let fast = read(&["9211", "--every", "1ms"]).expect("a time");
        assert!(fast.options().is_err_and(|why| why.to_string().contains("100ms")));
        let far = read(&["10.1.2.3:9211"]).expect("an address");
        assert!(far.cores_of(far.nodes[0]).is_err_and(|why| why.to_string().contains("--cores")));
    }
}
