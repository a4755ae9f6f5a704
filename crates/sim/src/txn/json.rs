//! Transactions and their answers as the "a" and "r" of a history's lines.

use super::{Abort, Change, Condition, Done, Found, Key, Ret, Txn};
use crate::history::{self, bytes_of_json, json_of_bytes};
use crate::kv::json::{json_of, value_of};
use serde_json::{Map, Value as Json, json};

/// The name of a transaction as an operation.
pub(crate) const NAME: &str = "txn";

type Fields = Map<String, Json>;

fn object(json: &Json) -> Result<&Fields, String> {
    json.as_object().ok_or_else(|| format!("{json} is no object"))
}

fn needed<'a>(fields: &'a Fields, name: &str) -> Result<&'a Json, String> {
    fields.get(name).ok_or_else(|| format!("{name:?} is missing"))
}

fn whole(fields: &Fields, name: &str) -> Result<u64, String> {
    needed(fields, name)?.as_u64().ok_or_else(|| format!("{name:?} is no whole number from 0 on"))
}

fn signed(json: &Json) -> Result<i64, String> {
    json.as_i64().ok_or_else(|| format!("{json} is no signed 64-bit number"))
}

fn place(fields: &Fields) -> Result<u32, String> {
    u32::try_from(whole(fields, "at")?).map_err(|_| "\"at\" is no place".to_string())
}

fn list<'a>(fields: &'a Fields, name: &str) -> Result<&'a [Json], String> {
    match fields.get(name) {
        None => Ok(&[]),
        Some(json) => {
            json.as_array().map(Vec::as_slice).ok_or_else(|| format!("{name:?} is no list: {json}"))
        }
    }
}

impl history::Call for Txn {
    fn name(&self) -> &'static str {
        NAME
    }

    fn args(&self) -> Fields {
        let op = |name: &str, key: &Key, more: Option<(&str, Json)>| {
            let mut op =
                Map::from_iter([("op".to_string(), json!(name)), ("k".to_string(), json_of_bytes(key))]);
            op.extend(more.map(|(name, value)| (name.to_string(), value)));
            Json::from(op)
        };
        let conditions = self.conditions.iter().map(|(key, condition)| {
            let what = match condition {
                Condition::Version(version) => ("ver", json!(version)),
                Condition::Exists => ("exists", json!(true)),
                Condition::Value(value) => ("v", json_of(value)),
                Condition::AtLeast(least) => ("least", json!(least)),
            };
            op("if", key, Some(what))
        });
        let reads = self.reads.iter().map(|key| op("get", key, None));
        let writes = self.writes.iter().map(|(key, change)| match change {
            Change::Put(value) => op("put", key, Some(("v", json_of(value)))),
            Change::Delete => op("delete", key, None),
            Change::Add(by) => op("add", key, Some(("by", json!(by)))),
        });
        let ops: Vec<Json> = conditions.chain(reads).chain(writes).collect();
        let claim = (self.claim != 0).then(|| ("claim".to_string(), json!(self.claim)));
        Map::from_iter([("ops".to_string(), Json::from(ops))].into_iter().chain(claim))
    }

    fn read(name: &str, args: &Fields) -> Result<Txn, String> {
        if name != NAME {
            return Err(format!(
                "there is no operation {name:?} in a history of transactions, only {NAME:?}"
            ));
        }
        let mut txn = Txn::default();
        for op in list(args, "ops")? {
            let op = object(op)?;
            let key: Key = bytes_of_json(needed(op, "k")?)?.into();
            match needed(op, "op")?.as_str().unwrap_or_default() {
                "if" => txn.conditions.push((key, condition(op)?)),
                "get" => txn.reads.push(key),
                "put" => txn.writes.push((key, Change::Put(value_of(needed(op, "v")?)?))),
                "delete" => txn.writes.push((key, Change::Delete)),
                "add" => txn.writes.push((key, Change::Add(signed(needed(op, "by")?)?))),
                other => return Err(format!("{other:?} is no part of a transaction")),
            }
        }
        if args.contains_key("claim") {
            txn.claim = whole(args, "claim")?;
        }
        let mut written: Vec<&Key> = txn.written().collect();
        written.sort_unstable();
        let twice = written.windows(2).find(|pair| pair[0] == pair[1]);
        match twice {
            Some(pair) => Err(format!("it writes \"{}\" twice", pair[0].escape_ascii())),
            None if txn.keys().next().is_none() => Err("\"ops\" is missing or empty".to_string()),
            None => Ok(txn),
        }
    }
}

fn condition(op: &Fields) -> Result<Condition, String> {
    if op.get("ver").is_some() {
        return Ok(Condition::Version(whole(op, "ver")?));
    }
    match (op.get("exists"), op.get("v"), op.get("least")) {
        (Some(Json::Bool(true)), None, None) => Ok(Condition::Exists),
        (None, Some(value), None) => Ok(Condition::Value(value_of(value)?)),
        (None, None, Some(least)) => Ok(Condition::AtLeast(signed(least)?)),
        _ => Err("an \"if\" has one of \"ver\", \"exists\": true, \"v\" and \"least\"".to_string()),
    }
}

impl history::Answer for Ret {
    fn fields(&self) -> Fields {
        let Ret::Done(Done { lsn, abort, reads, sums }) = self else {
            return Map::from_iter([("s".to_string(), json!("error"))]);
        };
        let status = if abort.is_none() { "ok" } else { "abort" };
        let found = |found: &Option<Found>| match found {
            Some(found) => json!({ "v": json_of(&found.value), "ver": found.version }),
            None => Json::Null,
        };
        let mut fields = Map::from_iter([("s".to_string(), json!(status)), ("lsn".to_string(), json!(lsn))]);
        let mut put = |name: &str, json: Json| drop(fields.insert(name.to_string(), json));
        if !reads.is_empty() {
            put("reads", reads.iter().map(found).collect());
        }
        if !sums.is_empty() {
            put("sums", json!(sums));
        }
        if let Some(abort) = abort {
            let (why, at) = match abort {
                Abort::Condition(at) => ("condition", Some(at)),
                Abort::NotANumber(at) => ("not_a_number", Some(at)),
                Abort::Overflow(at) => ("overflow", Some(at)),
                Abort::NoRoom => ("no_room", None),
                Abort::LongReply => ("long_reply", None),
                Abort::Claimed => ("claimed", None),
            };
            put("why", json!(why));
            at.into_iter().for_each(|at| put("at", json!(at)));
        }
        fields
    }

    fn read(fields: &Fields) -> Result<Ret, String> {
        let abort = match fields.get("s").and_then(Json::as_str) {
            Some("ok") => None,
            Some("error") => return Ok(Ret::Refused),
            Some("abort") => Some(match fields.get("why").and_then(Json::as_str) {
                Some("condition") => Abort::Condition(place(fields)?),
                Some("not_a_number") => Abort::NotANumber(place(fields)?),
                Some("overflow") => Abort::Overflow(place(fields)?),
                Some("no_room") => Abort::NoRoom,
                Some("long_reply") => Abort::LongReply,
                Some("claimed") => Abort::Claimed,
                _ => return Err("\"why\" is no reason to abort".to_string()),
            }),
            _ => return Err("\"s\" is no way to end".to_string()),
        };
        let found = |json: &Json| match json {
            Json::Null => Ok(None),
            json => {
                let found = object(json)?;
                Ok(Some(Found { version: whole(found, "ver")?, value: value_of(needed(found, "v")?)? }))
            }
        };
        let reads = list(fields, "reads")?.iter().map(found).collect::<Result<_, String>>()?;
        let sums = list(fields, "sums")?.iter().map(signed).collect::<Result<_, String>>()?;
        Ok(Ret::Done(Done { lsn: whole(fields, "lsn")?, abort, reads, sums }))
    }
}
