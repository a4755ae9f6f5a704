//! Calls of the fabric: what a call is in code, and a service whose handler works for as long as it is told.

use base::Clock;
use base::Nanos;
use bench::probe::timing::samples_of;
use fabric::channel::{CallOptions, Channel, Event, Options};
use fabric::connection::ConnectError;
use fabric::link::{Link, LinkOptions, memory};
use fabric::server::{self, Server};
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::status::Status;
use serve::rpc::demo::Demo;
use serve::rpc::demo::proto::demo::{EchoClient, EchoServer};
use std::error::Error;
use std::hint::black_box;
use std::thread;

/// What is said, and said again.
pub const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// Calls under way when code is timed: enough that what a turn costs is shared, few enough for the first-level cache.
const WINDOW: u64 = 16;

static WORK: ServiceDescriptor = ServiceDescriptor {
    name: "check.Work",
    methods: &[MethodDescriptor::new("Do", false, false)],
    hash: 2,
    descriptors: b"\x0a\x03\x0a\x01a",
};

/// Gives a request's body back, after so many steps.
#[derive(Clone, Copy, Debug)]
pub struct Work(pub u64);

impl Service for Work {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &WORK
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        black_box(work(self.0));
        let body = call.body().to_vec();
        call.reply_bytes(&body);
        Ok(())
    }
}

/// Its method, as clients name it.
pub const DO: &str = "check.Work/Do";

/// A multiplication and an addition, so often, each step needing the one before.
pub fn work(steps: u64) -> u64 {
    (0..steps).fold(1u64, |x, _| {
        black_box(x).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
    })
}

/// Nanoseconds of a call's code, both ends on this core: serialising, frames, routing, handler of nothing, parsing.
///
/// # Errors
/// The system gives no link.
pub fn code(span: Nanos) -> Result<Vec<f64>, Box<dyn Error>> {
    let clock = Clock::shared();
    let mut server = Server::new(server::Options::default()).service(EchoServer::new(Demo::new()));
    let (ours, theirs) = memory::pair(&LinkOptions::default())?;
    server.accept(theirs, clock.now());
    let mut serve = || _ = server.poll(clock.now());
    let mut channel = connected(ours, &mut serve)?;
    let client = EchoClient::new(&channel)?;
    let options = CallOptions::default();
    let start = |channel: &mut Channel, user| {
        let _ = client.say_async(channel, &options, user, |request| request.set_text(TEXT));
    };
    let is_right = |event: &mut Event<'_>| event.message::<serve::rpc::demo::proto::demo::SayReply>().is_ok();
    Ok(by_hand(span, &mut channel, serve, start, is_right))
}

/// A client at this end of a link, whose other end's server `serve` drives.
///
/// # Errors
/// It gives no channel.
pub fn connected(link: Box<dyn Link>, mut serve: impl FnMut()) -> Result<Channel, ConnectError> {
    let connecting = thread::spawn(move || Channel::over(link, &Options::default()));
    while !connecting.is_finished() {
        serve();
        // The other thread may have this core alone to run on.
        thread::yield_now();
    }
    connecting.join().expect("connecting does not panic")
}

/// Nanoseconds of a call that `start` starts, of [`WINDOW`] under way, both ends on this core.
pub fn by_hand(
    span: Nanos,
    channel: &mut Channel,
    mut serve: impl FnMut(),
    mut start: impl FnMut(&mut Channel, u64),
    mut is_right: impl FnMut(&mut Event<'_>) -> bool,
) -> Vec<f64> {
    let samples = samples_of(span, || {
        (0..WINDOW).for_each(|user| start(channel, user));
        channel.flush();
        let mut taken = 0;
        while taken < WINDOW as usize {
            serve();
            taken += channel.poll(WINDOW as usize, |mut event| _ = black_box(is_right(&mut event)));
        }
    });
    samples.into_iter().map(|nanos| nanos / WINDOW as f64).collect()
}

/// Gigahertz of this core: a step of [`work`] is a multiplication of three cycles and an addition of one.
pub fn clock(span: Nanos) -> Vec<f64> {
    const STEPS: u64 = 1000;
    const CYCLES: f64 = 4.0;
    let samples = samples_of(span, || work(STEPS));
    samples.into_iter().map(|nanos| CYCLES * STEPS as f64 / nanos).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_code_and_a_core_has_a_clock() {
        let calls = code(Nanos::from_millis(1)).expect("a link");
        assert!(calls.iter().all(|nanos| (1.0..1e7).contains(nanos)), "{calls:?}");
        assert!(clock(Nanos::from_millis(1)).iter().all(|ghz| (0.01..20.0).contains(ghz)));
        assert_ne!(work(3), work(4));
    }
}
