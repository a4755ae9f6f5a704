//! What the admin port of `millrace rpc serve` answers besides [registers](crate::admin): what the fabric's monitor saw.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | the monitor's figures and the registers, as Prometheus text |
//! | `GET /stats.json` | the monitor's figures, as JSON |
//! | `GET /connections` | those that are open, and what went over them, as JSON |
//! | `GET /trace` | the spans of sampled calls, for Perfetto or chrome://tracing |
//!
//! Calls are sampled as `monitor.sample` and `trace.sample` say, which this port sets.

use crate::admin::{Tuned, register_routes};
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use fabric::monitor::{Monitor, render_registers};
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

/// All routes of the port.
pub fn routes(monitor: Monitor) -> Router {
    register_routes()
        .route("/metrics", get(metrics))
        .route("/stats.json", get(stats))
        .route("/connections", get(connections))
        .route("/trace", get(trace))
        .with_state(Arc::new(Seen(monitor)))
}

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

async fn metrics(State(seen): State<Arc<Seen>>) -> impl IntoResponse {
    let mut text = String::new();
    seen.0.render_prometheus(&mut text);
    render_registers(seen.registers(), &mut text);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

async fn stats(State(seen): State<Arc<Seen>>) -> impl IntoResponse {
    (JSON, seen.0.snapshot().to_json())
}

async fn connections(State(seen): State<Arc<Seen>>) -> impl IntoResponse {
    (JSON, seen.0.snapshot().connections_json())
}

async fn trace(State(seen): State<Arc<Seen>>) -> impl IntoResponse {
    let name = (header::CONTENT_DISPOSITION, "attachment; filename=\"millrace-trace.json\"");
    let [kind] = JSON;
    ([kind, name], seen.0.chrome_trace())
}
