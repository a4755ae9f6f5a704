//! Requests that were seen, of a node that runs (`live`) or in a recording (`recording`), as classes of a workload and as a table.
//!
//! What neither says is a model of what is done for a request: a command of a key-value server reads a bucket of 64 B and then the item, so two accesses of
//! which the second needs the first; a call decodes and encodes a field; a query of a recommendation model reads rows.

use crate::observed::Kind;
use bench::report::Table;
use bench::report::format::{digits, micros, short};
use model::workload::{Class, Slo, Workload};
use serde::Serialize;

/// Of a hash table's bucket.
const BUCKET: u64 = 64;

/// A method, as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Method {
    pub(super) name: String,
    /// Requests per second.
    pub(super) rate: f64,
    /// Bytes of a request and of a reply on average, where they are known.
    pub(super) request: Option<f64>,
    pub(super) reply: Option<f64>,
    /// Bytes that a request has stored, on average.
    pub(super) stored: f64,
    /// Share of the requests that found their key.
    pub(super) hits: Option<f64>,
    /// Seconds of the median and the 99th percentile, at the server.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// Cycles of a host core beside what the model knows of it.
    pub(super) cycles: f64,
    /// Rows that a request reads, and bytes of each.
    pub(super) rows: Option<(f64, f64)>,
}

/// What a kind of service is called.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Kv => "kv",
        Kind::Rpc => "rpc",
        Kind::Rec => "rec",
    }
}

impl Method {
    /// The same asked for at another node as well.
    pub(super) fn add(&mut self, other: &Method) {
        let whole = self.rate + other.rate;
        let (own, its) = if whole > 0.0 { (self.rate / whole, other.rate / whole) } else { (0.5, 0.5) };
        let mean = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a * own + b * its).or(a).or(b);
        self.request = mean(self.request, other.request);
        self.reply = mean(self.reply, other.reply);
        self.hits = mean(self.hits, other.hits);
        self.stored = self.stored * own + other.stored * its;
        self.cycles = self.cycles * own + other.cycles * its;
        // Of two nodes the slower is what clients see of both.
        let most = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b)).or(a).or(b);
        (self.p50, self.p99) = (most(self.p50, other.p50), most(self.p99, other.p99));
        self.rate = whole;
    }

    /// As a class, of `all` requests per second.
    fn class(&self, kind: Kind, all: f64) -> Class {
        let bytes = |size: Option<f64>| size.unwrap_or(0.0).round() as u64;
        let lookups = if kind == Kind::Kv { 2 } else { 0 };
        let (rows, row) = self.rows.unwrap_or((0.0, 0.0));
        let (rows, row) = (rows.round() as u64, row.round() as u64);
        let (rows, row) = if rows > 0 && row > 0 { (rows, row) } else { (0, 0) };
        Class {
            name: self.name.clone(),
            share: self.rate / all,
            request: bytes(self.request).max(1),
            reply: bytes(self.reply),
            lookups,
            lookup: lookups.min(1) * BUCKET,
            rows,
            row,
            store: self.stored.round() as u64,
            copies: 0,
            cycles: self.cycles,
            fields: u64::from(kind != Kind::Kv),
            cacheable: kind == Kind::Kv && reads(&self.name),
            calls: Vec::new(),
            slo: Slo::default(),
        }
    }
}

/// Whether a command of memcached only reads.
pub(super) fn reads(command: &str) -> bool {
    ["get", "gets", "gat", "gats", "mg"].contains(&command)
}

/// Whether it brings a value.
pub(super) fn stores(command: &str) -> bool {
    ["set", "add", "replace", "append", "prepend", "cas", "ms"].contains(&command)
}

/// What a workload has beside its classes.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) keys: f64,
    pub(super) skew: f64,
    pub(super) working_set: f64,
    pub(super) window: f64,
}

/// The workload of what was seen.
///
/// # Errors
/// Nothing was; or it makes no sense. A sentence.
pub(super) fn workload(kind: Kind, methods: &[Method], beside: Beside) -> Result<Workload, String> {
    let rate: f64 = methods.iter().map(|method| method.rate).sum();
    if !(rate.is_finite() && rate > 0.0) {
        return Err("no request was answered, so there is nothing to plan".into());
    }
    let whole = |number: f64| number.clamp(1.0, 1e18).ceil() as u64;
    let Beside { name, title, keys, skew, working_set, window } = beside;
    let workload = Workload {
        name: name.into(),
        title,
        keys: whole(keys),
        skew,
        working_set: whole(working_set),
        window: whole(window),
        rate: Some(rate),
        host_cores: None,
        places: None,
        classes: methods.iter().map(|method| method.class(kind, rate)).collect(),
    };
    workload.check()?;
    Ok(workload)
}

/// What was seen, method by method; `all` is the service's own median and 99th percentile.
pub(super) fn table(methods: &[Method], all: (Option<f64>, Option<f64>)) -> Table {
    let mut table = Table::new(["method", "rate", "share", "request", "reply", "hits", "p50", "p99"]);
    let rate: f64 = methods.iter().map(|method| method.rate).sum();
    let none = || "–".to_string();
    let bytes = |size: Option<f64>| size.map_or_else(none, |size| format!("{} B", digits(size)));
    let span = |span: Option<f64>| span.map_or_else(none, |span| micros(span * 1e6));
    let per_cent = |share: f64| format!("{:.1} %", share * 100.0);
    for method in methods {
        table.row([
            method.name.clone(),
            format!("{}/s", short(method.rate)),
            per_cent(method.rate / rate),
            bytes(method.request),
            bytes(method.reply),
            method.hits.map_or_else(none, per_cent),
            span(method.p50),
            span(method.p99),
        ]);
    }
    let mean = |of: fn(&Method) -> Option<f64>| {
        let sized = methods.iter().filter_map(|method| Some((method.rate, of(method)?)));
        let (sum, rates) =
            sized.fold((0.0, 0.0), |(sum, rates), (rate, size)| (sum + rate * size, rates + rate));
        (rates > 0.0).then(|| sum / rates)
    };
    table.row([
        "all".to_string(),
        format!("{}/s", short(rate)),
        per_cent(1.0),
        bytes(mean(|method| method.request)),
        bytes(mean(|method| method.reply)),
        mean(|method| method.hits).map_or_else(none, per_cent),
        span(all.0),
        span(all.1),
    ]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside() -> Beside {
        let title = "what was seen".to_string();
        Beside { name: "seen", title, keys: 1e4, skew: 0.9, working_set: 1e6, window: 7.2 }
    }

    fn method(name: &str, rate: f64) -> Method {
        let sizes = (Some(20.4), Some(99.6));
        Method { name: name.into(), rate, request: sizes.0, reply: sizes.1, ..Method::default() }
    }

    #[test]
    fn what_was_seen_is_a_workload() {
        let set = Method { stored: 80.0, cycles: 500.0, ..method("set", 100.0) };
        let seen = workload(Kind::Kv, &[method("get", 300.0), set], beside()).expect("it makes sense");
        assert_eq!((seen.rate, seen.window, seen.keys), (Some(400.0), 8, 10_000));
        let get = &seen.classes[0];
        assert_eq!((get.share, get.request, get.reply, get.lookups, get.cacheable), (0.75, 20, 100, 2, true));
        let set = &seen.classes[1];
        assert_eq!((set.store, set.cycles, set.cacheable), (80, 500.0, false));
        let row = Method { rows: Some((79.6, 128.0)), ..method("infer", 10.0) };
        let rec = workload(Kind::Rec, &[row], beside()).expect("it makes sense");
        assert_eq!((rec.classes[0].rows, rec.classes[0].row, rec.classes[0].fields), (80, 128, 1));
        assert!(workload(Kind::Kv, &[], beside()).is_err_and(|why| why.contains("nothing to plan")));
    }

    #[test]
    fn two_nodes_add_their_rates_and_mix_their_sizes() {
        let mut one = Method { p99: Some(2e-3), ..method("get", 100.0) };
        one.add(&Method { request: Some(40.4), p99: Some(1e-3), hits: Some(0.5), ..method("get", 300.0) });
        assert_eq!((one.rate, one.hits, one.p99), (400.0, Some(0.5), Some(2e-3)));
        assert!((one.request.expect("both have one") - 35.4).abs() < 1e-9);
    }

    #[test]
    fn the_table_has_a_line_for_each_and_one_for_all() {
        let table = table(&[method("get", 300.0), method("set", 100.0)], (Some(5e-6), None));
        let rows = table.rows();
        assert_eq!((rows.len(), &*rows[0][2], &*rows[2][6], &*rows[2][7]), (3, "75.0 %", "5.0 µs", "–"));
    }
}
