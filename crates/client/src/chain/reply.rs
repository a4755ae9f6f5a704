//! What became of a transaction, for people and for programs. Every reply to a write says what it survives, and in how
//! many copies it is.

use super::error::TxnError;
use protocol::chain::text::Quoted;
use protocol::chain::transaction::{Abort, Change};
use protocol::chain::{Durability, Outcome, Transaction};
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// What another claim means for a transaction.
pub const CLAIMED: &str = "boxes have copies of this chain's items, so only the home that claimed it writes: `millrace chain status` says where it is, \
     `millrace chain unclaim` ends that where there is none any more";

/// What a durability survives, in words.
pub fn survives(durability: Durability) -> &'static str {
    match durability {
        Durability::Volatile => "in memory only",
        Durability::ProcessCrash => "survives a killed process",
        Durability::PowerLoss => "survives power loss",
    }
}

/// An outcome, a line for each thing to say.
pub fn text(transaction: &Transaction, outcome: &Outcome) -> String {
    let mut out = String::new();
    lines(transaction, outcome, &mut out).expect("a string takes any text");
    out
}

fn lines(transaction: &Transaction, outcome: &Outcome, out: &mut String) -> fmt::Result {
    let copies = if outcome.copies == 1 { "copy" } else { "copies" };
    let backed = format!("({} {copies}, {})", outcome.copies, survives(outcome.durability));
    match outcome.abort {
        Some(abort) => writeln!(out, "aborted, nothing was written: {} {backed}", why(transaction, abort))?,
        None if transaction.only_reads() => writeln!(out, "read as of {}", outcome.lsn.0)?,
        None => writeln!(out, "done as {} {backed}", outcome.lsn.0)?,
    }
    for (key, found) in transaction.reads.iter().zip(&outcome.reads) {
        let key = Quoted(key);
        match found {
            Some(found) => {
                writeln!(out, "{key} = {}  (version {})", Quoted(&found.value), found.version.0)?;
            }
            None => writeln!(out, "{key} is absent")?,
        }
    }
    added(transaction)
        .zip(&outcome.sums)
        .try_for_each(|(key, sum)| writeln!(out, "{} is now {sum}", Quoted(key)))
}

/// Why nothing was written; the operation is said as the transaction's text says it.
fn why(transaction: &Transaction, abort: Abort) -> String {
    let condition = |place: u32| {
        let conditions = transaction.conditions.get(place as usize).cloned().into_iter().collect();
        Transaction { conditions, ..Transaction::default() }
    };
    let write = |place: u32| {
        let writes = transaction.writes.get(place as usize).cloned().into_iter().collect();
        Transaction { writes, ..Transaction::default() }
    };
    match abort {
        Abort::Condition(place) => format!("{} does not hold", condition(place)),
        Abort::NotANumber(place) => format!("{} adds to what is no number", write(place)),
        Abort::Overflow(place) => format!("{} adds beyond 64 bits", write(place)),
        Abort::NoRoom => "the chain has no room for it: give its replicas more --data-size".to_owned(),
        Abort::LongReply => "what it reads is too much for one reply: read it in several".to_owned(),
        Abort::Claimed => CLAIMED.to_owned(),
    }
}

fn added(transaction: &Transaction) -> impl Iterator<Item = &Vec<u8>> {
    transaction.writes.iter().filter(|(_, change)| matches!(change, Change::Add(_))).map(|(key, _)| key)
}

/// One name for each durability, for programs.
pub fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Volatile => "volatile",
        Durability::ProcessCrash => "process-crash",
        Durability::PowerLoss => "power-loss",
    }
}

/// An outcome. Keys and values are as the transaction's text has them: words, or in quotes with escapes.
pub fn json(transaction: &Transaction, outcome: &Outcome) -> Value {
    let text = |bytes: &[u8]| Quoted(bytes).to_string();
    let reads = transaction.reads.iter().zip(&outcome.reads).map(|(key, found)| match found {
        Some(found) => json!({ "key": text(key), "value": text(&found.value), "version": found.version.0 }),
        None => json!({ "key": text(key), "value": null, "version": 0 }),
    });
    let sums = added(transaction).zip(&outcome.sums);
    let sums = sums.map(|(key, sum)| json!({ "key": text(key), "sum": sum }));
    json!({
        "done": outcome.abort.is_none(),
        "lsn": outcome.lsn.0,
        "abort": outcome.abort.map(abort),
        "reads": reads.collect::<Vec<_>>(),
        "sums": sums.collect::<Vec<_>>(),
        "durability": durability_name(outcome.durability),
        "copies": outcome.copies,
    })
}

/// Why, and at which condition or write, from 0.
fn abort(abort: Abort) -> Value {
    match abort {
        Abort::Condition(place) => json!({ "why": "condition", "place": place }),
        Abort::NotANumber(place) => json!({ "why": "not-a-number", "place": place }),
        Abort::Overflow(place) => json!({ "why": "overflow", "place": place }),
        Abort::NoRoom => json!({ "why": "no-room" }),
        Abort::LongReply => json!({ "why": "long-reply" }),
        Abort::Claimed => json!({ "why": "claimed" }),
    }
}

/// Why there is no reply, as JSON: `done` is false, or null where it is not known; then session and sequence are what `millrace txn status` wants.
pub fn error_json(error: &TxnError) -> Value {
    match error {
        TxnError::Unknown { id, why } => json!({
            "done": null, "error": why, "session": id.map(|id| id.session.to_string()), "sequence": id.map(|id| id.sequence),
        }),
        error => json!({ "done": false, "error": error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chain::Lsn;
    use protocol::chain::transaction::Found;

    fn asked() -> Transaction {
        Transaction::new().get("a").get("b").put("c", "x").add("n", 2)
    }

    fn outcome() -> Outcome {
        Outcome {
            lsn: Lsn(9),
            abort: None,
            reads: vec![Some(Found { version: Lsn(4), value: b"ten\xff".to_vec() }), None],
            sums: vec![7],
            durability: Durability::PowerLoss,
            copies: 3,
        }
    }

    #[test]
    fn every_reply_says_what_it_survives() {
        let said = text(&asked(), &outcome());
        assert_eq!(
            said,
            "done as 9 (3 copies, survives power loss)\na = \"ten\\xff\"  (version 4)\nb is absent\nn is now 7\n"
        );
        let aborted = Outcome { abort: Some(Abort::Condition(0)), sums: Vec::new(), copies: 1, ..outcome() };
        let said = text(&asked().if_exists("d"), &aborted);
        assert!(said.starts_with(
            "aborted, nothing was written: if-exists d does not hold (1 copy, survives power loss)\n"
        ));
    }

    #[test]
    fn every_read_and_sum_has_its_key() {
        let (transaction, outcome) = (asked(), outcome());
        let said = json(&transaction, &outcome);
        assert_eq!(said["reads"][0], json!({ "key": "a", "value": "\"ten\\xff\"", "version": 4 }));
        assert_eq!(said["reads"][1], json!({ "key": "b", "value": null, "version": 0 }));
        assert_eq!((&said["sums"][0]["key"], &said["durability"]), (&json!("n"), &json!("power-loss")));
        assert_eq!((&said["done"], &said["abort"]), (&json!(true), &json!(null)));
        let aborted = Outcome { abort: Some(Abort::Condition(2)), ..outcome };
        assert_eq!(json(&transaction, &aborted)["abort"], json!({ "why": "condition", "place": 2 }));
    }
}
