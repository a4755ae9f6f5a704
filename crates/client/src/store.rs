//! Keys and transactions of chains of replicas: durable, strictly serializable, each operation a transaction of its own.
//!
//! ```text
//!   get             reads                                   asked again until its deadline: it changes nothing
//!   set, add, cas…  condition and write in one transaction  sent again under its number: done once or not at all
//!   transaction     what the program puts into it           the same
//! ```
//! Where there are several chains a key is in the one that has its slot ([`crate::chain::Shards`]).
//!
//! Who answers is found, and found again when replicas die, move or join ([`crate::chain`]).
//!
//! Bounds: keys of 1 to 250 bytes, values of 64 KiB, [`protocol::chain::transaction`] has those of transactions. Each operation ends by its deadline.

use crate::Swap;
use crate::chain::{Client, Options, Shards, TxnError};
use crate::error::Error;
use base::trace::Context;
use protocol::chain::message::{RequestId, Status};
use protocol::chain::transaction::{Abort, Change, Condition};
use protocol::chain::{Outcome, TraceContext, Transaction};
use std::time::Duration;

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its bytes.
    pub value: Vec<u8>,
    /// The transaction that wrote it; higher than that of whatever was there before.
    pub version: u64,
}

/// Keys and transactions of one chain, or of several: then each operation is of one of them. It is used by one thread at a time; a program has one for each
/// of its threads.
pub struct Store {
    chains: Shards,
    /// What operations leave their spans in.
    trace: TraceContext,
}

impl Store {
    /// Of a client of the only chain.
    pub fn new(chain: Client) -> Store {
        Store::of(Shards::of(chain, &Options::default()))
    }

    /// Of clients of all chains.
    pub fn of(chains: Shards) -> Store {
        Store { chains, trace: TraceContext::default() }
    }

    /// The client beneath, of the chain that a key is in: transactions without waiting, many under way.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn chain_of(&mut self, key: &[u8]) -> Result<&mut Client, Error> {
        Ok(self.chains.chain_of(key)?)
    }

    /// The numbers of its chains.
    pub fn chains(&self) -> impl Iterator<Item = u32> {
        self.chains.chains()
    }

    /// Operations that begin from now on end within this.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.chains.set_patience(deadline);
    }

    /// Operations that begin from now on are parts of this span, or of none: replicas record what they do for them, if the span is sampled.
    pub fn set_trace(&mut self, span: Option<Context>) {
        self.trace = TraceContext(span.filter(|span| span.sampled).map(|span| span.to_bytes()));
    }

    /// The item of `key`; `None`: nothing is there.
    ///
    /// # Errors
    /// See [`Error`]; so of all that follow.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Item>, Error> {
        let mut found = self.get_many(&[key])?;
        Ok(found.pop().flatten())
    }

    /// The items of different keys, of one chain, as they were at one moment, in their order.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Item>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let asked = keys.iter().fold(Transaction::new(), |asked, key| asked.get(*key));
        let outcome = self.done(asked)?;
        let item = |found: protocol::chain::transaction::Found| Item {
            value: found.value,
            version: found.version.0,
        };
        Ok(outcome.reads.into_iter().map(|found| found.map(item)).collect())
    }

    /// Stores, whatever is there; the version that it made.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        self.done(Transaction::new().put(key, value)).map(|outcome| outcome.lsn.0)
    }

    /// Stores where nothing is; `None`: something is.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>, Error> {
        self.if_it_holds(Transaction::new().if_missing(key).put(key, value))
    }

    /// Stores where something is; `None`: nothing is.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>, Error> {
        self.if_it_holds(Transaction::new().if_exists(key).put(key, value))
    }

    /// Stores where `version` is.
    pub fn cas(&mut self, key: &[u8], version: u64, value: &[u8]) -> Result<Swap, Error> {
        // Two conditions, so that the one that does not hold says which it was.
        let asked = Transaction::new().if_exists(key).if_version(key, version).put(key, value);
        let outcome = self.execute(asked)?;
        match outcome.abort {
            None => Ok(Swap::Stored(outcome.lsn.0)),
            Some(Abort::Condition(0)) => Ok(Swap::Missing),
            Some(Abort::Condition(_)) => Ok(Swap::Exists),
            Some(abort) => Err(Error::of_abort(abort)),
        }
    }

    /// Removes; whether something was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.if_it_holds(Transaction::new().if_exists(key).delete(key)).map(|done| done.is_some())
    }

    /// Adds to a number (decimal text, 64 bits with a sign), and says the sum. Where nothing is, that counts as 0.
    ///
    /// # Errors
    /// [`Error::NotANumber`], [`Error::Overflow`]; nothing was changed then.
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        let outcome = self.done(Transaction::new().add(key, by))?;
        let sum = outcome.sums.first().copied();
        sum.ok_or_else(|| Error::Odd("the chain answered an addition without its sum".to_owned()))
    }

    /// Subtracts, below 0 too. Else as [`Store::increment`].
    pub fn decrement(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        self.increment(key, by.checked_neg().ok_or(Error::Overflow)?)
    }

    /// A transaction, to be filled and committed.
    pub fn transaction(&mut self) -> Pending<'_> {
        Pending::of(Some(self))
    }

    /// Does a transaction that was made elsewhere. That it was aborted is an outcome, too: [`Outcome::abort`].
    pub fn execute(&mut self, transaction: Transaction) -> Result<Outcome, Error> {
        Ok(self.chains.execute(transaction.traced(self.trace))?)
    }

    /// What became of a write that ended as [`Error::Unknown`], of this program or another: done, and how; not known (yet), so that it may still be
    /// done; or forgotten, and nobody can tell any more.
    pub fn status(&mut self, id: RequestId) -> Result<Status, Error> {
        Ok(self.chains.status(id)?)
    }

    /// Ends it; the chain forgets its session.
    pub fn close(self) {
        self.chains.close();
    }

    /// The outcome of what has no condition.
    fn done(&mut self, asked: Transaction) -> Result<Outcome, Error> {
        let outcome = self.execute(asked)?;
        match outcome.abort {
            None => Ok(outcome),
            Some(abort) => Err(Error::of_abort(abort)),
        }
    }

    /// The version that was made; none if the condition does not hold.
    fn if_it_holds(&mut self, asked: Transaction) -> Result<Option<u64>, Error> {
        let outcome = self.execute(asked)?;
        match outcome.abort {
            None => Ok(Some(outcome.lsn.0)),
            Some(Abort::Condition(_)) => Ok(None),
            Some(abort) => Err(Error::of_abort(abort)),
        }
    }
}

/// A transaction that is being put together. All conditions and reads see the moment before it; if every condition holds all writes are done at
/// once, else none is. A key has one read and one write at most.
///
/// ```no_run
/// # fn f(store: &mut client::Store) -> Result<(), client::Error> {
/// let moved = store
///     .transaction()
///     .expect_at_least(b"ann", 4)
///     .add(b"ann", -4)
///     .add(b"bob", 4)
///     .read(b"eve")
///     .commit()?;
/// match moved.abort {
///     None => println!("ann has {} and bob {} now", moved.sums[0], moved.sums[1]),
///     Some(_) => println!("ann has too little; nothing was done"),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before commit"]
pub struct Pending<'a> {
    store: Option<&'a mut Store>,
    transaction: Transaction,
}

impl<'a> Pending<'a> {
    /// Of the store that is to do it, if there is one.
    pub(crate) fn of(store: Option<&'a mut Store>) -> Pending<'a> {
        Pending { store, transaction: Transaction::new() }
    }

    /// Reads a key: [`Outcome::reads`] has what was found, in the order of the reads.
    pub fn read(mut self, key: impl AsRef<[u8]>) -> Self {
        self.transaction.reads.push(key.as_ref().to_vec());
        self
    }

    /// It has this version.
    pub fn expect_version(self, key: impl AsRef<[u8]>, version: u64) -> Self {
        self.expect(key, Condition::Version(version))
    }

    /// Nothing is there.
    pub fn expect_absent(self, key: impl AsRef<[u8]>) -> Self {
        self.expect(key, Condition::Version(0))
    }

    /// Something is there.
    pub fn expect_exists(self, key: impl AsRef<[u8]>) -> Self {
        self.expect(key, Condition::Exists)
    }

    /// It has this value.
    pub fn expect_value(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.expect(key, Condition::Value(value.as_ref().to_vec()))
    }

    /// It is a number of at least this much; what is absent counts as 0.
    pub fn expect_at_least(self, key: impl AsRef<[u8]>, least: i64) -> Self {
        self.expect(key, Condition::AtLeast(least))
    }

    /// It has this value then.
    pub fn put(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.change(key, Change::Put(value.as_ref().to_vec()))
    }

    /// Nothing is there then.
    pub fn delete(self, key: impl AsRef<[u8]>) -> Self {
        self.change(key, Change::Delete)
    }

    /// It is a number, and becomes larger by this much: [`Outcome::sums`] has what it came to, in the order of the additions.
    pub fn add(self, key: impl AsRef<[u8]>, by: i64) -> Self {
        self.change(key, Change::Add(by))
    }

    /// Does it, and waits for what becomes of it. That it was aborted, because a condition does not hold, is an outcome: [`Outcome::abort`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn commit(self) -> Result<Outcome, Error> {
        self.store.ok_or_else(Error::no_store)?.execute(self.transaction)
    }

    fn expect(mut self, key: impl AsRef<[u8]>, condition: Condition) -> Self {
        self.transaction.conditions.push((key.as_ref().to_vec(), condition));
        self
    }

    fn change(mut self, key: impl AsRef<[u8]>, change: Change) -> Self {
        self.transaction.writes.push((key.as_ref().to_vec(), change));
        self
    }
}

impl From<TxnError> for Error {
    fn from(error: TxnError) -> Error {
        match error {
            TxnError::Nobody(_) | TxnError::NotFound(_) | TxnError::Chains(..) => {
                Error::NotFound(error.to_string())
            }
            TxnError::Across(across) => Error::Across(across),
            TxnError::NoChain => Error::NotFound(error.to_string()),
            TxnError::Refused(refusal) => Error::Refused(refusal),
            TxnError::NotDone(why) => Error::NotDone(why),
            TxnError::Unknown { id, why } => Error::Unknown { id, why },
            TxnError::TooMany => Error::NotDone(error.to_string()),
        }
    }
}
