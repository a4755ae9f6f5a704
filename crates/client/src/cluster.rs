//! From what a program knows of its cluster to a client of it: of its store (chains of replicas), of its in-network cache, or of both.
//!
//! ```text
//!   file ──▶ [[chain]]          ──▶ store ──┐ what both have goes to the store, if there is one
//!        └─▶ [[box]], [[home]]  ──▶ cache ──┘
//!   controller, etcd, replicas  ──▶ store
//! ```
//! Only a file says where a rack is; the cache of a file that has chains too is opened when it is first asked for.

use crate::cache::{self, ClientError, Topology};
use crate::chain::{self, Source};
use crate::etcd::Access;
use crate::file::{self, Parts};
use crate::web::Tls;
use crate::{Error, Item, Pending, Store, Swap};
use fabric::link::Address;
use protocol::chain::client::Reads;
use protocol::wire::{Status, Version};
use std::path::PathBuf;
use std::time::Duration;

/// A client of a cluster. It is used by one thread at a time; a program has one for each of its threads.
///
/// ```no_run
/// use client::Cluster;
///
/// let mut cluster = Cluster::builder().cluster("cluster.toml").connect()?;
/// let version = cluster.set(b"colour", b"blue")?;
/// assert_eq!(cluster.get(b"colour")?.map(|item| item.version), Some(version));
/// let visits = cluster.increment(b"visits", 1)?;
/// println!("{visits} visits");
/// # Ok::<(), client::Error>(())
/// ```
///
/// A file may have chains and a rack. Then keys of the one are no keys of the other, unless the rack's homes keep their items in the chains: what is asked of
/// the cluster itself goes to the store, and [`Cluster::cache`] asks the boxes.
pub struct Cluster {
    store: Option<Store>,
    cache: Cache,
}

/// What is known of the cache.
enum Cache {
    None,
    /// By this file, not opened yet; which box is to be asked.
    In(PathBuf, Option<u16>),
    Open(Box<cache::Client>),
}

/// What a program knows of its cluster, and how its client is to be. All that is named is looked at, now and whenever nobody can be reached.
#[derive(Clone, Debug)]
#[must_use = "nothing is done before connect"]
pub struct Builder {
    sources: Vec<Source>,
    etcd: Vec<String>,
    access: Access,
    chain: Option<u32>,
    /// The box that the cache's client asks.
    tor: Option<u16>,
    options: chain::Options,
}

impl Cluster {
    /// Says where the cluster is found, and how the client is to be.
    pub fn builder() -> Builder {
        Builder {
            sources: Vec::new(),
            etcd: Vec::new(),
            access: Access::default(),
            chain: None,
            tor: None,
            options: chain::Options::default(),
        }
    }

    /// The store: keys and transactions of its chain, or chains.
    ///
    /// # Errors
    /// [`Error::NotFound`]: the cluster has none.
    pub fn store(&mut self) -> Result<&mut Store, Error> {
        self.store.as_mut().ok_or_else(Error::no_store)
    }

    /// The in-network cache, by its boxes. Its operations have errors and bounds of their own: [`ClientError`].
    ///
    /// # Errors
    /// [`Error::NotFound`]: the cluster has none, or its file or its key is wrong.
    pub fn cache(&mut self) -> Result<&mut cache::Client, Error> {
        if let Cache::In(file, tor) = &self.cache {
            let opened = Topology::read(file).and_then(|topology| cache::Client::init(&topology, *tor));
            self.cache = Cache::Open(Box::new(opened.map_err(|error| Error::NotFound(error.to_string()))?));
        }
        match &mut self.cache {
            Cache::Open(client) => Ok(client),
            _ => Err(Error::NotFound(
                "the cluster has no in-network cache: only its file says where one is, with [[box]] and [[home]]"
                    .to_owned(),
            )),
        }
    }

    /// The item of `key`; `None`: nothing is there.
    ///
    /// # Errors
    /// See [`Error`]; so of all that follow.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Item>, Error> {
        if let Some(store) = &mut self.store {
            return store.get(key);
        }
        let found = self.cache()?.get(key)?;
        Ok(found.map(|item| Item { value: item.value, version: item.version.0 }))
    }

    /// Stores, whatever is there; the version that it made.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        match &mut self.store {
            Some(store) => store.set(key, value),
            None => Ok(self.cache()?.set(key, value)?.0),
        }
    }

    /// Stores where nothing is; `None`: something is.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>, Error> {
        match &mut self.store {
            Some(store) => store.add(key, value),
            None => Ok(self.cache()?.add(key, value)?.map(|version| version.0)),
        }
    }

    /// Stores where something is; `None`: nothing is.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>, Error> {
        match &mut self.store {
            Some(store) => store.replace(key, value),
            None => Ok(self.cache()?.replace(key, value)?.map(|version| version.0)),
        }
    }

    /// Stores where `version` is.
    pub fn cas(&mut self, key: &[u8], version: u64, value: &[u8]) -> Result<Swap, Error> {
        if let Some(store) = &mut self.store {
            return store.cas(key, version, value);
        }
        Ok(match self.cache()?.cas(key, Version(version), value)? {
            Swap::Stored(version) => Swap::Stored(version.0),
            Swap::Exists => Swap::Exists,
            Swap::Missing => Swap::Missing,
        })
    }

    /// Removes; whether something was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        match &mut self.store {
            Some(store) => store.delete(key),
            None => Ok(self.cache()?.delete(key)?),
        }
    }

    /// Adds to a number, and says the sum. Where nothing is, that counts as 0. Numbers of a store have 64 bits and a sign; those of the cache have none, and go
    /// down to 0.
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        if let Some(store) = &mut self.store {
            return store.increment(key, by);
        }
        let (cache, much) = (self.cache()?, by.unsigned_abs());
        let sum = match by {
            0.. => cache.increment(key, much, Some(much))?,
            _ => cache.decrement(key, much, Some(0))?,
        };
        let sum =
            sum.ok_or_else(|| Error::Odd("the cache answered an addition without its sum".to_owned()))?;
        i64::try_from(sum)
            .map_err(|_| Error::Odd(format!("the sum is {sum}, which 64 bits with a sign do not hold")))
    }

    /// Subtracts. Else as [`Cluster::increment`].
    pub fn decrement(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        self.increment(key, by.checked_neg().ok_or(Error::Overflow)?)
    }

    /// A transaction of the store, to be filled and committed; where there is none the commit says so.
    pub fn transaction(&mut self) -> Pending<'_> {
        Pending::of(self.store.as_mut())
    }

    /// Ends it: the cluster forgets its session.
    pub fn close(self) {
        if let Some(store) = self.store {
            store.close();
        }
        if let Cache::Open(client) = self.cache {
            client.close();
        }
    }
}

/// What the cache's client says, as an operation that either may do.
impl From<ClientError> for Error {
    fn from(error: ClientError) -> Error {
        match error {
            ClientError::NotDone => Error::NotDone(error.to_string()),
            ClientError::Unknown | ClientError::Socket(_) => {
                Error::Unknown { id: None, why: error.to_string() }
            }
            ClientError::Status(Status::NotNumber) => Error::NotANumber,
            ClientError::Bad | ClientError::Status(_) => Error::Cache(error.to_string()),
        }
    }
}

impl Builder {
    /// By the file of the cluster.
    pub fn cluster(mut self, file: impl Into<PathBuf>) -> Builder {
        self.sources.push(Source::File(file.into()));
        self
    }

    /// By a controller: `HOST:PORT` of its admin port, or a URL of it. Several may be named, by several calls.
    pub fn controller(mut self, address: impl Into<String>) -> Builder {
        self.sources.push(Source::Controller(address.into()));
        self
    }

    /// By the etcd in which the chain's controllers keep their configuration: `http://HOST:PORT`, or with TLS `https://HOST:PORT`, of its members.
    pub fn etcd<T: Into<String>>(mut self, endpoints: impl IntoIterator<Item = T>) -> Builder {
        self.etcd.extend(endpoints.into_iter().map(Into::into));
        self
    }

    /// As this user, where etcd has users; he needs to read the keys below `/millrace/`.
    pub fn etcd_login(mut self, user: impl Into<String>, password: impl Into<String>) -> Builder {
        self.access.login = Some((user.into(), password.into()));
        self
    }

    /// Where its members have certificates (`https://HOST:PORT`).
    pub fn etcd_tls(mut self, tls: Tls) -> Builder {
        self.access.tls = Some(tls);
        self
    }

    /// By replicas; one that lives is enough.
    pub fn replicas(mut self, addresses: impl IntoIterator<Item = Address>) -> Builder {
        self.sources.push(Source::Replicas(addresses.into_iter().collect()));
        self
    }

    /// The chain of this number alone. Without it, where a file has several, all of them: each key is in the one that has its slot. In etcd it is chain 1,
    /// unless this says so.
    pub fn chain(mut self, number: u32) -> Builder {
        self.chain = Some(number);
        self
    }

    /// The box that the in-network cache is asked by; the first of the file, unless this says so.
    pub fn tor(mut self, id: u16) -> Builder {
        self.tor = Some(id);
        self
    }

    /// Operations of the store end within this; 10 s, unless this says so. [`Store::set_deadline`] changes it later.
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.options.patience = deadline;
        self
    }

    /// How long replicas, controllers and etcd may take to answer while the cluster is looked for; 2 s, unless this says so.
    pub fn connect_timeout(mut self, timeout: Duration) -> Builder {
        self.options.timeout = timeout;
        self
    }

    /// Who answers what only reads; the tail, unless this says so.
    pub fn reads(mut self, reads: Reads) -> Builder {
        self.options.reads = reads;
        self
    }

    /// Finds the cluster.
    ///
    /// # Errors
    /// [`Error::NotFound`]: nobody was, and why for each place.
    pub fn connect(self) -> Result<Cluster, Error> {
        let Builder { mut sources, etcd, access, chain, tor, options } = self;
        if !etcd.is_empty() {
            sources.push(Source::Etcd { endpoints: etcd, access });
        }
        let (sources, rack) = split(sources);
        let cache = rack.map_or(Cache::None, |file| Cache::In(file, tor));
        if sources.is_empty() && matches!(cache, Cache::In(..)) {
            let mut cluster = Cluster { store: None, cache };
            cluster.cache()?;
            return Ok(cluster);
        }
        Ok(Cluster { store: Some(Store::of(chain::Shards::find(sources, chain, &options)?)), cache })
    }
}

/// Where chains may be found, and the first file that has a rack. A file that cannot be read stays a place to look for chains: there it is said why.
fn split(sources: Vec<Source>) -> (Vec<Source>, Option<PathBuf>) {
    let mut rack = None;
    let has_chains = |source: &Source| {
        let Source::File(path) = source else { return true };
        let parts = file::parts(path).unwrap_or(Parts { rack: false, chains: true });
        if parts.rack && rack.is_none() {
            rack = Some(path.clone());
        }
        parts.chains || !parts.rack
    };
    (sources.into_iter().filter(has_chains).collect(), rack)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACK: &str =
        "[[box]]\nid = 1\naddress = \"127.0.0.1:1\"\n[[home]]\nid = 1\naddress = \"127.0.0.1:2\"\nbox = 1\n";
    const CHAIN: &str = "[[chain]]\nnumber = 7\n[[chain.replica]]\nid = 1\naddress = \"tcp:127.0.0.1:9\"\n";

    /// What is found by a file with this text; nobody of it runs.
    fn by(test: &str, text: &str, more: impl FnOnce(Builder) -> Builder) -> Result<Cluster, Error> {
        let file = std::env::temp_dir().join(format!("millrace-cluster-{}-{test}.toml", std::process::id()));
        std::fs::write(&file, text).expect("a file");
        let builder = Cluster::builder().cluster(&file).connect_timeout(Duration::from_millis(1));
        let found = more(builder).deadline(Duration::from_millis(1)).connect();
        let _ = std::fs::remove_file(&file);
        found
    }

    #[test]
    fn a_rack_alone_is_a_cache_without_a_store() {
        let mut cluster =
            by("rack", RACK, |builder| builder.tor(1)).expect("nobody is asked before an operation");
        assert!(cluster.cache().is_ok());
        let error = cluster.transaction().put("k", "v").commit().expect_err("there is no chain").to_string();
        assert!(error.contains("no store: its file has no [[chain]]"), "{error}");
        cluster.close();
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (text, words) in [
            ("", "there is no [[chain]]"),
            ("[[chain]]\nnumbr = 7\n", "did you mean \"number\"?"),
            ("[[bax]]\n", "did you mean \"box\"?"),
            ("[[box]]\nid = 1\n", "[box] needs address"),
            (RACK, "no box 9 to ask; its boxes are 1"),
        ] {
            let error = by("wrong", text, |builder| builder.tor(9)).err().expect(words).to_string();
            assert!(error.contains(words), "{words:?} in {error:?}");
        }
    }

    #[test]
    fn a_file_is_split_into_places_of_chains_and_a_rack() {
        let file = |test: &str, text: &str| {
            let file =
                std::env::temp_dir().join(format!("millrace-split-{}-{test}.toml", std::process::id()));
            std::fs::write(&file, text).expect("a file");
            file
        };
        let both = file("both", &format!("{RACK}{CHAIN}"));
        let (rack, chain) = (file("rack", RACK), file("chain", CHAIN));
        let of = |files: &[&PathBuf]| split(files.iter().map(|file| Source::File((*file).clone())).collect());
        let places = |files: &[&PathBuf]| files.iter().map(|file| Source::File((*file).clone())).collect();
        assert_eq!(of(&[&both]), (places(&[&both]), Some(both.clone())));
        assert_eq!(of(&[&rack]), (Vec::new(), Some(rack.clone())));
        assert_eq!(of(&[&chain]), (places(&[&chain]), None));
        assert_eq!(of(&[&chain, &rack, &both]), (places(&[&chain, &both]), Some(rack.clone())));
        [both, rack, chain].iter().for_each(|file| std::fs::remove_file(file).expect("it is there"));
    }
}
