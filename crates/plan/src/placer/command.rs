//! `millrace place`: its arguments, what it refuses, and the loop over nodes.

use super::contest::Contest;
use super::drive::{Driver, Log};
use super::log::{Line, replay};
use super::options::{Options, Policy};
use super::predict::Predictor;
use super::show::Sentences;
use crate::model::platform_text;
use crate::planner::ask::limits;
use base::units::Bytes;
use clap::{Args, Subcommand};
use model::plan::Limits;
use serve::process::interrupt;
use serve::process::parse::duration;
use serve::process::tls::TlsClientArgs;
use serve::trace::Port;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
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
/// leaves nodes as they are, and says where they stand. docs/placer.md.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PlaceArgs {
    #[command(subcommand)]
    what: Option<Subcommands>,

    /// Admin ports of nodes: what follows --admin, or http://ADDR:PORT as the server printed it
    #[arg(value_name = "ADMIN", required_unless_present = "replay")]
    nodes: Vec<Port>,

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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "log", "dry_run", "freeze"])]
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
        let options = self.options()?;
        let predictor = predictor(&self.platform)?;
        let mut drivers = Vec::new();
        for (n, port) in self.nodes.iter().enumerate() {
            self.check(*port)?;
            let log = self.log.as_ref().map(|path| numbered(path, n)).map(|path| {
                Log::new(path.clone(), self.log_max.0).map_err(|error| format!("{}: {error}", path.display()))
            });
            let cores = self.cores_of(*port)?;
            drivers.push((
                Driver::new(*port, cores, options.clone(), predictor.clone(), log.transpose()?)?,
                Sentences::default(),
            ));
        }
        let stop = interrupt::flag()?;
        let began = Instant::now();
        let mut next = began;
        let is_over =
            || stop.load(Ordering::Relaxed) || self.duration.is_some_and(|length| began.elapsed() >= length);
        while !is_over() {
            for (driver, said) in &mut drivers {
                self.turn(driver, said)?;
            }
            // A node that answers late is not asked more often for it.
            next = (next + self.every).max(Instant::now());
            sleep_until(next, &is_over);
        }
        self.end(&drivers)
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

    fn turn(&self, driver: &mut Driver, said: &mut Sentences) -> Result<(), Failure> {
        let is_frozen = match &self.freeze {
            None => false,
            Some(None) => true,
            Some(Some(file)) => file.exists(),
        };
        driver.freeze(is_frozen)?;
        let lines = driver.look()?;
        let mut out = std::io::stdout().lock();
        for line in &lines {
            if self.json {
                writeln!(out, "{}", line.text())?;
            } else if let Some(sentence) = said.sentence(line) {
                let of = if self.nodes.len() > 1 { format!("{} ", driver.port()) } else { String::new() };
                writeln!(out, "{of}{sentence}")?;
            }
        }
        Ok(out.flush()?)
    }

    /// Where nodes are left.
    fn end(&self, drivers: &[(Driver, Sentences)]) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        for (driver, _) in drivers {
            let placement = driver.placement();
            if self.json {
                let all: BTreeMap<_, _> = placement.into_iter().collect();
                writeln!(out, "{}", serde_json::json!({ "node": driver.port().to_string(), "left": all }))?;
                continue;
            }
            writeln!(out, "the node at {} is left as it is:", driver.port())?;
            placement.iter().try_for_each(|(name, value)| writeln!(out, "  {name} = {value}"))?;
        }
        Ok(())
    }
}

/// Predictions for this machine, which is a shipped platform or a file.
pub(super) fn predictor(platform: &str) -> Result<Predictor, Failure> {
    let (text, file) = platform_text(platform)?;
    Ok(Predictor::new(&text, &file)?)
}

/// The log of the nth node.
fn numbered(path: &std::path::Path, n: usize) -> PathBuf {
    if n == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", n + 1));
    name.into()
}

fn sleep_until(moment: Instant, is_over: &dyn Fn() -> bool) {
    while !is_over() {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(SLEEP_MAX));
    }
}

fn replay_file(file: &std::path::Path, is_json: bool) -> Result<(), Failure> {
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
