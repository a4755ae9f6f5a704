//! `millrace cluster status`.

use super::ClusterError;
use super::ask::ask_all;
use super::file::{File, Who};
use super::report::{Report, State};
use crate::process::Stop;
use crate::process::stop::Woken;
use base::{Clock, Nanos};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Show every member of a cluster: who it is, where, whether it lives or since when it is silent, its epoch and lease, key figures; then a verdict.
///
/// All are asked at once, and none for longer than 4 s: replicas where they serve clients, all others at their admin ports, which the file names. A box
/// or home that has none is as its controller says. Instead of the file a controller of the rack may be named, which has it.
///
/// Exit status: 0 whole, 1 degraded (all is served, somebody is missing), 2 a part serves nothing, or wrong usage.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Examples:\n  millrace cluster status cluster.toml\n  millrace cluster status cluster.toml --json | jq .problems\n  millrace cluster status http://10.0.0.5:9105,http://10.0.0.6:9105"
)]
pub struct Status {
    /// The file of the cluster; a rack's file is one, too. Or http://HOST:PORT[,…]: admin ports of the rack's controllers
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// As JSON, one document on a line with --watch
    #[arg(long)]
    json: bool,

    /// Go on until Ctrl-C, every so many seconds; the exit status is the last one
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
}

impl Status {
    /// Asks and prints.
    pub fn run(&self) -> Result<u8, ClusterError> {
        let file = File::read(&self.file)?;
        let stop = self.watch.map(|_| Stop::on_signals()).transpose().map_err(ClusterError::Signals)?;
        let mut seen = BTreeMap::new();
        loop {
            let mut report = Report::of(&file, &ask_all(&file.members));
            remember(&mut seen, &mut report, Clock::shared().now());
            self.print(&report).map_err(ClusterError::Output)?;
            let code = report.verdict().code();
            let (Some(stop), Some(seconds)) = (&stop, self.watch) else { return Ok(code) };
            if stop.wait(Duration::from_secs(seconds)) == Woken::Stop {
                return Ok(code);
            }
        }
    }

    fn print(&self, report: &Report) -> std::io::Result<()> {
        let text = match (self.json, self.watch) {
            (true, Some(_)) => format!("{}\n", report.json()),
            (true, None) => format!("{:#}\n", report.json()),
            (false, Some(_)) => format!("{}\n", report.text()),
            (false, None) => report.text(),
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }
}

/// Who is silent, since when: where no controller says it, since this command saw it first.
fn remember(seen: &mut BTreeMap<Who, Nanos>, report: &mut Report, now: Nanos) {
    for row in &mut report.rows {
        match &mut row.state {
            State::Silent(_, silent) => {
                let since = now.since(*seen.entry(row.who).or_insert(now));
                if since > Nanos::ZERO {
                    *silent = Some(silent.map_or(since, |said| said.max(since)));
                }
            }
            _ => drop(seen.remove(&row.who)),
        }
    }
}
