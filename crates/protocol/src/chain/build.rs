//! Transactions put together one operation after the other.
//!
//! ```
//! use protocol::chain::Transaction;
//! let transfer = Transaction::new().if_at_least("ann", 5).add("ann", -5).add("bob", 5).get("bob");
//! assert!(transfer.check().is_ok());
//! ```

use super::transaction::{Change, Condition};
use super::{TraceContext, Transaction};

impl Transaction {
    /// One that asks nothing yet.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// It leaves spans in this trace.
    #[must_use]
    pub fn traced(self, trace: TraceContext) -> Transaction {
        Transaction { trace, ..self }
    }

    /// Reads a key, as it was before the transaction.
    #[must_use]
    pub fn get(mut self, key: impl Into<Vec<u8>>) -> Transaction {
        self.reads.push(key.into());
        self
    }

    /// Gives a key this value.
    #[must_use]
    pub fn put(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Transaction {
        self.write(key, Change::Put(value.into()))
    }

    /// Makes a number larger by this much; absent counts as 0. The sum is in the outcome.
    #[must_use]
    pub fn add(self, key: impl Into<Vec<u8>>, amount: i64) -> Transaction {
        self.write(key, Change::Add(amount))
    }

    /// Makes a key absent.
    #[must_use]
    pub fn delete(self, key: impl Into<Vec<u8>>) -> Transaction {
        self.write(key, Change::Delete)
    }

    /// Only if the key has this version; 0: is absent.
    #[must_use]
    pub fn if_version(self, key: impl Into<Vec<u8>>, version: u64) -> Transaction {
        self.condition(key, Condition::Version(version))
    }

    /// Only if the key is absent.
    #[must_use]
    pub fn if_missing(self, key: impl Into<Vec<u8>>) -> Transaction {
        self.condition(key, Condition::Version(0))
    }

    /// Only if the key is there.
    #[must_use]
    pub fn if_exists(self, key: impl Into<Vec<u8>>) -> Transaction {
        self.condition(key, Condition::Exists)
    }

    /// Only if the key has this value.
    #[must_use]
    pub fn if_value(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Transaction {
        self.condition(key, Condition::Value(value.into()))
    }

    /// Only if the key is a number of at least this much; absent counts as 0.
    #[must_use]
    pub fn if_at_least(self, key: impl Into<Vec<u8>>, least: i64) -> Transaction {
        self.condition(key, Condition::AtLeast(least))
    }

    /// Made under this claim.
    #[must_use]
    pub fn under(mut self, claim: u64) -> Transaction {
        self.claim = claim;
        self
    }

    fn write(mut self, key: impl Into<Vec<u8>>, change: Change) -> Transaction {
        self.writes.push((key.into(), change));
        self
    }

    fn condition(mut self, key: impl Into<Vec<u8>>, condition: Condition) -> Transaction {
        self.conditions.push((key.into(), condition));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_in_the_order_in_which_they_were_said() {
        let transaction = Transaction::new()
            .get("a")
            .put("b", b"2")
            .if_version("c", 7)
            .add("n", -1)
            .delete(vec![0xff])
            .if_missing("d")
            .if_exists("e")
            .if_value("f", "x")
            .if_at_least("g", 3)
            .get("b");
        let key = |text: &str| text.as_bytes().to_vec();
        assert_eq!(transaction.reads, [key("a"), key("b")]);
        let writes =
            [(key("b"), Change::Put(key("2"))), (key("n"), Change::Add(-1)), (vec![0xff], Change::Delete)];
        assert_eq!(transaction.writes, writes);
        let conditions = [
            (key("c"), Condition::Version(7)),
            (key("d"), Condition::Version(0)),
            (key("e"), Condition::Exists),
            (key("f"), Condition::Value(key("x"))),
            (key("g"), Condition::AtLeast(3)),
        ];
        assert_eq!(transaction.conditions, conditions);
        assert!(!transaction.only_reads() && Transaction::new().get("a").only_reads());
    }
}
