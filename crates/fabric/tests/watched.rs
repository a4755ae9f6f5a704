//! What a monitor sees of a channel and a server that are driven by one thread.

use base::clock::Clock;
use base::trace::Kind;
use fabric::channel::{CallOptions, Channel, Connecting, Options as ChannelOptions, What};
use fabric::frame::push_metadata;
use fabric::link::{LinkOptions, memory};
use fabric::monitor::trace::TRACEPARENT;
use fabric::monitor::{Context, Monitor, Options as MonitorOptions, Side, Span};
use fabric::registers::Registers;
use fabric::server::{Options, Server};
use fabric::service::{
    BoxFuture, Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor, StreamCall,
};
use fabric::status::{Code, Status};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn method(name: &'static str, server_streaming: bool) -> MethodDescriptor {
    MethodDescriptor::new(name, false, server_streaming)
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Watched",
    methods: &[method("Where", false), method("Later", false), method("Never", false), method("Two", true)],
    hash: 1,
    descriptors: b"",
};

/// `Where` answers with the traceparent for further calls.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<Responder>>>);

impl Service for Watched {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        match method {
            0 => {
                let parent = call.context().traceparent().unwrap_or_default().to_vec();
                call.reply_bytes(&parent);
            }
            1 => self.0.lock().expect("no poison").push(call.defer()),
            _ => return Err(Status::new(Code::NotFound, "never")),
        }
        Ok(())
    }

    fn stream(&self, _: usize, call: StreamCall) -> BoxFuture {
        let mut replies = call.replies::<()>();
        Box::pin(async move {
            replies.send_bytes(b"one".to_vec()).await?;
            replies.send_bytes(b"two".to_vec()).await
        })
    }
}

/// Both ends of a connection, each with a monitor.
struct Pair {
    server: Server,
    channel: Channel,
    service: Watched,
    client: Monitor,
    serving: Monitor,
}

fn monitor(traced: &str) -> Monitor {
    let registers = Registers::default();
    registers.set_live("monitor.sample", "1").expect("live");
    registers.set_live("trace.sample", traced).expect("live");
    Monitor::tuned(MonitorOptions::default(), Arc::new(registers))
}

fn pair(traced: &str) -> Pair {
    let (client, serving) = (monitor(traced), monitor("0"));
    let service = Watched::default();
    let mut server = Server::new(Options::default()).monitor(&serving).service(service.clone());
    let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("memory");
    let clock = Clock::shared();
    server.accept(theirs, clock.now());
    let options = ChannelOptions { monitor: Some(client.clone()), ..ChannelOptions::default() };
    let mut connecting = Connecting::new(ours, &options);
    let channel = loop {
        server.poll(clock.now());
        connecting = match connecting.poll(clock.now()).expect("a handshake") {
            Ok(channel) => break channel,
            Err(connecting) => connecting,
        };
    };
    Pair { server, channel, service, client, serving }
}

impl Pair {
    fn start(&mut self, name: &str, options: &CallOptions<'_>) -> fabric::channel::CallId {
        let method = self.channel.method(&format!("/test.Watched/{name}")).expect("it is served");
        self.channel.start(method, options, 0, b"").expect("room")
    }

    /// Drives both until so many outcomes were handed out; the bodies of replies.
    fn outcomes(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (mut seen, mut bodies) = (0, Vec::new());
        while seen < count {
            self.server.poll(Clock::shared().now());
            self.channel.poll(64, |event| {
                seen += usize::from(event.what.is_terminal());
                if let What::Reply(body) = event.what {
                    bodies.push(body.to_vec());
                }
            });
        }
        bodies
    }

    /// Calls started and ended of a method, as one side's monitor counts them: ended with that code.
    fn calls(&self, side: Side, name: &str, code: Code) -> (u64, u64) {
        let monitor = if side == Side::Client { &self.client } else { &self.serving };
        let snapshot = monitor.snapshot();
        let calls = &snapshot.calls[&(side, format!("/test.Watched/{name}"))];
        (calls.started, calls.ended[code as usize])
    }
}

#[test]
fn both_sides_count_every_call_and_its_outcome() {
    let mut pair = pair("0");
    for _ in 0..10 {
        pair.start("Where", &CallOptions::default());
    }
    pair.start("Never", &CallOptions::default());
    pair.start("Two", &CallOptions::default());
    pair.outcomes(12);
    let cancelled = pair.start("Later", &CallOptions::default());
    pair.start("Later", &CallOptions::within(Duration::from_micros(1)));
    pair.channel.cancel(cancelled);
    pair.outcomes(2);
    pair.start("Later", &CallOptions::default());
    pair.channel.flush();
    pair.server.poll(Clock::shared().now());
    pair.service.0.lock().expect("no poison").drain(..).for_each(|responder| responder.reply_bytes(b"late"));
    pair.outcomes(1);

    for side in [Side::Client, Side::Server] {
        assert_eq!(pair.calls(side, "Where", Code::Ok), (10, 10), "{side:?}");
        assert_eq!(pair.calls(side, "Never", Code::NotFound), (1, 1), "{side:?}");
        assert_eq!(pair.calls(side, "Two", Code::Ok), (1, 1), "{side:?}");
    }
    assert_eq!(pair.calls(Side::Client, "Later", Code::Cancelled), (3, 1));
    assert_eq!(pair.calls(Side::Client, "Later", Code::DeadlineExceeded), (3, 1));
    assert_eq!(pair.calls(Side::Client, "Later", Code::Ok), (3, 1));

    let (client, server) = (pair.client.snapshot(), pair.serving.snapshot());
    assert!(client.calls.values().all(|calls| calls.in_flight() == 0));
    let (ours, theirs) = (&client.connections[0].traffic, &server.connections[0].traffic);
    assert_eq!((ours.frames[0], ours.bytes[0]), (theirs.frames[1], theirs.bytes[1]));
    assert_eq!((client.spans, server.spans), (0, 0), "nobody asked");
    assert_eq!(client.stages[&(Side::Client, "away")].count(), 15, "each call is timed");
}

/// The span of the only call that a monitor saw, and those of its stages.
fn call_of(monitor: &Monitor) -> (Span, Vec<Span>) {
    let (mut calls, stages): (Vec<Span>, _) =
        monitor.tracer().spans().into_iter().partition(|span| span.kind != Kind::Part);
    assert_eq!(calls.len(), 1, "{calls:?}");
    (calls.remove(0), stages)
}

#[test]
fn a_call_that_the_client_samples_is_one_trace_on_both_sides() {
    let mut pair = pair("1");
    let mut metadata = Vec::new();
    let caller = Context { trace: 0xabc, span: 0xdef, sampled: false };
    assert!(push_metadata(&mut metadata, "other", b"stays"));
    assert!(push_metadata(&mut metadata, TRACEPARENT, caller.emit().as_bytes()));
    pair.start("Where", &CallOptions { metadata: &metadata, ..CallOptions::default() });
    let bodies = pair.outcomes(1);
    let (ours, our_stages) = call_of(&pair.client);
    let (theirs, their_stages) = call_of(&pair.serving);
    assert_eq!((ours.context.trace, ours.parent), (0xabc, Some(0xdef)));
    assert_eq!((theirs.context.trace, theirs.parent), (0xabc, Some(ours.context.span)));
    assert_eq!(
        bodies[0],
        theirs.context.emit().as_bytes(),
        "further calls are children of the server's span"
    );
    for (span, stages) in [(&ours, our_stages), (&theirs, their_stages)] {
        let points: Vec<_> = stages.iter().flat_map(|stage| [stage.begin, stage.end]).collect();
        assert!(stages.len() == 3 && points.is_sorted(), "{stages:?}");
        assert_eq!((points[0], points[5]), (span.begin, span.end));
    }
    // One process, one clock: the server's span lies in the client's.
    assert!(ours.begin <= theirs.begin && theirs.end <= ours.end);
}

#[test]
fn what_is_sampled_changes_while_calls_are_made() {
    let mut pair = pair("0");
    for (setting, traced) in [("0", 0), ("1", 3), ("0", 3)] {
        pair.client.registers().set_live("trace.sample", setting).expect("live");
        // The change is seen when something is published.
        pair.channel.flush();
        for _ in 0..3 {
            pair.start("Where", &CallOptions::default());
        }
        pair.outcomes(3);
        assert_eq!(pair.client.snapshot().spans, traced);
    }
}
