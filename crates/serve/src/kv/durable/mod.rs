//! Durability of a key-value server: what it is told, its directory, and the journal with the clock.
//!
//! ```text
//!  --durability log --data-dir DIR ─▶ files: lock, identity, log, snapshot ─▶ store::durable::recover ─▶ Durable, in the service
//!                                                                                  begin_sync ─▶ thread kv-log ─▶ Post::due
//!                                                                                  walk ─▶ thread kv-snapshot ─▶ Post::due
//! ```
//! The machine is [`store::durable`]; what commands have to do with it is in `service/logged.rs`. `docs/durability.md` is for operators.

mod files;
mod shelf;
#[cfg(test)]
mod tests;

use super::chains::Place;
use super::clocks::Clocks;
use super::post::Post;
use crate::admin::health::{Beat, Pulse};
use crate::kv::registers::{Id, Registers};
use base::{Clock, Nanos};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use store::durable::{Found, Journal, Shelf};
use store::redo::{Log, Media};

/// How often the log says in a superblock what is durable: so much of its end can be lost without anybody noticing.
const MARK_INTERVAL: Nanos = Nanos::from_millis(100);
/// A sync that takes longer is said at `/healthz`.
const LATE: Nanos = Nanos::from_secs(2);

/// What acknowledged writes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Nothing: they are in memory
    #[default]
    None,
    /// The end of the process, however it comes, and of power, as far as the disk keeps its word: they are in a log on this machine
    Log,
    /// The end of all replicas of a chain but one, and what their logs survive: items lie in that chain, where transactions see them, too
    Chain,
}

/// What a server is told of durability.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct DurableArgs {
    /// What acknowledged writes survive. With a log nothing is evicted (as with -M)
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub durability: Durability,

    /// The directory for the log and its snapshots
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Replicas of the chain that items lie in (`millrace chain up` prints them): tcp:HOST:PORT, unix:/path, shm:/path, udp:HOST:PORT. One that lives is
    /// enough. Or the file of the cluster (FILE.toml): items lie in all of its chains, by the slots of their keys
    // `--chain` was its name, and is a chain's number everywhere else: as an alias it goes on for a release.
    #[arg(long = "chain-at", alias = "chain", value_name = "ADDRESS", value_delimiter = ',')]
    pub chain: Vec<Place>,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan<'a> {
    /// Nothing.
    None,
    /// A log in this directory.
    Log(&'a Path),
    /// Chains that are found there.
    Chain(&'a [Place]),
}

/// Why there is no log. Sentences that say what to do.
#[derive(Debug)]
pub struct DurableError(String);

impl fmt::Display for DurableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DurableArgs {
    /// What they come to, for a server whose memory is in files, or not.
    ///
    /// # Errors
    /// They contradict each other, or that.
    pub fn plan(&self, memory_file: Option<&Path>) -> Result<Plan<'_>, DurableError> {
        let wrong = |text: &str| Err(DurableError(text.to_owned()));
        match (self.durability, &self.data_dir, &self.chain[..]) {
            (Durability::None | Durability::Log, _, [_, ..]) => {
                wrong("--chain-at names the chain that items lie in: say --durability chain, or leave it out")
            }
            (Durability::None, None, _) => Ok(Plan::None),
            (Durability::None, Some(_), _) => {
                wrong("--data-dir is where a log lies: say --durability log, or leave it out")
            }
            (Durability::Log, None, _) => {
                wrong("--durability log needs a directory for the log: --data-dir DIR")
            }
            (Durability::Log, Some(_), _) if memory_file.is_some() => wrong(
                "--durability log and --memory-file (-e) would both say what the items are after a restart: leave one of them out",
            ),
            (Durability::Log, Some(directory), _) => Ok(Plan::Log(directory)),
            (Durability::Chain, _, []) => wrong(
                "--durability chain needs the replicas of the chain: --chain-at ADDRESS,ADDRESS,… (`millrace chain up` prints them), or --chain-at cluster.toml",
            ),
            (Durability::Chain, Some(_), _) => wrong(
                "--durability chain keeps nothing on this machine: leave --data-dir out, or say --durability log",
            ),
            (Durability::Chain, ..) if memory_file.is_some() => wrong(
                "--durability chain and --memory-file (-e) would both say where the items lie: leave one of them out",
            ),
            (Durability::Chain, _, places) => Ok(Plan::Chain(places)),
        }
    }
}

/// Any medium.
pub(super) type AnyMedia = Box<dyn Media + Send>;
/// Anywhere that snapshots lie.
pub(super) type AnyShelf = Box<dyn Shelf + Send>;

/// A journal, and how it came to be.
pub(super) struct Opened {
    pub(super) journal: Journal<Log<AnyMedia>, AnyShelf>,
    pub(super) found: Found,
    pub(super) recovery: Duration,
}

/// What was counted of it, for programs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DurableReport {
    /// Effects of commands that were logged.
    pub logged: u64,
    /// Bytes written to the log.
    pub log_written_bytes: u64,
    /// Of it in use.
    pub log_used_bytes: u64,
    /// All of it.
    pub log_bytes: u64,
    /// Times that it was made durable.
    pub syncs: u64,
    /// What that took, altogether.
    pub sync_seconds: f64,
    /// The longest.
    pub sync_max_seconds: f64,
    /// Effects that are not durable yet.
    pub pending: u64,
    /// Snapshots made.
    pub snapshots: u64,
    /// Snapshots that failed.
    pub snapshots_failed: u64,
    /// Items in the newest.
    pub snapshot_items: u64,
    /// What the last that was made took.
    pub snapshot_seconds: f64,
    /// Items there were after the start.
    pub recovered_items: u64,
    /// Effects of the log that were done again for it.
    pub recovered_effects: u64,
    /// What that took.
    pub recovery_seconds: f64,
}

/// The journal with the clock, figures, and the way to the edges.
pub struct Durable {
    journal: Journal<Log<AnyMedia>, AnyShelf>,
    post: Arc<Post>,
    registers: Arc<Registers>,
    clocks: Clocks,
    found: Found,
    recovery: Duration,
    /// When the sync that is under way was begun.
    began: Option<Nanos>,
    syncs: u64,
    sync_time: Nanos,
    sync_max: Nanos,
    marked_at: Nanos,
    mark_interval: Nanos,
    walk_began: Option<Nanos>,
    walk_time: Nanos,
    /// A snapshot could go on now.
    pub has_more: bool,
}

impl Durable {
    /// Opens what is in `directory`, or begins it, and makes of the empty `store` what that says at `now`.
    ///
    /// # Errors
    /// The directory cannot be used, or what is in it is damaged.
    pub fn open(
        directory: &Path,
        registers: &Arc<Registers>,
        store: &mut Store,
        post: &Arc<Post>,
    ) -> Result<Durable, DurableError> {
        let opened = files::open(directory, registers, store, post)?;
        Ok(Durable::over(opened, registers, post, Clocks::system()))
    }

    /// With a journal that was opened.
    pub(super) fn over(
        opened: Opened,
        registers: &Arc<Registers>,
        post: &Arc<Post>,
        clocks: Clocks,
    ) -> Durable {
        let Opened { journal, found, recovery } = opened;
        Durable {
            journal,
            post: Arc::clone(post),
            registers: Arc::clone(registers),
            clocks,
            found,
            recovery,
            began: None,
            syncs: 0,
            sync_time: Nanos::ZERO,
            sync_max: Nanos::ZERO,
            marked_at: Nanos::ZERO,
            mark_interval: MARK_INTERVAL,
            walk_began: None,
            walk_time: Nanos::ZERO,
            has_more: false,
        }
    }

    /// Says so often in a superblock what is durable, instead of every 100 ms.
    pub(super) fn mark_every(&mut self, interval: Nanos) {
        self.mark_interval = interval;
    }

    /// What commands did, and who must wait for how much of it.
    pub fn journal(&self) -> &Journal<Log<AnyMedia>, impl Shelf + use<>> {
        &self.journal
    }

    /// The same, to log.
    pub fn journal_mut(&mut self) -> &mut Journal<Log<AnyMedia>, impl Shelf + use<>> {
        &mut self.journal
    }

    /// A pass is over, or there is nothing to do: ends the sync that is done, begins the next for all that was logged meanwhile, goes on with a snapshot. The
    /// log is durable up to there.
    pub fn turn(&mut self, store: &Store, now: u32) -> u64 {
        self.end_sync();
        let at = self.clocks.now();
        if self.journal.is_unmarked() && at.since(self.marked_at) >= self.mark_interval {
            self.marked_at = at;
            self.journal.mark();
        }
        if self.began.is_none() && self.journal.needs_sync() && self.journal.begin_sync() {
            self.began = Some(at);
            self.post.set_sync(self.began);
            // A medium without a thread is done at once.
            self.end_sync();
        }
        self.has_more = self.walk(store, now);
        if let Some(why) = self.journal.broken() {
            self.post.fail(why);
        }
        self.journal.durable()
    }

    fn end_sync(&mut self) {
        let Some(began) = self.began else { return };
        self.journal.end_sync();
        if !self.journal.is_under_way() {
            let took = self.clocks.now().since(began);
            self.syncs += 1;
            self.sync_time = self.sync_time.plus(took);
            self.sync_max = self.sync_max.max(took);
            self.began = None;
            self.post.set_sync(None);
        }
    }

    /// Goes on with a snapshot, or begins one that is due. True if there is more to do now.
    fn walk(&mut self, store: &Store, now: u32) -> bool {
        let (percent, step) =
            (self.registers.read(Id::LogCheckpointPercent), self.registers.read(Id::LogCheckpointStep));
        let before = self.journal.counters().snapshots;
        let more = self.journal.walk(store, now, percent, step);
        if let Err(error) = &more {
            log::warn!(
                "a snapshot failed, another will be made: {error}; until then the log may fill, and writes are refused when it has"
            );
        }
        let is_walking = self.journal.is_walking();
        if is_walking && self.walk_began.is_none() {
            self.walk_began = Some(self.clocks.now());
        }
        if !is_walking
            && let Some(began) = self.walk_began.take()
            && self.journal.counters().snapshots > before
        {
            self.walk_time = self.clocks.now().since(began);
        }
        more.unwrap_or(false)
    }

    /// Makes durable what is not: the server ends.
    pub fn finish(&mut self) {
        if let Err(broken) = self.journal.sync() {
            self.post.fail(broken.to_string());
        }
    }

    /// What was counted.
    pub fn report(&self) -> DurableReport {
        let counters = self.journal.counters();
        DurableReport {
            logged: counters.log.records,
            log_written_bytes: counters.log.written_bytes,
            log_used_bytes: counters.log_used,
            log_bytes: counters.log_capacity,
            syncs: self.syncs,
            sync_seconds: self.sync_time.as_secs_f64(),
            sync_max_seconds: self.sync_max.as_secs_f64(),
            pending: counters.pending,
            snapshots: counters.snapshots,
            snapshots_failed: counters.snapshots_failed,
            snapshot_items: counters.snapshot_items,
            snapshot_seconds: self.walk_time.as_secs_f64(),
            recovered_items: self.found.items,
            recovered_effects: self.found.effects,
            recovery_seconds: self.recovery.as_secs_f64(),
        }
    }
}

/// What says at `/healthz` that no sync takes too long and none has failed.
pub fn pulse(post: Option<&Arc<Post>>) -> Option<Pulse> {
    pulse_within(post, LATE)
}

/// The same, of syncs that may take so long.
fn pulse_within(post: Option<&Arc<Post>>, late: Nanos) -> Option<Pulse> {
    let (post, beat) = (Arc::clone(post?), Beat::default());
    let asked = beat.clone();
    Some(beat.pulse("kv-log").woken_by(move || {
        if post.failed().is_none() && post.outstanding(Clock::shared().now()) < late {
            asked.turn();
        }
    }))
}
