//! Transactions in words, a line each.

use super::effect::{Effect, Item};
use super::{Asked, Change, Condition, Done, Found, Ret, Txn};
use std::fmt::{self, Write};

impl fmt::Display for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        let mut part = |f: &mut fmt::Formatter<'_>, text: String| {
            write!(f, "{between}{text}")?;
            between = "; ";
            Ok::<(), fmt::Error>(())
        };
        if self.claim != 0 {
            part(f, format!("under claim {}", self.claim))?;
        }
        for (key, condition) in &self.conditions {
            let key = key.escape_ascii();
            part(
                f,
                match condition {
                    Condition::Version(version) => format!("if-version {key} {version}"),
                    Condition::Exists => format!("if-exists {key}"),
                    Condition::Value(value) => format!("if-value {key} {value:?}"),
                    Condition::AtLeast(least) => format!("if-least {key} {least}"),
                },
            )?;
        }
        for key in &self.reads {
            part(f, format!("get {}", key.escape_ascii()))?;
        }
        for (key, change) in &self.writes {
            let key = key.escape_ascii();
            part(
                f,
                match change {
                    Change::Put(value) => format!("put {key} {value:?}"),
                    Change::Delete => format!("delete {key}"),
                    Change::Add(by) => format!("add {key} {by}"),
                },
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LSN {}", self.lsn)?;
        if let Some(abort) = self.abort {
            write!(f, ", aborted by {abort:?}")?;
        }
        if !self.reads.is_empty() {
            let reads: Vec<String> = self.reads.iter().map(found).collect();
            write!(f, ", read {}", reads.join(", "))?;
        }
        if !self.sums.is_empty() {
            write!(f, ", sums {:?}", self.sums)?;
        }
        Ok(())
    }
}

fn found(found: &Option<Found>) -> String {
    found.as_ref().map_or("nothing".to_string(), |found| format!("{:?} of {}", found.value, found.version))
}

/// What an effect would have answered.
pub(super) fn expected(effect: &Effect<'_>) -> String {
    let item = |item: &Option<&Item>| match item {
        None => "nothing".to_string(),
        Some(Item { value, version: Some(version) }) => format!("{value:?} of {version}"),
        Some(Item { value, version: None }) => format!("{value:?}"),
    };
    let mut text = match effect.abort {
        Some(abort) => format!("aborted by {abort:?}"),
        None => "done".to_string(),
    };
    // Writing to a string cannot fail.
    if !effect.reads.is_empty() {
        let reads: Vec<String> = effect.reads.iter().map(item).collect();
        let _ = write!(text, ", read {}", reads.join(", "));
    }
    if !effect.sums.is_empty() {
        let _ = write!(text, ", sums {:?}", effect.sums);
    }
    text
}

/// A transaction of a history.
pub(super) fn asked(asked: &Asked<'_>) -> String {
    let Asked { client, id, op, called, returned, .. } = asked;
    let mut text = format!("client {client}, transaction {id}: [{op}] called at {} ps", called.0.0);
    let _ = match returned {
        Some((at, _, Ret::Done(done))) => write!(text, ", returned at {} ps: {done}", at.0),
        Some((at, _, Ret::Refused)) => write!(text, ", refused at {} ps", at.0),
        None => write!(text, ", never returned"),
    };
    text
}
