//! `millrace chain backup`, `restore` and `verify`: everything that a chain has, as of one transaction, in a directory, and back.
//!
//! ```text
//!   tail ── pieces, entries (`Txn.Export`) ──▶ pull ──▶ image of one moment ──▶ folder: DIR/data, DIR/log ──▶ restore: a replica's directory
//! ```
//! A backup has the formats that a replica has: a checkpoint of the image, and a redo log without entries that says which chain, transaction
//! and epoch it is of. As the replica it names number 0, which none has: so none starts on it by mistake.
//!
//! | file | what it is |
//! |---|---|
//! | `pull` | an image from a replica that goes on meanwhile |
//! | `folder` | directories with log and image: written, and read from end to end without a change |
//! | `plain` | a file as a medium: one that grows, or one that is only read |

mod folder;
mod plain;
mod pull;

use super::error::ChainError;
use super::registry::file::FileRegistry;
use super::registry::{Registry as _, Swapped, describe};
use super::replica::Secret;
use super::status::ask;
use crate::process::progress;
use crate::txn::info::Info;
use base::Bytes;
use base::private::replace;
use fabric::link::Address;
use folder::Contents;
use protocol::chain::{Configuration, Epoch, Incarnation, Member, Part, ReplicaId};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Times that a backup is begun anew when the log has forgotten what it needs.
const TRIES: u32 = 3;

/// Back up a chain while it serves: everything that was acknowledged before, as of one transaction, into a new directory.
///
/// The tail is asked for its items in small pieces, between its transactions, and for the transactions meanwhile. The directory appears under
/// its name when it is whole and durable; what was not finished is called DIR.new. Its files are their owner's alone: whoever reads them has all
/// items, and the numbers of sessions. It takes as much memory here as the items take.
///
/// Exit status: 0 done, 1 not, 5 if no replica answered.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "Example:
  millrace chain backup --connect tcp:10.0.0.1:7401 --key /etc/millrace/cluster.key --to /backup/chain7-monday
  millrace chain verify /backup/chain7-monday")]
pub struct Backup {
    /// Where one or more of the replicas serve clients; they name the others
    #[arg(
        short,
        long = "connect",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "tcp:127.0.0.1:7401"
    )]
    connect: Vec<Address>,

    /// The directory that is made; it may not be there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    #[command(flatten)]
    secret: Secret,
}

/// Make a replica's directory from a backup.
///
/// The backup is read from end to end first, and one that is damaged is refused. A chain that starts with this directory has exactly the items of
/// the backup, in a later epoch, and knows no session from before. Start the other replicas with empty directories: they are given everything.
/// With --state the controller's file is made, too; without it (etcd) start the replica and use `millrace chain reset --accept-data-loss`.
///
/// Exit status: 0 done, 1 not.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "Example, for `millrace chain up --data /var/lib/millrace/chain`:
  millrace chain restore --from /backup/chain7-monday --id 1 --data /var/lib/millrace/chain/1 --state /var/lib/millrace/chain/controller")]
pub struct Restore {
    /// The backup
    #[arg(long, value_name = "DIR")]
    from: PathBuf,

    /// The replica's directory, made if it is not there; it may have a key, and nothing else of a replica
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// The replica's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    id: u16,

    /// The controller's file, or several, as `millrace chain controller --state` has them; there may be no configuration in them yet
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    state: Vec<PathBuf>,

    /// Size of the replica's log
    #[arg(long, value_name = "SIZE", default_value = "64m")]
    log_size: Bytes,
}

/// Read backups, directories of replicas that do not run, and files of controllers from end to end, and say whether they are whole.
///
/// Nothing is changed. Torn bytes at the end of a log are no damage: a replica that was killed leaves them.
///
/// Exit status: 0 all are good, 1 one is damaged or cannot be read.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_long_help = "Example:\n  millrace chain verify /backup/chain7-monday /var/lib/millrace/chain/controller"
)]
pub struct Verify {
    /// What is read
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Print a JSON object for each instead of words
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// Makes it.
    ///
    /// # Errors
    /// Nobody answers, no tail serves, or the directory cannot be written.
    pub fn run(&self) -> Result<(), ChainError> {
        if self.to.exists() {
            return Err(ChainError::InTheWay(self.to.clone()));
        }
        let key = self.secret.key(None, &self.connect)?;
        let bar = progress::bar(false);
        let mut tries = TRIES;
        let pulled = loop {
            let (address, tail) = self.tail()?;
            let show = |fraction, what: &str| progress::show(&bar, fraction, what);
            match pull::pull(&address, &tail, &key, show) {
                Ok(pulled) => break pulled,
                Err(pull::PullError::TooSlow) if tries > 1 => tries -= 1,
                Err(error) => {
                    return Err(ChainError::NoBackup(format!("replica {}: {error}", tail.replica.0)));
                }
            }
        };
        progress::show(&bar, 1.0, "writing");
        let contents = folder::write(pulled, &self.to)?;
        bar.finish_and_clear();
        println!("{}: {contents}", self.to.display());
        Ok(())
    }

    /// The replica that has everything that was acknowledged: the last of those that serve, as long as it may answer reads.
    fn tail(&self) -> Result<(Address, Info), ChainError> {
        let mut why = String::new();
        let mut answers = Vec::new();
        for address in &self.connect {
            match ask(address, None) {
                Ok(info) => answers.push((address.clone(), info)),
                Err(text) => why = text,
            }
        }
        if answers.is_empty() {
            return Err(ChainError::Nobody(self.connect.clone(), why));
        }
        let named: Vec<Address> =
            answers.iter().flat_map(|(_, info)| &info.members).filter_map(|m| m.address.clone()).collect();
        for address in named {
            answers.extend(ask(&address, None).ok().map(|info| (address, info)));
        }
        answers.into_iter().find(|(_, info)| info.is_tail && info.serves_reads).ok_or(ChainError::NoTail)
    }
}

impl Restore {
    /// Does it.
    ///
    /// # Errors
    /// The backup is damaged or none, or something is in the way.
    pub fn run(&self) -> Result<(), ChainError> {
        let contents = folder::read(&self.from)?;
        if !contents.is_good() {
            return Err(ChainError::BadBackup(self.from.clone(), contents.to_string()));
        }
        if !contents.is_backup() {
            return Err(ChainError::NotABackup(self.from.clone(), contents.to_string()));
        }
        let mut registry = self.registry(&contents)?;
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let life = Incarnation(micros);
        folder::restore(&contents, &self.from, &self.data, ReplicaId(self.id), self.log_size)?;
        let is_same = folder::read(&self.data)?.is_same(&contents);
        if !is_same {
            return Err(ChainError::BadBackup(self.data.clone(), "what was written reads otherwise".into()));
        }
        // Without it the log is of an unknown life, and counts as lost: so what was not finished serves nobody.
        let path = self.data.join("life");
        replace(&path, format!("{micros} {micros}\n").as_bytes())
            .map_err(|error| ChainError::Directory(path, error))?;
        if let Some(registry) = &mut registry {
            self.configure(registry, &contents, life)?;
        }
        self.report(&contents);
        Ok(())
    }

    /// The controller's files, in which nothing is yet.
    fn registry(&self, contents: &Contents) -> Result<Option<FileRegistry>, ChainError> {
        if self.state.is_empty() {
            return Ok(None);
        }
        let failed = |error| ChainError::Controller(super::controller::ControllerError::from(error));
        let mut registry = FileRegistry::open(contents.chain, &self.state).map_err(failed)?;
        match registry.load().map_err(failed)? {
            Some(_) => Err(ChainError::InTheWay(self.state[0].clone())),
            None => Ok(Some(registry)),
        }
    }

    /// Says that this replica has everything, and that sessions from before are not known.
    fn configure(
        &self,
        registry: &mut FileRegistry,
        contents: &Contents,
        life: Incarnation,
    ) -> Result<(), ChainError> {
        let epoch = Epoch(contents.epoch.0 + 1);
        let member = Member { replica: ReplicaId(self.id), incarnation: life, part: Part::Serving };
        let first = Configuration { epoch, reset: epoch, members: vec![member], ..Configuration::default() };
        match registry.swap(Epoch(0), &first) {
            Ok(Swapped::Done) => Ok(()),
            Ok(Swapped::Other(_)) => Err(ChainError::InTheWay(self.state[0].clone())),
            Err(error) => Err(ChainError::Controller(super::controller::ControllerError::from(error))),
        }
    }

    fn report(&self, contents: &Contents) {
        println!("{}: {contents}", self.from.display());
        println!(
            "{} is the directory of replica {} now. Start it and the others, which have empty directories, with --chain {} --data-size {}",
            self.data.display(),
            self.id,
            contents.chain,
            contents.capacity
        );
        if self.state.is_empty() {
            println!(
                "no --state was given: when replica {} runs, `millrace chain reset --accept-data-loss --serve {}` lets it serve",
                self.id, self.id
            );
        }
    }
}

impl Verify {
    /// Reads all, and says what is there.
    ///
    /// # Errors
    /// One of them is damaged.
    pub fn run(&self) -> Result<(), ChainError> {
        let mut bad = 0;
        for path in &self.paths {
            let read = verify(path);
            bad += usize::from(read.is_err());
            let line = match (&read, self.json) {
                (Ok(text), false) => format!("{}: good: {text}", path.display()),
                (Err(text), false) => format!("{}: DAMAGED: {text}", path.display()),
                (Ok(text) | Err(text), true) => {
                    serde_json::json!({ "path": path, "good": read.is_ok(), "what": text }).to_string()
                }
            };
            println!("{line}");
        }
        if bad > 0 { Err(ChainError::Unsound(bad, self.paths.len())) } else { Ok(()) }
    }
}

fn verify(path: &Path) -> Result<String, String> {
    if path.is_dir() {
        let contents = folder::read(path).map_err(|error| error.to_string())?;
        return if contents.is_good() { Ok(contents.to_string()) } else { Err(contents.to_string()) };
    }
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read it: {error}"))?;
    describe(&String::from_utf8_lossy(&bytes))
}
