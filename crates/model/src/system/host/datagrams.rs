//! Requests to a server over UDP on one machine: two threads, and the kernel in the context of whoever sends.

use super::Host;
use crate::kernel::{Kernel, Service, Step};
use crate::load::{Loop, closed};
use crate::sim::Sim;
use base::Picos;

/// Who sleeps when nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asleep {
    /// Nobody: both poll.
    Nobody,
    /// Both wait in the kernel.
    Both,
}

/// What the client sees, and what it costs the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Requests per second.
    pub rate: f64,
    /// Seconds for one, in the mean.
    pub latency: f64,
    /// Seconds of the server's core for one.
    pub server: f64,
}

/// One client thread with `window` requests under way.
///
/// A thread that sleeps is woken for the first of what comes while it does: with one request under way for each, with several for a share of them
/// that the window bounds.
pub fn datagrams(host: &Host, window: u32, asleep: Asleep) -> Served {
    let mut kernel = Kernel::new(1);
    let client = kernel.resource("client", 1);
    let server = kernel.resource("server", 1);
    // Half of what is under way has come together when a thread runs, and shares its wake-up and its look at the sockets.
    let share = |span: Picos| Picos(span.0 / u64::from(window.div_ceil(2)));
    let (wake, call) = match asleep {
        Asleep::Nobody => (Picos::ZERO, Picos::ZERO),
        Asleep::Both => (share(host.wake.since(host.wake_call)), share(host.wake_call)),
    };
    let sum = |spans: &[Picos]| Service::Fixed(spans.iter().copied().fold(Picos::ZERO, Picos::plus));
    let serve = sum(&[share(host.epoll), host.udp_receive, host.request, host.get, host.udp_send, call]);
    let after = wake;
    let request = kernel.program(
        "request",
        [
            Step::Use { at: client, service: sum(&[host.udp_send, call]), units: 1, after },
            Step::Use { at: server, service: serve, units: 1, after },
            Step::Use { at: client, service: sum(&[host.udp_receive]), units: 1, after: Picos::ZERO },
        ],
    );
    let sim = Sim::new(kernel);
    let of = Loop { mix: request.into(), window: u64::from(window), arguments: 1 };
    let seen = &closed(&sim, 1, &[of], Picos::from_millis(1), Picos::from_millis(20))[0];
    Served { rate: seen.rate(), latency: seen.mean(), server: serve.mean().as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platforms;

    #[test]
    fn a_request_alone_takes_what_its_calls_take() {
        let platforms = Platforms::shipped();
        let host = Host::of(&platforms.named("this-host").expect("it is shipped")).expect("it is complete");
        let parts = [
            host.udp_send,
            host.epoll,
            host.udp_receive,
            host.request,
            host.get,
            host.udp_send,
            host.udp_receive,
        ];
        let wanted = parts.into_iter().fold(Picos::ZERO, Picos::plus).as_secs_f64();
        let awake = datagrams(&host, 1, Asleep::Nobody);
        assert!((awake.latency / wanted - 1.0).abs() < 0.01, "{} and not {wanted}", awake.latency);
        let asleep = datagrams(&host, 1, Asleep::Both);
        let woken = 2.0 * host.wake.as_secs_f64();
        assert!((asleep.latency / (wanted + woken) - 1.0).abs() < 0.01);
        let full = datagrams(&host, 64, Asleep::Nobody);
        // What waited at the client when the account began is in it too.
        assert!(full.rate > awake.rate && full.rate <= 1.02 / full.server);
    }
}
