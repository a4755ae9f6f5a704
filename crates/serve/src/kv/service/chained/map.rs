//! The smallest chain: a map that does one transaction after the other. For tests and simulations.

use protocol::chain::claim::{self, CLAIM};
use protocol::chain::transaction::{Abort, Change, Condition, Found};
use protocol::chain::{Claim, Durability, Lsn, Outcome, Transaction};
use std::collections::BTreeMap;

/// What becomes of keys; none: they are absent.
type Values = Vec<Option<Vec<u8>>>;

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Map {
    items: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    last: u64,
}

impl Map {
    /// All keys, with version and value.
    pub fn items(&self) -> &BTreeMap<Vec<u8>, (u64, Vec<u8>)> {
        &self.items
    }

    fn version(&self, key: &[u8]) -> u64 {
        self.items.get(key).map_or(0, |(version, _)| *version)
    }

    fn number(&self, key: &[u8]) -> Option<i64> {
        let Some((_, value)) = self.items.get(key) else { return Some(0) };
        std::str::from_utf8(value).ok()?.parse().ok()
    }

    /// The number of the claim that counts; 0: none.
    pub fn claim(&self) -> u64 {
        let claim = self.items.get(CLAIM).and_then(|(_, value)| Claim::parse(value));
        claim.map_or(0, |claim| claim.number)
    }

    fn holds(&self, key: &[u8], condition: &Condition) -> bool {
        match condition {
            Condition::Version(version) => *version == self.version(key),
            Condition::Exists => self.items.contains_key(key),
            Condition::Value(value) => self.items.get(key).is_some_and(|(_, is)| is == value),
            Condition::AtLeast(least) => self.number(key).is_some_and(|is| is >= *least),
        }
    }

    /// What becomes of the keys that are written, and what additions come to.
    fn changes(&self, transaction: &Transaction) -> Result<(Values, Vec<i64>), Abort> {
        let mut sums = Vec::new();
        let mut change = |(place, (key, change)): (usize, &(Vec<u8>, Change))| match change {
            Change::Put(value) => Ok(Some(value.clone())),
            Change::Delete => Ok(None),
            Change::Add(by) => {
                let is = self.number(key).ok_or(Abort::NotANumber(place as u32))?;
                let sum = is.checked_add(*by).ok_or(Abort::Overflow(place as u32))?;
                sums.push(sum);
                Ok(Some(sum.to_string().into_bytes()))
            }
        };
        let values = transaction.writes.iter().enumerate().map(&mut change).collect::<Result<_, _>>()?;
        Ok((values, sums))
    }

    /// Does a transaction, if its claim counts.
    pub fn execute(&mut self, transaction: &Transaction) -> Outcome {
        if claim::allows(self.claim(), transaction) {
            return self.execute_under_any(transaction);
        }
        self.outcome(Some(Abort::Claimed), vec![], vec![])
    }

    /// The same, whatever it is made under.
    pub fn execute_under_any(&mut self, transaction: &Transaction) -> Outcome {
        let broken = transaction.conditions.iter().position(|(key, condition)| !self.holds(key, condition));
        let reads = self.look(transaction).reads;
        if let Some(place) = broken {
            return self.outcome(Some(Abort::Condition(place as u32)), reads, vec![]);
        }
        let (values, sums) = match self.changes(transaction) {
            Ok(changes) => changes,
            Err(abort) => return self.outcome(Some(abort), reads, vec![]),
        };
        self.last += u64::from(!transaction.only_reads());
        for ((key, _), value) in transaction.writes.iter().zip(values) {
            match value {
                Some(value) => drop(self.items.insert(key.clone(), (self.last, value))),
                None => drop(self.items.remove(key)),
            }
        }
        self.outcome(None, reads, sums)
    }

    /// What a transaction that only reads finds, whatever claim counts.
    pub fn look(&self, transaction: &Transaction) -> Outcome {
        let found = |key: &Vec<u8>| {
            let (version, value) = self.items.get(key)?;
            Some(Found { version: Lsn(*version), value: value.clone() })
        };
        self.outcome(None, transaction.reads.iter().map(found).collect(), vec![])
    }

    fn outcome(&self, abort: Option<Abort>, reads: Vec<Option<Found>>, sums: Vec<i64>) -> Outcome {
        Outcome { lsn: Lsn(self.last), abort, reads, sums, durability: Durability::PowerLoss, copies: 3 }
    }
}
