//! How a chain's replicas are found: addresses that are given, the file of the cluster, a controller's admin port, etcd.
//!
//! ```text
//!   sources, all at once ──▶ addresses ──▶ who is there? (`search`) ──▶ replicas, and those that they know of
//! ```
//! Every source is a help: what counts is what a replica says of itself. So an old file, a controller that does not lead and an etcd that is behind do
//! no harm, and one source that names one living replica is enough.
//!
//! Bounds: [`Finder`]'s time for each source; a directory's for what it names.

use super::directory::{self, Directory};
use crate::etcd::{Access, Etcd};
use crate::file;
use crate::web::Web;
use fabric::link::Address;
use std::path::PathBuf;
use std::time::Duration;

/// The chain whose directory etcd is asked for if none is named: what controllers call theirs then.
const USUAL_CHAIN: u32 = 1;

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Replicas; one that lives is enough.
    Replicas(Vec<Address>),
    /// The file of the cluster, read again whenever replicas are looked for.
    File(PathBuf),
    /// The admin port of a controller: `HOST:PORT`, or a URL, such as `http://HOST:PORT/services/NAME` of a node.
    Controller(String),
    /// etcd, where the chain's controllers keep their configuration.
    Etcd {
        /// `http://HOST:PORT` or `https://HOST:PORT` of its members.
        endpoints: Vec<String>,
        /// As whom it is asked, where it has users; and how it is known.
        access: Access,
    },
}

/// Looks for the replicas of one chain.
#[derive(Clone, Debug)]
pub struct Finder {
    /// Where.
    pub sources: Vec<Source>,
    /// The chain's number; none: the only one that a source knows of.
    pub chain: Option<u32>,
    /// How long a source may take.
    pub timeout: Duration,
}

impl Finder {
    /// Where replicas may be: of all sources that say something, in their order.
    ///
    /// # Errors
    /// No source names any, and why: a sentence for each.
    pub fn addresses(&self) -> Result<Vec<Address>, String> {
        // Those that are only read are asked here; each other on a thread of its own, since one that is silent takes its whole time.
        let said: Vec<Result<Vec<Address>, String>> = std::thread::scope(|scope| {
            let asked: Vec<_> =
                self.sources.iter().map(|source| scope.spawn(move || self.ask(source))).collect();
            let said = asked
                .into_iter()
                .map(|asked| asked.join().unwrap_or_else(|_| Err("asking for replicas panicked".to_owned())));
            said.collect()
        });
        let mut addresses: Vec<Address> = Vec::new();
        let mut failures = Vec::new();
        for said in said {
            match said {
                Ok(found) => found.into_iter().for_each(|address| {
                    if !addresses.contains(&address) {
                        addresses.push(address);
                    }
                }),
                Err(why) => failures.push(why),
            }
        }
        if !addresses.is_empty() {
            return Ok(addresses);
        }
        Err(match failures.is_empty() {
            true => {
                "no replica is named: give addresses, the cluster's file, a controller or etcd".to_owned()
            }
            false => failures.join("\n  "),
        })
    }

    fn ask(&self, source: &Source) -> Result<Vec<Address>, String> {
        match source {
            Source::Replicas(addresses) => Ok(addresses.clone()),
            Source::File(path) => {
                let chain = file::chain(path, self.chain).map_err(|wrong| wrong.to_string())?;
                Ok(chain.replicas.into_iter().map(|(_, address)| address).collect())
            }
            Source::Controller(place) => self.ask_controller(place),
            Source::Etcd { endpoints, access } => self.ask_etcd(endpoints, access.clone()),
        }
    }

    fn ask_controller(&self, place: &str) -> Result<Vec<Address>, String> {
        let url = match place {
            url if url.starts_with("http://") => url.trim_end_matches('/').to_owned(),
            url if url.contains("://") || url.starts_with("tcp:") => {
                return Err(format!(
                    "{url:?} is no controller's admin port: write HOST:PORT, as its --admin says (plain HTTP)"
                ));
            }
            place => format!("http://{place}"),
        };
        let said = |why: String| format!("the controller at {url}: {why}");
        let page = Web::new(self.timeout, directory::MAX_BYTES).get(&format!("{url}/chain")).map_err(said)?;
        if !page.is_there {
            return Err(said(format!(
                "{} for /chain: is this a chain controller's admin port?",
                page.status
            )));
        }
        self.read(&page.text).map_err(said)
    }

    fn ask_etcd(&self, endpoints: &[String], access: Access) -> Result<Vec<Address>, String> {
        let said = |error: crate::etcd::EtcdError| error.to_string();
        // Each member has its share, so that one that is silent does not take the time of all.
        let each = self.timeout / u32::try_from(endpoints.len().max(1)).unwrap_or(u32::MAX);
        let mut etcd = Etcd::new(endpoints.to_vec(), access, each).map_err(said)?;
        let key = directory::key(self.chain.unwrap_or(USUAL_CHAIN));
        let found = etcd.get(&key).map_err(said)?;
        let found = found.ok_or_else(|| {
            format!(
                "etcd has no {key}: a controller that leads writes it; does one run, and is this its chain?"
            )
        })?;
        self.read(&found.value).map_err(|why| format!("{key} in etcd: {why}"))
    }

    fn read(&self, text: &str) -> Result<Vec<Address>, String> {
        let directory = Directory::parse(text)?;
        match self.chain {
            Some(chain) if chain != directory.chain => {
                Err(format!("it is about chain {}, and not about {chain}", directory.chain))
            }
            _ if directory.replicas.is_empty() => Err("no replica has said yet where it serves".to_owned()),
            _ => Ok(directory.addresses().cloned().collect()),
        }
    }
}

#[cfg(test)]
mod tests;
