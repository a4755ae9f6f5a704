//! Operations and answers as the "a" and "r" of a history's lines.

use super::{Compute, Expect, Op, Ret, Status, Value};
use crate::history::{self, bytes_of_json, json_of_bytes};
use base::Picos;
use serde_json::{Map, Value as Json, json};

/// A value as the field `"v"`.
pub(crate) fn json_of(value: &Value) -> Json {
    match value {
        Value::Bytes(bytes) => json_of_bytes(bytes),
        Value::Digest { len, hash } => json!({ "len": len, "hash": format!("{hash:016x}") }),
    }
}

/// What [`json_of`] wrote.
pub(crate) fn value_of(json: &Json) -> Result<Value, String> {
    let Some(len) = json.get("len") else { return bytes_of_json(json).map(|bytes| Value::of(&bytes)) };
    let len = len.as_u64().filter(|&len| len > Value::LONGEST as u64);
    let hash = json.get("hash").and_then(Json::as_str).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    match (len, hash.filter(|&hash| hash < (1 << 61) - 1)) {
        (Some(len), Some(hash)) => Ok(Value::Digest { len, hash }),
        _ => Err(format!("{json} stands for no long value")),
    }
}

/// The fields of an object, by name.
struct Fields<'a>(&'a Map<String, Json>);

impl Fields<'_> {
    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let number =
            |json: &Json| json.as_u64().ok_or_else(|| format!("{name:?} is no whole number: {json}"));
        self.0.get(name).map(number).transpose()
    }

    fn value(&self, name: &str) -> Result<Option<Value>, String> {
        self.0.get(name).map(value_of).transpose()
    }

    fn ttl(&self) -> Result<Option<Picos>, String> {
        Ok(self.number("ttl")?.map(Picos))
    }
}

fn needed<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("{name:?} is missing"))
}

const COMPUTES: [(&str, Compute); 5] = [
    ("incr", Compute::Incr),
    ("decr", Compute::Decr),
    ("min", Compute::Min),
    ("max", Compute::Max),
    ("or", Compute::Or),
];

const STATUSES: [(&str, Status); 6] = [
    ("ok", Status::Ok),
    ("miss", Status::Miss),
    ("not_stored", Status::NotStored),
    ("exists", Status::Exists),
    ("no_room", Status::NoRoom),
    ("error", Status::Error),
];

impl history::Call for Op {
    fn name(&self) -> &'static str {
        match self {
            Op::Get => "get",
            Op::Set { .. } => "set",
            Op::Add { .. } => "add",
            Op::Replace { .. } => "replace",
            Op::Cas { .. } => "cas",
            Op::Delete => "delete",
            Op::Compute { how, .. } => {
                COMPUTES.iter().find(|c| c.1 == *how).expect("the table has all of them").0
            }
            Op::Append { .. } => "append",
            Op::CondPut { .. } => "cond_put",
            Op::Touch { .. } => "touch",
            Op::Flush { .. } => "flush",
        }
    }

    fn args(&self) -> Map<String, Json> {
        let mut args = Map::new();
        let mut put = |name: &str, json: Json| drop(args.insert(name.to_string(), json));
        match self {
            Op::Get | Op::Delete | Op::Touch { .. } => {}
            Op::Set { value, .. }
            | Op::Add { value, .. }
            | Op::Replace { value, .. }
            | Op::Append { value } => {
                put("v", json_of(value));
            }
            Op::Cas { value, expect, .. } => {
                put("v", json_of(value));
                match expect {
                    Expect::Version(version) => put("ver", json!(version)),
                    Expect::Value(old) => put("old", json_of(old)),
                }
            }
            Op::Compute { by, init, .. } => {
                put("by", json!(by));
                if let Some(init) = init {
                    put("init", json!(init));
                }
            }
            Op::CondPut { by, .. } => put("by", json!(by)),
            Op::Flush { delay: Some(delay) } => put("delay", json!(delay.0)),
            Op::Flush { delay: None } => {}
        }
        if let Some(ttl) = self.ttl() {
            put("ttl", json!(ttl.0));
        }
        args
    }

    fn read(name: &str, args: &Map<String, Json>) -> Result<Op, String> {
        let fields = Fields(args);
        let (ttl, by) = (fields.ttl()?, fields.number("by")?);
        let value = || needed(fields.value("v")?, "v");
        if let Some(&(_, how)) = COMPUTES.iter().find(|c| c.0 == name) {
            return Ok(Op::Compute { how, by: needed(by, "by")?, init: fields.number("init")?, ttl });
        }
        Ok(match name {
            "get" => Op::Get,
            "set" => Op::Set { value: value()?, ttl },
            "add" => Op::Add { value: value()?, ttl },
            "replace" => Op::Replace { value: value()?, ttl },
            "cas" => {
                let expect = match (fields.number("ver")?, fields.value("old")?) {
                    (Some(version), None) => Expect::Version(version),
                    (None, Some(old)) => Expect::Value(old),
                    _ => return Err("a cas expects either \"ver\" or \"old\"".to_string()),
                };
                Op::Cas { value: value()?, expect, ttl }
            }
            "delete" => Op::Delete,
            "append" => Op::Append { value: value()? },
            "cond_put" => Op::CondPut { by: needed(by, "by")?, ttl },
            "touch" => Op::Touch { ttl },
            "flush" => Op::Flush { delay: fields.number("delay")?.map(Picos) },
            _ => return Err(format!("there is no operation {name:?}")),
        })
    }
}

impl history::Answer for Ret {
    fn fields(&self) -> Map<String, Json> {
        let status = STATUSES.iter().find(|s| s.1 == self.status).expect("the table has all of them").0;
        let mut fields = Map::new();
        fields.insert("s".to_string(), json!(status));
        if let Some(value) = &self.value {
            fields.insert("v".to_string(), json_of(value));
        }
        if let Some(version) = self.version {
            fields.insert("ver".to_string(), json!(version));
        }
        fields
    }

    fn read(fields: &Map<String, Json>) -> Result<Ret, String> {
        let status = fields.get("s").and_then(Json::as_str);
        let status = STATUSES.iter().find(|s| Some(s.0) == status).ok_or("\"s\" is no way to end")?.1;
        let fields = Fields(fields);
        Ok(Ret { status, value: fields.value("v")?, version: fields.number("ver")? })
    }
}
