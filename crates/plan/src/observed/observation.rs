//! What the placer is told of a node: rates and times of its services since it last looked, and its registers.
//!
//! A node may say anything: numbers are taken as they come ([`Figure`]), and [`Service::fault`] and [`Observation::fault`] say what is wrong with them.
//! Only what has no fault is gone by.

use super::caches::Cache;
use super::load::Load;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Services of a node that are looked at.
pub const SERVICES_MAX: usize = 64;
/// Nothing that this software serves does more in a second, of requests or bytes; a node that says so is wrong.
const RATE_MAX: f64 = 1e12;
/// Bytes of a machine's memory at most.
const BYTES_MAX: f64 = 1e18;
/// No request takes as long.
const TIME_MAX_NS: f64 = 3600e9;
/// Cores of a machine at most.
const CORES_MAX: f64 = 4096.0;
/// A process cannot have used more than all cores; clocks of two readings differ by less.
const CORES_TOLERANCE: f64 = 1.25;

/// A number as a node says it: not a number and infinite ones are kept, as text, so that a log has what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure(pub f64);

impl Figure {
    /// The number, if it is one from 0 to `max`.
    pub fn within(self, max: f64) -> Option<f64> {
        (0.0..=max).contains(&self.0).then_some(self.0)
    }
}

impl From<f64> for Figure {
    fn from(number: f64) -> Figure {
        Figure(number)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { to.serialize_f64(self.0) } else { to.collect_str(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Figure, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Text(String),
        }
        match Either::deserialize(from)? {
            Either::Number(number) => Ok(Figure(number)),
            Either::Text(text) => {
                let number = text.parse::<f64>().ok().filter(|number| !number.is_finite());
                let wrong = || D::Error::invalid_value(Unexpected::Str(&text), &"NaN, inf or -inf");
                number.map(Figure).ok_or_else(wrong)
            }
        }
    }
}

/// What a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A key-value server.
    Kv,
    /// Handlers of RPC.
    Rpc,
    /// Recommendation inference.
    Rec,
}

/// A register of a service, by the name that it has in the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// `engine.mode`.
    pub name: String,
    /// Its value as a number: of a choice, which of its words.
    pub number: u64,
    /// Smallest and largest value.
    pub range: [u64; 2],
    /// Words of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// It may be set while the service runs.
    pub live: bool,
}

impl Register {
    /// The number that a word or a number written out stands for, if it may be set to that.
    pub fn number_of(&self, text: &str) -> Option<u64> {
        let number = match self.choices.iter().position(|word| word == text) {
            Some(at) => at as u64,
            None if self.choices.is_empty() => match text {
                "on" => 1,
                "off" => 0,
                _ => text.parse().ok()?,
            },
            None => return None,
        };
        (self.live && (self.range[0]..=self.range[1]).contains(&number)).then_some(number)
    }

    /// A number as it is written to the register.
    pub fn text_of(&self, number: u64) -> String {
        self.choices.get(number as usize).cloned().unwrap_or_else(|| number.to_string())
    }
}

/// A service since it was last looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name in the node; empty where the node is one service.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its registers.
    pub registers: Vec<Register>,
    /// Requests per second.
    pub rate: Figure,
    /// Of these answered with an error, or not taken.
    pub refused: Figure,
    /// Bytes of a request on average.
    pub request_bytes: Figure,
    /// Bytes of a reply on average.
    pub reply_bytes: Figure,
    /// Share of each method or command.
    pub methods: BTreeMap<String, Figure>,
    /// Median stay of a request, in nanoseconds, where the node says enough to know.
    pub p50_ns: Option<Figure>,
    /// 99th percentile of it.
    pub p99_ns: Option<Figure>,
    /// Mean time in each stage, in nanoseconds.
    pub stages: BTreeMap<String, Figure>,
    /// Processor time of its own threads, in cores: those that own connections, and those that run handlers.
    pub cores: BTreeMap<Location, Figure>,
    /// Requests of it that are executed together on average.
    pub together: Figure,
    /// Connections open, by transport; `sockets` of a key-value server are TCP, TLS and Unix together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connections: BTreeMap<String, Figure>,
    /// Bytes that it keeps, of which requests touch some.
    #[serde(default)]
    pub stored_bytes: Figure,
    /// What it is asked, method by method: what predictions of a machine of the model go by. A node's is not in its log, for nothing is decided by it.
    #[serde(default, skip_serializing_if = "Load::is_empty")]
    pub load: Load,
    /// Of a key-value server, what its memory does, where the node says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// What could not be read of it, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// Where handlers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// On the thread that owns the connections.
    Edge,
    /// On an engine core.
    Engine,
    /// On threads of their own.
    Host,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Location::Edge => "edge",
            Location::Engine => "engine",
            Location::Host => "host",
        })
    }
}

/// A node since it was last looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Rises from one to the next.
    pub sequence: u64,
    /// When the node was asked, by the clock that decisions go by, in microseconds.
    pub at_us: u64,
    /// Over which time rates and means are, in microseconds.
    pub span_us: u64,
    /// Cores that the node may run on.
    pub cores: Figure,
    /// Cores that the process used.
    pub cores_used: Figure,
    /// Cores that other processes of its machine used, where that can be seen.
    #[serde(default)]
    pub others: Figure,
    /// How busy each place was that services share, from 0 to 1.
    pub busy: BTreeMap<Location, Figure>,
    /// Its services.
    pub services: Vec<Service>,
}

/// Why the placer does not go by something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Refuses what is not a number from 0 to `max`.
fn check(what: &str, figure: Figure, max: f64) -> Result<(), Fault> {
    match figure.within(max) {
        Some(_) => Ok(()),
        None => Err(Fault(format!("{what} is {figure}, which is not between 0 and {max}"))),
    }
}

impl Service {
    /// The first thing that is wrong with it.
    pub fn fault(&self) -> Option<Fault> {
        self.check().err()
    }

    fn check(&self) -> Result<(), Fault> {
        if let Some(doubt) = self.doubts.first() {
            return Err(Fault(doubt.clone()));
        }
        check("the rate", self.rate, RATE_MAX)?;
        check("the rate of refused requests", self.refused, RATE_MAX)?;
        check("the size of requests", self.request_bytes, RATE_MAX)?;
        check("the size of replies", self.reply_bytes, RATE_MAX)?;
        check("how many are executed together", self.together, RATE_MAX)?;
        check("what it keeps", self.stored_bytes, BYTES_MAX)?;
        for (transport, count) in &self.connections {
            check(&format!("connections over {transport}"), *count, RATE_MAX)?;
        }
        for (what, time) in [("p50", self.p50_ns), ("p99", self.p99_ns)] {
            time.map_or(Ok(()), |time| check(what, time, TIME_MAX_NS))?;
        }
        for (stage, time) in &self.stages {
            check(&format!("the time of stage {stage}"), *time, TIME_MAX_NS)?;
        }
        for (method, share) in &self.methods {
            check(&format!("the share of {method}"), *share, 1.0)?;
        }
        for (place, cores) in &self.cores {
            check(&format!("the cores of {place}"), *cores, CORES_MAX)?;
        }
        for (what, figure, most) in self.load.figures() {
            check(&what, figure, most)?;
        }
        for (what, figure, most) in self.cache.iter().flat_map(Cache::figures) {
            check(what, figure, most)?;
        }
        for register in &self.registers {
            let [low, high] = register.range;
            if !(low..=high).contains(&register.number) {
                let Register { name, number, .. } = register;
                return Err(Fault(format!("{name} is {number}, outside of its own range {low} to {high}")));
            }
        }
        Ok(())
    }

    /// A register by its name.
    pub fn register(&self, name: &str) -> Option<&Register> {
        self.registers.iter().find(|register| register.name == name)
    }

    /// The word of a choice, or the number.
    pub fn value(&self, name: &str) -> Option<String> {
        self.register(name).map(|register| register.text_of(register.number))
    }

    /// The mean time in a stage, 0 where there is none.
    pub fn stage(&self, name: &str) -> f64 {
        self.stages.get(name).map_or(0.0, |figure| figure.0)
    }

    /// Cores of its own threads together.
    pub fn cores_used(&self) -> f64 {
        self.cores.values().map(|figure| figure.0).sum()
    }
}

impl Observation {
    /// What is wrong with all of it.
    pub fn fault(&self) -> Option<Fault> {
        self.check().err()
    }

    fn check(&self) -> Result<(), Fault> {
        check("the number of cores", self.cores, CORES_MAX)?;
        check("the cores used", self.cores_used, self.cores.0.max(1.0) * CORES_TOLERANCE)?;
        check("the cores of other processes", self.others, CORES_MAX)?;
        for (place, busy) in &self.busy {
            check(&format!("how busy {place} is"), *busy, CORES_TOLERANCE)?;
        }
        let mut names: Vec<&str> = self.services.iter().map(|service| &*service.name).collect();
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Fault(format!("there are two services {:?}", two[0]))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_what_is_no_number() {
        for number in [0.0, 0.1 + 0.2, 1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5] {
            let text = serde_json::to_string(&Figure(number)).expect("a figure is JSON");
            let Figure(again) = serde_json::from_str(&text).expect("what was written is read");
            assert!(again == number || (again.is_nan() && number.is_nan()), "{number} {text} {again}");
        }
        assert!(serde_json::from_str::<Figure>("\"1.5\"").is_err());
        assert!(serde_json::from_str::<Figure>("\"much\"").is_err());
    }

    #[test]
    fn a_register_takes_what_it_may_be_set_to() {
        let words = vec!["edge".to_owned(), "host".to_owned()];
        let mut choice =
            Register { name: "place".into(), number: 0, range: [0, 1], choices: words, live: true };
        assert_eq!(
            (choice.number_of("host"), choice.number_of("1"), choice.number_of("box")),
            (Some(1), None, None)
        );
        assert_eq!((choice.text_of(1), choice.text_of(7)), ("host".to_owned(), "7".to_owned()));
        choice.live = false;
        assert_eq!(choice.number_of("host"), None);
        let count = Register { choices: Vec::new(), range: [1, 8], live: true, ..choice };
        assert_eq!(
            (count.number_of("8"), count.number_of("9"), count.number_of("-1")),
            (Some(8), None, None)
        );
    }
}
