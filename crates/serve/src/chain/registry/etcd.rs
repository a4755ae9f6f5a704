//! A registry in etcd (v3), over its JSON gateway.
//!
//! ```text
//!   /millrace/chain/N/configuration   as `text` writes it
//!   /millrace/chain/N/directory       where replicas serve, for clients: `client::chain::directory`
//!   /millrace/chain/N/controller      who leads: number and a word of its own for each time that it leads
//! ```
//! **Leadership.** Who leads writes its key anew, `pace` apart. Who wants to lead looks at the key as often, and takes it over when it has not
//! changed for a whole span of leadership on *its own* clock, counted from when an answer showed it; the write has the condition that it still
//! has not. Who leads counts from *before* it sent the last write that succeeded, and less by the drift. So the one has ended before the other
//! begins, wherever messages wait and whatever the clocks say, if they run equally fast. Who gives leadership up writes so, and need not be
//! waited for. A key that is not there is waited for like any other: somebody may have removed it while another leads.
//!
//! Rejected: a key bound to an etcd lease. etcd's leader renews leases without asking a quorum, so an old one may renew for a moment what the
//! new one lets run out; and how long it runs on is counted on a third clock. Reads and transactions of etcd are linearizable: all that is
//! used here.
//!
//! **Swap** is one transaction: the configuration has not changed since this registry saw it with the expected epoch, and the leader's key has this
//! one's word.
//!
//! Bounds: a request takes at most a sixth of leadership per endpoint; more of how etcd is asked: `client::etcd`.
//! Sources: etcd API v3, `rpc.proto` (Txn, Compare); Gray & Cheriton, "Leases" (SOSP '89).

use super::{Registry, RegistryError, Swapped, text};
use ::client::chain::directory;
use ::client::etcd::{self, Access, Found, encode, number, range_of};
use ::client::web::Tls;
use base::{Clock, Nanos};
use protocol::chain::{Configuration, Epoch};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the leader's key says when leadership was given up.
const NOBODY: &str = "nobody";

/// As whom etcd is asked, where it has authentication enabled; and how members with certificates are known.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// Ask etcd as this user, who may read and write the keys under /millrace/
    #[arg(id = "etcd-user", long = "etcd-user", value_name = "NAME", requires = "etcd-password-file")]
    pub user: Option<String>,

    /// The file with the user's password, its owner's alone; blanks at its end are not of it
    #[arg(
        id = "etcd-password-file",
        long = "etcd-password-file",
        value_name = "FILE",
        requires = "etcd-user"
    )]
    pub password_file: Option<PathBuf>,

    /// Certificates (PEM) of the authorities that etcd's members have theirs from; for https://HOST:PORT
    #[arg(id = "etcd-ca-file", long = "etcd-ca-file", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// The own certificate (PEM), where etcd asks for one (its --client-cert-auth)
    #[arg(
        id = "etcd-cert-file",
        long = "etcd-cert-file",
        value_name = "FILE",
        requires = "etcd-key-file",
        requires = "etcd-ca-file"
    )]
    pub cert_file: Option<PathBuf>,

    /// Its key (PEM), its owner's alone
    #[arg(id = "etcd-key-file", long = "etcd-key-file", value_name = "FILE", requires = "etcd-cert-file")]
    pub key_file: Option<PathBuf>,
}

impl Login {
    /// The same, with each file as `place` has it.
    #[must_use]
    pub fn with_files(self, place: impl Fn(PathBuf) -> PathBuf) -> Login {
        Login {
            user: self.user,
            password_file: self.password_file.map(&place),
            ca_file: self.ca_file.map(&place),
            cert_file: self.cert_file.map(&place),
            key_file: self.key_file.map(&place),
        }
    }

    /// What the files say.
    ///
    /// # Errors
    /// A file cannot be read; others may read one that has a secret; or it has not what it should have.
    pub fn read(&self) -> Result<Access, RegistryError> {
        let login = match (&self.user, &self.password_file) {
            (Some(user), Some(file)) => {
                let password = String::from_utf8_lossy(&secret(file, "a password")?).trim_end().to_owned();
                Some((user.clone(), password))
            }
            _ => None,
        };
        let tls = match &self.ca_file {
            Some(authorities) => Some(self.tls(authorities)?),
            None => None,
        };
        Ok(Access { login, tls })
    }

    fn tls(&self, authorities: &Path) -> Result<Tls, RegistryError> {
        let of_authorities = read(authorities)?;
        let own = match (&self.cert_file, &self.key_file) {
            (Some(chain), Some(key)) => Some((read(chain)?, secret(key, "a key")?)),
            _ => None,
        };
        let own = own.as_ref().map(|(chain, key)| (&chain[..], &key[..]));
        Tls::new(&of_authorities, own).map_err(|why| RegistryError::Certificates(authorities.to_owned(), why))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, RegistryError> {
    std::fs::read(file).map_err(|error| RegistryError::File("read", file.to_owned(), error))
}

/// A file that is its owner's alone.
fn secret(file: &Path, what: &'static str) -> Result<Vec<u8>, RegistryError> {
    let mode = std::fs::metadata(file).map(|data| data.mode());
    match mode.map_err(|error| RegistryError::File("read", file.to_owned(), error))? & 0o077 {
        0 => read(file),
        _ => Err(RegistryError::OpenToOthers(what, file.to_owned())),
    }
}

/// What of etcd and its clocks is to be known.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// `http://HOST:PORT` or `https://HOST:PORT` of each member.
    pub endpoints: Vec<String>,
    /// A controller of which nothing is seen for so long does not lead any more.
    pub leadership: Duration,
    /// How much clocks of controllers may differ in speed.
    pub drift_percent: u64,
    /// As whom it is asked, and how its members are known.
    pub access: Access,
}

impl Etcd {
    /// At these endpoints, with times that suit replicas that are granted leases of half a second.
    pub fn at(endpoints: Vec<String>) -> Etcd {
        Etcd { endpoints, leadership: Duration::from_secs(3), drift_percent: 1, access: Access::default() }
    }

    fn patience(&self) -> Duration {
        self.leadership / 6
    }
}

/// See the file's head.
pub struct EtcdRegistry {
    etcd: Etcd,
    kept: etcd::Etcd,
    chain: u32,
    number: u16,
    clock: Clock,
    /// What its key says while it leads.
    word: Option<String>,
    /// It leads until then, if it does.
    leads_until: Nanos,
    /// Terms that it began, so that no two have one word.
    terms: u64,
    /// Another's key: its revision, and when it was first seen so.
    seen: Option<(i64, Nanos)>,
    /// The configuration's epoch and revision, as last seen.
    configuration: Option<(Epoch, i64)>,
}

impl EtcdRegistry {
    /// The registry of a chain, for controller `number`. Nothing is asked yet.
    ///
    /// # Errors
    /// An endpoint is none.
    pub fn new(etcd: Etcd, chain: u32, number: u16) -> Result<EtcdRegistry, RegistryError> {
        let kept = etcd::Etcd::new(etcd.endpoints.clone(), etcd.access.clone(), etcd.patience())?;
        Ok(EtcdRegistry {
            etcd,
            kept,
            chain,
            number,
            clock: Clock::shared(),
            word: None,
            leads_until: Nanos::ZERO,
            terms: 0,
            seen: None,
            configuration: None,
        })
    }

    fn key(&self, name: &str) -> String {
        encode(self.path(name))
    }

    fn path(&self, name: &str) -> String {
        format!("/millrace/chain/{}/{name}", self.chain)
    }

    fn find(&mut self, name: &str) -> Result<Option<Found>, RegistryError> {
        let path = self.path(name);
        Ok(self.kept.get(&path)?)
    }

    /// Writes the leader's key if `condition` holds; else what is there.
    fn claim(&mut self, condition: Value, word: &str) -> Result<Result<(), Option<Found>>, RegistryError> {
        let key = self.key("controller");
        let answer = self.kept.ask(
            "txn",
            &json!({
                "compare": [condition],
                "success": [{ "request_put": { "key": key, "value": encode(word) } }],
                "failure": [{ "request_range": { "key": key } }],
            }),
        )?;
        if answer["succeeded"] == json!(true) { Ok(Ok(())) } else { Ok(Err(etcd::found(range_of(&answer))?)) }
    }

    /// It wrote its key after `sent`: until when it leads.
    fn note_claim(&mut self, sent: Nanos) -> Option<Nanos> {
        let span = Nanos::from(self.etcd.leadership);
        let span = Nanos(span.0 / 100 * (100 - self.etcd.drift_percent.min(99)));
        self.leads_until = sent.plus(span);
        Some(self.leads_until)
    }

    fn new_word(&mut self) -> String {
        self.terms += 1;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("controller {} {}-{}-{}", self.number, std::process::id(), since.as_nanos(), self.terms)
    }

    fn is_mine(&self, word: &str) -> Value {
        let value = encode(word);
        json!({ "key": self.key("controller"), "target": "VALUE", "result": "EQUAL", "value": value })
    }

    /// As if the last answer about the configuration had not come.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.configuration = None;
    }

    /// Remembers what the configuration's key was seen as.
    fn note(&mut self, found: Option<Found>) -> Result<Option<Configuration>, RegistryError> {
        let Some(found) = found else {
            self.configuration = None;
            return Ok(None);
        };
        let not_ours = |why| {
            RegistryError::NotOurs(format!("/millrace/chain/{}/configuration in etcd", self.chain), why)
        };
        let configuration = text::parse(self.chain, &found.value).map_err(not_ours)?;
        self.configuration = Some((configuration.epoch, found.revision));
        Ok(Some(configuration))
    }
}

impl Registry for EtcdRegistry {
    fn campaign(&mut self) -> Result<Option<Nanos>, RegistryError> {
        self.word = None;
        let found = self.find("controller")?;
        let revision = found.as_ref().map_or(0, |found| found.revision);
        let now = self.clock.now();
        let first_seen = match self.seen {
            Some((before, since)) if before == revision => since,
            _ => now,
        };
        self.seen = Some((revision, first_seen));
        let is_free = found.as_ref().is_some_and(|found| found.value == NOBODY);
        if !is_free && now < first_seen.plus(self.etcd.leadership.into()) {
            return Ok(None);
        }
        let word = self.new_word();
        let unchanged = json!({
            "key": self.key("controller"), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string(),
        });
        let sent = self.clock.now();
        let is_claimed = match self.claim(unchanged, &word)? {
            Ok(()) => true,
            // The first endpoint did it, and the answer was lost.
            Err(found) => found.is_some_and(|found| found.value == word),
        };
        self.seen = None;
        self.word = is_claimed.then_some(word);
        Ok(if is_claimed { self.note_claim(sent) } else { None })
    }

    fn renew(&mut self) -> Result<Option<Nanos>, RegistryError> {
        let Some(word) = self.word.clone() else { return Ok(None) };
        let sent = self.clock.now();
        // One that hears no answers must not go on writing its key: nobody could lead.
        if sent < self.leads_until && self.claim(self.is_mine(&word), &word)?.is_ok() {
            return Ok(self.note_claim(sent));
        }
        self.word = None;
        Ok(None)
    }

    fn load(&mut self) -> Result<Option<Configuration>, RegistryError> {
        let found = self.find("configuration")?;
        self.note(found)
    }

    fn swap(&mut self, expected: Epoch, next: &Configuration) -> Result<Swapped, RegistryError> {
        if self.configuration.map_or(Epoch(0), |(epoch, _)| epoch) != expected {
            let found = self.load()?;
            if found.as_ref().map_or(Epoch(0), |found| found.epoch) != expected {
                return Ok(if found.as_ref() == Some(next) { Swapped::Done } else { Swapped::Other(found) });
            }
        }
        let revision = self.configuration.map_or(0, |(_, revision)| revision);
        let key = self.key("configuration");
        // Without a word nothing has this value: it is not done.
        let word = self.word.clone().unwrap_or_default();
        let answer = self.kept.ask(
            "txn",
            &json!({
                "compare": [
                    { "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() },
                    self.is_mine(&word),
                ],
                "success": [{ "request_put": { "key": key, "value": encode(text::emit(self.chain, next)) } }],
                "failure": [{ "request_range": { "key": key } }],
            }),
        )?;
        if answer["succeeded"] == json!(true) {
            self.configuration = number(&answer["header"]["revision"]).map(|revision| (next.epoch, revision));
            return Ok(Swapped::Done);
        }
        let found = etcd::found(range_of(&answer))?;
        let found = self.note(found)?;
        // An attempt before was done, and its answer lost.
        Ok(if found.as_ref() == Some(next) { Swapped::Done } else { Swapped::Other(found) })
    }

    fn publish(&mut self, directory: &str) -> Result<(), RegistryError> {
        let Some(word) = self.word.clone() else { return Ok(()) };
        let key = encode(directory::key(self.chain));
        // Where it is not done somebody else leads, and says it himself.
        self.kept.ask(
            "txn",
            &json!({
                "compare": [self.is_mine(&word)],
                "success": [{ "request_put": { "key": key, "value": encode(directory) } }],
            }),
        )?;
        Ok(())
    }

    fn resign(&mut self) {
        let Some(word) = self.word.take() else { return };
        // If it cannot be told, the others wait.
        let _ = self.claim(self.is_mine(&word), NOBODY);
    }

    fn pace(&self) -> Duration {
        self.etcd.leadership / 4
    }
}
