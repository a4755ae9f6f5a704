//! `millrace demo kv`: a node in this process, real memcached traffic through real sockets, every
//! value checked, a table, and a page with plots.

use crate::load::LoadError;
use crate::load::demo::{DemoResult, drive};
use crate::load::target::Target;
use crate::load::{pages, tables};
use crate::report::{self, StageBreakdown, Undelivered};
use base::Bytes;
use clap::Args;
use serve::kv::config::Config;
use serve::kv::registers::Id;
use serve::kv::shared::StageReport;
use serve::kv::{Server, StartError};
use serve::process::parse::duration_of;
use serve::process::{interrupt, progress};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Start a node in this process, drive it with memcached traffic for about 20 seconds, and show what it did.
///
/// Everything is on loopback, on a free port, with embedded defaults. Every value read is checked; a wrong one makes the exit
/// status 1. An HTML report with plots is left behind.
#[derive(Args, Debug)]
pub struct Demo {
    /// About how long (10s, 1m)
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "20s", value_parser = duration_of(1..=3600))]
    duration: Duration,

    /// Memory of the node (64m, 1g)
    #[arg(short, long, value_name = "SIZE", default_value = "256m")]
    memory: Bytes,

    /// Edge threads of the node
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: u64,

    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "millrace-demo.html")]
    report: PathBuf,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Why the demonstration failed.
#[derive(Debug)]
pub enum DemoError {
    /// The node did not start.
    Start(StartError),
    /// A setting was refused.
    Register(serve::kv::registers::SetError),
    /// The traffic failed, or a value was wrong.
    Load(LoadError),
    /// The report could not be written; everything else was done.
    Report(PathBuf, std::io::Error),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Start(e) => write!(f, "the node did not start: {e}"),
            DemoError::Register(e) => e.fmt(f),
            DemoError::Load(e) => e.fmt(f),
            DemoError::Report(path, e) => write!(
                f,
                "the result above is complete, but the report {} could not be written: {e}; name another place with --report",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DemoError {}

impl Demo {
    /// Runs it.
    ///
    /// # Errors
    /// When something failed or a value was wrong.
    pub fn run(&self) -> Result<(), DemoError> {
        let stop = interrupt::flag()
            .map_err(|e| DemoError::Load(LoadError::Plan(format!("Ctrl-C cannot be caught: {e}").into())))?;
        let mut config = Config::default();
        config.listen.tcp = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        config.registers.write(Id::StoreMemory, self.memory.0).map_err(DemoError::Register)?;
        config.registers.write(Id::EdgeThreads, self.threads).map_err(DemoError::Register)?;
        let node = Server::start(&config).map_err(DemoError::Start)?;
        let address = node.tcp()[0];
        if !self.json {
            println!(
                "  a node in this process, {} of memory, serving memcached clients on {address}",
                self.memory
            );
        }
        let bar = progress::bar(self.json);
        let driven = drive(&Target::Tcp(address.to_string()), self.duration, &bar, stop);
        bar.finish_and_clear();
        let mut result = driven.map_err(DemoError::Load)?;
        result.stages = Some(node.report().stages.into_iter().map(breakdown).collect());
        node.stop();
        self.show(&result)?;
        result.verdict().map_err(DemoError::Load)
    }

    fn show(&self, result: &DemoResult) -> Result<(), DemoError> {
        let (text, page) = (|| tables::demo_text(result), || pages::demo(result));
        report::deliver(result, self.json, text, page, Some(&self.report))
            .map_err(|Undelivered { place, cause }| DemoError::Report(place.into(), cause))?;
        Ok(())
    }
}

fn breakdown(stage: StageReport) -> StageBreakdown {
    StageBreakdown {
        name: stage.name.to_string(),
        count: stage.count,
        p50_ns: stage.p50_ns,
        p99_ns: stage.p99_ns,
        total_ns: stage.total_ns(),
    }
}
