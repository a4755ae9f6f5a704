//! The lines of a recording (docs/recording.md), summed up by service and method.
//!
//! Bounds: [`SERVICES_MAX`] services, [`METHODS_MAX`] methods of each; a line has [`LINE_MAX`] bytes at most. Beside that it takes some 40 bytes a key and 4 a
//! request.

use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Read as _};

/// Lines that are read here.
const VERSION: u32 = 1;
const SERVICES_MAX: usize = 64;
const METHODS_MAX: usize = 4096;
const LINE_MAX: u64 = 64 << 10;
/// No recording is as long: a thousand years, in microseconds.
const AT_MAX: f64 = 3.2e16;

/// A line.
#[derive(Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
enum Line {
    Begin { millrace_recording: u32, one_of: u32 },
    Request(Box<Request>),
    Seen { at_us: f64, service: String, requests: u64, dropped: u64 },
    Sample { at_us: f64, one_of: u32 },
    End { at_us: f64, why: String },
}

#[derive(Deserialize)]
struct Request {
    at_us: f64,
    service: String,
    method: String,
    #[serde(default)]
    key: Option<String>,
    request: u64,
    reply: u64,
    place: String,
    took_us: f64,
}

/// Requests of a method.
#[derive(Debug, Default)]
pub struct Method {
    /// How many were recorded.
    pub count: u64,
    /// Bytes of all of them.
    pub request_bytes: f64,
    /// … of their replies.
    pub reply_bytes: f64,
    /// Microseconds that each took, in order of their coming.
    pub took_us: Vec<f32>,
}

/// Requests of a service.
#[derive(Debug, Default)]
pub struct Service {
    /// By name.
    pub methods: BTreeMap<String, Method>,
    /// By a key's hash: requests for it, every other one in the first place and those between in the second.
    pub keys: HashMap<u64, [u32; 2]>,
    /// Requests with a key.
    keyed: u64,
    /// How many were answered at each place.
    pub places: BTreeMap<String, u64>,
    /// Recorded requests of each second in which there were some.
    pub seconds: BTreeMap<u64, u64>,
    /// Microseconds of the first and the last.
    pub span_us: Option<(f64, f64)>,
    /// Requests that came, recorded or not, where that was written down.
    pub seen: Option<u64>,
}

/// A recording.
#[derive(Debug, Default)]
pub struct Recorded {
    /// One key of so many is in it.
    pub one_of: u32,
    /// By name.
    pub services: BTreeMap<String, Service>,
    /// Requests of the sample that were dropped.
    pub dropped: u64,
    /// Why it ended; none: its file breaks off.
    pub ended: Option<String>,
}

/// Reads it. A last line that breaks off, as when a disk was full, is left out.
///
/// # Errors
/// The line that is wrong, counted from 1, and why.
pub fn read(mut from: impl BufRead) -> Result<Recorded, (usize, String)> {
    let mut recorded = Recorded::default();
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let cause = |cause: std::io::Error| (number, cause.to_string());
        let length = from.by_ref().take(LINE_MAX).read_until(b'\n', &mut text).map_err(cause)?;
        if length == 0 {
            break;
        }
        let is_whole = text.last() == Some(&b'\n');
        match serde_json::from_slice::<Line>(&text) {
            Ok(line) => recorded.add(number, line).map_err(|why| (number, why))?,
            Err(_) if !is_whole && (length as u64) < LINE_MAX && number > 1 => break,
            Err(error) => {
                return Err((number, format!("{error}; docs/recording.md has the lines of a recording")));
            }
        }
    }
    if recorded.one_of == 0 && recorded.services.is_empty() {
        return Err((
            1,
            "nothing was recorded: --record-sample was off all the time, or nobody asked".into(),
        ));
    }
    Ok(recorded)
}

/// Refuses what is no number from 0 on.
fn sound(what: &str, number: f64) -> Result<(), String> {
    let why = || format!("{what} is {number}, which is no time");
    (0.0..=AT_MAX).contains(&number).then_some(()).ok_or_else(why)
}

impl Recorded {
    fn add(&mut self, number: usize, line: Line) -> Result<(), String> {
        match (number, line) {
            (1, Line::Begin { millrace_recording: VERSION, one_of }) => {
                self.one_of = one_of;
                Ok(())
            }
            (1, Line::Begin { millrace_recording, .. }) => Err(format!(
                "a recording of version {millrace_recording}, and this program reads {VERSION}: use that of the version that recorded it"
            )),
            (1, _) | (_, Line::Begin { .. }) => {
                Err("the first line of a recording, and no other, says \"line\":\"begin\"".into())
            }
            (_, Line::Request(request)) => self.request(*request),
            (_, Line::Seen { at_us, service, requests, dropped }) => {
                sound("at_us", at_us)?;
                self.dropped = self.dropped.max(dropped);
                let service = self.service(service)?;
                service.seen = Some(service.seen.unwrap_or(0).max(requests));
                Ok(())
            }
            (_, Line::Sample { at_us, one_of }) => {
                sound("at_us", at_us)?;
                let other = self.one_of > 0 && one_of > 0 && one_of != self.one_of;
                if other && self.services.values().any(|service| !service.methods.is_empty()) {
                    let before = self.one_of;
                    return Err(format!(
                        "one key of {before} until here and one of {one_of} from here on, which do not add up: cut the file here"
                    ));
                }
                self.one_of = if one_of > 0 { one_of } else { self.one_of };
                Ok(())
            }
            (_, Line::End { at_us, why }) => {
                sound("at_us", at_us)?;
                self.ended = Some(why);
                Ok(())
            }
        }
    }

    fn service(&mut self, name: String) -> Result<&mut Service, String> {
        if self.services.len() == SERVICES_MAX && !self.services.contains_key(&name) {
            return Err(format!("it has more than {SERVICES_MAX} services"));
        }
        Ok(self.services.entry(name).or_default())
    }

    fn request(&mut self, request: Request) -> Result<(), String> {
        let Request { at_us, service, method, key, request, reply, place, took_us } = request;
        sound("at_us", at_us)?;
        sound("took_us", took_us)?;
        let key =
            key.map(|text| u64::from_str_radix(&text, 16).map_err(|_| format!("key {text:?} is no hash")));
        let key = key.transpose()?;
        let service = self.service(service)?;
        if service.methods.len() == METHODS_MAX && !service.methods.contains_key(&method) {
            return Err(format!("a service has more than {METHODS_MAX} methods"));
        }
        let method = service.methods.entry(method).or_default();
        method.count += 1;
        method.request_bytes += request as f64;
        method.reply_bytes += reply as f64;
        method.took_us.push(took_us as f32);
        if let Some(key) = key {
            let half = &mut service.keys.entry(key).or_default()[(service.keyed % 2) as usize];
            *half = half.saturating_add(1);
            service.keyed += 1;
        }
        if service.places.len() < METHODS_MAX || service.places.contains_key(&place) {
            *service.places.entry(place).or_default() += 1;
        }
        *service.seconds.entry((at_us / 1e6) as u64).or_default() += 1;
        // Lines are in the order in which requests were answered.
        let (first, last) = service.span_us.unwrap_or((at_us, at_us));
        service.span_us = Some((first.min(at_us), last.max(at_us)));
        Ok(())
    }
}
