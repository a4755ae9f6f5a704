//! A workload from a recording of requests (`--record` of a server): rates, sizes, popularity, arrivals, latencies.

mod read;
mod skew;

use super::seen::{self, Beside, Method, reads, stores};
use super::trace::{Measured, Taken};
use crate::observed::Kind;
use bench::report::format::{digits, short};
use read::{Recorded, Service};
use std::io::BufRead;

/// Bytes of an item beside its value: header and index.
const ITEM: f64 = 64.0;
/// Methods of recommendation.
const INFER: [&str; 3] = ["infer", "/millrace.Recommend/Infer", "/inference.GRPCInferenceService/ModelInfer"];

/// The workload of the requests in a recording, of one service by name if that is said.
///
/// # Errors
/// A line is wrong, with its number; there is no such service, or there are several; too little was recorded. A sentence.
pub(super) fn workload(from: impl BufRead, file: &str, service: Option<&str>) -> Result<Taken, String> {
    let recorded = read::read(from).map_err(|(line, why)| format!("{file}:{line}: {why}"))?;
    let (name, service) = chosen(&recorded, file, service)?;
    let span = service.span_us.map_or(0.0, |(first, last)| (last - first) / 1e6);
    let count: u64 = service.methods.values().map(|method| method.count).sum();
    if span <= 0.0 || count < 2 {
        return Err(format!(
            "{file}: {count} requests of {name} were recorded: too few for a rate; record for longer"
        ));
    }
    let one_of = f64::from(recorded.one_of.max(1));
    // What was counted of all requests is exact; a key that is asked for very often may be in the sample or not.
    let all = service.seen.map_or(count as f64 * one_of, |seen| seen as f64).max(count as f64);
    let rate = all / span;
    let kind = kind(service);
    let methods: Vec<Method> = methods(service, kind, rate / count as f64);
    let theta = skew::theta(&service.keys.values().copied().collect::<Vec<_>>());
    let took = Took::of(service.methods.values().flat_map(|method| &method.took_us).copied());
    let keys = service.keys.len() as f64 * one_of;
    let value = |of: fn(&Method) -> Option<f64>, is: fn(&str) -> bool| {
        let sizes = methods.iter().filter(|method| is(&method.name)).filter_map(of);
        sizes.fold(0.0, f64::max)
    };
    let item = value(|of| of.reply, reads).max(value(|of| of.request, stores)) + ITEM;
    let beside = Beside {
        name: "recording",
        title: format!("What was recorded of {name} ({file})"),
        keys,
        skew: theta.unwrap_or(0.0),
        working_set: keys * item,
        window: rate * took.mean,
    };
    let table = seen::table(&methods, (Some(took.p50), Some(took.p99))).to_string();
    let remarks = remarks(&recorded, service, (all, span), theta);
    let workload = seen::workload(kind, &methods, beside).map_err(|why| format!("{file}: {why}"))?;
    let positive = |value: f64| value > 0.0;
    let latencies = Some((took.p50, took.p99)).filter(|(p50, p99)| positive(*p50) && positive(*p99));
    let measured = Measured { rate: Some(rate), latencies };
    Ok(Taken { workload, measured, remarks, table: Some(table) })
}

fn chosen<'a>(
    recorded: &'a Recorded,
    file: &str,
    name: Option<&str>,
) -> Result<(&'a str, &'a Service), String> {
    let with = || recorded.services.iter().filter(|(_, service)| !service.methods.is_empty());
    let names = || with().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ");
    let mut wanted = with().filter(|(own, _)| name.is_none_or(|name| name == *own));
    match (wanted.next(), wanted.next()) {
        (None, _) => Err(match name {
            Some(name) if with().next().is_some() => {
                format!("{file} has no requests of {name:?}; it has {}", names())
            }
            _ => format!(
                "{file} has no requests: nobody asked while it was recorded, or none of the keys that were"
            ),
        }),
        (Some((name, service)), None) => Ok((name, service)),
        (Some(_), Some(_)) => {
            Err(format!("{file} has requests of {}: say of which service with --service NAME", names()))
        }
    }
}

fn kind(service: &Service) -> Kind {
    let mut names = service.methods.keys();
    if names.clone().any(|name| INFER.contains(&&**name)) {
        Kind::Rec
    } else if names.any(|name| name.starts_with('/')) {
        Kind::Rpc
    } else {
        Kind::Kv
    }
}

/// Its methods, where one that was recorded stands for so many requests a second.
fn methods(service: &Service, kind: Kind, rate_each: f64) -> Vec<Method> {
    let of = |(name, method): (&String, &read::Method)| {
        let mean = |bytes: f64| bytes / method.count as f64;
        let took = Took::of(method.took_us.iter().copied());
        let brings = kind == Kind::Kv && stores(name);
        Method {
            name: name.clone(),
            rate: method.count as f64 * rate_each,
            request: Some(mean(method.request_bytes)),
            reply: Some(mean(method.reply_bytes)),
            stored: if brings { mean(method.request_bytes) } else { 0.0 },
            p50: Some(took.p50),
            p99: Some(took.p99),
            ..Method::default()
        }
    };
    let mut all: Vec<Method> = service.methods.iter().map(of).collect();
    all.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    all
}

/// Seconds that requests took.
struct Took {
    mean: f64,
    p50: f64,
    p99: f64,
}

impl Took {
    fn of(us: impl Iterator<Item = f32>) -> Took {
        let mut all: Vec<f32> = us.collect();
        all.sort_unstable_by(f32::total_cmp);
        let at = |part: f64| {
            let at = (all.len() as f64 * part) as usize;
            all.get(at.min(all.len().saturating_sub(1))).map_or(0.0, |us| f64::from(*us) / 1e6)
        };
        let sum: f64 = all.iter().map(|us| f64::from(*us)).sum();
        Took { mean: sum / 1e6 / (all.len().max(1) as f64), p50: at(0.5), p99: at(0.99) }
    }
}

fn remarks(
    recorded: &Recorded,
    service: &Service,
    (all, span): (f64, f64),
    theta: Option<f64>,
) -> Vec<String> {
    let count: u64 = service.methods.values().map(|method| method.count).sum();
    let busiest = service.seconds.values().max().copied().unwrap_or(0) as f64;
    let mean = count as f64 / span.max(1.0);
    let mut said = vec![format!(
        "recording: {} of {} requests, one key of {}, over {} s; the busiest second had {:.1} times the mean",
        short(count as f64),
        short(all),
        recorded.one_of,
        digits(span),
        busiest / mean.max(f64::MIN_POSITIVE)
    )];
    let mut counts: Vec<u64> = service.keys.values().map(|[a, b]| u64::from(*a) + u64::from(*b)).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let keyed: u64 = counts.iter().sum();
    let share = |of: usize| counts.iter().take(of).sum::<u64>() as f64 / keyed.max(1) as f64 * 100.0;
    if keyed > 0 {
        said.push(format!(
            "popularity: {} keys in it, the first of them with {:.1} % of their requests, the first hundredth with {:.1} %; {}",
            short(counts.len() as f64),
            share(1),
            share(counts.len().div_ceil(100)),
            match theta {
                Some(theta) => format!("Zipf's theta {theta:.2}"),
                None => "too few to say how skewed: all alike are taken, --set workload.skew=0.99 says otherwise".into(),
            }
        ));
    } else {
        said.push("keys: its requests have none".into());
    }
    let places: Vec<_> = service.places.iter().map(|(place, n)| format!("{place} {n}")).collect();
    said.push(format!(
        "answered at: {}; cycles of a host core are not in a recording: 0 are taken, --set workload.METHOD.cycles=1000 gives others",
        places.join(", ")
    ));
    if recorded.dropped > 0 {
        said.push(format!(
            "{} requests of the sample were dropped: what it says of popularity is of the others",
            short(recorded.dropped as f64)
        ));
    }
    match recorded.ended.as_deref() {
        None => said.push("its file breaks off: the process was killed, or the disk was full".into()),
        Some("full") => said.push("its file was full: requests that came later are not in it".into()),
        Some(_) => {}
    }
    said
}

#[cfg(test)]
mod tests;
