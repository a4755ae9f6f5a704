//! Rings between two cores: lines that travel, and the code at both ends.
//!
//! A message of one slot is a line that one core writes and another reads. One way, lines stream, and the rate is that of lines or of the slower
//! end's code, whichever is less. A call is a line there and a line back. Several under way travel in bursts: a client sends all that it may and
//! then looks, a server takes what is there, up to its burst, and shows the replies together; bursts follow each other between two cores.

use super::Host;
use crate::kernel::{Kernel, Service, Step};
use crate::load::{Loop, closed};
use crate::sim::Sim;
use base::Picos;

/// What a server takes before it shows the replies.
const BURST: u32 = 16;

/// Messages per second through a ring that are shown `batch` at a time.
pub fn one_way(host: &Host, batch: u32) -> f64 {
    let end = host.ring.as_secs_f64() / 2.0;
    1.0 / line(host, batch).as_secs_f64().max(end)
}

/// Between lines that are shown so many at a time: measured for 1 and for 32.
fn line(host: &Host, batch: u32) -> Picos {
    let (one, many) = (host.line_single.0 as f64, host.line_batch.0 as f64);
    // A hand-over costs what singles take longer, and is shared by the batch.
    Picos((many + (one - many).max(0.0) / f64::from(batch)) as u64)
}

/// Calls over a ring pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echo {
    /// Calls per second.
    pub rate: f64,
    /// Seconds for one.
    pub round_trip: f64,
}

impl Echo {
    /// With so many calls under way, which travel in bursts of up to so many.
    pub fn of(host: &Host, window: u32) -> Echo {
        let mut kernel = Kernel::new(1);
        let client = kernel.resource("client", 1);
        let server = kernel.resource("server", 1);
        let burst = window.min(BURST);
        // In a burst a call is two messages; alone it pays for the pair's turn as well.
        let call = if window == 1 { host.echo } else { Picos(2 * host.ring.0) };
        let end = (call.0 / 2).max(if window == 1 { 0 } else { line(host, burst).0 });
        let service = Service::Fixed(Picos(end * u64::from(burst)));
        let after = Picos(host.ping_pong.0 / 2);
        let calls = u64::from(burst);
        let call = kernel.program(
            "burst",
            [
                Step::Use { at: client, service, units: calls, after },
                Step::Use { at: server, service, units: calls, after },
            ],
        );
        let bursts = u64::from(window.div_ceil(burst));
        let sim = Sim::new(kernel);
        let of = Loop { mix: call.into(), window: bursts, arguments: 1 };
        let seen = &closed(&sim, 1, &[of], Picos::from_micros(20), Picos::from_micros(200))[0];
        Echo { rate: seen.rate() * calls as f64, round_trip: seen.mean() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platforms;

    fn host() -> Host {
        Host::of(&Platforms::shipped().named("this-host").expect("it is shipped")).expect("it is complete")
    }

    #[test]
    fn one_call_is_two_trips_and_its_code() {
        let host = host();
        let wanted = host.ping_pong.plus(host.echo).as_secs_f64();
        assert!((Echo::of(&host, 1).round_trip / wanted - 1.0).abs() < 0.01);
    }

    #[test]
    fn more_calls_under_way_are_more_calls_a_second_up_to_the_cores() {
        let host = host();
        let rates = [1, 2, 4, 8, 16, 32, 64].map(|window| Echo::of(&host, window).rate);
        assert!(rates.is_sorted(), "{rates:?}");
        assert!(rates[6] <= 1.0 / host.ring.as_secs_f64() * 1.01, "no core does more than its code lets it");
    }

    #[test]
    fn batches_are_never_slower() {
        let host = host();
        assert!(one_way(&host, 32) >= one_way(&host, 1));
    }
}
