//! What the node's admin port answers besides [registers](crate::admin): metrics, statistics and health.
//!
//! | request | answer |
//! |---|---|
//! | `GET /healthz` | `ok` while the node serves, 503 while it drains |
//! | `GET /metrics` | Prometheus text |
//! | `GET /stats.json` | everything counted, as JSON |
//!
//! It takes the engine's lock for microseconds, and binds to loopback unless told otherwise.

use super::metrics;
use super::shared::Shared;
use crate::admin::{Tuned, register_routes};
use crate::node::registers::{Id, Registers};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json};
use axum::routing::get;
use std::sync::Arc;

impl Tuned for Shared {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.registers
    }

    fn register_changed(&self, name: &str) {
        self.register_changed(name);
    }
}

/// All routes of the node's port.
pub fn routes(shared: Arc<Shared>) -> Router {
    register_routes()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_text))
        .route("/stats.json", get(stats))
        .with_state(shared)
}

async fn healthz(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics_text(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        metrics::text(&shared.report(), &shared.registers.show()),
    )
}

async fn stats(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    Json(shared.report())
}
