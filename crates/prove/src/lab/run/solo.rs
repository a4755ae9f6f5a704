//! `millrace lab client`: one client of a run, as a process that may be killed. What it saw is in its journal.

use super::load::{Load, Pace};
use super::record::Part;
use super::user::{Mix, User};
use crate::lab::LabError;
use serve::inc::{IncError, Topology};
use serve::process::Stop;
use serve::process::parse::duration;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Be one client of `millrace lab run`, until SIGTERM.
#[derive(clap::Args, Clone, Debug)]
pub struct Solo {
    /// The nodes
    #[arg(long)]
    pub topology: PathBuf,

    /// Its number in the history
    #[arg(long)]
    pub number: u32,

    /// One of so many that store all keys in the beginning; else it stores none
    #[arg(long)]
    pub of: Option<u32>,

    /// Its box
    #[arg(long)]
    pub tor: u16,

    /// The file to write
    #[arg(long)]
    pub journal: PathBuf,

    /// Between two operations; 0: at once
    #[arg(long, value_parser = duration)]
    pub every: Duration,

    #[command(flatten)]
    #[allow(missing_docs)] // clap would take it for the command's help
    pub load: Load,
}

impl Solo {
    /// Runs it.
    ///
    /// # Errors
    /// The topology is wrong, or the journal cannot be written, or a socket failed.
    pub fn run(&self) -> Result<(), LabError> {
        let topology = Topology::read(&self.topology)?;
        let mix = Mix::new(self.load.writes, self.load.compute).map_err(LabError::Mix)?;
        let writing = LabError::io(format!("writing {}", self.journal.display()));
        let part = Part::on_disk(self.number, &self.journal).map_err(writing)?;
        let pace = Pace { every: self.every.into() };
        let user = User::new(&topology, (self.number, self.of), self.tor, &mix, &self.load, (part, pace))?;
        let stop = Stop::on_signals().map_err(IncError::Signal)?;
        println!("client {} asks box {}", self.number, self.tor);
        user.work(&AtomicU64::new(self.load.operations), stop.flag()).map(drop)
    }
}
