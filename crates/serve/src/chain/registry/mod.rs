//! Where a chain's configuration is kept: what decides between controllers, and survives them.
//!
//! | file | what it is |
//! |---|---|
//! | `file` | a file, for one controller |
//! | `etcd` | etcd, for several |
//! | `memory` | nothing that survives: for chains that do not either |
//! | `worker` | a registry on a thread of its own, since it may take long |
//!
//! Invariants, which `protocol::chain::controller` rests on:
//! 1. One controller leads at a time. Who leads knows until when at least, on its own clock.
//! 2. A configuration is taken from the one that leads, over the epoch that it expects, in one step; it is durable when that is said.
//! 3. [`Registry::swap`] may fail without saying whether it was done. Called again with the same, until it does not fail, it says what came of
//!    it: done, or something else is there, and then the one before will not be done any more.

pub mod etcd;
pub mod file;
pub mod memory;
mod text;
pub mod worker;

use ::client::etcd::EtcdError;
use base::Nanos;
use protocol::chain::{Configuration, Epoch};
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

/// What became of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is durable.
    Done,
    /// This is there, and stays unless somebody else changes it; or this controller does not lead.
    Other(Option<Configuration>),
}

/// A registry. Calls may take as long as the disk or network does; [`worker`] makes them elsewhere.
pub trait Registry: Send {
    /// Tries to become the one that leads: until when it does; `None` where another does.
    ///
    /// # Errors
    /// [`RegistryError`]; then it does not lead as far as it knows.
    fn campaign(&mut self) -> Result<Option<Nanos>, RegistryError>;

    /// Goes on leading: until when; `None` where it does not any more.
    ///
    /// # Errors
    /// [`RegistryError`]; it leads as long as was said before.
    fn renew(&mut self) -> Result<Option<Nanos>, RegistryError>;

    /// What is there.
    ///
    /// # Errors
    /// [`RegistryError`].
    fn load(&mut self) -> Result<Option<Configuration>, RegistryError>;

    /// Puts `next` there, if this controller leads and what is there has epoch `expected` (0 where nothing is).
    ///
    /// # Errors
    /// [`RegistryError`]; it may have been done, see invariant 3.
    fn swap(&mut self, expected: Epoch, next: &Configuration) -> Result<Swapped, RegistryError>;

    /// Says to clients where replicas serve (`client::chain::directory`), if this controller leads and clients look here. It is a help: an old one
    /// only makes them take longer.
    ///
    /// # Errors
    /// [`RegistryError`]; it may have been done.
    fn publish(&mut self, _directory: &str) -> Result<(), RegistryError> {
        Ok(())
    }

    /// Gives leadership up, as far as it can be done: another need not wait.
    fn resign(&mut self);

    /// Between two renewals or attempts.
    fn pace(&self) -> Duration;
}

/// What the text in a controller's file says, for people.
///
/// # Errors
/// It is no configuration, or a damaged one. A sentence.
pub fn describe(text: &str) -> Result<String, String> {
    let (chain, configuration) = text::read(text)?;
    Ok(format!("configuration of chain {chain}: {}", super::controller::process::describe(&configuration)))
}

/// Why a registry could not do it, and what to do about it.
#[derive(Debug)]
pub enum RegistryError {
    /// Doing this to that file failed.
    File(&'static str, PathBuf, io::Error),
    /// This copy is there, cannot be read, and may have a newer configuration than those that can.
    Unread(PathBuf, io::Error),
    /// Another controller has it.
    Locked(PathBuf),
    /// What is there is not what this chain's controllers write.
    NotOurs(String, String),
    /// etcd did not do it.
    Etcd(EtcdError),
    /// Others may read this, which is a secret.
    OpenToOthers(&'static str, PathBuf),
    /// The files of certificates, of which this is the authorities', are not what they should be.
    Certificates(PathBuf, String),
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::File(what, path, error) => write!(f, "cannot {what} {}: {error}", path.display()),
            RegistryError::Unread(path, error) => write!(
                f,
                "cannot read {}: {error}; it may have a newer configuration than the copies that can be read: make it readable, or remove it \
                 if it is lost for good",
                path.display()
            ),
            RegistryError::Locked(path) => write!(
                f,
                "{} is in use by a controller that runs: a file is for one controller; end that one, or give both --etcd",
                path.display()
            ),
            RegistryError::NotOurs(place, why) => write!(
                f,
                "{place} is no configuration of this chain: {why}\n  give the right one; if it was damaged, restore it, or remove it and use \
                 `millrace chain reset`"
            ),
            RegistryError::Etcd(error @ EtcdError::Unreachable(_)) => {
                write!(f, "{error}; the chain goes on writing as it is, reads end with their leases")
            }
            RegistryError::Etcd(error @ EtcdError::Refused(..)) => write!(
                f,
                "{error}\n  --etcd-user and --etcd-password-file say who asks; that user needs a role with readwrite on the keys \
                 under /millrace/ (`etcdctl role grant-permission ROLE readwrite /millrace/ --prefix`)"
            ),
            RegistryError::Etcd(error @ EtcdError::NoAuthority(_)) => {
                write!(f, "{error}: --etcd-ca-file FILE, etcd_ca_file in a cluster's file")
            }
            RegistryError::Etcd(error) => error.fmt(f),
            RegistryError::Certificates(path, why) => {
                write!(f, "certificates for etcd, whose authorities are in {}: {why}", path.display())
            }
            RegistryError::OpenToOthers(what, path) => {
                write!(
                    f,
                    "{} is {what}, and others may read it: chmod 600 {}",
                    path.display(),
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for RegistryError {}

impl From<EtcdError> for RegistryError {
    fn from(error: EtcdError) -> RegistryError {
        RegistryError::Etcd(error)
    }
}

#[cfg(test)]
mod tests;
