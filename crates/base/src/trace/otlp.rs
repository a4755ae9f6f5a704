//! Spans as OTLP's JSON: what an OpenTelemetry collector takes at `/v1/traces`.

use super::chrome::in_order;
use super::{Kind, Span};
use crate::json::Text;
use std::fmt::Write;

/// One `resourceSpans` for each service, which has these attributes, too. `unix_ns` is what the clock of this process must be advanced by to be Unix time.
pub fn otlp<'a>(
    spans: impl IntoIterator<Item = &'a Span>,
    unix_ns: u64,
    resource: &[(String, String)],
) -> String {
    let about: String = resource.iter().map(|(key, value)| format!(",{}", attribute(key, value))).collect();
    let spans: Vec<&Span> = spans.into_iter().collect();
    let mut out = String::from("{\"resourceSpans\":[");
    for (n, service) in in_order(spans.iter().map(|span| &*span.service)).into_iter().enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let _ = write!(
            out,
            "{comma}{{\"resource\":{{\"attributes\":[{}{about}]}},\
             \"scopeSpans\":[{{\"scope\":{{\"name\":\"millrace\"}},\"spans\":[",
            attribute("service.name", service)
        );
        for (n, span) in spans.iter().filter(|span| &*span.service == service).enumerate() {
            if n > 0 {
                out.push(',');
            }
            one(&mut out, span, unix_ns);
        }
        out.push_str("]}]}");
    }
    out.push_str("]}");
    out
}

fn attribute(key: &str, value: &str) -> String {
    format!("{{\"key\":{},\"value\":{{\"stringValue\":{}}}}}", Text(key), Text(value))
}

fn one(out: &mut String, span: &Span, unix_ns: u64) {
    let parent = span.parent.map_or(String::new(), |parent| format!("{parent:016x}"));
    // OTLP's kinds: 1 internal, 2 server, 3 client; its status: 2 error, 0 unset.
    let kind = match span.kind {
        Kind::Part => 1,
        Kind::Server => 2,
        Kind::Client => 3,
    };
    let mut attributes = [
        attribute("place", span.place.name()),
        attribute("thread.name", &span.row),
        attribute("outcome", &span.outcome),
    ]
    .join(",");
    if let Some(connection) = span.connection {
        let _ = write!(attributes, ",{{\"key\":\"connection\",\"value\":{{\"intValue\":\"{connection}\"}}}}");
    }
    let _ = write!(
        out,
        "{{\"traceId\":\"{:032x}\",\"spanId\":\"{:016x}\",\"parentSpanId\":\"{parent}\",\"name\":{},\"kind\":{kind},\
         \"startTimeUnixNano\":\"{}\",\"endTimeUnixNano\":\"{}\",\"attributes\":[{attributes}],\"status\":{{\"code\":{}}}}}",
        span.context.trace,
        span.context.span,
        Text(span.name.trim_start_matches('/')),
        span.begin.0.saturating_add(unix_ns),
        span.end.0.saturating_add(unix_ns),
        if span.is_ok() { 0 } else { 2 },
    );
}
