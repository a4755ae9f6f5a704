//! What a service is asked: its methods with rates and sizes, its connections, its items. Beside what the placer goes by, which it does not log.

use super::difference::{Since, per};
use super::observation::{Figure, Kind};
use super::reading::{Histogram, MethodReading, ServiceReading};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values that are under way at the ends of a look count as bytes of one and as values of the other.
const UNDER_WAY_MAX: f64 = (16 << 20) as f64;

/// A method or command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// `get`, `/shop.Cart/Add`.
    pub name: String,
    /// Requests per second.
    pub rate: Figure,
    /// Bytes of a request on average, where the node says so.
    pub request_bytes: Option<Figure>,
    /// Bytes of a reply on average.
    pub reply_bytes: Option<Figure>,
    /// Bytes of the values that a request brings, on average: 0 where it brings none.
    pub stored_bytes: Figure,
    /// Share of the requests that found their key.
    pub hits: Option<Figure>,
    /// Median stay in nanoseconds, where it is timed by method.
    pub p50_ns: Option<Figure>,
    /// 99th percentile of it.
    pub p99_ns: Option<Figure>,
}

/// What a service is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Its methods that were asked for, by name.
    pub methods: Vec<Method>,
    /// Requests that are not answered yet, where they are counted.
    pub under_way: Option<Figure>,
    /// Items, and the bytes of all of them.
    pub items: Option<(Figure, Figure)>,
    /// Rows of tables that a request reads, and bytes of a row.
    pub rows: Option<(Figure, Figure)>,
    /// Memory of the process that is in RAM.
    pub resident: Option<Figure>,
}

impl Load {
    pub(super) fn is_empty(&self) -> bool {
        *self == Load::default()
    }

    /// All its figures with what each is of, and the most that it can be.
    pub(super) fn figures(&self) -> impl Iterator<Item = (String, Figure, f64)> {
        const SIZE_MAX: f64 = 1e15;
        let of_method = |method: &Method| {
            let what = |what: &str| format!("{what} of {}", method.name);
            let sized = [(what("the size of requests"), method.request_bytes)];
            let sized = sized.into_iter().chain([
                (what("the size of replies"), method.reply_bytes),
                (what("the size of values"), Some(method.stored_bytes)),
                (what("the rate"), Some(method.rate)),
                (what("p50"), method.p50_ns),
                (what("p99"), method.p99_ns),
            ]);
            let hits = (what("the share of hits"), method.hits, 1.0);
            sized.map(|(what, figure)| (what, figure, SIZE_MAX)).chain([hits]).collect::<Vec<_>>()
        };
        let pairs = [("items", self.items), ("rows", self.rows)].into_iter().flat_map(|(name, pair)| {
            let [count, bytes] = [pair.map(|pair| pair.0), pair.map(|pair| pair.1)];
            [
                (format!("the number of {name}"), count, SIZE_MAX),
                (format!("the bytes of {name}"), bytes, SIZE_MAX),
            ]
        });
        let under_way = ("the requests under way".to_owned(), self.under_way, SIZE_MAX);
        let resident = ("the memory of the process".to_owned(), self.resident, SIZE_MAX);
        let all = self.methods.iter().flat_map(of_method).chain(pairs).chain([under_way, resident]);
        all.filter_map(|(what, figure, most)| Some((what, figure?, most))).collect::<Vec<_>>().into_iter()
    }
}

/// What came between two readings of a service.
pub(super) fn load(since: &mut Since<'_>) -> Load {
    let now = since.now;
    let mut methods = match now.kind {
        Kind::Rec => vec![of_rec(since)],
        Kind::Kv | Kind::Rpc => now.methods.iter().map(|(name, read)| method(since, name, read)).collect(),
    };
    methods.retain(|method| method.rate.0 > 0.0 || !method.rate.0.is_finite());
    if now.kind == Kind::Kv {
        sizes_of_kv(since, &mut methods);
    }
    let rows = now.row_bytes.map(|bytes| (per(since.count("rows"), since.count("answered")), Figure(bytes)));
    Load {
        methods,
        under_way: now.under_way.map(Figure),
        items: now.items.map(|(items, bytes)| (Figure(items), Figure(bytes))),
        rows: rows.filter(|(rows, _)| rows.0 > 0.0),
        resident: None,
    }
}

fn method(since: &Since<'_>, name: &str, now: &MethodReading) -> Method {
    let nothing = MethodReading::default();
    let then = since.then.methods.get(name).unwrap_or(&nothing);
    let more = |of: fn(&MethodReading) -> f64| (of(now) - of(then)).max(0.0);
    let (hits, misses) = (more(|of| of.hits), more(|of| of.misses));
    let sized = more(|of| of.stays.count);
    let size = |bytes: f64| (now.is_sized && sized > 0.0).then(|| Figure(bytes / sized));
    let quantile = |part| Histogram::quantile(&now.stays, Some(&then.stays), part).map(|s| Figure(s * 1e9));
    Method {
        name: name.to_owned(),
        rate: since.rate(now.count - then.count),
        request_bytes: size(more(|of| of.request_bytes)),
        reply_bytes: size(more(|of| of.reply_bytes)),
        stored_bytes: Figure(0.0),
        hits: (hits + misses > 0.0).then(|| Figure(hits / (hits + misses))),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
    }
}

fn of_rec(since: &Since<'_>) -> Method {
    let size = |bytes: &str| {
        since.now.counters.contains_key(bytes).then(|| per(since.count(bytes), since.count("requests")))
    };
    Method {
        name: "infer".to_owned(),
        rate: since.rate(since.count("requests")),
        request_bytes: size("received"),
        reply_bytes: size("sent"),
        ..Method::default()
    }
}

/// A key-value server counts bytes of all commands together, and bytes of values: what is left of the former is what commands and replies have beside
/// values, and is taken to be alike for all.
fn sizes_of_kv(since: &mut Since<'_>, methods: &mut [Method]) {
    let Some(values) = since.now.values.zip(since.then.values) else { return };
    let ((sent_now, received_now), (sent_then, received_then)) = values;
    let sent_values = since.rise("bytes of values sent", sent_then, sent_now);
    let received_values = since.rise("bytes of values received", received_then, received_now);
    let (received, sent) = (since.count("received"), since.count("sent"));
    for (values, all, what) in [(received_values, received, "received"), (sent_values, sent, "sent")] {
        if values > 2.0 * all + UNDER_WAY_MAX {
            since.doubts.push(format!("{values} bytes of values were {what}, of {all} bytes altogether"));
        }
    }
    let requests = since.count("requests");
    let beside = |all: f64, values: f64| per((all - values).max(0.0), requests).0;
    let (request, reply) = (beside(received, received_values), beside(sent, sent_values));
    let seconds = since.span_us as f64 / 1e6;
    for method in methods {
        let of_each = |bytes: f64| per(bytes, method.rate.0 * seconds).0;
        let stored = if method.name == "set" { of_each(received_values) } else { 0.0 };
        let read = if method.name == "get" { of_each(sent_values) } else { 0.0 };
        method.request_bytes = Some(Figure(request + stored));
        method.reply_bytes = Some(Figure(reply + read));
        method.stored_bytes = Figure(stored);
    }
}

impl ServiceReading {
    /// The same with nothing counted.
    pub(super) fn nothing(&self) -> ServiceReading {
        ServiceReading {
            counters: BTreeMap::new(),
            stages: BTreeMap::new(),
            stays: None,
            methods: BTreeMap::new(),
            values: self.values.map(|_| (0.0, 0.0)),
            ..self.clone()
        }
    }
}
