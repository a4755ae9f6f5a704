//! A workload: what requests need, whoever serves them.
//!
//! Each class of operations says what one operation needs: bytes in and out, memory accesses that depend on each other, rows that do not, bytes
//! to store and in how many places, cycles, fields. Who can do which of these, and at what cost, a machine's composition knows: it turns a workload
//! into [`crate::alternative::Setting`].
//!
//! ```toml
//! name = "disaggregated-kv"
//! title = "Key-value store in the memory of servers"
//! keys = 100_000_000
//! skew = 0.99                # Zipf's theta; 0: uniform
//! working_set = "10 GiB"
//! window = 264               # requests under way, all clients together
//! places = ["box", "engine"] # where the service may answer, if not everywhere
//!
//! [[class]]
//! name = "GET"
//! share = 0.95
//! request = "16 B"
//! reply = "64 B"
//! lookups = 2                # dependent accesses: bucket, then entry
//! lookup = "64 B"
//! cacheable = true
//!
//! [[class]]
//! name = "page"
//! share = 0.05
//! request = "64 B"
//! reply = "8 KiB"
//! calls = [{ class = "GET", times = 3, parallel = true }]   # one of it makes three GETs at once, and waits for them
//! slo = { p99 = "200us" }                                   # its own, beside that of all requests
//! ```
//! A class that only others call has share 0. See [`calls`].
//!
//! Files: [`shipped`] the workloads that come with this crate; `check` what a file must say; [`edit`] numbers that are set otherwise; [`calls`] classes
//! that call others.

pub mod calls;
mod check;
pub mod edit;
pub mod shipped;

use crate::alternative::Place;
use crate::platform::LoadError;
use crate::platform::unit::bytes_of;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// What one operation of a class needs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// `GET`, `PUT`, …
    pub name: String,
    /// Its share of what clients ask; shares add up to 1. What other classes call of it comes on top.
    pub share: f64,
    /// Bytes of a request, beside headers of the network.
    #[serde(deserialize_with = "size")]
    pub request: u64,
    /// Bytes of a reply, beside headers of the network.
    #[serde(deserialize_with = "size")]
    pub reply: u64,
    /// Memory accesses of which each needs the one before: the depth of an index.
    #[serde(default)]
    pub lookups: u64,
    /// Bytes of each.
    #[serde(default, deserialize_with = "size")]
    pub lookup: u64,
    /// Rows that are read at once, none needing another: an embedding reduction's.
    #[serde(default)]
    pub rows: u64,
    /// Bytes of each.
    #[serde(default, deserialize_with = "size")]
    pub row: u64,
    /// Bytes that must be stored before the reply.
    #[serde(default, deserialize_with = "size")]
    pub store: u64,
    /// Machines that must have stored them: 0 and 1 are this one alone.
    #[serde(default)]
    pub copies: u64,
    /// Cycles of a host core for what the above does not say.
    #[serde(default)]
    pub cycles: f64,
    /// Protobuf fields that are decoded and encoded.
    #[serde(default)]
    pub fields: u64,
    /// Whether whoever keeps a copy may answer.
    #[serde(default)]
    pub cacheable: bool,
    /// What one of it asks of other classes, once its own work is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<calls::Call>,
    /// What its latency is to keep.
    #[serde(default, skip_serializing_if = "Slo::is_none")]
    pub slo: Slo,
}

impl Class {
    /// All of what is asked, with so many bytes of a request and of a reply, that needs nothing else.
    pub fn of_bytes(name: &str, (request, reply): (u64, u64)) -> Class {
        Class {
            name: name.into(),
            share: 1.0,
            request,
            reply,
            lookups: 0,
            lookup: 0,
            rows: 0,
            row: 0,
            store: 0,
            copies: 0,
            cycles: 0.0,
            fields: 0,
            cacheable: false,
            calls: Vec::new(),
            slo: Slo::default(),
        }
    }
}

/// Limits of a latency, in seconds; in files with a unit: `{ p99 = "200us" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// The mean, at most.
    #[serde(default, with = "span", skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The median, at most.
    #[serde(default, with = "span", skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The 99th percentile, at most.
    #[serde(default, with = "span", skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

impl Slo {
    /// Whether it limits nothing.
    pub fn is_none(&self) -> bool {
        self.mean.or(self.p50).or(self.p99).is_none()
    }

    /// How many times the limit that is missed most, or that is nearest, is what was seen of mean, median and 99th percentile; none where there is no limit.
    pub fn excess(&self, (mean, p50, p99): (f64, f64, f64)) -> Option<f64> {
        let times = [(self.mean, mean), (self.p50, p50), (self.p99, p99)];
        times.into_iter().filter_map(|(limit, seen)| Some(seen / limit?)).reduce(f64::max)
    }
}

/// A span of time as a text with its unit.
mod span {
    use crate::platform::unit::{Dimension, Unit, quantity};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        let text = String::deserialize(from)?;
        let unit = |name: &str| Unit::named(name).filter(|unit| unit.dimension == Dimension::Time);
        let found = quantity(&text).and_then(|(number, name)| Some(number * unit(name)?.scale));
        let wrong = || D::Error::custom(format!("{text:?} is no time: try \"200us\" or \"1.5ms\""));
        found.filter(|seconds| *seconds > 0.0).map(Some).ok_or_else(wrong)
    }

    pub(super) fn serialize<S: Serializer>(span: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        // To a picosecond: 200us are not 199.99999999999997.
        to.serialize_str(&format!("{}us", (span.unwrap_or(0.0) * 1e12).round() / 1e6))
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// As commands call it.
    pub name: String,
    /// As people call it.
    pub title: String,
    /// Different keys, files, rows: what requests choose among.
    pub keys: u64,
    /// Zipf's theta of that choice; 0 is uniform.
    #[serde(default)]
    pub skew: f64,
    /// All that may be touched.
    #[serde(deserialize_with = "size")]
    pub working_set: u64,
    /// Requests under way, all clients together, when throughput is sought.
    pub window: u64,
    /// Requests per second to be served, if that is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Host cores that the service may use, 0 for none; all of them, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cores: Option<u64>,
    /// Places that the service may answer at, by their names; everywhere, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Vec<Place>>,
    /// Kinds of operations.
    #[serde(rename = "class")]
    pub classes: Vec<Class>,
}

impl Workload {
    /// Of a file's text; `file` is for errors.
    ///
    /// # Errors
    /// With line and reason.
    pub fn parse(text: &str, file: &str) -> Result<Workload, LoadError> {
        let wrong = |line, why| LoadError::File { file: file.into(), line, why };
        let workload: Workload = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            wrong(1 + text[..at].matches('\n').count(), error.message().trim().to_string())
        })?;
        match check::fault(&workload) {
            None => Ok(workload),
            Some(fault) => Err(wrong(fault.line(text), fault.why)),
        }
    }
}

impl Workload {
    /// Whether it makes sense: what a file must say, of a workload that is no file's.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        check::fault(self).map_or(Ok(()), |fault| Err(fault.why))
    }
}

/// `"64 B"`, `"10 GiB"`, or bytes as a number
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Size::deserialize(from)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => bytes_of(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is no size: try \"64 B\" or \"10 GiB\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_operations_need() {
        let text = r#"
name = "kv"
title = "a store"
keys = 1000
working_set = "10 GiB"
window = 64
[[class]]
name = "GET"
share = 1.0
request = "16 B"
reply = 64
lookups = 2
lookup = "64 B"
"#;
        let workload: Workload = toml::from_str(text).expect("it is right");
        assert_eq!((workload.working_set, workload.classes[0].reply, workload.skew), (10 << 30, 64, 0.0));
        let wrong =
            toml::from_str::<Workload>(&text.replace("16 B", "16 bytes")).expect_err("no unit of size");
        assert!(wrong.to_string().contains("\"16 bytes\" is no size"), "{wrong}");
        let more = format!(
            "{text}slo = {{ p99 = \"200us\", mean = \"1.5ms\" }}\ncalls = [{{ class = \"PUT\", times = 3, parallel = true }}]\n"
        );
        let workload: Workload = toml::from_str(&more).expect("it is right");
        assert_eq!(
            (workload.classes[0].slo.p99, workload.classes[0].calls[0].times),
            (Some(200.0 * 1e-6), 3)
        );
    }
}
