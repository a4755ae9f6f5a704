//! `GET /trace` and `GET /trace.otlp`: the spans that a process has kept, of all services or of one.

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::routing::{MethodRouter, get};
use base::Clock;
use base::trace::{Span, Tracer, chrome, otlp};
use std::time::{SystemTime, UNIX_EPOCH};

/// For Perfetto or chrome://tracing.
pub const CHROME: (&str, &str) =
    ("/trace", "spans of sampled requests, for Perfetto, chrome://tracing or millrace trace");
/// For an OpenTelemetry collector.
pub const OTLP: (&str, &str) = ("/trace.otlp", "the same, for an OpenTelemetry collector");

/// The answers to both, of all services, or of the one that the tracer is.
pub fn routes(tracer: &Tracer, is_one: bool) -> [MethodRouter; 2] {
    let spans = move |tracer: &Tracer| -> Vec<Span> {
        if is_one { tracer.spans_of(tracer.service()) } else { tracer.spans() }
    };
    let kind =
        [(CONTENT_TYPE, super::JSON), (CONTENT_DISPOSITION, "attachment; filename=\"millrace-trace.json\"")];
    let (for_chrome, for_otlp) = (tracer.clone(), tracer.clone());
    let as_chrome = get(async move || (kind, chrome(&spans(&for_chrome), Clock::shared().monotonic())));
    let as_otlp =
        get(async move || ([(CONTENT_TYPE, super::JSON)], otlp(&spans(&for_otlp), unix_offset_ns(), &[])));
    [as_chrome, as_otlp]
}

/// What the clock of this process must be advanced by to be Unix time.
pub(crate) fn unix_offset_ns() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (unix.as_nanos() as u64).saturating_sub(Clock::shared().now().0)
}
