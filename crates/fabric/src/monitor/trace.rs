//! Sampled calls, as spans: which trace they belong to, who called whom, and when each stage was passed.
//!
//! A caller says which trace a call belongs to by the metadata `traceparent` (W3C Trace Context): `00-TRACE-SPAN-FLAGS`, in hex. If its flag
//! *sampled* is set the call leaves a span, whatever the registers say.
//!
//! Spans are exported as Chrome trace events (opens in Perfetto and chrome://tracing; one row a connection, the stages nested in
//! their call) and as OTLP's JSON (`resourceSpans`, what an OpenTelemetry collector takes at `/v1/traces`).
//!
//! Bounds: a ring of [`super::Options::spans`]; a new span takes the place of the oldest, which is counted as dropped.

use super::json::Text;
use super::{Side, points::STAGES};
use crate::frame;
use crate::status::Code;
use base::Nanos;
use std::collections::VecDeque;
use std::fmt::Write;

/// The metadata key of a trace's context.
pub const TRACEPARENT: &str = "traceparent";

/// Where a call belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Of the whole trace; not 0.
    pub trace: u128,
    /// Of the span that the call is part of; not 0.
    pub span: u64,
    /// Whether it is to be recorded.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent`; what is none is ignored, as the standard wants.
    pub fn parse(text: &[u8]) -> Option<Context> {
        let text = std::str::from_utf8(text).ok()?;
        let hex = |part: &str, len: usize| {
            let lower = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            (lower && part.len() == len).then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)? as u64);
        let flags = hex(parts.next()?, 2)?;
        // Version 0 ends here; later ones may go on; 255 is forbidden.
        let over = version == 255 || (version == 0 && parts.next().is_some());
        (!over && trace != 0 && span != 0).then_some(Context { trace, span, sampled: flags & 1 == 1 })
    }

    /// The context in encoded metadata, if there is one.
    pub fn of(metadata: &[u8]) -> Option<Context> {
        let (_, value) = frame::metadata(metadata).find(|(key, _)| *key == TRACEPARENT)?;
        Context::parse(value)
    }

    /// As a `traceparent`.
    pub fn emit(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// One call's span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace it belongs to, and its own number there.
    pub context: Context,
    /// The span that it is part of, if it is known.
    pub parent: Option<u64>,
    /// Which end of the call this is.
    pub side: Side,
    /// `/shop.Cart/Add`.
    pub method: String,
    /// The connection's number.
    pub connection: u32,
    /// When each point was passed, in the clock of this process.
    pub at: [Nanos; 4],
    /// How the call ended.
    pub code: Code,
}

/// The last spans.
#[derive(Debug)]
pub(super) struct Spans {
    kept: VecDeque<Span>,
    most: usize,
    pub(super) recorded: u64,
}

impl Spans {
    pub(super) fn new(most: usize) -> Spans {
        Spans { kept: VecDeque::new(), most, recorded: 0 }
    }

    pub(super) fn push(&mut self, span: Span) {
        self.recorded += 1;
        if self.most == 0 {
            return;
        }
        if self.kept.len() == self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(span);
    }

    pub(super) fn kept(&self) -> impl Iterator<Item = &Span> {
        self.kept.iter()
    }

    /// Spans that have made room for later ones.
    pub(super) fn dropped(&self) -> u64 {
        self.recorded - self.kept.len() as u64
    }
}

/// Spans as Chrome trace events, times in microseconds: process 1 is the calling end, 2 the serving one.
pub fn chrome<'a>(spans: impl IntoIterator<Item = &'a Span>) -> String {
    let mut out = String::from(CHROME);
    let mut first = true;
    for span in spans {
        chrome_span(&mut out, &mut first, span, span.side as usize + 1);
    }
    out.push_str("]}");
    out
}

/// As [`chrome`], of several programs or services: each is a process of that name, with rows for its connections.
pub fn chrome_of<'a>(all: impl IntoIterator<Item = (&'a str, &'a [Span])>) -> String {
    let mut out = String::from(CHROME);
    let mut first = true;
    for (process, (name, spans)) in all.into_iter().enumerate() {
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        let process = process + 1;
        let _ = write!(
            out,
            "{comma}{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"args\":{{\"name\":{}}}}}",
            Text(name)
        );
        spans.iter().for_each(|span| chrome_span(&mut out, &mut first, span, process));
    }
    out.push_str("]}");
    out
}

const CHROME: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";

/// A call and its three stages.
fn chrome_span(out: &mut String, first: &mut bool, span: &Span, process: usize) {
    let whole = [span.at[0], span.at[3]];
    let arguments = format!(
        "{{\"trace\":\"{:032x}\",\"span\":\"{:016x}\",\"parent\":\"{:016x}\",\"code\":\"{}\"}}",
        span.context.trace,
        span.context.span,
        span.parent.unwrap_or(0),
        span.code
    );
    chrome_event(out, first, span, process, &span.method, whole, &arguments);
    for (stage, name) in STAGES[span.side as usize].into_iter().enumerate() {
        chrome_event(out, first, span, process, name, [span.at[stage], span.at[stage + 1]], "{}");
    }
}

/// One complete event; a row is a connection.
fn chrome_event(
    out: &mut String,
    first: &mut bool,
    span: &Span,
    process: usize,
    name: &str,
    at: [Nanos; 2],
    arguments: &str,
) {
    if !std::mem::take(first) {
        out.push(',');
    }
    let micros = |ns: Nanos| ns.0 as f64 / 1e3;
    let _ = write!(
        out,
        "{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3},\"dur\":{:.3},\"args\":{arguments}}}",
        Text(name),
        span.side.name(),
        process,
        span.connection,
        micros(at[0]),
        micros(at[1].since(at[0])),
    );
}

/// Spans as OTLP's JSON. `unix_ns` is what the clock of this process must be advanced by to be Unix time.
pub fn otlp<'a>(spans: impl IntoIterator<Item = &'a Span>, service: &str, unix_ns: u64) -> String {
    let mut out = format!(
        "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":[{{\"key\":\"service.name\",\"value\":{{\"stringValue\":{}}}}}]}},\
         \"scopeSpans\":[{{\"scope\":{{\"name\":\"millrace-fabric\"}},\"spans\":[",
        Text(service)
    );
    for (n, span) in spans.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        otlp_span(&mut out, span, unix_ns);
    }
    out.push_str("]}]}]}");
    out
}

fn otlp_span(out: &mut String, span: &Span, unix_ns: u64) {
    let time = |at: Nanos| at.0.saturating_add(unix_ns);
    let parent = span.parent.map_or(String::new(), |parent| format!("{parent:016x}"));
    // OTLP's kinds: 3 client, 2 server; its status: 2 error, 0 unset.
    let kind = match span.side {
        Side::Client => 3,
        Side::Server => 2,
    };
    let _ = write!(
        out,
        "{{\"traceId\":\"{:032x}\",\"spanId\":\"{:016x}\",\"parentSpanId\":\"{parent}\",\"name\":{},\"kind\":{kind},\
         \"startTimeUnixNano\":\"{}\",\"endTimeUnixNano\":\"{}\",\
         \"attributes\":[{{\"key\":\"rpc.grpc.status_code\",\"value\":{{\"intValue\":\"{}\"}}}}],\"events\":[",
        span.context.trace,
        span.context.span,
        Text(span.method.trim_start_matches('/')),
        time(span.at[0]),
        time(span.at[3]),
        span.code as u16,
    );
    for (stage, name) in STAGES[span.side as usize].into_iter().enumerate() {
        let comma = if stage > 0 { "," } else { "" };
        let at = time(span.at[stage + 1]);
        let _ = write!(out, "{comma}{{\"timeUnixNano\":\"{at}\",\"name\":\"end of {name}\"}}");
    }
    let error = if span.code == Code::Ok { 0 } else { 2 };
    let _ = write!(out, "],\"status\":{{\"code\":{error}}}}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn contexts_are_what_was_emitted(trace in 1..u128::MAX, span in 1..u64::MAX, sampled: bool) {
            let context = Context { trace, span, sampled };
            prop_assert_eq!(Context::parse(context.emit().as_bytes()), Some(context));
        }

        #[test]
        fn any_bytes_are_a_context_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[0-9a-f-]{0,60}") {
            Context::parse(&bytes);
            Context::parse(text.as_bytes());
        }
    }

    #[test]
    fn what_the_standard_forbids_is_ignored() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(
            Context::parse(good.as_bytes()).is_some_and(|c| c.sampled && c.span == 0x00f0_67aa_0ba9_02b7)
        );
        for bad in [
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(Context::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
