//! The arguments of `millrace bench`, and what they mean together.

use super::LoadError;
use super::dialect::Dialect;
use super::fleet::FleetPlan;
use super::keys::{KeyFormat, Popularity, YCSB_THETA};
use super::line::{caches, datagrams};
use super::mix::{Mix, OpKind, Ycsb};
use super::scale::KeyCounts;
use super::sizes::ValueSizes;
use super::target::Target;
use super::workload::Workload;
use crate::drive::Pace;
use base::Nanos;
use base::prng::mix64;
use clap::{Args, ValueEnum};
use serve::process::parse::{count, duration, rate};
use serve::process::tls::TlsClientArgs;
use std::path::PathBuf;
use std::time::Duration;

/// Drive a memcached-protocol server (or the in-network cache; or Redis, to compare), time every operation and check every value.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// The server: HOST:PORT, tls:HOST:PORT, unix:PATH, shm:PATH, udp:HOST:PORT or redis://HOST:PORT; or the in-network cache of a topology:
    /// inc:FILE asks its first box, inc:FILE#2 box 2, inc-direct:FILE the homes
    pub target: Target,
    /// A second server: both are driven in turns, in one run, and compared by ratio
    #[arg(long, value_name = "TARGET")]
    pub vs: Option<Target>,

    /// Whom it believes
    #[command(flatten)]
    pub tls: TlsClientArgs,

    /// YCSB workload. E scans; memcached cannot, so a scan here is one multi-get of up to 100 consecutive key ids. F modifies by gets + cas
    #[arg(short, long, value_enum, ignore_case = true, help_heading = "Workload")]
    pub workload: Option<Ycsb>,
    /// Weight of reads [default mix: get 0.95, set 0.05]
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub get: Option<f64>,
    /// Weight of writes to existing keys
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub set: Option<f64>,
    /// Weight of writes of new keys
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub insert: Option<f64>,
    /// Weight of deletes
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub delete: Option<f64>,
    /// Weight of touches
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub touch: Option<f64>,
    /// Weight of read-modify-writes (gets + cas)
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub modify: Option<f64>,
    /// Weight of scans (multi-gets of consecutive key ids)
    #[arg(long, value_name = "W", help_heading = "Workload")]
    pub scan: Option<f64>,
    /// Number of keys, for example 100k or 1m; or a rising list, 1k,10k,100k: one size after the other, and what the server takes per
    /// operation and per item at each
    #[arg(short, long, default_value = "100k", value_name = "N[,N...]", help_heading = "Workload")]
    pub keys: KeyCounts,
    /// Bytes per key
    #[arg(long, default_value_t = 16, value_name = "BYTES", help_heading = "Workload")]
    pub key_size: usize,
    /// Value size: 64, 64-1024 (uniform) or etc (as in Facebook's ETC pool)
    #[arg(short, long, default_value = "64", value_name = "SIZE", help_heading = "Workload")]
    pub value: ValueSizes,
    /// Popularity of keys: uniform, zipf, zipf:THETA, latest or latest:THETA [default: the workload's, or zipf:0.99]
    #[arg(long, value_name = "LAW", help_heading = "Workload")]
    pub dist: Option<Popularity>,
    /// Keys per get
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Workload")]
    pub multiget: u32,
    /// Seconds to live of what is written; 0 is for ever
    #[arg(long, default_value_t = 0, value_name = "SECONDS", help_heading = "Workload")]
    pub ttl: u32,
    /// Use memcached's meta commands
    #[arg(long, help_heading = "Workload")]
    pub meta: bool,
    /// Seed of all random numbers: the same seed draws the same operations
    #[arg(long, default_value_t = 1, help_heading = "Workload")]
    pub seed: u64,

    /// Connections
    #[arg(short, long, default_value_t = 16, help_heading = "Load")]
    pub connections: u16,
    /// Operations under way per connection
    #[arg(short = 'P', long, default_value_t = 1, help_heading = "Load")]
    pub pipeline: usize,
    /// Free places in the pipeline to gather before writing the next requests [default: half the pipeline]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub batch: Option<usize>,
    /// Client threads
    #[arg(short, long, default_value_t = 1, help_heading = "Load")]
    pub threads: usize,
    /// Open loop: operations per second over all connections; latency counts from the intended start (with --spin requests leave on time)
    #[arg(short, long, value_parser = rate, help_heading = "Load")]
    pub rate: Option<f64>,
    /// Gaps between operations of an open loop
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson, requires = "rate", help_heading = "Load")]
    pub arrivals: Arrivals,
    /// Closed loop: pause of each place in the pipeline before its next operation
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "rate", help_heading = "Load")]
    pub think: Option<Duration>,
    /// How long to measure [default: 10s, or until --ops are done]
    #[arg(short, long, value_parser = duration, value_name = "TIME", help_heading = "Load")]
    pub duration: Option<Duration>,
    /// How many operations to make, over all connections
    #[arg(short = 'n', long, value_parser = count, value_name = "N", conflicts_with = "vs", help_heading = "Load")]
    pub ops: Option<u64>,
    /// How long to run before that
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME", help_heading = "Load")]
    pub warmup: Duration,
    /// Client threads never sleep: lower latency, a whole core each
    #[arg(long, help_heading = "Load")]
    pub spin: bool,
    /// Cores for the client threads, in turns
    #[arg(long, value_delimiter = ',', value_name = "CORES", help_heading = "Load")]
    pub client_cores: Vec<usize>,
    /// Give up when an answer takes longer
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Load")]
    pub timeout: Duration,

    /// values: every value must be one that was stored under its key; strict: also the connection's own last one (each connection then keeps to its own keys)
    #[arg(long, value_enum, default_value_t = Check::Values, help_heading = "Checking")]
    pub check: Check,
    /// A key that must be there and is not fails the run
    #[arg(long, help_heading = "Checking")]
    pub misses_fail: bool,
    /// Do not write the keys first; values of earlier runs are then allowed
    #[arg(long, help_heading = "Checking")]
    pub no_preload: bool,

    /// With --vs or several numbers of keys: length of one turn
    #[arg(long, default_value = "500ms", value_parser = duration, value_name = "TIME", help_heading = "Comparison")]
    pub slice: Duration,
    /// With --vs or several numbers of keys: how many turns each server has (of two: in the order A B B A), at each size
    #[arg(long, default_value_t = 10, help_heading = "Comparison")]
    pub pairs: u32,
    /// Process of the server, where it does not tell
    #[arg(long, value_name = "PID", help_heading = "Comparison")]
    pub server_pid: Option<u32>,
    /// Process of the second server
    #[arg(long, value_name = "PID", requires = "vs", help_heading = "Comparison")]
    pub vs_server_pid: Option<u32>,

    /// Print the whole result as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write an HTML report with plots; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub report: Option<PathBuf>,
}

/// Gaps between the operations of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    /// Exponential, as of many independent clients.
    Poisson,
    /// Equal.
    Constant,
}

/// How closely values are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Every value is one that was stored under its key.
    Values,
    /// Also: every connection reads its own last write.
    Strict,
}

/// The most inserts for which key ids are kept free.
const INSERTS: u64 = 1_000_000_000;

impl BenchArgs {
    /// The same, with targets that know whose certificates are believed.
    ///
    /// # Errors
    /// Nobody's are, or a file cannot be used.
    pub fn with_trust(&self) -> Result<BenchArgs, LoadError> {
        let trusting =
            |target: &Target| target.trusting(&self.tls).map_err(|why| LoadError::Plan(why.into()));
        Ok(BenchArgs {
            target: trusting(&self.target)?,
            vs: self.vs.as_ref().map(trusting).transpose()?,
            ..self.clone()
        })
    }

    /// The operations to make.
    ///
    /// # Errors
    /// When weights contradict each other or the workload.
    pub fn workload(&self) -> Result<Workload, LoadError> {
        let weights: Vec<(OpKind, f64)> = [
            (OpKind::Get, self.get),
            (OpKind::Set, self.set),
            (OpKind::Insert, self.insert),
            (OpKind::Delete, self.delete),
            (OpKind::Touch, self.touch),
            (OpKind::Modify, self.modify),
            (OpKind::Scan, self.scan),
        ]
        .into_iter()
        .filter_map(|(kind, weight)| Some((kind, weight?)))
        .collect();
        let mix = match (self.workload, weights.is_empty()) {
            (Some(_), false) => {
                return plan("--workload already says the mix; leave out --get, --set and the like");
            }
            (Some(ycsb), true) => ycsb.mix(),
            (None, true) => Ycsb::B.mix(),
            (None, false) => Mix::new(&weights).map_err(|text| LoadError::Plan(text.into()))?,
        };
        let usual = match self.workload {
            Some(Ycsb::D) => Popularity::Latest(YCSB_THETA),
            _ => Popularity::Zipf(YCSB_THETA),
        };
        if !(1..=100).contains(&self.multiget) {
            return plan("--multiget must be 1 to 100");
        }
        let popularity = self.dist.unwrap_or(usual);
        let workload = Workload {
            mix,
            popularity,
            values: self.value,
            ttl_s: self.ttl,
            multiget: self.multiget,
            longest_scan: 100,
        };
        if self.misses_fail && self.ttl > 0 {
            return plan("--misses-fail and --ttl contradict each other: expired keys are missing rightly");
        }
        if self.misses_fail && !workload.keeps_keys() && self.check == Check::Values {
            return plan("--misses-fail with deletes needs --check strict, which knows who deleted what");
        }
        Ok(workload)
    }

    /// The pace.
    pub fn pace(&self) -> Pace {
        match self.rate {
            Some(rate) => Pace::Open { rate, poisson: self.arrivals == Arrivals::Poisson },
            None => Pace::Closed { think_ns: Nanos::from(self.think.unwrap_or_default()).0 },
        }
    }

    /// How long to measure at most.
    pub fn duration(&self) -> Nanos {
        let usual = if self.ops.is_some() { Duration::from_secs(24 * 3600) } else { Duration::from_secs(10) };
        Nanos::from(self.duration.unwrap_or(usual))
    }

    /// How many operations each connection makes at most.
    pub fn ops_each(&self) -> u64 {
        self.ops.map_or(u64::MAX, |ops| ops.div_ceil(u64::from(self.connections.max(1))))
    }

    /// Free places to gather before a write.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(self.pipeline.div_ceil(2)).clamp(1, self.pipeline)
    }

    /// The language to speak with `target`.
    pub fn dialect(&self, target: &Target) -> Dialect {
        match (target.is_redis(), self.meta) {
            (true, _) => Dialect::Redis,
            (false, true) => Dialect::Meta,
            (false, false) => Dialect::Classic,
        }
    }

    /// How to drive `target`, the `side`-th server of the run, with so many keys.
    ///
    /// # Errors
    /// When the numbers make no sense.
    pub fn fleet(&self, target: &Target, side: u32, keys: u64) -> Result<FleetPlan, LoadError> {
        if self.connections == 0 || self.pipeline == 0 || self.threads == 0 || keys == 0 {
            return plan("--connections, --pipeline, --threads and --keys must be at least 1");
        }
        if self.pipeline > 100_000 {
            return plan("--pipeline can be 100000 at most");
        }
        if self.check == Check::Strict && u64::from(self.connections) > keys {
            return plan(
                "--check strict gives every connection keys of its own: use more --keys than --connections",
            );
        }
        let allowed = base::cpu::allowed_cores();
        if let Some(core) = self.client_cores.iter().find(|core| !allowed.contains(core)) {
            let text = format!(
                "core {core} of --client-cores does not exist here; this process may use {allowed:?}"
            );
            return Err(LoadError::Plan(text.into()));
        }
        let workload = self.workload()?;
        self.fits(target, &workload)?;
        let inserts = if workload.mix.share(OpKind::Insert) > 0.0 { INSERTS } else { 0 };
        Ok(FleetPlan {
            target: target.clone(),
            connections: self.connections,
            threads: self.threads,
            cores: self.client_cores.clone(),
            spin: self.spin,
            answer_timeout: self.timeout,
            keys,
            key_size: self.key_size,
            inserts,
            strict: self.check == Check::Strict,
            misses_fail: self.misses_fail,
            foreign_allowed: self.no_preload,
            seed: self.seed,
            run: run_number(side),
        })
    }

    /// Whether every size of `--keys` can be driven: a later one that cannot is said before anything is measured.
    ///
    /// # Errors
    /// When the numbers make no sense.
    pub fn sizes_fit(&self) -> Result<(), LoadError> {
        if self.keys.is_list() && (self.duration.is_some() || self.ops.is_some()) {
            return plan(
                "with several numbers of --keys each is measured in turns: \
                 say --slice (a turn's length) and --pairs (how many) instead of --duration and --ops",
            );
        }
        for &keys in self.keys.all() {
            for target in std::iter::once(&self.target).chain(&self.vs) {
                let fleet = self.fleet(target, 0, keys)?;
                let last = (keys + fleet.inserts).saturating_sub(1);
                KeyFormat::new(self.key_size, last).map_err(|text| LoadError::Plan(text.into()))?;
            }
        }
        Ok(())
    }

    /// Whether `target` can carry such operations.
    fn fits(&self, target: &Target, workload: &Workload) -> Result<(), LoadError> {
        if target.one_key_each() && (self.multiget > 1 || workload.mix.share(OpKind::Scan) > 0.0) {
            return plan("the in-network cache has no multi-gets: leave out --multiget and scans");
        }
        let reorders = matches!(target, Target::Caches { .. } | Target::Udp(_));
        if reorders && self.check == Check::Strict && self.pipeline > 1 {
            return plan("datagrams overtake each other, so that --check strict needs --pipeline 1 there");
        }
        let longest = workload.values.longest();
        match target {
            // A preload has up to 64 operations under way.
            Target::Caches { file, .. } => caches::Caches::check(file, self.pipeline.max(64), longest)
                .map_err(|text| LoadError::Plan(text.into())),
            Target::Udp(_) if longest > datagrams::LONGEST_VALUE => {
                plan("over UDP a request is one datagram: values of at most 60000 bytes")
            }
            _ => Ok(()),
        }
    }
}

/// A number that tells this run's values from those of runs before it.
pub fn run_number(side: u32) -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    mix64(since.as_nanos() as u64 ^ u64::from(std::process::id()) << 32 ^ u64::from(side)) as u32
}

fn plan<T>(text: &'static str) -> Result<T, LoadError> {
    Err(LoadError::Plan(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn args(line: &str) -> Result<BenchArgs, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.bench).map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_make_a_plan() {
        let args = args("127.0.0.1:11211").expect("good");
        let workload = args.workload().expect("good");
        assert_eq!(workload.mix, Ycsb::B.mix());
        assert_eq!(args.pace(), Pace::FULL);
        assert_eq!(args.dialect(&args.target), Dialect::Classic);
        assert!(args.fleet(&args.target, 0, 100_000).is_ok());
    }

    #[test]
    fn contradictions_are_named() {
        let error = |line: &str| {
            let args = args(line).expect("readable");
            args.workload().and_then(|_| args.sizes_fit()).expect_err("a contradiction").to_string()
        };
        assert!(error("h:1 -w a --get 1").contains("--workload"));
        assert!(error("h:1 --misses-fail --ttl 3").contains("--ttl"));
        assert!(error("h:1 --misses-fail --delete 1").contains("strict"));
        assert!(error("h:1 --check strict -k 2 -c 3").contains("--connections"));
        assert!(error("h:1 --client-cores 99999").contains("99999"));
        assert!(error("h:1 --pipeline 0").contains("--pipeline"));
        assert!(error("h:1 -k 1k,2k -d 1s").contains("--slice"));
        assert!(error("h:1 -k 1k,2k -n 1k").contains("--pairs"));
        assert!(error("h:1 -k 10,20k --key-size 5").contains("--key-size 7"));
        assert!(error("h:1 -k 2,20 --check strict -c 3").contains("--connections"));
        assert!(args("h:1 --rate 5k --think 1ms").is_err());
        assert!(args("h:1 --vs nonsense").is_err());
    }
}
