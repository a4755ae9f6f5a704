//! Metrics and spans to an OpenTelemetry collector: OTLP over HTTP with JSON, by `--otlp URL` or `OTEL_EXPORTER_OTLP_ENDPOINT`.
//!
//! ```text
//!  requests ─▶ spans ─▶ the tracer's ring ─┐
//!  requests ─▶ cells of counters ──────────┴─▶ Exporter, a thread: POST /v1/traces, /v1/metrics
//! ```
//! The queue of spans is the ring that `/trace` reads: a collector that is away for longer than the ring lasts misses the oldest, which are counted. Metrics
//! are the page of `/metrics`, cumulative, so one that a collector missed is made up for by the next.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | [`OtlpArgs`] |
//! | `target` | [`Target`]: where to, by flags and OpenTelemetry's variables |
//! | `exporter` | [`Exporter`]: the thread, its retries |
//! | `metrics` | a page of metrics as OTLP's JSON |
//!
//! Bounds: 512 spans a request; an answer of 64 KiB; ten seconds for a request. Nothing on a request's way waits for it.
//!
//! Sources: <https://opentelemetry.io/docs/specs/otlp/>, <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>.

mod exporter;
mod metrics;
mod target;

pub use exporter::Exporter;
pub(crate) use exporter::collect;
pub use target::Target;

use clap::Args;
use std::sync::OnceLock;

/// The URL that was said to this process.
static SAID: OnceLock<String> = OnceLock::new();

/// Where a server sends its metrics and spans.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Telemetry")]
pub struct OtlpArgs {
    /// Send metrics and spans to the OpenTelemetry collector at this URL, for example http://127.0.0.1:4318 (OTLP over HTTP, JSON). Default: what
    /// OTEL_EXPORTER_OTLP_ENDPOINT says; its other variables are heeded, too (docs/telemetry.md)
    #[arg(long, value_name = "URL", value_parser = target::url)]
    otlp: Option<String>,
}

impl OtlpArgs {
    /// From here on this process sends there.
    pub fn apply(&self) {
        if let Some(url) = &self.otlp {
            // The first stays: one process is one server.
            let _ = SAID.set(url.clone());
        }
    }
}

crate::families! { "millrace_otlp_";
    REQUESTS counter "requests" count ["signal", "outcome"] "Requests to the OpenTelemetry collector (--otlp): taken, refused, failed (spans are sent again).";
    SPANS_DROPPED counter "spans_dropped" count [] "Spans that it did not get: it was away for longer than they are kept, or refused them.";
}
