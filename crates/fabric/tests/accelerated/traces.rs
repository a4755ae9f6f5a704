//! What lanes and units do for a call is in its trace; a call that leaves none leaves none of this either.

use crate::rig::{Pair, Store, driven, plain, request, threaded, what};
use base::trace::{Kind, Place, TRACEPARENT};
use codec::place::Options;
use fabric::channel::CallOptions;
use fabric::frame::push_metadata;
use fabric::monitor::{Context, Monitor, Options as MonitorOptions, Span};
use fabric::registers::Registers;
use std::sync::Arc;

/// The spans of a call that its caller samples, or does not.
fn spans(options: Options, has_unit: bool, sampled: bool) -> Vec<Span> {
    let registers = Registers::default();
    registers.set_live("trace.sample", "0").expect("live");
    let monitor = Monitor::tuned(MonitorOptions::default(), Arc::new(registers));
    let server = plain(&Arc::new(Store::default())).monitor(&monitor);
    let mut server = server.accelerator(options).expect("an accelerator");
    server.set_unit("turn", has_unit).expect("it has the kernel");
    let mut pair = Pair::new(server);
    let mut metadata = Vec::new();
    let caller = Context { trace: 0xabc, span: 0xdef, sampled };
    assert!(push_metadata(&mut metadata, TRACEPARENT, caller.emit().as_bytes()));
    let method = pair.channel.method("/picture.Images/Store").expect("it is served");
    let options = CallOptions { metadata: &metadata, ..CallOptions::default() };
    pair.channel.start(method, &options, 0, &request(1, what::STORE, b"an image")).expect("room");
    pair.channel.flush();
    pair.outcomes(1).pop().expect("one").1.expect("it is stored");
    pair.server.poll(base::Clock::shared().now());
    monitor.tracer().spans()
}

#[test]
fn lanes_and_units_are_parts_of_the_calls_own_span() {
    for (options, has_unit) in [(driven(), true), (threaded(2), true), (threaded(1), false)] {
        let (calls, parts): (Vec<Span>, Vec<Span>) =
            spans(options, has_unit, true).into_iter().partition(|span| span.kind != Kind::Part);
        let [call] = &calls[..] else { panic!("one call: {calls:?}") };
        let of = |name: &str| parts.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        for name in ["decode", "serialise"].into_iter().chain(has_unit.then_some("unit turn")) {
            let [span] = of(name)[..] else { panic!("{name} once: {parts:?}") };
            assert_eq!((span.place, span.context.trace), (Place::Accelerator, 0xabc), "{name}");
            assert_eq!(span.parent, Some(call.context.span), "{name}");
            assert!(call.begin <= span.begin && span.begin <= span.end && span.end <= call.end, "{name}");
        }
        assert!(of("decode")[0].end <= of("serialise")[0].begin);
        // The other kernel has no unit.
        assert_eq!(parts.iter().filter(|span| span.name.starts_with("unit")).count(), usize::from(has_unit));
    }
}

#[test]
fn a_call_that_leaves_no_spans_leaves_none_on_lanes() {
    assert_eq!(spans(driven(), true, false), []);
}
