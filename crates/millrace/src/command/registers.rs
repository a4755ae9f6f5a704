//! `millrace registers`: what can be tuned, of all programs.

use serve::admin::rows;
use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

/// List all registers: name, default, range, what each does.
#[derive(clap::Args, Debug)]
pub struct List {
    /// Those of RPC channels and servers, not of a node; `millrace rpc serve --admin` shows and sets them
    #[arg(long, group = "whose")]
    rpc: bool,

    /// Those of an in-network cache, not of a node; its topology file sets them in [coherence]
    #[arg(long, group = "whose")]
    inc: bool,

    /// Those of a chain of replicas, not of a node; `millrace chain` sets them with --set
    #[arg(long, group = "whose")]
    chain: bool,

    /// Those of a recommendation server, not of a node; `millrace rec serve` sets them with --set
    #[cfg(feature = "rec")]
    #[arg(long, group = "whose")]
    rec: bool,

    /// Those of a placer, not of a node; `millrace place --admin` shows and sets them
    #[cfg(feature = "model")]
    #[arg(long, group = "whose")]
    placer: bool,

    /// Those of all services of a config file, with what it sets them to; `millrace up --config FILE` serves them
    #[arg(long, value_name = "FILE", group = "whose")]
    config: Option<PathBuf>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl List {
    /// Prints the list.
    ///
    /// # Errors
    /// When standard output is gone, or the config file is wrong.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let mut out = std::io::stdout().lock();
        if let Some(file) = &self.config {
            let all = serve::node::registers(file)?;
            if self.json {
                return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?);
            }
            return Ok(all.iter().try_for_each(|row| writeln!(out, "{row}"))?);
        }
        let all = match self {
            List { rpc: true, .. } => fabric::registers::Registers::default().show(),
            List { inc: true, .. } => serve::inc::registers::Registers::default().show(),
            List { chain: true, .. } => serve::chain::registers::Registers::default().show(),
            #[cfg(feature = "rec")]
            List { rec: true, .. } => serve::rec::registers::Registers::default().show(),
            #[cfg(feature = "model")]
            List { placer: true, .. } => plan::placer::PlacerRegisters::default().show(),
            _ => serve::kv::registers::Registers::default().show(),
        };
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&rows(None, all))?)?);
        }
        Ok(all.iter().try_for_each(|register| writeln!(out, "{register}"))?)
    }
}
