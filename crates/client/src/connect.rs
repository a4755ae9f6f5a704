//! From what a program knows of its cluster to a client of it.

use crate::chain::{self, Source};
use crate::etcd::Access;
use crate::web::Tls;
use crate::{Error, Item, Pending, Store, Swap};
use fabric::link::Address;
use protocol::chain::client::Reads;
use std::path::PathBuf;
use std::time::Duration;

/// A client of a cluster. It is used by one thread at a time; a program has one for each of its threads.
///
/// ```no_run
/// use client::Client;
///
/// let mut cluster = Client::builder().cluster("cluster.toml").connect()?;
/// let version = cluster.set(b"colour", b"blue")?;
/// assert_eq!(cluster.get(b"colour")?.map(|item| item.version), Some(version));
/// let visits = cluster.increment(b"visits", 1)?;
/// println!("{visits} visits");
/// # Ok::<(), client::Error>(())
/// ```
pub struct Client {
    store: Store,
}

/// What a program knows of its cluster, and how its client is to be. All that is named is looked at, now and whenever nobody can be reached.
#[derive(Clone, Debug)]
#[must_use = "nothing is done before connect"]
pub struct Builder {
    sources: Vec<Source>,
    etcd: Vec<String>,
    access: Access,
    chain: Option<u32>,
    options: chain::Options,
}

impl Client {
    /// Says where the cluster is found, and how the client is to be.
    pub fn builder() -> Builder {
        Builder {
            sources: Vec::new(),
            etcd: Vec::new(),
            access: Access::default(),
            chain: None,
            options: chain::Options::default(),
        }
    }

    /// The store: keys and transactions of its chain, or chains.
    pub fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// As [`Store::get`].
    ///
    /// # Errors
    /// See [`Error`]; so of all that follow.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Item>, Error> {
        self.store.get(key)
    }

    /// As [`Store::set`].
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        self.store.set(key, value)
    }

    /// As [`Store::add`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>, Error> {
        self.store.add(key, value)
    }

    /// As [`Store::replace`].
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>, Error> {
        self.store.replace(key, value)
    }

    /// As [`Store::cas`].
    pub fn cas(&mut self, key: &[u8], version: u64, value: &[u8]) -> Result<Swap, Error> {
        self.store.cas(key, version, value)
    }

    /// As [`Store::delete`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.store.delete(key)
    }

    /// As [`Store::increment`].
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        self.store.increment(key, by)
    }

    /// As [`Store::decrement`].
    pub fn decrement(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        self.store.decrement(key, by)
    }

    /// As [`Store::transaction`].
    pub fn transaction(&mut self) -> Pending<'_> {
        self.store.transaction()
    }

    /// Ends it: the cluster forgets its session.
    pub fn close(self) {
        self.store.close();
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

    /// Operations end within this; 10 s, unless this says so. [`Store::set_deadline`] changes it later.
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
    pub fn connect(self) -> Result<Client, Error> {
        let Builder { mut sources, etcd, access, chain, options } = self;
        if !etcd.is_empty() {
            sources.push(Source::Etcd { endpoints: etcd, access });
        }
        Ok(Client { store: Store::of(chain::Shards::find(sources, chain, &options)?) })
    }
}
