//! What the [admin ports](crate::admin) of `millrace rpc serve` and `rpc gateway` show: what the fabric's monitor saw, and its registers.
//!
//! | request | answer |
//! |---|---|
//! | `GET /stats.json` | the monitor's figures, as JSON |
//! | `GET /connections` | those that are open, and what went over them, as JSON |
//! | `GET /trace` | the spans of sampled calls, for Perfetto or chrome://tracing |
//!
//! Calls are sampled as `monitor.sample` and `trace.sample` say, which this port sets.

use super::metrics;
use crate::admin::{JSON, Routes, Tuned};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::routing::get;
use fabric::monitor::Monitor;
use fabric::registers::{Id, Registers};
use std::sync::Arc;

/// What the port shows.
struct Seen(Monitor);

impl Tuned for Seen {
    type Id = Id;

    fn registers(&self) -> &Registers {
        self.0.registers()
    }
}

/// What the port of `monitor` shows.
pub fn routes(monitor: &Monitor) -> Routes {
    let [collected, stats, connections, traced] = [(); 4].map(|()| monitor.clone());
    let kind = [(CONTENT_TYPE, JSON), (CONTENT_DISPOSITION, "attachment; filename=\"millrace-trace.json\"")];
    let trace = get(async move || (kind, traced.chrome_trace()));
    Routes::default()
        .registers(Arc::new(Seen(monitor.clone())))
        .metrics(move |page| metrics::collect(&collected.snapshot(), page))
        .text("GET /stats.json", "the monitor's figures, as JSON", JSON, move || stats.snapshot().to_json())
        .text("GET /connections", "open connections, and what went over them, as JSON", JSON, move || {
            connections.snapshot().connections_json()
        })
        .with("GET /trace", "spans of sampled calls, for Perfetto or chrome://tracing", trace)
}
