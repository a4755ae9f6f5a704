//! From what a program knows of its cluster to a client of it: of its store (chains of replicas), of its in-network cache, or of both.
//!
//! ```text
//!   file ──▶ [[chain]]          ──▶ store ──┐ what both have goes to the store, if there is one
//!        └─▶ [[box]], [[home]]  ──▶ cache ──┘
//!   etcd, replicas, a chain's controller  ──▶ store
//!   a rack's controller                   ──▶ the same file, with homes where they are now
//! ```
//! Only the file says where a rack is, on a disk or as its controllers have it; the cache of one that has chains too is opened when it is first asked for.

use crate::cache::{self, ClientError, Topology};
use crate::chain::{self, Source};
use crate::controllers;
use crate::etcd::Access;
use crate::web::Tls;
use crate::{Error, Item, Pending, Store, Swap};
use base::trace::Context;
use fabric::link::Address;
use protocol::chain::client::Reads;
use protocol::wire::{Status, Version};
use std::path::PathBuf;
use std::time::Duration;

mod places;

use places::{split, with_files};

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
    /// Not opened yet.
    In(CacheSource),
    Open(Box<cache::Client>),
}

/// Where the cache is, and how it is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CacheSource {
    /// The cluster's file, or its controllers.
    file: PathBuf,
    /// The box.
    tor: Option<u16>,
    /// Has the clients' key, if not where the file says.
    key: Option<PathBuf>,
    /// How long controllers may take.
    timeout: Duration,
}

impl CacheSource {
    fn open(&self) -> Result<cache::Client, cache::TopologyError> {
        let topology = Topology::find(&self.file, self.timeout)?;
        let topology = match &self.key {
            Some(key) => topology.with_client_key(key),
            None => topology,
        };
        cache::Client::init(&topology, self.tor)
    }
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
    /// Where the cache's clients' key is.
    client_key: Option<PathBuf>,
    options: chain::Options,
}

impl Cluster {
    /// The cluster whose controllers have their admin ports there, `HOST:PORT` each: of its rack, of a chain, or of both. One that lives is enough.
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub fn at_controllers(addresses: &[impl AsRef<str>]) -> Result<Cluster, Error> {
        addresses.iter().fold(Cluster::builder(), |all, one| all.controller(one.as_ref())).connect()
    }

    /// Says where the cluster is found, and how the client is to be.
    pub fn builder() -> Builder {
        Builder {
            sources: Vec::new(),
            etcd: Vec::new(),
            access: Access::default(),
            chain: None,
            tor: None,
            client_key: None,
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
        if let Cache::In(place) = &self.cache {
            let opened = place.open().map_err(|error| Error::NotFound(error.to_string()))?;
            self.cache = Cache::Open(Box::new(opened));
        }
        match &mut self.cache {
            Cache::Open(client) => Ok(client),
            _ => Err(Error::NotFound(
                "the cluster has no in-network cache: its file says where one is, with [[box]] and [[home]], or a controller of the rack"
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

    /// Operations of the store that begin from now on are parts of this span, or of none: [`Store::set_trace`].
    pub fn set_trace(&mut self, span: Option<Context>) {
        if let Some(store) = &mut self.store {
            store.set_trace(span);
        }
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

    /// By a controller, of the rack or of a chain: `HOST:PORT` of its admin port, or a URL of it. Several may be named, by several calls.
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

    /// Where the key is with which the cache's clients prove what they write. Unless this says so, where the file says; of a file that is a controller's, on
    /// the controller's machine, or where `MILLRACE_CLIENT_KEY` says.
    pub fn client_key(mut self, file: impl Into<PathBuf>) -> Builder {
        self.client_key = Some(file.into());
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
        let Builder { mut sources, etcd, access, chain, tor, client_key, options } = self;
        if !etcd.is_empty() {
            sources.push(Source::Etcd { endpoints: etcd, access });
        }
        let (sources, rack) = split(with_files(sources, options.timeout));
        let timeout = options.timeout.min(controllers::TIMEOUT);
        let cache =
            rack.map_or(Cache::None, |file| Cache::In(CacheSource { file, tor, key: client_key, timeout }));
        if sources.is_empty() && matches!(cache, Cache::In(_)) {
            let mut cluster = Cluster { store: None, cache };
            cluster.cache()?;
            return Ok(cluster);
        }
        Ok(Cluster { store: Some(Store::of(chain::Shards::find(sources, chain, &options)?)), cache })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const RACK: &str =
        "[[box]]\nid = 1\naddress = \"127.0.0.1:1\"\n[[home]]\nid = 1\naddress = \"127.0.0.1:2\"\nbox = 1\n";
    const CHAIN: &str = "[[chain]]\nnumber = 7\n[[chain.replica]]\nid = 1\naddress = \"tcp:127.0.0.1:9\"\n";

    /// What is found by a file with this text; nobody of it runs.
    fn by(text: &str, more: impl FnOnce(Builder) -> Builder) -> Result<Cluster, Error> {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("cluster.toml");
        std::fs::write(&file, text).expect("a file");
        let builder = Cluster::builder().cluster(&file).connect_timeout(Duration::from_millis(1));
        more(builder).deadline(Duration::from_millis(1)).connect()
    }

    #[test]
    fn a_rack_alone_is_a_cache_without_a_store() {
        let mut cluster = by(RACK, |builder| builder.tor(1)).expect("nobody is asked before an operation");
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
            let error = by(text, |builder| builder.tor(9)).err().expect(words).to_string();
            assert!(error.contains(words), "{words:?} in {error:?}");
        }
    }

    #[test]
    fn a_file_is_split_into_places_of_chains_and_a_rack() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = |name: &str, text: &str| {
            let file = folder.path().join(name);
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
    }
}
